"""Threads for kernels: the slots of a call cut into ranges, one a thread.

It owns the cut, the pool and what an error or an interrupt in the middle leaves; it may import nothing of an
environment, draws no random number and looks at no state. The callable it is given writes the slots `[lo, hi)` and no
others, and reads what nobody writes, so that neither the number of threads nor their order changes a bit:

    0                        lo of the 2nd          lo of the 3rd           N
    |------ the caller ------|------ a worker ------|------ a worker ------|

Three hard cases. A range that no worker has begun when the caller is done with its own is done by the caller: a worker
that the system wakes late costs nothing. When one range fails, or the caller is interrupted, those begun are waited for
and no others begin, so that nothing is written after the call. After a fork the child has none of the threads: the pool
belongs to a process, and another one makes its own.

To hand ranges over and to hear of their end costs a call some 100 microseconds. So every environment names the slots
that keep a thread busy for more than that (`FEWEST`, beside its slots), and smaller ones are stepped in fewer ranges.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

from sekai.spaces.checks import whole_number

#: Ranges begin at a multiple of so many slots, so that flags (one byte each) of two ranges lie in different cache lines
GRAIN = 64

Range = tuple[int, int]


def usable_cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_num_threads(value: Any) -> int:
    """The number of threads asked for, that of the usable cores for `"auto"`.

    Raises:
        TypeError, ValueError: neither `"auto"` nor an int of at least 1.
    """
    if isinstance(value, str) and value == "auto":
        return usable_cores()
    try:
        return whole_number("num_threads", value, minimum=1)
    except (TypeError, ValueError) as error:
        raise type(error)(f"num_threads is {value!r}; expected an int of at least 1, or 'auto'.") from None


def cut(num_slots: int, parts: int) -> list[Range]:
    """`[0, num_slots)` in at most so many ranges of almost equal length, each beginning at a multiple of `GRAIN`."""
    length = -(-num_slots // (parts * GRAIN)) * GRAIN
    return [(lo, min(lo + length, num_slots)) for lo in range(0, num_slots, length)]


class Threads:
    """The threads of one environment.

    Args:
        num_slots: `N`.
        fewest: slots below which a thread is not worth its while; fewer threads are used then.

    Attributes:
        ranges: what a call is cut into; one range for one thread.
    """

    def __init__(self, num_slots: int, fewest: int) -> None:
        self._num_slots, self._fewest = num_slots, fewest
        self._pool: ThreadPoolExecutor | None = None
        self._pid = -1  # of the process that made the pool
        self.count = 1

    @property
    def count(self) -> int:
        """Threads that a call may use, the caller's own included; threads that are too many end when it is set."""
        return self._count

    @count.setter
    def count(self, count: int) -> None:
        self.close()
        self._count = count
        self.ranges = cut(self._num_slots, max(1, min(count, self._num_slots // self._fewest)))

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call `function(lo, hi, *arguments)` for every range, and return the results in the order of the ranges.

        Raises:
            BaseException: that of the first range that raised, or what interrupted the caller; no range is running.
        """
        if len(self.ranges) == 1:
            return [function(0, self._num_slots, *arguments)]
        return _Call(function, arguments, self.ranges).run(self._executor())

    def first(self, function: Callable[..., int], *arguments: Any) -> int:
        """The first slot that a kernel refuses, which returns the first one of its range, or -1; -1 for none."""
        for slot in self.run(function, *arguments):
            if slot >= 0:
                return int(slot)
        return -1

    def close(self) -> None:
        """End the threads; the next call would start others."""
        pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.shutdown()

    def _executor(self) -> ThreadPoolExecutor:
        if self._pool is None or self._pid != os.getpid():
            self._pool, self._pid = ThreadPoolExecutor(len(self.ranges) - 1, "sekai-slots"), os.getpid()
        return self._pool

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_pool": None}


class _Call:
    """A function over some ranges: who has taken which, and what came of it."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], ranges: list[Range]) -> None:
        self._function, self._arguments, self._ranges = function, arguments, ranges
        self._results: list[Any] = [None] * len(ranges)
        self._errors: dict[int, BaseException] = {}
        # range -> whether a worker took it; setdefault is one indivisible operation, and the first to ask takes it
        self._takers: dict[int, bool] = {}
        self._done = [Event() for _ in ranges]

    def run(self, pool: ThreadPoolExecutor) -> list[Any]:
        """Do all ranges, the first one in this thread."""
        interrupt: BaseException | None = None
        try:
            for place in range(1, len(self._ranges)):
                pool.submit(self._work, place)
            for place in range(len(self._ranges)):
                if not self._errors and not self._takers.setdefault(place, False):
                    self._do(place)
        except BaseException as error:
            interrupt = error
        while True:
            try:
                self._settle()
                break
            except BaseException as error:  # another interrupt: what has begun must still end
                interrupt = error
        if interrupt is not None:
            raise interrupt
        if self._errors:
            raise self._errors[min(self._errors)]
        return self._results

    def _settle(self) -> None:
        """Let no further range begin, and wait for those that workers have begun."""
        for place, done in enumerate(self._done):
            if self._takers.setdefault(place, False):
                done.wait()

    def _work(self, place: int) -> None:
        if self._takers.setdefault(place, True):
            try:
                self._do(place)
            finally:
                self._done[place].set()

    def _do(self, place: int) -> None:
        try:
            self._results[place] = self._function(*self._ranges[place], *self._arguments)
        except BaseException as error:
            self._errors[place] = error
