"""Normalising by running statistics: what the single wrappers and the vector wrappers share.

An observation `o` becomes `(o - mean) / sqrt(var + epsilon)`, entry by entry. A reward `r` becomes
`r / sqrt(var + epsilon)` with the variance of the discounted return `G_t = gamma * G_{t-1} + r_t` of its episode,
`G_{-1} = 0`: rewards are scaled and not shifted, since a shift would change which policy is best.

Which rows count: an observation that a policy acts on enters once; the last observation of an episode, on which
nobody acts, never does. A reward enters where an action was executed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.errors import InvalidObservation
from sekai.spaces import Box, box_rows, map_boxes
from sekai.spaces.boxes import ArrayMap
from sekai.stats import RunningStats, StatsTree
from sekai.stats.state import Freezable, check_state
from sekai.stats.trackers import check_discount

StatsKind: TypeAlias = Literal["running", "ewm"]


class ObservationNormalizer:
    """Statistics of every `Box` part of a space, and observations normalised by them.

    Args:
        space: of one observation.
        num_slots: observations in the batches that are counted.
        epsilon: added to the variance.
        stats: `"running"` weighs every row alike, `"ewm"` forgets.
        halflife: of `"ewm"`, in updates that brought a row.
        clip: bound of what is returned.

    Attributes:
        space: of one normalised observation: float parts keep their dtype, others become float32.
        stats: `RunningStats`, or a `StatsTree` that mirrors the nesting of the space.
    """

    def __init__(
        self,
        space: gymnasium.Space[Any],
        num_slots: int,
        epsilon: float,
        stats: StatsKind,
        halflife: float,
        clip: float | None,
    ) -> None:
        if stats not in ("running", "ewm"):
            raise ValueError(f"stats is {stats!r}; expected 'running' or 'ewm'.")
        self._epsilon = check_epsilon(epsilon)
        RunningStats(halflife=halflife)  # refused also where it is not used
        self._halflife = halflife if stats == "ewm" else None
        self._clip = check_clip(clip)
        self._given = space
        self._num_slots = num_slots
        self._leaves: dict[str, RunningStats] = {}
        self.space, self.normalize = map_boxes(space, self._part)
        self.stats = self._leaves[""] if "" in self._leaves else StatsTree(self._leaves)

    def _part(self, box: gymnasium.spaces.Box[Any], place: str) -> tuple[Box, ArrayMap]:
        leaf = self._leaves[place] = RunningStats(box.shape, halflife=self._halflife)
        dtype = box.dtype if box.dtype.kind == "f" else np.dtype(np.float32)
        bound = math.inf if self._clip is None else self._clip
        # a partial object, and no closure: a copy of it speaks of the copied statistics
        apply = partial(leaf.standardize, epsilon=self._epsilon, clip=self._clip, dtype=dtype)
        return Box(-bound, bound, box.shape, dtype), apply

    def update(self, batch: Any, slots: NDArray[np.bool_] | None = None) -> None:
        """Take in the observations of some slots, None for all.

        Raises:
            InvalidObservation: one holds a number that is not finite; nothing is taken in.
        """
        leaves = list(self._leaves.values())
        if type(batch) is np.ndarray:  # the usual space, one Box
            rows: Any = (batch if slots is None else batch[slots],)
        else:
            rows = box_rows(self._given, batch, slots)
        taken = [leaf.with_rows(part) for leaf, part in zip(leaves, rows, strict=True)]
        if not all([new.finite for new in taken]):
            raise InvalidObservation(self._blame(batch, slots))
        for leaf, new in zip(leaves, taken, strict=True):
            leaf.take(new)

    def update_and_normalize(self, batch: Any) -> Any:
        """`update` with the observations of all slots, then `normalize` them.

        Raises:
            InvalidObservation: as `update`.
        """
        if "" not in self._leaves or type(batch) is not np.ndarray:
            self.update(batch)
            return self.normalize(batch)
        dtype = self.space.dtype
        assert dtype is not None  # of a Box
        shown = self._leaves[""].take_and_standardize(batch, self._epsilon, self._clip, dtype)
        if shown is None:
            raise InvalidObservation(self._blame(batch, None))
        return shown

    def _blame(self, batch: Any, slots: NDArray[np.bool_] | None) -> str:
        """Which slot, which part of its observation, and what stands there."""
        every = np.arange(self._num_slots)
        for slot in every if slots is None else every[slots]:
            for place, rows in zip(self._leaves, box_rows(self._given, batch, every == slot), strict=True):
                bad = rows[~np.isfinite(rows)]
                if bad.size:
                    return (
                        f"sub-env {slot}: observation{place} holds {bad[0]}; a normaliser averages finite numbers only."
                        " Mend the environment, or replace the value in a wrapper inside this one."
                    )
        return "Observations hold numbers so large that their square is infinite: they have no variance."


class NormalizesObservations(Freezable):
    """The part of a wrapper that shows its `ObservationNormalizer`.

    Attributes:
        obs_rms: the statistics; for a nested space they mirror its nesting, `obs_rms["camera"]`.
    """

    _normalizer: ObservationNormalizer

    @property
    def obs_rms(self) -> Any:
        """`RunningStats` for a `Box`, else a `StatsTree`."""
        return self._normalizer.stats

    def state_dict(self) -> dict[str, NDArray[np.float64]]:
        """Copies of the statistics, an array per name."""
        return self._normalizer.stats.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Raises:
            ValueError: it does not fit these spaces; nothing is taken over.
        """
        self._normalizer.stats.load_state_dict(state)


class RewardScaler:
    """The discounted returns of some slots, and rewards scaled by their spread.

    Args:
        num_slots: how many.
        gamma: discount, in `[0, 1]`.
        epsilon: added to the variance.
        clip: bound of what is returned.

    Attributes:
        stats: of the discounted returns.
        returns: float64 `(num_slots,)`, of the unfinished episodes.
    """

    def __init__(self, num_slots: int, gamma: float, epsilon: float, clip: float | None) -> None:
        self.gamma, self.epsilon, self.clip = check_discount(gamma), check_epsilon(epsilon), check_clip(clip)
        self.stats = RunningStats()
        self.returns = np.zeros(num_slots)

    def scale(
        self,
        rewards: NDArray[np.float64],
        counts: NDArray[np.bool_] | None,
        ended: NDArray[np.bool_] | None,
        updates: bool,
    ) -> NDArray[np.float64]:
        """The scaled rewards, `(num_slots,)`.

        Args:
            rewards: of the call.
            counts: rows whose action was executed, None for all; the other rewards come back as they are.
            ended: slots whose episode ended, None for none.
            updates: whether the returns enter the statistics.

        Raises:
            InvalidObservation: a reward that counts is not finite, and `updates`; no return is taken in.
        """
        rows = slice(None) if counts is None else counts
        before, given = self.returns[rows], rewards[rows]
        if updates:
            taken = self.stats.take_returns_and_scale(before, given, self.gamma, self.epsilon, self.clip)
        else:
            taken = self.gamma * before + given, self.stats.scale(given, self.epsilon, self.clip)
        if taken is None:
            message = self._blame(rewards, counts)
            if ended is not None:
                self.returns[ended] = 0.0  # the episode is over all the same
            raise InvalidObservation(message)
        if counts is None:
            self.returns, scaled = taken
        else:
            scaled = rewards.copy()
            self.returns[counts], scaled[counts] = taken
        if ended is not None:
            self.returns[ended] = 0.0
        return scaled

    def _blame(self, rewards: NDArray[np.float64], counts: NDArray[np.bool_] | None) -> str:
        """Whose return cannot be taken in, and why."""
        returns = self.gamma * self.returns + rewards
        bad = np.flatnonzero(~np.isfinite(returns) & (True if counts is None else counts))
        which = f"sub-env {bad[0]}: the reward is {rewards[bad[0]]}" if bad.size else "returns overflow"
        return (
            f"{which}; a normaliser averages finite numbers only. Return a finite reward, or replace it in a reward "
            "wrapper inside this one."
        )


class NormalizesRewards(Freezable):
    """The part of a wrapper that shows its `RewardScaler`.

    Attributes:
        return_rms: statistics of the discounted returns.
    """

    _scaler: RewardScaler

    @property
    def return_rms(self) -> RunningStats:
        """Statistics of the discounted returns."""
        return self._scaler.stats

    def state_dict(self) -> dict[str, NDArray[np.float64]]:
        """Copies of the statistics and of the discounted returns of the unfinished episodes."""
        return {**self._scaler.stats.state_dict(), "returns": self._scaler.returns.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Returns of another number of slots belong to other episodes: then those here begin anew.

        Raises:
            ValueError: it does not fit; nothing is taken over.
        """
        known, given = self.state_dict(), dict(state)
        if np.ndim(given.get("returns", 0.0)) == 1 and np.shape(given["returns"]) != known["returns"].shape:
            given["returns"] = np.zeros_like(known["returns"])
        loaded = check_state(given, known)
        returns = loaded.pop("returns")
        self._scaler.stats.load_state_dict(loaded)
        self._scaler.returns = returns


def check_clip(clip: float | None) -> float | None:
    """`clip`, a positive number or None."""
    if clip is not None and not clip > 0.0:
        raise ValueError(f"clip is {clip!r}; expected a positive number, or None.")
    return clip


def check_epsilon(epsilon: float) -> float:
    """`epsilon`, which must be a positive number."""
    if not 0.0 < epsilon < math.inf:
        raise ValueError(f"epsilon is {epsilon!r}; expected a positive number.")
    return epsilon
