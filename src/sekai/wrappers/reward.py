"""Reward wrappers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from sekai.core.results import ResetResult, StepResult
from sekai.core.wrapper import RewardWrapper, Wrapper
from sekai.wrappers.normalizing import NormalizesRewards, RewardScaler


class ClipReward(RewardWrapper):
    """Clip every reward to `[min_reward, max_reward]`; NaN stays NaN.

    Args:
        env: the environment to wrap.
        min_reward: lower bound, `-inf` for none.
        max_reward: upper bound, `inf` for none.

    Raises:
        ValueError: `min_reward` is not below `max_reward`, or both are infinite.
    """

    vector_version = "VecClipReward"

    def __init__(
        self, env: gymnasium.Env[Any, Any], min_reward: float = -math.inf, max_reward: float = math.inf
    ) -> None:
        super().__init__(env)
        self.min_reward, self.max_reward = check_bounds(min_reward, max_reward, name="ClipReward")

    def reward(self, reward: float) -> float:
        """`reward` within bounds."""
        if math.isnan(reward):
            return reward
        return min(max(float(reward), self.min_reward), self.max_reward)


class TransformReward(RewardWrapper):
    """Apply `func` to every reward.

    Args:
        env: the environment to wrap.
        func: reward in, reward out.
    """

    vector_version = "VecTransformReward"

    def __init__(self, env: gymnasium.Env[Any, Any], func: Callable[[float], float]) -> None:
        super().__init__(env)
        self.func = func

    def reward(self, reward: float) -> float:
        """`func(reward)`."""
        return self.func(reward)


class NormalizeReward(NormalizesRewards, Wrapper):
    """Divide every reward by the spread of the discounted returns: `r / sqrt(var(G) + epsilon)`.

    `G_t = gamma * G_{t-1} + r_t`, from 0 in every episode; the return of this step is counted before it divides.
    Rewards are not shifted. While the returns seen so far are all equal, their variance is 0 and the first rewards
    come out very large: `clip` holds them.

    Args:
        env: the environment to wrap.
        gamma: discount of the returns, in `[0, 1]`.
        epsilon: added to the variance.
        clip: hold what is returned to `[-clip, clip]`.

    Attributes:
        return_rms: statistics of the discounted returns.
        update_running_mean: set it to False to freeze them, or use `with env.freeze():`.

    Raises:
        ValueError: an argument out of range.
    """

    counts_rows = True
    vector_version = "VecNormalizeReward"

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        gamma: float = 0.99,
        epsilon: float = 1e-8,
        *,
        clip: float | None = None,
    ) -> None:
        super().__init__(env)
        self._scaler = RewardScaler(1, gamma, epsilon, clip)

    def after_step(self, result: StepResult) -> StepResult:
        """Count the return, then scale the reward.

        Raises:
            InvalidObservation: the reward is not finite; it does not count.
        """
        ended = np.ones(1, bool) if result.done else None
        scaled = self._scaler.scale(np.array([result.reward], np.float64), None, ended, self.updating)
        return result._replace(reward=float(scaled[0]))

    def after_reset(self, result: ResetResult) -> ResetResult:
        """Begin a return."""
        self._scaler.returns[:] = 0.0
        return result


def check_bounds(low: float, high: float, *, name: str) -> tuple[float, float]:
    """The bounds of a reward as floats.

    Raises:
        ValueError: the first is not below the second, or both are infinite.
    """
    if not low < high or (math.isinf(low) and math.isinf(high)):
        raise ValueError(
            f"{name}(min_reward={low}, max_reward={high}): expected min_reward < max_reward, at least one of them "
            "finite."
        )
    return float(low), float(high)
