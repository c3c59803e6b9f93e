"""Where finished episodes go: the line of the logging tracker, and the checks of the recorders' arguments."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest

import sekai
from sekai.stats.trackers import check_gamma, check_tracker, hears_all


def episode(episode_return: float = 1.0, length: int = 1, **more: Any) -> sekai.EpisodeStats:
    given = {"terminated": True, "truncated": False, "elapsed_time": 0.0, **more}
    return sekai.EpisodeStats(episode_return=episode_return, episode_length=length, **given)


LINES = [
    (
        episode(195.0, 195, terminated=False, truncated=True, elapsed_time=0.2149, extra={"env_index": 3}),
        "episode 1: return 195.000, length 195, truncated, 0.21 s, env_index 3",
    ),
    (episode(-0.0625, 2), "episode 1: return -0.062, length 2, terminated, 0.00 s"),  # a half goes to the even digit
    (
        episode(2.0, 3, truncated=True, discounted_return=1.23456, elapsed_time=12.5),
        "episode 1: return 2.000, discounted 1.235, length 3, terminated and truncated, 12.50 s",
    ),
    (
        episode(2.0, 3, discounted_return=0.0),  # zero is a discounted return, and none is none
        "episode 1: return 2.000, discounted 0.000, length 3, terminated, 0.00 s",
    ),
    (
        episode(extra={"env_index": 0, "why": "100 %s"}),
        "episode 1: return 1.000, length 1, terminated, 0.00 s, env_index 0, why 100 %s",
    ),
]


@pytest.mark.parametrize(("stats", "line"), LINES, ids=[line for _, line in LINES])
def test_the_line_of_an_episode(stats: sekai.EpisodeStats, line: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "sekai"):
        sekai.LoggingTracker().on_episode_end(stats)
    assert caplog.record_tuples == [("sekai", logging.INFO, line)]


def test_episodes_are_numbered_beyond_those_kept(caplog: pytest.LogCaptureFixture) -> None:
    tracker = sekai.LoggingTracker(deque_size=2)
    with caplog.at_level(logging.INFO, "sekai"):
        for value in (1.0, 2.0, 5.0, 9.0):
            tracker.on_episode_end(episode(value))
    assert [message.split(":")[0] for message in caplog.messages] == [f"episode {k}" for k in (1, 2, 3, 4)]
    # of 5 and 9: mean 7, deviation 2
    assert tracker.summary() == {
        "num_episodes": 2,
        "mean_return": 7.0,
        "std_return": 2.0,
        "min_return": 5.0,
        "max_return": 9.0,
        "mean_length": 1.0,
    }


@pytest.mark.parametrize(("given", "kept"), [({}, 100), ({"deque_size": None}, 150), ({"deque_size": 1}, 1)])
def test_how_many_episodes_the_summary_speaks_of(given: dict[str, Any], kept: int) -> None:
    tracker = sekai.LoggingTracker(level=logging.DEBUG, **given)
    for value in range(150):
        tracker.on_episode_end(episode(value))
    assert (tracker.summary()["num_episodes"], tracker.summary()["min_return"]) == (kept, 150 - kept)


def test_before_the_first_episode_the_summary_has_only_the_count() -> None:
    assert sekai.LoggingTracker().summary() == {"num_episodes": 0}


def test_the_lines_go_to_the_logger_and_level_given(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("tests.stats.trackers")
    tracker = sekai.LoggingTracker(logger, level=logging.DEBUG)
    with caplog.at_level(logging.INFO, logger.name):
        tracker.on_episode_end(episode())
    assert caplog.record_tuples == []
    with caplog.at_level(logging.DEBUG, logger.name):
        tracker.on_episode_end(episode())
    assert [(name, level) for name, level, _ in caplog.record_tuples] == [(logger.name, logging.DEBUG)]
    assert caplog.messages[0].startswith("episode 2:"), "numbered whether or not somebody listens"


def test_by_default_the_lines_go_to_the_logger_sekai_as_information() -> None:
    tracker = sekai.LoggingTracker()
    assert (tracker.logger.name, tracker.level) == ("sekai", logging.INFO)


def test_a_logging_tracker_that_keeps_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^deque_size is 0; expected an int of at least 1\.$"):
        sekai.LoggingTracker(deque_size=0)


def test_a_tracker_given_is_kept_though_an_empty_one_is_false() -> None:
    tracker = sekai.InMemoryTracker()
    assert not tracker
    assert check_tracker(tracker, 5) is tracker
    assert tracker.episodes.maxlen == 100, "the size is that of a tracker made here"


@pytest.mark.parametrize("size", [7, None])
def test_without_a_tracker_one_in_memory_is_made(size: int | None) -> None:
    made = check_tracker(None, size)
    assert type(made) is sekai.InMemoryTracker
    assert made.episodes.maxlen == size and check_tracker(None, size) is not made


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (False, "tracker is False (bool); expected a StatsTracker, such as InMemoryTracker()."),
        ([], "tracker is [] (list); expected a StatsTracker, such as InMemoryTracker()."),
        (
            sekai.InMemoryTracker,
            "tracker is <class 'sekai.stats.trackers.InMemoryTracker'> (ABCMeta); "
            "expected a StatsTracker, such as InMemoryTracker().",
        ),
    ],
    ids=["bool", "list", "class"],
)
def test_what_is_no_tracker_is_refused(given: Any, text: str) -> None:
    with pytest.raises(TypeError) as raised:
        check_tracker(given, 100)
    assert str(raised.value) == text


class Steps(sekai.InMemoryTracker):
    def on_step(self, slot: int, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]) -> None: ...


class Resets(sekai.LoggingTracker):
    def on_reset(self, slot: int) -> None: ...


class Heir(Steps):
    """Overrides nothing itself."""


def test_only_a_tracker_that_overrides_a_hook_hears_of_steps() -> None:
    assert [hears_all(kind()) for kind in (Steps, Resets, Heir)] == [True, True, True]
    assert not hears_all(sekai.InMemoryTracker()) and not hears_all(sekai.LoggingTracker())


def test_the_hooks_of_the_base_class_do_nothing() -> None:
    tracker = sekai.InMemoryTracker()
    tracker.on_reset(0)
    tracker.on_step(0, 1.0, False, False, {})
    assert tracker.summary() == {"num_episodes": 0}


@pytest.mark.parametrize("gamma", [None, 0.0, 0.99, 1.0, 0, 1])
def test_a_discount_from_zero_to_one_is_handed_on(gamma: float | None) -> None:
    assert check_gamma(gamma) is gamma


@pytest.mark.parametrize("gamma", [-0.01, 1.01, math.nan, math.inf])
def test_another_discount_is_refused(gamma: float) -> None:
    with pytest.raises(ValueError, match=rf"^gamma is {gamma!r}; expected a discount in \[0, 1\]\.$"):
        check_gamma(gamma)
