"""The ledger of Portfolio-v0: numbers worked out by hand, and identities that hold for every path."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.envs.finance import PortfolioEnv
from sekai.envs.finance.portfolio import kernel as pk
from sekai.finance import ProportionalCost
from tests.envs.finance.portfolio_samples import on_moves, run

KERNELS = pytest.mark.parametrize("remaining", [pk.remaining, pk.remaining.compiled], ids=["python", "machine"])


def left_after(remaining: Any, held: Any, targets: Any, rates: Any) -> float:
    left = np.empty(1)
    remaining(np.array([held], float).T.copy(), np.array([targets], float).T.copy(), np.array(rates, float), left)
    return float(left[0])


# ---- the cost of a trade --------------------------------------------------------------------------

HELD, TARGETS = (0.2, 0.3, 0.5), (0.5, 0.2, 0.2)
# buys .5 - .2, sales of the others: m = (1 - c (.3 + .5 - .2)) / (1 - c (.2 + .2 - .5)) = (1 - .6 c) / (1 + .1 c)
GOLDEN = {1e-3: 0.9993000699930007, 1e-2: 0.993006993006993}


@KERNELS
@pytest.mark.parametrize("rate", GOLDEN)
def test_the_golden_numbers_of_the_fixed_point(remaining: Any, rate: float) -> None:
    left = left_after(remaining, HELD, TARGETS, [rate] * 3)
    assert left == pytest.approx(GOLDEN[rate], rel=2e-16)
    assert left == pytest.approx((1 - 0.6 * rate) / (1 + 0.1 * rate), rel=2e-16)


@pytest.mark.parametrize("rate", GOLDEN)
def test_first_order_costs_are_measurably_wrong(rate: float) -> None:
    first_order = 1 - rate * sum(abs(w - h) for w, h in zip(TARGETS, HELD, strict=True))
    assert abs(first_order - GOLDEN[rate]) > 6e-8


@KERNELS
def test_every_asset_has_its_own_rate(remaining: Any) -> None:
    # sell all of the first at 10 %, buy the second at 1 %: m = 1 - .1 * 1 - .01 m
    assert left_after(remaining, [1, 0], [0, 1], [0.1, 0.01]) == pytest.approx(0.9 / 1.01, rel=1e-15)
    assert left_after(remaining, [0, 1], [1, 0], [0.1, 0.01]) == pytest.approx(0.99 / 1.1, rel=1e-15)


@KERNELS
def test_a_trade_that_the_cost_itself_turns_round_is_still_solved(remaining: Any) -> None:
    # selling the first at 50 % leaves so little that the second is sold too, though its target is above what is held:
    # m = 1 - .5 (.6) - .5 (.4 - .41 m) = .5 + .205 m
    assert left_after(remaining, [0.6, 0.4], [0.0, 0.41], [0.5, 0.5]) == pytest.approx(0.5 / 0.795, rel=1e-15)


@settings(max_examples=300)
@given(st.data())
def test_what_is_left_solves_the_equation_to_rounding(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 6))
    numbers = st.floats(-1.0, 1.0)
    held = np.array(data.draw(st.lists(numbers, min_size=n, max_size=n)))
    targets = np.array(data.draw(st.lists(numbers, min_size=n, max_size=n)))
    targets /= max(np.abs(targets).sum(), 1.0)
    rates = np.array(data.draw(st.lists(st.floats(0.0, 0.9), min_size=n, max_size=n)))
    left = left_after(pk.remaining, held, targets, rates)
    # exactly, in rationals
    cost = sum(
        Fraction(c) * abs(Fraction(left) * Fraction(w) - Fraction(h))
        for c, w, h in zip(rates, targets, held, strict=True)
    )
    slope = 1 - sum(rates * np.abs(targets))  # how much an error in m shows in the equation, at least
    assert abs(float(1 - cost - Fraction(left))) < 2e-15 * n / max(slope, 1e-3)
    assert left_after(pk.remaining.compiled, held, targets, rates) == left


def test_a_trade_through_the_environment_pays_the_golden_cost() -> None:
    # the prices stand still: only the trades move equity
    env = on_moves([1.0] * 3, [1.0] * 3, transaction_cost=0.01)
    first = env.step(np.array([0.25, 0.25, 0.5, 0.0], np.float32)).info
    # from cash: m = 1 - .01 m
    assert first["equity"] == pytest.approx(1 / 1.01, rel=1e-15) and first["cost"] == pytest.approx(0.01 / 1.01)
    assert first["turnover"] == pytest.approx(1 / 1.01, rel=1e-15)
    second = env.step(np.array([0.5, 0.25, 0.0, 0.25], np.float32)).info
    # buy the first, hold the second but for the cost, sell the third:
    # m = 1 - .01 ((.5 m - .25) + (.25 - .25 m) + .5) -> m (1 + .0025) = 1 - .005
    left = 0.995 / 1.0025
    assert second["equity"] == pytest.approx(left / 1.01, rel=1e-14)
    assert second["turnover"] == pytest.approx(0.25 * left + 0.5, rel=1e-14)
    assert second["cost"] == pytest.approx(1 - left, rel=1e-12)  # fractions of the equity before this trade
    assert second["weights"] == pytest.approx([0.5, 0.25, 0.0, 0.25], rel=1e-14)


def test_cash_to_asset_and_asset_to_cash_cost_the_same() -> None:
    # U87: 1 % of the value traded, on the risky leg alone; a cash leg would double it
    bought, sold = (result.info for result in run(on_moves(1.0, 1.0, transaction_cost=0.01), [[1, 0], [0, 1]]))
    assert bought["cost"] == pytest.approx(0.01 * bought["turnover"], rel=1e-14)
    assert sold["cost"] == pytest.approx(0.01, rel=1e-14) and sold["turnover"] == pytest.approx(1.0)
    # the same value traded costs the same: 1 / 1.01 was bought, and sold again
    assert bought["turnover"] == pytest.approx(1 / 1.01) and sold["cost"] * bought["equity"] == bought["cost"]


def test_no_trade_after_a_drift_costs_nothing() -> None:
    # U87: the first asset doubles; a half in each becomes 2/3 and 1/3, and with all in one asset it stays 1
    env = on_moves([2.0, 1.0], [1.0, 1.0], [1.0, 1.0], transaction_cost=0.05)
    (first,) = run(env, [[0.5, 0.5, 0.0]])
    assert first.info["weights"] == pytest.approx([2 / 3, 1 / 3, 0.0], rel=1e-15)
    held = env.step(env.weights).info
    assert held["turnover"] < 1e-7 and held["cost"] < 1e-8  # the action is a float32
    back = env.step(np.array([0.5, 0.5, 0.0])).info
    assert back["turnover"] > 0.3  # negative control: the weights before the drift are a trade
    whole = run(on_moves([1.7, 1.0], [0.9, 1.0], [1.3, 1.0], transaction_cost=0.05), [[1, 0, 0]] * 3)
    assert [result.info["turnover"] for result in whole[1:]] == [0.0, 0.0]
    assert [result.info["cost"] for result in whole[1:]] == [0.0, 0.0]


def test_costs_per_asset_reach_the_ledger() -> None:
    env = on_moves([1.0, 1.0], [1.0, 1.0], cost_model=[0.1, 0.0])
    first, second = (result.info for result in run(env, [[0, 1, 0], [1, 0, 0]]))
    assert first["cost"] == 0.0 and second["cost"] == pytest.approx(0.1 / 1.1)
    assert env.transaction_cost == (0.1, 0.0) and env.cost_model == ProportionalCost([0.1, 0.0])


# ---- one step -------------------------------------------------------------------------------------


def test_growth_is_that_of_the_weights_after_the_cost() -> None:
    # U77: .5 and .25 of 1/(1 + .75 c) held, cash .25; growth .5 * 1.1 + .25 * .8 + .25 = 1.0
    env = on_moves([1.1, 0.8], transaction_cost=0.02)
    (result,) = run(env, [[0.5, 0.25, 0.25]])
    left = 1 / (1 + 0.75 * 0.02)
    assert result.info["equity"] == pytest.approx(left * 1.0, rel=1e-14)
    assert result.reward == pytest.approx(math.log(left), rel=1e-12)
    assert result.info["weights"] == pytest.approx([0.55, 0.2, 0.25], rel=1e-14)
    assert result.info["asset_returns"] == pytest.approx([0.1, -0.2], rel=1e-14)
    assert result.info["portfolio_value"] == pytest.approx(1e6 * left, rel=1e-14)
    np.testing.assert_array_equal(result.observation["weights"], np.array([0.55, 0.2, 0.25], np.float32))


def test_a_short_sale_gains_when_the_price_falls_and_its_proceeds_are_cash() -> None:
    # -.5 and .5: cash 1; growth 1 - .5 * .8 + .5 * 1.2 = 1.2
    env = on_moves([0.8, 1.2], allow_short=True)
    (result,) = run(env, [[-0.5, 0.5]])
    assert result.info["equity"] == pytest.approx(1.2, rel=1e-15)
    assert result.info["weights"] == pytest.approx([-0.4 / 1.2, 0.6 / 1.2, 1.0 / 1.2], rel=1e-14)


def test_long_and_short_pay_the_same_cost_on_a_mirrored_trade() -> None:
    costs = [
        run(on_moves([1.0, 1.0], allow_short=True, transaction_cost=0.03), [action])[0].info["cost"]
        for action in ([0.3, -0.6], [-0.3, 0.6])
    ]
    assert costs[0] == costs[1] > 0


# ---- from action to weights -----------------------------------------------------------------------


def targets_of(action: Any, short: bool = False) -> list[float]:
    actions = np.array([action], np.float32)
    weights = np.empty((len(action) + short, 1))
    pk.aim(actions, short, weights)
    machine = np.empty_like(weights)
    pk.aim.compiled(actions, short, machine)
    assert np.array_equal(weights, machine)
    return [float(weight) for weight in weights[:, 0]]


def test_points_of_the_simplex_are_taken_as_they_are() -> None:
    # U88; a softmax of (.5, .25, .25) would be (.39, .30, .30)
    for action in ([0.5, 0.25, 0.25], [1, 0, 0], [0, 0, 1], [0.125, 0.875, 0]):
        assert targets_of(action) == action


def test_other_actions_are_divided_by_their_sum_and_nothing_is_all_cash() -> None:
    assert targets_of([1, 1, 0]) == [0.5, 0.5, 0.0]
    assert targets_of([0.25, 0, 0.25]) == [0.5, 0.0, 0.5]
    assert targets_of([0, 0, 0]) == [0.0, 0.0, 1.0]


def test_with_short_sales_the_sizes_sum_to_one_at_most_and_cash_is_the_rest() -> None:
    assert targets_of([-0.5, 0.25], short=True) == [-0.5, 0.25, 1.25]
    assert targets_of([-1, 1], short=True) == [-0.5, 0.5, 1.0]
    assert targets_of([-1, -1], short=True) == [-0.5, -0.5, 2.0]
    assert targets_of([0, 0], short=True) == [0.0, 0.0, 1.0]
    assert targets_of([1, 0], short=True) == [1.0, 0.0, 0.0]


# ---- identities on every path ---------------------------------------------------------------------


@st.composite
def situations(draw: Any) -> tuple[dict[str, Any], list[list[float]]]:
    length, n, short = draw(st.integers(1, 20)), draw(st.integers(1, 4)), draw(st.booleans())
    moves = draw(st.lists(st.lists(st.floats(-0.4, 0.4), min_size=n, max_size=n), min_size=length, max_size=length))
    arguments = {
        "prices": 50 * np.exp(np.cumsum([[0.0] * n, [0.0] * n, *moves], axis=0)),
        "lookback": 1,
        "episode_length": length,
        "cost_model": draw(st.lists(st.floats(0.0, 0.2), min_size=n, max_size=n)),
        "allow_short": short,
        "ruin_fraction": draw(st.sampled_from([0.0, 0.5])),
    }
    entries, low = (n, -1) if short else (n + 1, 0)
    action = st.lists(st.floats(low, 1, width=32), min_size=entries, max_size=entries)
    return arguments, draw(st.lists(action, min_size=length, max_size=length))


@settings(max_examples=150)
@given(situations())
def test_the_ledger_balances_at_every_step(situation: tuple[dict[str, Any], list[list[float]]]) -> None:
    arguments, actions = situation
    env = PortfolioEnv(**arguments)
    env.reset(seed=0)
    equity, weights = 1.0, env.weights
    for action, result in zip(actions, run(env, actions), strict=False):
        info = result.info
        target = targets_of(action, arguments["allow_short"])
        left = 1 - info["cost"]
        gain = sum(w * r for w, r in zip(target, info["asset_returns"], strict=False))
        assert info["equity"] == pytest.approx(equity * left * (1 + gain), abs=1e-14)
        # shares are conserved: what is held after the move is what was held after the trade, at the new price
        held = [left * w * (1 + r) / (left * (1 + gain)) for w, r in zip(target, info["asset_returns"], strict=False)]
        if info["equity"] > 1e-6:
            assert info["weights"][:-1] == pytest.approx(held, abs=1e-12 / info["equity"])
            assert info["weights"].sum() == pytest.approx(1.0, abs=1e-12 / info["equity"])
        trades = [abs(left * w - h) for w, h in zip(target[:-1], weights[:-1], strict=True)]
        assert info["turnover"] == pytest.approx(sum(trades), abs=1e-13)
        paid = sum(c * t for c, t in zip(arguments["cost_model"], trades, strict=True))
        assert info["cost"] == pytest.approx(paid, abs=1e-13)
        equity, weights = info["equity"], info["weights"]


@settings(max_examples=150)
@given(situations())
def test_rewards_add_up_to_the_log_growth_of_equity(situation: tuple[dict[str, Any], list[list[float]]]) -> None:
    arguments, actions = situation
    env = PortfolioEnv(**arguments)
    env.reset(seed=0)
    results = run(env, actions)
    # U86, R1; the floor enters on ruin only
    growth = math.log(max(results[-1].info["equity"], pk.FLOOR))
    assert sum(result.reward for result in results) == pytest.approx(growth, abs=1e-12)


@settings(max_examples=60)
@given(situations(), st.randoms(use_true_random=False))
def test_the_order_of_the_assets_does_not_matter(
    situation: tuple[dict[str, Any], list[list[float]]], random: Any
) -> None:
    arguments, actions = situation
    n = len(arguments["cost_model"])
    order = list(range(n))
    random.shuffle(order)
    other = {
        **arguments,
        "prices": arguments["prices"][:, order],
        "cost_model": [arguments["cost_model"][j] for j in order],
    }
    permuted = [[action[j] for j in order] + action[n:] for action in actions]
    tapes = []
    for given_arguments, given_actions in ((arguments, actions), (other, permuted)):
        env = PortfolioEnv(**given_arguments)
        env.reset(seed=0)
        tapes.append(run(env, given_actions))
    for a, b in zip(*tapes, strict=True):
        assert a.info["equity"] == pytest.approx(b.info["equity"], rel=1e-11, abs=1e-13)
        assert a.info["cost"] == pytest.approx(b.info["cost"], rel=1e-9, abs=1e-13)
        if a.info["equity"] > 1e-3:
            assert a.info["weights"][[*order, n]] == pytest.approx(b.info["weights"], abs=1e-9)


# ---- ruin -----------------------------------------------------------------------------------------


def test_ruin_terminates_and_the_last_log_reward_stops_at_the_floor() -> None:
    # short by all of equity, and the price doubles: 2 - 2 = 0 is left
    results = run(on_moves([2.0], [1.0], allow_short=True), [[-1.0], [0.0]])
    assert len(results) == 1 and (results[0].terminated, results[0].truncated) == (True, False)
    assert results[0].info["equity"] == 0.0 and results[0].reward == math.log(1e-8)
    assert np.isfinite(results[0].observation["weights"]).all()


def test_less_than_the_floor_counts_as_nothing() -> None:
    results = run(on_moves([1e-9], [1.0]), [[1.0, 0.0]] * 2)
    assert len(results) == 1 and results[0].terminated
    assert results[0].info["equity"] == pytest.approx(1e-9) and results[0].reward == math.log(1e-8)


def test_a_debt_is_reported_and_rewarded_as_the_floor() -> None:
    (result,) = run(on_moves([3.0], allow_short=True), [[-1.0]])  # 2 - 3
    assert result.info["equity"] == -1.0 and result.reward == math.log(1e-8)
    assert (result.terminated, result.truncated) == (True, True)  # and it was the last row
    assert result.info["weights"] == pytest.approx([-3e8, 2e8])  # of the floor


def test_ruin_is_where_the_fraction_says() -> None:
    tape = [[1, 0]] * 3
    results = run(on_moves(0.7, 0.7, 2.0, ruin_fraction=0.5), tape)
    assert [result.terminated for result in results] == [False, True]
    assert results[-1].reward == pytest.approx(math.log(0.7))  # no floor above 1e-8
    assert len(run(on_moves(0.7, 0.7, 2.0, ruin_fraction=0.4), tape)) == 3
    assert run(on_moves(0.5, 1.0, ruin_fraction=0.5), tape)[0].terminated  # exactly there


def test_a_cover_that_costs_everything_ends_in_ruin() -> None:
    # short .8 of 1 / (1 + .8 * .4) = .7576 left, the price goes up by 90 %: 1.8 - 1.52 = .28 of it is left, and
    # 1.52 / .28 = 5.43 times that is owed: covering would cost .4 * 5.43 = 2.17 of what is left
    env = on_moves([1.9], [1.0], [1.0], allow_short=True, cost_model=0.4)
    results = run(env, [[-0.8], [-0.8], [0.0]])
    assert results[0].info["weights"][0] == pytest.approx(-1.52 / 0.28)
    assert results[1].terminated and results[1].info["weights"][0] == 0.0
    assert results[1].info["cost"] == pytest.approx(0.4 * 1.52 / 0.28)
    assert results[1].info["equity"] == pytest.approx(0.28 / 1.32 * (1 - 0.4 * 1.52 / 0.28))
