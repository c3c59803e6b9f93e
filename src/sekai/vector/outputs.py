"""Checks of what the hooks of a native env return, made once per hook, and of what observations are written into."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from sekai.errors import InvalidObservation
from sekai.spaces import has_fixed_size
from sekai.spaces.batch import FIXED_SIZE


def check_batch(space: gymnasium.Space[Any], batch: Any, n: int, hook: str) -> None:
    """Raise `InvalidObservation`, naming the hook, unless `batch` has the structure, shapes and dtypes of `space`."""
    if isinstance(space, gymnasium.spaces.Dict):
        if not isinstance(batch, dict) or batch.keys() != space.spaces.keys():
            given = sorted(batch) if isinstance(batch, dict) else type(batch).__name__
            raise InvalidObservation(f"{hook} returned {given}; expected a dict with keys {sorted(space.spaces)}.")
        for key, part in space.spaces.items():
            check_batch(part, batch[key], n, f"{hook}[{key!r}]")
    elif isinstance(space, gymnasium.spaces.Tuple):
        if not isinstance(batch, tuple) or len(batch) != len(space.spaces):
            raise InvalidObservation(f"{hook} returned {type(batch).__name__}; expected {len(space.spaces)} parts.")
        for i, part in enumerate(space.spaces):
            check_batch(part, batch[i], n, f"{hook}[{i}]")
    elif has_fixed_size(space):
        expected = (n, *(space.shape or ()))
        if not isinstance(batch, np.ndarray) or batch.shape != expected or batch.dtype != space.dtype:
            raise InvalidObservation(
                f"{hook} returned {describe(batch)}; expected an array of shape {expected} and dtype {space.dtype}."
            )
    elif not isinstance(batch, (tuple, list)) or len(batch) != n:
        raise InvalidObservation(f"{hook} returned {describe(batch)}; expected {n} samples of {space}.")


def check_target(space: gymnasium.Space[Any], batch: Any, n: int) -> None:
    """Raise `ValueError` unless a compiled kernel can write `n` observations of `space` into `batch`."""
    if not _can_hold(space, batch, n):
        raise ValueError(
            "step_into() cannot write into the batch it was given; expected arrays that are writable, C-contiguous "
            f"and aligned, in the structure, shapes and dtypes of {n} observations of {space}."
        )


def _can_hold(space: gymnasium.Space[Any], batch: Any, n: int) -> bool:
    # what was given is asked for its type first, since spaces are slow to ask
    if isinstance(batch, np.ndarray):
        if not isinstance(space, FIXED_SIZE):
            return False
        return batch.shape == (n, *(space.shape or ())) and batch.dtype == space.dtype and batch.flags.carray
    if isinstance(batch, dict):
        if not isinstance(space, gymnasium.spaces.Dict) or batch.keys() != space.spaces.keys():
            return False
        return all([_can_hold(part, batch[key], n) for key, part in space.spaces.items()])
    if isinstance(batch, tuple):
        if not isinstance(space, gymnasium.spaces.Tuple) or len(batch) != len(space.spaces):
            return False
        return all([_can_hold(part, rows, n) for part, rows in zip(space.spaces, batch, strict=True)])
    return False


def check_column(values: Any, n: int, kinds: str, what: str) -> None:
    """Raise `InvalidObservation` unless `values` is an array `(n,)` of one of the dtype kinds."""
    if not isinstance(values, np.ndarray) or values.shape != (n,) or values.dtype.kind not in kinds:
        expected = "bool" if kinds == "b" else "float64"
        raise InvalidObservation(
            f"{what} is {describe(values)}; expected an array of shape {(n,)} and dtype {expected}."
        )


def check_info(values: Any, n: int, what: str) -> None:
    """Raise `InvalidObservation` unless `values` is an array with a leading axis of `n`."""
    if not isinstance(values, np.ndarray) or values.ndim == 0 or len(values) != n:
        raise InvalidObservation(f"{what} is {describe(values)}; expected an array with a leading axis of {n}.")


def describe(value: Any) -> str:
    """Type, and for an array shape and dtype."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    return f"{value!r} ({type(value).__name__})"
