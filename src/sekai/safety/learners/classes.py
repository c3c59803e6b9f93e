"""The learners by name: mode, then algorithm."""

from __future__ import annotations

from stable_baselines3 import A2C

from sekai.safety.backups import AVOID, REACH_AVOID
from sekai.safety.learners.base import SafetyLearner
from sekai.safety.learners.dqn import DqnSafety
from sekai.safety.learners.on_policy import OnPolicySafety
from sekai.safety.learners.ppo import PpoSafety
from sekai.safety.learners.ppo_game import PpoGame
from sekai.safety.learners.sac import SacSafety
from sekai.safety.learners.sac_game import SacGame


class SafetyPPO(PpoSafety):
    """PPO whose values are avoid values; arguments as for `SafetyLearner`."""

    mode = AVOID


class ReachAvoidPPO(PpoSafety):
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


class SafetyPPO2P(PpoGame):
    """PPO of a controller that avoids failure and a disturbance that brings it about; see `GameLearner`."""

    mode = AVOID


class ReachAvoidPPO2P(PpoGame):
    """PPO of a controller that is to reach a target and a disturbance that prevents it; see `GameLearner`."""

    mode = REACH_AVOID


class SafetySAC2P(SacGame):
    """SAC of a controller that avoids failure and a disturbance that brings it about; see `GameLearner`."""

    mode = AVOID


class ReachAvoidSAC2P(SacGame):
    """SAC of a controller that is to reach a target and a disturbance that prevents it; see `GameLearner`."""

    mode = REACH_AVOID


#: (mode, algorithm, players) -> class
LEARNERS: dict[tuple[str, str, int], type[SafetyLearner]] = {
    (learner.mode, algorithm, learner.players): learner
    for algorithm, group in {
        "ppo": (SafetyPPO, ReachAvoidPPO, SafetyPPO2P, ReachAvoidPPO2P),
        "a2c": (SafetyA2C, ReachAvoidA2C),
        "sac": (SafetySAC, ReachAvoidSAC, SafetySAC2P, ReachAvoidSAC2P),
        "dqn": (SafetyDQN, ReachAvoidDQN),
    }.items()
    for learner in group
}


def resolve_learner(mode: str, algorithm: str, players: int = 1) -> type[SafetyLearner]:
    """The learner of a mode, an algorithm and a number of players.

    Args:
        mode: `"avoid"` or `"reach-avoid"`.
        algorithm: `"ppo"`, `"sac"`, `"a2c"` or `"dqn"`.
        players: 1, or 2 with a disturbance that learns.

    Raises:
        ValueError: there is no such learner; the message lists those that there are.

    Example:
        >>> resolve_learner("avoid", "ppo").__name__
        'SafetyPPO'
    """
    try:
        return LEARNERS[mode, algorithm.lower(), players]
    except KeyError:
        known = ", ".join(f"({m!r}, {a!r}, {p})" for m, a, p in LEARNERS)
        raise ValueError(f"No learner of ({mode!r}, {algorithm!r}, {players}); there are {known}.") from None
