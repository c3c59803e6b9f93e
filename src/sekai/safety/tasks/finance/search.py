"""The largest number that holds, where all smaller ones do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sekai.safety.arrays import namespace

#: halves an interval down to the digits of a float
HALVINGS = 50


def largest_that_holds(holds: Callable[[Any], Any], high: Any) -> Any:
    """The largest numbers in [0, high] that hold, `(...)`; 0 where none does.

    Args:
        holds: `(...)` -> bool `(...)`; where it holds for a number it does for all from 0 up to that.
        high: `(...)`.
    """
    xp = namespace(high)
    low, top, ends = xp.zeros_like(high), high, holds(high)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + top)
        safe = holds(middle)
        low, top = xp.where(safe, middle, low), xp.where(safe, top, middle)
    return xp.where(ends, high, low)
