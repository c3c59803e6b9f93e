"""`Discrete`, `MultiDiscrete` and `MultiBinary`: gymnasium's, readable, and without guessing at arguments."""

from __future__ import annotations

from typing import Any

import gymnasium.spaces
import numpy as np
from numpy.typing import DTypeLike

from sekai.spaces.checks import dimensions, integer_dtype, whole_array, whole_number
from sekai.spaces.sharing import share
from sekai.spaces.text import array_text


class Discrete(gymnasium.spaces.Discrete[Any]):
    """The integers `start, start + 1, ..., start + n - 1`.

    Args:
        n: how many, at least 1.
        start: the smallest.
        dtype: integer dtype of the samples.
        seed: seed or generator of the samples.

    Raises:
        TypeError: `n` or `start` is no integer (`2.0` and `True` are none), or `dtype` no integer dtype.
        ValueError: `n < 1`, or the dtype cannot hold all elements.
    """

    def __init__(
        self,
        n: int | np.integer[Any],
        *,
        start: int | np.integer[Any] = 0,
        dtype: DTypeLike = np.int64,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        count = whole_number("Discrete n", n, minimum=1)
        first = whole_number("Discrete start", start)
        kind = integer_dtype("Discrete dtype", dtype)
        limits = np.iinfo(kind)
        if first < limits.min or first + count - 1 > limits.max or count > limits.max:
            raise ValueError(
                f"Discrete n={count} with start={first} does not fit dtype {kind}, which holds "
                f"{limits.min} to {limits.max}; pass a wider dtype."
            )
        super().__init__(count, seed=seed, start=first, dtype=kind)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a member, as gymnasium has it.

        The usual action, an int64 of a space of int64, is answered without gymnasium's questions about dtypes, which
        cost more than the step of a small environment's physics.
        """
        if type(x) is np.int64 and self.dtype == np.int64:
            return 0 <= int(x) - int(self.start) < int(self.n)
        return super().contains(x)

    def __repr__(self) -> str:
        start = f", start={self.start}" if self.start != 0 else ""
        return f"Discrete({self.n}{start}{_dtype_text(self.dtype)})"


class MultiDiscrete(gymnasium.spaces.MultiDiscrete[Any]):
    """Arrays of integers, entry `k` from `start[k], ..., start[k] + nvec[k] - 1`.

    Args:
        nvec: how many values each entry takes, at least 1: an array or (nested) list of any shape.
        start: the smallest value of each entry, in the shape of `nvec`; 0 by default.
        dtype: integer dtype of the samples.
        seed: seed or generator of the samples.

    Raises:
        TypeError: `nvec` or `start` holds anything but integers, or `dtype` is no integer dtype.
        ValueError: an entry of `nvec` below 1, shapes that differ, or values the dtype cannot hold.
    """

    def __init__(
        self,
        nvec: Any,
        *,
        start: Any = None,
        dtype: DTypeLike = np.int64,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        counts = whole_array("MultiDiscrete nvec", nvec)
        kind = integer_dtype("MultiDiscrete dtype", dtype)
        firsts = np.zeros(counts.shape, kind) if start is None else whole_array("MultiDiscrete start", start)
        if firsts.shape != counts.shape:
            raise ValueError(f"MultiDiscrete start has shape {firsts.shape}, but nvec has {counts.shape}.")
        if bool(np.any(counts < 1)):
            raise ValueError(f"MultiDiscrete nvec must be at least 1 everywhere, got {array_text(counts)}.")
        limits = np.iinfo(kind)
        lowest, width = firsts.astype(object), counts.astype(object)  # Python ints: no overflow in the check
        if np.any((lowest < limits.min) | (lowest + width - 1 > limits.max) | (width > limits.max)):
            raise ValueError(
                f"MultiDiscrete nvec={array_text(counts)} with start={array_text(firsts)} does not fit dtype "
                f"{kind}, which holds {limits.min} to {limits.max}; pass a wider dtype."
            )
        super().__init__(counts, dtype=kind, seed=seed, start=firsts)

    def __getitem__(self, index: Any) -> Discrete | MultiDiscrete:
        """The space of one entry (`Discrete`), or of some of them."""
        part = super().__getitem__(index)
        if isinstance(part, gymnasium.spaces.Discrete):
            return share(Discrete, part)
        return share(MultiDiscrete, part)

    def __repr__(self) -> str:
        start = f", start={array_text(self.start)}" if np.any(self.start != 0) else ""
        shape = f", shape={self.shape}" if self.nvec.ndim > 1 else ""
        return f"MultiDiscrete({array_text(self.nvec)}{shape}{start}{_dtype_text(self.dtype)})"


class MultiBinary(gymnasium.spaces.MultiBinary):
    """Arrays of zeros and ones, int8.

    Args:
        n: how many entries, or their shape as a tuple or list; at least 1 along each axis.
        seed: seed or generator of the samples.

    Raises:
        TypeError: `n` is neither an integer nor a tuple of integers.
        ValueError: an axis shorter than 1.
    """

    def __init__(self, n: Any, *, seed: int | np.random.Generator | None = None) -> None:
        if hasattr(n, "__iter__"):
            super().__init__(dimensions("MultiBinary n", n, minimum=1), seed=seed)
        else:
            super().__init__(whole_number("MultiBinary n", n, minimum=1), seed=seed)


def _dtype_text(dtype: np.dtype[Any]) -> str:
    return "" if dtype == np.int64 else f", dtype={dtype}"
