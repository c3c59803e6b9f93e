"""Argument checks of the finance environments: each error names the argument, what was given and what is expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sekai.finance.checks import finite as finite
from sekai.finance.checks import not_negative as not_negative
from sekai.finance.checks import positive as positive


def fraction(name: str, value: Any) -> float:
    """`value` as a float in `[0, 1)`."""
    number = finite(name, value)
    if not 0 <= number < 1:
        raise ValueError(f"{name} is {value!r}; expected a number in [0, 1).")
    return number


def or_none(check: Callable[[str, Any], float]) -> Callable[[str, Any], float | None]:
    """A check that lets None pass."""
    return lambda name, value: None if value is None else check(name, value)


def one_of(*choices: str) -> Callable[[str, Any], str]:
    """A check for one of some words."""

    def check(name: str, value: Any) -> str:
        if value not in choices:
            raise ValueError(f"{name} is {value!r}; expected {' or '.join(map(repr, choices))}.")
        return str(value)

    return check


def exposures(name: str, value: Any) -> tuple[float, ...]:
    """`value` as a tuple of at least one finite float."""
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)) or np.ndim(value) != 1:
        raise TypeError(f"{name} is {value!r}; expected a sequence of target exposures such as (-1.0, 0.0, 1.0).")
    if not len(value):
        raise ValueError(f"{name} is empty; expected at least one target exposure.")
    return tuple(finite(f"{name}[{i}]", entry) for i, entry in enumerate(value))
