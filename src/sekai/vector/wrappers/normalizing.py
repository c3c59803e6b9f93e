"""Vector wrappers that normalise, with statistics shared by all slots."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import RowKind
from sekai.spaces import copy_batch, copy_rows, finish_batch
from sekai.vector.base import VecEnv
from sekai.vector.observing import VecObservationWrapper, acted_on
from sekai.vector.results import VecResetResult, VecStepResult
from sekai.vector.wrapper import VecWrapper
from sekai.wrappers.normalizing import (
    NormalizesObservations,
    NormalizesRewards,
    ObservationNormalizer,
    RewardScaler,
    StatsKind,
)


class VecNormalizeObservation(NormalizesObservations, VecObservationWrapper):
    """Bring every `Box` part to mean 0 and variance 1, by the statistics of the observations of all slots.

    `(o - mean) / sqrt(var + epsilon)`, entry by entry; a `MaskedBox` by its occupied elements, padding stays zero.
    An observation that a policy acts on counts once; the last one of an episode is normalised with the statistics
    after the call, and does not count.

    Args:
        venv: the vector environment to wrap; its observation space has at least one `Box` part.
        epsilon: added to the variance.
        stats: `"running"` weighs every observation alike, `"ewm"` forgets.
        halflife: of `"ewm"`, in calls to `step` and `reset`, however many slots there are: the observations of a
            call so many calls back weigh half. Which rows a call brings depends on the autoreset mode, and so do
            these statistics; those of `"running"` do not.
        clip: hold what is returned to `[-clip, clip]`.

    Attributes:
        obs_rms: the statistics; for a nested space they mirror its nesting, `obs_rms["camera"]`.
        update_running_mean: set it to False to freeze them, or use `with vec.freeze():`.

    Raises:
        TypeError: no `Box` part.
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        venv: VecEnv,
        epsilon: float = 1e-8,
        *,
        stats: StatsKind = "running",
        halflife: float = 1000.0,
        clip: float | None = None,
    ) -> None:
        super().__init__(venv)
        self._normalizer = ObservationNormalizer(venv.observation_space, venv.num_envs, epsilon, stats, halflife, clip)
        self.set_observation_space(self._normalizer.space)

    def observation(self, batch: Any) -> Any:
        """The normalised batch; the statistics stay as they are."""
        return self._normalizer.normalize(batch)

    def final_observation(self, obs: Any) -> Any:
        """The normalised last observation of an episode; the statistics stay as they are."""
        return self._normalizer.normalize(obs)

    def _final_batch(self, rows: Any) -> Any:
        return self._normalizer.normalize(rows)

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """Count the observations that a policy acts on, then normalise.

        Raises:
            InvalidObservation: one holds a number that is not finite; the message names the sub-environment, and no
                statistics change.
        """
        if not self.updating:
            return super().after_step(result)
        if result.plain:  # nearly all calls
            self._release()
            batch = self._normalizer.update_and_normalize(result.observations)
            return result.replace(observations=batch, space=self.observation_space)
        self._normalizer.update(result.observations, acted_on(result))
        return super().after_step(result)

    def after_reset(self, result: VecResetResult, mask: NDArray[np.bool_]) -> VecResetResult:
        """Count the first observations, and those seen again after a row was lost; then normalise.

        The rows of the other slots are shown as they were, by the statistics before this call.
        """
        new = mask | (self.venv.lost_rows & ~result.dones)
        kept = np.flatnonzero(~new & ~result.dones)
        before = self._normalizer.normalize(result.observations) if self.updating and len(kept) else None
        if self.updating:
            self._normalizer.update(result.observations, None if new.all() else new)
        shown = super().after_reset(result, mask)
        if before is None:
            return shown
        batch = copy_batch(self.observation_space, shown.observations)
        copy_rows(batch, before, kept)
        return shown.replace(observations=finish_batch(self.observation_space, batch))


class VecNormalizeReward(NormalizesRewards, VecWrapper):
    """Divide rewards by the spread of the discounted returns of all slots: `r / sqrt(var(G) + epsilon)`.

    `G_t = gamma * G_{t-1} + r_t`, from 0 in every episode; the returns of a call are counted before they divide.
    Rewards are not shifted. Rows that are no transitions keep their reward and do not count. While the returns seen
    so far are all equal, their variance is 0 and the first rewards come out very large: `clip` holds them.

    Args:
        venv: the vector environment to wrap.
        gamma: discount of the returns, in `[0, 1]`.
        epsilon: added to the variance.
        clip: hold what is returned to `[-clip, clip]`.

    Attributes:
        return_rms: statistics of the discounted returns.
        update_running_mean: set it to False to freeze them, or use `with vec.freeze():`.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(self, venv: VecEnv, gamma: float = 0.99, epsilon: float = 1e-8, *, clip: float | None = None) -> None:
        super().__init__(venv)
        self._scaler = RewardScaler(self.num_envs, gamma, epsilon, clip)

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """Count the returns of the transitions, then scale their rewards.

        Raises:
            InvalidObservation: a reward is not finite; the message names the sub-environment, and nothing changes.
        """
        valid = ended = None
        if not result.plain:  # some row is no plain step
            # of an episode that lost a row the return begins anew
            self._scaler.returns[result.kind == RowKind.LOST] = 0.0
            valid, ended = result.valid, result.ended
        return result.replace(rewards=self._scaler.scale(result.rewards, valid, ended, self.updating))

    def after_reset(self, result: VecResetResult, mask: NDArray[np.bool_]) -> VecResetResult:
        """Begin the returns of the slots that were reset."""
        self._scaler.returns[mask] = 0.0
        return result
