"""`ProcVecEnv` under faults, each of them many times: no call hangs, nothing is left, and every row says what it is."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from tests.contract.envs import BOOM, DIE, EXIT, Coded, build, build_from, factory, places
from tests.vector.test_process import gone

LOST, STEP, FROZEN, RESET = RowKind.LOST, RowKind.STEP, RowKind.FROZEN, RowKind.RESET
TIMES = 20
TRANSPORTS = (True, False)
PREFIX = f"tests{os.getpid()}"  # of the names of semaphores: other programs make some, too

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")


def resources() -> tuple[int, int, int, int]:
    """Descriptors, children, semaphores, and mappings of blocks, of this process."""
    gc.collect()
    mapped = Path("/proc/self/maps").read_text(encoding="utf-8").count("memfd:sekai")
    semaphores = len(list(Path("/dev/shm").glob(f"sem.{PREFIX}-*")))
    return len(list(Path("/proc/self/fd").iterdir())), len(multiprocessing.active_children()), semaphores, mapped


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever the test builds, it leaves nothing."""
    process: Any = multiprocessing.current_process()
    monkeypatch.setitem(process._config, "semprefix", f"/{PREFIX}")
    build("grouped", "same_step", (9, 9)).close()  # the fork server and the tracker of resources stay
    before = resources()
    yield
    after = resources()
    # fewer than before: what an earlier test had left is gone by now
    assert all(now <= then for now, then in zip(after, before, strict=True)), (before, after)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """The block takes no longer."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds


class Slow(Coded):
    """Waits where it is told to: `nap` in a step, `reset_nap` in a reset, `close_nap` in close."""

    reset_nap = close_nap = 0.0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        time.sleep(self.reset_nap)
        return super().reset(seed=seed, options=options)

    def close(self) -> None:
        time.sleep(self.close_nap)


def slow(n: int = 3, **kwargs: Any) -> Any:
    return build_from([factory(Slow, slot, 10**6) for slot in range(n)], "grouped", **kwargs)


# ---- killed workers --------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", TRANSPORTS)
def test_a_worker_killed_between_calls_or_within_one_is_named_and_close_releases_the_rest(
    shared: bool, nothing_left: None
) -> None:
    rng = np.random.default_rng(0)
    for _ in range(TIMES):
        with within(10.0):
            vec = slow(shared_memory=shared)
            vec.reset(seed=0)
            vec.set_attr("nap", 0.02)
            pids = vec.call("where")
            timer = threading.Timer(rng.uniform(0.0, 0.06), os.kill, (pids[2], signal.SIGKILL))
            timer.start()
            with pytest.raises(sekai.VecEnvWorkerError, match=r"Sub-env 2 raised EOFError: worker process") as caught:
                for _ in range(100):
                    vec.step([0, 0, 0])
            timer.join()
            assert "killed by SIGKILL" in str(caught.value) and f"pid {pids[2]}" in str(caught.value)
            assert (caught.value.rank, caught.value.exitcode, caught.value.pid) == (2, -9, pids[2])
            assert vec.call.__self__.closed is False
            vec.close()
        assert all(map(gone, pids))


def test_a_worker_killed_in_a_reset_or_while_closing(nothing_left: None) -> None:
    for k in range(TIMES):
        with within(10.0):
            vec = slow(close_timeout=3.0)
            pids = vec.call("where")
            vec.set_attr("close_nap" if k % 2 else "reset_nap", 0.2)
            timer = threading.Timer(0.05, os.kill, (pids[0], signal.SIGKILL))
            timer.start()
            if k % 2 == 0:
                with pytest.raises(sekai.VecEnvWorkerError, match=r"Worker 0 \(sub-envs 0-1\) raised EOFError"):
                    vec.reset(seed=0)
            vec.close()
            timer.join()
        assert all(map(gone, pids))


def test_a_worker_that_dies_or_fails_or_hangs_while_it_is_built(nothing_left: None) -> None:
    def dies() -> Any:
        os._exit(3)

    def fails() -> Any:
        raise ZeroDivisionError("no env today")

    def hangs() -> Any:
        time.sleep(60)

    kinds: list[tuple[Callable[[], Any], str]] = [
        (dies, r"Sub-env 1 raised EOFError: worker process exited unexpectedly \(exit code 3, pid \d+\) while it was"),
        (fails, "Sub-env 1 raised ZeroDivisionError: no env today"),
        (hangs, "Sub-env 1 raised TimeoutError: not built within start_timeout"),
    ]
    for k in range(TIMES):
        kind, text = kinds[k % 3]
        with within(10.0), pytest.raises(sekai.VecEnvWorkerError, match=text):
            sekai.ProcVecEnv([factory(Coded, 0), kind], start_timeout=0.5 if kind is hangs else 60.0, close_timeout=0.2)


def test_how_a_worker_ended_is_said(nothing_left: None) -> None:
    # U46
    for action, code in ((DIE, 3), (EXIT, 1)):
        vec = build("proc", "same_step", (9, 9, 9))
        vec.reset(seed=0)
        with pytest.raises(sekai.VecEnvWorkerError) as caught:
            vec.step([0, 0, action])
        assert str(caught.value).startswith(
            f"Sub-env 2 raised EOFError: worker process exited unexpectedly (exit code {code}, pid {caught.value.pid}, "
            f"action {action})"
        )
        twin = pickle.loads(pickle.dumps(caught.value))
        assert (str(twin), twin.rank, twin.exitcode, twin.pid) == (
            str(caught.value),
            2,
            code,
            caught.value.pid,
        )
        vec.close()


# ---- timeouts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", TRANSPORTS)
def test_a_stopped_worker_is_slow_and_the_next_call_is_in_step(shared: bool, nothing_left: None) -> None:
    with slow(shared_memory=shared, step_timeout=0.1) as vec:
        vec.reset(seed=0)
        pid = vec.call("where")[0]
        for k in range(TIMES):
            os.kill(pid, signal.SIGSTOP)
            text = (
                r"^Worker 0 \(sub-envs 0-1\) raised TimeoutError: no answer in time \(slow: Worker 0 \(sub-envs 0-1\)\)"
            )
            with within(2.0), pytest.raises(sekai.VecEnvWorkerError, match=text) as caught:
                vec.step([0, 0, 0])
            assert caught.value.rank == 0 and vec.lost_rows.all()
            with pytest.raises(sekai.VecEnvWorkerError, match="the next call waits for what is still under way"):
                vec.step([1, 1, 1])  # the first is still under way: nothing of this one was sent
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.02)
            after = vec.step([2, 2, 2])
            assert after.kind.tolist() == [LOST] * 3
            assert places(after.observations) == [(slot, 0, 3 * k + 2) for slot in range(3)]
            assert vec.step([3, 3, 3]).kind.tolist() == [STEP] * 3


def test_all_slow_workers_are_named(nothing_left: None) -> None:
    with slow(5, step_timeout=0.05) as vec:
        vec.reset(seed=0)
        vec.set_attr("nap", [0.0, 0.0, 0.3, 0.0, 0.3])
        with pytest.raises(sekai.VecEnvWorkerError, match=r"slow: Worker 1 \(sub-envs 2-3\), Sub-env 4") as caught:
            vec.step([0] * 5)
        assert caught.value.rank == 2
        time.sleep(0.5)
        assert vec.get_attr("t") == [1] * 5


def test_a_stopped_worker_is_killed_by_close(nothing_left: None) -> None:
    vec = slow(close_timeout=0.2)
    pids = vec.call("where")
    os.kill(pids[0], signal.SIGSTOP)
    with within(5.0):
        vec.close()
    assert all(map(gone, pids))


# ---- exceptions ------------------------------------------------------------------------------------


class Faulty(Coded):
    """Fails where it is told to."""

    fail_close = False

    def step(self, action: Any) -> Any:
        result = super().step(action)
        return result._replace(info={"lock": threading.Lock()}) if action == 4 else result

    def close(self) -> None:
        if self.fail_close:
            raise OSError("cannot close")


@pytest.mark.parametrize("shared", TRANSPORTS)
def test_exceptions_in_step_reset_pickling_and_close(shared: bool, nothing_left: None) -> None:
    vec = build_from([factory(Faulty, slot, 10**6) for slot in range(3)], "grouped", shared_memory=shared)
    vec.reset(seed=0)
    for _ in range(TIMES):
        with pytest.raises(sekai.VecEnvWorkerError, match="Sub-env 1 raised ValueError: slot 1 went boom"):
            vec.step([0, BOOM, 0])
        with pytest.raises(sekai.VecEnvWorkerError, match="cannot pickle"):
            vec.step([0, 0, 4])
        with pytest.raises(sekai.VecEnvWorkerError, match="Sub-env 2 raised ValueError: slot 2 cannot reset"):
            vec.reset(options=[None, None, {"fail": True}])
        vec.reset(mask=np.array([False, False, True]))
        assert vec.step([0, 0, 0]).kind.tolist() == [LOST, LOST, STEP]
    vec.set_attr("fail_close", True)
    with pytest.raises(sekai.VecEnvWorkerError, match="Sub-env 0 raised OSError: cannot close"):
        vec.close()


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def alarms_interrupt() -> Iterator[None]:
    """An alarm does what Ctrl-C does."""
    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("shared", TRANSPORTS)
def test_interrupts_at_random_moments_lose_rows_and_never_mix_them(
    shared: bool, nothing_left: None, alarms_interrupt: None
) -> None:
    """Ctrl-C for 200 calls: the clocks of the environments say what was executed."""
    rng = np.random.default_rng(1)
    with build("grouped", "same_step", (10**6,) * 3, shared_memory=shared) as vec:
        vec.reset(seed=0)
        clock, interrupted = np.zeros(3, int), 0
        for call in range(200):
            action, result = call % 5, None
            with suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 2e-3))
                result = vec.step([action] * 3)
                signal.setitimer(signal.ITIMER_REAL, 0)
            if result is None:
                interrupted += 1
                continue
            steps = result.observations[:, 2].astype(int)
            assert ((steps > clock) & (steps <= clock + 1 + interrupted)).all()
            fresh = result.kind == STEP
            assert (steps[fresh] == clock[fresh] + 1).all(), "a row that is no successor of the last one seen"
            assert (result.rewards == 100 * np.arange(3) + 10 * steps + action).all(), "another call's action"
            clock, interrupted = steps, 0
        assert vec.get_attr("t") == vec.get_attr("steps")


class InterruptedWhenReleased:
    """A lock of which the release is cut short, once: the very end of a call."""

    def __init__(self, lock: Any) -> None:
        self._lock, self._left = lock, 1

    def acquire(self, **kwargs: Any) -> Any:
        return self._lock.acquire(**kwargs)

    def release(self) -> None:
        self._lock.release()
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt


def test_an_interrupt_at_the_very_end_of_a_call_loses_its_rows(nothing_left: None) -> None:
    with build("grouped", "same_step", (9, 9, 9)) as vec:
        vec.reset(seed=0)
        lock, some = vec._lock, np.array([False, True, True])
        for call, lost in ((lambda: vec.step([0, 0, 0]), [True] * 3), (lambda: vec.reset(mask=some), some.tolist())):
            vec._lock = InterruptedWhenReleased(lock)
            with pytest.raises(KeyboardInterrupt):
                call()
            vec._lock = lock
            assert vec.lost_rows.tolist() == lost
            assert (vec.step([0, 0, 0]).kind == LOST).tolist() == lost


# ---- restarts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", TRANSPORTS)
@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_a_lost_worker_is_replaced_within_the_call(mode: str, shared: bool, nothing_left: None) -> None:
    with (
        build("grouped", mode, (9, 9, 9, 2), shared_memory=shared, on_worker_loss="restart") as vec,
        build("sync", mode, (9, 9, 9, 2)) as same,
    ):
        vec.reset(seed=0)
        same.reset(seed=0)
        pids = vec.call("where")
        for _ in range(3):  # slot 3 ends in the second call
            other = same.step([0, 0, 1, 2])
            one = vec.step([DIE if _ == 2 else 0, 0, 1, 2])
        assert one.kind.tolist()[:2] == [LOST, LOST] and not one.valid[:2].any()
        assert not one.dones[:2].any() and one.rewards[:2].tolist() == [0.0, 0.0]
        assert places(one.observations)[:2] == [(0, 0, 0), (1, 0, 0)]
        assert [info.get("worker_lost") for info in one.infos] == [True, True, None, None]
        for name in ("observations", "rewards", "kind", "terminated", "truncated"):
            assert np.array_equal(getattr(one, name)[2:], getattr(other, name)[2:]), name
        assert list(one.infos)[2:] == list(other.infos)[2:]
        after = vec.step([0, 0, 0, 0])
        assert after.kind.tolist()[:2] == [STEP, STEP] and "worker_lost" not in after.infos[0]
        assert places(after.observations)[:2] == [(0, 0, 1), (1, 0, 1)]
        assert vec.worker_restarts == 1 and vec.call("where")[2:] == pids[2:]
        assert not set(vec.call("where")[:2]) & set(pids)


def draws_after_restart(seed: int) -> list[float]:
    with build("grouped", "same_step", (9, 9, 9), on_worker_loss="restart") as vec:
        first = vec.reset(seed=seed).observations[:, 3].tolist()
        second = vec.step([DIE, 0, 0]).observations[:, 3].tolist()
        third = vec.step([DIE, 0, 0]).observations[:, 3].tolist()
        assert first[2] == second[2] == third[2]
        return first[:2] + second[:2] + third[:2]


def test_replaced_slots_have_streams_of_their_own_that_the_seed_determines(nothing_left: None) -> None:
    draws = draws_after_restart(5)
    assert len(set(draws)) == 6
    assert draws_after_restart(5) == draws != draws_after_restart(6)


def test_attributes_that_were_set_hold_in_the_new_worker(nothing_left: None) -> None:
    with build("grouped", "same_step", (9, 9, 9), on_worker_loss="restart") as vec:
        vec.reset(seed=0)
        vec.set_attr("length", [5, 6, 7])
        vec.step([DIE, 0, 0])
        assert vec.get_attr("length") == [5, 6, 7]


def test_a_worker_lost_in_a_reset_or_between_calls_is_replaced(nothing_left: None) -> None:
    with build("grouped", "same_step", (9, 9, 9), on_worker_loss="restart") as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        pids = vec.call("where")
        os.kill(pids[0], signal.SIGKILL)
        assert gone(pids[0])
        first = vec.reset(mask=np.array([True, False, False]), options={"at": 4})
        assert places(first.observations) == [(0, 0, 4), (1, 0, 0), (2, 0, 1)]
        assert [info.get("worker_lost") for info in first.infos] == [None, True, None]
        assert vec.step([0, 0, 0]).kind.tolist() == [STEP, LOST, STEP]
        os.kill(vec.call("where")[2], signal.SIGKILL)
        assert vec.step([0, 0, 0]).kind.tolist() == [STEP, STEP, LOST] and vec.worker_restarts == 2


@pytest.mark.parametrize("shared", TRANSPORTS)
def test_an_interrupt_while_a_worker_is_replaced_leaves_that_to_the_next_call(
    shared: bool, nothing_left: None, alarms_interrupt: None
) -> None:
    rng = np.random.default_rng(2)
    with build("grouped", "same_step", (10**6,) * 3, shared_memory=shared, on_worker_loss="restart") as vec:
        vec.reset(seed=0)
        interrupted = 0
        for _ in range(TIMES):
            pids, clock, result, calls = vec.call("where"), vec.get_attr("t")[2], None, 0
            os.kill(pids[0], signal.SIGKILL)
            assert gone(pids[0])
            while result is None:  # more interrupts than losses in a row that are made good
                calls += 1
                with suppress(KeyboardInterrupt):
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, 2e-2) if calls < 6 else 0.0)
                    result = vec.step([0, 0, 0])
                    signal.setitimer(signal.ITIMER_REAL, 0)
            interrupted += calls - 1
            assert result.kind.tolist() == [LOST, LOST, STEP if calls == 1 else LOST]
            assert [info.get("worker_lost") for info in result.infos] == [True, True, None]
            assert clock < places(result.observations)[2][2] <= clock + calls
            assert vec.step([0, 0, 0]).kind.tolist() == [STEP] * 3
        assert interrupted > TIMES and vec.worker_restarts >= TIMES


def slow_after(path: Path) -> Any:
    """An environment whose building takes long once the file is there."""
    if path.exists():
        time.sleep(30)
    return Coded(0, 9)


def test_a_new_worker_that_is_not_built_in_time_is_ended_and_the_next_call_tries_again(
    nothing_left: None, tmp_path: Path
) -> None:
    path = tmp_path / "slow"
    with build_from([factory(slow_after, path)] * 2, "proc", on_worker_loss="restart", start_timeout=20.0) as vec:
        vec.reset(seed=0)
        vec._start_timeout = 0.3
        path.touch()
        with (
            within(10.0),
            pytest.raises(sekai.VecEnvWorkerError, match=r"Sub-env 0 .*: not built within start_timeout"),
        ):
            vec.step([DIE, 0])
        path.unlink()
        vec._start_timeout = 20.0
        assert vec.step([0, 0]).kind.tolist() == [LOST, LOST] and vec.worker_restarts == 1
        assert vec.step([0, 0]).kind.tolist() == [STEP, STEP]


def test_a_loss_in_a_call_that_fails_is_told_by_the_next(nothing_left: None) -> None:
    with build("grouped", "same_step", (9, 9, 9), on_worker_loss="restart") as vec:
        vec.reset(seed=0)
        with pytest.raises(sekai.VecEnvWorkerError, match="slot 2 went boom"):
            vec.step([DIE, 0, BOOM])
        after = vec.step([0, 0, 0])
        assert after.kind.tolist() == [LOST] * 3
        assert [info.get("worker_lost") for info in after.infos] == [True, True, None]
        assert places(after.observations) == [(0, 0, 1), (1, 0, 1), (2, 0, 1)]


def test_options_for_autoresets_go_on_counting_episodes_after_a_loss(nothing_left: None) -> None:
    asked: list[tuple[int, int]] = []

    def options(slot: int, episode: int) -> dict[str, Any]:
        asked.append((slot, episode))
        return {"draw": 100 * slot + episode}

    with build("grouped", "same_step", (1, 9, 1), autoreset_options=options, on_worker_loss="restart") as vec:
        vec.reset(seed=0)
        assert vec.step([0, 0, 0]).observations[:, 3].tolist()[0::2] == [1, 201]
        lost = vec.step([0, DIE, 0])
        assert lost.observations[:, 3].tolist() == [2, 101, 202]
        assert vec.step([0, 0, 0]).observations[:, 3].tolist() == [3, 101, 203]
    assert asked == [(0, 1), (1, 1), (2, 1), (0, 2), (2, 2), (0, 3), (1, 2), (2, 3), (0, 4), (2, 4)]


def test_a_worker_that_always_dies_is_given_up(nothing_left: None) -> None:
    # U60
    with build("proc", "same_step", (9, 9), on_worker_loss="restart") as vec:
        vec.reset(seed=0)
        for _ in range(3):
            assert vec.step([DIE, 0]).kind.tolist() == [LOST, STEP]
        with within(5.0), pytest.raises(sekai.VecEnvWorkerError, match=r"EOFError: .*exit code 3"):
            vec.step([DIE, 0])
        assert vec.worker_restarts == 3
        with pytest.raises(sekai.VecEnvWorkerError):
            vec.step([0, 0])


def test_losses_far_apart_are_all_made_good(nothing_left: None) -> None:
    with build("proc", "same_step", (10**6, 10**6), on_worker_loss="restart") as vec:
        vec.reset(seed=0)
        for k in range(TIMES):
            assert vec.step([DIE if k % 2 else 0, 0]).kind.tolist() == [LOST if k % 2 else STEP, STEP]
        assert vec.worker_restarts == TIMES // 2 and vec.get_attr("t")[1] == TIMES


# ---- processes, threads, tasks ---------------------------------------------------------------------


def test_two_hundred_build_and_close_cycles_leave_nothing(nothing_left: None) -> None:
    for k in range(200):
        with build("grouped", "same_step", (9, 9), shared_memory=bool(k % 2)) as vec:
            if k % 3 == 0:
                vec.reset(seed=0)
                vec.step([0, 0])


def test_one_that_is_forgotten_ends_its_workers(nothing_left: None) -> None:
    for _ in range(TIMES):
        vec = build("grouped", "same_step", (9, 9, 9))
        pids = vec.call("where")
        del vec
        gc.collect()
        assert all(map(gone, pids))
    multiprocessing.active_children()  # collects them


def _note_error(vec: Any, raised: list[BaseException]) -> None:
    try:
        vec.step([0, 0, 0])
    except BaseException as error:
        raised.append(error)


def test_close_in_another_thread_ends_a_step(nothing_left: None) -> None:
    for _ in range(TIMES):
        vec = slow(close_timeout=0.2)
        vec.reset(seed=0)
        vec.set_attr("nap", 5.0)
        raised: list[BaseException] = []

        thread = threading.Thread(target=_note_error, args=(vec, raised))
        thread.start()
        time.sleep(0.05)
        with within(5.0):
            vec.close()
            thread.join()
        assert [type(error) for error in raised] == [sekai.VecEnvClosed]


def test_awaited_steps_leave_the_loop_free_and_a_cancelled_one_loses_its_rows(nothing_left: None) -> None:
    import asyncio

    async def run() -> None:
        with slow() as vec:
            vec.reset(seed=0)
            vec.set_attr("nap", 0.3)
            step = asyncio.create_task(vec.async_step([0, 0, 0]))
            ticks = 0
            while not step.done():
                await asyncio.sleep(0.01)
                ticks += 1
            assert ticks > 10 and step.result().kind.tolist() == [STEP] * 3
            step = asyncio.create_task(vec.async_step([0, 0, 0]))
            await asyncio.sleep(0.05)
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step
            assert vec.lost_rows.all()
            vec.set_attr("nap", 0.0)
            after = await vec.async_step([0, 0, 0])
            assert after.kind.tolist() == [LOST] * 3 and places(after.observations)[0] == (0, 0, 3)
            assert places((await vec.async_reset(seed=1)).observations)[0] == (0, 1, 0)

    asyncio.run(run())


def script(body: str, *arguments: str, timeout: float = 60.0) -> Any:
    """Run a script in a file of its own, as a user would."""
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"sekai-script-{os.getpid()}.py"
    path.write_text(textwrap.dedent(body), encoding="utf-8")
    try:
        return subprocess.run(
            [sys.executable, str(path), *arguments],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])},
        )
    finally:
        path.unlink()


@pytest.mark.parametrize("context", ["forkserver", "spawn"])
def test_a_script_without_a_guard_gets_one_clear_message(context: str) -> None:
    run = script(
        f"""
        import sekai
        sekai.make_vec("CartPole-v1", 4, vectorization_mode="proc", vector_kwargs={{"context": "{context}"}})
        """
    )
    assert run.returncode == 1 and run.stderr.count("Traceback") == 1
    assert run.stderr.rstrip().endswith("must do that under `if __name__ == '__main__':`.")


KEEPS_STEPPING = """
    import os, sys, time
    from tests.contract.envs import build

    if __name__ == "__main__":
        vec = build("grouped", "same_step", (10**9,) * 3, context=sys.argv[1])
        vec.reset(seed=0)
        vec.set_attr("nap", float(sys.argv[2]))
        print(*vec.call("where"), flush=True)
        while True:
            vec.step([0, 0, 0])
"""


@pytest.mark.parametrize("context", ["forkserver", "spawn", "fork"])
@pytest.mark.parametrize(("number", "nap"), [(signal.SIGKILL, 0.001), (signal.SIGTERM, 0.001), (signal.SIGKILL, 60.0)])
def test_workers_end_with_their_caller(context: str, number: signal.Signals, nap: float, tmp_path: Path) -> None:
    """Also those that hang in an environment."""
    path = tmp_path / "stepping.py"
    path.write_text(textwrap.dedent(KEEPS_STEPPING), encoding="utf-8")
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, str(path), context, str(nap)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])},
    ) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 3
        time.sleep(0.1)
        process.send_signal(number)
        process.wait(10)
        deadline = time.monotonic() + 12
        while time.monotonic() < deadline and not all(map(gone, pids)):
            pass
        assert all(map(gone, pids))


def test_a_script_that_fails_ends_with_one_traceback_and_in_time() -> None:
    # U48
    with within(20.0):
        run = script(
            """
            from tests.contract.envs import build

            if __name__ == "__main__":
                vec = build("grouped", "same_step", (9, 9, 9))
                vec.reset(seed=0)
                1 / 0
            """
        )
    assert run.returncode == 1 and run.stderr.count("Traceback") == 1, run.stderr
    assert run.stderr.rstrip().endswith("ZeroDivisionError: division by zero")


def test_a_process_forked_from_the_caller_neither_uses_nor_ends_the_workers() -> None:
    run = script(
        """
        import os, sys
        from tests.contract.envs import build

        if __name__ == "__main__":
            vec = build("grouped", "same_step", (9, 9, 9))
            vec.reset(seed=0)
            for closes in (True, False):
                pid = os.fork()
                if pid == 0:
                    try:
                        vec.step([0, 0, 0])
                    except RuntimeError as error:
                        print(str(error).partition("process")[2].partition(" ")[2].partition(",")[2], flush=True)
                    if closes:
                        vec.close()
                    sys.exit(0)
                os.waitpid(pid, 0)
                print(vec.step([0, 0, 0]).observations[:, 2], flush=True)
            vec.close()
        """
    )
    text = " from which this one was forked: build one here."
    assert run.stdout.splitlines() == [text, "[1. 1. 1.]", text, "[2. 2. 2.]"] and run.stderr == ""


def test_a_daemon_of_multiprocessing_may_not_build_one() -> None:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def run() -> None:
        try:
            build("proc", "same_step", (9, 9))
        except RuntimeError as error:
            theirs.send(str(error))

    process = context.Process(target=run, daemon=True)
    process.start()
    assert ours.poll(30) and "a daemon of multiprocessing, which may not start workers" in ours.recv()
    process.join()


class Rude(Coded):
    """Prints, changes directory, and draws from the global generators."""

    def step(self, action: Any) -> Any:
        os.chdir("/")
        print(end="")
        return super().step(action)._replace(info={"draws": (float(np.random.random()), os.getpid())})


@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_what_an_environment_does_to_its_process_stays_there(context: str, nothing_left: None) -> None:
    where = os.getcwd()
    with build_from([factory(Rude, 0), factory(Rude, 1)], "proc", context=context) as vec:
        vec.reset(seed=0)
        result = vec.step([0, 0])
        draws = [info["draws"][0] for info in result.infos]
        assert draws[0] != draws[1], "workers that share the state of the global generators"
        assert places(vec.step([0, 0]).observations) == [(0, 0, 2), (1, 0, 2)]
    assert os.getcwd() == where


def test_workers_take_one_thread_each() -> None:
    run = script(
        """
        import os
        import sekai
        from tests.contract.envs import Coded, build_from, factory

        class Counting(Coded):
            def threads(self):
                from threadpoolctl import threadpool_info
                return {pool["num_threads"] for pool in threadpool_info()} | {os.environ["OMP_NUM_THREADS"]}

        if __name__ == "__main__":
            with build_from([factory(Counting, 0)], "proc") as vec:
                print(vec.call("threads"))
            os.environ["OMP_NUM_THREADS"] = "2"
            with build_from([factory(Counting, 0)], "proc", context="spawn") as vec:
                print(vec.call("threads"))
        """
    )
    first, second = run.stdout.splitlines()
    assert "2" not in first and "'1'" in first and "'2'" in second, run


def test_ids_registered_in_a_script_work_in_workers() -> None:
    # U45
    run = script(
        """
        import sekai
        from tests.contract.envs import Coded

        sekai.register("Mine-v0", entry_point=lambda slot=0: Coded(slot, 3))

        if __name__ == "__main__":
            for context in ("spawn", "forkserver"):
                vec = sekai.make_vec("Mine-v0", 2, vectorization_mode="proc", vector_kwargs={"context": context})
                print(vec.reset(seed=0).observations[:, :3].tolist())
                vec.close()
        """
    )
    assert run.stdout.splitlines() == ["[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]"] * 2, run.stderr
