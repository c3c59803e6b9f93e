"""`Failure`: an exception of another process, described as data, and the error that it becomes in this one."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from sekai.errors import VecEnvWorkerError
from sekai.vector.blame import blamed_slot

SLOW = "TimeoutError"


class Worker(Protocol):
    """What the texts say of a worker: its number, its slots `[lo, hi)`, its process id and how it ended."""

    index: int
    lo: int
    hi: int
    pid: int | None

    def exit_code(self, seconds: float = 0.0) -> int | None:
        """Exit code, minus the signal where one ended it; None while it lives, also after so many seconds."""
        ...


class Failure(NamedTuple):
    """An exception of a worker, or its end.

    Attributes:
        slot: index of the sub-environment that raised it, None when no single one is to blame.
        kind: class name of the exception.
        message: its text.
        trace: its formatted traceback.
        death: the worker has ended, or cannot be reached.
    """

    slot: int | None
    kind: str
    message: str
    trace: str = ""
    death: bool = False

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an exception, also one that cannot describe itself."""
        try:
            message, trace = str(error), "".join(traceback.format_exception(error))
        except Exception as second:
            message, trace = f"(its text raised {type(second).__name__})", ""
        return cls(blamed_slot(error), type(error).__name__, message, trace)


def obituary(worker: Worker, action: str = "") -> Failure:
    """What is known of a worker that died.

    Args:
        worker: it.
        action: the last one it was given, where it has one slot only.
    """
    code = worker.exit_code(1.0)  # it may be a moment late
    facts = [_exit_of(code), f"pid {worker.pid}", *([f"action {action}"] if action else [])]
    return Failure(None, "EOFError", f"worker process exited unexpectedly ({', '.join(facts)})", death=True)


def raise_first_failure(workers: Iterable[Worker], outcomes: Iterable[Any], but_deaths: bool = False) -> None:
    """Raise the failure of the lowest slot, if there is one among the outcomes.

    Args:
        workers: all of them.
        outcomes: one per worker: whatever it returned, or a `Failure`.
        but_deaths: leave out workers that died.

    Raises:
        VecEnvWorkerError: it.
    """
    failures = [
        (worker, outcome)
        for worker, outcome in zip(workers, outcomes, strict=True)
        if type(outcome) is Failure and not (but_deaths and outcome.death)
    ]
    if not failures:
        return
    worker, failure = min(failures, key=lambda entry: entry[0].lo if entry[1].slot is None else entry[1].slot)
    who = _slots_of(worker) if failure.slot is None else f"Sub-env {failure.slot}"
    text = f"{who} raised {failure.kind}: {failure.message}"
    if failure.kind == SLOW and failure.slot is None:
        slow = [_slots_of(other) for other, outcome in failures if outcome.kind == SLOW]
        text += f" (slow: {', '.join(slow)}); the next call waits for what is still under way."
    raise VecEnvWorkerError(
        f"{text}\n\n{failure.trace}" if failure.trace else text,
        rank=worker.lo if failure.slot is None else failure.slot,
        exc_type=failure.kind,
        remote_traceback=failure.trace,
        pid=worker.pid,
        exitcode=worker.exit_code(),
    )


def _slots_of(worker: Worker) -> str:
    if worker.hi - worker.lo == 1:
        return f"Sub-env {worker.lo}"
    return f"Worker {worker.index} (sub-envs {worker.lo}-{worker.hi - 1})"


def _exit_of(code: int | None) -> str:
    """How a process ended."""
    if code is None:
        return "it does not answer"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
