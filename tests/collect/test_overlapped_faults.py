"""Slots that advance on their own, when something goes wrong: rows that are gone are LOST, and none comes twice."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from sekai.collect import Collector, Fragment
from tests.collect.envs import MODES, ShuffledVecEnv, action_on
from tests.collect.test_overlapped import LONG, ordered
from tests.collect.test_timelines import Flaky, column, zeros
from tests.contract.envs import Coded, build

ONE_ON = np.array([0, 0, 1, 0])
STEP, LOST = int(RowKind.STEP), int(RowKind.LOST)


def act(observations: Any) -> Any:
    """Actions from 0 to 4, which `Coded` does not misbehave on."""
    return np.array([action_on(row[:3]) % 5 for row in observations])


def check_coded(fragments: list[Fragment]) -> int:
    """Every valid row of `Coded` slots is one step of its own slot, and none stands there twice; how many there are."""
    seen: set[tuple[float, ...]] = set()
    for fragment in fragments:
        successors = fragment.next_observations()
        for t, slot in np.argwhere(fragment.valid).tolist():
            row, after = fragment.observations[t, slot], successors[t, slot]
            assert row[0] == slot and (after == row + ONE_ON).all()
            assert fragment.actions[t, slot] == act(row[None])[0]
            assert fragment.rewards[t, slot] == 100 * slot + 10 * after[2] + fragment.actions[t, slot]
            assert tuple(row) not in seen, "a row came twice"
            seen.add(tuple(row))
        ids = fragment.episode_id[fragment.trace], np.roll(fragment.episode_id, -1, axis=0)[fragment.trace]
        assert np.array_equal(*ids)
        follows = fragment.observations[1:] == successors[:-1]
        assert follows[fragment.trace[:-1]].all()
    return len(seen)


def check_counters(collector: Collector) -> None:
    counters = collector.counters
    assert counters.valid + counters.reset_only + counters.frozen + counters.lost == counters.rows


BACKENDS: dict[str, Any] = {"shuffled": ShuffledVecEnv, "async": sekai.AsyncVecEnv, "proc": sekai.ProcVecEnv}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_exception_of_one_slot_costs_that_slot_one_row(backend: str, mode: str) -> None:
    fns = [lambda slot=slot: Flaky(slot, 20, 3 if slot == 1 else 99) for slot in range(3)]  # type: ignore[misc]
    with BACKENDS[backend](fns, autoreset=mode) as vec:
        collector = Collector(vec, zeros, fragment_length=6, min_slots=1)
        with pytest.raises((ValueError, sekai.VecEnvWorkerError), match="went boom"):
            collector.collect()
        fragment = collector.collect()
        # the failed step moved nothing; the row after it executes an action, of whose observation nobody can be sure
        assert column(fragment.kind, 1) == [STEP, STEP, LOST, STEP, STEP, STEP]
        assert column(fragment.observations, 1)[3:] == [[1, 0, 3], [1, 0, 4], [1, 0, 5]]
        assert column(fragment.episode_start, 1) == [True, False, False, True, False, False]
        assert column(fragment.cut, 1) == [False, True, False, False, False, True]
        for slot in (0, 2):
            assert column(fragment.observations, slot) == [[slot, 0, step] for step in range(6)]
            assert column(fragment.kind, slot) == [STEP] * 6
        counters = collector.counters
        assert (counters.failed_calls, counters.failed_rows, counters.lost, counters.valid) == (1, 1, 1, 17)
        check_counters(collector)
        assert column(collector.collect().kind, 1) == [STEP] * 6


class Once:
    """Raises `KeyboardInterrupt` at one call of a function: before it, or when it has done its work."""

    def __init__(self, function: Callable[..., Any], at: int, when: str) -> None:
        self.function, self.at, self.when = function, at, when

    def __call__(self, *args: Any) -> Any:
        self.at -= 1
        if self.at == 0 and self.when == "before":
            raise KeyboardInterrupt
        result = self.function(*args)
        if self.at == 0:
            raise KeyboardInterrupt
        return result


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", ["send", "recv"])
def test_an_interrupt_loses_rows_only_when_they_have_been_received(name: str, when: str, mode: str) -> None:
    vec: Any = ordered([LONG] * 2, [[0], [0], [1]] * 9, mode)
    collector = Collector(vec, zeros, fragment_length=4, min_slots=1)
    setattr(vec, name, Once(getattr(vec, name), 2, when))  # the second call is about slot 0, in its second row
    with pytest.raises(KeyboardInterrupt):
        collector.collect()
    fragment = collector.collect()
    lost = (name, when) == ("recv", "after")
    assert column(fragment.kind, 0) == [STEP, LOST if lost else STEP, STEP, STEP]
    assert column(fragment.kind, 1) == [STEP] * 4
    assert [row[2] for row in column(fragment.observations, 1)] == [0, 1, 2, 3]
    assert [row[2] for row in column(fragment.observations, 0)] == ([0, 1, 3, 4] if lost else [0, 1, 2, 3])
    assert column(fragment.cut, 0) == [lost, False, False, True]
    counters = collector.counters
    not_under_way = lost or (name, when) == ("send", "before")
    assert (counters.lost, counters.failed_rows, counters.rows) == (lost, not_under_way, 8)
    check_counters(collector)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("mode", MODES)
def test_a_killed_worker_that_is_replaced_costs_its_slots_one_row(mode: str) -> None:
    with build("grouped", mode, (10**6,) * 4, on_worker_loss="restart") as vec:  # slots 0 and 1 share a worker
        victim = -1

        def policy(observations: Any) -> Any:
            nonlocal victim
            if victim > 0 and (observations[:, 0] == 0).any() and (observations[:, 2] == 3).any():
                os.kill(victim, signal.SIGKILL)
                victim = 0
            return act(observations)

        collector = Collector(vec, policy, fragment_length=8, min_slots=1)
        collector.reset(seed=0)
        victim = vec.call("where")[0]
        fragments = [collector.collect() for _ in range(2)]
        assert victim == 0 and vec.worker_restarts == 1  # type: ignore[attr-defined]  # of ProcVecEnv
        check_coded(fragments)
        kinds = np.concatenate([fragment.kind for fragment in fragments])
        assert (kinds == LOST).sum(axis=0).tolist() == [1, 1, 0, 0] and set(kinds.ravel()) == {STEP, LOST}
        lost = int(np.flatnonzero(kinds[:, 0] == LOST)[0])
        starts = np.concatenate([fragment.episode_start for fragment in fragments])
        assert starts[lost + 1, 0], "a new episode begins after what was lost"
        assert (collector.counters.lost, collector.counters.failed_calls) == (2, 0)
        check_counters(collector)


def test_a_worker_that_is_not_replaced_is_an_error_and_a_slow_one_a_delay() -> None:
    with sekai.ProcVecEnv([lambda: Coded(0, 99), lambda: Slow(1, 99)], step_timeout=0.3) as vec:
        collector = Collector(vec, act, fragment_length=3, min_slots=1)
        collector.reset(seed=0)
        with pytest.raises(sekai.VecEnvWorkerError, match="no answer"):
            collector.collect()
        assert vec.outstanding.tolist() == [False, True]
        counters = collector.counters
        assert (counters.failed_calls, counters.failed_rows, counters.rows) == (1, 0, 3), "nothing is lost"
        for _ in range(20):  # it is waited for anew
            try:
                fragment = collector.collect()
                break
            except sekai.VecEnvWorkerError:
                continue
        assert fragment.valid.all() and check_coded([fragment]) == 6
        os.kill(vec.call("where")[1], signal.SIGKILL)
        with pytest.raises(sekai.VecEnvWorkerError, match="exited unexpectedly"):
            collector.collect()


class Slow(Coded):
    """The first step takes longer than anybody waits."""

    def step(self, action: Any) -> sekai.StepResult:
        self.nap = 1.0 if self.t == 0 else 0.0
        return super().step(action)


def test_a_reset_drops_what_is_under_way_and_hands_its_errors_on() -> None:
    vec = sekai.SyncVecEnv([lambda: Flaky(0, 9, 2), lambda: Flaky(1, 9, 2)])
    collector = Collector(vec, zeros, fragment_length=3, min_slots=2)
    for call in (collector.collect, collector.reset):
        with pytest.raises(ValueError, match="went boom"):
            call()
    collector.reset()
    fragment = collector.collect()
    assert column(fragment.observations, 0) == [[0, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert column(fragment.kind, 1) == [STEP] * 3 and fragment.cut[0].all()
    assert (collector.counters.failed_rows, collector.counters.rows) == (2, 6)
