"""Monitors: how safe it is to execute an action. A margin of at least the level of the filter means: it is.

    monitor        margin of (s, u)                           what it takes
    StateValue     V(s), whatever the action                  a value; the level has to make up for one step
    NextValue      min(g, V) of the state after s and u       a value and a `System` as model
    ActionValue    Q(s, u)                                    a value of states and actions
    AffineMonitor  a(s) · u - b(s)                            a linear condition, such as that of a barrier function
    RolloutMonitor see `sekai.safety.filters.rollout`         a model, a fallback and an invariant set

Values are functions of rows; signs are those of `sekai.safety.contract`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.safety.filters.answers import Flags, Floats, margins_of, name_of
from sekai.safety.systems.base import System

Value = Callable[[Any], Any]
Constraint = Callable[[Any], tuple[Any, Any]]


class Monitor(ABC):
    """Base class: implement `margins`."""

    @abstractmethod
    def margins(self, rows: Any, actions: NDArray[Any]) -> Floats:
        """How safe it is to execute these actions.

        Args:
            rows: of all slots, `(N, ...)`.
            actions: `(N, U)`, within the box.

        Returns:
            float64 `(N,)`.
        """

    def begin(self, slots: Flags) -> None:  # noqa: B027  # who remembers nothing need not hear of it
        """New episodes begin in these slots, bool `(N,)`; by default nothing is remembered of the old ones."""


class StateValue(Monitor):
    """V(s): the value of the state that an action is chosen in.

    It does not know the action, so it finds out one step late. A level above 0 has to make up for what one step of any
    action can take from the value; `NextValue` needs no such level.

    Args:
        value: rows -> `(N,)`.
    """

    def __init__(self, value: Value) -> None:
        self.value = value

    def margins(self, rows: Any, actions: NDArray[Any]) -> Floats:
        """V of the rows."""
        return margins_of(self.value(rows), len(actions), f"The value {name_of(self.value)}")


class NextValue(Monitor):
    """min(g, V) of the state that a step of a model leads to, at the worst of its disturbances.

    With the exact value of the sampled-time system and a fallback that keeps it, nothing ever fails, whatever is asked
    for: an action is executed only if it leads to a state from which safety can be kept. A learner's V leaves out the
    margin of its state, which is why g is added.

    Args:
        system: the model; rows are its states, `(N, S)`.
        value: states `(..., S)` -> `(...)`.
        disturbances: those that are looked at, `(K, D)`; by default the points of the system's set, whose extremes are
            the worst ones where the value is concave along them.

    Raises:
        ValueError: disturbances, and the system has none.
    """

    def __init__(self, system: System, value: Value, *, disturbances: Any = None) -> None:
        if disturbances is not None and system.disturbance is None:
            raise ValueError(f"disturbances were given, and {system} has none: leave them out.")
        self.system, self.value = system, value
        self.disturbances: list[Any] = [None]
        if system.disturbance is not None:
            points = system.disturbance.points() if disturbances is None else disturbances
            self.disturbances = list(np.asarray(points, np.float64))

    def margins(self, rows: Any, actions: NDArray[Any]) -> Floats:
        """The least of g and V, after the worst disturbance."""
        states, n = np.asarray(rows, np.float64), len(actions)
        if states.shape != (n, self.system.state_size):
            raise ValueError(
                f"The rows have shape {states.shape}; expected ({n}, {self.system.state_size}), the states of "
                f"{self.system}: give FilteredEnv(..., states=...) where observations are something else."
            )
        worst = np.full(n, np.inf)
        for disturbance in self.disturbances:
            after = self.system.step(states, actions.astype(np.float64), disturbance)
            values = margins_of(self.value(after), n, f"The value {name_of(self.value)}")
            worst = np.minimum(worst, np.minimum(values, self.system.g(after)))
        return margins_of(worst, n, f"g of {self.system}")


class ActionValue(Monitor):
    """Q(s, u): a value of states and actions, as a critic has it.

    Args:
        q: rows, actions -> `(N,)`; actions are in the units of the box.
    """

    def __init__(self, q: Callable[[Any, NDArray[Any]], Any]) -> None:
        self.q = q

    def margins(self, rows: Any, actions: NDArray[Any]) -> Floats:
        """Q of rows and actions."""
        return margins_of(self.q(rows, actions), len(actions), f"The value {name_of(self.q)}")


class AffineMonitor(Monitor):
    """a(s) · u - b(s), for a condition that is linear in the action.

    For a control-affine model s' = f(s) + G(s) u and a barrier function h, the condition that h may fall no faster than
    at a rate k is a = G^T ∇h and b = -∇h · f - k h. It is one of continuous time: between samples h may fall a little
    further, for which h needs a reserve.

    Args:
        constraint: rows -> `a (N, U), b (N,)`.
    """

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint

    def margins(self, rows: Any, actions: NDArray[Any]) -> Floats:
        """By how much the condition is met."""
        a, b = constraint_of(self.constraint, rows, actions.shape)
        return margins_of((a * actions).sum(axis=1) - b, len(actions), f"The constraint {name_of(self.constraint)}")


def constraint_of(constraint: Constraint, rows: Any, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """`a (N, U)` and `b (N,)` of a linear condition a · u >= b on actions of this shape.

    Raises:
        ValueError: other shapes, or numbers that are not finite; the message names the first bad slot.
    """
    a, b = (np.asarray(part, np.float64) for part in constraint(rows))
    who = f"The constraint {name_of(constraint)}"
    if a.shape != shape or b.shape != shape[:1]:
        raise ValueError(f"{who} gave arrays of shape {a.shape} and {b.shape}; expected {shape} and {shape[:1]}.")
    bad = np.flatnonzero(~(np.isfinite(a).all(axis=1) & np.isfinite(b)))
    if len(bad):
        raise ValueError(f"{who} gave a = {a[bad[0]]}, b = {b[bad[0]]} for slot {bad[0]}; expected finite numbers.")
    return a, b
