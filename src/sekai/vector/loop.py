"""`Loop`: an event loop in a thread of its own, and how work on it is cancelled and fails."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task


class Loop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        import asyncio

        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sekai-async", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run `work` to its end. An interrupt cancels it and waits until it has let go of the environments."""
        job = self._start(work)
        try:
            job.ended.get()
            return job.outcome.result()
        except _Stop as stop:
            error = stop.error
        except BaseException:
            if not job.outcome.done():
                job.cancel()
                job.ended.get()
            raise
        raise error

    async def run_async(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await `work` from another loop; cancelling cancels it and waits like `run`."""
        import asyncio

        job = self._start(work)
        outcome = asyncio.wrap_future(job.outcome)
        try:
            return await asyncio.shield(outcome)
        except _Stop as stop:
            error = stop.error
        except asyncio.CancelledError:
            if not job.outcome.done():
                job.cancel()
                while not outcome.done():
                    with suppress(asyncio.CancelledError):  # another one, while the environments are still at work
                        await asyncio.wait([outcome])
                outcome.exception()  # retrieved, so that nothing is printed when it is collected
            raise
        raise error

    def soon(self, callback: Callable[[], None]) -> None:
        """Have `callback` called on the loop."""
        self._require_own_process()
        self._loop.call_soon_threadsafe(callback)

    def stop(self) -> None:
        """Cancel what is left, stop the loop and join its thread."""
        if self._loop.is_closed() or os.getpid() != self._pid:
            return
        self.run(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _start(self, work: Coroutine[Any, Any, Any]) -> _Job:
        try:
            self._require_own_process()
        except RuntimeError:
            work.close()
            raise
        job = _Job(self._loop)
        self._loop.call_soon_threadsafe(job.start, work)
        return job

    def _require_own_process(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("An AsyncVecEnv does not survive a fork: build a new one in the child process.")


class _Job:
    """One piece of work on the loop. `outcome` is done only when the work has ended, also when it was cancelled.

    A thread waits for `ended`, which gets one entry then: waiting for the future itself does not survive an interrupt
    at every moment, since its condition is written in Python.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        from concurrent.futures import Future

        self.outcome: Future[Any] = Future()
        self.ended: SimpleQueue[None] = SimpleQueue()
        self._loop = loop
        self._task: Task[Any] | None = None

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Begin; called on the loop."""
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        """Ask the work to stop; called from any thread, after `start` was scheduled."""
        self._loop.call_soon_threadsafe(lambda: self._task is not None and self._task.cancel())

    def _finish(self, task: Task[Any]) -> None:
        from concurrent.futures import CancelledError

        error = CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())
        self.ended.put(None)


async def _cancel_others() -> None:
    import asyncio

    await cancel(task for task in asyncio.all_tasks() if task is not asyncio.current_task())


async def cancel(tasks: Iterable[Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    import asyncio

    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Stop(Exception):
    """Carries an exception out of a task that would stop the loop, such as `SystemExit`, or pass for a cancellation."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


async def gather(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all concurrently; when one is told to exit, cancel the others and wait for them."""
    import asyncio

    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(_carrying(work))
    except BaseExceptionGroup as errors:
        stop = errors.exceptions[0]
        raise stop from None


async def _carrying(work: Coroutine[Any, Any, None]) -> None:
    import asyncio

    try:
        await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise _Stop(error) from None
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise _Stop(error) from None  # the environment's own: a task group would take it for a normal end


async def as_work(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A call as a coroutine."""
    return function(*args, **kwargs)
