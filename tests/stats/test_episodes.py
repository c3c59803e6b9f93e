"""What is kept of episodes, and the numbers over them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai


def episode(episode_return: float, length: int = 1, **more: Any) -> sekai.EpisodeStats:
    given = {"terminated": True, "truncated": False, "elapsed_time": 0.0, **more}
    return sekai.EpisodeStats(episode_return=episode_return, episode_length=length, **given)


def test_the_summary_of_three_episodes() -> None:
    tracker = sekai.InMemoryTracker()
    for stats in (episode(1.0, 2), episode(2.0, 3), episode(6.0, 7)):
        tracker.on_episode_end(stats)
    # mean (1 + 2 + 6) / 3 = 3; variance (4 + 1 + 9) / 3 = 14 / 3 (ddof=0, not 14 / 2 = 7); length (2 + 3 + 7) / 3 = 4
    assert tracker.summary() == {
        "num_episodes": 3,
        "mean_return": 3.0,
        "std_return": pytest.approx(math.sqrt(14 / 3)),
        "min_return": 1.0,
        "max_return": 6.0,
        "mean_length": 4.0,
    }
    assert tracker.summary()["std_return"] != pytest.approx(math.sqrt(7))
    assert all(type(value) is float for name, value in tracker.summary().items() if name != "num_episodes")


def test_one_episode_has_no_spread() -> None:
    tracker = sekai.InMemoryTracker()
    tracker.on_episode_end(episode(-2.5, 4))
    assert tracker.summary()["std_return"] == 0.0
    assert tracker.summary()["min_return"] == tracker.summary()["max_return"] == -2.5


def test_before_the_first_episode_there_is_only_the_count() -> None:
    assert sekai.InMemoryTracker().summary() == {"num_episodes": 0}
    assert len(sekai.InMemoryTracker()) == 0


def test_the_oldest_episodes_are_dropped() -> None:
    tracker = sekai.InMemoryTracker(2)
    for value in (100.0, 1.0, 3.0):
        tracker.on_episode_end(episode(value))
    assert len(tracker) == 2
    assert [kept.episode_return for kept in tracker.episodes] == [1.0, 3.0]
    assert tracker.summary()["mean_return"] == 2.0
    assert tracker.summary()["max_return"] == 3.0


@pytest.mark.parametrize(("size", "kept"), [((), 100), ((None,), 150), ((1,), 1)])
def test_how_many_are_kept(size: tuple[Any, ...], kept: int) -> None:
    tracker = sekai.InMemoryTracker(*size)
    for value in range(150):
        tracker.on_episode_end(episode(value))
    assert len(tracker) == tracker.summary()["num_episodes"] == kept
    assert tracker.summary()["min_return"] == 150 - kept


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.integers(1, 20))
def test_the_summary_is_that_of_the_last_episodes(returns: list[float], size: int) -> None:
    tracker = sekai.InMemoryTracker(size)
    for value in returns:
        tracker.on_episode_end(episode(value))
    last, summary = returns[-size:], tracker.summary()
    assert summary["num_episodes"] == len(last)
    assert summary["mean_return"] == pytest.approx(sum(last) / len(last))
    assert (summary["min_return"], summary["max_return"]) == (min(last), max(last))
    mean = sum(last) / len(last)
    variance = sum((value - mean) ** 2 for value in last) / len(last)
    assert summary["std_return"] == pytest.approx(math.sqrt(variance), abs=1e-6)


@pytest.mark.parametrize("size", [0, -1])
def test_a_tracker_that_keeps_nothing_is_refused(size: int) -> None:
    text = rf"^deque_size is {size}; expected an int of at least 1\.$"
    with pytest.raises(ValueError, match=text):
        sekai.InMemoryTracker(size)


def test_an_episode_is_frozen_named_and_compared_by_value() -> None:
    stats = episode(1.0, 2, extra={"env_index": 3})
    assert stats == episode(1.0, 2, extra={"env_index": 3})
    assert stats != episode(1.0, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        stats.episode_return = 2.0  # type: ignore[misc]  # the mistake under test
    with pytest.raises(TypeError):
        sekai.EpisodeStats(1.0, 2, True, False, 0.0)  # type: ignore[call-arg]  # by position


def test_episodes_do_not_share_their_extra() -> None:
    one, other = episode(1.0), episode(1.0)
    one.extra["env_index"] = 3
    assert other.extra == {}


def test_a_tracker_of_ones_own_implements_both_methods() -> None:
    class Forgotten(sekai.StatsTracker):
        def on_episode_end(self, stats: sekai.EpisodeStats) -> None: ...

    with pytest.raises(TypeError, match="summary"):
        Forgotten()  # type: ignore[abstract]  # the mistake under test
    assert isinstance(sekai.InMemoryTracker(), sekai.StatsTracker)


def test_returns_of_any_numeric_type_are_summarised() -> None:
    tracker = sekai.InMemoryTracker()
    tracker.on_episode_end(episode(np.float32(0.5)))  # type: ignore[arg-type]  # as an environment may sum it
    assert tracker.summary()["mean_return"] == 0.5
