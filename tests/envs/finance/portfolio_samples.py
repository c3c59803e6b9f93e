"""Histories and small helpers that the tests of Portfolio-v0 share."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.core import StepResult
from sekai.envs.finance import PortfolioEnv
from sekai.vector import VecStepResult

HISTORY = 100 * np.exp(np.cumsum(np.random.default_rng(0).normal(0.0, 0.02, (179, 3)), axis=0))
PORTFOLIO: dict[str, Any] = {"prices": HISTORY, "episode_length": 21, "lookback": 10}


def on_moves(*growths: Any, **arguments: Any) -> PortfolioEnv:
    """An environment whose one episode multiplies the prices by each of `growths`, ready to step."""
    n = max(np.size(growth) for growth in growths)
    prices = np.cumprod([np.ones(n), np.ones(n), *(np.ones(n) * growth for growth in growths)], axis=0)
    defaults: dict[str, Any] = {"lookback": 1, "episode_length": len(growths), "transaction_cost": 0.0}
    if "cost_model" in arguments:
        del defaults["transaction_cost"]
    env = PortfolioEnv(prices, **{**defaults, **arguments})
    env.reset(seed=0)
    return env


def run(env: PortfolioEnv, actions: Any) -> list[StepResult]:
    """Results of `actions`, up to the end of the episode."""
    results = []
    for action in actions:
        results.append(env.step(np.asarray(action, np.float32)))
        if results[-1].done:
            break
    return results


def same_observations(mine: Any, theirs: Any) -> None:
    """Two observations, or batches of them, are equal to the bit."""
    assert list(mine) == list(theirs) == ["returns", "weights"]
    for key, value in mine.items():
        assert value.dtype == theirs[key].dtype == np.float32 and np.array_equal(value, theirs[key]), key


def same_rows(native: VecStepResult, sync: VecStepResult) -> None:
    """Two results are equal to the bit, in every field, infos and types of info values included."""
    same_observations(native.observations, sync.observations)
    for name in ("rewards", "terminated", "truncated", "kind", "valid", "ended"):
        a, b = getattr(native, name), getattr(sync, name)
        assert a.dtype == b.dtype and np.array_equal(a, b), name
    for mine, theirs in zip(native.infos, sync.infos, strict=True):
        same_info(mine, theirs)


def same_info(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert list(mine) == list(theirs)
    for key, value in mine.items():
        if key in ("final_info", "reset_info"):
            same_info(value, theirs[key])
        elif key == "final_observation":
            same_observations(value, theirs[key])
        else:
            assert type(value) is type(theirs[key]) and np.array_equal(value, theirs[key]), key
            assert not isinstance(value, np.ndarray) or value.dtype == theirs[key].dtype
