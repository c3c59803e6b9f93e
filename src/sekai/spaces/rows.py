"""Batches of samples: one container for all sub-environments, read here and written in `writers`.

A batch has the structure of the single space: an array `(n, *shape)` for Box, Discrete, MultiDiscrete and
MultiBinary, a dict or tuple of batches for Dict and Tuple, and a tuple of `n` samples for anything without a
fixed size (a list while it is being written). `space` is the single space in every function here.

Leaves are asked for first: `isinstance` against Dict and Tuple, which are abstract collections as well, costs ten
times as much, and these functions run in every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import gymnasium.spaces
import numpy as np
from numpy.typing import NDArray

from sekai.spaces.batch import FIXED_SIZE
from sekai.spaces.composite import AnySpace


def empty_batch(space: AnySpace, n: int) -> Any:
    """A batch of `n` rows to write into: zeros, and None for samples without a fixed size."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: empty_batch(part, n) for key, part in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(empty_batch(part, n) for part in space.spaces)
    if isinstance(space, FIXED_SIZE):
        return np.zeros((n, *(space.shape or ())), space.dtype)
    return [None] * n


def finish_batch(space: AnySpace, batch: Any) -> Any:
    """`batch` with the lists of `empty_batch` turned into tuples; the arrays are the same objects."""
    if isinstance(space, FIXED_SIZE):
        return batch
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: finish_batch(part, batch[key]) for key, part in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(finish_batch(part, rows) for part, rows in zip(space.spaces, batch, strict=True))
    return tuple(batch)


def read_row(space: AnySpace, batch: Any, i: int) -> Any:
    """Row `i` as one sample that shares no memory with `batch`."""
    if isinstance(space, FIXED_SIZE):
        return batch[i] if isinstance(space, gymnasium.spaces.Discrete) else batch[i, ...].copy()
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: read_row(part, batch[key], i) for key, part in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(read_row(part, rows, i) for part, rows in zip(space.spaces, batch, strict=True))
    return deepcopy(batch[i])


def copy_batch(space: AnySpace, batch: Any) -> Any:
    """A copy of a batch that shares no memory with it and can be written into; see `finish_batch`."""
    if isinstance(space, FIXED_SIZE):
        return batch.copy()
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: copy_batch(part, batch[key]) for key, part in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(copy_batch(part, rows) for part, rows in zip(space.spaces, batch, strict=True))
    return list(deepcopy(batch))


def take_rows(space: AnySpace, batch: Any, indices: NDArray[np.intp]) -> Any:
    """The batch of some rows, which shares no memory with `batch`."""
    if isinstance(space, FIXED_SIZE):
        return batch[indices]
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: take_rows(part, batch[key], indices) for key, part in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(take_rows(part, rows, indices) for part, rows in zip(space.spaces, batch, strict=True))
    return tuple(deepcopy(batch[i]) for i in indices.tolist())


def put_rows(target: Any, indices: NDArray[np.intp], rows: Any) -> None:
    """Write the rows of one batch, in order, to some places of another that can be written into."""
    if isinstance(target, np.ndarray):
        target[indices] = rows
    elif isinstance(target, dict):
        for key, part in target.items():
            put_rows(part, indices, rows[key])
    elif isinstance(target, tuple):
        for part, inner in zip(target, rows, strict=True):
            put_rows(part, indices, inner)
    else:
        for slot, row in zip(indices.tolist(), rows, strict=True):
            target[slot] = row


def map_arrays(function: Callable[..., Any], *batches: Any) -> Any:
    """`function` of the arrays that stand at the same place in batches of one structure, in that structure."""
    first = batches[0]
    if isinstance(first, dict):
        return {key: map_arrays(function, *(batch[key] for batch in batches)) for key in first}
    if isinstance(first, tuple):
        return tuple(map_arrays(function, *parts) for parts in zip(*batches, strict=True))
    return function(*batches)


def copy_rows(target: Any, source: Any, indices: NDArray[np.intp]) -> None:
    """Copy some rows from one batch to another of the same structure."""
    if isinstance(target, np.ndarray):
        target[indices] = source[indices]
    elif isinstance(target, dict):
        for key, part in target.items():
            copy_rows(part, source[key], indices)
    elif isinstance(target, tuple):
        for part, rows in zip(target, source, strict=True):
            copy_rows(part, rows, indices)
    else:
        for slot in indices.tolist():
            target[slot] = source[slot]


def iterate(space: AnySpace, batch: Any) -> Iterator[Any]:
    """The rows of `batch` as samples of `space`, without copying: array views, NumPy scalars for Discrete."""
    if isinstance(space, gymnasium.spaces.Box) and space.shape == ():
        return (batch[i, ...] for i in range(len(batch)))  # iter() would give scalars, which are no arrays
    if isinstance(space, FIXED_SIZE):
        return iter(batch)
    if isinstance(space, gymnasium.spaces.Dict):
        keys = tuple(space.spaces)
        rows = zip(*(iterate(part, batch[key]) for key, part in space.spaces.items()), strict=True)
        return (dict(zip(keys, row, strict=True)) for row in rows)
    if isinstance(space, gymnasium.spaces.Tuple):
        parts = [iterate(part, rows) for part, rows in zip(space.spaces, batch, strict=True)]
        return zip(*parts, strict=True)
    return iter(batch)
