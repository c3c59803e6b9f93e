"""Portfolio-v0: several assets and cash, on a real or a simulated history."""

from __future__ import annotations

from sekai.envs.finance.portfolio.env import PortfolioEnv
from sekai.envs.finance.portfolio.vec import PortfolioVecEnv

__all__ = ["PortfolioEnv", "PortfolioVecEnv"]
