"""Wrappers around one environment."""

from __future__ import annotations

from sekai.wrappers.action import ClipAction, RescaleAction
from sekai.wrappers.autoreset import AutoReset
from sekai.wrappers.episodes import RecordEpisodeStatistics
from sekai.wrappers.gymnasium import FromGymnasium
from sekai.wrappers.masks import ActionMaskObservation
from sekai.wrappers.memory import ActionRepeat, DelayAction, DelayObservation, FrameStackObservation, StickyAction
from sekai.wrappers.observation import (
    DtypeObservation,
    FilterObservation,
    FlattenObservation,
    NormalizeObservation,
    RescaleObservation,
    TransformObservation,
)
from sekai.wrappers.order import OrderEnforcing
from sekai.wrappers.reward import ClipReward, NormalizeReward, TransformReward
from sekai.wrappers.sequence import PadSequenceObservation
from sekai.wrappers.time import TimeAwareObservation, TimeLimit

__all__ = [
    "ActionMaskObservation",
    "ActionRepeat",
    "AutoReset",
    "ClipAction",
    "ClipReward",
    "DelayAction",
    "DelayObservation",
    "DtypeObservation",
    "FilterObservation",
    "FlattenObservation",
    "FrameStackObservation",
    "FromGymnasium",
    "NormalizeObservation",
    "NormalizeReward",
    "OrderEnforcing",
    "PadSequenceObservation",
    "RecordEpisodeStatistics",
    "RescaleAction",
    "RescaleObservation",
    "StickyAction",
    "TimeAwareObservation",
    "TimeLimit",
    "TransformObservation",
    "TransformReward",
]
