"""The environments that come with sekai; importing this package registers their ids."""

from __future__ import annotations

from sekai.envs.builtin import CLASSIC_CONTROL, OWN

__all__ = ["CLASSIC_CONTROL", "OWN"]
