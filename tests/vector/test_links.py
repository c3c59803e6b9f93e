"""`Link`: what the caller's end makes of a worker that is on its way out."""

from __future__ import annotations

import multiprocessing
import os
import struct
import time
from multiprocessing.connection import Connection

import pytest

from sekai.vector.links import Gate, Link


def break_off(pipe: Connection, seconds: float) -> None:
    """Begin a message of 100 bytes, and end so many seconds after the pipe."""
    os.write(pipe.fileno(), struct.pack("!i", 100) + b"half of it")
    pipe.close()
    time.sleep(seconds)
    os._exit(9)


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_a_worker_that_ends_within_a_reply_is_dead_also_before_its_process_has_ended(seconds: float) -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=break_off, args=(there, seconds))
    process.start()
    there.close()
    link = Link(0, (0, 1), process, here, None, Gate())
    assert link.receive() is None and link.dead
    assert link.exit_code() == 9
    link.release()
