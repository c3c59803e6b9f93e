"""sekai: parallel environments whose every row says what it is."""

from __future__ import annotations

from sekai.core import (
    ActionWrapper,
    AutoresetMode,
    Env,
    ObservationWrapper,
    ResetResult,
    RewardWrapper,
    RowKind,
    Spawns,
    StepResult,
    Wrapper,
)
from sekai.errors import (
    EnvAlreadyRegistered,
    EnvNotFound,
    InvalidAction,
    InvalidObservation,
    ResetRequired,
    SekaiError,
    SpaceMismatch,
    VecEnvClosed,
    VecEnvWorkerError,
)
from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiBinary, MultiDiscrete, Sequence, Tuple
from sekai.stats import EpisodeStats, InMemoryTracker, StatsTracker
from sekai.vector import (
    AsyncVecEnv,
    Infos,
    NativeVecEnv,
    ProcVecEnv,
    SyncVecEnv,
    VecActionWrapper,
    VecEnv,
    VecObservationWrapper,
    VecRecordEpisodeStatistics,
    VecResetResult,
    VecRewardWrapper,
    VecStepResult,
    VecTransformObservation,
    VecTransformReward,
    VecWrapper,
    stack_infos,
)
from sekai.wrappers import AutoReset, ClipReward, FromGymnasium, OrderEnforcing, TimeAwareObservation, TimeLimit
