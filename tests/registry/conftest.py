"""A registry that a test may change: what it registers is gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sekai.registry.store import DEFAULT


@pytest.fixture(autouse=True)
def clean_registry() -> Iterator[None]:
    before = dict(DEFAULT._entries), dict(DEFAULT._loaders), DEFAULT._plugins_loaded
    yield
    DEFAULT._entries, DEFAULT._loaders, DEFAULT._plugins_loaded = before
