"""The portfolio under a floor by hand, against `Portfolio-v0` and CPPI, against value iteration, and by rollouts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.envs.finance.portfolio import kernel
from sekai.finance import cppi_exposure
from sekai.safety.oracle import Axis, Grid, after_step, compare_sets, exact_set, exact_value, solve
from sekai.safety.systems import BoxSet
from sekai.safety.tasks.finance import DrawdownPortfolio, weights_hold
from sekai.safety.tasks.finance.liquidation import remaining, sold, worst_sold
from sekai.safety.truth import truth_of

SYSTEM = DrawdownPortfolio()  # D = .1, falls of at most .03 and .06, weights up to .5, c = .01
FALL = np.array([-0.03, -0.06])
WEIGHTS = BoxSet((0.0, 0.0), (0.5, 0.5))


def held_and_wanted(count: int, assets: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return tuple(rng.dirichlet(np.ones(assets + 1), count)[:, :-1] for _ in range(2))  # type: ignore[return-value]


def test_a_step_by_hand() -> None:
    # from cash: m = 1 - .01 (m .5), so m = 1 / 1.005; then half of it falls by .06: R = .97, h = .5 * .94 / .97
    after = SYSTEM.step(np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.5]), FALL)
    assert after == pytest.approx([0.97 / 1.005, 0.0, 0.47 / 0.97])
    assert SYSTEM.g(after) == pytest.approx(0.97 / 1.005 - 0.9)
    # a sale: m = 1 - .01 * .4 = .996; the asset that is not touched by the trade is .25 of what is left, not of before
    kept = SYSTEM.step(np.array([0.95, 0.4, 0.0]), np.array([0.0, 0.0]))
    assert kept == pytest.approx([0.95 * 0.996, 0.0, 0.0])
    # a rise is a new peak: W is 1 again; shocks are clipped to .03 and .06, weights to .5
    up = SYSTEM.step(np.array([0.99, 0.5, 0.5]), np.array([0.9, 0.9]), np.array([1.0, 1.0]))
    assert up == pytest.approx([1.0, 0.515 / 1.045, 0.53 / 1.045])
    fixed = DrawdownPortfolio(trailing=False)
    assert fixed.step(np.array([0.99, 0.5, 0.5]), np.array([0.5, 0.5]), -FALL)[0] == pytest.approx(0.99 * 1.045)


def test_the_set_and_the_bound_by_hand() -> None:
    # selling .5 and .3 costs .008 of equity: .9 / .992 = .907258
    states = np.array([[0.9073, 0.5, 0.3], [0.9072, 0.5, 0.3], [0.9, 0.0, 0.0], [0.8999, 0.0, 0.0]])
    assert exact_set(SYSTEM, states).tolist() == [True, False, True, False]
    assert exact_value(SYSTEM, np.array([0.95, 0.5, 0.3])) == pytest.approx(0.95 * 0.992 - 0.9)
    # of the second asset .06 + .01 - .0006 = .0694 is lost at worst: from the peak, .5 / 1.005 of it leave .960570
    peak = np.array([1.0, 0.0, 0.0])
    assert weights_hold(SYSTEM, peak, np.array([0.0, 0.5])) == pytest.approx((1 - 0.0347) / 1.005 - 0.9)


def test_what_a_trade_leaves_is_what_the_market_computes() -> None:
    rng = np.random.default_rng(0)
    held, wanted = held_and_wanted(2000, 6)
    rates = rng.uniform(0.0, 0.05, 6)
    left = remaining(held, wanted, rates)
    assert np.abs(left - (1 - (rates * abs(left[:, None] * wanted - held)).sum(1))).max() < 1e-15
    compiled = np.empty(2000)
    kernel.remaining.compiled(held.T.copy(), wanted.T.copy(), rates, compiled)
    assert left == pytest.approx(compiled, abs=1e-15)
    # the plausible wrong cost, that of the targets as if nothing had been paid
    assert np.abs(left - (1 - (rates * abs(wanted - held)).sum(1))).max() > 1e-3
    golden = [remaining(np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.2, 0.2]), rate) for rate in (1e-3, 1e-2)]
    assert golden == pytest.approx([0.9993000699930007, 0.993006993006993], abs=1e-15)


def test_equity_and_weights_are_those_of_the_portfolio_environment() -> None:
    rng = np.random.default_rng(0)
    returns = rng.uniform(-0.7, 1, (60, 2)) * SYSTEM.shocks
    prices = 100 * np.cumprod(np.concatenate([np.ones((2, 2)), 1 + returns]), axis=0)
    env = sekai.make("Portfolio-v0", prices=prices, lookback=1, episode_length=60, transaction_cost=0.01)
    env.reset(seed=0)
    state, peak = np.array([1.0, 0.0, 0.0]), 1.0
    for shock in returns:
        action = np.append(WEIGHTS.sample(rng.random(2)), 0.0).astype(np.float32)
        action[2] = 1 - action[:2].sum()
        # the environment divides by the sum, which is 1 but for rounding
        state = SYSTEM.step(state, action[:2] / action.astype(float).sum(), shock)
        info = env.step(action).info
        peak = max(peak, info["equity"])
        assert state == pytest.approx([info["equity"] / peak, *info["weights"][:2]], abs=1e-12)
    assert state[0] < 1.0 and peak > 1.0


def test_value_iteration_finds_the_closed_form() -> None:
    # equity is capped above .9 / .99 = .909 by the largest cost of a way out; each is multilinear, so nodes are exact
    grid = Grid((Axis(0.86, 1.0, 29), Axis(0.0, 0.5, 6), Axis(0.0, 0.5, 6)))
    value = solve(SYSTEM, grid, disturbances=SYSTEM.disturbance.extremes())
    exact, inside = exact_value(SYSTEM, grid.states), exact_set(SYSTEM, grid.states)
    assert compare_sets(value.safe, inside, weights=grid.cells).iou == 1.0
    assert np.abs(value.values - exact)[exact > -0.02].max() <= 1e-12  # deeper failures leave the grid
    # the plausible wrong set: equity above the floor, as if selling cost nothing
    assert compare_sets(value.safe, SYSTEM.g(grid.states) >= 0, weights=grid.cells).iou < 0.98


def test_the_worst_shocks_are_the_largest_falls() -> None:
    states = SYSTEM.start(np.random.default_rng(0).random((300, 3)))
    wanted = WEIGHTS.sample(np.random.default_rng(1).random((300, 2)))
    worst = exact_value(SYSTEM, SYSTEM.step(states, wanted, FALL))
    for shock in SYSTEM.disturbance.points(5):
        assert (exact_value(SYSTEM, SYSTEM.step(states, wanted, shock)) >= worst - 1e-12).all()
    assert worst == pytest.approx(weights_hold(SYSTEM, states, wanted), abs=1e-12)


def test_safe_weights_are_a_convex_set_with_a_linear_scale() -> None:
    held, wanted = held_and_wanted(4000, 5)
    rates, falls = np.full(5, 0.01), np.linspace(0.02, 0.1, 5)
    ratio = np.random.default_rng(3).uniform(0.9, 0.97, 4000)  # F / W
    safe = worst_sold(held, wanted, rates, falls) >= ratio
    scale = (1 - (falls + rates - falls * rates) @ wanted.T) / ratio
    by_scale = scale - (rates * abs(wanted - scale[:, None] * held)).sum(1) >= 1
    assert np.array_equal(safe, by_scale) and 0.2 < safe.mean() < 0.8
    # so the middle of two safe ones is safe
    others = np.roll(wanted, 1, axis=0)
    both = safe & (worst_sold(held, others, rates, falls) >= ratio)
    assert (
        worst_sold(held, (wanted + others) / 2, rates, falls)[both] >= ratio[both] - 1e-12
    ).all() and both.sum() > 300


def test_without_costs_one_asset_is_bounded_as_by_cppi() -> None:
    system = DrawdownPortfolio(shocks=(0.05,), max_weights=(3.0,), cost=0.0)
    equity = np.linspace(0.9, 1.0, 101)
    bound = cppi_exposure(equity, 0.9, max_loss=0.05, max_exposure=3.0)
    states = np.stack([equity, np.zeros(101)], -1)
    assert weights_hold(system, states, bound[:, None]) == pytest.approx(np.zeros(101), abs=1e-12)
    assert (weights_hold(system, states, bound[:, None] + 1e-6) < 0).all()
    # with costs it is less by what a way in and out takes: w (b + c - b c) + c w for a small cushion
    dear = DrawdownPortfolio(shocks=(0.05,), max_weights=(3.0,), cost=0.01)
    assert weights_hold(dear, np.array([0.96, 0.0]), np.array([0.96 - 0.9]) / (0.96 * 0.05)) < -0.01


@pytest.mark.parametrize("trailing", [True, False], ids=["trailing", "fixed"])
def test_whoever_wants_only_weights_that_hold_is_never_outside(trailing: bool) -> None:
    system, rng = DrawdownPortfolio(trailing=trailing), np.random.default_rng(0)
    states = np.tile([1.0, 0.0, 0.0], (500, 1))
    lowest, invested = np.inf, []
    for k in range(400):
        wanted = WEIGHTS.sample(rng.random((500, 2)))
        # towards cash until they hold
        for _ in range(40):
            wanted = np.where((weights_hold(system, states, wanted) >= 0)[:, None], wanted, 0.8 * wanted)
        wanted *= (weights_hold(system, states, wanted) >= 0)[:, None]
        falls, even = np.tile(FALL, (500, 1)), rng.uniform(-1, 1, (500, 2)) * system.shocks
        # half the runs only fall; the others first rise to peaks and fall then
        shock = np.where((np.arange(500) % 2 == 0)[:, None] | (k > 200), falls, abs(even) if k < 100 else even)
        states = system.step(states, wanted, shock)
        lowest = min(lowest, exact_value(system, states).min())
        invested.append(wanted.sum(1).mean())
    assert -1e-12 <= lowest < 1e-3 and min(invested[:50]) > 0.05


def test_what_holds_no_longer_is_lost_under_falls_that_go_on() -> None:
    rng = np.random.default_rng(0)
    states = SYSTEM.start(rng.random((400, 3)))
    states[:, 0] = 0.9 / sold(states[:, 1:], 0.01) - 1e-6
    assert not exact_set(SYSTEM, states).any()
    failed = SYSTEM.g(states) < 0
    assert failed.mean() < 0.1
    for k in range(300):
        # sell all at once, hold on, or trade like mad
        wanted = WEIGHTS.sample(rng.random((400, 2))) * rng.integers(0, 2, (400, 1))
        wanted[::3], wanted[1::3] = 0.0, states[1::3, 1:]
        states = SYSTEM.step(states, wanted, FALL)
        failed |= SYSTEM.g(states) < 0
        if k == 0:
            assert failed[::3].all()  # the failure horizon is a step
    assert failed.all()


def test_the_truth_a_step_later_is_the_same() -> None:
    states = SYSTEM.start(np.random.default_rng(0).random((500, 3)))
    searched = after_step(lambda s: exact_value(SYSTEM, s), SYSTEM)(states)
    assert truth_of(SYSTEM)(states) == pytest.approx(searched, abs=1e-12)


def test_states_are_named_and_as_many_as_assets() -> None:
    many = DrawdownPortfolio(shocks=(0.05,) * 5, max_weights=(0.2,) * 5, trailing=False, ceiling=2.0)
    assert many.state_names == ("equity", "weight_0", "weight_1", "weight_2", "weight_3", "weight_4")
    assert (many.observation_size, many.control.size, many.disturbance.size) == (6, 5, 5)
    assert (many.g_max, many.reset_low[0], many.reset_high) == (1.1, 0.9, (2.0, 0.2, 0.2, 0.2, 0.2, 0.2))
    # selling in any order of the corners: what is sold is what the costs leave
    corners = np.array(list(itertools.product((0.0, 0.2), repeat=5)))
    assert sold(corners, 0.01) == pytest.approx(1 - 0.01 * corners.sum(1))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"drawdown": 1.0}, "drawdown is 1.0; expected a share of the peak in (0, 1)."),
        (
            {"shocks": (0.1,)},
            "shocks is (0.1,) and max_weights (0.5, 0.5); expected as many of both, and shocks in (0, 1).",
        ),
        (
            {"max_weights": (9.0, 12.0)},
            "max_weights is (9.0, 12.0); expected weights above 0 of which shocks and costs together take less than 1: "
            "otherwise a single step may take all equity.",
        ),
        (
            {"cost": 0.1},
            "cost is 0.1; expected at most 0.0957: otherwise to sell from a new peak may take more than the drawdown.",
        ),
    ],
)
def test_parameters_out_of_range_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        DrawdownPortfolio(**parameters)
    assert str(caught.value) == message
