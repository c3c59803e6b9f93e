"""Cash and shares are conserved, over 10,000 random steps of Trading-v0 and of Portfolio-v0.

Neither environment reports its holdings. They follow from what it does report: value held over price is shares, equity
less the values held is cash. A trade at the price before the move may turn one into the other, and nothing else may
change them but the cost and the interest that are reported.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sekai.envs.finance import PortfolioEnv, TradingEnv

STEPS = 10_000


def episodes(env: Any, rng: np.random.Generator, action: Any) -> Any:
    """Info before, and the result, of each of many random steps, at a cost that is drawn anew for each."""
    info = env.reset(seed=int(rng.integers(1000))).info
    for _ in range(STEPS):
        env.cost_model = float(rng.choice([0.0, rng.uniform(0.0, 0.02)]))
        result = env.step(action(rng))
        yield info, result
        info = env.reset().info if result.done else result.info


def test_trading_conserves_cash_and_shares() -> None:
    env = TradingEnv(
        positions=(-2.0, -1.0, -0.4, 0.0, 0.3, 1.0, 2.5),
        sigma=4.0,
        lookback=1,
        episode_length=60,
        cash_rate=0.02,
        margin_rate=0.1,
        borrow_rate=0.2,
    )
    ruins = flips = 0
    for before, result in episodes(env, np.random.default_rng(0), lambda rng: int(rng.integers(7))):
        after, equity = result.info, before["equity"]
        shares = before["position"] * equity / before["price"]
        cash = equity - shares * before["price"]
        if after["equity"] <= 0:  # the exposure of nothing says nothing of the shares
            ruins += 1
            continue
        new_shares = after["position"] * after["equity"] / after["price"]
        new_cash = after["equity"] - new_shares * after["price"]
        paid = (after["cost"] - after["carry"]) * equity
        scale = 1 + abs(new_shares) * after["price"] + abs(shares) * before["price"]
        assert abs(new_cash - (cash - (new_shares - shares) * before["price"] - paid)) < 1e-13 * scale
        assert math.isclose(after["turnover"] * equity, abs(new_shares - shares) * before["price"], abs_tol=1e-12)
        assert math.isclose(after["cost"], env.transaction_cost * after["turnover"], rel_tol=1e-12)
        flips += new_shares * shares < 0
    assert ruins > 5 and flips > 1000, "the walk has been everywhere"


def test_a_portfolio_conserves_cash_and_shares() -> None:
    env = PortfolioEnv(n_assets=3, sigma=1.2, lookback=1, episode_length=60, allow_short=True)
    prices = np.ones(3)  # of the row before, since only their changes are reported
    ruins = flips = 0

    def action(rng: np.random.Generator) -> Any:
        return rng.uniform(-1, 1, 3).astype(np.float32)

    for before, result in episodes(env, np.random.default_rng(1), action):
        after, equity = result.info, before["equity"]
        shares = before["weights"][:3] * equity / prices
        new_prices = prices * (1 + after["asset_returns"])
        if after["equity"] <= 1e-8:
            ruins += 1
            continue
        new_shares = after["weights"][:3] * after["equity"] / new_prices
        cash, new_cash = before["weights"][3] * equity, after["weights"][3] * after["equity"]
        paid = after["cost"] * equity
        scale = 1 + np.abs(shares).sum() + np.abs(new_shares).sum()
        assert abs(new_cash - (cash - (new_shares - shares).sum() - paid)) < 1e-13 * scale
        assert math.isclose(after["turnover"] * equity, np.abs(new_shares - shares).sum(), abs_tol=1e-12)
        assert math.isclose(after["cost"], env.transaction_cost * after["turnover"], rel_tol=1e-12)
        assert math.isclose(after["weights"].sum(), 1.0, rel_tol=1e-12)
        flips += bool((new_shares * shares < 0).any())
    assert flips > 1000
