"""Statistics of episodes: each once, in every mode, and never of one that was not wholly seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sekai
from sekai import EpisodeStats, InMemoryTracker, RowKind
from sekai.testing import CodedVecEnv
from tests.contract.envs import BACKENDS, BOOM, MODES, build


def recorded(result: Any) -> list[tuple[int, float, int, bool, bool]]:
    """`(slot, return, length, terminated, truncated)` of the episodes this call reports."""
    return [
        (slot, s.episode_return, s.episode_length, s.terminated, s.truncated)
        for slot, info in enumerate(result.infos)
        for s in [info.get("episode")]
        if s is not None
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_each_episode_is_reported_once_with_its_own_return_and_length(backend: str, mode: str) -> None:
    # U65. Slot 0: 10 + 20 = 30 in 2 steps; slot 1: 110 + 120 + 130 = 360 in 3, each + 1 a step for action 1.
    with sekai.VecRecordEpisodeStatistics(build(backend, mode, (2, 3), ("terminated", "truncated"))) as vec:
        vec.reset(seed=0)
        calls = [recorded(vec.step([1, 1])) for _ in range(8)]
    short, long = (0, 32.0, 2, True, False), (1, 363.0, 3, False, True)
    assert (
        calls
        == {
            "same_step": [[], [short], [long], [short], [], [short, long], [], [short]],
            # cycles of 3 and 4 calls
            "next_step": [[], [short], [long], [], [short], [], [long], [short]],
            "disabled": [[], [short], [long], [], [], [], [], []],
        }[mode]
    )


def test_the_tracker_hears_of_every_episode_and_keeps_the_latest() -> None:
    heard: list[EpisodeStats] = []

    class Ear(InMemoryTracker):
        def on_episode_end(self, stats: EpisodeStats) -> None:
            heard.append(stats)
            super().on_episode_end(stats)

    with sekai.VecRecordEpisodeStatistics(build("sync", "same_step", (1, 2)), Ear(3)) as vec:
        vec.reset(seed=0)
        for _ in range(4):
            vec.step([0, 0])
    assert [stats.extra["env_index"] for stats in heard] == [0, 0, 1, 0, 0, 1]
    assert all(stats.elapsed_time >= 0 for stats in heard)
    with sekai.VecRecordEpisodeStatistics(build("sync", "same_step", (1, 2)), deque_size=2) as vec:
        assert isinstance(vec.tracker, InMemoryTracker)


@pytest.mark.parametrize("mode", MODES)
def test_an_episode_of_which_a_row_was_lost_is_not_reported_and_the_next_one_is(mode: str) -> None:
    with sekai.VecRecordEpisodeStatistics(build("sync", mode, (3, 4))) as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        with pytest.raises(ValueError, match="slot 1 went boom"):
            vec.step([0, BOOM])  # slot 0 takes its second step unseen
        reports = [recorded(vec.step([0, 0])) for _ in range(9)]
        flat = [entry[:3] for call in reports for entry in call]
        # slot 0: 10 + 20 + 30 = 60; slot 1: 110 + 120 + 130 + 140 = 500. Of the broken episodes nothing: 10 + 30, say
        assert {entry for entry in flat if entry[0] == 0} == ({(0, 60.0, 3)} if mode != "disabled" else set())
        assert {entry for entry in flat if entry[0] == 1} == ({(1, 500.0, 4)} if mode != "disabled" else set())
        if mode == "disabled":
            vec.reset()
            assert [recorded(vec.step([0, 0]))[:] for _ in range(3)][-1] == [(0, 60.0, 3, True, False)]


def test_the_clock_of_an_episode_starts_at_its_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("sekai.vector.wrappers.episodes.time.perf_counter", lambda: now[0])
    with sekai.VecRecordEpisodeStatistics(build("sync", "next_step", (1,))) as vec:
        elapsed = []
        for begun, ended in ((10.0, 12.0), (100.0, 105.0)):
            now[0] = begun
            if begun == 10.0:
                vec.reset(seed=0)
            else:
                vec.step([0])  # the reset-only call; the wait before it belongs to no episode
            now[0] = ended
            elapsed.append(vec.step([0]).infos[0]["episode"].elapsed_time)
    assert elapsed == [2.0, 5.0]


def test_a_reset_forgets_the_unfinished_episodes_of_its_slots_only() -> None:
    with sekai.VecRecordEpisodeStatistics(build("sync", "disabled", (3, 3))) as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        vec.reset(mask=np.array([True, False]))
        reports = [recorded(vec.step([0, 0])) for _ in range(3)]
    assert reports == [[], [(1, 360.0, 3, True, False)], [(0, 60.0, 3, True, False)]]


def test_a_refused_reset_forgets_nothing() -> None:
    with sekai.VecRecordEpisodeStatistics(build("sync", "same_step", (3, 3))) as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        for refused in ({"seed": -1}, {"mask": [True]}, {"options": {"reset_mask": 1}}):
            with pytest.raises(ValueError):
                vec.reset(**refused)
        vec.step([0, 0])
        assert recorded(vec.step([0, 0])) == [(0, 60.0, 3, True, False), (1, 360.0, 3, True, False)]


def test_after_a_failed_reset_only_episodes_seen_from_their_start_are_reported() -> None:
    with sekai.VecRecordEpisodeStatistics(build("sync", "same_step", (2, 2))) as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        with pytest.raises(ValueError, match="slot 1 cannot reset"):
            vec.reset(options=[None, {"fail": True}])
        vec.reset(mask=np.array([False, True]))
        vec.step([0, 0])
        assert recorded(vec.step([0, 0])) == [(1, 230.0, 2, True, False)], "slot 0 began unseen"
        vec.step([0, 0])
        assert [entry[0] for entry in recorded(vec.step([0, 0]))] == [0, 1]


def test_statistics_outside_a_reward_wrapper_sum_what_it_returns() -> None:
    inner = sekai.VecTransformReward(build("sync", "next_step", (2,)), lambda rewards: rewards * 0 + 7.0)
    with sekai.VecRecordEpisodeStatistics(inner) as vec:
        vec.reset(seed=0)
        calls = [recorded(vec.step([0])) for _ in range(5)]
    assert [call[0][1] for call in calls if call] == [14.0, 14.0], "7 a step; the reset-only row counts for nothing"


@pytest.mark.parametrize("backend", ["sync", "native"])
def test_a_transform_that_raises_loses_the_rows_and_the_episode_is_not_recorded(backend: str) -> None:
    calls: list[int] = []

    def fails_once(rewards: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("once")
        return rewards

    inner = sekai.VecRecordEpisodeStatistics(build(backend, "same_step", (3, 3)))
    with sekai.VecTransformReward(inner, fails_once) as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        with pytest.raises(RuntimeError, match="once"):
            vec.step([0, 0])
        assert vec.lost_rows.all()
        ended = vec.step([0, 0])
        assert ended.kind.tolist() == [RowKind.LOST] * 2 and ended.ended.all()
        assert len(inner.tracker) == 0
        for _ in range(3):
            vec.step([0, 0])
        assert [stats.episode_length for stats in inner.tracker.episodes] == [3, 3], "the next ones are whole"


def test_a_tracker_that_raises_does_not_reach_the_next_episodes() -> None:
    class Full(InMemoryTracker):
        def on_episode_end(self, stats: EpisodeStats) -> None:
            if not tried:
                tried.append(1)
                raise OSError("disk full")
            super().on_episode_end(stats)

    tried: list[int] = []
    with sekai.VecRecordEpisodeStatistics(build("sync", "same_step", (2,)), Full()) as vec:
        vec.reset(seed=0)
        vec.step([0])
        with pytest.raises(OSError, match="disk full"):
            vec.step([0])
        for _ in range(4):
            vec.step([0])
        # the first row after the error is lost, and its episode with it; the one after that is 10 + 20
        assert [(stats.episode_length, stats.episode_return) for stats in vec.tracker.episodes] == [(2, 30.0)]


def test_native_masks_come_from_the_method_and_are_read_again_after_a_failed_step() -> None:
    class Asks(CodedVecEnv):
        fails = False

        def action_mask(self) -> Any:
            return (np.arange(10) != self.t[:, None]).astype(np.int8)

        def _step(self, actions: Any) -> Any:
            result = super()._step(actions)
            if self.fails:
                raise RuntimeError("moved, and failed")
            return result

    with sekai.VecActionMaskObservation(Asks(2, 9)) as vec:
        first = vec.reset(seed=0).observations
        assert first["action_mask"].shape == (2, 10) and first["action_mask"][:, 0].tolist() == [0, 0]
        vec.unwrapped.fails = True
        with pytest.raises(RuntimeError):
            vec.step([0, 0])
        vec.unwrapped.fails = False
        shown = vec.reset(mask=np.array([True, False])).observations
        # slot 0 is at step 0 again; slot 1 has moved on to step 1 unseen
        assert np.argmin(shown["action_mask"], axis=1).tolist() == shown["observation"][:, 2].tolist() == [0, 1]


def test_the_sums_of_the_episodes_under_way_are_state() -> None:
    made = [
        sekai.VecRecordEpisodeStatistics(sekai.testing.CodedVecEnv(2, 3, autoreset="disabled"), gamma=0.5)
        for _ in range(2)
    ]
    for vec in made:
        vec.reset(seed=0)
    rewards = [made[0].step([k, k + 1]).rewards for k in range(2)]
    state = made[0].state_dict()
    made[1].step([5, 5])
    made[1].step([5, 5])
    made[1].load_state_dict(state)
    rewards.append(made[0].step([3, 4]).rewards)
    stats = [info["episode"] for info in made[1].step([3, 4]).infos]
    expected = np.array(rewards)
    assert [one.episode_return for one in stats] == expected.sum(0).tolist()
    assert [one.discounted_return for one in stats] == (expected * [[1.0], [0.5], [0.25]]).sum(0).tolist()
    assert [one.episode_length for one in stats] == [3, 3]
    broken = {**state, "broken": np.array([True, False])}
    for vec in made:
        vec.reset(seed=0)
    made[1].load_state_dict(broken)
    ends = made[1].step([0, 0]).infos
    assert "episode" not in ends[0]
    with pytest.raises(ValueError, match="shape"):
        made[1].load_state_dict({**state, "return": np.zeros(3)})


def test_sums_of_another_discount_are_refused_in_whichever_slot() -> None:
    vec = sekai.VecRecordEpisodeStatistics(CodedVecEnv(2, 9), gamma=0.5)
    vec.reset(seed=0)
    vec.step([0, 0])
    state = vec.state_dict()
    with pytest.raises(ValueError, match=r"'discount' of the state is \[0\.5, 1\.0\] after \[1, 1\] steps"):
        vec.load_state_dict({**state, "discount": np.array([0.5, 1.0])})
    vec.load_state_dict(state)
