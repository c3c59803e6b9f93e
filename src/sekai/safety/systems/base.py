"""`System`: dynamics with margins, written once for NumPy arrays and torch tensors.

Signs, shapes and time:

    state        (..., S)  any leading axes; the numbers and their units are those of the class
    control      (..., U)  what the player who wants safety chooses, held for `dt` seconds
    disturbance  (..., D)  what the other player chooses, held likewise, having seen the control
    g(state)     (...)     safety margin: g >= 0 outside the failure set
    l(state)     (...)     target margin: l >= 0 inside the target. An avoid system has none, which is not l = 0

`step` gives the state one `dt` later; a transition carries g and l of that later state.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sekai.safety.arrays import namespace
from sekai.safety.systems.sets import Bounded, BoxSet
from sekai.spaces.checks import whole_number


@dataclass(frozen=True, kw_only=True)
class System(ABC):
    """Base class; a frozen dataclass that adds its parameters as fields, and says `state_names`, `observation_size`,
    `control`, `reset_low`, `reset_high`, `g_max`, `g` and `_advance`; see `docs/how-to/system.md`.

    Attributes:
        dt: seconds between two decisions.
        time_limit: steps after which an episode is cut.
    """

    dt: float = 0.05
    time_limit: int = 100

    #: what the numbers of a state are, one name each
    state_names: ClassVar[tuple[str, ...]]
    #: those of them that are angles, in rad, of period 2 pi
    angles: ClassVar[tuple[str, ...]] = ()
    #: those of them that are whole numbers
    whole: ClassVar[tuple[str, ...]] = ()
    #: numbers of an observation
    observation_size: ClassVar[int]

    def __post_init__(self) -> None:
        whole_number("time_limit", self.time_limit, minimum=1)
        self._check_positive("dt")

    @property
    def state_size(self) -> int:
        """Numbers of a state."""
        return len(self.state_names)

    @property
    def provides_l(self) -> bool:
        """Whether there is a target, and so `l`."""
        return False

    @property
    @abstractmethod
    def control(self) -> BoxSet:
        """The controls that `step` executes."""

    @property
    def disturbance(self) -> Bounded | None:
        """The disturbances that `step` admits; None for a system without."""
        return None

    @property
    def worst_disturbance(self) -> tuple[float, ...] | None:
        """The disturbance that is the worst one in every state, whatever the control; None where there is no such."""
        return None

    @property
    @abstractmethod
    def reset_low(self) -> tuple[float, ...]:
        """Lower bounds of the states that episodes start in, those included from which failure is certain."""

    @property
    @abstractmethod
    def reset_high(self) -> tuple[float, ...]:
        """Upper bounds of the states that episodes start in."""

    @property
    @abstractmethod
    def g_max(self) -> float | None:
        """The largest safety margin that any state has; None where it is not known."""

    @property
    def failure_horizon_s(self) -> float | None:
        """The longest time in seconds between a state from which failure is certain and the failure.

        None where there is no such bound, or none is known.
        """
        return None

    def step(self, state: Any, control: Any, disturbance: Any = None) -> Any:
        """The state after one step.

        Args:
            state: array or tensor `(..., S)`.
            control: `(..., U)`, projected into `control` first.
            disturbance: `(..., D)`, projected into `disturbance` first; None for none.

        Returns:
            The next state, of the shape that the leading axes have together.

        Raises:
            ValueError: a disturbance, and the system has no place for one.
        """
        if disturbance is None:
            return self._advance(state, self.control.project(control), None)
        if self.disturbance is None:
            raise ValueError(f"{type(self).__name__} was given a disturbance and has none: leave it out.")
        return self._advance(state, self.control.project(control), self.disturbance.project(disturbance))

    @abstractmethod
    def _advance(self, state: Any, control: Any, disturbance: Any) -> Any:
        """The state after one step; control and disturbance are admissible, a disturbance of None is zero."""

    @abstractmethod
    def g(self, state: Any) -> Any:
        """Safety margin `(...)` of states `(..., S)`."""

    def l(self, state: Any) -> Any:  # noqa: E743  # the name of the channel
        """Target margin `(...)` of states `(..., S)`.

        Raises:
            ValueError: the system has no target.
        """
        raise ValueError(f"{self} is an avoid system: it has no target, and no l.")

    def observe(self, state: Any) -> Any:
        """What a policy sees of states `(..., S)`, `(..., observation_size)`; by default the state."""
        return state

    def start(self, uniform: Any) -> Any:
        """States to start from, made of numbers `(..., S)` spread evenly over [0, 1)."""
        return BoxSet(self.reset_low, self.reset_high).sample(uniform)

    def _check_positive(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value!r}; expected a finite number above 0.")

    def _check_not_negative(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value!r}; expected a finite number, at least 0.")


def as_state(*parts: Any) -> Any:
    """States `(..., S)` of `S` parts, whose shapes are broadcast."""
    xp = namespace(*parts)
    broadcast = np.broadcast_arrays if xp is np else xp.broadcast_tensors
    return xp.stack(broadcast(*parts), -1)


def smallest(first: Any, *others: Any) -> Any:
    """The elementwise minimum of arrays, or of tensors."""
    for other in others:
        first = namespace(first).minimum(first, other)
    return first


def largest(first: Any, *others: Any) -> Any:
    """The elementwise maximum of arrays, or of tensors."""
    for other in others:
        first = namespace(first).maximum(first, other)
    return first
