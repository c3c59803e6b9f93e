"""Memory of fragments: lent, and lent again once nothing of a fragment is left.

Every array that a fragment hands out holds on to the loan it belongs to, and so does every view of it. When the last
one is gone, by whatever way, the memory goes back to the pool. So a fragment, or one array kept of it, never changes,
and a loop that drops its fragments allocates two sets of arrays in all.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sekai.collect.states import as_array
from sekai.spaces import map_arrays
from sekai.vector.actions import check_actions

Memory = dict[str, NDArray[Any]]
LEAF = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class Pool:
    """Memory of fragments that are gone.

    Args:
        spare: how many sets of arrays are kept for fragments to come; the rest goes back to the system.
    """

    def __init__(self, spare: int = 1) -> None:
        self._spare = spare
        self._free: list[Memory] = []

    def __len__(self) -> int:
        return len(self._free)

    def lend(self) -> Loan:
        """A loan that begins with the arrays of a fragment that is gone, where there is one."""
        return Loan(self, self._free.pop() if self._free else {})

    def take_back(self, memory: Memory) -> None:
        """Keep the arrays for the next loan."""
        if len(self._free) < self._spare:
            self._free.append(memory)


class Loan:
    """The arrays of one fragment."""

    def __init__(self, pool: Pool, memory: Memory) -> None:
        self._memory = memory
        weakref.finalize(self, pool.take_back, memory).atexit = False

    def array(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """An array with undefined contents, which nobody else uses until this loan is gone."""
        dtype = np.dtype(dtype)
        if dtype.hasobject:  # references cannot be lent as memory
            return np.empty(shape, dtype)
        memory = self._memory.get(name)
        if memory is None or memory.shape != shape or memory.dtype != dtype:
            memory = self._memory[name] = np.empty(shape, dtype)
        return np.asarray(_Window(self, memory))


class _Window:
    """An array over the memory of another, with this object, and so the loan, as its base."""

    def __init__(self, loan: Loan, memory: NDArray[Any]) -> None:
        self.loan = loan
        self.__array_interface__ = memory.__array_interface__


def columns_like(loan: Loan, name: str, space: gymnasium.Space[Any], batch: Any, shape: tuple[int, int]) -> Any:
    """Time-major arrays of this shape `(rows, N)` and more, for batches like this one of samples of `space`.

    They come in the structure of `space`. Samples without a fixed size go into arrays of objects `(rows, N)`.
    """
    if isinstance(space, LEAF):
        return loan.array(name, (*shape, *batch.shape[1:]), batch.dtype)
    if isinstance(space, spaces.Dict):
        return {
            key: columns_like(loan, f"{name}[{key!r}]", part, batch[key], shape) for key, part in space.spaces.items()
        }
    if isinstance(space, spaces.Tuple):
        parts = enumerate(zip(space.spaces, batch, strict=True))
        return tuple(columns_like(loan, f"{name}[{i}]", part, inner, shape) for i, (part, inner) in parts)
    return np.empty(shape, object)


def write(columns: Any, index: Any, batch: Any, what: str) -> None:
    """Copy a batch of `k` rows into the cells of an index, see `Cells`.

    Raises:
        ValueError: its rows have another shape than those of the first batch, or its dtype does not cast to that one's.
    """
    if type(columns) is np.ndarray:
        if columns.dtype.hasobject:
            columns[index] = _objects(batch)
            return
        if batch.dtype != columns.dtype or batch.shape != columns.shape[1:]:
            _check_like(columns, batch, what)
        columns[index] = batch
    elif isinstance(columns, dict):
        for key, part in columns.items():
            write(part, index, batch[key], what)
    else:
        for part, inner in zip(columns, batch, strict=True):
            write(part, index, inner, what)


def read_only(batch: Any) -> Any:
    """This batch, whose arrays refuse to be written to from now on; the memory may have other arrays."""
    return map_arrays(_read_only, batch)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _check_like(columns: NDArray[Any], batch: NDArray[Any], what: str) -> None:
    if batch.shape[1:] != columns.shape[2:] or not np.can_cast(batch.dtype, columns.dtype, "same_kind"):
        expected = (len(batch), *columns.shape[2:])
        raise ValueError(
            f"The {what} of a call have shape {batch.shape} and dtype {batch.dtype}; after the first call of this "
            f"fragment, shape {expected} and dtype {columns.dtype} were expected."
        )


def _objects(samples: Any) -> NDArray[Any]:
    """Copies of some samples, in an array of objects `(k,)`."""
    rows = np.empty(len(samples), object)
    for i, sample in enumerate(samples):
        rows[i] = deepcopy(sample)
    return rows


def as_rows(space: gymnasium.Space[Any], batch: Any) -> Any:
    """A batch as a nesting of arrays: samples without a fixed size as an array of objects `(k,)`."""
    if isinstance(space, LEAF):
        return batch
    if isinstance(space, spaces.Dict):
        return {key: as_rows(part, batch[key]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(as_rows(part, inner) for part, inner in zip(space.spaces, batch, strict=True))
    return _objects(batch)


def as_actions(space: gymnasium.Space[Any], actions: Any, slots: int | Sequence[int]) -> Any:
    """What a policy gave as a batch: arrays as they are, tensors as arrays, a list of actions as a batch of them.

    Args:
        space: action space of one sub-environment.
        actions: what it gave.
        slots: which slots it acted on; an int stands for that many, from the first on.

    Raises:
        InvalidAction: a list that does not fit.
        ValueError: a leading axis that is not the slots.
    """
    if isinstance(space, LEAF) and not isinstance(actions, (list, tuple)):
        batch = as_array(actions)
        num_slots = slots if isinstance(slots, int) else len(slots)
        if batch.ndim == 0 or len(batch) != num_slots:
            raise ValueError(
                f"The policy returned actions of shape {batch.shape}; expected a first axis of {num_slots} slots."
            )
        return batch
    if isinstance(space, spaces.Dict) and isinstance(actions, Mapping) and actions.keys() == space.spaces.keys():
        return {key: as_actions(part, actions[key], slots) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple) and isinstance(actions, tuple) and len(actions) == len(space.spaces):
        parts = zip(space.spaces, actions, strict=True)
        return tuple(as_actions(part, inner, slots) for part, inner in parts)
    return check_actions(space, actions, slots)
