"""Wrappers around a whole vector environment."""

from __future__ import annotations

from sekai.vector.wrappers.episodes import VecRecordEpisodeStatistics
from sekai.vector.wrappers.masks import VecActionMaskObservation
from sekai.vector.wrappers.memory import (
    VecDelayAction,
    VecDelayObservation,
    VecFrameStackObservation,
    VecTimeAwareObservation,
)
from sekai.vector.wrappers.normalizing import VecNormalizeObservation, VecNormalizeReward
from sekai.vector.wrappers.transforms import (
    VecClipAction,
    VecClipReward,
    VecFilterObservation,
    VecFlattenObservation,
    VecRescaleAction,
    VecTransformObservation,
    VecTransformReward,
)

__all__ = [
    "VecActionMaskObservation",
    "VecClipAction",
    "VecClipReward",
    "VecDelayAction",
    "VecDelayObservation",
    "VecFilterObservation",
    "VecFlattenObservation",
    "VecFrameStackObservation",
    "VecNormalizeObservation",
    "VecNormalizeReward",
    "VecRecordEpisodeStatistics",
    "VecRescaleAction",
    "VecTimeAwareObservation",
    "VecTransformObservation",
    "VecTransformReward",
]
