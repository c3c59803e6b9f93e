"""`AsyncVecEnv`: sub-environments stepped concurrently on one event loop of their own.

The loop runs in one daemon thread for the whole life of the vector environment. Sync and async calls alike hand
their work to it, so environments live on one loop, and `step` works where a loop is running already (a notebook).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from sekai.core.env import await_reset, await_step
from sekai.seeding import VecSeed
from sekai.vector.base import AutoresetOptions
from sekai.vector.building import EnvFactory, building
from sekai.vector.exclusive import async_exclusive, exclusive, exclusive_step
from sekai.vector.local import NEW, RESET, STEP, LocalVecEnv
from sekai.vector.requests import ResetRequest
from sekai.vector.results import VecResetResult, VecStepResult

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
                await asyncio.wait([outcome])
                outcome.exception()  # retrieved, so that nothing is printed when it is collected
            raise
        raise error

    def stop(self) -> None:
        """Cancel what is left, stop the loop and join its thread."""
        if self._loop.is_closed() or os.getpid() != self._pid:
            return
        self.run(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _start(self, work: Coroutine[Any, Any, Any]) -> _Job:
        if os.getpid() != self._pid:
            work.close()
            raise RuntimeError("An AsyncVecEnv does not survive a fork: build a new one in the child process.")
        job = _Job(self._loop)
        self._loop.call_soon_threadsafe(job.start, work)
        return job


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

    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Stop(Exception):
    """Carries an exception out of a task that would stop the loop, such as `SystemExit`, or pass for a cancellation."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


async def _gather(works: Iterable[Coroutine[Any, Any, None]]) -> None:
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


async def _run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


class AsyncVecEnv(LocalVecEnv):
    """Sub-environments stepped concurrently on one event loop, in this process.

    Worth it for environments that wait, with a real `async_step`; one that blocks holds up the others.

    Args:
        env_fns: one zero-argument callable per sub-environment, called on the loop.
        autoreset: as for `SyncVecEnv`.
        autoreset_options: as for `SyncVecEnv`.

    Raises:
        SpaceMismatch: the sub-environments' spaces differ.
        ValueError: no factory, or two that return the same object.
    """

    def __init__(
        self,
        env_fns: Iterable[EnvFactory],
        *,
        autoreset: Any = True,
        autoreset_options: AutoresetOptions | None = None,
    ) -> None:
        self._loop = Loop()
        self._closing = threading.Lock()
        weakref.finalize(self, self._loop.stop)  # of one that is collected without having been closed
        try:
            self._loop.run(_run(self._build, env_fns, autoreset, autoreset_options))
        except BaseException:
            self._loop.stop()
            raise

    def _build(self, env_fns: Iterable[EnvFactory], autoreset: Any, options: AutoresetOptions | None) -> None:
        with building(env_fns) as envs:
            LocalVecEnv.__init__(self, envs, autoreset=autoreset, autoreset_options=options)

    @exclusive_step
    def step(self, actions: Any) -> VecStepResult:
        """Step all slots concurrently. An exception of one lets the others finish and is raised at the end."""
        calls, batch = self._begin_step(actions)
        self._loop.run(self._step_all(calls, batch))
        return self._finish_step(calls)

    @async_exclusive
    async def async_step(self, actions: Any) -> VecStepResult:
        """Awaitable `step`."""
        calls, batch = self._begin_step(actions)
        await self._loop.run_async(self._step_all(calls, batch))
        result = self._finish_step(calls)
        self._unfinished = None
        return result

    async def _step_all(self, calls: list[int], batch: Iterable[Any]) -> None:
        pairs = zip(calls, batch, strict=True)
        await _gather(self._step_slot(slot, call, action) for slot, (call, action) in enumerate(pairs))

    async def _step_slot(self, slot: int, call: int, action: Any) -> None:
        env = self.envs[slot]
        try:
            if call == STEP:
                if self._stepped(slot, await await_step(env, action)):
                    self._restarted(slot, await await_reset(env, None, self._next_options[slot]))
            elif call == RESET:
                self.phase[slot] = NEW  # until the reset has succeeded
                self._was_reset(slot, await await_reset(env, None, self._next_options[slot]))
            else:
                self._held(slot)
        except Exception as error:
            self._failed(slot, error)

    @exclusive
    def reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Reset all slots concurrently. An exception of one lets the others finish and is raised at the end."""
        request = self._begin_reset(seed, options, mask)
        self._loop.run(self._reset_all(request))
        return self._finish_reset(request)

    @async_exclusive
    async def async_reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Awaitable `reset`."""
        request = self._begin_reset(seed, options, mask)
        await self._loop.run_async(self._reset_all(request))
        return self._finish_reset(request)

    async def _reset_all(self, request: ResetRequest) -> None:
        await _gather(self._reset_slot(slot, request) for slot in request.slots)

    async def _reset_slot(self, slot: int, request: ResetRequest) -> None:
        self.phase[slot] = NEW  # until the reset has succeeded
        try:
            first = await await_reset(self.envs[slot], request.seeds[slot], request.options[slot])
            self._was_reset(slot, first)
        except Exception as error:
            self._failed(slot, error)

    @exclusive
    def get_attr(self, name: str) -> list[Any]:
        """`name` of every sub-environment, read on their loop."""
        self._require_open()
        values: list[Any] = self._loop.run(_run(super().get_attr, name))
        return values

    @exclusive
    def set_attr(self, name: str, value: Any) -> None:
        """Set `name` on the layer of each sub-environment that has it, on their loop."""
        self._require_open()
        self._loop.run(_run(super().set_attr, name, value))

    @exclusive
    def call_slots(self, slots: Iterable[int], name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """`call`, of some sub-environments only, on their loop."""
        self._require_open()
        results: list[Any] = self._loop.run(_run(super().call_slots, slots, name, *args, **kwargs))
        return results

    def close(self) -> None:
        """Close every sub-environment on the loop, then stop it."""
        with self._closing:
            if self.closed:
                return
            try:
                self._loop.run(_run(super().close))
            finally:
                self._loop.stop()
