"""Opponents: what chooses the disturbance while a certificate is tried.

An opponent is a function of states `(N, S)` and of the controls `(N, U)` that it has seen before it answers, in the
units of the system's sets; it returns disturbances `(N, D)`, which `System.step` projects into the set.

    zero     no disturbance
    random   points of the set, spread evenly, drawn anew in every step
    worst    the one that the system declares to be the worst in every state
    greedy   of some points of the set the one after which a given value is lowest

With the exact value of a game the greedy one is the exact worst response, up to the points it looks at. With a learned
value it is only as good as that value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sekai.safety.systems.base import System, largest, smallest
from sekai.safety.systems.sets import Bounded

Floats = NDArray[np.float64]
Value = Callable[[Any], Any]


class Opponent(Protocol):
    """Chooses disturbances."""

    def __call__(self, states: Any, controls: Any, /) -> Any:
        """Disturbances `(N, D)` for states `(N, S)` and the controls chosen there, `(N, U)`."""
        ...


@runtime_checkable
class Restarts(Protocol):
    """An opponent with a memory, such as a random stream, which every set of rollouts begins anew."""

    def restart(self) -> None:
        """Forget everything."""
        ...


@runtime_checkable
class HasOpponents(Protocol):
    """A learner that has met opponents, such as those of a league."""

    def opponents(self, system: System) -> dict[str, Opponent]:
        """Those that its certificate has to hold against, by name."""
        ...


class ConstantOpponent:
    """The same disturbance always.

    Args:
        disturbance: `(D,)`.
    """

    def __init__(self, disturbance: Any) -> None:
        self.disturbance = np.array(disturbance, np.float64)

    def __call__(self, states: Any, controls: Any) -> Floats:
        """That disturbance for each state."""
        return np.broadcast_to(self.disturbance, (len(states), *self.disturbance.shape))


class RandomOpponent:
    """Points of a set, spread evenly, from a stream of its own.

    Args:
        bounded: the set.
        seed: of the stream, which `restart` begins anew.
    """

    def __init__(self, bounded: Bounded, *, seed: int = 0) -> None:
        self.bounded, self.seed = bounded, seed
        self.restart()

    def restart(self) -> None:
        """Begin the stream anew."""
        self._rng = np.random.default_rng(self.seed)

    def __call__(self, states: Any, controls: Any) -> Floats:
        """A point for each state."""
        points: Floats = self.bounded.sample(self._rng.random((len(states), self.bounded.size)))
        return points


class GreedyOpponent:
    """Of some points of the set the one after which the controller stands worst, by a given value.

    After a state it counts min(g, V), with a target min(g, max(l, V)): right for a value that leaves out the margins of
    its state, as those of learners and of `truth_of` do, and for one that includes them. Where points are as bad as
    each other, it takes the first.

    Args:
        value: of states `(..., S)`, `(...)`.
        system: the dynamics.
        points: those to choose from, `(K, D)`; by default the points of the system's set.

    Raises:
        ValueError: the system has no disturbance.
    """

    def __init__(self, value: Value, system: System, *, points: Any = None) -> None:
        self.value, self.system = value, system
        self.points: Floats = np.asarray(disturbances_of(system).points() if points is None else points, np.float64)

    def __call__(self, states: Any, controls: Any) -> Floats:
        """The worst of the points for each state."""
        after = [self._standing(self.system.step(states, controls, point)) for point in self.points]
        chosen: Floats = self.points[np.argmin(np.stack(after), axis=0)]
        return chosen

    def _standing(self, states: Any) -> Any:
        worth = self.value(states)
        if self.system.provides_l:
            worth = largest(self.system.l(states), worth)
        return smallest(self.system.g(states), worth)


def named_opponents(system: System, *, seed: int = 0) -> dict[str, Opponent]:
    """The opponents that need nothing but the system: "zero", "random", and "worst" where it declares one.

    Args:
        system: with a disturbance.
        seed: of the random one.

    Raises:
        ValueError: the system has no disturbance.
    """
    bounded = disturbances_of(system)
    named: dict[str, Opponent] = {
        "zero": ConstantOpponent(np.zeros(bounded.size)),
        "random": RandomOpponent(bounded, seed=seed),
    }
    if system.worst_disturbance is not None:
        named["worst"] = ConstantOpponent(system.worst_disturbance)
    return named


def opponents_for(
    learner: Any, system: System, value: Value, *, opponents: Mapping[str, Opponent] | None = None, seed: int = 0
) -> dict[str, Opponent]:
    """Those that a certificate is tried against; none for a system without a disturbance.

    Where none are given: the declared worst one alone, since no other can do more, else those of `named_opponents`, a
    greedy one, and those that the learner has met.

    Args:
        learner: asked for `opponents(system)` where it has that.
        system: the dynamics.
        value: what the greedy one goes by.
        opponents: given ones, by name, which then are all.
        seed: of the random one.

    Raises:
        TypeError: `system` is none, such as an environment.
        ValueError: opponents were given, and are none, or the system has no disturbance.
    """
    if not isinstance(system, System):
        raise TypeError(
            f"system is {system!r}; expected a System, dynamics as a function of states: an environment alone has none."
        )
    if opponents is not None:
        if not opponents:
            raise ValueError("opponents is empty; expected at least one by name, or None for the usual ones.")
        disturbances_of(system)
        return dict(opponents)
    if system.disturbance is None:
        return {}
    named = named_opponents(system, seed=seed)
    if "worst" in named:
        return {"worst": named["worst"]}
    met = learner.opponents(system) if isinstance(learner, HasOpponents) else {}
    return {**named, "greedy": GreedyOpponent(value, system), **met}


def disturbances_of(system: System) -> Bounded:
    """The disturbances of a system that has some.

    Raises:
        ValueError: it has none.
    """
    if system.disturbance is None:
        raise ValueError(f"{system} has no disturbance, so there is nothing for an opponent to choose.")
    return system.disturbance
