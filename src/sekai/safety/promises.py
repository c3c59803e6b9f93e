"""What a policy does from given states of a system: whether it keeps the promise of its certificate."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sekai.safety.systems.base import System

Floats = NDArray[np.float64]


class Certified(Protocol):
    """What is needed of a learner: actions, and values of what it observes."""

    def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
        """Actions and policy state for observations `(N, ...)`."""
        ...

    def predict_value(self, observations: Any) -> Any:
        """Values `(N,)`."""
        ...


def keeps_promise(learner: Certified, system: System, states: Floats, *, steps: int) -> NDArray[np.bool_]:
    """Whether the policy stays safe for so many steps, or reaches the target before it fails, where there is one.

    Margins are looked at after each step, as learners are told them; the margin of the first state is not.

    Args:
        learner: its deterministic policy is used.
        system: the dynamics; a disturbance is its `worst_disturbance`.
        states: to start from, `(N, S)`.
        steps: of a rollout.

    Returns:
        Bool `(N,)`.
    """
    worst = None if system.worst_disturbance is None else np.array(system.worst_disturbance)
    failed, reached = np.zeros(len(states), bool), np.zeros(len(states), bool)
    for _ in range(steps):
        actions, _ = learner.predict(np.asarray(system.observe(states), np.float32), deterministic=True)
        states = system.step(states, np.asarray(actions, np.float64), worst)
        failed |= (system.g(states) < 0) & ~reached
        if system.provides_l:
            reached |= (system.l(states) >= 0) & ~failed
        if (failed | reached).all():
            break
    return reached if system.provides_l else ~failed
