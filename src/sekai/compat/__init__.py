"""Adapters: sekai vector environments for Stable-Baselines3 and gymnasium, and gymnasium's for sekai."""

from __future__ import annotations

from sekai.compat.to_sb3 import to_sb3

__all__ = ["to_sb3"]
