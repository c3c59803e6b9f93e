"""`send` and `recv`: slots stepped one by one, on every backend that can.

Sub-environments are identity-coded, so a row that met another slot's action, or another action of its own, is seen.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

import sekai
from sekai import RowKind
from tests.contract.envs import ACTIONS, BOOM, INTERRUPT, MODES, OBJECTS, Coded, build, build_from, factory, places

STEP, TERMINATED, RESET, FROZEN, LOST = (
    RowKind.STEP,
    RowKind.TERMINATED,
    RowKind.RESET,
    RowKind.FROZEN,
    RowKind.LOST,
)
LOCAL = ("sync", "async")


class Paced(Coded):
    """The higher the slot, the longer a step takes: by turns of the loop, or by sleeping."""

    async def async_step(self, action: Any) -> Any:
        for _ in range(self.slot**2):
            await asyncio.sleep(0)
        return self.step(action)


class Gated(Coded):
    """A step waits until its slot is let through."""

    def __init__(self, slot: int, length: int = 99) -> None:
        super().__init__(slot, length)
        self.gate = threading.Semaphore(0)
        self.entered = 0

    async def async_step(self, action: Any) -> Any:
        self.entered += 1
        while not self.gate.acquire(blocking=False):
            await asyncio.sleep(0.0005)
        return self.step(action)


def gated(n: int = 3, mode: str = "same_step", length: int = 99, **kwargs: Any) -> Any:
    """On the loop, every step waits for its gate."""
    vec = build_from([factory(Gated, slot, length) for slot in range(n)], "async", mode, **kwargs)
    vec.reset(seed=0)
    return vec


def let_through(vec: Any, *slots: int) -> None:
    """Open the gates of these slots, one after another, and wait until each has been finished."""
    for slot in slots:
        vec.envs[slot].gate.release()
        while slot not in vec._outstanding.finished:
            time.sleep(0.0005)


def per_slot(results: list[tuple[Any, Any]], n: int) -> list[list[Any]]:
    """All that was said of each slot, row after row."""
    said: list[list[Any]] = [[] for _ in range(n)]
    for slots, result in results:
        for place, slot in enumerate(slots):
            final = result.final_observation(place).tolist() if result.ended[place] else None
            said[slot].append(
                (
                    result.observations[place].tolist(),
                    float(result.rewards[place]),
                    bool(result.terminated[place]),
                    bool(result.truncated[place]),
                    int(result.kind[place]),
                    bool(result.ended[place]),
                    final,
                    repr(result.infos[place]),
                )
            )
    return said


# ---- every action meets its own observation --------------------------------------------------------


def policy(slots: Any, observations: Any) -> Any:
    """An action that depends on all that identifies an observation."""
    return ((7 * slots + 3 * observations[:, 1] + 5 * observations[:, 2]) % 5).astype(np.int64)


def run_coded(vec: sekai.VecEnv, mode: str, lengths: Any, rows: int, min_slots: int) -> Any:
    """Step every slot as soon as its row is there, check every row against the one before; rows of each slot."""
    n, lengths = vec.num_envs, np.array(lengths)
    seen = vec.reset(seed=0).observations.copy()
    vec.send(policy(np.arange(n), seen), np.arange(n))
    counts = np.zeros(n, int)
    while counts.sum() < rows:
        slots, result = vec.recv(min_slots)
        now, before = result.observations, seen[slots]
        over = before[:, 2] >= lengths[slots]  # the row before was the last of an episode (next_step, disabled)
        at = before[:, 2] + 1
        ends = ~over & (at >= lengths[slots])
        begins = ends if mode == "same_step" else over & (mode == "next_step")
        stays = over & (mode == "disabled")
        assert len(slots) >= min_slots and len(set(slots.tolist())) == len(slots)
        assert np.array_equal(now[:, 0], slots)
        assert np.array_equal(now[:, 1], before[:, 1] + begins)
        assert np.array_equal(now[:, 2], np.where(begins, 0, np.where(stays, before[:, 2], at)))
        expected = 100.0 * slots + 10.0 * at + policy(slots, before)
        assert np.array_equal(result.rewards, np.where(over, 0.0, expected))
        assert np.array_equal(result.ended, ends)
        assert np.array_equal(result.kind, np.where(stays, FROZEN, np.where(over, RESET, np.where(ends, 1, STEP))))
        seen[slots] = now
        counts[slots] += 1
        vec.send(policy(slots, now), slots)
    return counts


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("backend", "rows"), [("sync", 34_000), ("async", 34_000), ("proc", 2_000), ("grouped", 2_500), ("pickled", 2_000)]
)
def test_every_action_meets_its_own_observation(backend: str, rows: int, mode: str) -> None:
    lengths = (2, 30, 5, 7, 11, 3)
    with build_from([factory(Paced, slot, lengths[slot]) for slot in range(6)], backend, mode) as vec:
        if backend not in LOCAL:
            vec.set_attr("nap", [0.0, 0.0, 0.001, 0.0, 0.0, 0.004])
        counts = run_coded(vec, mode, lengths, rows, 1 if backend == "sync" else 2)
        assert counts.min() > 0
        if backend == "sync":
            assert counts.max() == counts.min()
        elif mode != "disabled":  # there all slots have soon ended, and frozen ones take no time: they may be even
            assert counts.max() > counts.min()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", OBJECTS)
def test_what_is_said_of_a_slot_is_what_step_says_of_it(backend: str, mode: str) -> None:
    # 12 rows of each slot through `step` of the serial backend, and through `send` and `recv`
    lengths, endings, n, rows = (2, 3, 4), ("terminated", "truncated", "both"), 3, 12
    with build("sync", mode, lengths, endings) as vec:
        first = vec.reset(seed=5).observations
        expected = per_slot([(range(n), vec.step([(slot + t) % 5 for slot in range(n)])) for t in range(rows)], n)
    with build(backend, mode, lengths, endings) as vec:
        assert np.array_equal(vec.reset(seed=5).observations, first)
        sent, received = [0] * n, []
        vec.send([slot % 5 for slot in range(n)], range(n))
        while min(sent) < rows:
            received.append(vec.recv())
            for slot in received[-1][0].tolist():
                sent[slot] += 1
                if sent[slot] < rows:
                    vec.send([(slot + sent[slot]) % 5], [slot])
        assert per_slot(received, n) == expected


@pytest.mark.parametrize("backend", OBJECTS)
def test_a_slot_that_is_stepped_by_itself_leaves_the_others_where_they_are(backend: str) -> None:
    # episodes of 2 steps
    with build(backend, "next_step", (2, 2, 2)) as vec:
        vec.reset(seed=0)
        rows = []
        for action in (1, 2, 3, 4):
            vec.send([action], [1])
            slots, result = vec.recv()
            rows.append((slots.tolist(), places(result.observations), result.rewards.tolist(), result.kind.tolist()))
        assert rows == [
            ([1], [(1, 0, 1)], [111.0], [STEP]),
            ([1], [(1, 0, 2)], [122.0], [TERMINATED]),
            ([1], [(1, 1, 0)], [0.0], [RESET]),
            ([1], [(1, 1, 1)], [114.0], [STEP]),
        ]
        after = vec.step([0, 0, 0])
        assert places(after.observations) == [(0, 0, 1), (1, 1, 2), (2, 0, 1)]
        assert after.kind.tolist() == [STEP, TERMINATED, STEP]


@pytest.mark.parametrize("backend", OBJECTS)
def test_options_of_the_next_episode_are_asked_for_as_step_asks_for_them(backend: str) -> None:
    asked: list[tuple[int, int]] = []

    def options(slot: int, episode: int) -> dict[str, Any]:
        asked.append((slot, episode))
        return {"draw": 100 * slot + episode}

    with build(backend, "same_step", (1, 2), autoreset_options=options) as vec:
        vec.reset(seed=0)
        drawn = []
        for _ in range(4):
            vec.send([0], [0])
            drawn.append(int(vec.recv()[1].observations[0, 3]))
        vec.step([0, 0])
        assert drawn == [1, 2, 3, 4]
        assert vec.step([0, 0]).observations[:, 3].tolist() == [6, 101]
        assert asked == [(0, 1), (1, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 6), (0, 7), (1, 2)]


# ---- order and waiting -----------------------------------------------------------------------------


def test_rows_come_in_order_of_completion_and_as_soon_as_enough_are_there() -> None:
    with gated(4) as vec:
        vec.send([0, 1, 2, 3], [0, 1, 2, 3])
        let_through(vec, 2)
        assert vec.recv()[0].tolist() == [2]
        vec.send([4], [2])
        let_through(vec, 3, 0, 2)
        slots, result = vec.recv(min_slots=2)
        assert slots.tolist() == [3, 0, 2] and slots.dtype == np.intp, "all that are there, also beyond min_slots"
        assert result.rewards.tolist() == [313.0, 10.0, 224.0] and places(result.observations)[2] == (2, 0, 2)
        assert vec.outstanding.tolist() == [False, True, False, False]
        let_through(vec, 1)
        assert vec.recv()[0].tolist() == [1] and not vec.outstanding.any()


def test_a_second_wait_for_more_rows_does_not_return_early() -> None:
    with gated(3) as vec:
        vec.send([0, 0, 0], [0, 1, 2])
        vec.envs[1].gate.release()
        opened = threading.Timer(0.2, lambda: [vec.envs[slot].gate.release() for slot in (2, 0)])
        opened.start()
        assert sorted(vec.recv(min_slots=3)[0].tolist()) == [0, 1, 2]
        opened.join()


@pytest.mark.parametrize("backend", ["async", "proc", "grouped", "pickled"])
def test_a_timeout_loses_nothing(backend: str) -> None:
    vec: Any
    if backend == "async":
        vec = gated(2)
    else:
        vec = build(backend, "same_step", (9, 9))
        vec.reset(seed=0)
        vec.set_attr("nap", [0.0, 0.5])
    with vec:
        vec.send([1, 2], [0, 1])
        if backend == "async":
            let_through(vec, 0)
        with pytest.raises(
            TimeoutError,
            match=r"^1 of 2 sub-envs were ready after 0\.2 seconds; sub-envs \[1\] are under way\. Nothing is lost: "
            r"call recv\(\) again\.$",
        ):
            vec.recv(min_slots=2, timeout=0.2)
        assert vec.outstanding.tolist() == [True, True]
        if backend == "async":
            let_through(vec, 1)
        slots, result = vec.recv(min_slots=2, timeout=60)
        assert slots.tolist() == [0, 1] and result.rewards.tolist() == [11.0, 112.0]
        assert result.kind.tolist() == [STEP, STEP] and not vec.lost_rows.any()


def test_throughput_follows_the_mean_and_not_the_slowest() -> None:
    class Slow(Coded):
        """Slot 0 takes a step only once the others have taken fifty each."""

        async def async_step(self, action: Any) -> Any:
            if self.slot == 0:
                until = self.t * 50 + 50
                while min(taken[1:]) < until:
                    await asyncio.sleep(0)
            taken[self.slot] += 1
            return self.step(action)

    taken = [0] * 4
    with build_from([factory(Slow, slot, 10**6) for slot in range(4)], "async") as vec:
        assert run_coded(vec, "same_step", [10**6] * 4, 1000, 1)[1:].min() > 300
        assert 5 <= taken[0] <= 8


def test_throughput_of_workers_follows_the_mean_and_not_the_slowest() -> None:
    with build_from([factory(Coded, slot, 10**6) for slot in range(4)], "proc") as vec:
        vec.set_attr("nap", [0.3, 0.0, 0.0, 0.0])
        counts = run_coded(vec, "same_step", [10**6] * 4, 600, 1)
        assert counts[1:].min() > 20 * max(1, counts[0]), "in step with the slowest they would be equal"


# ---- what is refused -------------------------------------------------------------------------------

REFUSED: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda vec: vec.send([0, 0], [2, 1]), sekai.VecEnvBusy, r"^sub-envs \[1\] were sent an action whose row was not"),
    (lambda vec: vec.send([0, 0], [0, 3]), ValueError, r"^There are no sub-envs \[3\]; expected slots from 0 to 2\.$"),
    (lambda vec: vec.send([0], [-1]), ValueError, r"^There are no sub-envs \[-1\]"),
    (lambda vec: vec.send([0, 0], [2, 2]), ValueError, r"^slots has sub-envs \[2\] twice"),
    (lambda vec: vec.send([0], 2), TypeError, r"^slots is 2; expected a list of ints from 0 to 2"),
    (lambda vec: vec.send([0], [True]), TypeError, r"^slots is \[True\]"),
    (lambda vec: vec.send([0], [0.0]), TypeError, r"^slots is \[0\.0\]"),
    (lambda vec: vec.send([0], [0, 2]), sekai.InvalidAction, "has 1 entries; expected 2"),
    (lambda vec: vec.send([0, 1.5], [0, 2]), sekai.InvalidAction, r"^The action of sub-env 2 is 1\.5"),
    (lambda vec: vec.recv(2), ValueError, r"^min_slots is 2, and 1 sub-envs were sent an action: \[1\]\.$"),
    (lambda vec: vec.recv(0), ValueError, "min_slots is 0"),
    (lambda vec: vec.recv(True), TypeError, "min_slots is True"),
    (lambda vec: vec.recv(1, timeout=-1), ValueError, "timeout is -1; expected seconds, at least 0"),
    (lambda vec: vec.step([0, 0, 0]), sekai.VecEnvBusy, r"^sub-envs \[1\] were sent an action whose row was not"),
    (lambda vec: vec.reset(), sekai.VecEnvBusy, r"^sub-envs \[1\]"),
    (lambda vec: vec.reset(mask=np.array([True, True, False])), sekai.VecEnvBusy, r"^sub-envs \[1\]"),
    (lambda vec: vec.get_attr("t"), sekai.VecEnvBusy, r"^sub-envs \[1\]"),
    (lambda vec: vec.set_attr("nap", 0.0), sekai.VecEnvBusy, r"^sub-envs \[1\]"),
    (lambda vec: vec.call("where"), sekai.VecEnvBusy, r"^sub-envs \[1\]"),
]


@pytest.mark.parametrize("backend", OBJECTS)
def test_what_is_refused_says_why_and_moves_nothing(backend: str) -> None:
    with build(backend, "same_step", (9, 9, 9)) as vec:
        with pytest.raises(sekai.ResetRequired, match=r"^sub-envs \[0, 2\] need a reset: call reset\(\) before send"):
            vec.send([0, 0], [0, 2])
        vec.reset(seed=0)
        with pytest.raises(ValueError, match=r"^min_slots is 1, and 0 sub-envs were sent an action: \[\]\.$"):
            vec.recv()
        vec.send([3], [1])
        for call, error, text in REFUSED:
            with pytest.raises(error, match=text):
                call(vec)
            assert vec.outstanding.tolist() == [False, True, False], text
        vec.send([], [])
        slots, result = vec.recv()
        assert (slots.tolist(), result.rewards.tolist(), result.kind.tolist()) == ([1], [113.0], [STEP])
        assert vec.get_attr("t") == [0, 1, 0]
        assert places(vec.step([0, 0, 0]).observations) == [(0, 0, 1), (1, 0, 2), (2, 0, 1)]


def test_backends_that_step_all_slots_together_say_so() -> None:
    with build("native", "same_step", (9, 9)) as vec:
        vec.reset(seed=0)
        for call in (lambda: vec.send([0], [0]), vec.recv):
            with pytest.raises(NotImplementedError, match=r"^CodedVec\(num_envs=2\) steps all its sub-envs together"):
                call()
        assert vec.outstanding.tolist() == [False, False] and places(vec.step([0, 0]).observations)[0] == (0, 0, 1)


def test_native_shards_say_so() -> None:
    def make(num_envs: int, autoreset: str) -> Any:
        return build("native", autoreset, (9,) * num_envs)

    from sekai.vector.shards import NativeShards

    with sekai.ProcVecEnv(NativeShards(make, 4), num_workers=2) as vec:
        vec.reset(seed=0)
        with pytest.raises(NotImplementedError, match="has native shards, which step all their sub-envs together"):
            vec.send([0], [0])
        assert vec.step([0] * 4).kind.tolist() == [STEP] * 4


@pytest.mark.parametrize("backend", OBJECTS)
def test_a_closed_one_says_so_and_closing_needs_no_rows_received(backend: str) -> None:
    vec = build(backend, "same_step", (9, 9))
    vec.reset(seed=0)
    vec.send([0, 0], [0, 1])
    vec.close()
    for call in (lambda: vec.send([0], [0]), vec.recv):
        with pytest.raises(sekai.VecEnvClosed):
            call()


def test_closing_cancels_what_is_under_way_and_releases_a_thread_that_waits_for_it() -> None:
    vec = gated(2)
    vec.send([0, 0], [0, 1])
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            vec.recv()
        except sekai.VecEnvClosed as error:
            caught.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not vec.envs[1].entered:
        time.sleep(0.001)
    vec.close()
    waiting.join(10)
    assert len(caught) == 1 and not waiting.is_alive()


def test_environments_are_closed_when_nothing_is_under_way_in_them_any_more() -> None:
    said: list[str] = []

    class Told(Gated):
        async def async_step(self, action: Any) -> Any:
            try:
                return await super().async_step(action)
            except asyncio.CancelledError:
                said.append("cancelled")
                raise

        def close(self) -> None:
            said.append("closed")

    with build_from([factory(Told, 0)], "async") as vec:
        vec.reset(seed=0)
        vec.send([0], [0])
        while not vec.envs[0].entered:  # type: ignore[attr-defined]  # of AsyncVecEnv
            time.sleep(0.001)
    assert said == ["cancelled", "closed"]


# ---- partial resets --------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", OBJECTS)
def test_other_slots_can_be_reset_while_some_are_under_way(backend: str) -> None:
    with build(backend, "disabled", (1, 9, 9)) as vec:
        vec.reset(seed=0)
        vec.send([0, 3], [0, 1])
        got = {}
        while 0 not in got:
            slots, result = vec.recv()
            got.update({slot: result.rewards[place] for place, slot in enumerate(slots.tolist())})
        if 1 in got:  # both have come at once
            vec.send([3], [1])
        again = vec.reset(mask=np.array([True, False, False]))
        assert places(again.observations)[0] == (0, 1, 0) and again.dones.tolist() == [False] * 3
        slots, result = vec.recv()
        t = vec.get_attr("t")
        assert t[0] == 0 and t[2] == 0
        assert slots.tolist() == [1] and result.rewards.tolist() == [100.0 + 10.0 * t[1] + 3.0]
        assert result.kind.tolist() == [STEP]


def test_the_row_under_way_is_not_disturbed_by_a_reset_of_another_slot() -> None:
    # slot 1 ends its episode of one step, and waits in the reset that follows within the same call
    class SlowReset(Gated):
        async def async_reset(self, *, seed: Any = None, options: Any = None) -> Any:
            if self.episode >= 0 and self.slot == 1:
                while not self.gate.acquire(blocking=False):
                    await asyncio.sleep(0.0005)
            return self.reset(seed=seed, options=options)

    with build_from([factory(SlowReset, slot, 1) for slot in range(2)], "async") as vec:
        vec.reset(seed=0)
        vec.send([4], [1])
        vec.envs[1].gate.release()
        while vec.envs[1].t < 1:
            time.sleep(0.001)
        opened = threading.Timer(0.2, vec.envs[1].gate.release)
        opened.start()
        vec.reset(mask=np.array([True, False]))
        slots, result = vec.recv()
        assert (slots.tolist(), result.rewards.tolist(), result.kind.tolist()) == ([1], [114.0], [TERMINATED])
        assert places([result.final_observation(0)]) == [(1, 0, 1)] and places(result.observations) == [(1, 1, 0)]
        opened.join()


# ---- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", OBJECTS)
def test_an_exception_is_that_of_one_slot_whose_next_row_is_lost(backend: str) -> None:
    with build(backend, "same_step", (9, 9, 9, 9)) as vec:
        vec.reset(seed=0)
        vec.send([0, BOOM, 2, BOOM], [0, 1, 2, 3])
        errors, rows = [], {}
        while vec.outstanding.any():
            try:
                slots, result = vec.recv(min_slots=int(vec.outstanding.sum()))
                rows.update(dict(zip(slots.tolist(), result.rewards.tolist(), strict=True)))
                assert result.kind.tolist() == [STEP] * len(slots)
            except (ValueError, sekai.VecEnvWorkerError) as error:
                errors.append(error)
        assert rows == {0: 10.0, 2: 212.0} and len(errors) == 2
        if backend in LOCAL:
            assert sorted((str(e), e.__notes__) for e in errors) == [
                ("slot 1 went boom", ["raised by sub-env 1"]),
                ("slot 3 went boom", ["raised by sub-env 3"]),
            ]
        else:
            assert sorted(error.rank for error in errors) == [1, 3]
            assert all(f"slot {e.rank} went boom" in str(e) and "misbehave" in e.remote_traceback for e in errors)
        assert vec.lost_rows.tolist() == [False, True, False, True]
        vec.send([1, 1], [1, 0])
        slots, result = vec.recv(min_slots=2)
        assert dict(zip(slots.tolist(), result.kind.tolist(), strict=True)) == {1: LOST, 0: STEP}
        assert vec.lost_rows.tolist() == [False, False, False, True]
        assert vec.step([0] * 4).kind.tolist() == [STEP, STEP, STEP, LOST]
        assert vec.step([0] * 4).kind.tolist() == [STEP] * 4


@pytest.mark.parametrize("backend", OBJECTS)
def test_rows_lost_in_a_step_are_lost_to_the_first_row_received_and_to_no_later_one(backend: str) -> None:
    with build(backend, "same_step", (9, 9)) as vec:
        vec.reset(seed=0)
        with pytest.raises((ValueError, sekai.VecEnvWorkerError)):
            vec.step([0, BOOM])
        kinds = []
        for _ in range(2):
            vec.send([0], [0])
            kinds.append(vec.recv()[1].kind.tolist())
        assert kinds == [[LOST], [STEP]] and vec.lost_rows.tolist() == [False, True]
        assert vec.step([0, 0]).kind.tolist() == [STEP, LOST]
        assert vec.step([0, 0]).kind.tolist() == [STEP, STEP]


@pytest.mark.parametrize("backend", OBJECTS)
def test_a_failed_reset_within_a_step_needs_a_reset_of_that_slot_only(backend: str) -> None:
    with build(backend, "same_step", (1, 9)) as vec:
        vec.reset(seed=0)
        vec.set_attr("fail_resets", [True, False])
        vec.send([0, 0], [0, 1])
        with pytest.raises((ValueError, sekai.VecEnvWorkerError), match="slot 0 cannot reset"):
            vec.recv(min_slots=2)
        assert vec.recv()[0].tolist() == [1]
        with pytest.raises(sekai.ResetRequired, match=r"^sub-envs \[0\] need a reset"):
            vec.send([0, 0], [1, 0])
        vec.send([0], [1])
        assert places(vec.recv()[1].observations) == [(1, 0, 2)]


def test_what_is_no_exception_stops_a_serial_send_at_its_slot() -> None:
    with build("sync", "same_step", (9, 9, 9)) as vec:
        vec.reset(seed=0)
        with pytest.raises(KeyboardInterrupt):
            vec.send([1, INTERRUPT, 0], [0, 1, 2])
        assert vec.outstanding.tolist() == [True, False, False] and vec.lost_rows.tolist() == [False, True, False]
        assert vec.recv()[1].rewards.tolist() == [11.0]
        assert vec.step([0, 0, 0]).kind.tolist() == [STEP, LOST, STEP]
        assert vec.get_attr("t") == [2, 1, 1]


@pytest.mark.parametrize(("raised", "caught"), [(KeyboardInterrupt, KeyboardInterrupt), (SystemExit, SystemExit)])
def test_what_is_no_exception_comes_out_of_recv_on_the_loop(raised: type, caught: type) -> None:
    class Exits(Coded):
        async def async_step(self, action: Any) -> Any:
            if action == BOOM:
                raise raised("now")
            return self.step(action)

    with build_from([factory(Exits, slot, 9) for slot in range(2)], "async") as vec:
        vec.reset(seed=0)
        vec.send([BOOM, 0], [0, 1])
        with pytest.raises(caught, match="now"):
            vec.recv(min_slots=2)
        assert vec.recv()[0].tolist() == [1] and vec.lost_rows.tolist() == [True, False]
        vec.send([0], [0])
        assert vec.recv()[1].kind.tolist() == [LOST]


def test_a_question_for_options_that_fails_loses_no_row() -> None:
    fails = [False]

    def options(slot: int, episode: int) -> None:
        if fails[0]:
            raise RuntimeError("no options today")

    with build("sync", "same_step", (1, 9), autoreset_options=options) as vec:
        vec.reset(seed=0)
        fails[0] = True
        vec.send([1, 2], [0, 1])
        with pytest.raises(RuntimeError, match="no options today"):
            vec.recv()
        fails[0] = False
        slots, result = vec.recv()
        assert slots.tolist() == [0, 1] and result.rewards.tolist() == [11.0, 112.0]


def test_a_call_from_another_thread_while_rows_are_awaited_is_refused() -> None:
    with gated(2) as vec:
        vec.send([0, 0], [0, 1])
        got: list[Any] = []
        waiting = threading.Thread(target=lambda: got.append(vec.recv(min_slots=2)))
        waiting.start()
        while not vec.busy:
            time.sleep(0.001)
        with pytest.raises(sekai.VecEnvBusy, match="Another call"):
            vec.recv()
        let_through(vec, 1, 0)
        waiting.join(10)
        assert got[0][0].tolist() == [1, 0]


@pytest.mark.parametrize("backend", LOCAL)
def test_nothing_piles_up(backend: str) -> None:
    with build(backend, "same_step", (3, 3)) as vec:
        vec.reset(seed=0)
        for _ in range(50):
            vec.send([0, 0], [0, 1])
            vec.recv(min_slots=2)
        inner: Any = vec
        assert len(inner._outstanding.finished) <= 2 and not inner._outstanding.asked and len(inner._ended) <= 2
        if backend == "async":
            assert inner._came.qsize() <= 2 and len(inner._under_way) == 0


@pytest.mark.parametrize("backend", OBJECTS)
@pytest.mark.parametrize(
    "space",
    [
        sekai.Discrete(50),
        sekai.Box(0, 255, (2, 3), np.uint8),
        sekai.Dict({"a": sekai.Box(-1.0, 50.0, (2,)), "b": sekai.Discrete(50)}),
        sekai.Tuple((sekai.MultiBinary(3), sekai.Box(-1.0, 50.0, ()))),
        gymnasium.spaces.Text(3),
    ],
    ids=["discrete", "bytes", "dict", "tuple", "text"],
)
def test_rows_of_every_space_come_as_step_returns_them(backend: str, space: Any) -> None:
    class Any_(sekai.Env):
        observation_space, action_space = space, ACTIONS

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            self._set_rng(seed)
            self.observation_space.seed(7)
            return sekai.ResetResult(self.observation_space.sample(), {})

        def step(self, action: Any) -> Any:
            return sekai.StepResult(self.observation_space.sample(), 1.0, False, False, {})

    with build_from([factory(Any_), factory(Any_)], backend) as vec:
        vec.reset(seed=0)
        vec.send([0, 0], [1, 0])
        one = vec.recv(min_slots=2)[1]
        vec.reset(seed=0)
        other = vec.step([0, 0])
        assert repr(one.observations) == repr(other.observations)
        assert type(one.observations) is type(other.observations)
