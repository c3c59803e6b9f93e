"""`Box`: gymnasium's, with a readable text and bounds that may be lists."""

from __future__ import annotations

from typing import Any

import gymnasium.spaces
import numpy as np
from numpy.typing import DTypeLike, NDArray

from sekai.spaces.checks import dimensions
from sekai.spaces.text import bound_text


class Box(gymnasium.spaces.Box[Any]):
    """Arrays of a fixed shape whose entries lie between `low` and `high` (bounds included).

    Args:
        low: lower bounds: one number, or an array or (nested) list of shape `shape`; `-inf` for none.
        high: upper bounds, in the same forms; `inf` for none.
        shape: shape of the elements. By default that of `low` or `high`, and `(1,)` if both are numbers.
        dtype: integer, floating or bool dtype of the elements. Bounds are rounded to it.
        seed: seed or generator of the samples.

    Raises:
        TypeError: a bound holds no numbers, or `shape` is no tuple of integers.
        ValueError: shapes that differ, `low > high`, NaN, a bound the dtype cannot hold.

    Example:
        >>> Box([-1.0, 0.0], [1.0, np.inf])
        Box([-1.0, 0.0], [1.0, inf], (2,), float32)
    """

    def __init__(
        self,
        low: Any,
        high: Any,
        shape: Any = None,
        dtype: DTypeLike = np.float32,
        *,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        if dtype is None:
            raise TypeError("Box dtype must be an integer, floating or bool dtype, got None.")
        kind = np.dtype(dtype)
        super().__init__(
            _bound("low", low, kind),
            _bound("high", high, kind),
            None if shape is None else dimensions("Box shape", shape),
            dtype=kind,
            seed=seed,
        )

    def sample(self, mask: None = None, probability: None = None) -> NDArray[Any]:
        """A random element, as gymnasium draws it; `mask` and `probability` must be None."""
        # gymnasium's integer boxes of shape () give a scalar, which is no element of the space.
        return np.asarray(super().sample(mask, probability))

    def contains(self, x: Any) -> bool:
        """Whether `x` has the shape, a dtype that casts safely, and lies inside the bounds."""
        # A NumPy scalar is what a row of a batch of shape-() boxes is; gymnasium would warn of it.
        return super().contains(np.asarray(x) if isinstance(x, np.generic) else x)

    def __repr__(self) -> str:
        return f"Box({bound_text(self.low)}, {bound_text(self.high)}, {self.shape}, {self.dtype})"


def tile_box(box: gymnasium.spaces.Box[Any], lead: tuple[int, ...]) -> Box:
    """`box` repeated along new leading axes: shape `(*lead, *box.shape)`, without a generator."""
    shape = (*lead, *box.shape)
    tiled = Box(_repeat(box.low, shape), _repeat(box.high, shape), dtype=box.dtype)
    # An unbounded side of an integer box is stored as the dtype's limit, so the array alone cannot tell.
    tiled.bounded_below = _repeat(box.bounded_below, shape)
    tiled.bounded_above = _repeat(box.bounded_above, shape)
    return tiled


def _repeat(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    return np.broadcast_to(array, shape).copy()


def _bound(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    """`value` in the form gymnasium takes: a number, or an array of its own that can be written to."""
    if isinstance(value, (list, tuple)):
        try:
            value = np.asarray(value)
        except ValueError as error:
            raise ValueError(f"Box {name} must be a regular array of numbers, got {value!r}.") from error
    is_array = isinstance(value, np.ndarray)
    if is_array:
        if value.dtype.kind not in "iufb":
            raise TypeError(f"Box {name} must hold numbers, got dtype {value.dtype}.")
        value = value.copy()
    elif isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"Box {name} must be a number or an array, got {value!r} ({type(value).__name__}).")
    array = np.asarray(value)
    if array.dtype.kind == "f":
        finite = array[np.isfinite(array)]
        if dtype.kind in "iub" and bool(np.any(finite != np.floor(finite))):
            raise ValueError(f"Box {name} must be whole numbers for dtype {dtype}, got {value}.")
        if is_array and dtype.kind == "f" and dtype != array.dtype:
            # Cast here because gymnasium warns of every bound of another precision.
            if dtype.itemsize < array.dtype.itemsize and bool(np.any(np.abs(finite) > np.finfo(dtype).max)):
                raise ValueError(f"Box {name} holds a value that {dtype} cannot represent: {value}.")
            return array.astype(dtype)
    return value
