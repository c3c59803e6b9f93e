"""Slots that advance on their own: written out, with memory, at different speeds; and who is refused."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai import RowKind
from sekai.collect import Collector, Decision, Fragment
from sekai.testing import CodedEnv, CodedVecEnv
from sekai.vector import NativeShards
from sekai.vector.wrappers import VecFrameStackObservation, VecNormalizeReward
from tests.collect.envs import MODES, CodedPolicy, OrderedVecEnv, ScriptedEnv, ShuffledVecEnv, act, action_on, scripted
from tests.collect.test_memory import Structured
from tests.collect.test_timelines import column, zeros

STEP, TERM, TRUNC, RESET = (int(kind) for kind in list(RowKind)[:4])
LONG = [(9, "terminated")]


def ordered(scripts: Any, order: list[list[int]], mode: str = "same_step") -> OrderedVecEnv:
    vec = OrderedVecEnv([lambda i=i: ScriptedEnv(i, scripts[i]) for i in range(len(scripts))], autoreset=mode)  # type: ignore[misc]
    vec.order = iter(order)
    return vec


class Watching(CodedPolicy):
    """Writes down which slots it acted on, and in which step."""

    def __init__(self, fails_at: int = -1) -> None:
        super().__init__()
        self.acted: list[list[tuple[int, int]]] = []
        self.fails_at = fails_at

    def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
        if len(self.acted) == self.fails_at:
            self.fails_at = -1
            raise RuntimeError("not now")
        self.acted.append([(int(slot), int(step)) for slot, _, step in observations])
        return super().act(observations, state, episode_start)


def test_two_slots_written_out() -> None:
    vec = ordered([[(2, "terminated"), *LONG], [(1, "truncated"), *LONG]], [[0], [0], [1], [0], [1], [1]])
    policy = Watching()
    collector = Collector(vec, policy, fragment_length=3, values=True, infos=["t"], min_slots=1)
    fragment = collector.collect()
    assert policy.acted == [[(0, 0), (1, 0)], [(0, 1)], [(0, 0)], [(1, 0)], [(1, 1)]]
    assert policy.starts == [[True, True], [False], [True], [True], [False]]
    assert column(fragment.observations, 0) == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert column(fragment.observations, 1) == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert column(fragment.next_observations(), 0) == [[0, 0, 1], [0, 0, 2], [0, 1, 1]]
    assert column(fragment.next_observations(), 1) == [[1, 0, 1], [1, 1, 1], [1, 1, 2]]
    assert column(fragment.kind, 0) == [STEP, TERM, STEP] and column(fragment.kind, 1) == [TRUNC, STEP, STEP]
    assert column(fragment.episode_start, 0) == [True, False, True]
    assert column(fragment.episode_start, 1) == [True, True, False]
    assert column(fragment.cut, 0) == [False, False, True] and column(fragment.trace, 1) == [False, True, False]
    assert column(fragment.episode_id, 0) == [0, 0, 2] and column(fragment.episode_id, 1) == [1, 3, 3]
    assert column(fragment.infos["t"], 0) == [1, 2, 1] and column(fragment.infos["t"], 1) == [1, 1, 2]
    assert fragment.next_values is not None  # 1e6 slot + 1e4 episode + 100 step + memory + 0.5
    assert column(fragment.next_values, 0) == [101.5, 0, 1e4 + 101.5]
    assert column(fragment.next_values, 1) == [1e6 + 101.5, 1e6 + 1e4 + 101.5, 1e6 + 1e4 + 203.5]
    assert fragment.tail_state["sum"].tolist() == [1, 3] and fragment.state["sum"].tolist() == [0, 0]
    assert fragment.state_at([2, 1], [0, 1])["sum"].tolist() == [0, 0], "kept where episodes begin"
    counters = collector.counters
    assert (counters.calls, counters.rows, counters.valid) == (6, 6, 6)
    assert (counters.terminated, counters.truncated) == (1, 1)


def test_a_reset_row_of_one_slot_stands_beside_steps_of_another() -> None:
    vec = ordered([[(1, "both")], LONG], [[0], [0], [1], [1], [0], [1]], "next_step")
    collector = Collector(vec, zeros, fragment_length=3, min_slots=1)
    fragment = collector.collect()
    assert column(fragment.kind, 0) == [TERM, RESET, TERM] and column(fragment.kind, 1) == [STEP, STEP, STEP]
    assert column(fragment.observations, 0) == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert column(fragment.episode_id, 0) == [0, -1, 2] and column(fragment.episode_id, 1) == [1, 1, 1]
    assert (collector.counters.valid, collector.counters.reset_only, collector.counters.rows) == (5, 1, 6)


def test_a_slot_that_has_ended_is_reset_while_others_are_under_way() -> None:
    vec = ordered([LONG, [(1, "truncated"), *LONG]], [[1], [1], [0], [0]], "disabled")
    fragment = Collector(vec, zeros, fragment_length=2, min_slots=1).collect()
    assert column(fragment.kind, 1) == [TRUNC, STEP] and column(fragment.kind, 0) == [STEP, STEP]
    assert column(fragment.observations, 1) == [[1, 0, 0], [1, 1, 0]]
    assert column(fragment.next_observations(), 1) == [[1, 0, 1], [1, 1, 1]]
    assert column(fragment.observations, 0) == [[0, 0, 0], [0, 0, 1]]


def test_a_reset_in_between_finds_each_slot_in_its_own_row() -> None:
    # when the fourth decision fails, slot 0 has two rows and its third is under way; slot 1 has one
    vec = ordered([LONG, LONG], [[0], [0], [1], [0], [1], [0], [1]])
    collector = Collector(vec, Watching(fails_at=3), fragment_length=3, values=True, state_stride=1, min_slots=1)
    with pytest.raises(RuntimeError, match="not now"):
        collector.collect()
    assert vec.outstanding.tolist() == [True, False]
    collector.reset()
    fragment = collector.collect()
    assert column(fragment.observations, 0) == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert column(fragment.observations, 1) == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert column(fragment.next_observations(), 0) == [[0, 0, 1], [0, 0, 2], [0, 1, 1]]
    assert column(fragment.next_observations(), 1) == [[1, 0, 1], [1, 1, 1], [1, 1, 2]]
    assert column(fragment.cut, 0) == [False, True, True] and column(fragment.cut, 1) == [True, False, True]
    assert column(fragment.episode_id, 0) == [0, 0, 2] and column(fragment.episode_id, 1) == [1, 3, 3]
    assert fragment.next_values is not None
    assert column(fragment.next_values, 0) == [101.5, 203.5, 1e4 + 101.5], "valued with the memory from before"
    assert fragment.state_at([2, 1, 2], [0, 1, 1])["sum"].tolist() == [0, 0, 1]
    counters = collector.counters
    assert (counters.rows, counters.valid, counters.failed_rows) == (6, 6, 1), "the row under way was dropped"


class Tagged:
    """Remembers the last observation, whole, and acts on none that does not follow it."""

    def initial_state(self, num_slots: int) -> Any:
        return {"last": np.full((num_slots, 3), -1)}  # whole numbers: narrower than what follows

    def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
        last = state["last"]
        assert np.array_equal(episode_start, observations[:, 2] == 0)
        assert (last[episode_start] == -1).all(), "a memory that is not fresh"
        assert np.array_equal(last[~episode_start] + [0, 0, 1], observations[~episode_start]), "another slot's memory"
        return Decision(act(observations), {"last": observations.copy()}, {"last": last.astype(np.float64)})


def check_tags(fragment: Fragment) -> None:
    for t, slot in np.argwhere(fragment.valid).tolist():
        slot_of, episode, step = fragment.observations[t, slot].tolist()
        expected = [slot_of, episode, step - 1] if step else [-1, -1, -1]
        assert slot_of == slot and fragment.extras["last"][t, slot].tolist() == expected
        assert fragment.state_at([t], [slot])["last"].tolist() == [expected]


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=25)
@given(lengths=st.lists(st.integers(1, 5), min_size=4, max_size=4), seed=st.integers(0, 999), rows=st.integers(1, 6))
def test_the_memory_of_each_slot_goes_with_it(mode: str, lengths: list[int], seed: int, rows: int) -> None:
    vec = scripted("shuffled", [[(length, "truncated")] for length in lengths], mode)
    assert isinstance(vec, ShuffledVecEnv)
    vec.shuffle = np.random.default_rng(seed)
    collector = Collector(vec, Tagged(), fragment_length=rows, state_stride=1, min_slots=1 + seed % 4)
    for _ in range(3):
        fragment = collector.collect()
        check_tags(fragment)
        last = fragment.observations[-1]
        assert fragment.tail_state["last"][~fragment.tail_start].tolist() == last[~fragment.tail_start].tolist()


def test_states_of_another_library_take_the_dtype_of_what_follows() -> None:
    torch = pytest.importorskip("torch")

    class Halves:
        def initial_state(self, num_slots: int) -> Any:
            return torch.zeros(num_slots, dtype=torch.int64)

        def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
            return Decision(zeros(observations), (state + 0.5).requires_grad_(), {"before": state.float()})

    vec = ordered([LONG, LONG], [[0], [1], [1], [0], [0], [1]])
    fragment = Collector(vec, Halves(), fragment_length=3, state_stride=1, min_slots=1).collect()
    assert fragment.extras["before"].tolist() == [[0, 0], [0.5, 0.5], [1, 1]]
    assert fragment.tail_state.tolist() == [1.5, 1.5] and not fragment.tail_state.requires_grad
    assert fragment.state_at([0, 1, 2], [1, 1, 1]).tolist() == [0, 0.5, 1]


@pytest.mark.parametrize("mode", MODES)
def test_spaces_of_every_structure(mode: str) -> None:
    def policy(observations: Any) -> Any:
        return [{"go": len(name), "far": (np.array([0, 0.5], np.float32),)} for name in observations["name"]]

    vec = ShuffledVecEnv([Structured] * 3, autoreset=mode)
    fragment = Collector(vec, policy, fragment_length=5, infos=["when"], min_slots=1).collect()
    for slot in range(3):
        rows = fragment.valid[:, slot]
        steps = fragment.observations["pair"][0][rows, slot]
        assert steps.tolist()[:4] == [0, 1, 0, 1]
        assert fragment.actions["go"][rows, slot].tolist() == (steps + 1).tolist()
        assert fragment.observations["name"][rows, slot].tolist() == ["n" * (t + 1) for t in steps]
        successors = fragment.next_observations()
        assert successors["pair"][0][rows, slot].tolist() == (steps + 1).tolist()
        assert successors["name"][rows, slot].tolist() == ["n" * (t + 2) for t in steps]
        assert fragment.infos["when"][rows, slot].tolist() == (np.datetime64("2020-01-01") + steps + 1).tolist()


class Patient(CodedEnv):
    """The first step of slot 1 lasts until slot 0 has made all of its own; further ones take a while."""

    done = asyncio.Event()
    nap = 0.01

    async def async_step(self, action: Any) -> sekai.StepResult:
        result = self.step(action)
        if self.slot == 0 and self.t == 6:
            self.done.set()
        if self.slot == 1:
            await asyncio.wait_for(self.done.wait(), 60)
            await asyncio.sleep(self.nap)
        return result


def test_a_slow_slot_holds_up_nobody_and_waiting_for_it_is_counted() -> None:
    Patient.done = asyncio.Event()
    with sekai.AsyncVecEnv([lambda slot=slot: Patient(slot, 9) for slot in range(2)]) as vec:  # type: ignore[misc]
        policy = Watching()
        collector = Collector(vec, policy, fragment_length=6, values=True, min_slots=1)
        begun = time.perf_counter()
        fragment = collector.collect()
        elapsed = time.perf_counter() - begun
    assert policy.acted[:7] == [[(0, 0), (1, 0)], *([(0, step)] for step in range(1, 6)), [(1, 1)]]
    counters = collector.counters
    # while slot 0 stood full, slot 1 made five whole steps, and most of its first
    assert 5 * Patient.nap <= counters.waiting_seconds <= elapsed
    assert counters.waiting_seconds + counters.environment_seconds + counters.policy_seconds <= elapsed
    assert fragment.observations[:, 0, 2].tolist() == fragment.observations[:, 1, 2].tolist() == list(range(6))
    assert fragment.rewards[:, 1].tolist() == [10.0 * (t + 1) + (3 + 7 * t) % 10 for t in range(6)]
    assert fragment.values is not None
    assert fragment.values[:, 1].tolist() == [1e6 + 100 * t + t * (t + 1) / 2 + 0.5 for t in range(6)]


def test_slots_that_are_all_awaited_do_not_count_as_waiting() -> None:
    vec = sekai.SyncVecEnv([lambda slot=slot: CodedEnv(slot, 3) for slot in range(3)])  # type: ignore[misc]
    collector = Collector(vec, zeros, fragment_length=4, min_slots=3)
    collector.collect()
    counters = collector.counters
    assert (
        counters.waiting_seconds == 0
        and counters.environment_seconds > 0
        and (counters.calls, counters.rows) == (4, 12)
    )


def test_a_missing_info_and_a_bad_action_are_those_of_the_slot() -> None:
    vec = ordered([LONG, LONG, LONG], [[2]])
    with pytest.raises(LookupError, match=re.escape("infos[2] has no 'x', which the collector was told to keep")):
        Collector(vec, zeros, fragment_length=2, infos=["x"], min_slots=1).collect()
    assert vec.lost_rows.tolist() == [False, False, True]

    calls = iter([[0, 0, 0], ["left"]])
    vec = ordered([LONG, LONG, LONG], [[2]])
    collector = Collector(vec, lambda observations: next(calls), fragment_length=2, min_slots=1)
    with pytest.raises(sekai.InvalidAction, match="sub-env 2"):
        collector.collect()
    assert not vec.lost_rows.any() and vec.outstanding.tolist() == [True, True, False], "nothing has moved"


NATIVE = re.escape("CodedVecEnv(num_envs=2) steps all its sub-envs together: call step(), or use SyncVecEnv")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: CodedVecEnv(2), f"slots cannot advance on their own; leave it out, or: {NATIVE}"),
        (
            lambda: VecNormalizeReward(scripted("sync", [LONG, LONG], "same_step")),
            "VecNormalizeReward needs the rows of all slots at once: call step",
        ),
        (
            lambda: gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")]),
            "a vector environment of gymnasium, steps all its sub-envs together: leave min_slots out",
        ),
    ],
)
def test_who_steps_all_slots_together_is_refused(make: Any, text: str) -> None:
    vec = make()
    with pytest.raises(ValueError, match=f"min_slots was given, and .*{text}"):
        Collector(vec, zeros, fragment_length=2, min_slots=1)
    Collector(vec, zeros, fragment_length=2)


def test_native_shards_are_refused() -> None:
    with sekai.ProcVecEnv(NativeShards(CodedVecEnv, 2), num_workers=1) as vec:
        with pytest.raises(ValueError, match="native shards, which step all their sub-envs together"):
            Collector(vec, zeros, fragment_length=2, min_slots=1)
        assert Collector(vec, zeros, fragment_length=2).collect().valid.all()


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"min_slots": 0}, "min_slots is 0; expected an int of at least 1"),
        ({"min_slots": 3}, "min_slots is 3; expected 1 to 2, the number of slots"),
        ({"min_slots": 1, "restart": "all"}, "slots that advance on their own do not wait until all have ended"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(kwargs: Any, text: str) -> None:
    vec = scripted("sync", [LONG, LONG], "disabled")
    with pytest.raises(ValueError, match=re.escape(text)):
        Collector(vec, zeros, fragment_length=2, **kwargs)


@pytest.mark.parametrize("mode", MODES)
def test_a_wrapper_that_knows_slots_goes_along(mode: str) -> None:
    vec = VecFrameStackObservation(scripted("shuffled", [[(2, "truncated"), (3, "both")], LONG], mode), 2)
    fragment = Collector(vec, lambda frames: act(frames[:, -1]), fragment_length=9, min_slots=1).collect()
    successors = fragment.next_observations()
    assert fragment.valid.sum() > 14
    for t, slot in np.argwhere(fragment.valid).tolist():
        before, now = fragment.observations[t, slot].tolist()
        assert now[0] == slot and (before == [*now[:2], now[2] - 1] or now[2] == 0)
        assert successors[t, slot].tolist() == [now, [*now[:2], now[2] + 1]]
        assert fragment.actions[t, slot] == action_on(now)
