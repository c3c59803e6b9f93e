"""Adapters: sekai vector environments for Stable-Baselines3 and gymnasium, gymnasium's and PettingZoo's for sekai."""

from __future__ import annotations

from sekai.compat.from_gymnasium import from_gymnasium_vector
from sekai.compat.from_pettingzoo import from_pettingzoo
from sekai.compat.to_gymnasium import to_gymnasium_vector
from sekai.compat.to_sb3 import to_sb3

__all__ = ["from_gymnasium_vector", "from_pettingzoo", "to_gymnasium_vector", "to_sb3"]
