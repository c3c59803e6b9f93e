"""Markets: price histories, episode samplers, costs, measures of performance."""

from __future__ import annotations

from sekai.finance import datasets
from sekai.finance.costs import ProportionalCost
from sekai.finance.data import MarketData
from sekai.finance.metrics import max_drawdown, sharpe_ratio
from sekai.finance.samplers import EpisodeSampler, FixedStart, RandomStart, SequentialStart

__all__ = [
    "EpisodeSampler",
    "FixedStart",
    "MarketData",
    "ProportionalCost",
    "RandomStart",
    "SequentialStart",
    "datasets",
    "max_drawdown",
    "sharpe_ratio",
]
