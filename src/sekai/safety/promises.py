"""What a policy does from given states of a system: whether it keeps the promise of its certificate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sekai.safety.opponents import ConstantOpponent, Opponent, Restarts, disturbances_of
from sekai.safety.systems.base import System

Floats = NDArray[np.float64]

#: stands for the opponent where a system has no disturbance
NOBODY = "nobody"


class Certified(Protocol):
    """What is needed of a learner: actions, and values of what it observes."""

    def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
        """Actions and policy state for observations `(N, ...)`."""
        ...

    def predict_value(self, observations: Any) -> Any:
        """Values `(N,)`."""
        ...


def keeps_promise(
    learner: Certified, system: System, states: Floats, *, steps: int, opponent: Opponent | None = None
) -> NDArray[np.bool_]:
    """Whether the policy stays safe for so many steps, or reaches the target before it fails, where there is one.

    Margins are looked at after each step, as learners are told them; the margin of the first state is not.

    Args:
        learner: its deterministic policy is used.
        system: the dynamics.
        states: to start from, `(N, S)`.
        steps: of a rollout.
        opponent: chooses the disturbances, having seen the controls, see `sekai.safety.opponents`. By default those of
            the system's `worst_disturbance`, where it declares one, else none.

    Returns:
        Bool `(N,)`.

    Raises:
        ValueError: actions or disturbances that are not finite; disturbances of another shape than `(N, D)`.
    """
    if opponent is None and system.worst_disturbance is not None:
        opponent = ConstantOpponent(system.worst_disturbance)
    if isinstance(opponent, Restarts):
        opponent.restart()
    failed, reached = np.zeros(len(states), bool), np.zeros(len(states), bool)
    for _ in range(steps):
        actions, _ = learner.predict(np.asarray(system.observe(states), np.float32), deterministic=True)
        controls = _executed(actions, system)
        chosen = None if opponent is None else _chosen(opponent, states, controls, system)
        states = system.step(states, controls, chosen)
        failed |= ~(system.g(states) >= 0) & ~reached  # a margin that is no number is no safety
        if system.provides_l:
            reached |= (system.l(states) >= 0) & ~failed
        if (failed | reached).all():
            break
    return reached if system.provides_l else ~failed


def fails_by_opponent(
    learner: Certified, system: System, states: Floats, opponents: Mapping[str, Opponent], *, steps: int
) -> dict[str, NDArray[np.bool_]]:
    """Whether the promise is broken, bool `(N,)` by the name of the opponent; `NOBODY` where there is none."""
    if not opponents:
        return {NOBODY: ~keeps_promise(learner, system, states, steps=steps)}
    return {name: ~keeps_promise(learner, system, states, steps=steps, opponent=one) for name, one in opponents.items()}


def fails_at_worst(fails: Mapping[str, NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Whether at least one of the opponents breaks the promise, which is to be chosen for each state, bool `(N,)`."""
    worst: NDArray[np.bool_] = np.any(list(fails.values()), axis=0)
    return worst


def _executed(actions: Any, system: System) -> Floats:
    """The controls that a step executes, which the opponent sees."""
    controls = np.asarray(actions, np.float64)
    bad = np.flatnonzero(~np.isfinite(controls).all(axis=-1))
    if len(bad):
        raise ValueError(
            f"The policy gave {controls[bad[0]]} for state {bad[0]} of a rollout; expected finite actions."
        )
    executed: Floats = system.control.project(controls)
    return executed


def _chosen(opponent: Opponent, states: Floats, controls: Floats, system: System) -> Floats:
    answer: Floats = np.asarray(opponent(states, controls), np.float64)
    expected = (len(states), disturbances_of(system).size)
    if answer.shape != expected or not np.isfinite(answer).all():
        given = f"shape {answer.shape}" if answer.shape != expected else "numbers that are not finite"
        raise ValueError(
            f"An opponent gave disturbances of {given}; expected finite ones of shape {expected}, one row a state."
        )
    return answer
