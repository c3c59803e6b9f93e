"""Finance environments, each as a single environment and a native vector environment of one dynamics."""

from __future__ import annotations

from sekai.envs.finance.execution import OptimalExecutionEnv, OptimalExecutionVecEnv
from sekai.envs.finance.making import MarketMakingEnv, MarketMakingVecEnv
from sekai.envs.finance.portfolio import PortfolioEnv, PortfolioVecEnv
from sekai.envs.finance.trading import TradingEnv, TradingVecEnv

__all__ = [
    "MarketMakingEnv",
    "MarketMakingVecEnv",
    "OptimalExecutionEnv",
    "OptimalExecutionVecEnv",
    "PortfolioEnv",
    "PortfolioVecEnv",
    "TradingEnv",
    "TradingVecEnv",
]
