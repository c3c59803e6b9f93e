"""The learners by name: mode, then algorithm."""

from __future__ import annotations

from stable_baselines3 import A2C, PPO

from sekai.safety.backups import AVOID, REACH_AVOID
from sekai.safety.learners.dqn import DqnSafety
from sekai.safety.learners.on_policy import OnPolicySafety
from sekai.safety.learners.sac import SacSafety


class SafetyPPO(OnPolicySafety, PPO):  # type: ignore[misc]
    """PPO whose values are avoid values; arguments as for `SafetyLearner`."""

    mode = AVOID


class ReachAvoidPPO(OnPolicySafety, PPO):  # type: ignore[misc]
    """PPO whose values are reach-avoid values; arguments as for `SafetyLearner`."""

    mode = REACH_AVOID


class SafetyA2C(OnPolicySafety, A2C):  # type: ignore[misc]
    """A2C whose values are avoid values; arguments as for `SafetyLearner`."""

    mode = AVOID


class ReachAvoidA2C(OnPolicySafety, A2C):  # type: ignore[misc]
    """A2C whose values are reach-avoid values; arguments as for `SafetyLearner`."""

    mode = REACH_AVOID


class SafetySAC(SacSafety):
    """SAC whose values are avoid values; arguments as for `SafetyLearner`."""

    mode = AVOID


class ReachAvoidSAC(SacSafety):
    """SAC whose values are reach-avoid values; arguments as for `SafetyLearner`."""

    mode = REACH_AVOID


class SafetyDQN(DqnSafety):
    """DQN whose values are avoid values; arguments as for `SafetyLearner`."""

    mode = AVOID


class ReachAvoidDQN(DqnSafety):
    """DQN whose values are reach-avoid values; arguments as for `SafetyLearner`."""

    mode = REACH_AVOID
