"""Who owes a fee in Portfolio-v0, and that nothing else is lost: money in, money out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.envs.finance import PortfolioEnv
from sekai.envs.finance.portfolio import kernel as pk
from sekai.finance import FixedCost, ProportionalCost, SquareRootImpact
from tests.envs.finance.portfolio_samples import on_moves

KERNELS = pytest.mark.parametrize("kernel", [pk.trade_all, pk.trade_all.compiled], ids=["python", "machine"])


def cost_of(kernel: Any, held: Any, targets: Any, equity: float = 1.0, **coefficients: Any) -> float:
    """Cost of a trade of one slot, a fraction of its equity; NaN where all is closed instead."""
    held, targets = (np.array([[*weights, 1 - sum(weights)]], float).T.copy() for weights in (held, targets))
    assets = np.zeros((pk.FACTOR + len(held) - 1, len(held) - 1))
    for row, name in ((pk.RATE, "rate"), (pk.FEE, "fee"), (pk.IMPACT, "impact")):
        assets[row] = coefficients.get(name, 0.0)
    turnover, cost, wanted = np.empty(1), np.empty(1), targets.copy()
    kernel(np.array([equity]), held, targets, assets, turnover, cost)
    return float(cost[0]) if np.array_equal(targets, wanted) else np.nan


@KERNELS
def test_an_asset_that_is_left_alone_pays_no_fee(kernel: Any) -> None:
    # asset 0 trades for nothing, so that asset 1 stays at half of an equity that is still 1
    assert cost_of(kernel, [0.2, 0.5], [0.3, 0.5], fee=(0.0, 0.01)) == 0.0
    # neither does one that is neither held nor wanted, whatever the others pay
    assert cost_of(kernel, [0.2, 0.0], [0.3, 0.0], fee=(0.25, 0.01)) == 0.25


@KERNELS
def test_an_asset_that_must_follow_pays_its_fee(kernel: Any) -> None:
    # the fee of asset 0 leaves 0.75 of the equity: half of that is less than asset 1 has, so it is sold a little too
    assert cost_of(kernel, [0.2, 0.5], [0.3, 0.5], fee=(0.25, 0.01)) == 0.26
    # wherever it stands in the order of the assets: 0.01 + 0.02 + 0.25
    assert cost_of(kernel, [0.5, 0.5, 0.2], [0.5, 0.5, 0.3], fee=(0.01, 0.02, 0.25)) == pytest.approx(0.28, rel=1e-15)
    # half the equity, and half the fees: the same fractions
    assert cost_of(kernel, [0.2, 0.5], [0.3, 0.5], equity=0.5, fee=(0.125, 0.005)) == 0.26


@KERNELS
def test_an_episode_that_is_over_trades_nothing(kernel: Any) -> None:
    for equity in (0.0, -0.5):
        turnover, cost = np.ones(1), np.ones(1)
        held, targets = np.array([[3.0], [-2.0]]), np.array([[0.0], [1.0]])
        kernel(np.array([equity]), held, targets, np.ones((pk.FACTOR + 1, 1)), turnover, cost)
        assert np.array_equal(targets, held) and (turnover[0], cost[0]) == (0.0, 0.0)


@KERNELS
def test_costs_that_no_trade_can_pay_close_what_is_held(kernel: Any) -> None:
    # m = 1 - 2 (1.5 - m)^1.5 has no root: the right side is 0.29 at m = 1, and at 0.5 below 0. At 1 already it rises
    # faster than m, by 3 * 0.5^0.5
    assert np.isnan(cost_of(kernel, [1.5], [1.0], impact=2.0))
    # m = 1 - 1.5 (1 - 0.5 m)^1.5 has no root: the right side is 0.47 at m = 1, -0.05 at 0.42, -0.5 at 0, and concave
    assert np.isnan(cost_of(kernel, [1.0], [0.5], impact=1.5))
    # m = 1 - 0.875 (1.14 - m)^1.5 has two, and the one that leaves more is taken: at m = 0, 0.5 and 1 the right side is
    # -0.07, 0.552 (0.64^1.5 = 0.512) and 0.954, less, more and less than m
    cost = cost_of(kernel, [1.14], [1.0], impact=0.875)
    assert 0.5 < 1 - cost < 1.0
    assert cost == pytest.approx(0.875 * (1.14 - (1 - cost)) ** 1.5, rel=1e-14)


def fractions(low: float, high: float) -> Any:
    return st.lists(st.floats(low, high), min_size=3, max_size=3).map(np.array)


@KERNELS
@settings(max_examples=300)
@given(
    equity=st.floats(0.01, 50.0),
    held=fractions(-1.5, 1.5),
    wanted=fractions(-1.0, 1.0),
    rate=fractions(0.0, 0.3),
    fee=fractions(0.0, 0.2),
    impact=fractions(0.0, 1.0),
)
def test_what_is_left_solves_the_equation_of_all_costs_or_nothing_does(
    kernel: Any, equity: float, held: Any, wanted: Any, rate: Any, fee: Any, impact: Any
) -> None:
    targets = wanted / max(1.0, np.abs(wanted).sum())
    if np.abs(targets - held).max() <= pk.NO_TRADE:
        return  # nothing to solve, see test_cost_models

    def excess(left: Any) -> Any:
        """How much the two sides of the equation differ, in fractions of the equity; below 0 where too much is left."""
        sizes = np.abs(np.multiply.outer(left, targets) - held)
        owed = (np.abs(targets - held) > pk.NO_TRADE) | (sizes > pk.NO_TRADE)
        money = equity * sizes
        return 1.0 - (fee * owed + rate * money + impact * money**1.5).sum(axis=-1) / equity - left

    cost = cost_of(kernel, held, targets, equity, rate=rate, fee=fee, impact=impact)
    above = np.linspace(0.0, 1.0, 101)[1:]
    if np.isnan(cost):
        assert (excess(above) < 0).all()  # more equity is missing than there is, whatever is left
    else:
        assert abs(excess(1.0 - cost)) < 1e-14 * (1 + np.sqrt(equity))
        assert (excess(above[above > 1.0 - cost + 1e-6]) < 0).all()  # there is no trade that leaves more
    # buying and selling are mirror images
    mirrored = cost_of(kernel, -held, -targets, equity, rate=rate, fee=fee, impact=impact)
    assert mirrored == pytest.approx(cost, rel=1e-12, abs=1e-15, nan_ok=True)


def test_the_first_order_cost_leaves_too_much() -> None:
    # the negative control: the cost of the trades as they would be without one, 0.02 * 0.8 + 0.01 + 0.05 * 0.8^1.5
    first_order = 0.02 * 0.8 + 0.01 + 0.05 * 0.8**1.5
    cost = cost_of(pk.trade_all, [0.0], [0.8], rate=0.02, fee=0.01, impact=0.05)
    size = 0.8 * (1 - cost)
    assert cost == pytest.approx(0.02 * size + 0.01 + 0.05 * size**1.5, rel=1e-14)
    assert abs(first_order - cost) > 3e-3


@pytest.mark.parametrize("allow_short", [False, True])
def test_equity_changes_by_what_the_shares_earn_less_the_cost(allow_short: bool) -> None:
    rng = np.random.default_rng(0)
    length, n = 300, 3
    costs = ProportionalCost((1e-3, 0.0, 2e-3)) + FixedCost(1e-5) + SquareRootImpact(0.02, (4.0, 9.0, 1.0))
    env = on_moves(*np.exp(rng.normal(0.0, 0.02, (length, n))), cost_model=costs, allow_short=allow_short)
    prices: Any = env.prices
    rates, fees, impacts = costs.coefficients(n)
    equity, shares = 1.0, np.zeros(n)
    for step in range(length):
        action = rng.uniform(-1, 1, n) if allow_short else rng.random(n + 1)
        info = env.step(action.astype(np.float32)).info
        before, after = prices[1 + step], prices[2 + step]
        held = info["weights"][:-1] * info["equity"] / after
        trades = np.abs(held - shares) * before
        paid = (fees + rates * trades + impacts * trades**1.5).sum()
        assert info["cost"] * equity == pytest.approx(paid, abs=1e-12)
        assert info["equity"] - equity == pytest.approx((held * (after - before)).sum() - paid, abs=1e-12)
        equity, shares = info["equity"], held


def test_a_fee_weighs_more_as_equity_falls() -> None:
    # 1 % of the start each time: of 0.99 after the first, halved by the market, 0.01 / 0.495
    env = on_moves(0.5, 1.0, cost_model=FixedCost(0.01))
    first = env.step(np.array([1.0, 0.0], np.float32)).info
    second = env.step(np.array([0.0, 1.0], np.float32)).info
    assert (first["equity"], second["equity"]) == (pytest.approx(0.495), pytest.approx(0.485))
    assert second["cost"] == pytest.approx(0.01 / 0.495)
    assert isinstance(env, PortfolioEnv)
