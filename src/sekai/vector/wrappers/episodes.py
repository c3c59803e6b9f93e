"""`VecRecordEpisodeStatistics`: return and length of every finished episode of every slot."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import RowKind
from sekai.spaces.checks import whole_number
from sekai.stats import EpisodeStats, StatsTracker
from sekai.stats.state import check_sums
from sekai.stats.trackers import check_gamma, check_tracker, hears_all
from sekai.vector.base import VecEnv
from sekai.vector.infos import Infos, Part
from sekai.vector.results import VecResetResult, VecStepResult
from sekai.vector.wrapper import VecWrapper


class VecRecordEpisodeStatistics(VecWrapper):
    """Leave an `EpisodeStats` in `infos[i]["episode"]` when sub-environment `i` finishes an episode.

    Each episode is recorded once, in every autoreset mode. An episode of which a row was lost is not recorded: its
    return is not known.

    Args:
        venv: the vector environment to wrap.
        tracker: receives every finished episode; by default an `InMemoryTracker`.
        deque_size: how many episodes the default tracker keeps, and never fewer than there are slots; None for all.
        gamma: also record the return discounted by it, in `[0, 1]`.

    Attributes:
        tracker: the tracker.

    Raises:
        TypeError: `tracker` is no `StatsTracker`.
        ValueError: `gamma` out of range.
    """

    by_slots = True

    def __init__(
        self,
        venv: VecEnv,
        tracker: StatsTracker | None = None,
        deque_size: int | None = 100,
        *,
        gamma: float | None = None,
    ) -> None:
        super().__init__(venv)
        # an episode of every slot at least: of a thousand that end together the last hundred are no sample
        kept = None if deque_size is None else max(whole_number("deque_size", deque_size, minimum=1), venv.num_envs)
        self.tracker = check_tracker(tracker, kept)
        self.gamma = check_gamma(gamma)
        self._tells_all = hears_all(self.tracker)
        n = self.num_envs
        self._returns, self._discounted, self._discounts = np.zeros(n), np.zeros(n), np.ones(n)
        self._lengths = np.zeros(n, np.int64)
        self._starts = np.full(n, time.perf_counter())
        self._broken = np.zeros(n, bool)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The sums of the episodes under way and their `seconds` so far, `(N,)` each; `broken` where a row was lost.

        The tracker's episodes are no part of it.
        """
        return {
            "return": self._returns.copy(),
            "length": self._lengths.copy(),
            "discounted": self._discounted.copy(),
            "discount": self._discounts.copy(),
            "seconds": time.perf_counter() - self._starts,
            "broken": self._broken.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Raises:
            ValueError: it does not fit; nothing is taken over.
        """
        loaded = check_sums(state, self.state_dict(), self.gamma)
        self._returns, self._lengths = loaded["return"], loaded["length"]
        self._discounted, self._discounts = loaded["discounted"], loaded["discount"]
        self._starts, self._broken = time.perf_counter() - loaded["seconds"], loaded["broken"]

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """Add the transitions, and report the episodes that ended."""
        if result.plain:  # plain steps only
            self._add(result.rewards, True)
            if self._tells_all:
                self._tell(result, {}, np.zeros(self.num_envs, bool))
            return result
        self._broken |= result.kind == RowKind.LOST
        reset = result.kind == RowKind.RESET
        self._restart(reset)
        self._add(np.where(result.valid, result.rewards, 0.0), result.valid)
        reset |= result.begun
        ended = np.flatnonzero(result.ended)
        finished = self._finished(ended[~self._broken[ended]], result)
        self._restart(result.ended)  # before a tracker is called, which may raise
        self._tell(result, finished, reset)
        if finished:
            result.infos.put(Part("episode", list(finished.values()), np.array(list(finished))))
        return result

    def after_recv(self, result: VecStepResult, slots: NDArray[np.intp]) -> VecStepResult:
        """Add the transitions of these slots, as if all others were frozen."""
        n = self.num_envs
        rewards, kind = np.zeros(n), np.full(n, RowKind.FROZEN, np.int8)
        terminated, truncated, ended = np.zeros(n, bool), np.zeros(n, bool), np.zeros(n, bool)
        rewards[slots], kind[slots], ended[slots] = result.rewards, result.kind, result.ended
        terminated[slots], truncated[slots] = result.terminated, result.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(n)]
        for slot, info in zip(slots.tolist(), result.infos, strict=True):
            infos[slot] = info  # the same object: what is put there stands in the result
        self.after_step(
            VecStepResult(
                None, rewards, terminated, truncated, Infos.of(infos), kind=kind, ended=ended, space=result.space
            )
        )
        return result

    def after_reset(self, result: VecResetResult, mask: NDArray[np.bool_]) -> VecResetResult:
        """Forget the unfinished episodes of the slots that were reset."""
        self._restart(mask)
        for slot in np.flatnonzero(mask).tolist():
            self.tracker.on_reset(slot)
        return result

    def _add(self, rewards: NDArray[np.float64], valid: NDArray[np.bool_] | bool) -> None:
        """Add a row per slot; the rewards of rows that are no transitions are 0."""
        self._returns += rewards
        self._lengths += valid
        if self.gamma is not None:
            self._discounted += self._discounts * rewards
            self._discounts *= np.where(valid, self.gamma, 1.0)

    def _restart(self, slots: NDArray[np.bool_]) -> None:
        if slots.any():
            self._returns[slots] = self._discounted[slots] = 0.0
            self._discounts[slots] = 1.0
            self._lengths[slots] = 0
            self._starts[slots] = time.perf_counter()
            self._broken[slots] = False

    def _finished(self, slots: NDArray[np.intp], result: VecStepResult) -> dict[int, EpisodeStats]:
        """The episodes that ended in these slots."""
        now = time.perf_counter()
        rows = zip(
            slots.tolist(),
            self._returns[slots].tolist(),
            self._lengths[slots].tolist(),
            result.terminated[slots].tolist(),
            result.truncated[slots].tolist(),
            (now - self._starts[slots]).tolist(),
            self._discounted[slots].tolist(),
            strict=True,
        )
        return {
            slot: EpisodeStats(
                episode_return=episode_return,
                episode_length=length,
                terminated=terminated,
                truncated=truncated,
                elapsed_time=elapsed,
                discounted_return=None if self.gamma is None else discounted,
                extra={"env_index": slot},
            )
            for slot, episode_return, length, terminated, truncated, elapsed, discounted in rows
        }

    def _tell(self, result: VecStepResult, finished: dict[int, EpisodeStats], reset: NDArray[np.bool_]) -> None:
        """Tell the tracker, slot by slot: the step, the end, the next beginning."""
        tracker = self.tracker
        if not self._tells_all:
            for stats in finished.values():
                tracker.on_episode_end(stats)
            return
        for slot in range(self.num_envs):
            if result.valid[slot]:
                tracker.on_step(
                    slot,
                    float(result.rewards[slot]),
                    bool(result.terminated[slot]),
                    bool(result.truncated[slot]),
                    result.infos[slot],
                )
            if slot in finished:
                tracker.on_episode_end(finished[slot])
            if reset[slot]:
                tracker.on_reset(slot)
