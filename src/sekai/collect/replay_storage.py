"""Memory of a replay buffer: arrays in memory or in files, and a table of the successors that are no stored row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sekai.collect.replay_columns import Arrays, Leaf

_FIRST_ROWS = 64  # of the table; it doubles when it is full


class Storage:
    """Where arrays lie: in memory, or in `.npy` files that are mapped into it.

    Args:
        directory: None for memory, or a folder, which must be empty or not exist yet. The files stay there.

    Raises:
        FileExistsError: the folder holds something.
    """

    def __init__(self, directory: str | Path | None) -> None:
        self.directory = None if directory is None else Path(directory)
        if self.directory is not None:
            self.directory.mkdir(parents=True, exist_ok=True)
            if any(self.directory.iterdir()):
                raise FileExistsError(
                    f"directory {str(self.directory)!r} is not empty; give a new folder, so that nothing is "
                    "overwritten. A buffer is resumed by load_state_dict, not by its files."
                )

    def zeros(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """A new array of zeros; in a file it takes room on the disk as it is filled, where the file system can."""
        if self.directory is None or not math.prod(shape):
            return np.zeros(shape, dtype)
        path = self.directory / f"{name}.npy"
        return np.asarray(np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape))

    def remove(self, name: str) -> None:
        """Remove the file of an array that is no longer used; whoever still holds the array can go on reading it."""
        if self.directory is not None:
            (self.directory / f"{name}.npy").unlink(missing_ok=True)


class SuccessorTable:
    """Rows of observations that come and go: a place is given to each, and given again when it is free.

    Attributes:
        leaves: the arrays; places beyond `used` were never given.
        free: places that were given and are free, the one to be given next at the end.
    """

    def __init__(self, leaves: list[Leaf], storage: Storage) -> None:
        self._leaves, self._storage, self._generation = leaves, storage, 0
        self.used, self.free = 0, list[int]()
        self._room = 0
        self.leaves: Arrays = self._allocate(0)

    def put(self, rows: Arrays, count: int) -> NDArray[np.intp]:
        """Keep `count` rows; their places."""
        reused = [self.free.pop() for _ in range(min(count, len(self.free)))]
        fresh = range(self.used, self.used + count - len(reused))
        self.reserve(fresh.stop)
        self.used = fresh.stop
        places = np.array([*reused, *fresh], np.intp)
        for leaf, values in zip(self.leaves, rows, strict=True):
            leaf[places] = values
        return places

    def release(self, places: NDArray[np.integer[Any]]) -> None:
        """Give up rows."""
        self.free.extend(places.tolist())

    def reserve(self, used: int) -> None:
        """Make room for that many rows; those in use stay as they are."""
        if used <= self._room:
            return
        old, old_generation = self.leaves, self._generation
        self._generation += 1
        self._room = max(_FIRST_ROWS, self._room)
        while self._room < used:
            self._room *= 2
        self.leaves = self._allocate(self._room)
        for leaf, before in zip(self.leaves, old, strict=True):
            leaf[: self.used] = before[: self.used]
        for i in range(len(old)):
            self._storage.remove(self._name(i, old_generation))

    def _allocate(self, room: int) -> Arrays:
        return [
            self._storage.zeros(self._name(i, self._generation), (room, *leaf.shape), leaf.dtype)
            for i, leaf in enumerate(self._leaves)
        ]

    @staticmethod
    def _name(leaf: int, generation: int) -> str:
        return f"successors.{leaf}.{generation}"
