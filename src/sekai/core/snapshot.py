"""Copies that an environment which reuses its arrays and dicts cannot change afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np

#: classes whose objects cannot change
ATOMS = frozenset({bool, int, float, complex, str, bytes, type(None), np.float64, np.float32, np.int64, np.bool_})
_ARRAY = np.ndarray


def snapshot(value: Any) -> Any:
    """A copy of `value` that shares no array, dict, list or set with it.

    Containers are copied to any depth, named tuples (the samples of gymnasium's `Graph`) and arrays of objects
    included; a subclass of dict becomes a dict. Objects of other classes are handed on as they are: copying them
    could cost anything, and what they hold is not for sekai to know.
    """
    kind = type(value)
    if kind in ATOMS:
        return value
    if isinstance(value, np.ndarray):
        copied = value.copy()
        if value.dtype.kind == "O":
            for place in np.ndindex(value.shape):
                copied[place] = snapshot(value[place])
        return copied
    if kind is dict:
        # numbers and plain arrays are most of what an info holds: for them no further call
        if ATOMS.issuperset(map(type, value.values())):
            return value.copy()
        return {
            key: entry
            if type(entry) in ATOMS
            else entry.copy()
            if type(entry) is _ARRAY and entry.dtype.kind != "O"
            else snapshot(entry)
            for key, entry in value.items()
        }
    if kind in (list, tuple, set, frozenset):
        return kind(snapshot(entry) for entry in value)
    if isinstance(value, dict):
        return {key: snapshot(entry) for key, entry in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(map(snapshot, value))
    return value
