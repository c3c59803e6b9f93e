"""`send` and `recv` of `ProcVecEnv` under faults: interrupts, dead and slow workers, messages larger than a pipe."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from tests.contract.envs import DIE, Coded, build, build_from, factory, places
from tests.vector.test_overlapping import policy, run_coded
from tests.vector.test_process import gone

STEP, LOST = RowKind.STEP, RowKind.LOST
REMOTE = ("proc", "grouped", "pickled")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


class Interrupts:
    """Raise `KeyboardInterrupt` at random moments, in `armed` blocks only."""

    def __init__(self, seed: int, mean: float = 0.0008) -> None:
        self.rng, self.count, self.mean = np.random.default_rng(seed), 0, mean
        self.armed = False

    def _interrupt(self, *_: Any) -> None:
        if self.armed:
            self.armed = False
            self.count += 1
            raise KeyboardInterrupt

    @contextmanager
    def running(self) -> Iterator[None]:
        before = signal.signal(signal.SIGALRM, self._interrupt)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def arm(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, float(self.rng.exponential(self.mean)) + 1e-5)
        self.armed = True


def send(vec: sekai.VecEnv, interrupts: Interrupts, actions: Any, slots: Any) -> None:
    """Send; after an interrupt, again what has not been sent."""
    while len(slots):
        try:
            interrupts.arm()
            vec.send(actions, slots)
            interrupts.armed = False
            return
        except KeyboardInterrupt:
            left = ~vec.outstanding[slots]
            actions, slots = actions[left], slots[left]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one that comes in a finalizer
@pytest.mark.parametrize("backend", ["async", *REMOTE])
def test_interrupts_of_send_and_recv_lose_no_row(backend: str) -> None:
    # without end of an episode: t says how often a slot has been stepped
    n, interrupts = 4, Interrupts(3)
    with build(backend, "same_step", (10**6,) * n) as vec, interrupts.running():
        seen = vec.reset(seed=0).observations.copy()
        send(vec, interrupts, policy(np.arange(n), seen), np.arange(n))
        while interrupts.count < 150:
            try:
                interrupts.arm()
                slots, result = vec.recv()
                interrupts.armed = False
            except KeyboardInterrupt:
                continue
            assert result.kind.tolist() == [STEP] * len(slots)
            assert np.array_equal(result.observations[:, 2], seen[slots, 2] + 1), "a row was lost, or came twice"
            expected = 100.0 * slots + 10.0 * result.observations[:, 2] + policy(slots, seen[slots])
            assert np.array_equal(result.rewards, expected)
            seen[slots] = result.observations
            send(vec, interrupts, policy(slots, result.observations), slots)
        while vec.outstanding.any():
            vec.recv()
        assert np.array_equal(vec.step([0] * n).observations[:, 2], np.array(vec.get_attr("t")))
        assert not vec.lost_rows.any() and seen[:, 2].min() > 5


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("backend", REMOTE)
def test_an_interrupt_while_a_message_is_written_sends_it_once(backend: str, at: int) -> None:
    # the first message has the worker serve single slots, the second has the action
    interrupts = Interrupts(0)
    with build(backend, "same_step", (9, 9)) as vec, interrupts.running():
        vec.reset(seed=0)
        pipe = vec._links[0].pipe  # type: ignore[attr-defined]  # of ProcVecEnv
        write, written = pipe.send_bytes, [0]

        def writes(message: bytes) -> None:
            write(message)
            written[0] += 1
            if written[0] == at:
                interrupts.armed = True
                os.kill(os.getpid(), signal.SIGALRM)

        pipe.send_bytes = writes
        with pytest.raises(KeyboardInterrupt):
            vec.send([3], [0])
        assert vec.outstanding.tolist() == [True, False]
        slots, result = vec.recv(timeout=60)
        assert (slots.tolist(), result.rewards.tolist(), result.kind.tolist()) == ([0], [13.0], [STEP])
        assert vec.get_attr("t") == [1, 0] and vec.step([0, 0]).kind.tolist() == [STEP, STEP]


# ---- dead workers ----------------------------------------------------------------------------------


def received(vec: sekai.VecEnv) -> tuple[dict[int, Any], list[sekai.VecEnvWorkerError]]:
    """What becomes of all that is outstanding: rewards and kinds by slot, and errors."""
    rows: dict[int, Any] = {}
    errors = []
    while vec.outstanding.any():
        try:
            slots, result = vec.recv(timeout=60)
        except sekai.VecEnvWorkerError as error:
            errors.append(error)
        else:
            rows |= {
                slot: (result.rewards[j], int(result.kind[j]), places(result.observations)[j], result.infos[j])
                for j, slot in enumerate(slots.tolist())
            }
    return rows, errors


@pytest.mark.parametrize("backend", REMOTE)
def test_a_dead_worker_is_one_error_and_the_rows_of_the_others_are_intact(backend: str) -> None:
    with build(backend, "same_step", (9,) * 6) as vec:
        vec.reset(seed=0)
        pids = vec.call("where")
        vec.send([1, 1, 1, DIE, 1, 1], range(6))
        rows, errors = received(vec)
        assert len(errors) == 1 and "worker process exited unexpectedly (exit code 3" in str(errors[0])
        mates = [slot for slot in range(6) if pids[slot] == pids[3]]
        assert errors[0].rank == mates[0] and ("action 6" in str(errors[0])) == (mates == [3])
        others = [slot for slot in range(6) if pids[slot] != pids[3]]
        # one of the same worker that was stepped before the worker died has its row
        assert {slot: rows[slot][:2] for slot in others} == {slot: (100.0 * slot + 11.0, STEP) for slot in others}
        assert vec.lost_rows.tolist() == [slot not in rows for slot in range(6)]
        for call in (lambda: vec.send([0], [3]), lambda: vec.step([0] * 6)):
            with pytest.raises(sekai.VecEnvWorkerError, match="worker process exited unexpectedly"):
                call()
        vec.send([2] * len(others), others)  # the step has moved them, and nobody has seen where to
        rows, errors = received(vec)
        assert {slot: rows[slot][:2] for slot in rows} == {slot: (100.0 * slot + 32.0, LOST) for slot in others}
        assert not errors
    assert all(gone(pid) for pid in set(pids))


@pytest.mark.parametrize("backend", REMOTE)
def test_a_killed_worker_is_noticed_while_rows_are_awaited(backend: str) -> None:
    with build(backend, "same_step", (9,) * 4) as vec:
        vec.reset(seed=0)
        pids = vec.call("where")
        vec.set_attr("nap", [0.0, 0.0, 0.0, 60.0])
        vec.send([0], [3])
        threading.Timer(0.2, os.kill, (pids[3], signal.SIGKILL)).start()
        begun = time.monotonic()
        with pytest.raises(sekai.VecEnvWorkerError, match="killed by SIGKILL"):
            vec.recv(timeout=30)
        assert time.monotonic() - begun < 20 and not vec.outstanding.any()


@pytest.mark.parametrize("backend", REMOTE)
def test_a_lost_worker_that_is_replaced_gives_first_rows(backend: str) -> None:
    with build(backend, "same_step", (9,) * 4, on_worker_loss="restart") as vec:
        vec.reset(seed=0)
        pids = vec.call("where")
        vec.step([0] * 4)
        vec.send([1, 1, 1, DIE], range(4))
        rows, errors = received(vec)
        assert not errors and vec.worker_restarts == 1  # type: ignore[attr-defined]  # of ProcVecEnv
        reward, kind, place, info = rows[3]
        assert (reward, kind, place, info["worker_lost"]) == (0.0, LOST, (3, 0, 0), True)
        for slot in range(3):
            if pids[slot] != pids[3] or rows[slot][1] == STEP:  # stepped before its worker was lost
                assert (
                    rows[slot][:3] == (100.0 * slot + 21.0, STEP, (slot, 0, 2)) and "worker_lost" not in rows[slot][3]
                )
        # a slot of the lost worker whose last row was handed out hears of it with its next one
        vec.send([2, 2, 2, 2], range(4))
        rows, errors = received(vec)
        mate = [slot for slot in range(3) if pids[slot] == pids[3]]
        assert not errors and rows[3][:3] == (312.0, STEP, (3, 0, 1)) and "worker_lost" not in rows[3][3]
        for slot in mate:
            assert rows[slot][:3] == (100.0 * slot + 12.0, LOST, (slot, 0, 1)) and rows[slot][3]["worker_lost"] is True
        assert not vec.lost_rows.any()
        after = vec.step([0] * 4)
        assert after.kind.tolist() == [STEP] * 4 and not any("worker_lost" in info for info in after.infos)


def test_a_row_from_before_its_worker_was_lost_is_intact_and_the_next_one_says_so() -> None:
    with build_from(
        [factory(Coded, slot, 9) for slot in range(2)], "proc", num_workers=1, on_worker_loss="restart"
    ) as vec:
        vec.reset(seed=0)
        vec.send([3, DIE], [0, 1])  # slot 0 first, in the same worker
        slots, result = vec.recv(min_slots=2, timeout=60)
        assert slots.tolist() == [0, 1] and result.kind.tolist() == [STEP, LOST]
        assert result.rewards.tolist() == [13.0, 0.0] and places(result.observations) == [(0, 0, 1), (1, 0, 0)]
        assert [info.get("worker_lost") for info in result.infos] == [None, True]
        assert vec.lost_rows.tolist() == [True, False]
        after = vec.step([4, 4])
        assert after.kind.tolist() == [LOST, STEP] and places(after.observations) == [(0, 0, 1), (1, 0, 1)]
        assert [info.get("worker_lost") for info in after.infos] == [True, None]


@pytest.mark.parametrize("backend", REMOTE)
def test_rows_are_right_while_workers_die_again_and_again(backend: str) -> None:
    rng = np.random.default_rng(0)
    with build(backend, "same_step", (10**6,) * 4, on_worker_loss="restart") as vec:
        seen = vec.reset(seed=0).observations.copy()
        vec.send(policy(np.arange(4), seen), np.arange(4))
        lost = 0
        for _ in range(120):
            slots, result = vec.recv(timeout=60)
            whole = result.kind == STEP
            assert ((result.kind == LOST) | whole).all()
            expected = 100.0 * slots + 10.0 * result.observations[:, 2] + policy(slots, seen[slots])
            assert np.array_equal(result.rewards[whole], expected[whole])
            assert np.array_equal(result.observations[whole, 2], seen[slots][whole, 2] + 1)
            assert all(result.infos[int(j)]["worker_lost"] for j in np.flatnonzero(~whole))
            lost += int((~whole).sum())
            seen[slots] = result.observations
            actions = policy(slots, result.observations)
            actions[rng.random(len(slots)) < 0.03] = DIE
            vec.send(actions, slots)
            # what a worker that dies was told is not what its slots did
        assert lost >= 2 and vec.worker_restarts >= 1  # type: ignore[attr-defined]  # of ProcVecEnv


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("backend", REMOTE)
def test_interrupts_while_lost_workers_are_replaced_make_no_wrong_row(backend: str) -> None:
    rng, interrupts = np.random.default_rng(0), Interrupts(4, mean=0.03)
    with build(backend, "same_step", (10**6,) * 4, on_worker_loss="restart") as vec, interrupts.running():
        seen = vec.reset(seed=0).observations.copy()
        send(vec, interrupts, policy(np.arange(4), seen), np.arange(4))
        lost = whole = 0
        while interrupts.count < 8 or lost < 4:
            try:
                interrupts.arm()
                slots, result = vec.recv(timeout=60)
                interrupts.armed = False
            except KeyboardInterrupt:
                continue
            for j, slot in enumerate(slots.tolist()):
                row = result.observations[j]
                if result.kind[j] == LOST:
                    assert result.infos[j]["worker_lost"] is True
                    lost += 1
                else:
                    assert result.kind[j] == STEP and row[:2].tolist() == seen[slot, :2].tolist()
                    assert row[2] == seen[slot, 2] + 1
                    assert result.rewards[j] == 100.0 * slot + 10.0 * row[2] + policy(slot, seen[slot : slot + 1])[0]
                    whole += 1
            seen[slots] = result.observations
            actions = policy(slots, result.observations)
            actions[rng.random(len(slots)) < 0.02] = DIE
            send(vec, interrupts, actions, slots)
        assert whole > 10 and vec.worker_restarts >= 1  # type: ignore[attr-defined]  # of ProcVecEnv


# ---- slow workers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", REMOTE)
def test_a_worker_slower_than_step_timeout_is_named_and_its_row_comes_later(backend: str) -> None:
    with build(backend, "same_step", (9, 9, 9), step_timeout=0.3) as vec:
        vec.reset(seed=0)
        vec.set_attr("nap", [0.0, 0.0, 0.8])
        vec.send([1, 2], [0, 2])
        with pytest.raises(sekai.VecEnvWorkerError, match=r"Sub-env 2 raised TimeoutError: no answer in time"):
            vec.recv(min_slots=2)
        slots, result = vec.recv(min_slots=2, timeout=60)
        assert slots.tolist() == [0, 2] and result.rewards.tolist() == [11.0, 212.0]
        assert result.kind.tolist() == [STEP, STEP] and not vec.lost_rows.any()


@pytest.mark.parametrize("backend", REMOTE)
def test_closing_does_not_wait_for_what_is_under_way_for_longer_than_close_timeout(backend: str) -> None:
    vec = build(backend, "same_step", (9, 9), close_timeout=0.5)
    vec.reset(seed=0)
    pids = vec.call("where")
    vec.set_attr("nap", [0.0, 60.0])
    vec.send([0, 0], [0, 1])
    begun = time.monotonic()
    vec.close()
    assert time.monotonic() - begun < 15 and all(gone(pid) for pid in set(pids))


def test_closing_in_another_thread_releases_one_that_waits() -> None:
    vec = build("proc", "same_step", (9, 9), close_timeout=0.2)
    vec.reset(seed=0)
    vec.set_attr("nap", 60.0)
    vec.send([0, 0], [0, 1])
    threading.Timer(0.2, vec.close).start()
    with pytest.raises(sekai.VecEnvClosed):
        vec.recv()


# ---- what is sent ----------------------------------------------------------------------------------


class Wide(sekai.Env):
    """Observations and actions of a megabyte each; says what it was given."""

    observation_space = sekai.Box(-1e9, 1e9, (1 << 17,), np.float64)
    action_space = sekai.Box(-1e9, 1e9, (1 << 17,), np.float64)

    def __init__(self, slot: int) -> None:
        self.slot = slot

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self._set_rng(seed)
        return sekai.ResetResult(np.full(1 << 17, -1.0), {})

    def step(self, action: Any) -> Any:
        return sekai.StepResult(action + 1.0, float(self.slot), False, False, {})


@pytest.mark.parametrize("shared_memory", [True, False])
def test_messages_larger_than_the_pipe_do_not_wait_for_each_other(shared_memory: bool) -> None:
    # both sides would write at once: 4 slots in one worker, sent one by one while it steps the others
    with build_from(
        [factory(Wide, slot) for slot in range(4)], "proc", num_workers=1, shared_memory=shared_memory
    ) as vec:
        vec.reset(seed=0)
        for slot in range(4):
            vec.send(np.full((1, 1 << 17), 1000.0 * slot), [slot])
        counts = np.zeros(4)
        while counts.sum() < 40:
            slots, result = vec.recv(timeout=60)
            counts[slots] += 1
            for j, slot in enumerate(slots.tolist()):
                assert (result.observations[j] == 1000.0 * slot + counts[slot]).all() and result.rewards[j] == slot
                vec.send(result.observations[j : j + 1], [slot])
        assert counts.min() > 2


def test_what_had_to_wait_for_room_is_sent_as_soon_as_there_is_some() -> None:
    with build_from([factory(Wide, slot) for slot in range(2)], "proc", num_workers=1) as vec:
        vec.reset(seed=0)
        for slot in range(2):
            vec.send(np.zeros((1, 1 << 17)), [slot])
        assert vec.recv(timeout=60)[0].tolist() == [0]
        time.sleep(1.0)  # the worker is not idle while the caller does something else
        assert vec.recv(timeout=0)[0].tolist() == [1]


def test_closing_reads_what_workers_are_writing_so_that_they_close_their_environments(tmp_path: Path) -> None:
    class Marks(Wide):
        def close(self) -> None:
            (tmp_path / str(self.slot)).touch()

    vec = build_from([factory(Marks, slot) for slot in range(3)], "proc", num_workers=1, close_timeout=20.0)
    vec.reset(seed=0)
    vec.send(np.zeros((3, 1 << 17)), range(3))
    vec.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2"]


def test_what_cannot_be_pickled_is_refused_before_anything_is_sent_or_is_the_error_of_its_slot() -> None:
    class Secretive(Coded):
        def step(self, action: Any) -> Any:
            result = super().step(action)
            return result._replace(info={"lock": threading.Lock()}) if action == 1 else result

    with build_from([factory(Secretive, slot, 99) for slot in range(2)], "grouped") as vec:
        vec.reset(seed=0)
        vec.send([1, 0], [0, 1])
        with pytest.raises(sekai.VecEnvWorkerError, match=r"cannot pickle '_thread\.lock' object"):
            vec.recv(min_slots=2)
        assert vec.recv()[0].tolist() == [1]
        vec.send([0], [0])
        assert vec.recv()[1].kind.tolist() == [LOST]
        assert vec.step([0, 0]).kind.tolist() == [STEP, STEP]


@pytest.mark.parametrize("backend", REMOTE)
def test_steps_sends_and_resets_in_any_order_are_those_of_one_process(backend: str) -> None:
    rng, n, lengths = np.random.default_rng(1), 5, (2, 3, 4, 5, 6)
    with build(backend, "next_step", lengths) as vec, build("sync", "next_step", lengths) as same:
        assert np.array_equal(vec.reset(seed=3).observations, same.reset(seed=3).observations)
        for _ in range(150):
            choice = rng.integers(4)
            if choice == 0:
                actions = rng.integers(0, 5, n)
                one, other = vec.step(actions), same.step(actions)
                assert np.array_equal(one.observations, other.observations) and one.infos == other.infos
                assert np.array_equal(one.kind, other.kind) and np.array_equal(one.rewards, other.rewards)
            elif choice == 1:
                mask = rng.random(n) < 0.3
                one_, other_ = vec.reset(mask=mask), same.reset(mask=mask)
                assert np.array_equal(one_.observations, other_.observations)
                assert np.array_equal(one_.dones, other_.dones)
            else:
                slots = np.flatnonzero(rng.random(n) < 0.6)
                if not len(slots):
                    continue
                actions = rng.integers(0, 5, len(slots))
                vec.send(actions, slots)
                same.send(actions, slots)
                got, one = vec.recv(min_slots=len(slots))
                order = np.argsort(got)
                _, other = same.recv()
                assert np.array_equal(got[order], slots)
                assert np.array_equal(one.observations[order], other.observations)
                assert np.array_equal(one.rewards[order], other.rewards)
                assert np.array_equal(one.kind[order], other.kind)
                assert [one.infos[int(j)] for j in order] == list(other.infos)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_every_start_method(context: str) -> None:
    with build_from([factory(Coded, slot, 5) for slot in range(4)], "grouped", context=context) as vec:
        assert run_coded(vec, "same_step", [5] * 4, 200, 2).min() > 0
