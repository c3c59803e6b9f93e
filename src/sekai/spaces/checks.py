"""Argument checks of the space constructors: each error names the argument and the value given."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray


def whole_number(name: str, value: Any, *, minimum: int | None = None) -> int:
    """`value` as an int. `True`, `2.0` and `"2"` are refused: they are more often slips than counts.

    Raises:
        TypeError: `value` is no integer.
        ValueError: `value` is below `minimum`.
    """
    expected = "an int" if minimum is None else f"an int of at least {minimum}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} is {value!r}; expected {expected}.")
    if minimum is not None and value < minimum:
        raise ValueError(f"{name} is {int(value)}; expected {expected}.")
    return int(value)


def has_masked_entries(value: Any) -> bool:
    """Whether `value` is a masked array that hides some entries; NumPy would hand on what is behind the mask."""
    module = sys.modules.get("numpy.ma")  # not imported for the question: without it there are no such arrays
    return module is not None and bool(module.is_masked(value))


def dimensions(name: str, value: Any, *, minimum: int = 0) -> tuple[int, ...]:
    """`value` as a shape: a tuple, list or 1-D array of integers of at least `minimum`."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise TypeError(f"{name} must be a tuple of integers, got {value!r} ({type(value).__name__}).")
    return tuple(whole_number(f"{name}[{axis}]", size, minimum=minimum) for axis, size in enumerate(value))


def whole_array(name: str, value: Any) -> NDArray[np.integer[Any]]:
    """`value` as an array of integers with at least one axis; floats and booleans are refused."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be a regular array of integers, got {value!r}.") from error
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got {value!r} (dtype {array.dtype}).")
    if array.ndim == 0:
        raise ValueError(f"{name} must have at least one axis, got the single number {value!r}.")
    return array


def integer_dtype(name: str, value: Any) -> np.dtype[Any]:
    """`value` as an integer dtype."""
    if value is None:
        raise TypeError(f"{name} must be an integer dtype, got None.")
    dtype: np.dtype[Any] = np.dtype(value)
    if dtype.kind not in "iu":
        raise TypeError(f"{name} must be an integer dtype, got {dtype}.")
    return dtype
