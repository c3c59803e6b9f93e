"""`SharedBlock`: memory that several processes read and write.

It has no name in any file system: nothing is left behind, whatever ends how. Another process gets it as a file
descriptor over a socket (`send_block`, `receive_block`). All of it is allocated at once: memory that is only promised
ends a process by a signal at the first write that cannot be served.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from collections.abc import Callable
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: bytes; no two arrays share a line of the cache
ALIGNMENT = 64
#: whether processes can share a block here
AVAILABLE = sys.platform != "win32"


class SharedBlock:
    """A block of `size` bytes, zero at first.

    Args:
        size: bytes.
        descriptor: of the block of another process; by default a new block.

    Raises:
        OSError: there is no room for it.
    """

    descriptor = -1

    def __init__(self, size: int, descriptor: int | None = None) -> None:
        self.size = size
        self.descriptor = _allocated(size) if descriptor is None else descriptor
        self._memory = mmap.mmap(self.descriptor, size)

    def array(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """The array that begins at byte `offset`. It keeps the memory alive, also after `close`."""
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self._memory, dtype, count, offset).reshape(shape)

    def close(self) -> None:
        """Give up the descriptor; the memory goes with the last array in it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()


class Carver:
    """Places arrays in a block one after the other; without a block it only counts.

    Attributes:
        size: bytes so far.
    """

    def __init__(self, block: SharedBlock | None = None) -> None:
        self.size = 0
        self._block = block

    def array(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """The next array."""
        kind = np.dtype(dtype)
        offset = self.size
        count = max(1, int(np.prod(shape, dtype=np.int64)) * kind.itemsize)
        self.size = offset + -(-count // ALIGNMENT) * ALIGNMENT
        return np.empty(0, kind) if self._block is None else self._block.array(offset, shape, kind)


def carved(lay_out: Callable[[Carver], None]) -> SharedBlock:
    """A new block with room for what `lay_out` places in it."""
    counter = Carver()
    lay_out(counter)
    return SharedBlock(counter.size)


def send_block(block: SharedBlock, pipe: Connection, pid: int | None) -> None:
    """Give a block to the process at the other end of a pipe."""
    pipe.send(block.size)
    reduction.send_handle(pipe, block.descriptor, pid)


def receive_block(pipe: Connection) -> SharedBlock:
    """The block that the process at the other end of a pipe gives."""
    size = pipe.recv()
    return SharedBlock(size, reduction.recv_handle(pipe))


def _allocated(size: int) -> int:
    """Descriptor of a new file of `size` bytes that lies in memory, where the system has such files."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("sekai")
    else:
        with tempfile.TemporaryFile(prefix="sekai-") as file:
            descriptor = os.dup(file.fileno())
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.ftruncate(descriptor, size)
    except OSError as error:
        os.close(descriptor)
        raise OSError(
            error.errno,
            f"There is no room for {size / 1e6:,.1f} MB of shared memory ({error.strerror}): use fewer sub-envs, or "
            "pass shared_memory=False.",
        ) from None
    return descriptor
