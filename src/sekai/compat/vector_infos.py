"""Infos of all slots, as gymnasium's vector environments write them, and back.

    rows                          gymnasium
    [{"t": 1}, {"t": 2, "x": {"y": 3}}]
                                  {"t": [1, 2], "_t": [True, True],
                                   "x": {"y": [0, 3], "_y": [False, True]}, "_x": [False, True]}

Where the presence mask `_key` is False, the entry of `key` means nothing, and is never read here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.snapshot import snapshot
from sekai.errors import InvalidObservation
from sekai.vector.infos import Infos, stack

Row = Mapping[str, Any]


def to_columns(rows: Sequence[Row]) -> dict[str, Any]:
    """A dict of arrays with presence masks; nested dicts likewise, to any depth.

    Entries of absent keys are 0, or None in arrays of objects.

    Raises:
        InvalidObservation: a key and the same key behind an underscore, which is its mask.
    """
    stacked = rows.stacked if isinstance(rows, Infos) else None
    if stacked is not None:
        _check_names(stacked)
        return {
            name: values
            for key, column in stacked.items()
            for name, values in ((key, column), (f"_{key}", np.ones(len(rows), bool)))
        }
    columns: dict[str, Any] = {}
    names = dict.fromkeys(name for row in rows for name in row)
    _check_names(names)
    for name in names:
        present = np.array([name in row for row in rows], bool)
        columns[name] = _column(name, rows, present)
        columns[f"_{name}"] = present
    return columns


def _column(name: str, rows: Sequence[Row], present: NDArray[np.bool_]) -> Any:
    given = [row[name] for row in rows if name in row]
    if all(isinstance(value, Mapping) for value in given):
        return to_columns([row.get(name, {}) for row in rows])
    values = stack(given)
    if values.dtype.kind == "U":
        values = np.array(given, object)  # as gymnasium has it; an array of strings would cut zeros at their ends
    if values.dtype == object:
        column = np.full(len(rows), None, object)
    else:
        column = np.zeros((len(rows), *values.shape[1:]), values.dtype)
    column[present] = values
    return column


def _check_names(names: Mapping[str, Any]) -> None:
    for name in names:
        if f"_{name}" in names:
            raise InvalidObservation(
                f"infos have the keys {name!r} and '_{name}', and in gymnasium's vector infos the second is the "
                "presence mask of the first: rename one of them."
            )


def to_rows(columns: Mapping[str, Any], present: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """One dict per slot, of copies; `{}` outside `present`.

    A key without a mask is present wherever `present` is. Arrays, lists and tuples with an entry per slot are taken
    apart; anything else is there for every slot.

    Args:
        columns: gymnasium's infos.
        present: bool `(N,)`, slots that may have an info.
    """
    n = len(present)
    rows: list[dict[str, Any]] = [{} for _ in range(n)]
    for name, values in columns.items():
        if name.startswith("_") and name[1:] in columns and _is_mask(values, n):
            continue
        mask: Any = columns.get(f"_{name}")
        slots = np.flatnonzero(present & mask if _is_mask(mask, n) else present)
        for slot, value in zip(slots.tolist(), _taken(values, slots, n), strict=True):
            rows[slot][name] = value
    return rows


def _is_mask(value: Any, n: int) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == bool and value.shape == (n,)


def _taken(values: Any, slots: NDArray[np.intp], n: int) -> Sequence[Any]:
    """The values of some slots; those of the others are not looked at."""
    if isinstance(values, Mapping):
        present = np.zeros(n, bool)
        present[slots] = True
        rows = to_rows(values, present)
        return [rows[slot] for slot in slots.tolist()]
    if isinstance(values, np.ndarray) and values.shape[:1] == (n,):
        if values.ndim == 1 and values.dtype.kind not in "OmM":
            return values[slots].tolist()  # type: ignore[no-any-return]  # Python scalars
        return [snapshot(values[slot]) for slot in slots.tolist()]
    if isinstance(values, (list, tuple)) and len(values) == n:
        return [snapshot(values[slot]) for slot in slots.tolist()]
    return [snapshot(values) for _ in slots]
