"""The ledger of Trading-v0: numbers worked out by hand, and identities that hold for every path."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.envs.finance import TradingEnv
from sekai.envs.finance.trading import kernel as tk
from tests.envs.finance.samples import on_prices, run

SHORT, FLAT, LONG = range(3)


# ---- one trade ------------------------------------------------------------------------------------

# value held, target, trade, equity afterwards; c = 0.001 and equity 1 before
GOLDEN = {
    # D = 1 / (1 + .001) ; 1 - .001 D
    "flat->long": (0.0, 1.0, 0.9990009990009991, 0.999000999000999),
    # D = (-1 - 1) / (1 + .001 * -1 * -1) = -2 / 1.001 ; 1 - .001 * 1.998
    "long->short": (1.0, -1.0, -1.9980019980019983, 0.998001998001998),
    # D = 1 / 1 ; 1 - .001
    "short->flat": (-1.0, 0.0, 1.0, 0.999),
}


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("retarget", [tk.retarget, tk.retarget.compiled], ids=["python", "machine"])
def test_the_golden_trades(name: str, retarget: Any) -> None:
    value, target, trade, equity = GOLDEN[name]
    assert retarget(1.0, value, target, 0.001)[0] == pytest.approx(trade, rel=1e-15)
    assert retarget(1.0, value, target, 0.001)[2] == pytest.approx(equity, rel=1e-15)


@pytest.mark.parametrize("name", GOLDEN)
def test_first_order_costs_are_measurably_wrong(name: str) -> None:
    value, target, _, equity = GOLDEN[name]
    first_order = 1 - 0.001 * abs(target - value)
    if name != "short->flat":  # a trade to nothing is the one case where both agree
        assert abs(first_order - equity) > 9e-7


def test_the_golden_trades_through_the_environment() -> None:
    # the price stands still, so that only the trades move equity
    results = run(on_prices(100.0, 100.0, 100.0, 100.0, transaction_cost=0.001), [LONG, SHORT, FLAT])
    first, second, third = (result.info for result in results)
    assert first["turnover"] == pytest.approx(0.9990009990009991, rel=1e-15)
    assert first["equity"] == pytest.approx(0.999000999000999, rel=1e-15)
    assert first["cost"] == pytest.approx(0.001 * 0.9990009990009991, rel=1e-14)
    assert first["position"] == 1.0
    # fractions of the equity before the trade: 2 / 1.001 again, though equity is no longer 1
    assert second["turnover"] == pytest.approx(1.9980019980019983, rel=1e-14)
    assert second["equity"] == pytest.approx(0.999000999000999 * 0.998001998001998, rel=1e-14)
    assert second["position"] == -1.0
    assert third["turnover"] == pytest.approx(1.0, rel=1e-14) and third["position"] == 0.0
    assert [result.reward for result in results] == pytest.approx(
        [-math.log(1.001), math.log(0.998001998001998), math.log(0.999)], rel=1e-12
    )


exposures = st.floats(-4.0, 4.0)
rates = st.floats(0.0, 0.2)


@given(equity=st.floats(0.1, 10.0), held=exposures, target=exposures, rate=rates)
def test_the_exposure_after_the_cost_is_the_target(equity: float, held: float, target: float, rate: float) -> None:
    trade, cost, after, exposure = tk.retarget(equity, held * equity, target, rate)
    assert after == pytest.approx(equity - rate * abs(trade), rel=1e-14, abs=1e-14)
    assert cost == pytest.approx(rate * abs(trade), rel=1e-14)
    if after > 0:
        # exact check in rationals: value after the trade over equity after the cost
        exact = (Fraction(held * equity) + Fraction(trade)) / (Fraction(equity) - Fraction(rate) * abs(Fraction(trade)))
        assert float(exact) == pytest.approx(target, rel=1e-9, abs=1e-9 * max(1.0, equity / after))
        assert exposure == target
    assert tk.retarget.compiled(equity, held * equity, target, rate) == (trade, cost, after, exposure)


def test_a_holding_whose_cost_takes_all_equity_is_closed() -> None:
    # 20 times leveraged at 10 %: leaving costs 2, equity is 1
    trade, cost, after, exposure = tk.retarget(1.0, 20.0, 1.0, 0.1)
    assert (trade, cost, after, exposure) == (-20.0, 2.0, -1.0, 0.0)


def test_buying_from_cash_and_selling_to_cash_cost_the_same() -> None:
    # U87: 0.01 of the value traded, on the risky leg alone; a cash leg would double it
    bought = run(on_prices(100.0, 100.0, transaction_cost=0.01), [LONG])[-1].info
    sold = run(on_prices(100.0, 100.0, 100.0, transaction_cost=0.01), [LONG, FLAT])[-1].info
    assert bought["cost"] == pytest.approx(0.01 * bought["turnover"]) and sold["cost"] == pytest.approx(0.01)
    assert sold["turnover"] == pytest.approx(1.0) and bought["turnover"] == pytest.approx(1 / 1.01)


def test_long_and_short_pay_the_same_cost_on_a_mirrored_trade() -> None:
    long, short = (tk.retarget(1.0, 0.0, target, 0.01) for target in (1.0, -1.0))
    assert long[0] == -short[0] and long[2] == short[2]


# ---- one step -------------------------------------------------------------------------------------


def test_a_trade_fills_at_the_price_observed_and_is_valued_at_the_next() -> None:
    # U77: buy at 100, the price goes to 110: equity is 1/1.001 * 1.1, no more and no less
    (result,) = run(on_prices(100.0, 110.0, transaction_cost=0.001), [LONG])
    assert result.info["equity"] == pytest.approx(1.1 / 1.001, rel=1e-15)
    assert result.reward == pytest.approx(math.log(1.1 / 1.001), rel=1e-14)
    assert result.info["asset_return"] == pytest.approx(0.1, rel=1e-14)
    assert result.info["price"] == 110.0


def test_short_gains_when_the_price_falls_and_its_exposure_drifts() -> None:
    # sold for 1, worth 0.9 now: equity 1.1, exposure -0.9 / 1.1
    (result,) = run(on_prices(100.0, 90.0), [SHORT])
    assert result.info["equity"] == pytest.approx(1.1, rel=1e-15)
    assert result.info["position"] == pytest.approx(-0.9 / 1.1, rel=1e-15)
    assert result.observation[-1] == np.float32(-0.9 / 1.1)


def test_always_trades_back_to_the_target_and_on_change_holds_its_shares() -> None:
    prices = (100.0, 80.0, 80.0, 80.0)
    always = run(on_prices(*prices, transaction_cost=0.01), [SHORT, SHORT, SHORT])
    held = run(on_prices(*prices, transaction_cost=0.01, rebalance="on_change"), [SHORT, SHORT, FLAT])
    assert always[1].info["turnover"] > 0.3 and always[1].info["position"] == -1.0
    assert held[1].info["turnover"] == held[1].info["cost"] == 0.0
    # drifted: sold x = 1/1.01 of equity 1/1.01 short, the price lost a fifth: -.8 / 1.2
    assert held[1].info["position"] == pytest.approx(-0.8 / 1.2, rel=1e-14)
    assert held[2].info["turnover"] == pytest.approx(0.8 / 1.2, rel=1e-14)


def test_on_change_begins_flat() -> None:
    results = run(on_prices(100.0, 120.0, 100.0, rebalance="on_change", transaction_cost=0.01), [FLAT, LONG])
    assert results[0].info["turnover"] == 0.0 and results[1].info["turnover"] == pytest.approx(1 / 1.01)


def test_a_fully_invested_holder_pays_nothing_more() -> None:
    results = run(on_prices(100.0, 130.0, 70.0, 110.0, transaction_cost=0.01), [LONG, LONG, LONG])
    assert [result.info["turnover"] for result in results[1:]] == [0.0, 0.0]
    assert results[-1].info["equity"] == pytest.approx(1.1 / 1.01, rel=1e-14)


# ---- interest -------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [tk.accrue, tk.accrue.compiled], ids=["python", "machine"])
@pytest.mark.parametrize(
    ("cash", "value", "equity", "interest"),
    [
        (1.0, 0.0, 1.0, 0.01),  # flat: all cash earns 1 %
        (0.5, 0.5, 1.0, 0.005),  # half invested
        (0.0, 1.0, 1.0, 0.0),  # fully invested
        (-1.0, 2.0, 1.0, -0.02),  # leveraged: 2 % on what is borrowed
        (2.0, -1.0, 1.0, 0.01 - 0.03),  # short: own cash earns, the proceeds do not, 3 % on the shares
    ],
)
def test_interest_by_hand(function: Any, cash: float, value: float, equity: float, interest: float) -> None:
    assert function(cash, value, equity, 0.01, 0.02, 0.03) == pytest.approx(interest, rel=1e-14)


def test_interest_of_a_short_held_over_ten_bars_is_settled_every_bar() -> None:
    # U76: at a still price, re-targeted at no cost, equity shrinks by 1 - 0.1/10 every bar; then long: no more
    results = run(on_prices(*[50.0] * 13, borrow_rate=0.1, dt=0.1), [SHORT] * 10 + [LONG] * 2)
    assert [result.info["equity"] for result in results[:10]] == pytest.approx([0.99**k for k in range(1, 11)])
    assert results[-1].info["equity"] == pytest.approx(0.99**10, rel=1e-14)
    assert results[0].info["carry"] == pytest.approx(-0.01, rel=1e-14) and results[-1].info["carry"] == 0.0


def test_cash_earns_and_margin_costs_over_the_bar() -> None:
    flat = run(on_prices(1.0, 1.0, cash_rate=0.05, dt=0.5), [FLAT])[0]
    assert flat.info["equity"] == pytest.approx(1.025) and flat.info["carry"] == pytest.approx(0.025)
    levered = run(on_prices(1.0, 1.0, positions=(3.0,), margin_rate=0.05, dt=0.5), [0])[0]
    assert levered.info["equity"] == pytest.approx(1 - 2 * 0.025)


# ---- identities on every path ---------------------------------------------------------------------


@st.composite
def situations(draw: Any) -> tuple[dict[str, Any], list[int]]:
    length = draw(st.integers(1, 25))
    moves = draw(st.lists(st.floats(-0.2, 0.2), min_size=length, max_size=length))
    positions = tuple(draw(st.lists(st.floats(-2.5, 2.5), min_size=1, max_size=4)))
    arguments = {
        "prices": 50 * np.exp(np.cumsum([0.0, 0.0, *moves])),
        "lookback": 1,
        "episode_length": length,
        "positions": positions,
        "transaction_cost": draw(st.floats(0.0, 0.1)),
        "rebalance": draw(st.sampled_from(["always", "on_change"])),
        "ruin_fraction": draw(st.sampled_from([0.0, 0.5])),
        **{name: draw(st.floats(0.0, 0.3)) for name in ("cash_rate", "margin_rate", "borrow_rate")},
    }
    return arguments, draw(st.lists(st.integers(0, len(positions) - 1), min_size=length, max_size=length))


@settings(max_examples=150)
@given(situations())
def test_the_ledger_balances_at_every_step(situation: tuple[dict[str, Any], list[int]]) -> None:
    arguments, actions = situation
    env = TradingEnv(**arguments)
    env.reset(seed=0)
    equity, price = 1.0, env.price
    for result in run(env, actions):
        info = result.info
        shares = info["position"] * max(info["equity"], tk.FLOOR) / info["price"]
        moved = shares * (info["price"] - price)
        expected = moved - info["cost"] * equity + info["carry"] * equity
        scale = 1 + abs(shares) * price
        assert info["equity"] - equity == pytest.approx(expected, abs=4e-15 * scale)
        assert info["cost"] == pytest.approx(arguments["transaction_cost"] * info["turnover"], rel=1e-13)
        equity, price = info["equity"], info["price"]


@settings(max_examples=150)
@given(situations())
def test_rewards_add_up_to_the_log_growth_of_equity(situation: tuple[dict[str, Any], list[int]]) -> None:
    arguments, actions = situation
    env = TradingEnv(**arguments)
    env.reset(seed=0)
    results = run(env, actions)
    # U86, R1; the floor enters on ruin only
    growth = math.log(max(results[-1].info["equity"], tk.FLOOR))
    assert sum(result.reward for result in results) == pytest.approx(growth, abs=1e-12)


# ---- ruin -----------------------------------------------------------------------------------------


def test_ruin_terminates_and_the_last_log_reward_stops_at_the_floor() -> None:
    # twice leveraged: the price halves, 2 * 0.5 - 1 = 0 is left
    results = run(on_prices(100.0, 50.0, 50.0, positions=(2.0,)), [0, 0])
    assert len(results) == 1
    assert (results[0].terminated, results[0].truncated) == (True, False)
    assert results[0].info["equity"] == pytest.approx(0.0, abs=1e-15)
    assert results[0].reward == math.log(1e-8)
    assert np.isfinite(results[0].observation).all()


def test_a_debt_is_reported_and_rewarded_as_the_floor() -> None:
    # three times leveraged: 3 * 0.5 - 2 = -0.5
    (result,) = run(on_prices(100.0, 50.0, positions=(3.0,)), [0])
    assert result.info["equity"] == pytest.approx(-0.5) and result.reward == math.log(1e-8)
    assert (result.terminated, result.truncated) == (True, True)  # and it was the last row


def test_ruin_is_where_the_fraction_says() -> None:
    prices = (100.0, 70.0, 49.0, 100.0)
    results = run(on_prices(*prices, ruin_fraction=0.5), [LONG] * 3)
    assert [result.terminated for result in results] == [False, True]
    assert results[-1].reward == pytest.approx(math.log(0.7))  # 49 / 70: no floor above 1e-8
    assert len(run(on_prices(*prices, ruin_fraction=0.4), [LONG] * 3)) == 3


def test_equity_exactly_at_the_fraction_is_ruin() -> None:
    assert run(on_prices(100.0, 50.0, 50.0, ruin_fraction=0.5), [LONG])[0].terminated


def test_a_trade_that_costs_everything_ends_in_ruin() -> None:
    # equity 1/1.9 after the cost, 4.5 times that held: 2.368, owing 1.842; the price falls to 0.81 of it:
    # 1.918 is held, 0.076 is owned, and getting out at 20 % costs 0.384
    arguments: dict[str, Any] = {"positions": (0.0, 4.5), "cost_model": 0.2, "rebalance": "on_change"}
    results = run(on_prices(100.0, 81.0, 150.0, 150.0, **arguments), [1, 0, 0])
    assert results[1].terminated and results[1].info["position"] == 0.0
    assert results[1].info["equity"] < 0  # the price rose by 85 %, and nothing was held any more
