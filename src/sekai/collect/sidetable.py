"""`SideTable`: what only some cells `(t, slot)` of a fragment have, in rows one after another."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.collect.states import join, map_state

Indices = NDArray[np.intp]
#: the rows of cells `(t, slot)`: `t` (an int where it is the same for all), slots, and the rows
Entries: TypeAlias = list[tuple[int | Indices, Indices, Any]]


class SideTable:
    """Rows of some cells.

    Args:
        num_slots: number of slots.
        time, slots: int `(k,)`, the cells.
        rows: a nesting of arrays `(k, ...)`; None where there are no rows.
    """

    def __init__(self, num_slots: int, time: Indices, slots: Indices, rows: Any) -> None:
        self.num_slots, self.time, self.slots, self.rows = num_slots, time, slots, rows
        keys = time * num_slots + slots
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]

    @classmethod
    def of(cls, num_slots: int, entries: Entries) -> SideTable:
        """A table of these entries."""
        nothing = [np.zeros(0, np.intp)]
        time = np.concatenate([np.full(len(slots), t) for t, slots, _ in entries] or nothing)
        slots = np.concatenate([slots for _, slots, _ in entries] or nothing)
        return cls(num_slots, time, slots, join([rows for _, _, rows in entries]) if entries else None)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, time: Indices, slots: Indices) -> Indices:
        """Where the rows of these cells stand in `rows`; -1 for cells without."""
        if not len(self):
            return np.full(np.shape(time), -1, np.intp)
        keys = time * self.num_slots + slots
        place = np.searchsorted(self._keys, keys).clip(max=len(self) - 1)
        return np.where(self._keys[place] == keys, self._order[place], -1)

    def since(self, t: int) -> SideTable:
        """The cells from row `t` on, counted from there."""
        kept = np.flatnonzero(self.time >= t)
        rows = map_state(lambda leaf: leaf[kept], self.rows) if len(kept) else None
        return SideTable(self.num_slots, self.time[kept] - t, self.slots[kept], rows)

    def then(self, other: SideTable, t: int) -> SideTable:
        """These cells and those of another table, whose row 0 is row `t` here."""
        parts = [table.rows for table in (self, other) if len(table)]
        return SideTable(
            self.num_slots,
            np.concatenate([self.time, other.time + t]),
            np.concatenate([self.slots, other.slots]),
            join(parts) if parts else None,
        )
