"""Where finished episodes go.

Both recorders, `RecordEpisodeStatistics` and `VecRecordEpisodeStatistics`, call a tracker in the same way, slot by
slot in ascending order (a single environment is slot 0):

    on_reset(slot)                 the slot has begun an episode
    on_step(slot, reward, ...)     an action was executed; rows that are no transitions are not reported
    on_episode_end(stats)          after the `on_step` of the last transition, before the `on_reset` of the next
                                   episode; not for an episode of which a row was lost

A tracker that overrides neither `on_reset` nor `on_step` is called at ends only: a thousand slots are a thousand calls.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from typing import Any

import numpy as np

from sekai.spaces.checks import whole_number
from sekai.stats.episodes import EpisodeStats


class StatsTracker(ABC):
    """Receives finished episodes; one that wants to hear of beginnings and steps overrides those hooks too."""

    def on_reset(self, slot: int) -> None:  # noqa: B027  # overriding it is optional
        """An episode has begun. By default nothing happens."""

    def on_step(  # noqa: B027  # overriding it is optional
        self, slot: int, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> None:
        """An action was executed. By default nothing happens."""

    @abstractmethod
    def on_episode_end(self, stats: EpisodeStats) -> None:
        """An episode has ended."""

    @abstractmethod
    def summary(self) -> dict[str, float]:
        """Numbers over the episodes received so far."""


class InMemoryTracker(StatsTracker):
    """Keeps the last `deque_size` episodes.

    Args:
        deque_size: how many episodes are kept, None for all.
    """

    def __init__(self, deque_size: int | None = 100) -> None:
        size = None if deque_size is None else whole_number("deque_size", deque_size, minimum=1)
        self.episodes: deque[EpisodeStats] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self.episodes)

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """Keep the episode."""
        self.episodes.append(stats)

    def summary(self) -> dict[str, float]:
        """`num_episodes`, and mean, standard deviation (`ddof=0`), minimum and maximum of return, mean of length.

        Only `num_episodes` is present while no episode has ended.
        """
        if not self.episodes:
            return {"num_episodes": 0}
        returns = np.array([episode.episode_return for episode in self.episodes])
        return {
            "num_episodes": len(self.episodes),
            "mean_return": float(returns.mean()),
            "std_return": float(returns.std()),
            "min_return": float(returns.min()),
            "max_return": float(returns.max()),
            "mean_length": float(np.mean([episode.episode_length for episode in self.episodes])),
        }


class LoggingTracker(StatsTracker):
    """Writes a line per finished episode to a logger of the standard library, and keeps the last ones.

        episode 12: return 195.000, length 195, truncated, 0.21 s, env_index 3

    Args:
        logger: where the lines go, by default the logger `sekai`.
        level: their level.
        deque_size: how many episodes `summary` speaks of, None for all.
    """

    def __init__(
        self, logger: logging.Logger | None = None, *, level: int = logging.INFO, deque_size: int | None = 100
    ) -> None:
        self.logger = logging.getLogger("sekai") if logger is None else logger
        self.level = level
        self._kept = InMemoryTracker(deque_size)
        self._ended = 0

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """Write the line."""
        self._ended += 1
        self._kept.on_episode_end(stats)
        flags = [name for name in ("terminated", "truncated") if getattr(stats, name)]
        discounted = "" if stats.discounted_return is None else f", discounted {stats.discounted_return:.3f}"
        extra = "".join(f", {key} {value}" for key, value in stats.extra.items())
        self.logger.log(
            self.level,
            "episode %d: return %.3f%s, length %d, %s, %.2f s%s",
            self._ended,
            stats.episode_return,
            discounted,
            stats.episode_length,
            " and ".join(flags) or "cut",
            stats.elapsed_time,
            extra,
        )

    def summary(self) -> dict[str, float]:
        """As `InMemoryTracker.summary`, of the episodes kept."""
        return self._kept.summary()


def check_tracker(tracker: StatsTracker | None, deque_size: int | None) -> StatsTracker:
    """The tracker given, or an `InMemoryTracker` where none was.

    Raises:
        TypeError: something that is no tracker.
    """
    if tracker is None:  # an empty tracker is false, and a tracker all the same
        return InMemoryTracker(deque_size)
    if not isinstance(tracker, StatsTracker):
        raise TypeError(
            f"tracker is {tracker!r} ({type(tracker).__name__}); expected a StatsTracker, such as InMemoryTracker()."
        )
    return tracker


def hears_all(tracker: StatsTracker) -> bool:
    """Whether the tracker overrides `on_step` or `on_reset`: a call per slot and step is not made for nothing."""
    kind = type(tracker)
    return kind.on_step is not StatsTracker.on_step or kind.on_reset is not StatsTracker.on_reset


def check_gamma(gamma: float | None) -> float | None:
    """`gamma`, a discount in `[0, 1]` or None.

    Raises:
        ValueError: another number.
    """
    return None if gamma is None else check_discount(gamma)


def check_discount(gamma: float) -> float:
    """`gamma`, a discount in `[0, 1]`.

    Raises:
        ValueError: another number.
    """
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"gamma is {gamma!r}; expected a discount in [0, 1].")
    return gamma
