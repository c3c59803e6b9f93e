"""`Infos`: a list of dicts, one per slot, that need not be built until somebody reads one.

Two backings. *Rows* are the dicts themselves (sync, asyncio, process). *Columns* are arrays with one value per slot,
and *parts* are columns of some slots only (native). `infos[i]` makes one dict and keeps it; iterating makes all; from
then on the dicts are the truth and may be changed by whoever holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

_LIST_OF_DICTS = (
    "infos is a list of dicts, one per sub-env, and {!r} is no index of it: use infos[i], infos.columns[name] for "
    "(values, present), or final_observation(i) and final_info(i) of the result."
)
_NOTHING: Mapping[str, NDArray[Any]] = {}


class Part(NamedTuple):
    """One key of the infos of some slots.

    Attributes:
        name: the key.
        values: one value per slot of `slots`, along the first axis: an array, a list, or an `Infos`
            for nested dicts.
        slots: ascending slot indices.
    """

    name: str
    values: Any
    slots: NDArray[np.intp]

    def place(self, slot: int) -> int:
        """Where `values` holds the value of `slot`; -1 where it holds none."""
        place = int(np.searchsorted(self.slots, slot))
        return place if place < len(self.slots) and self.slots[place] == slot else -1


class Infos(Sequence[dict[str, Any]]):
    """The infos of one call, one dict per slot.

    Args:
        num_envs: number of slots.
        rows: the dicts that exist already, in a list of this object's own; None for a slot that has its keys in the
            columns.
        columns: keys of the other slots: arrays with a leading axis of slots.
        parts: keys that some slots have; a later part of the same name speaks of other slots.
    """

    __slots__ = ("_columns", "_num_envs", "_parts", "_rows")

    def __init__(
        self,
        num_envs: int,
        *,
        rows: Sequence[dict[str, Any] | None] | None = None,
        columns: Mapping[str, NDArray[Any]] = _NOTHING,
        parts: Sequence[Part] = (),
    ) -> None:
        self._num_envs = num_envs
        self._rows: list[dict[str, Any] | None] | None = rows  # type: ignore[assignment]  # a list of its own
        self._columns = columns
        self._parts = parts

    @classmethod
    def of(cls, rows: Iterable[dict[str, Any]]) -> Infos:
        """The infos that these dicts are."""
        rows = list(rows)
        return cls(len(rows), rows=rows)

    def __len__(self) -> int:
        return self._num_envs

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(index, slice):
            return self._all_rows()[index]
        try:
            slot = range(self._num_envs)[index]
        except IndexError:
            raise IndexError(f"sub-env {index} of {self._num_envs}; infos has one dict per sub-env.") from None
        except TypeError:
            raise TypeError(_LIST_OF_DICTS.format(index)) from None
        if self._rows is None:
            self._rows = [None] * self._num_envs
        row = self._rows[slot]
        if row is None:
            row = self._rows[slot] = self._make_row(slot)
        return row

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._all_rows())

    def __contains__(self, value: object) -> bool:
        if isinstance(value, str):  # False would be a silent answer to another question
            raise TypeError(_LIST_OF_DICTS.format(value))
        return any(same_value(row, value) for row in self._all_rows())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Infos, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(map(same_value, self, other))

    __hash__ = None  # type: ignore[assignment]  # a list of dicts is not hashable either

    def __repr__(self) -> str:
        return repr(self._all_rows())

    def __reduce__(self) -> tuple[Any, ...]:
        return Infos.of, (self._all_rows(),)

    def part(self, name: str, slots: NDArray[np.intp]) -> Part:
        """What a key has in those of some slots that have it."""
        if self._rows is None:
            found = [part for part in self._parts if part.name == name]
            if name not in self._columns:
                for part in found:
                    if np.array_equal(part.slots, slots):
                        return part
            elif not found:
                return Part(name, self._columns[name][slots], slots)
        having = [slot for slot in slots.tolist() if name in self[slot]]
        return Part(name, [self[slot][name] for slot in having], np.array(having, np.intp))

    def put(self, part: Part) -> None:
        """Set a key of some slots, in place."""
        if self._rows is None and part.name not in self._columns:
            known = [other.name == part.name for other in self._parts]
            if not any(known):
                self._parts = [*self._parts, part]
                return
            place = known.index(True)
            if sum(known) == 1 and np.array_equal(self._parts[place].slots, part.slots):
                self._parts = [*self._parts[:place], part, *self._parts[place + 1 :]]
                return
        for slot, value in zip(part.slots.tolist(), _items(part.values), strict=True):
            self[slot][part.name] = value

    @property
    def columns(self) -> dict[str, tuple[NDArray[Any], NDArray[np.bool_]]]:
        """`{name: (values, present)}`, both with a leading axis of slots.

        Where `present` is False the value means nothing. Values that do not stack (dicts, strings of changing
        types, arrays of different shapes) come as an object array.
        """
        if self._rows is not None or self._parts:
            return _columns_of(self._all_rows())
        return {name: (values, np.ones(self._num_envs, bool)) for name, values in self._columns.items()}

    @property
    def stacked(self) -> Mapping[str, NDArray[Any]] | None:
        """The columns, without a copy, where every slot has every key and no dict has been made; None otherwise."""
        return None if self._rows is not None or self._parts else self._columns

    def split(self) -> tuple[Mapping[str, NDArray[Any]], list[int]] | None:
        """The columns, without a copy, and the slots that have further keys; None where some dict has been made."""
        if self._rows is not None:
            return None
        more = [slot for part in self._parts for slot in part.slots.tolist()]
        return self._columns, sorted(set(more))

    def _make_row(self, slot: int) -> dict[str, Any]:
        row = {name: item(values, slot) for name, values in self._columns.items()}
        for part in self._parts:
            place = part.place(slot)
            if place >= 0:
                row[part.name] = item(part.values, place)
        return row

    def _all_rows(self) -> list[dict[str, Any]]:
        rows = self._rows
        if rows is None or None in rows:
            made = self._make_rows()
            if rows is not None:
                made = [new if kept is None else kept for kept, new in zip(rows, made, strict=True)]
            self._rows = rows = list(made)
        return rows  # type: ignore[return-value]  # no None is left

    def _make_rows(self) -> list[dict[str, Any]]:
        if self._columns:
            rows = _dict_maker(tuple(self._columns))([_items(values) for values in self._columns.values()])
        else:
            rows = [{} for _ in range(self._num_envs)]
        for part in self._parts:
            for slot, value in zip(part.slots.tolist(), _items(part.values), strict=True):
                rows[slot][part.name] = value
        return rows


class TakenInfos:
    """The infos of some slots, built only when one is read; values of a `Part`."""

    def __init__(self, infos: Infos, slots: NDArray[np.intp]) -> None:
        self._infos, self._slots = infos, slots

    def __len__(self) -> int:
        return len(self._slots)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return self._infos[int(self._slots[place])]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[place] for place in range(len(self)))

    def put(self, part: Part) -> None:
        """Set a key of the infos of some of the slots, in place."""
        self._infos.put(part)


def stack_infos(infos: Infos | Sequence[Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    """Stack the keys that every sub-environment's info has, each to an array with a leading slot axis.

    Keys keep the order of the first slot. On columns nothing is copied.

        >>> stack_infos([{"t": 1, "a": 0}, {"t": 2}])
        {'t': array([1, 2])}
    """
    if isinstance(infos, Infos):
        stacked = infos.stacked
        if stacked is not None:
            return dict(stacked)
    rows = list(infos)
    if not rows:
        return {}
    return {name: stack([row[name] for row in rows]) for name in rows[0] if all(name in row for row in rows)}


def stack(values: list[Any]) -> NDArray[Any]:
    """One entry per value: numbers, dates, strings and equally shaped arrays stack, the rest come as objects."""
    kinds = {_stack_kind(value) for value in values}
    if len(kinds) == 1 and None not in kinds:
        return np.array(values)
    column = np.empty(len(values), object)
    for i, value in enumerate(values):
        column[i] = value
    return column


def _stack_kind(value: Any) -> Any:
    """Values of equal kind stack without changing what they are; None is for those that never do."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype) if value.dtype.kind != "O" else None
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, (int, float, np.integer, np.floating)):
        return "number"
    if isinstance(value, np.datetime64):
        return value.dtype
    return str if isinstance(value, str) else None


def same_value(a: Any, b: Any) -> bool:
    """Whether two info values are equal, arrays by their entries, NaN equal to itself."""
    if a is b:
        return True
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        return a.shape == b.shape and bool(
            np.array_equal(a, b, equal_nan=a.dtype.kind in "fc" and b.dtype.kind in "fc")
        )
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_value(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same_value, a, b))
    try:
        return bool(a == b) or bool(a != a and b != b)
    except (TypeError, ValueError, RuntimeError):  # a data frame, a tensor: their == is no yes or no
        return False


@lru_cache(maxsize=64)
def _dict_maker(names: tuple[str, ...]) -> Callable[[list[Sequence[Any]]], list[dict[str, Any]]]:
    """A function from columns to dicts, written for these keys.

    Generated, as named tuples are: a dict display with its keys fixed is twice as fast as `dict(zip(names, values))`,
    and that is most of what reading an info costs.
    """
    keys = "".join(f"k{i}, " for i in range(len(names)))
    values = "".join(f"v{i}, " for i in range(len(names)))
    entries = ", ".join(f"k{i}: v{i}" for i in range(len(names)))
    source = f"lambda {keys}: lambda columns: [{{{entries}}} for {values} in zip(*columns, strict=True)]"
    make: Callable[[list[Sequence[Any]]], list[dict[str, Any]]] = eval(source)(*names)
    return make


def _items(values: Any) -> Sequence[Any]:
    """All values of a column, as they stand in the dicts: Python scalars, dates, arrays of their own."""
    if not isinstance(values, np.ndarray):
        return values  # type: ignore[no-any-return]  # a list or an Infos
    # tolist() would turn dates into ints or datetimes, and rows into nested lists
    return values.tolist() if values.ndim == 1 and values.dtype.kind not in "mM" else list(values.copy())


def item(values: Any, place: int) -> Any:
    """A value of a column, as it stands in the dict of its slot."""
    value = values[place]
    if not isinstance(values, np.ndarray):
        return value
    if values.ndim > 1:
        return value.copy()
    return value.item() if isinstance(value, np.generic) and values.dtype.kind not in "mM" else value


def _columns_of(rows: list[dict[str, Any]]) -> dict[str, tuple[NDArray[Any], NDArray[np.bool_]]]:
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {}
    for name in names:
        present = np.array([name in row for row in rows], bool)
        columns[name] = (_fill([row.get(name) for row in rows], present), present)
    return columns


def _fill(rows: list[Any], present: NDArray[np.bool_]) -> NDArray[Any]:
    """Values of the slots that have them, stacked; the entries of the others mean nothing."""
    given = stack([value for value, has in zip(rows, present, strict=True) if has])
    filled = np.zeros((len(rows), *given.shape[1:]), given.dtype)
    filled[present] = given
    return filled
