"""The learners by name: mode, then algorithm."""

from __future__ import annotations

from stable_baselines3 import PPO

from sekai.safety.backups import AVOID, REACH_AVOID
from sekai.safety.learners.on_policy import OnPolicySafety


class SafetyPPO(OnPolicySafety, PPO):  # type: ignore[misc]
    """PPO whose values are avoid values."""

    mode = AVOID


class ReachAvoidPPO(OnPolicySafety, PPO):  # type: ignore[misc]
    """PPO whose values are reach-avoid values."""

    mode = REACH_AVOID
