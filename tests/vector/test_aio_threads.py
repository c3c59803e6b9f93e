"""`AsyncVecEnv(blocking="thread")`: environments that block, each step in a thread."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from tests.contract.envs import BOOM, EXIT, INTERRUPT, MODES, Coded, build, build_from, factory, places
from tests.vector.test_aio import Waiting

LOST, STEP, TERMINATED = RowKind.LOST, RowKind.STEP, RowKind.TERMINATED


class Blocking(Coded):
    """A step blocks until it is let through; knows in which threads it ran."""

    def __init__(self, slot: int, length: int = 99) -> None:
        super().__init__(slot, length)
        self.gate, self.inside = threading.Event(), threading.Event()
        self.gate.set()
        self.threads: set[str] = set()

    def step(self, action: Any) -> Any:
        self.threads.add(threading.current_thread().name)
        self.inside.set()
        assert self.gate.wait(30)
        return super().step(action)


def blocking(n: int, mode: str = "same_step", length: int = 99) -> Any:
    vec = build_from([factory(Blocking, slot, length) for slot in range(n)], "async", mode, blocking="thread")
    vec.reset(seed=0)
    return vec


def test_blocking_steps_take_the_time_of_one() -> None:
    with build_from([factory(Coded, slot, 99) for slot in range(8)], "async", blocking="thread") as vec:
        vec.reset(seed=0)
        vec.set_attr("nap", 0.05)
        took = []
        for _ in range(5):
            begun = time.monotonic()
            vec.step([0] * 8)
            took.append(time.monotonic() - begun)
        assert min(took) < 0.12, "one after another it is 0.4 s"


def test_blocking_steps_meet_inside() -> None:
    meeting = threading.Barrier(4, timeout=30)

    class Meets(Coded):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            meeting.wait()
            return super().reset(seed=seed, options=options)

        def step(self, action: Any) -> Any:
            meeting.wait()
            return super().step(action)

    with build_from([factory(Meets, slot) for slot in range(4)], "async", blocking="thread") as vec:
        vec.reset(seed=0)
        assert places(vec.step([0] * 4).observations) == [(slot, 0, 1) for slot in range(4)]
        vec.send([0] * 4, range(4))
        assert sorted(vec.recv(min_slots=4)[0].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("mode", MODES)
def test_the_rows_are_those_of_the_serial_backend(mode: str) -> None:
    rng, lengths = np.random.default_rng(0), (2, 3, 5, 7)
    with build("async", mode, lengths, blocking="thread") as vec, build("sync", mode, lengths) as same:
        assert np.array_equal(vec.reset(seed=3).observations, same.reset(seed=3).observations)
        for _ in range(300):
            actions = rng.integers(0, 5, 4)
            one, other = vec.step(actions), same.step(actions)
            assert np.array_equal(one.observations, other.observations) and np.array_equal(one.rewards, other.rewards)
            assert np.array_equal(one.kind, other.kind) and one.infos == other.infos


def test_one_that_awaits_stays_on_the_loop_also_under_a_wrapper() -> None:
    makers = [
        lambda: Waiting(0),
        lambda: sekai.ClipReward(Waiting(1), -1.0, 1.0),
        lambda: sekai.ClipReward(Blocking(2), -1.0, 1.0),
    ]
    with build_from(makers, "async", blocking="thread") as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        names = vec.get_attr("threads")
        assert names[0] == names[1] == ["sekai-async"] and names[2] == {"sekai-async_0"}
    with build_from([factory(Blocking, 0)], "async") as vec:
        vec.reset(seed=0)
        vec.step([0])
        assert vec.get_attr("threads") == [{"sekai-async"}], "by default on the loop"


def test_no_thread_is_left() -> None:
    with blocking(3) as vec:
        vec.step([0] * 3)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("sekai-async")]


def test_another_place_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^blocking is 'process'; expected 'loop' or 'thread'\.$"):
        sekai.AsyncVecEnv([lambda: Coded(0)], blocking="process")
    assert "sekai-async" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("mode", MODES)
def test_a_cancelled_step_waits_for_the_threads_and_leaves_every_environment_steppable(mode: str) -> None:
    # the episode of every slot ends in the step that is cancelled
    async def drive(vec: Any) -> None:
        for env in vec.envs:
            env.gate.clear()
            env.inside.clear()
        task = asyncio.create_task(vec.async_step([0, 0]))
        for env in vec.envs:
            while not env.inside.is_set():
                await asyncio.sleep(0.001)
        for _ in range(3):
            task.cancel()  # more than once
            await asyncio.sleep(0.02)
        assert not task.done(), "a thread cannot be stopped"
        for env in vec.envs:
            env.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    with blocking(2, mode, length=1) as vec:
        asyncio.run(drive(vec))
        assert vec.lost_rows.all() and vec.get_attr("steps") == [1, 1]
        after = vec.step([0, 0])
        assert after.kind.tolist() == [LOST, LOST]
        # same_step began episode 1 in the cancelled call, and ends it here; next_step begins it here
        expected = {"same_step": (2, 0), "next_step": (1, 0), "disabled": (0, 1)}[mode]
        assert places(after.observations) == [(slot, *expected) for slot in range(2)]
        again = vec.reset(seed=0)
        assert not again.dones.any() and vec.step([0, 0]).kind.tolist() == [TERMINATED, TERMINATED]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="POSIX signals")
def test_ctrl_c_waits_for_the_threads_too() -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with blocking(2) as vec:
        vec.set_attr("nap", 0.4)
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt):
                vec.step([0, 0])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert vec.get_attr("t") == [1, 1] and vec.lost_rows.all()
        vec.set_attr("nap", 0.0)
        assert vec.step([0, 0]).kind.tolist() == [LOST, LOST]
        assert vec.step([0, 0]).kind.tolist() == [STEP, STEP]


@pytest.mark.parametrize("place", ["loop", "thread"])
def test_of_several_exceptions_the_first_is_raised_with_its_rank_and_the_others_are_named(place: str) -> None:
    with build_from([factory(Coded, slot, 99) for slot in range(4)], "async", blocking=place) as vec:
        vec.reset(seed=0)
        with pytest.raises(ValueError, match="slot 1 went boom") as caught:
            vec.step([0, BOOM, 0, BOOM])
        assert caught.value.__notes__ == ["raised by sub-env 1", "failed sub-envs: [1, 3]"]
        assert vec.get_attr("t") == [1, 0, 1, 0], "the others have finished"
        assert vec.step([0] * 4).kind.tolist() == [LOST] * 4


@pytest.mark.parametrize(("action", "error"), [(EXIT, SystemExit), (INTERRUPT, KeyboardInterrupt)])
def test_what_is_no_exception_comes_out_of_a_thread_unchanged(action: int, error: type) -> None:
    with build_from([factory(Coded, slot, 99) for slot in range(3)], "async", blocking="thread") as vec:
        vec.reset(seed=0)
        with pytest.raises(error):
            vec.step([0, action, 0])
        assert vec.lost_rows.all() and vec.step([0] * 3).kind.tolist() == [LOST] * 3


def test_what_a_future_cannot_hold_comes_out_as_well() -> None:
    class Stops(Coded):
        def step(self, action: Any) -> Any:
            raise StopIteration("out of data")

    with build_from([factory(Stops, 0)], "async", blocking="thread") as vec:
        vec.reset(seed=0)
        with pytest.raises(RuntimeError, match="StopIteration"):
            vec.step([0])


def test_failed_resets_in_threads_name_their_slots() -> None:
    with build_from([factory(Coded, slot, 99) for slot in range(3)], "async", blocking="thread") as vec:
        vec.reset(seed=0)
        with pytest.raises(ValueError, match="slot 1 cannot reset") as caught:
            vec.reset(options=[None, {"fail": True}, None])
        assert "failed sub-envs: [1]; each needs a reset" in caught.value.__notes__
        with pytest.raises(sekai.ResetRequired, match=r"^sub-envs \[1\] need a reset"):
            vec.step([0] * 3)
