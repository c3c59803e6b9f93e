"""`SideTable`: what only some cells `(t, slot)` of a fragment have, in rows one after another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.collect.states import join

Indices = NDArray[np.intp]


class SideTable:
    """Rows of some cells.

    Attributes:
        time, slots: `(k,)`, the cells.
        rows: a nesting of arrays `(k, ...)`; None where there are no rows.
    """

    def __init__(self, num_slots: int, entries: list[tuple[int, Indices, Any]]) -> None:
        self._num_slots = num_slots
        self.time = np.concatenate([np.full(len(slots), t) for t, slots, _ in entries] or [np.zeros(0, np.intp)])
        self.slots = np.concatenate([slots for _, slots, _ in entries] or [np.zeros(0, np.intp)])
        self.rows = join([rows for _, _, rows in entries]) if entries else None
        keys = self.time * num_slots + self.slots
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, time: Indices, slots: Indices) -> Indices:
        """Where the rows of these cells stand in `rows`; -1 for cells without."""
        if not len(self):
            return np.full(np.shape(time), -1, np.intp)
        keys = time * self._num_slots + slots
        place = np.searchsorted(self._keys, keys).clip(max=len(self) - 1)
        return np.where(self._keys[place] == keys, self._order[place], -1)
