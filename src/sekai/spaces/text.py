"""How arrays appear in the text of a space: short, on one line, at the precision of their own dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SHOWN_IN_FULL = 8
SHOWN_AT_EACH_END = 3


def array_text(array: NDArray[Any]) -> str:
    """The entries in C order as a list; of more than eight, the first and the last three.

    `str` of a NumPy scalar is the shortest text that reads back as the same number of that dtype.
    """
    flat = array.reshape(-1)
    if flat.size <= SHOWN_IN_FULL:
        parts = [str(x) for x in flat]
    else:
        head, tail = flat[:SHOWN_AT_EACH_END], flat[-SHOWN_AT_EACH_END:]
        parts = [*(str(x) for x in head), "...", *(str(x) for x in tail)]
    return "[" + ", ".join(parts) + "]"


def bound_text(array: NDArray[Any]) -> str:
    """As `array_text`, but one number where all entries are equal."""
    if array.size and bool(np.all(array == array.flat[0])):
        return str(array.flat[0])
    return array_text(array)
