"""What is kept of a finished episode, and where it is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sekai.spaces.checks import whole_number


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeStats:
    """One finished episode."""

    episode_return: float
    """Sum of its rewards, undiscounted."""
    episode_length: int
    """Number of actions executed."""
    terminated: bool
    """It ended within the task."""
    truncated: bool
    """It was cut from outside the task."""
    elapsed_time: float
    """Seconds from its first row to its last, by a monotonic clock."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Where it was seen, e.g. `{"env_index": 3}`."""


class StatsTracker(ABC):
    """Receives finished episodes."""

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
