"""The contract of single environments: `Env`, `Wrapper`, their results, and the state machine of a slot."""

from __future__ import annotations

from sekai.core.env import Env
from sekai.core.results import ResetResult, StepResult
from sekai.core.slots import AutoresetMode, RowKind
from sekai.core.spawns import Spawns
from sekai.core.wrapper import ActionWrapper, ObservationWrapper, RewardWrapper, Wrapper

__all__ = [
    "ActionWrapper",
    "AutoresetMode",
    "Env",
    "ObservationWrapper",
    "ResetResult",
    "RewardWrapper",
    "RowKind",
    "Spawns",
    "StepResult",
    "Wrapper",
]
