"""Margins made of margins. A margin is a function of a state that is 0 or more where something holds.

    all_of(a, b)         min(a, b)            >= 0 where a >= 0 AND b >= 0
    any_of(a, b)         max(a, b)            >= 0 where a >= 0 OR b >= 0
    clamped(a, lo, hi)   min(max(a, lo), hi)  lo < 0 < hi: bounded, of the same sign
    scaled(a, c)         c a                  c > 0: in other units, of the same sign
    compose(a, view)     a(view(state))       the margin of a part of the state, or of another description of it

What a state is, is the caller's: an array or a tensor `(..., S)` of a system, whose margins are `(...)`, or a
`MarginState`, whose margin is one number. The margins of one `all_of` are of one kind, arrays or tensors. What is not
a number stays none: NaN is handed on.

What is made here prints as it was written, equals another that was made of the same, and can be sent to other
processes if its parts can.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from sekai.safety.arrays import namespace
from sekai.safety.systems.base import largest, smallest

Margin: TypeAlias = Callable[[Any], Any]


def all_of(*margins: Margin) -> Margin:
    """The margin of all of them together, their minimum.

    Args:
        margins: functions of the same states, at least one.

    Raises:
        TypeError, ValueError: no functions, or none at all.

    Example:
        >>> all_of(lambda x: 1.0 - x, lambda x: 1.0 + x)(0.25)  # |x| <= 1
        0.75
    """
    return _AllOf(_checked("all_of", margins))


def any_of(*margins: Margin) -> Margin:
    """The margin of at least one of them, their maximum; arguments as for `all_of`."""
    return _AnyOf(_checked("any_of", margins))


def clamped(margin: Margin, low: float, high: float) -> Margin:
    """A margin within `[low, high]`, of the same sign everywhere.

    Args:
        margin: function of states.
        low: below 0; -inf for no bound.
        high: above 0; inf for no bound.

    Raises:
        ValueError: bounds that are not around 0, with which the sign would be another.
    """
    (checked,) = _checked("clamped", (margin,))
    if not low < 0 < high:
        raise ValueError(f"The bounds are {low} and {high}; expected low < 0 < high, so that the sign of g stays.")
    return _Clamped(checked, float(low), float(high))


def scaled(margin: Margin, factor: float) -> Margin:
    """A margin in other units, of the same sign everywhere (as far as the product is no smaller than floats are).

    Args:
        margin: function of states.
        factor: above 0, finite.

    Raises:
        ValueError: another factor, with which the sign would be another.
    """
    (checked,) = _checked("scaled", (margin,))
    if not 0 < factor < math.inf:
        raise ValueError(f"The factor is {factor}; expected a finite number above 0, so that the sign of g stays.")
    return _Scaled(checked, float(factor))


def compose(margin: Margin, view: Callable[[Any], Any]) -> Margin:
    """The margin of what `view` makes of a state: a part of it, or another description.

    Args:
        margin: function of what `view` returns.
        view: function of states.

    Example:
        >>> compose(lambda speed: 0.5 - abs(speed), lambda state: state[..., 1])(np.array([3.0, 0.25]))
        np.float64(0.25)
    """
    return _Composed(*_checked("compose", (margin, view)))


def name_of(function: Any) -> str:
    """What a margin is called, the same in every process: of a function its module and name, else what it prints as."""
    name = getattr(function, "__qualname__", None)
    return repr(function) if name is None else f"{function.__module__}.{name}"


class _Named:
    """Prints as it was written."""

    def _call(self, name: str, *parts: Any) -> str:
        return f"{name}({', '.join(name_of(part) if callable(part) else repr(part) for part in parts)})"


@dataclass(frozen=True, repr=False)
class _AllOf(_Named):
    margins: tuple[Margin, ...]

    def __call__(self, state: Any) -> Any:
        return smallest(*(margin(state) for margin in self.margins))

    def __repr__(self) -> str:
        return self._call("all_of", *self.margins)


@dataclass(frozen=True, repr=False)
class _AnyOf(_Named):
    margins: tuple[Margin, ...]

    def __call__(self, state: Any) -> Any:
        return largest(*(margin(state) for margin in self.margins))

    def __repr__(self) -> str:
        return self._call("any_of", *self.margins)


@dataclass(frozen=True, repr=False)
class _Clamped(_Named):
    margin: Margin
    low: float
    high: float

    def __call__(self, state: Any) -> Any:
        value = self.margin(state)
        return namespace(value).clip(value, self.low, self.high)

    def __repr__(self) -> str:
        return self._call("clamped", self.margin, self.low, self.high)


@dataclass(frozen=True, repr=False)
class _Scaled(_Named):
    margin: Margin
    factor: float

    def __call__(self, state: Any) -> Any:
        return self.factor * self.margin(state)

    def __repr__(self) -> str:
        return self._call("scaled", self.margin, self.factor)


@dataclass(frozen=True, repr=False)
class _Composed(_Named):
    margin: Margin
    view: Callable[[Any], Any]

    def __call__(self, state: Any) -> Any:
        return self.margin(self.view(state))

    def __repr__(self) -> str:
        return self._call("compose", self.margin, self.view)


def _checked(name: str, margins: tuple[Any, ...]) -> tuple[Any, ...]:
    if not margins:
        raise ValueError(f"{name}() was given nothing; expected at least one function of states.")
    for margin in margins:
        if not callable(margin):
            raise TypeError(f"{name} was given {margin!r}; expected a function of states.")
    return margins
