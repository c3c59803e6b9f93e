"""Vector environments: one API over native, sync, asyncio and process backends."""

from __future__ import annotations

from sekai.core.slots import AutoresetMode, RowKind
from sekai.vector.aio import AsyncVecEnv
from sekai.vector.arrays import shared
from sekai.vector.base import VecEnv
from sekai.vector.infos import Infos, stack_infos
from sekai.vector.native import NativeVecEnv
from sekai.vector.process import ProcVecEnv
from sekai.vector.results import VecResetResult, VecStepResult
from sekai.vector.sync import SyncVecEnv
from sekai.vector.wrapper import VecActionWrapper, VecObservationWrapper, VecRewardWrapper, VecWrapper
from sekai.vector.wrappers import VecRecordEpisodeStatistics, VecTransformObservation, VecTransformReward

__all__ = [
    "AsyncVecEnv",
    "AutoresetMode",
    "Infos",
    "NativeVecEnv",
    "ProcVecEnv",
    "RowKind",
    "SyncVecEnv",
    "VecActionWrapper",
    "VecEnv",
    "VecObservationWrapper",
    "VecRecordEpisodeStatistics",
    "VecResetResult",
    "VecRewardWrapper",
    "VecStepResult",
    "VecTransformObservation",
    "VecTransformReward",
    "VecWrapper",
    "shared",
    "stack_infos",
]
