"""Vector wrappers under `send` and `recv`: those that handle some slots say of each what they say under `step`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from sekai.vector import wrappers as vector_wrappers
from tests.contract.envs import BOOM, MODES, Coded, build, build_from, factory
from tests.vector.test_overlapping import per_slot

LOST = RowKind.LOST
LENGTHS, ENDINGS = (2, 3, 4), ("terminated", "truncated", "both")


class Pushed(sekai.Env):
    """Adds its action, a number, to its observation; episodes of `length` steps."""

    observation_space = sekai.Box(-1e6, 1e6, (2,), np.float64)
    action_space = sekai.Box(-2.0, 2.0, (1,), np.float64)

    def __init__(self, slot: int, length: int) -> None:
        self.slot, self.length = slot, length

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self._set_rng(seed)
        self.t, self.x = 0, float(self.slot)
        return sekai.ResetResult(np.array([self.slot, self.x]), {})

    def step(self, action: Any) -> Any:
        self.t += 1
        self.x += float(action[0])
        return sekai.StepResult(np.array([self.slot, self.x]), self.x, self.t >= self.length, False, {})


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "transform": lambda vec: sekai.VecTransformObservation(vec, lambda batch: batch * 2.0 + 1.0),
    "flatten": sekai.VecFlattenObservation,
    "transform reward": lambda vec: sekai.VecTransformReward(vec, lambda rewards: rewards - 0.5),
    "clip reward": lambda vec: sekai.VecClipReward(vec, -50.0, 150.0),
    "stack": lambda vec: sekai.VecFrameStackObservation(vec, 3),
    "stack zeros": lambda vec: sekai.VecFrameStackObservation(vec, 2, padding="zeros"),
    "delay": lambda vec: sekai.VecDelayObservation(vec, 1),
    "time": lambda vec: sekai.VecTimeAwareObservation(vec, 9),
    "statistics": sekai.VecRecordEpisodeStatistics,
    "two": lambda vec: sekai.VecClipReward(
        sekai.VecFrameStackObservation(sekai.VecFlattenObservation(vec), 2), 0.0, 9.0
    ),
}
REFUSE: dict[str, Callable[[Any], Any]] = {
    "VecNormalizeObservation": sekai.VecNormalizeObservation,
    "VecNormalizeReward": sekai.VecNormalizeReward,
    "VecDelayAction": lambda vec: sekai.VecDelayAction(vec, 1, noop=0),
    "VecActionMaskObservation": sekai.VecActionMaskObservation,
    "VecWrapper": sekai.VecWrapper,
}


def plain(said: list[list[Any]]) -> list[list[Any]]:
    """Without the infos, in which times are measured, but for lengths and returns of episodes."""
    return [[row[:-1] for row in rows] for rows in said]


def by_step(make: Callable[[], Any], actions: Any, rows: int) -> tuple[list[list[Any]], Any]:
    with make() as vec:
        vec.reset(seed=5)
        n = vec.num_envs
        return per_slot([(range(n), vec.step([actions(slot, t) for slot in range(n)])) for t in range(rows)], n), vec


def by_recv(make: Callable[[], Any], actions: Any, rows: int, seed: int) -> tuple[list[list[Any]], Any]:
    """The same, in an order drawn at random."""
    rng = np.random.default_rng(seed)
    with make() as vec:
        vec.reset(seed=5)
        n = vec.num_envs
        sent, results = np.zeros(n, int), []
        while (sent < rows).any():
            some = np.flatnonzero((sent < rows) & (rng.random(n) < 0.5))
            vec.send([actions(slot, sent[slot]) for slot in some.tolist()], some)
            sent[some] += 1
            if len(some):
                results.append(vec.recv(min_slots=len(some)))
        return per_slot(results, n), vec


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("backend", ["sync", "async"])
def test_a_wrapper_says_of_each_slot_what_it_says_under_step(backend: str, name: str, mode: str) -> None:
    def make(backend: str = backend) -> Any:
        return WRAPPERS[name](build(backend, mode, LENGTHS, ENDINGS))

    def actions(slot: int, t: int) -> int:
        return int(slot + t) % 5

    expected, one = by_step(lambda: make("sync"), actions, 14)
    given, other = by_recv(make, actions, 14, seed=3)
    assert plain(given) == plain(expected)
    if name == "statistics":
        episodes = [
            sorted((e.extra["env_index"], e.episode_return, e.episode_length) for e in vec.tracker.episodes)
            for vec in (one, other)
        ]
        assert episodes[0] == episodes[1] and len(episodes[0]) >= 3


@pytest.mark.parametrize("name", ["clip", "rescale"])
def test_actions_of_some_slots_are_transformed_as_those_of_all(name: str) -> None:
    wrap = {"clip": sekai.VecClipAction, "rescale": lambda vec: sekai.VecRescaleAction(vec, -1.0, 1.0)}[name]

    def make() -> Any:
        return wrap(build_from([factory(Pushed, slot, 3 + slot) for slot in range(3)], "sync"))

    def actions(slot: int, t: int) -> Any:
        return np.array([0.9 * slot - 0.4 * t])

    expected, _ = by_step(make, actions, 10)
    assert by_recv(make, actions, 10, seed=1)[0] == expected
    with make() as vec:
        vec.reset(seed=0)
        with pytest.raises(sekai.InvalidAction, match=r"^The action of sub-env 2 is \[nan\]"):
            vec.send([[0.0], [np.nan]], [1, 2])
        with pytest.raises(ValueError, match=r"^There are no sub-envs \[7\]"):
            vec.send([[0.0]], [7])
        assert not vec.outstanding.any()


@pytest.mark.parametrize("name", REFUSE)
def test_the_others_refuse_and_move_nothing(name: str) -> None:
    class Masked(Coded):
        def _emit(self) -> Any:
            observation, info = super()._emit()
            return observation, {**info, "action_mask": np.ones(10, np.int8)}

    inner = build_from([factory(Masked, slot, 9) for slot in range(2)], "sync")
    with REFUSE[name](inner) as vec:
        vec.reset(seed=0)
        for call in (lambda: vec.send([0], [0]), vec.recv):
            with pytest.raises(NotImplementedError, match=rf"^{name} needs the rows of all slots at once"):
                call()
        assert vec.get_attr("t") == [0, 0] and not vec.outstanding.any()
        inner.send([0], [0])
        assert vec.outstanding.tolist() == [True, False], "it is told what the inner one knows"


def test_every_vector_wrapper_is_in_one_of_the_lists() -> None:
    able = {name for name in vector_wrappers.__all__ if getattr(vector_wrappers, name).by_slots}
    used = {layer for make in WRAPPERS.values() for layer in make(build("sync", "same_step", LENGTHS)).layers()}
    used |= {"VecClipAction", "VecRescaleAction", "VecFilterObservation"}
    assert able == used - {"SyncVecEnv", "Coded"}
    assert set(vector_wrappers.__all__) - able == REFUSE.keys() - {"VecWrapper"}


def test_a_class_that_does_not_say_so_itself_refuses() -> None:
    class Mine(sekai.VecClipReward):
        def after_step(self, result: Any) -> Any:
            return result

    with Mine(build("sync", "same_step", LENGTHS), 0.0, 1.0) as vec:
        vec.reset(seed=0)
        with pytest.raises(NotImplementedError, match=r"^Mine needs the rows of all slots at once"):
            vec.send([0], [0])


def test_a_hook_that_fails_loses_the_rows_that_it_was_given() -> None:
    fails = [True]

    def halve(rewards: Any) -> Any:
        if fails[0]:
            raise RuntimeError("not today")
        return rewards / 2

    with sekai.VecTransformReward(build("sync", "same_step", (9, 9, 9)), halve) as vec:
        vec.reset(seed=0)
        vec.send([0, 0], [0, 2])
        with pytest.raises(RuntimeError, match="not today"):
            vec.recv()
        assert vec.lost_rows.tolist() == [True, False, True] and not vec.outstanding.any()
        fails[0] = False
        vec.send([0, 0], [1, 2])
        slots, result = vec.recv()
        assert dict(zip(slots.tolist(), result.kind.tolist(), strict=True)) == {1: 0, 2: LOST}


def test_after_a_lost_row_memory_begins_anew_for_that_slot_only() -> None:
    with sekai.VecFrameStackObservation(build("sync", "same_step", (99, 99, 99)), 2) as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        vec.send([BOOM], [2])
        with pytest.raises(ValueError, match="went boom"):
            vec.recv()
        vec.send([0, 0], [2, 1])
        _, result = vec.recv(min_slots=2)
        assert result.kind.tolist() == [LOST, 0]
        assert result.observations[:, :, 2].tolist() == [[2.0, 2.0], [1.0, 2.0]]


def test_a_frozen_row_seen_under_step_is_shown_the_same_under_recv_and_forgotten_with_the_episode() -> None:
    # the transform counts its calls, so that a row that is transformed again is seen
    calls = [0]

    def stamped(batch: Any) -> Any:
        calls[0] += 1
        return batch + 1000.0 * calls[0]

    with sekai.VecTransformObservation(build("sync", "disabled", (1, 9)), stamped) as vec:
        vec.reset(seed=0)
        frozen = vec.step([0, 0]).observations[0]
        vec.send([0], [0])
        assert np.array_equal(vec.recv()[1].observations[0], frozen)
        assert np.array_equal(vec.step([0, 0]).observations[0], frozen)
        vec.reset(mask=np.array([True, False]))
        vec.send([0], [0])
        ended = vec.recv()[1].observations[0]
        assert not np.array_equal(ended, frozen) and np.array_equal(vec.step([0, 0]).observations[0], ended)


def test_an_episode_with_a_lost_row_is_not_recorded() -> None:
    with sekai.VecRecordEpisodeStatistics(build("sync", "same_step", (3, 2))) as vec:
        vec.reset(seed=0)
        vec.send([BOOM, 0], [0, 1])
        with pytest.raises(ValueError, match="went boom"):
            vec.recv()
        recorded = []
        vec.recv()
        for _ in range(4):
            vec.send([0, 0], [0, 1])
            slots, result = vec.recv(min_slots=2)
            recorded += [
                (int(s), i["episode"].episode_length)
                for s, i in zip(slots, result.infos, strict=True)
                if "episode" in i
            ]
        # slot 0: the first episode lost a row, and so did the statistics of it; slot 1 has episodes of two steps
        assert recorded == [(1, 2), (1, 2)]
