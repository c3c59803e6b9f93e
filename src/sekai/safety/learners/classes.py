"""The learners by name: mode, then algorithm."""

from __future__ import annotations

from typing import Any

from stable_baselines3 import A2C, PPO

from sekai.safety.backups import AVOID, REACH_AVOID
from sekai.safety.learners.base import SafetyLearner
from sekai.safety.learners.dqn import DqnSafety
from sekai.safety.learners.on_policy import OnPolicySafety
from sekai.safety.learners.sac import SacSafety


class PpoSafety(OnPolicySafety, PPO):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """PPO of either mode; rollouts and batches grow with the number of slots unless they are given."""

    def _sb3_options(self, num_envs: int, given: dict[str, Any]) -> dict[str, Any]:
        n_steps = given.get("n_steps", max(100, 2048 // num_envs))
        rows = n_steps * num_envs
        most = max(1, min(10, rows // 64))
        batches = next(count for count in range(most, 0, -1) if rows % count == 0)
        options = {"n_steps": n_steps, "batch_size": rows // batches, "n_epochs": 5}
        return {**super()._sb3_options(num_envs, given), **options}


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


#: (mode, algorithm, players) -> class
LEARNERS: dict[tuple[str, str, int], type[SafetyLearner]] = {
    (learner.mode, algorithm, 1): learner
    for algorithm, pair in {
        "ppo": (SafetyPPO, ReachAvoidPPO),
        "a2c": (SafetyA2C, ReachAvoidA2C),
        "sac": (SafetySAC, ReachAvoidSAC),
        "dqn": (SafetyDQN, ReachAvoidDQN),
    }.items()
    for learner in pair
}


def resolve_learner(mode: str, algorithm: str, players: int = 1) -> type[SafetyLearner]:
    """The learner of a mode, an algorithm and a number of players.

    Args:
        mode: `"avoid"` or `"reach-avoid"`.
        algorithm: `"ppo"`, `"sac"`, `"a2c"` or `"dqn"`.
        players: 1.

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
