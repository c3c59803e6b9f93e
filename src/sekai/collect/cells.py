"""`Cells`: which cells `(t, slot)` of a fragment a batch fills."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.collect.states import Indices


class Cells:
    """Row `i` of a batch belongs to slot `slots[i]`, in row `time` of the fragment, or `time[i]`.

    Args:
        time: an int, where the batch is of all slots in order and they stand in the same row; else int `(k,)`.
        slots: int `(k,)`.

    Attributes:
        here: index of these cells in columns `(T, N, ...)`.
        after: index of the cells one row later.
    """

    __slots__ = ("after", "here", "slots", "time")

    def __init__(self, time: int | Indices, slots: Indices) -> None:
        self.time, self.slots = time, slots
        self.here: Any = time if isinstance(time, int) else (time, slots)
        self.after: Any = time + 1 if isinstance(time, int) else (time + 1, slots)

    def some(self, places: Indices) -> tuple[int | Indices, Indices]:
        """Row and slots of the cells that some rows of the batch fill."""
        time = self.time if isinstance(self.time, int) else self.time[places]
        return time, self.slots[places]

    def times(self) -> Indices:
        """The row of each cell, `(k,)`."""
        return np.broadcast_to(np.asarray(self.time, np.intp), self.slots.shape)

    def before(self, length: int) -> tuple[Indices, Indices]:
        """Rows and slots of the cells that lie in the first `length` rows."""
        times = self.times()
        inside = times < length
        return times[inside], self.slots[inside]
