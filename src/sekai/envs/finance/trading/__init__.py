"""Trading-v0: one asset, a few target exposures, on a real or a simulated history."""

from __future__ import annotations

from sekai.envs.finance.trading.env import TradingEnv
from sekai.envs.finance.trading.vec import TradingVecEnv

__all__ = ["TradingEnv", "TradingVecEnv"]
