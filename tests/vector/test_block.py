"""Shared memory: what is placed in it, who keeps it alive, and what happens when there is none left."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.vector.block import ALIGNMENT, AVAILABLE, Carver, SharedBlock, carved, receive_block, send_block

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="POSIX")


def lay_out(carver: Carver) -> list[Any]:
    return [carver.array(shape, dtype) for shape, dtype in (((3,), "i1"), ((2, 5), "f8"), ((0, 4), "f4"), ((), "i8"))]


def test_arrays_are_zero_apart_and_aligned() -> None:
    block = carved(lay_out)
    assert block.size == 64 + 128 + 64 + 64  # 3 bytes, 80 bytes, no byte, 8 bytes, each in whole lines of 64
    arrays = lay_out(Carver(block))
    for k, array in enumerate(arrays):
        assert array.ctypes.data % ALIGNMENT == 0 and not array.any()
        array[...] = k + 1
    assert [array.tolist() for array in arrays] == [[1] * 3, [[2.0] * 5] * 2, [], 4]
    block.close()


def test_arrays_keep_the_memory_alive_and_close_gives_back_the_descriptor() -> None:
    block = SharedBlock(256)
    array, descriptor = block.array(64, (3,), np.dtype("i4")), block.descriptor
    array[:] = 7
    block.close()
    block.close()
    del block
    assert array.tolist() == [7, 7, 7]
    with pytest.raises(OSError):
        os.fstat(descriptor)


def _increment(pipe: Any) -> None:
    block = receive_block(pipe)
    block.array(0, (4,), np.dtype("i8"))[:] += 1
    pipe.send(os.getpid())


def test_another_process_writes_to_the_same_memory() -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_increment, args=(theirs,))
    process.start()
    block = SharedBlock(64)
    array = block.array(0, (4,), np.dtype("i8"))
    array[:] = (10, 20, 30, 40)
    send_block(block, ours, process.pid)
    assert ours.recv() == process.pid
    process.join()
    assert array.tolist() == [11, 21, 31, 41]
    block.close()


def test_nothing_of_it_has_a_name() -> None:
    before = set(Path("/dev/shm").iterdir()) if Path("/dev/shm").exists() else set()
    block = SharedBlock(1 << 16)
    assert before >= (set(Path("/dev/shm").iterdir()) if Path("/dev/shm").exists() else set())
    block.close()


def test_without_room_there_is_a_clear_error_and_no_descriptor_is_left() -> None:
    """A limit on the size of files holds for this memory, too; unnoticed, the first write would end the process."""
    script = """
import os, resource, sekai
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

class Big(sekai.Env):
    observation_space, action_space = sekai.Box(-1.0, 1.0, (100_000,)), sekai.Discrete(2)

before = len(os.listdir("/proc/self/fd"))
try:
    sekai.ProcVecEnv([Big, Big], context="fork")
except OSError as error:
    print(error.strerror)
print(len(os.listdir("/proc/self/fd")) - before)
with sekai.ProcVecEnv([Big, Big], context="fork", shared_memory=False) as vec:
    print(vec.shared_memory)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    text, left, shared = run.stdout.splitlines()
    assert text.startswith("There is no room for 2.5 MB of shared memory (File too large): use fewer sub-envs, or pass")
    assert (left, shared, run.stderr) == ("0", "False", "")
