"""Large arrays for worker processes: written to files once, mapped into the memory of every worker.

Pickled, a history of 200 MB would lie in the caller once more for each worker, and then in each worker. Mapped, its
pages are read when they are touched, and all workers share them. A worker that writes to such an array gets private
copies of the pages it writes to, as if the array had been pickled.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

LARGE = 1 << 20  # bytes; below, a file costs more than the copies


class Arrays(Protocol):
    """Where large arrays go that are left out of a pickle."""

    def reduce(self, value: Any) -> tuple[Any, ...] | None:
        """How to pickle `value`, as `__reduce__` says it; None: as always."""
        ...


def is_large(value: Any) -> bool:
    """Whether `value` is an array that is worth a place of its own."""
    return type(value) is np.ndarray and value.nbytes >= LARGE and not value.dtype.hasobject


class ArrayFiles:
    """Files of arrays, in a temporary folder of their own.

    The folder is removed by `remove`, when this object is collected, and at the exit of the interpreter.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._known: dict[int, tuple[NDArray[Any], Path]] = {}  # the arrays are kept, so that no id comes twice

    def reduce(self, value: Any) -> tuple[Any, ...] | None:
        """How to pickle `value`: as the path of a file for a large array, None for everything else."""
        if not is_large(value):
            return None
        return open_array, (str(self._path_of(value)),)

    def _path_of(self, array: NDArray[Any]) -> Path:
        if id(array) not in self._known:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="sekai-arrays-"))
                weakref.finalize(self, _remove, self._folder, os.getpid())
            path = self._folder / f"{len(self._known)}.npy"
            np.save(path, array)
            self._known[id(array)] = array, path
        return self._known[id(array)][1]

    def remove(self) -> None:
        """Remove the files."""
        self._known.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)  # Windows keeps what another process still maps
            self._folder = None


def _remove(folder: Path, pid: int) -> None:
    """Remove a folder, in the process that made it only, and not in one that was forked from it."""
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


def open_array(path: str) -> NDArray[Any]:
    """The array in a file, mapped; what is written to it stays in this process."""
    return np.asarray(np.load(path, mmap_mode="c"))
