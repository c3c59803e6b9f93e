"""Small timelines written out: every column of every mode, and batches in which slots do different things."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from sekai.collect import Collector, Decision
from sekai.testing import CodedEnv, CodedVecEnv
from tests.collect.envs import MODES, ScriptedVecEnv

STEP, TERM, TRUNC, RESET, FROZEN, LOST = (int(kind) for kind in RowKind)


def zeros(observations: Any) -> Any:
    return np.zeros(len(observations), np.int64)


def column(array: Any, slot: int = 0) -> list[Any]:
    return array[:, slot].tolist()  # type: ignore[no-any-return]


def test_same_step_written_out() -> None:
    vec = ScriptedVecEnv([[(2, "terminated"), (1, "truncated"), (3, "both")]])
    fragment = Collector(vec, zeros, fragment_length=5, infos=["t"]).collect()
    assert column(fragment.observations) == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 2, 0], [0, 2, 1]]
    assert column(fragment.next_observations()) == [[0, 0, 1], [0, 0, 2], [0, 1, 1], [0, 2, 1], [0, 2, 2]]
    assert fragment.tail_observations.tolist() == [[0, 2, 2]]
    assert column(fragment.rewards) == [10, 20, 10, 10, 20]
    assert column(fragment.kind) == [STEP, TERM, TRUNC, STEP, STEP]
    assert column(fragment.episode_start) == [True, False, True, True, False]
    assert column(fragment.step_index) == [0, 1, 0, 0, 1]
    assert column(fragment.episode_id) == [0, 0, 1, 2, 2]
    assert column(fragment.bootstrap) == [True, False, True, True, True]
    assert column(fragment.trace) == [True, False, False, True, False]
    assert column(fragment.cut) == [False, False, False, False, True]
    assert column(fragment.infos["t"]) == [1, 2, 1, 1, 2], "the info of the step, not of the reset"
    assert fragment.tail_start.tolist() == [False]


def test_next_step_written_out() -> None:
    vec = ScriptedVecEnv([[(2, "terminated"), (1, "truncated"), (3, "both")]], autoreset="next_step")
    fragment = Collector(vec, zeros, fragment_length=6, infos=["t"]).collect()
    assert column(fragment.observations) == [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 1, 1], [0, 2, 0]]
    assert column(fragment.kind) == [STEP, TERM, RESET, TRUNC, RESET, STEP]
    assert column(fragment.valid) == [True, True, False, True, False, True]
    assert column(fragment.episode_start) == [True, False, False, True, False, True]
    assert column(fragment.episode_id) == [0, 0, -1, 1, -1, 2]
    assert column(fragment.step_index) == [0, 1, -1, 0, -1, 0]
    assert column(fragment.bootstrap) == [True, False, False, True, False, True]
    assert column(fragment.trace) == [True, False, False, False, False, False]
    assert column(fragment.cut) == [False, False, False, False, False, True]
    assert column(fragment.infos["t"]) == [1, 2, 0, 1, 0, 1]
    assert len(fragment.finals) == 0, "every successor is the next row"


@pytest.mark.parametrize("mode", MODES)
def test_three_step_episodes_give_six_transitions_in_eight_calls_of_next_step(mode: str) -> None:
    collector = Collector(CodedVecEnv(1, 3, autoreset=mode), zeros, fragment_length=8)
    fragment = collector.collect()
    assert int(fragment.valid.sum()) == (6 if mode == "next_step" else 8)
    assert collector.counters.terminated == 2
    assert collector.counters.reset_only == (2 if mode == "next_step" else 0)


def test_each_slot_of_one_call_is_something_else() -> None:
    vec = CodedVecEnv(5, [9, 2, 2, 2, 1], ending=["terminated", "terminated", "truncated", "both", "terminated"],
                      autoreset="next_step")  # fmt: skip
    collector = Collector(vec, zeros, fragment_length=2)
    fragment = collector.collect()
    assert fragment.kind[1].tolist() == [STEP, TERM, TRUNC, TERM, RESET]
    assert fragment.terminated[1].tolist() == [False, True, False, True, False]
    assert fragment.truncated[1].tolist() == [False, False, True, True, False]
    assert fragment.bootstrap[1].tolist() == [True, False, True, False, False]
    assert fragment.cut[1].tolist() == [True, False, False, False, False]
    assert fragment.trace[0].tolist() == [True, True, True, True, False]
    assert fragment.tail_start.tolist() == [False, False, False, False, True]
    assert (collector.counters.terminated, collector.counters.truncated) == (3, 1)


def test_slots_wait_as_frozen_until_all_have_ended_where_that_is_asked_for() -> None:
    vec = CodedVecEnv(2, [1, 3], autoreset="disabled")
    collector = Collector(vec, zeros, fragment_length=4, restart="all")
    fragment = collector.collect()
    assert column(fragment.kind, 0) == [TERM, FROZEN, FROZEN, TERM]
    assert column(fragment.kind, 1) == [STEP, STEP, TERM, STEP]
    assert column(fragment.observations, 0) == [[0, 0, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0]]
    assert column(fragment.next_observations(), 0)[0] == [0, 0, 1]
    assert column(fragment.next_observations(), 1) == [[1, 0, 1], [1, 0, 2], [1, 0, 3], [1, 1, 1]]
    assert column(fragment.episode_start, 0) == [True, False, False, True]
    assert column(fragment.episode_id, 0) == [0, -1, -1, 2]
    counters = collector.counters
    assert (counters.valid, counters.frozen, counters.rows, counters.terminated) == (6, 2, 8, 3)


def test_an_end_on_the_last_row_is_no_cut_and_the_next_fragment_starts() -> None:
    collector = Collector(CodedVecEnv(1, 2), zeros, fragment_length=2)
    first, second = collector.collect(), collector.collect()
    assert column(first.terminated) == [False, True] and column(first.cut) == [False, False]
    assert first.tail_start.tolist() == [True] and first.tail_observations.tolist() == [[0, 1, 0]]
    assert first.next_observations([1], [0]).tolist() == [[0, 0, 2]]
    assert column(second.episode_start) == [True, False] and column(second.episode_id) == [1, 1]


def test_an_episode_goes_on_in_the_next_fragment() -> None:
    collector = Collector(CodedVecEnv(2, 7), zeros, fragment_length=3)
    first, second, third = (collector.collect() for _ in range(3))
    assert column(second.step_index, 1) == [3, 4, 5] and column(second.episode_id, 1) == [1, 1, 1]
    assert column(third.step_index, 1) == [6, 0, 1] and column(third.episode_id, 1) == [1, 3, 3]
    assert not second.episode_start.any() and column(first.cut) == [False, False, True]


def test_a_reset_in_between_cuts_the_episodes_under_way_and_keeps_their_rows() -> None:
    vec = CodedVecEnv(2, [9, 2], ending="truncated")
    failing = iter([False, False, True])

    def policy(observations: Any) -> Any:
        if next(failing, False):
            raise RuntimeError("not now")
        return zeros(observations)

    collector = Collector(vec, policy, fragment_length=4)
    with pytest.raises(RuntimeError, match="not now"):
        collector.collect()
    collector.reset()
    fragment = collector.collect()
    assert column(fragment.observations, 0) == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1]]
    assert column(fragment.next_observations(), 0) == [[0, 0, 1], [0, 0, 2], [0, 1, 1], [0, 1, 2]]
    assert column(fragment.cut, 0) == [False, True, False, True]
    assert column(fragment.episode_start, 0) == [True, False, True, False]
    assert column(fragment.next_observations(), 1)[1] == [1, 0, 2], "it had ended: its final observation stays"
    assert column(fragment.kind, 1) == [STEP, TRUNC, STEP, TRUNC]
    assert column(fragment.episode_id, 1) == [1, 1, 3, 3], "the episode that nobody acted in has no id"
    assert column(fragment.episode_id, 0) == [0, 0, 2, 2]
    following = collector.collect()
    assert column(following.episode_id, 0) == [2] * 4, "it goes on in the next fragment"
    assert column(following.episode_id, 1) == [5, 5, 7, 7]


class Flaky(CodedEnv):
    """Raises in one step."""

    def __init__(self, slot: int, length: int, fails_at: int) -> None:
        super().__init__(slot, length)
        self.fails_at = fails_at

    def step(self, action: Any) -> sekai.StepResult:
        self.fails_at -= 1
        if self.fails_at == 0:
            raise ValueError("went boom")
        return super().step(action)


@pytest.mark.parametrize("mode", MODES)
def test_the_row_after_a_failed_call_is_lost_and_the_row_before_it_cut(mode: str) -> None:
    vec = sekai.SyncVecEnv([lambda: Flaky(0, 9, 99), lambda: Flaky(1, 9, 3)], autoreset=mode)

    class Valued:
        """Counts the observations it was shown since the last start."""

        def initial_state(self, num_slots: int) -> Any:
            return np.zeros(num_slots)

        def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
            return Decision(zeros(observations), state + 1, {"state": state})

        def value(self, observations: Any, state: Any) -> Any:
            return observations[:, 2] * 10 + state

    collector = Collector(vec, Valued(), fragment_length=5, values=True)
    with pytest.raises(ValueError, match="went boom"):
        collector.collect()
    counters = collector.counters
    assert (counters.calls, counters.failed_calls, counters.failed_rows, counters.rows) == (2, 1, 2, 4)
    fragment = collector.collect()
    assert column(fragment.kind, 0) == [STEP, STEP, LOST, STEP, STEP]
    assert column(fragment.observations, 0) == [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 0, 4], [0, 0, 5]]
    assert column(fragment.cut, 0) == [False, True, False, False, True]
    assert column(fragment.trace, 0) == [True, False, False, True, False]
    assert column(fragment.bootstrap, 0) == [True, True, False, True, True]
    assert column(fragment.episode_start, 0) == [True, False, False, True, False]
    assert column(fragment.episode_id, 0) == [0, 0, -1, 2, 2]
    assert column(fragment.step_index, 0) == [0, 1, -1, 0, 1]
    assert column(fragment.extras["state"], 0) == [0, 1, 2, 0, 1]
    assert fragment.next_values is not None
    assert column(fragment.next_values, 0) == [10 + 1, 20 + 2, 0, 50 + 1, 60 + 2]
    assert (counters.valid, counters.lost, counters.rows) == (8, 2, 10)


def test_the_first_row_of_a_fragment_may_be_a_lost_one() -> None:
    vec = sekai.SyncVecEnv([lambda: Flaky(0, 9, 3)])
    collector = Collector(vec, zeros, fragment_length=2)
    first = collector.collect()
    with pytest.raises(ValueError, match="went boom"):
        collector.collect()
    second = collector.collect()
    assert column(first.cut) == [False, True] and column(second.kind) == [LOST, STEP]
    assert column(second.episode_id) == [-1, 1] and column(second.episode_start) == [False, True]


def test_an_end_that_was_lost_under_disabled_is_followed_by_a_reset() -> None:
    vec = sekai.SyncVecEnv([lambda: CodedEnv(0, 3), lambda: Flaky(1, 9, 3)], autoreset=False)
    collector = Collector(vec, zeros, fragment_length=5)
    with pytest.raises(ValueError, match="went boom"):
        collector.collect()  # slot 0 ended in this call, and nobody saw it
    fragment = collector.collect()
    # its lost call repeated the last row of the ended episode: FROZEN or LOST, no transition
    assert not fragment.valid[2, 0] and column(fragment.valid, 0) == [True, True, False, True, True]
    assert column(fragment.observations, 0)[3] == [0, 1, 0] and column(fragment.cut, 0)[1]


@pytest.mark.parametrize("restart", ["each", "all"])
def test_a_lost_end_begins_nothing_while_its_slot_is_frozen(restart: Any) -> None:
    vec = CodedVecEnv(2, [2, 4], autoreset=False)
    calls = iter(range(99))

    def policy(observations: Any) -> Any:
        if next(calls) == 1:
            vec.lose_rows(np.array([True, False]))  # the next call ends the episode of slot 0
        return zeros(observations)

    fragment = Collector(vec, policy, fragment_length=5, restart=restart).collect()
    starts = {"each": [True, False, True, False, True], "all": [True, False, False, False, True]}[restart]
    kinds = {"each": [STEP, LOST, STEP, TERM, STEP], "all": [STEP, LOST, FROZEN, FROZEN, STEP]}[restart]
    assert column(fragment.episode_start, 0) == starts and column(fragment.kind, 0) == kinds
    assert fragment.finals.find(np.array([1]), np.array([0])).tolist() == [-1], "a lost row led nowhere"


def test_a_lost_end_has_no_final_observation_under_same_step() -> None:
    vec = CodedVecEnv(1, 1)
    collector = Collector(vec, zeros, fragment_length=1)
    collector.reset()
    vec.lose_rows(np.array([True]))
    fragment = collector.collect()
    assert column(fragment.kind) == [LOST] and len(fragment.finals) == 0


def test_a_lost_worker_cuts_the_episode_it_held() -> None:
    vec = CodedVecEnv(2, 9)
    collector = Collector(vec, zeros, fragment_length=3)
    collector.reset()
    vec.lose_rows(np.array([False, True]))
    fragment = collector.collect()
    assert fragment.kind[0].tolist() == [STEP, LOST] and fragment.episode_id[:, 1].tolist() == [-1, 3, 3]


def test_rows_that_are_no_transition_have_no_infos_whatever_the_memory_held_before() -> None:
    collector = Collector(CodedVecEnv(1, 2, autoreset="next_step"), zeros, fragment_length=4, infos=["t"])
    found = []
    for _ in range(3):
        fragment = collector.collect()
        found += column(fragment.infos["t"])
        fragment.release()
    assert found == [1, 2, 0] * 4


def test_a_call_whose_final_value_fails_is_lost_and_leaves_nothing_in_its_row() -> None:
    class Failing:
        failed = False

        def initial_state(self, num_slots: int) -> None: ...

        def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
            return Decision(zeros(observations), extras={"value": np.ones(2)})

        def value(self, observations: Any, state: Any) -> Any:
            if len(observations) == 1 and not self.failed:
                self.failed = True
                raise RuntimeError("no value")
            return np.ones(len(observations))

    vec = CodedVecEnv(2, [2, 9], ending="truncated")
    collector = Collector(vec, Failing(), fragment_length=4, values=True, infos=["t"])
    with pytest.raises(RuntimeError, match="no value"):
        collector.collect()
    fragment = collector.collect()
    assert column(fragment.kind, 0) == [STEP, LOST, TRUNC, STEP] and column(fragment.kind, 1) == [
        STEP,
        LOST,
        STEP,
        STEP,
    ]
    assert column(fragment.infos["t"], 1) == [1, 0, 4, 5]
    assert column(fragment.observations, 1) == [[1, 0, 0], [1, 0, 1], [1, 0, 3], [1, 0, 4]]
    assert fragment.finals.time.tolist() == [2], "not that of the call that was lost"
    counters = collector.counters
    assert (counters.failed_rows, counters.rows, counters.lost, counters.truncated) == (2, 8, 2, 1)


def test_a_reset_leaves_nothing_of_a_call_that_failed() -> None:
    class FailingOnce:
        failed = False

        def initial_state(self, num_slots: int) -> None: ...

        def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
            return Decision(zeros(observations), extras={"value": np.ones(1)})

        def value(self, observations: Any, state: Any) -> Any:
            if not self.failed:
                self.failed = True
                raise RuntimeError("no value")
            return np.ones(1)

    vec = ScriptedVecEnv([[(1, "truncated"), (9, "terminated"), (9, "terminated")]])
    collector = Collector(vec, FailingOnce(), fragment_length=2, values=True)
    with pytest.raises(RuntimeError, match="no value"):
        collector.collect()
    collector.reset()
    fragment = collector.collect()
    assert column(fragment.kind) == [STEP, STEP] and column(fragment.truncated) == [False, False]
    assert column(fragment.episode_start) == [True, False]


def test_rows_that_cannot_be_kept_are_counted_apart_and_the_next_are_lost() -> None:
    vec = CodedVecEnv(2, 9)
    collector = Collector(vec, zeros, fragment_length=3, infos=["nothing"])
    with pytest.raises(LookupError, match=r"infos\[0\] has no 'nothing'.*it has \['t'\]"):
        collector.collect()
    assert vec.lost_rows.all()
    assert (collector.counters.failed_rows, collector.counters.rows) == (2, 0)
