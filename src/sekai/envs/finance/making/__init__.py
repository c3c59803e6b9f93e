"""MarketMaking-v0: quote a bid and an ask around a mid price, and carry what gets filled."""

from __future__ import annotations

from sekai.envs.finance.making.env import MarketMakingEnv
from sekai.envs.finance.making.vec import MarketMakingVecEnv

__all__ = ["MarketMakingEnv", "MarketMakingVecEnv"]
