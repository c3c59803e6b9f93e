"""Signals that wait, and that calls cut short at any moment leave every backend in step."""

from __future__ import annotations

import gc
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.vector.signals import Deferred
from tests.contract.envs import build

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX timers")


class Cut(BaseException):
    """Raised by the handler of these tests."""


@contextmanager
def handling(number: int, handler: Any) -> Iterator[None]:
    old = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, old)


def test_a_deferred_signal_reaches_its_handler_after_the_block_and_once() -> None:
    heard: list[int] = []
    with handling(signal.SIGUSR1, lambda number, _: heard.append(number)):
        with Deferred(signal.SIGUSR1):
            signal.raise_signal(signal.SIGUSR1)
            signal.raise_signal(signal.SIGUSR1)
            assert heard == []
        assert heard == [signal.SIGUSR1]
        signal.raise_signal(signal.SIGUSR1)
        assert heard == [signal.SIGUSR1] * 2, "the handler is in its place again"


def test_what_a_handler_raises_comes_out_of_the_block_whose_work_is_done() -> None:
    def cut(*_: object) -> None:
        raise Cut

    done: list[int] = []
    with handling(signal.SIGUSR1, cut):
        with pytest.raises(Cut), Deferred(signal.SIGUSR1):
            signal.raise_signal(signal.SIGUSR1)
            done.append(1)
        assert done == [1] and signal.getsignal(signal.SIGUSR1) is cut


# an exception inside a weak reference's callback, or of a coroutine never begun, can only be printed
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("backend", ["sync", "async", "grouped", "native"])
def test_steps_cut_short_at_any_moment_are_marked_and_the_next_ones_are_in_step(backend: str) -> None:
    """Coded rows (slot, episode, t): a row that does not follow the last one seen by one step must be LOST."""
    armed, chance = False, random.Random(0)

    def cut(*_: object) -> None:
        if armed:
            raise Cut

    longest = {"sync": 1e-4, "async": 6e-4, "grouped": 8e-4, "native": 1e-4}[backend]
    cuts, jumps = 0, 0
    with handling(signal.SIGALRM, cut), build(backend, "same_step", (10**6,) * 4) as vec:
        actions = np.zeros(4, np.int64)
        vec.reset(seed=0)
        vec.step(actions)
        last = vec.step(actions).observations[:, 2]  # whatever is imported on first use is here
        for _ in range(150):
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, 2e-5 + chance.random() * longest)
                result = vec.step(actions)
                armed = False
            except Cut:
                armed = False
                cuts += 1
                continue
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            jumped = result.observations[:, 2] != last + 1
            jumps += int(jumped.sum())
            assert not (jumped & (result.kind != sekai.RowKind.LOST)).any()
            last = result.observations[:, 2]
        signal.setitimer(signal.ITIMER_REAL, 0)
        vec.reset(seed=0)
        assert np.array_equal(vec.step(actions).observations[:, 2], np.ones(4))
    assert cuts > 0, "no step was cut short: this test has seen nothing"
    gc.collect()  # what the cuts left lying must not be found by another test
