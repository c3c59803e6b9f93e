"""`AsyncVecEnv`: one private loop, cancellation, and exceptions that would stop a loop."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from tests.contract.envs import BOOM, EXIT, INTERRUPT, MODES, Coded, build, build_from, factory, places

LOST, STEP = RowKind.LOST, RowKind.STEP
WAIT, CANCEL = 4, 9


class Waiting(Coded):
    """Action `WAIT` waits for a minute, `CANCEL` raises `CancelledError` by itself; every step yields once."""

    def __init__(self, slot: int, length: int = 99) -> None:
        super().__init__(slot, length)
        self.loops: list[Any] = []
        self.threads: list[str] = []
        self.cancelled, self.slow_reset = 0, False
        self.started = threading.Event()

    async def async_step(self, action: Any) -> Any:
        self.loops.append(asyncio.get_running_loop())
        self.threads.append(threading.current_thread().name)
        if action == CANCEL:
            raise asyncio.CancelledError
        await self._wait(60.0 if action == WAIT else 0.0)
        return self.step(action)

    async def async_reset(self, *, seed: Any = None, options: Any = None) -> Any:
        await self._wait(60.0 if self.slow_reset else 0.0)
        return self.reset(seed=seed, options=options)

    async def _wait(self, seconds: float) -> None:
        self.started.set()
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def waiting(n: int, mode: str = "same_step", **kwargs: Any) -> Any:
    return build_from([factory(Waiting, slot, **kwargs) for slot in range(n)], "async", mode)


def started(vec: Any) -> threading.Event:
    """Set once the first slot has begun to wait."""
    event: threading.Event = vec.envs[0].started
    event.clear()
    return event


def test_sync_and_async_calls_run_on_one_private_loop() -> None:
    async def drive(vec: Any) -> Any:
        await vec.async_step([0, 0])
        vec.step([0, 0])  # inside a running loop, as in a notebook
        return asyncio.get_running_loop()

    with waiting(2) as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        outer = asyncio.run(drive(vec))
        loops = {loop for env in vec.envs for loop in env.loops}
        assert len(loops) == 1 and outer not in loops
        assert {name for env in vec.envs for name in env.threads} == {"sekai-async"}
        assert vec.get_attr("t") == [3, 3]
    assert next(iter(loops)).is_closed()
    assert "sekai-async" not in {thread.name for thread in threading.enumerate()}


def test_slots_wait_for_each_other_concurrently() -> None:
    # each slot waits until all four are inside their step: one after another would never end
    barrier: list[int] = []

    class Meets(Coded):
        async def async_step(self, action: Any) -> Any:
            barrier.append(self.slot)
            while len(barrier) < 4:
                await asyncio.sleep(0)
            return self.step(action)

    with build_from([factory(Meets, slot) for slot in range(4)], "async") as vec:
        vec.reset(seed=0)
        assert places(vec.step([0] * 4).observations) == [(slot, 0, 1) for slot in range(4)]


@pytest.mark.parametrize("mode", MODES)
def test_a_cancelled_async_step_lets_go_of_the_environments_and_loses_its_rows(mode: str) -> None:
    async def drive(vec: Any) -> None:
        event = started(vec)
        task = asyncio.create_task(vec.async_step([WAIT, 0, WAIT]))
        while not event.is_set():
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert vec.get_attr("cancelled") == [1, 0, 1], "the environments were told, before the call returned"
        assert vec.lost_rows.all()
        after = await vec.async_step([0, 0, 0])
        assert after.kind.tolist() == [LOST] * 3
        assert places(after.observations) == [(0, 0, 1), (1, 0, 2), (2, 0, 1)]

    with waiting(3, mode) as vec:
        vec.reset(seed=0)
        asyncio.run(drive(vec))
        assert vec.step([0, 0, 0]).kind.tolist() == [STEP] * 3
        assert vec.reset(seed=0).observations.shape == (3, 4)


def test_a_cancelled_async_reset_leaves_the_slots_it_did_not_reach_in_need_of_one() -> None:
    async def drive(vec: Any) -> None:
        event = started(vec)
        task = asyncio.create_task(vec.async_reset())
        while not event.is_set():
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with waiting(3) as vec:
        vec.reset(seed=0)
        vec.set_attr("slow_reset", [True, False, True])
        asyncio.run(drive(vec))
        with pytest.raises(sekai.ResetRequired, match=r"^sub-envs \[0, 2\] need a reset"):
            vec.step([0, 0, 0])
        vec.set_attr("slow_reset", False)
        again = vec.reset(mask=np.array([True, False, True]))
        assert places(again.observations) == [(0, 1, 0), (1, 1, 0), (2, 1, 0)]
        assert vec.step([0, 0, 0]).kind.tolist() == [STEP, LOST, STEP]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="POSIX signals")
def test_ctrl_c_during_a_sync_step_cancels_it() -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with waiting(2) as vec:
        vec.reset(seed=0)
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt):
                vec.step([WAIT, 0])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert vec.get_attr("cancelled") == [1, 0] and vec.lost_rows.all()
        assert vec.step([0, 0]).kind.tolist() == [LOST, LOST]


@pytest.mark.parametrize(
    ("action", "error"), [(EXIT, SystemExit), (INTERRUPT, KeyboardInterrupt), (CANCEL, asyncio.CancelledError)]
)
@pytest.mark.parametrize("through", ["step", "async_step"])
def test_what_is_no_exception_comes_out_unchanged_and_stops_the_others(action: int, error: type, through: str) -> None:
    with waiting(3) as vec:
        vec.reset(seed=0)

        async def drive() -> None:
            await vec.async_step([WAIT, action, 0])

        with pytest.raises(error) as caught:
            if through == "step":
                vec.step([WAIT, action, 0])
            else:
                asyncio.run(drive())
        if error is SystemExit:
            assert caught.value.code == "slot 1 exits" and caught.value.__cause__ is None
        assert vec.get_attr("cancelled")[0] == 1 and vec.lost_rows.all()
        after = vec.step([0, 0, 0])
        assert after.kind.tolist() == [LOST] * 3, "the loop has survived"


def test_an_ordinary_exception_lets_the_others_finish() -> None:
    with waiting(3) as vec:
        vec.reset(seed=0)
        with pytest.raises(ValueError, match="slot 1 went boom"):
            vec.step([0, BOOM, 0])
        assert vec.get_attr("cancelled") == [0, 0, 0] and vec.get_attr("t") == [1, 0, 1]


def test_blocking_environments_of_a_plain_class_work_too() -> None:
    with build("async", "same_step", (2, 3)) as vec:
        vec.reset(seed=0)
        assert [vec.step([1, 1]).rewards.tolist() for _ in range(2)] == [[11.0, 111.0], [21.0, 121.0]]


def test_closing_cancels_what_environments_left_running_on_the_loop() -> None:
    ended: list[int] = []

    class Feed(Coded):
        async def async_reset(self, *, seed: Any = None, options: Any = None) -> Any:
            async def listen() -> None:
                try:
                    await asyncio.sleep(60)
                finally:
                    ended.append(self.slot)

            self.task = asyncio.get_running_loop().create_task(listen())
            return self.reset(seed=seed, options=options)

    vec = build_from([factory(Feed, slot) for slot in range(2)], "async")
    vec.reset(seed=0)
    vec.step([0, 0])
    begun = time.monotonic()
    vec.close()
    assert sorted(ended) == [0, 1] and time.monotonic() - begun < 30


def test_a_failed_construction_leaves_no_thread_behind() -> None:
    def boom() -> Any:
        raise RuntimeError("no environment today")

    with pytest.raises(RuntimeError, match="no environment today"):
        sekai.AsyncVecEnv([factory(Coded, 0), boom])
    assert "sekai-async" not in {thread.name for thread in threading.enumerate()}


def test_calls_and_close_run_on_the_loop_where_the_environments_live() -> None:
    names: list[str] = []

    class Where(Coded):
        def close(self) -> None:
            names.append(threading.current_thread().name)

        def whose(self) -> str:
            return threading.current_thread().name

    with build_from([factory(Where, 0)], "async") as vec:
        assert vec.call("whose") == ["sekai-async"]
    assert names == ["sekai-async"]


def test_overlapping_calls_are_an_error_and_the_first_is_not_disturbed() -> None:
    async def main(vec: sekai.AsyncVecEnv) -> list[Any]:
        await vec.async_reset(seed=0)
        return await asyncio.gather(vec.async_step([1]), vec.async_step([2]), return_exceptions=True)

    class Slow(Coded):
        async def async_step(self, action: Any) -> Any:
            await asyncio.sleep(0.05)
            return self.step(action)

    with sekai.AsyncVecEnv([lambda: Slow(0, 9)]) as vec:
        first, second = asyncio.run(main(vec))
        assert isinstance(second, sekai.VecEnvBusy)
        assert first.rewards.tolist() == [11.0] and vec.step([0]).kind.tolist() == [0]


def test_one_that_is_collected_without_a_close_leaves_no_thread() -> None:
    before = threading.active_count()
    for _ in range(3):
        vec = sekai.AsyncVecEnv([lambda: Coded(0)])
        vec.reset(seed=0)
        del vec
        gc.collect()
    assert threading.active_count() == before


def test_threads_that_close_at_once_do_not_wait_for_one_another_for_ever() -> None:
    for _ in range(10):
        vec = sekai.AsyncVecEnv([lambda: Coded(0)])
        closers = [threading.Thread(target=vec.close) for _ in range(2)]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join(5.0)
            assert not closer.is_alive()
