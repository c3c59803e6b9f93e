"""Signals that wait: a message is sent or read whole, or not at all.

An exception raised by a handler, such as `KeyboardInterrupt`, may come between any two steps of Python. Between the
header and the body of a message it would leave the pipe out of step for good.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# where there is no SIGALRM, SIGINT stands for it: it is then deferred twice, which changes nothing
ALARM = getattr(signal, "SIGALRM", signal.SIGINT)


class Deferred:
    """Hold one signal back for the length of a `with` block, then deliver it to its handler.

    Does nothing outside the main thread, where no handler runs, and for a signal without a Python handler.

    Args:
        number: the signal.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._handler: Any = None
        self._caught: list[FrameType | None] = []

    def __enter__(self) -> None:
        self._caught.clear()
        self._handler = None
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(self.number)
            if callable(handler):
                self._handler = handler
                signal.signal(self.number, lambda _, frame: self._caught.append(frame))

    def __exit__(self, *_: object) -> None:
        if self._handler is None:
            return
        signal.signal(self.number, self._handler)
        if self._caught:
            self._handler(self.number, self._caught[0])


@contextmanager
def undisturbed() -> Iterator[None]:
    """Hold back what interrupts people and their timers send, for what must be done whole or not at all."""
    with Deferred(ALARM), Deferred(signal.SIGINT):
        yield
