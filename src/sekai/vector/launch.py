"""`Launcher`: starts worker processes, the first time and in place of one that was lost; and how they are ended."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakSet

import numpy as np

from sekai.vector.failure import SLOW, Failure
from sekai.vector.links import Gate, Link
from sekai.vector.signals import ALARM, Deferred
from sekai.vector.worker import work

GUARD = (
    "Workers import the main script again, so a script that builds a ProcVecEnv must do that under "
    "`if __name__ == '__main__':`."
)
_started: WeakSet[Any] = WeakSet()
#: exit code of a process that found itself building a ProcVecEnv while it imported the main script
UNGUARDED = 75


def refuse_nested_start() -> None:
    """End this process quietly when it is a worker to be that imports a main script without a guard.

    Its caller sees the exit code and says what is wrong, once, and not each worker with a traceback of its own.

    Raises:
        RuntimeError: this process may not have children.
    """
    process = multiprocessing.current_process()
    if getattr(process, "_inheriting", False):
        os._exit(UNGUARDED)  # the fork server would turn SystemExit into another code
    if process.daemon:
        raise RuntimeError(
            "This process is a daemon of multiprocessing, which may not start workers: use vectorization_mode='sync' "
            "here, or start the process with daemon=False."
        )


class Launcher:
    """Starts the workers of one `ProcVecEnv`.

    Args:
        context: start method, None for the default.
        bounds: `[lo, hi)` of each worker's slots.
        builds: pickles of functions of the first slot that build a `Share`, one per worker.
        shares_memory: whether there may be a board.
        gate: see `Link`.
    """

    def __init__(
        self,
        context: str | None,
        bounds: Sequence[tuple[int, int]],
        builds: Sequence[bytes],
        shares_memory: bool,
        gate: Gate,
    ) -> None:
        refuse_nested_start()
        self._context = multiprocessing.get_context(context or ("spawn" if sys.platform == "win32" else "forkserver"))
        self._bounds, self._builds, self._shares_memory, self._gate = bounds, builds, shares_memory, gate
        self._entropy: Any = np.random.SeedSequence().entropy
        self._started = 0

    def start(self, index: int) -> Link:
        """Start the worker of that number.

        Raises:
            OSError: there is no room for its semaphores, or for one process more.
            RuntimeError: the fork server ended.
        """
        link = None
        try:
            with (
                Deferred(ALARM),
                Deferred(signal.SIGINT),
            ):  # half a start leaves descriptors and a child
                link = self._start(index)
            return link
        except BaseException:
            if link is not None:
                end_processes([link], 0.0)
            raise

    def _start(self, index: int) -> Link:
        (lo, hi), context = self._bounds[index], self._context
        self._started += 1
        semaphores = self._semaphores() if self._shares_memory else None
        ours, theirs = context.Pipe()
        process = context.Process(  # type: ignore[attr-defined]  # every context has it
            target=work,
            args=(theirs, semaphores, self._builds[index], lo, hi - lo, (self._entropy, self._started)),
            name=f"sekai-worker-{index}",
            daemon=True,
        )
        try:
            process.start()
        except (EOFError, ConnectionError) as error:
            ours.close()
            raise RuntimeError(f"The fork server ended before it started a worker. {GUARD}") from error
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        _started.add(process)
        return Link(index, (lo, hi), process, ours, semaphores, self._gate)

    def _semaphores(self) -> tuple[Any, Any]:
        try:
            return self._context.Semaphore(0), self._context.Semaphore(0)
        except OSError as error:
            raise OSError(
                error.errno,
                f"A semaphore could not be made ({error.strerror}); they live in /dev/shm, which may be full or "
                "missing: make room there, or pass shared_memory=False.",
            ) from None


def _disown() -> None:
    """In a process that was forked from this one: leave its workers alone.

    multiprocessing keeps its list of children across a fork, and ends them when the forked process exits.
    """
    getattr(multiprocessing.process, "_children", set()).difference_update(_started)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown)


def at_start(link: Link, failure: Failure) -> Failure:
    """A failure of a worker that had not been ready yet."""
    if failure.kind == SLOW:
        return failure._replace(message="not built within start_timeout")
    if not failure.death:
        return failure
    guard = f". {GUARD}" if link.exit_code() == UNGUARDED else ""
    return failure._replace(message=f"{failure.message} while it was starting{guard}")


def end_processes(links: Iterable[Link], seconds: float) -> None:
    """Wait for the processes to end, make those that do not, and release what they took.

    Args:
        links: the workers.
        seconds: to wait for all of them.
    """
    links = [link for link in links if not link.released]
    deadline = time.monotonic() + seconds
    for link in links:
        link.process.join(max(0.0, deadline - time.monotonic()))
    for end, patience in (("terminate", 1.0), ("kill", None)):
        left = [link.process for link in links if link.process.is_alive()]
        for process in left:
            getattr(process, end)()
        for process in left:
            process.join(patience)
    for link in links:
        link.release()


def abandon(links: Sequence[Link], pid: int) -> None:
    """Kill the workers of an object that was never closed; `pid` is the process that they belong to."""
    if os.getpid() == pid:
        for link in links:
            if not link.released:
                link.process.kill()
