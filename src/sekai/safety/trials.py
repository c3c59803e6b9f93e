"""`Trials`: what a certificate is tried on, rollouts from initial states whose value lies in a range.

`SystemTrials` draws states and steps a system, `sekai.safety.episodes` plays episodes of an environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sekai.safety.about import About, about_system
from sekai.safety.opponents import Opponent
from sekai.safety.promises import fails_by_opponent
from sekai.safety.starts import Starts

Floats = NDArray[np.float64]
Advance = Callable[[int], object]


class Played(NamedTuple):
    """Rollouts.

    Attributes:
        values: of their first states, `(N,)`.
        fails: whether the promise was broken, bool `(N,)` by opponent; `NOBODY` where there is none.
    """

    values: Floats
    fails: dict[str, NDArray[np.bool_]]


class Trials(Protocol):
    """Draws initial states, and plays from them. No state is drawn twice; those of a range are independent given it.

    Attributes:
        about: what is tried.
        opponents: names; empty where there is nothing to choose.
    """

    about: About
    opponents: tuple[str, ...]

    @property
    def drawn(self) -> int:
        """Initial states so far, those included that were not wanted."""
        ...

    @property
    def highest(self) -> float:
        """The highest value of these; -inf before there are any."""
        ...

    def values(self, low: float, high: float, count: int) -> Floats:
        """Values of fresh initial states with low <= V < high, `(N,)`; N is less than `count` where they are rare."""
        ...

    def play(self, low: float, high: float, count: int) -> Played:
        """Rollouts from fresh initial states with low <= V < high, N of them as for `values`."""
        ...

    def pool(self, count: int) -> Floats:
        """The values of about so many initial states, whatever they are."""
        ...


class SystemTrials:
    """Rollouts of a system, from the same states against each opponent.

    Args:
        starts: draws the states.
        against: opponents by name; empty for a system without a disturbance.
        steps: of a rollout.
        advance: told how many rollouts have been made, as they are made.
    """

    def __init__(
        self, starts: Starts, against: Mapping[str, Opponent], *, steps: int, advance: Advance | None = None
    ) -> None:
        self._starts, self._against, self._steps, self._advance = starts, against, steps, advance
        self.about = about_system(starts.system)
        self.opponents = tuple(against)

    @property
    def drawn(self) -> int:
        """See `Trials`."""
        return self._starts.drawn

    @property
    def highest(self) -> float:
        """See `Trials`."""
        return self._starts.highest

    def values(self, low: float, high: float, count: int) -> Floats:
        """See `Trials`."""
        return self._starts.within(low, high, count)[1]

    def play(self, low: float, high: float, count: int) -> Played:
        """See `Trials`."""
        states, values = self._starts.within(low, high, count)
        fails = fails_by_opponent(self._starts.learner, self._starts.system, states, self._against, steps=self._steps)
        if self._advance is not None:
            self._advance(len(states) * len(fails))
        return Played(values, fails)

    def pool(self, count: int) -> Floats:
        """See `Trials`."""
        return self._starts.pool(count)
