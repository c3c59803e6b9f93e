"""Vector wrappers: statistics of episodes, and transforms given as functions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import RowKind
from sekai.stats import EpisodeStats, InMemoryTracker, StatsTracker
from sekai.vector.base import VecEnv
from sekai.vector.results import VecResetResult, VecStepResult
from sekai.vector.wrapper import VecObservationWrapper, VecRewardWrapper, VecWrapper


class VecRecordEpisodeStatistics(VecWrapper):
    """Leave an `EpisodeStats` in `infos[i]["episode"]` when sub-environment `i` finishes an episode.

    Each episode is recorded once, in every autoreset mode. An episode of which a row was lost is not recorded: its
    return is not known.

    Args:
        venv: the vector environment to wrap.
        tracker: receives every finished episode; by default an `InMemoryTracker`.
        deque_size: how many episodes the default tracker keeps.

    Attributes:
        tracker: the tracker.
    """

    def __init__(self, venv: VecEnv, tracker: StatsTracker | None = None, deque_size: int = 100) -> None:
        super().__init__(venv)
        self.tracker = InMemoryTracker(deque_size) if tracker is None else tracker
        n = self.num_envs
        self._returns = np.zeros(n)
        self._lengths = np.zeros(n, np.int64)
        self._starts = np.full(n, time.perf_counter())
        self._broken = np.zeros(n, bool)

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """Add the transitions, and report the episodes that ended."""
        if result.kind.any():  # some row is no plain step
            self._broken |= result.kind == RowKind.LOST
            self._restart(result.kind == RowKind.RESET)
        valid = result.valid
        self._returns += np.where(valid, result.rewards, 0.0)
        self._lengths += valid
        if result.ended.any():
            finished = {
                slot: self._episode(slot, result) for slot in np.flatnonzero(result.ended & ~self._broken).tolist()
            }
            self._restart(result.ended)  # before a tracker is called, which may raise
            for slot, stats in finished.items():
                result.infos[slot]["episode"] = stats
            for stats in finished.values():
                self.tracker.on_episode_end(stats)
        return result

    def after_reset(self, result: VecResetResult, mask: NDArray[np.bool_]) -> VecResetResult:
        """Forget the unfinished episodes of the slots that were reset."""
        self._restart(mask)
        return result

    def _restart(self, slots: NDArray[np.bool_]) -> None:
        self._returns[slots] = 0.0
        self._lengths[slots] = 0
        self._starts[slots] = time.perf_counter()
        self._broken[slots] = False

    def _episode(self, slot: int, result: VecStepResult) -> EpisodeStats:
        return EpisodeStats(
            episode_return=float(self._returns[slot]),
            episode_length=int(self._lengths[slot]),
            terminated=bool(result.terminated[slot]),
            truncated=bool(result.truncated[slot]),
            elapsed_time=time.perf_counter() - float(self._starts[slot]),
            extra={"env_index": slot},
        )


class VecTransformObservation(VecObservationWrapper):
    """Apply `func` to every batch of observations, and to each terminal one as a batch of one.

    Args:
        venv: the vector environment to wrap.
        func: batch in, batch out, in new arrays.
        new_observation_space: space of one transformed observation; needed when shape, dtype or structure change.

    Raises:
        SpaceMismatch: at the first batch, when the result does not fit the declared space.
    """

    def __init__(
        self,
        venv: VecEnv,
        func: Callable[[Any], Any],
        new_observation_space: gymnasium.Space[Any] | None = None,
    ) -> None:
        super().__init__(venv)
        self.func = func
        if new_observation_space is not None:
            self.set_observation_space(new_observation_space)

    def observation(self, batch: Any) -> Any:
        """`func(batch)`."""
        return self.func(batch)


class VecTransformReward(VecRewardWrapper):
    """Apply `func` to the `(num_envs,)` array of rewards; rows that are no transitions keep their reward.

    Args:
        venv: the vector environment to wrap.
        func: rewards in, rewards out.
    """

    def __init__(self, venv: VecEnv, func: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> None:
        super().__init__(venv)
        self.func = func

    def reward(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """`func(rewards)`."""
        return self.func(rewards)
