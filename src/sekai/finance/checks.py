"""Argument checks of finance: each error names the argument, what was given and what is expected."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


def finite(name: str, value: Any) -> float:
    """`value` as a finite float."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {value!r} ({type(value).__name__}); expected a number.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} is {value!r}; expected a finite number.")
    return number


def positive(name: str, value: Any) -> float:
    """`value` as a finite float above 0."""
    number = finite(name, value)
    if number <= 0:
        raise ValueError(f"{name} is {value!r}; expected a number above 0.")
    return number


def not_negative(name: str, value: Any) -> float:
    """`value` as a finite float of at least 0."""
    number = finite(name, value)
    if number < 0:
        raise ValueError(f"{name} is {value!r}; expected a number of at least 0.")
    return number


def finite_array(name: str, value: Any, ndim: int | None = None) -> NDArray[np.float64]:
    """`value` as a float64 array of finite numbers; `ndim` axes where that is given."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} is {value!r}; expected numbers.")
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} has shape {array.shape}; expected {ndim} {'axis' if ndim == 1 else 'axes'}.")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name}{list(place) or ''} is {array[place]}; expected finite numbers.")
    return array
