"""The market maker by hand, against `MarketMaking-v0`, against value iteration, and by rollouts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.safety.oracle import Axis, Grid, after_step, compare_sets, exact_set, exact_value, solve
from sekai.safety.tasks.finance import InventoryLimit, quote_bound, way_out
from sekai.safety.truth import truth_of

SYSTEM = InventoryLimit()  # Q = 10, z = 2, x = 2.5, s = .02, k = .03, r = .05, C = 2
WORST = np.array([1.0, 0.0, -0.05])
#: quotes of none, half and all, and trades of every 0.1
CONTROLS = np.array(list(itertools.product((0.0, 0.5, 1.0), (0.0, 1.0), np.linspace(0, 1, 11))))


def drawn(count: int) -> Any:
    return SYSTEM.start(np.random.default_rng(0).random((count, 2)))


def rim(count: int) -> Any:
    """States on the rim of the safe set, y = P(p)."""
    inventory = np.linspace(0.0, 10.0, count)
    return np.stack([inventory, way_out(SYSTEM, inventory)], -1)


def test_a_step_by_hand() -> None:
    # .4 of 2.5 is 1 sold: 3 left, .03 paid; half of 2 filled: 4; .02 earned; 4 * -.05 = -.2
    after = SYSTEM.step(np.array([4.0, 1.0]), np.array([0.5, 0.0, 0.4]), WORST)
    assert after == pytest.approx([4.0, 1.0 - 0.03 + 0.02 - 0.2])
    assert SYSTEM.g(after) == pytest.approx(0.79 / 2) and SYSTEM.g(np.array([8.0, 1.9])) == pytest.approx(0.2)
    # the other side, .25 of 2 filled, with a move for the position: 3 - .5, .01 earned, 2.5 * .05
    after = SYSTEM.step(np.array([4.0, 1.0]), np.array([0.0, 0.5, 0.4]), np.array([1.0, 0.5, 0.05]))
    assert after == pytest.approx([2.5, 1.0 - 0.03 + 0.01 + 0.125])
    # no more is sold, or filled, than there is; equity above 2 is paid out
    assert SYSTEM.step(np.array([1.0, 1.0]), np.array([0.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0])) == pytest.approx(
        [0.0, 0.97]
    )
    assert SYSTEM.step(np.array([1.0, 2.0]), np.array([0.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.0])).tolist() == [
        0.0,
        2.0,
    ]
    # without a disturbance nothing is filled and the price stands still
    assert SYSTEM.step(np.array([4.0, 1.0]), np.array([1.0, 1.0, 0.0])).tolist() == [4.0, 1.0]


def test_the_set_by_hand() -> None:
    # 6 units are 2.5, 2.5 and 1: 3.5 and 1 wait, .03 * 6 + .05 * 4.5
    assert way_out(SYSTEM, np.array([0.0, 2.5, 6.0])) == pytest.approx([0.0, 0.075, 0.405])
    states = np.array([[6.0, 0.41], [6.0, 0.40], [10.0, 1.06], [10.1, 2.0], [0.0, 0.0], [0.0, -0.01]])
    assert exact_set(SYSTEM, states).tolist() == [True, False, True, False, True, False]
    assert exact_value(SYSTEM, np.array([[6.0, 0.505], [6.0, 2.0]])) == pytest.approx([0.05, 0.4])


def test_the_quote_by_hand() -> None:
    # flat with .2: filled in full 2 units cost .1 at once and .06 to be got rid of, and earn .04
    assert quote_bound(SYSTEM, np.array([0.0, 0.2])) == 1.0
    # with .06: a (.02 - .05 - .03) = -.06 a, so one unit, half an order
    assert quote_bound(SYSTEM, np.array([0.0, 0.06])) == pytest.approx(0.5)
    # one unit below the limit the limit decides, and with all that can be sold 3.5 below it nothing does
    near = np.array([[9.0, 2.0], [10.0, 2.0], [10.0, 0.1]])
    assert quote_bound(SYSTEM, near) == pytest.approx([0.5, 0.0, 0.0])
    assert quote_bound(SYSTEM, near[:2], hedge=1.0).tolist() == [1.0, 1.0]


def test_wealth_is_that_of_market_making() -> None:
    # quotes at the distance of the spread; of the mid whatever comes. Fills of one unit, and nothing traded otherwise
    system = InventoryLimit(limit=50.0, order_size=1.0, spread=0.02, hedge_cost=0.02, shock=9.0, cushion=1e9)
    env = sekai.make("MarketMaking-v0", sigma=1.0, max_inventory=50, n_steps=400, risk_aversion=0.0)
    last = env.reset(seed=3).info
    compared = 0
    for _ in range(200):
        info = env.step(np.full(2, 0.02, np.float32)).info
        position, side = abs(last["inventory"]), np.sign(last["inventory"])
        if position:
            fills = [info["bid_filled"], info["ask_filled"]][:: int(side)]
            move = side * (info["mid_price"] - last["mid_price"])
            after = system.step(np.array([position, 1e6]), np.array([1.0, 1.0, 0.0]), np.array([*fills, move]))
            assert after[0] == abs(info["inventory"])
            assert after[1] - 1e6 == pytest.approx(info["wealth"] - last["wealth"], abs=1e-6)
            compared += 1
        last = info
    assert compared > 100


def test_value_iteration_finds_the_closed_form() -> None:
    grid = Grid((Axis(0.0, 12.5, 51), Axis(-0.6, 2.0, 131)))
    value = solve(SYSTEM, grid, controls=CONTROLS, disturbances=SYSTEM.disturbance.extremes())
    exact = exact_value(SYSTEM, grid.states)
    alive = (grid.states[..., 0] <= 10.0) & (exact > -0.1)  # deeper failures leave the grid
    assert np.abs(value.values - exact)[alive].max() <= 1e-12
    # the plausible wrong sets: as if all could be sold at once, and as if nothing had to be
    quick = InventoryLimit(hedge_size=10.0)
    for wrong in (exact_set(quick, grid.states), SYSTEM.g(grid.states) >= 0):
        assert compare_sets(value.values >= -1e-12, wrong, weights=grid.cells).iou < 0.9


def test_the_worst_disturbance_is_the_worst_of_all() -> None:
    states, rng = drawn(400), np.random.default_rng(1)
    controls = rng.random((400, 3))
    worst = exact_value(SYSTEM, SYSTEM.step(states, controls, WORST))
    for disturbance in SYSTEM.disturbance.points(4):
        assert (exact_value(SYSTEM, SYSTEM.step(states, controls, disturbance)) >= worst - 1e-12).all()


def test_quotes_within_the_bound_keep_every_state_inside() -> None:
    rng, start = np.random.default_rng(0), rim(100)
    states, lowest, quoted = np.repeat(start[None], 3, axis=0), np.inf, []
    for _ in range(150):
        # as much as is safe without a trade; where nothing is, trade as fast as may be and quote what is safe then
        holding = quote_bound(SYSTEM, states)
        hedge = np.where(holding > 0, 0.0, 1.0)
        larger = np.where(holding > 0, holding, quote_bound(SYSTEM, states, 1.0))
        shape = states.shape[:-1]
        disturbance = np.stack([np.ones(shape), np.zeros(shape), np.full(shape, -0.05)], -1)
        disturbance[1] = SYSTEM.disturbance.sample(rng.random((*shape[1:], 3)))
        disturbance[2] = disturbance[1] * [1.0, 1.0, 0.0]
        states = SYSTEM.step(states, np.stack([larger, rng.random(shape), hedge], -1), disturbance)
        lowest = min(lowest, exact_value(SYSTEM, states).min())
        quoted.append(larger.mean(axis=1))
    assert lowest >= -1e-12
    assert np.mean(quoted, axis=0)[1:].min() > 0.1  # by the bound, and not by quoting nothing


def test_the_next_larger_quote_leads_out() -> None:
    states = drawn(2000)
    bound = quote_bound(SYSTEM, states)
    inner = (bound > 0.01) & (bound < 0.99)
    assert inner.sum() > 100
    for factor, inside in ((1 - 1e-9, True), (1.001, False)):
        controls = np.stack([factor * bound[inner], np.ones(inner.sum()), np.zeros(inner.sum())], -1)
        assert (exact_set(SYSTEM, SYSTEM.step(states[inner], controls, WORST)) == inside).all()


def test_a_state_just_outside_is_lost_whatever_is_done() -> None:
    rng, outside = np.random.default_rng(0), rim(60)[5:] - [0.0, 1e-6]
    assert (SYSTEM.g(outside) >= 0).all() and not exact_set(SYSTEM, outside).any()
    states, failed = np.repeat(outside[:, None], 300, axis=1), np.zeros((55, 300), bool)
    for k in range(60):
        controls = rng.random((55, 300, 3)) * rng.integers(0, 2, (55, 300, 3))
        controls[:, 0] = [0.0, 0.0, 1.0]  # the first trades as fast as it may, and the second quotes as well
        controls[:, 1] = [1.0, 1.0, 1.0]
        states = SYSTEM.step(states, controls, WORST)
        failed |= SYSTEM.g(states) < 0
        if k + 1 == round(SYSTEM.failure_horizon_s / SYSTEM.dt):
            assert failed[:, 0].all()
    assert failed.all()


def test_the_truth_of_a_learner_lies_one_step_later() -> None:
    states = drawn(1000)
    searched = after_step(
        lambda s: exact_value(SYSTEM, s), SYSTEM, controls=CONTROLS, disturbances=SYSTEM.disturbance.extremes()
    )
    assert truth_of(SYSTEM)(states) == pytest.approx(searched(states), abs=1e-12)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"limit": 0.0}, "limit is 0.0; expected a finite number above 0."),
        ({"spread": -0.1}, "spread is -0.1; expected a finite number, at least 0."),
        (
            {"spread": 0.04},
            "spread is 0.04 and hedge_cost 0.03; expected at most that: otherwise to be filled and to trade it away is "
            "a gain, and no fill the worst.",
        ),
    ],
)
def test_parameters_out_of_range_are_refused(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        InventoryLimit(**parameters)  # type: ignore[arg-type]  # all of them floats
    assert str(caught.value) == message
