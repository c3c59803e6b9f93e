"""Reward wrappers."""

from __future__ import annotations

import math
from typing import Any

import gymnasium

from sekai.core.wrapper import RewardWrapper


class ClipReward(RewardWrapper):
    """Clip every reward to `[low, high]`.

    Args:
        env: the environment to wrap.
        low: lower bound, `-inf` for none.
        high: upper bound, `inf` for none.

    Raises:
        ValueError: `low` is not below `high`, or both are infinite.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], low: float = -math.inf, high: float = math.inf) -> None:
        super().__init__(env)
        if not low < high or (math.isinf(low) and math.isinf(high)):
            raise ValueError(f"ClipReward(low={low}, high={high}): expected low < high, at least one of them finite.")
        self.low, self.high = float(low), float(high)

    def reward(self, reward: float) -> float:
        """`reward` clipped; NaN stays NaN."""
        if math.isnan(reward):
            return reward
        return min(max(float(reward), self.low), self.high)
