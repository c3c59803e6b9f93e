"""OptimalExecution-v0: trade a large order in slices, against impact and risk."""

from __future__ import annotations

from sekai.envs.finance.execution.env import OptimalExecutionEnv
from sekai.envs.finance.execution.vec import OptimalExecutionVecEnv

__all__ = ["OptimalExecutionEnv", "OptimalExecutionVecEnv"]
