"""`Jobs`: what a tab has to do, in order, in a thread of its own, so that a slow environment holds up no other tab."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

Then: TypeAlias = Callable[[Any], None]
Job: TypeAlias = Callable[[], None]


class Jobs:
    """A queue and its thread.

    Args:
        on_page: has a function called where the page may be changed, some time later; called in the jobs' thread.
    """

    def __init__(self, on_page: Callable[[Job], Any]) -> None:
        self._on_page = on_page
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._waiting = 0  # only touched on the page's side: up when put in, down when the answer is there
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="sekai-lab", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether everything is done, and its answers have arrived."""
        return self._waiting == 0

    def submit(self, work: Callable[[], Any], then: Then, failed: Then) -> None:
        """Do `work` when its turn comes; then, on the page's side, `then(result)` or `failed(error)`."""
        self._waiting += 1

        def job() -> None:
            try:
                result = work()
            except Exception as error:
                self._answer(failed, error)
            else:
                self._answer(then, result)

        self._queue.put(job)

    def close(self, last: Job) -> None:
        """Leave out what waits, and do `last` when what is under way has ended; nothing is answered any more."""
        self._closed = True
        try:
            while True:
                self._queue.get_nowait()
        except Empty:
            self._queue.put(last)
            self._queue.put(None)

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, so many seconds at most."""
        self._thread.join(timeout)

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            try:
                job()
            except Exception:  # of `last`: there is no page any more to tell
                logging.getLogger(__name__).exception("closing the environments of a tab failed")

    def _answer(self, function: Then, value: Any) -> None:
        def arrive() -> None:
            self._waiting -= 1
            function(value)

        if not self._closed:
            self._on_page(arrive)
