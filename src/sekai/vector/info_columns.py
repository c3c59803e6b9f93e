"""Infos in shared memory: keys that recur on every step as columns, the rest pickled.

The infos of most steps have the same keys with numbers and small arrays as values. A worker describes such infos once,
as an `InfoForm`, and from then on writes only the values, a column per key, into the rows of its slots on the `Board`.
A slot whose info does not fit the form, such as one whose episode has ended, sends its dict instead.

    infos of a worker       form (sent when it changes)       columns (shared)     odd (pickled)
    {"t": 3}                ("t", int, int64)                 t = 3                {}
    {"t": 8, "end": "x"}                                      t = -                {1: {"t": 8, "end": "x"}}
    {"t": 5}                                                  t = 5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.vector.board import INFO_BYTES
from sekai.vector.infos import Infos, item

#: classes whose values a column gives back as they were, besides dates and arrays
_NUMBERS = {bool: np.dtype(np.bool_), int: np.dtype(np.int64), float: np.dtype(np.float64)}


class Column(NamedTuple):
    """One key: the class of its values, and their shape and dtype."""

    name: str
    kind: type
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


InfoForm = tuple[Column, ...]


class InfoNews(NamedTuple):
    """What the infos of one call have besides the columns.

    Attributes:
        form: the form of the columns, where it is another one than before.
        odd: the infos of slots that have none, by slot of the share.
    """

    form: InfoForm | None
    odd: dict[int, dict[str, Any]]


class InfoWriter:
    """A worker's end: writes the infos of its slots.

    Args:
        rows: uint8 `(count, INFO_BYTES)`, the worker's rows of the board.
    """

    def __init__(self, rows: NDArray[np.uint8]) -> None:
        self._rows = rows
        self._form: InfoForm | None = None
        self._names: tuple[str, ...] = ()
        self._columns: list[NDArray[Any]] = []

    def write(self, infos: Infos) -> InfoNews | None:
        """Write what fits; None when all has been said by that."""
        split = infos.split()
        form = None if split is None else form_of_columns(split[0])
        if split is not None and form is not None:
            return self._write_columns(form, *split, infos)
        dicts = list(infos)
        values = self._all_values(dicts)
        if values is None:
            return self._write_some(dicts)
        return None if self._filled(values) else InfoNews(None, dict(enumerate(dicts)))

    def _write_columns(
        self, form: InfoForm, columns: Mapping[str, NDArray[Any]], more: Sequence[int], infos: Infos
    ) -> InfoNews | None:
        """`write`, of infos that are columns already; the slots in `more` have further keys."""
        news = None if form == self._form else form
        if news is not None:
            self._take(form)
        for place, values in zip(self._columns, columns.values(), strict=True):
            place[:] = values
        odd = {slot: infos[slot] for slot in more}
        return InfoNews(news, odd) if odd or news is not None else None

    def _filled(self, values: Sequence[Sequence[Any]]) -> bool:
        """Write the columns; False where an int takes more than 64 bits."""
        try:
            for column, entries in zip(self._columns, values, strict=True):
                column[:] = entries
        except OverflowError:
            return False
        return True

    def _write_some(self, dicts: Sequence[dict[str, Any]]) -> InfoNews:
        alike, news = self._alike(dicts), None
        if not alike:  # another form, if some info has one
            form = next((form for form in map(form_of, dicts) if form is not None), None)
            if form is not None and form != self._form:
                self._take(form)
                alike, news = self._alike(dicts), form
        odd = set(range(len(dicts))).difference(alike)
        if alike:
            # what is written for an odd slot means nothing, and so may be another's
            values = self._all_values([dicts[alike[0] if slot in odd else slot] for slot in range(len(dicts))])
            assert values is not None
            if not self._filled(values):
                odd = set(range(len(dicts)))
        return InfoNews(news, {slot: dicts[slot] for slot in sorted(odd)})

    def _all_values(self, dicts: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]] | None:
        """The values of every key, where all infos fit the form; None otherwise.

        Every step of every worker comes here: what is asked of each slot is asked by `count`, which needs no loop.
        """
        n = len(dicts)
        if self._form is None or list(map(tuple, dicts)).count(self._names) != n:
            return None
        values = list(zip(*map(dict.values, dicts), strict=True))
        for column, entries in zip(self._form, values, strict=True):
            if list(map(type, entries)).count(column.kind) != n:
                return None
            if column.kind not in _NUMBERS and [(v.shape, v.dtype) for v in entries].count(column[2:]) != n:
                return None
        return values

    def _take(self, form: InfoForm) -> None:
        self._form, self._columns = form, columns_in(self._rows, form)
        self._names = tuple(column.name for column in form)

    def _alike(self, dicts: Sequence[dict[str, Any]]) -> list[int]:
        """The slots whose info fits the form; those that have its keys mostly do."""
        alike = [slot for slot, info in enumerate(dicts) if tuple(info) == self._names]
        if self._form is None or (alike and self._all_values([dicts[slot] for slot in alike]) is None):
            alike = [slot for slot in alike if self._all_values([dicts[slot]]) is not None]
        return alike


def form_of(info: dict[str, Any]) -> InfoForm | None:
    """The form of an info, None where some value is no number, date or array, or all of them are too large."""
    columns = []
    for name, value in info.items():
        kind = type(value)
        if kind in _NUMBERS:
            columns.append(Column(name, kind, (), _NUMBERS[kind]))
        elif isinstance(value, (np.datetime64, np.timedelta64)):
            columns.append(Column(name, kind, (), value.dtype))
        elif kind is np.ndarray and value.ndim and value.dtype.kind in "biufmM" and value.dtype.isnative:
            columns.append(Column(name, kind, value.shape, value.dtype))
        else:
            return None
    # each column begins at a multiple of 8 bytes, so that it may take up to 7 more than it needs
    size = sum(_bytes(column) for column in columns)
    return tuple(columns) if size <= INFO_BYTES - 8 else None


def form_of_columns(columns: Mapping[str, NDArray[Any]]) -> InfoForm | None:
    """The form of infos that are columns; None where it has none, or a column may hold what its place cannot."""
    if any(values.dtype == np.uint64 for values in columns.values()):
        return None
    return form_of({name: item(values, 0) for name, values in columns.items()})


def columns_in(rows: NDArray[np.uint8], form: InfoForm) -> list[NDArray[Any]]:
    """The columns of a form, one entry per row of `rows`, in the memory of these rows."""
    memory, count, offset, columns = rows.reshape(-1), len(rows), 0, []
    for column in form:
        size = _bytes(column) * count
        part = memory[offset : offset + count * _packed(column)]
        columns.append(part.view(column.dtype).reshape(count, *column.shape))
        offset += size
    return columns


def _packed(column: Column) -> int:
    return int(np.prod(column.shape, dtype=np.int64)) * column.dtype.itemsize


def _bytes(column: Column) -> int:
    """Bytes of one entry, rounded up so that the next column begins where any dtype may."""
    return -(-_packed(column) // 8) * 8


class InfoReader:
    """The caller's end: the infos of all slots, from the columns and the news of every worker.

    Args:
        rows: uint8 `(N, INFO_BYTES)`, the rows of the board.
        bounds: `[lo, hi)` of each worker's slots.
    """

    def __init__(self, rows: NDArray[np.uint8], bounds: Sequence[tuple[int, int]]) -> None:
        self._rows, self._bounds = rows, bounds
        self._forms: list[InfoForm | None] = [None] * len(bounds)
        self._columns: list[list[NDArray[Any]]] = [[] for _ in bounds]
        self._joint: list[tuple[str, tuple[NDArray[Any], ...]]] | None = []  # of all workers; None: their forms differ
        self._no_news = [None] * len(bounds)

    def learn(self, worker: int, news: InfoNews) -> None:
        """Take the form of the infos of a worker; to be called with all news, in order."""
        if news.form is not None:
            lo, hi = self._bounds[worker]
            self._put(worker, news.form, columns_in(self._rows[lo:hi], news.form))

    def forget(self, worker: int) -> None:
        """A worker begins anew."""
        self._put(worker, None, [])

    def _put(self, worker: int, form: InfoForm | None, columns: list[NDArray[Any]]) -> None:
        self._forms[worker], self._columns[worker] = form, columns
        alike = all(other == form for other in self._forms)
        names = [column.name for column in form or ()]
        self._joint = list(zip(names, zip(*self._columns, strict=True), strict=True)) if alike else None

    def read(self, news: Sequence[InfoNews | None]) -> Infos:
        """The infos of a call, in memory of their own."""
        n = self._bounds[-1][1]
        odd = {} if news == self._no_news else self._odd(news)
        if len(odd) == n:
            return Infos.of(odd[slot] for slot in range(n))
        if self._joint is None:
            return Infos.of(odd.get(slot, row) for slot, row in enumerate(self._loose_rows()))
        columns = {name: np.concatenate(parts) for name, parts in self._joint}
        return Infos(n, rows=[odd.get(slot) for slot in range(n)] if odd else None, columns=columns)

    def _odd(self, news: Sequence[InfoNews | None]) -> dict[int, dict[str, Any]]:
        """The infos that no column holds, by slot."""
        return {
            lo + slot: info
            for (lo, _), part in zip(self._bounds, news, strict=True)
            if part is not None
            for slot, info in part.odd.items()
        }

    def _loose_rows(self) -> list[dict[str, Any]]:
        """The infos of every slot where the workers' forms differ; those of odd slots mean nothing."""
        rows: list[dict[str, Any]] = []
        for (lo, hi), form, columns in zip(self._bounds, self._forms, self._columns, strict=True):
            copies = {column.name: values.copy() for column, values in zip(form or (), columns, strict=True)}
            rows += Infos(hi - lo, columns=copies)
        return rows
