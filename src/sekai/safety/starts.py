"""`Starts`: initial states of a system with values in a given range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.safety.promises import Certified
from sekai.safety.systems.base import System

Floats = NDArray[np.float64]

#: states drawn at a time, and at most for each one that is wanted
BATCH, PATIENCE = 4096, 500


class Starts:
    """Draws initial states, spread as `System.start` spreads them, without those that have failed already (g < 0).

    Those whose value lies in a range are independent draws given that range.

    Args:
        learner: whose values they are.
        system: the dynamics.
        rng: all draws come from it, one after another, so that no two sets share a state.

    Attributes:
        drawn: states so far, those included that were not wanted.
        highest: value of these; -inf before there are any.
    """

    def __init__(self, learner: Certified, system: System, rng: np.random.Generator) -> None:
        self.learner, self.system = learner, system
        self.drawn, self.highest = 0, -np.inf
        self._rng = rng

    def values_of(self, states: Any) -> Floats:
        """V of states `(..., S)`, `(...)`.

        Raises:
            ValueError: a value that is not finite, with the state that has it.
        """
        states = np.asarray(states, np.float64)
        values = self.learner.predict_value(np.asarray(self.system.observe(states), np.float32))
        rows = states.reshape(-1, states.shape[-1])
        return finite_values(values, lambda place: f"state {rows[place]}")

    def within(self, low: float, high: float, count: int) -> tuple[Floats, Floats]:
        """States with low <= V < high, and their values.

        Args:
            low, high: the range.
            count: how many; fewer come where they are so rare that `PATIENCE` draws for each do not find them.

        Returns:
            States `(N, S)` and values `(N,)`, N at most `count`.
        """
        found: list[tuple[Floats, Floats]] = []
        left, patience = count, PATIENCE * count
        while left > 0 and patience > 0:
            states = self._alive(BATCH)
            patience -= BATCH
            values = self.values_of(states)
            self.highest = max(self.highest, values.max(initial=-np.inf))
            inside = np.flatnonzero((values >= low) & (values < high))[:left]
            found.append((states[inside], values[inside]))
            left -= len(inside)
        return np.concatenate([states for states, _ in found]), np.concatenate([values for _, values in found])

    def pool(self, count: int) -> Floats:
        """The values of about so many states, whatever they are."""
        return np.concatenate([self.values_of(self._alive(BATCH)) for _ in range(-(-count // BATCH))])

    def _alive(self, count: int) -> Floats:
        states: Floats = np.asarray(self.system.start(self._rng.random((count, self.system.state_size))), np.float64)
        self.drawn += count
        alive: Floats = states[np.asarray(self.system.g(states)) >= 0]
        return alive


def finite_values(values: Any, whose: Callable[[int], str]) -> Floats:
    """Values as floats.

    Args:
        values: of any shape.
        whose: names one by its place in C order.

    Raises:
        ValueError: one that is not finite.
    """
    found: Floats = np.asarray(values, np.float64)
    bad = np.flatnonzero(~np.isfinite(found))
    if len(bad):
        raise ValueError(
            f"The value of {whose(int(bad[0]))} is {found.flat[bad[0]]} ({len(bad)} of {found.size} values are not "
            "finite); nothing can be certified by such a value."
        )
    return found
