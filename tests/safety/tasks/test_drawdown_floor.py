"""The drawdown floor by hand, against `Trading-v0` and CPPI, against value iteration, and by rollouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sekai
from sekai.finance import cppi_exposure
from sekai.safety.certificates import evaluate_certificate
from sekai.safety.oracle import Axis, Grid, after_step, compare_sets, exact_set, exact_value, solve
from sekai.safety.tasks.finance import DrawdownFloor, exposure_bound, unwound
from sekai.safety.truth import truth_of

SYSTEM = DrawdownFloor()  # D = .2, c = .02, m = .25, exposures up to 3
FALL = np.array([-0.02])
#: those of the default drawdown whose grids have a node at each multiple of max_change
OTHERS = (SYSTEM, DrawdownFloor(shock=0.05, max_exposure=2.0, max_change=0.5), DrawdownFloor(max_change=3.0))


def rim(count: int) -> Any:
    """States on the rim of the safe set, W = F / P(a), as far as W <= 1; `(K, 2)`."""
    exposure = np.linspace(0.0, SYSTEM.max_exposure, count)
    equity = SYSTEM.floor / unwound(SYSTEM, exposure)
    return np.stack([equity, exposure], -1)[equity <= 1.0]


def greedy(states: Any) -> Any:
    """As much exposure as is safe."""
    return exposure_bound(SYSTEM, states[..., 0])[..., None]


def test_a_step_by_hand() -> None:
    # wanted 0, but at most .25 less: .75; then .9 (1 - .75 * .02) = .8865
    assert SYSTEM.step(np.array([0.9, 1.0]), np.array([0.0]), FALL) == pytest.approx([0.8865, 0.75])
    # wanted 2.1: within reach; .9 (1 + 2.1 * .01)
    assert SYSTEM.step(np.array([0.9, 2.0]), np.array([2.1]), np.array([0.01])) == pytest.approx([0.9189, 2.1])
    # .99 (1 + 2.25 * .02) = 1.03455 is a new peak; without a shock equity stays
    assert SYSTEM.step(np.array([0.99, 2.0]), np.array([3.0]), -FALL).tolist() == [1.0, 2.25]
    assert SYSTEM.step(np.array([0.99, 2.0]), np.array([3.0])).tolist() == [0.99, 2.25]
    # shocks are clipped to .02, targets to 3
    assert SYSTEM.step(np.array([1.0, 3.0]), np.array([9.0]), np.array([-1.0])) == pytest.approx([0.94, 3.0])
    assert SYSTEM.g(np.array([0.9, 1.0])) == pytest.approx(0.1)


def test_the_set_by_hand() -> None:
    # from .75 it holds .5 and .25 before it is out: P = (1 - .01) (1 - .005) = .98505; from .25 nothing at all
    assert unwound(SYSTEM, np.array([0.0, 0.25, 0.5, 0.75])) == pytest.approx([1.0, 1.0, 0.995, 0.98505])
    assert exact_value(SYSTEM, np.array([0.85, 0.75])) == pytest.approx(0.85 * 0.98505 - 0.8)
    # .8 / .98505 = .812142
    states = np.array([[0.8122, 0.75], [0.8121, 0.75], [0.8, 0.25], [0.7999, 0.0], [1.0, 3.0]])
    assert exact_set(SYSTEM, states).tolist() == [True, False, True, False, False]
    # at that equity .75 could be sold, so that .5 may be held in the step before it
    assert exposure_bound(SYSTEM, np.array([0.8 / 0.98505])) == pytest.approx(0.5)
    # below the floor nothing is safe; at it nothing may be held
    assert exposure_bound(SYSTEM, np.array([0.7, 0.8])) == pytest.approx([0.0, 0.0], abs=1e-12)


def test_without_a_limit_on_trading_the_bound_is_that_of_cppi() -> None:
    free, equity = DrawdownFloor(max_change=3.0), np.linspace(0.8, 1.0, 101)
    allowed = cppi_exposure(equity, 0.8, max_loss=0.02, max_exposure=3.0)
    assert exposure_bound(free, equity) == pytest.approx(allowed, abs=1e-9)
    # with one it is lower, but for what can be sold in a single step: who cannot sell at once must hold less
    limited, some = exposure_bound(SYSTEM, equity), allowed <= 0.25
    assert limited[some] == pytest.approx(allowed[some], abs=1e-9) and some.sum() == 3
    assert (limited[~some] < allowed[~some] - 1e-2).all()


def test_equity_and_exposure_are_those_of_trading() -> None:
    levels, rng = np.arange(13) * 0.25, np.random.default_rng(0)
    returns = rng.uniform(-0.02, 0.02, 60)
    prices = 100 * np.cumprod(np.concatenate([[1.0, 1.0], 1 + returns]))
    env = sekai.make("Trading-v0", prices=prices, lookback=1, episode_length=60, positions=levels, transaction_cost=0.0)
    env.reset(seed=0)
    state, peak = np.array([1.0, 0.0]), 1.0
    for shock in returns:
        state = SYSTEM.step(state, rng.choice(levels, 1), np.array([shock]))
        info = env.step(int(np.argmin(abs(levels - state[1])))).info
        peak = max(peak, info["equity"])
        assert state[0] == pytest.approx(info["equity"] / peak, abs=1e-12)
    assert state[0] < 1.0 and peak > 1.0


@pytest.mark.parametrize("system", OTHERS, ids=["default", "harder", "free"])
def test_value_iteration_finds_the_closed_form(system: DrawdownFloor) -> None:
    grid = Grid((Axis(0.76, 1.0, 241), Axis(0.0, system.max_exposure, round(4 * system.max_exposure / 0.25) + 1)))
    value, exact = solve(system, grid), exact_value(system, grid.states)
    found = compare_sets(value.safe, exact_set(system, grid.states), weights=grid.cells)
    assert found.iou >= 0.999  # measured 1.0
    near = exact > -0.02  # deeper failures leave the grid
    assert np.abs(value.values - exact)[near].max() <= 1e-3
    # the plausible wrong set: as if the first sale came only after the next shock
    late = grid.states[..., 0] * (1 - system.shock * grid.states[..., 1]) * unwound(system, grid.states[..., 1])
    assert compare_sets(value.safe, late >= system.floor, weights=grid.cells).iou < 0.97


def test_the_closed_form_policy_keeps_every_state_inside() -> None:
    rng, states = np.random.default_rng(0), np.repeat(rim(120)[None], 3, axis=0)
    shape, lowest, held = (*states.shape[1:-1], 1), np.full(3, np.inf), []
    assert shape[0] > 80
    for _ in range(2000):
        # falls only; anything within the bounds; a normal market with its tails clipped
        even, normal = rng.uniform(-0.02, 0.02, shape), 0.001 + 0.02 * rng.standard_normal(shape)
        states = SYSTEM.step(states, greedy(states), np.stack([np.full(shape, -0.02), even, normal]))
        lowest = np.minimum(lowest, exact_value(SYSTEM, states).min(axis=1))
        held.append(states[..., 1].mean(axis=1))
    assert lowest.min() >= -1e-12
    # it does so by the bound and not by holding nothing, but for where nothing but falls came
    assert np.mean(held[:100], axis=0)[1:].min() > 0.3 and held[-1][0] < 1e-9


def test_the_next_larger_exposure_leads_out() -> None:
    equity = np.linspace(0.801, 0.99, 50)
    bound = exposure_bound(SYSTEM, equity)
    for factor, inside in ((1.0 - 1e-9, True), (1.001, False)):
        after = SYSTEM.step(np.stack([equity, bound], -1), factor * bound[:, None], FALL)
        assert (exact_set(SYSTEM, after) == inside).all()


def test_a_state_just_outside_is_lost_whatever_is_done() -> None:
    rng = np.random.default_rng(0)
    outside = rim(60)[5:] - [1e-6, 0.0]
    assert (SYSTEM.g(outside) >= 0).all() and not exact_set(SYSTEM, outside).any()
    steps = round(SYSTEM.failure_horizon_s / SYSTEM.dt)
    states, failed = np.repeat(outside[:, None], 500, axis=1), np.zeros((len(outside), 500), bool)
    # the first sells as fast as it may, the second trades by the bound, the others however they like
    targets = rng.uniform(0.0, 3.0, (steps, *failed.shape, 1)) * rng.integers(0, 2, (steps, *failed.shape, 1))
    targets[:, :, 0] = 0.0
    for wanted in targets:
        wanted[:, 1] = greedy(states[:, 1])
        states = SYSTEM.step(states, wanted, FALL)
        failed |= SYSTEM.g(states) < 0
    assert failed[:, 0].all() and failed[:, 1].all()
    # who holds on may fail after the horizon: with all that is left sold from here, the others have failed too
    for _ in range(SYSTEM.steps_to_sell):
        states = SYSTEM.step(states, np.array([0.0]), FALL)
        failed |= SYSTEM.g(states) < 0
    assert failed.all()
    # the same shocks leave a state just inside alone
    states = rim(60) + np.array([1e-6, 0.0])
    for _ in range(SYSTEM.steps_to_sell):
        states = SYSTEM.step(states, np.array([0.0]), FALL)
    assert (SYSTEM.g(states) >= 0).all()


def test_the_failure_horizon_is_that_of_the_largest_exposure() -> None:
    # 3 / .25 = 12 steps to sell, in the last of which nothing is held
    assert SYSTEM.steps_to_sell == 12 and SYSTEM.failure_horizon_s == pytest.approx(11 * 0.05)
    assert DrawdownFloor(max_change=3.0).failure_horizon_s == pytest.approx(0.05)
    # a state that is doomed by a hair, with the largest exposure whose rim is below the peak, fails in its last step
    tight = DrawdownFloor(drawdown=0.3)
    state = np.array([tight.floor / unwound(tight, np.array(3.0)) - 1e-9, 3.0])
    for _ in range(10):
        state = tight.step(state, np.array([0.0]), FALL)
        assert tight.g(state) >= 0
    assert tight.g(tight.step(state, np.array([0.0]), FALL)) < 0


class Trader:
    """Trades by a rule, and says of its states what the truth says, or what it is given to say."""

    def __init__(self, rule: Any, value: Any = None) -> None:
        self.rule, self.value = rule, value or truth_of(SYSTEM)

    def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
        return self.rule(np.asarray(observation, np.float64)), None

    def predict_value(self, observations: Any) -> Any:
        return self.value(np.asarray(observations, np.float64))


def test_certificates_are_measured_against_the_worst_shocks() -> None:
    sells = evaluate_certificate(Trader(lambda s: np.zeros((len(s), 1))), SYSTEM, truth_of(SYSTEM), rollouts=500)
    assert sells.sets.iou > 0.99 and sells.policy_keeps == 1.0 and sells.fails_if_certified < 0.01
    # .1 held for 200 falls costs 1 - .998^200 = 33 %: without shocks it would lose nothing
    holds = evaluate_certificate(Trader(lambda s: np.full((len(s), 1), 0.1)), SYSTEM, truth_of(SYSTEM), rollouts=500)
    assert holds.policy_keeps == 0.0 and holds.fails_if_certified == 1.0


def test_the_truth_of_a_learner_lies_one_step_later() -> None:
    # at the next step's exposure, not at this one's: a' = a - m at best, and (1 - c a') P(a') = P(a)
    states = SYSTEM.start(np.random.default_rng(0).random((2000, 2)))
    truth = truth_of(SYSTEM)(states)
    assert truth == pytest.approx(exact_value(SYSTEM, states), abs=1e-12)
    every = after_step(lambda s: exact_value(SYSTEM, s), SYSTEM, controls=np.linspace(0, 3, 61)[:, None])
    assert truth == pytest.approx(every(states), abs=1e-12)


FIXED = DrawdownFloor(trailing=False)


def test_a_fixed_floor_knows_no_new_peak() -> None:
    # .99 (1 + 2.25 * .02) = 1.03455, which a trailing floor would call 1; then the fall is from there, and not from 1
    up = FIXED.step(np.array([0.99, 2.0]), np.array([3.0]), -FALL)
    assert up == pytest.approx([1.03455, 2.25]) and FIXED.g(up) == pytest.approx(0.23455)
    assert SYSTEM.g(SYSTEM.step(np.array([0.99, 2.0]), np.array([3.0]), -FALL)) == pytest.approx(0.2)
    # 1.49 (1 + 2.25 * .02) = 1.557: what is above the ceiling is paid out
    assert FIXED.step(np.array([1.49, 2.0]), np.array([3.0]), -FALL).tolist() == [1.5, 2.25]
    assert (FIXED.g_max, FIXED.reset_high) == (0.7, (1.5, 3.0))


def test_value_iteration_finds_the_set_of_a_fixed_floor() -> None:
    grid = Grid((Axis(0.7, 1.5, 321), Axis(0.0, 3.0, 49)))
    assert compare_sets(solve(FIXED, grid).safe, exact_set(FIXED, grid.states), weights=grid.cells).iou >= 0.999
    # at the largest exposure the rim lies above the start: P(3) = .714257, and .8 / .714257 = 1.12005
    assert exact_set(FIXED, np.array([[1.1201, 3.0], [1.12, 3.0]])).tolist() == [True, False]


def test_the_bound_of_a_fixed_floor_keeps_a_market_that_rises_first_above_it() -> None:
    rng, states = np.random.default_rng(0), np.tile([1.0, 0.0], (100, 1))
    for k in range(450):
        shock = rng.uniform(-0.02, 0.02, (100, 1)) if k < 150 else np.full((100, 1), -0.02)
        states = FIXED.step(states, exposure_bound(FIXED, states[:, 0])[:, None], shock)
        assert exact_value(FIXED, states).min() >= -1e-12
    # the floor did not follow: who had gained gave it all back, down to the floor
    assert states[:, 0].max() < 0.81


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"drawdown": 1.0}, "drawdown is 1.0; expected a share of the peak in (0, 1)."),
        ({"drawdown": 0.0}, "drawdown is 0.0; expected a finite number above 0."),
        (
            {"trailing": False, "ceiling": 1.0},
            "ceiling is 1.0; expected a finite number above 1, equity over its start.",
        ),
        ({"max_change": 0.0}, "max_change is 0.0; expected a finite number above 0."),
        (
            {"shock": 0.5},
            "shock is 0.5 and max_exposure 3.0; expected a product below 1: otherwise a single step may take all "
            "equity.",
        ),
    ],
)
def test_parameters_out_of_range_are_refused(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        DrawdownFloor(**parameters)  # type: ignore[arg-type]  # all of them floats
    assert str(caught.value) == message
