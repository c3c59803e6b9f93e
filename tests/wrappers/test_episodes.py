"""`RecordEpisodeStatistics`: returns and lengths, and what a tracker hears."""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.testing import CodedEnv
from tests.core.envs import Awaited, Plain, play

BOTH_WAYS = pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])


def known(stats: sekai.EpisodeStats) -> tuple[float, int, bool, bool, float | None]:
    """All of it but the time."""
    assert stats.elapsed_time >= 0.0
    assert stats.extra == {"env_index": 0}
    return (
        stats.episode_return, stats.episode_length, stats.terminated, stats.truncated, stats.discounted_return,
    )  # fmt: skip


class Lengths(CodedEnv):
    """Episodes of 3, 4, 3, 4, ... steps."""

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self.length = 4 if self.episode % 2 == 0 else 3
        return super().reset(seed=seed, options=options)


@BOTH_WAYS
@pytest.mark.parametrize("where", ["alone", "AutoReset inside", "AutoReset outside"])
def test_each_episode_has_its_own_return_and_length(where: str, awaited: bool) -> None:
    base = Lengths()
    env: Any = sekai.RecordEpisodeStatistics(sekai.AutoReset(base) if where == "AutoReset inside" else base, gamma=0.5)
    run = sekai.AutoReset(env) if where == "AutoReset outside" else env
    results = play(run, [1, 2, 3, 1, 1, 1, 5, 0], awaited=awaited)
    stepped = [result for result in results if isinstance(result, sekai.StepResult)]
    assert ["episode" in result.info for result in stepped] == [False] * 2 + [True] + [False] * 3 + [True, False]
    # rewards 11, 22, 33: 66 in all, discounted 11 + 22 / 2 + 33 / 4 = 30.25
    # and     11, 21, 31, 45: 108 in all, discounted 11 + 21 / 2 + 31 / 4 + 45 / 8 = 34.875
    first, second = (66.0, 3, True, False, 30.25), (108.0, 4, True, False, 34.875)
    assert [known(stepped[k].info["episode"]) for k in (2, 6)] == [first, second]
    assert [known(stats) for stats in env.tracker.episodes] == [first, second]
    assert [result.reward for result in stepped] == [11, 22, 33, 11, 21, 31, 45, 10], "rewards stay as they are"


@pytest.mark.parametrize(
    ("ending", "flags"), [("terminated", (True, False)), ("truncated", (False, True)), ("both", (True, True))]
)
def test_both_flags_are_recorded(ending: Any, flags: tuple[bool, bool]) -> None:
    env = sekai.RecordEpisodeStatistics(CodedEnv(length=1, ending=ending))
    stats = play(env, [1], awaited=False)[1].info["episode"]
    assert known(stats) == (11.0, 1, *flags, None)
    assert [type(flag) for flag in (stats.terminated, stats.truncated)] == [bool, bool]


def test_environments_with_numbers_of_numpy_give_plain_ones_too() -> None:
    class Numpy(Plain):
        def step(self, action: Any) -> Any:
            observation, reward, *rest = super().step(action)
            return observation, np.float32(reward), *rest

    stats = play(sekai.RecordEpisodeStatistics(Numpy(), gamma=0.0), [0, 0], awaited=False)[2].info["episode"]
    assert known(stats) == (6.0, 2, True, False, 3.0)  # 3 + 3; at gamma 0 the first reward alone
    kinds = [type(value) for value in known(stats)]
    assert kinds == [float, int, bool, bool, float]


def test_a_reset_by_hand_forgets_the_unfinished_episode() -> None:
    env = sekai.RecordEpisodeStatistics(CodedEnv(length=2), gamma=0.5)
    env.reset()
    env.step(9)
    results = play(env, [1, 1], awaited=False)
    assert known(results[2].info["episode"]) == (32.0, 2, True, False, 21.5)  # 11 + 21 / 2
    assert len(env.tracker.episodes) == 1


def test_the_statistics_are_put_into_a_copy_of_the_info() -> None:
    base = CodedEnv(length=1)
    play(sekai.RecordEpisodeStatistics(base), [0], awaited=False)
    assert base._info == {"t": 1}


def test_a_time_limit_outside_is_not_seen_and_one_inside_is() -> None:
    outside = sekai.TimeLimit(sekai.RecordEpisodeStatistics(CodedEnv(length=9)), 2)
    assert "episode" not in play(outside, [0, 0], awaited=False)[2].info
    inside = sekai.RecordEpisodeStatistics(sekai.TimeLimit(CodedEnv(length=9), 2))
    assert known(play(inside, [0, 0], awaited=False)[2].info["episode"]) == (30.0, 2, False, True, None)


class Hears(sekai.StatsTracker):
    """Writes down every call, without the infos."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __len__(self) -> int:
        return 0

    def on_reset(self, slot: int) -> None:
        self.calls.append(("reset", slot))

    def on_step(self, slot: int, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]) -> None:
        assert [type(one) for one in (slot, reward, terminated, truncated)] == [int, float, bool, bool]
        self.calls.append(("step", slot, reward, terminated, truncated, info["t"]))

    def on_episode_end(self, stats: sekai.EpisodeStats) -> None:
        self.calls.append(("end", *known(stats)))

    def summary(self) -> dict[str, float]:
        return {}


@BOTH_WAYS
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "AutoReset inside"])
def test_a_tracker_hears_of_the_step_then_of_the_end_then_of_the_next_beginning(inside: bool, awaited: bool) -> None:
    tracker = Hears()
    base = Awaited(length=2)
    play(sekai.RecordEpisodeStatistics(sekai.AutoReset(base) if inside else base, tracker), [1, 2, 3], awaited=awaited)
    assert tracker.calls == [
        ("reset", 0),
        ("step", 0, 11.0, False, False, 1),
        ("step", 0, 22.0, True, False, 2),
        ("end", 33.0, 2, True, False, None),
        ("reset", 0),
        ("step", 0, 13.0, False, False, 1),
    ]


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
@pytest.mark.parametrize("ending", ["terminated", "truncated", "both"])
def test_the_vector_recorder_calls_a_tracker_in_the_same_way(ending: Any, mode: str) -> None:
    actions = [1, 2, 3, 4, 5, 6, 7]
    single, several = Hears(), Hears()
    play(sekai.RecordEpisodeStatistics(CodedEnv(length=3, ending=ending), single, gamma=0.5), actions, awaited=False)
    venv = sekai.VecRecordEpisodeStatistics(
        sekai.SyncVecEnv([lambda: CodedEnv(length=3, ending=ending)], autoreset=mode), several, gamma=0.5
    )
    venv.reset(seed=0)
    for k, action in enumerate(actions):
        ended = venv.step([action]).ended[0]
        # the single one resets before the step that follows an end; in same_step mode this comes at once, as with
        # AutoReset
        if ended and k < len(actions) - 1:
            if mode == "next_step":
                venv.step([0])
            elif mode == "disabled":
                venv.reset()
    assert several.calls == single.calls
    assert sum(call[0] == "end" for call in single.calls) == 2
    venv.close()


def test_an_empty_tracker_is_kept_though_it_is_false() -> None:
    for tracker in (Hears(), sekai.InMemoryTracker()):
        assert not tracker
        env = sekai.RecordEpisodeStatistics(CodedEnv(length=1), tracker)
        assert env.tracker is tracker
    play(env, [0], awaited=False)
    assert len(env.tracker.episodes) == 1


def test_the_default_tracker_keeps_so_many_episodes() -> None:
    env = sekai.RecordEpisodeStatistics(CodedEnv(length=1), deque_size=2)
    play(env, [1, 2, 3], awaited=False)
    assert [stats.episode_return for stats in env.tracker.episodes] == [12.0, 13.0]
    assert env.tracker.episodes.maxlen == 2
    assert sekai.RecordEpisodeStatistics(CodedEnv()).tracker.episodes.maxlen == 100


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "AutoReset inside"])
def test_a_tracker_that_raises_leaves_nothing_in_the_next_episode(inside: bool) -> None:
    class Full(sekai.InMemoryTracker):
        full = True

        def on_episode_end(self, stats: sekai.EpisodeStats) -> None:
            if self.full:
                self.full = False
                raise OSError("no space left")
            super().on_episode_end(stats)

    base = CodedEnv(length=2)
    env = sekai.RecordEpisodeStatistics(sekai.AutoReset(base) if inside else base, Full(), gamma=0.5)
    env.reset()
    env.step(9)
    with pytest.raises(OSError, match="no space left"):
        env.step(9)
    if not inside:
        env.reset()
    env.step(1)
    assert known(env.step(1).info["episode"]) == (32.0, 2, True, False, 21.5)  # 11 + 21, 11 + 21 / 2


def test_a_thing_that_is_no_tracker_is_refused() -> None:
    text = "tracker is [] (list); expected a StatsTracker, such as InMemoryTracker()."
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        sekai.RecordEpisodeStatistics(CodedEnv(), [])  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.parametrize("gamma", [-0.1, 1.1, float("nan")])
def test_a_discount_out_of_range_is_refused(gamma: float) -> None:
    with pytest.raises(ValueError, match=rf"^gamma is {gamma}; expected a discount in \[0, 1\]\.$"):
        sekai.RecordEpisodeStatistics(CodedEnv(), gamma=gamma)
    with pytest.raises(ValueError, match="deque_size is 0"):
        sekai.RecordEpisodeStatistics(CodedEnv(), deque_size=0)


def test_a_tracker_that_raises_in_the_last_step_does_not_reach_the_next_episode() -> None:
    class Once(sekai.InMemoryTracker):
        raised = False

        def on_step(self, slot: int, reward: float, terminated: bool, truncated: bool, info: Any) -> None:
            if terminated and not self.raised:
                self.raised = True
                raise OSError("disk full")

    env = sekai.RecordEpisodeStatistics(sekai.AutoReset(CodedEnv(length=2)), Once())
    env.reset()
    env.step(0)
    with pytest.raises(OSError, match="disk full"):
        env.step(0)
    env.step(0)
    assert env.step(0).info["episode"].episode_return == 30.0  # 10 + 20, nothing of the first


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_trackers_are_shown_the_infos_of_the_environment(mode: str) -> None:
    class Keys(sekai.InMemoryTracker):
        def __init__(self) -> None:
            super().__init__()
            self.keys: list[list[str]] = []

        def on_step(self, slot: int, reward: float, terminated: bool, truncated: bool, info: Any) -> None:
            self.keys.append(sorted(key for key in info if key == "episode" or key == "t"))

    single, vector = sekai.RecordEpisodeStatistics(CodedEnv(length=2), Keys()), Keys()
    single.reset()
    single.step(0)
    single.step(0)
    with sekai.VecRecordEpisodeStatistics(
        sekai.SyncVecEnv([lambda: CodedEnv(length=2)], autoreset=mode), vector
    ) as vec:
        vec.reset(seed=0)
        vec.step([0])
        vec.step([0])
    assert single.tracker.keys == vector.keys == [["t"], ["t"]]


def test_sums_are_kept_in_double_precision_whatever_the_rewards_are() -> None:
    class Small(CodedEnv):
        def step(self, action: Any) -> sekai.StepResult:
            return super().step(action)._replace(reward=np.float16(1.0))

    env = sekai.RecordEpisodeStatistics(Small(length=3000))
    env.reset()
    for _ in range(3000):
        result = env.step(0)
    assert result.info["episode"].episode_return == 3000.0, "a float16 stops counting at 2048"

    class Bytes(CodedEnv):
        def step(self, action: Any) -> sekai.StepResult:
            return super().step(action)._replace(reward=np.uint8(200))

    repeated = sekai.ActionRepeat(Bytes(), 2)
    repeated.reset()
    assert repeated.step(0).reward == 400.0


def test_an_episode_can_be_read_as_gymnasium_and_stable_baselines3_do() -> None:
    stats = play(sekai.RecordEpisodeStatistics(CodedEnv(length=2)), [0, 0], awaited=False)[2].info["episode"]
    assert (stats["r"], stats["l"], len(stats)) == (30.0, 2.0, 3) and stats["t"] == stats.elapsed_time
    with pytest.raises(KeyError):
        stats["return"]


def test_the_sums_of_an_episode_under_way_are_state(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    first, second = (sekai.RecordEpisodeStatistics(CodedEnv(length=3), gamma=0.5) for _ in range(2))
    for env in (first, second):
        env.reset()
    expected = [first.step(action).reward for action in (1, 2)]
    clock[0] = 7.0
    state = first.state_dict()
    clock[0] = 100.0
    second.step(9)
    second.step(9)
    second.load_state_dict(state)
    clock[0] = 103.0
    result = second.step(4)
    stats = result.info["episode"]
    assert stats.episode_return == sum(expected) + result.reward
    assert stats.discounted_return == expected[0] + 0.5 * expected[1] + 0.25 * result.reward
    assert stats.episode_length == 3
    assert stats.elapsed_time == 10.0, "7 seconds before the state and 3 after it"
    with pytest.raises(ValueError, match="The state has"):
        second.load_state_dict({"return": 1.0})


def test_sums_that_no_episode_can_have_are_refused() -> None:
    plain, discounting = (sekai.RecordEpisodeStatistics(CodedEnv(length=9), gamma=gamma) for gamma in (None, 0.9))
    for env in (plain, discounting):
        play(env, [1, 2, 3], awaited=False)
    before = discounting.state_dict()
    bad: list[dict[str, Any]] = [{"length": -5}, {"seconds": np.nan}, {"seconds": -1.0}, {"discount": np.inf}]
    for change in bad:
        with pytest.raises(ValueError, match=f"^'{next(iter(change))}' of the state is .*expected"):
            discounting.load_state_dict({**before, **change})
    with pytest.raises(
        ValueError, match=r"after 3 steps; expected powers of gamma=0\.9: it was saved by a recorder with"
    ):
        discounting.load_state_dict(plain.state_dict())
    after = discounting.state_dict()
    assert all(before[name] == after[name] for name in ("return", "length", "discounted", "discount"))
    plain.load_state_dict(before)
