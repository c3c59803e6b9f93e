"""Vector environments: one API over native, sync, asyncio, process and Ray backends."""

from __future__ import annotations

from sekai.core.slots import AutoresetMode, RowKind
from sekai.vector.aio import AsyncVecEnv
from sekai.vector.arrays import shared
from sekai.vector.base import VecEnv
from sekai.vector.infos import Infos, stack_infos
from sekai.vector.native import NativeVecEnv
from sekai.vector.observing import VecObservationWrapper
from sekai.vector.process import ProcVecEnv
from sekai.vector.ray import RayVecEnv
from sekai.vector.results import VecResetResult, VecStepResult
from sekai.vector.shards import NativeShards
from sekai.vector.sync import SyncVecEnv
from sekai.vector.wrapper import VecActionWrapper, VecRewardWrapper, VecWrapper
from sekai.vector.wrappers import (
    VecActionMaskObservation,
    VecClipAction,
    VecClipReward,
    VecDelayAction,
    VecDelayObservation,
    VecFilterObservation,
    VecFlattenObservation,
    VecFrameStackObservation,
    VecNormalizeObservation,
    VecNormalizeReward,
    VecRecordEpisodeStatistics,
    VecRescaleAction,
    VecTimeAwareObservation,
    VecTransformObservation,
    VecTransformReward,
)

__all__ = [
    "AsyncVecEnv",
    "AutoresetMode",
    "Infos",
    "NativeShards",
    "NativeVecEnv",
    "ProcVecEnv",
    "RayVecEnv",
    "RowKind",
    "SyncVecEnv",
    "VecActionMaskObservation",
    "VecActionWrapper",
    "VecClipAction",
    "VecClipReward",
    "VecDelayAction",
    "VecDelayObservation",
    "VecEnv",
    "VecFilterObservation",
    "VecFlattenObservation",
    "VecFrameStackObservation",
    "VecNormalizeObservation",
    "VecNormalizeReward",
    "VecObservationWrapper",
    "VecRecordEpisodeStatistics",
    "VecRescaleAction",
    "VecResetResult",
    "VecRewardWrapper",
    "VecStepResult",
    "VecTimeAwareObservation",
    "VecTransformObservation",
    "VecTransformReward",
    "VecWrapper",
    "shared",
    "stack_infos",
]
