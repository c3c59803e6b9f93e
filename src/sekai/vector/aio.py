"""`AsyncVecEnv`: sub-environments stepped concurrently on one event loop of their own.

The loop runs in one daemon thread for the whole life of the vector environment. Sync and async calls alike hand
their work to it, so environments live on one loop, and `step` works where a loop is running already (a notebook).
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterable
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from sekai.core.env import await_reset, await_step
from sekai.core.wrapper import awaits
from sekai.seeding import VecSeed
from sekai.vector.base import AutoresetOptions
from sekai.vector.blame import blame
from sekai.vector.building import EnvFactory, building
from sekai.vector.exclusive import async_exclusive, exclusive, exclusive_step
from sekai.vector.local import NEW, RESET, STEP, LocalVecEnv
from sekai.vector.loop import Loop, as_work, cancel, gather
from sekai.vector.outstanding import Request, Row
from sekai.vector.requests import ResetRequest
from sekai.vector.results import VecResetResult, VecStepResult
from sekai.vector.threads import to_the_end

if TYPE_CHECKING:
    from asyncio import Task
    from concurrent.futures import ThreadPoolExecutor


class AsyncVecEnv(LocalVecEnv):
    """Sub-environments stepped concurrently on one event loop, in this process.

    Worth it for environments that wait, with a real `async_step`. One that blocks holds up the others, unless it may do
    so in a thread: worth it where it waits for something outside of Python, or computes without the interpreter's lock.

    Args:
        env_fns: one zero-argument callable per sub-environment, called on the loop.
        autoreset: as for `SyncVecEnv`.
        autoreset_options: as for `SyncVecEnv`.
        blocking: where environments without an `async_step` of their own are stepped and reset: on the loop (`"loop"`),
            or in threads, all at once (`"thread"`). A step in a thread cannot be cut short: a cancelled call ends when
            those under way have.

    Raises:
        SpaceMismatch: the sub-environments' spaces differ.
        ValueError: no factory, two that return the same object, or another `blocking`.
    """

    def __init__(
        self,
        env_fns: Iterable[EnvFactory],
        *,
        autoreset: Any = True,
        autoreset_options: AutoresetOptions | None = None,
        blocking: str = "loop",
    ) -> None:
        if blocking not in ("loop", "thread"):
            raise ValueError(f"blocking is {blocking!r}; expected 'loop' or 'thread'.")
        self._pool: ThreadPoolExecutor | None = None
        self._loop = Loop()
        self._under_way: set[Task[None]] = set()
        self._told = True  # the loop knows of every slot that was sent an action
        self._came: SimpleQueue[None] = SimpleQueue()  # an entry for every slot that has finished, or less
        self._closing = threading.Lock()
        weakref.finalize(self, self._loop.stop)  # of one that is collected without having been closed
        try:
            self._loop.run(as_work(self._build, env_fns, autoreset, autoreset_options))
        except BaseException:
            self._loop.stop()
            raise
        if blocking == "thread":
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self.num_envs, thread_name_prefix="sekai-async")
        self._in_threads = [blocking == "thread" and not awaits(env) for env in self.envs]

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
        await gather(self._step_slot(slot, call, action) for slot, (call, action) in enumerate(pairs))

    async def _step_slot(self, slot: int, call: int, action: Any) -> None:
        try:
            await self._advance_async(slot, call, action)
        except Exception as error:
            self._failed(slot, error)

    async def _advance_async(self, slot: int, call: int, action: Any) -> None:
        """Awaitable `_advance`."""
        if self._in_threads[slot]:
            assert self._pool is not None
            await to_the_end(self._pool, partial(self._advance, slot, call, action))
            return
        env = self.envs[slot]
        if call == STEP:
            if self._stepped(slot, await await_step(env, action)):
                self._restarted(slot, await await_reset(env, None, self._next_options[slot]))
        elif call == RESET:
            self.phase[slot] = NEW  # until the reset has succeeded
            self._was_reset(slot, await await_reset(env, None, self._next_options[slot]))
        else:
            self._held(slot)

    # ---- overlapped steps ----------------------------------------------------------------------

    def _launch(self, requests: dict[int, Request]) -> None:
        self._told = False
        self._outstanding.ask(requests)
        self._tell()

    def _tell(self) -> None:
        """Have the loop begin what it has not begun; an interrupted `_launch` leaves that to `recv`."""
        self._loop.soon(self._begin_requests)
        self._told = True

    def _begin_requests(self) -> None:
        """Called on the loop."""
        import asyncio

        for slot, request in self._outstanding.under_way().items():
            if request.taken_by is None:
                task = asyncio.get_running_loop().create_task(self._deliver(slot, request))
                request.taken_by = task
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)

    async def _deliver(self, slot: int, request: Request) -> None:
        """Step a slot, and leave its row or what it raised."""
        import asyncio

        outcome: Row | BaseException
        try:
            call = self._begin_slot(slot)
            await self._advance_async(slot, call, request.action)
            outcome = self._row(slot, call)
        except BaseException as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # by `close`, which nobody waits for
                raise
            if isinstance(error, Exception):
                blame(error, slot)
            outcome = error
        self._outstanding.finished[slot] = outcome
        self._came.put(None)

    def _progress(self, deadline: float | None) -> bool:
        if not self._told:
            self._tell()
        try:
            self._came.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
        except Empty:
            return False
        return True

    # ---- resets, attributes, closing -----------------------------------------------------------

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
        await gather(self._reset_slot_async(slot, request) for slot in request.slots)

    async def _reset_slot_async(self, slot: int, request: ResetRequest) -> None:
        """Awaitable `_reset_slot`."""
        if self._in_threads[slot]:
            assert self._pool is not None
            await to_the_end(self._pool, partial(self._reset_slot, slot, request))
            return
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
        values: list[Any] = self._loop.run(as_work(super().get_attr, name))
        return values

    @exclusive
    def set_attr(self, name: str, value: Any) -> None:
        """Set `name` on the layer of each sub-environment that has it, on their loop."""
        self._require_open()
        self._loop.run(as_work(super().set_attr, name, value))

    @exclusive
    def call_slots(self, slots: Iterable[int], name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """`call`, of some sub-environments only, on their loop."""
        self._require_open()
        results: list[Any] = self._loop.run(as_work(super().call_slots, slots, name, *args, **kwargs))
        return results

    def close(self) -> None:
        """Close every sub-environment on the loop, then stop it."""
        with self._closing:
            if self.closed:
                return
            try:
                self._loop.run(self._close_all())
            finally:
                self._came.put(None)  # to a thread that waits for rows
                self._loop.stop()
                if self._pool is not None:
                    self._pool.shutdown()

    async def _close_all(self) -> None:
        await cancel(self._under_way)
        super().close()
