"""Wrappers around one environment."""

from __future__ import annotations

from sekai.wrappers.autoreset import AutoReset
from sekai.wrappers.gymnasium import FromGymnasium
from sekai.wrappers.order import OrderEnforcing
from sekai.wrappers.reward import ClipReward
from sekai.wrappers.time import TimeAwareObservation, TimeLimit

__all__ = ["AutoReset", "ClipReward", "FromGymnasium", "OrderEnforcing", "TimeAwareObservation", "TimeLimit"]
