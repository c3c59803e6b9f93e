"""Histories and small helpers that the tests of Trading-v0 share."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.core import StepResult
from sekai.envs.finance import TradingEnv

HISTORY = 100 * np.exp(np.cumsum(np.random.default_rng(0).normal(0.0, 0.01, 179)))
TRADING: dict[str, Any] = {"prices": HISTORY, "episode_length": 21, "lookback": 10}


def on_prices(*prices: float, **arguments: Any) -> TradingEnv:
    """An environment whose one episode runs through `prices`, ready to step."""
    defaults: dict[str, Any] = {"lookback": 1, "episode_length": len(prices) - 1, "transaction_cost": 0.0}
    if "cost_model" in arguments:
        del defaults["transaction_cost"]
    env = TradingEnv([prices[0], *prices], **{**defaults, **arguments})
    env.reset(seed=0)
    return env


def run(env: TradingEnv, actions: Any) -> list[StepResult]:
    """Results of `actions`, up to the end of the episode."""
    results = []
    for action in actions:
        results.append(env.step(int(action)))
        if results[-1].done:
            break
    return results
