"""`RecordEpisodeStatistics`: return and length of every finished episode."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.core.results import ResetResult, StepResult
from sekai.core.wrapper import Wrapper
from sekai.stats import EpisodeStats, StatsTracker
from sekai.stats.state import check_sums
from sekai.stats.trackers import check_gamma, check_tracker, hears_all


class RecordEpisodeStatistics(Wrapper):
    """Leave an `EpisodeStats` in `info["episode"]` of the step that ends an episode.

    Args:
        env: the environment to wrap; also one that resets itself.
        tracker: receives every finished episode; by default an `InMemoryTracker`.
        deque_size: how many episodes the default tracker keeps, None for all.
        gamma: also record the return discounted by it, in `[0, 1]`.

    Attributes:
        tracker: the tracker.

    Raises:
        TypeError: `tracker` is no `StatsTracker`.
        ValueError: `gamma` out of range.
    """

    counts_rows = True
    vector_version = "VecRecordEpisodeStatistics"

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        tracker: StatsTracker | None = None,
        deque_size: int | None = 100,
        *,
        gamma: float | None = None,
    ) -> None:
        super().__init__(env)
        self.tracker = check_tracker(tracker, deque_size)
        self.gamma = check_gamma(gamma)
        self._tells_all = hears_all(self.tracker)
        self._begin()

    def _begin(self) -> None:
        self._return, self._length, self._discounted, self._discount = 0.0, 0, 0.0, 1.0
        self._start = time.perf_counter()

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The sums of the episode under way, and its `seconds` so far; the tracker's episodes are no part of it."""
        return {
            "return": np.array(self._return),
            "length": np.array(self._length),
            "discounted": np.array(self._discounted),
            "discount": np.array(self._discount),
            "seconds": np.array(time.perf_counter() - self._start),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Raises:
            ValueError: it does not fit; nothing is taken over.
        """
        loaded = check_sums(state, self.state_dict(), self.gamma)
        self._return, self._length = float(loaded["return"]), int(loaded["length"])
        self._discounted, self._discount = float(loaded["discounted"]), float(loaded["discount"])
        self._start = time.perf_counter() - float(loaded["seconds"])

    def after_step(self, result: StepResult) -> StepResult:
        """Add the transition, and report the episode when it has ended."""
        _, given, terminated, truncated, info = result
        reward = float(given)  # sums in the precision of an environment's rewards lose steps
        self._return += reward
        self._length += 1
        if self.gamma is not None:
            self._discounted += self._discount * reward
            self._discount *= self.gamma
        if not result.done:
            if self._tells_all:
                self.tracker.on_step(0, reward, False, False, info)
            return result
        stats = EpisodeStats(
            episode_return=self._return,
            episode_length=self._length,
            terminated=bool(terminated),
            truncated=bool(truncated),
            elapsed_time=time.perf_counter() - self._start,
            discounted_return=None if self.gamma is None else self._discounted,
            extra={"env_index": 0},
        )
        self._begin()  # before a tracker is called, which may raise
        if self._tells_all:
            self.tracker.on_step(0, reward, bool(terminated), bool(truncated), info)
        self.tracker.on_episode_end(stats)
        if self.resets_itself:
            self.tracker.on_reset(0)
        return result._replace(info={**info, "episode": stats})

    def after_reset(self, result: ResetResult) -> ResetResult:
        """Forget an unfinished episode."""
        self._begin()
        self.tracker.on_reset(0)
        return result
