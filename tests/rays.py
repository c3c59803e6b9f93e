"""Ray as one backend among others in a parametrised test."""

from __future__ import annotations

from typing import Any

import pytest


def on_ray(*values: Any) -> Any:
    """A parameter set whose test calls `start_ray`."""
    return pytest.param(*values, marks=pytest.mark.filterwarnings("ignore::ResourceWarning"))  # of Ray's own pipes


def start_ray(backend: str, request: pytest.FixtureRequest) -> None:
    """Let the Ray of this file run where the backend is one of Ray's."""
    if "ray" in backend.split():
        request.getfixturevalue("ray_here")
