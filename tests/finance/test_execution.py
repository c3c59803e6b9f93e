"""Almgren-Chriss in closed form, against hand numbers, sums, dynamic programming and simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.finance import (
    almgren_chriss_actions,
    almgren_chriss_kappa,
    almgren_chriss_shortfall,
    almgren_chriss_trajectory,
    expected_shortfall,
    immediate_shortfall,
    immediate_trajectory,
    shortfall_bps,
    shortfall_variance,
    trajectory_of,
    twap_shortfall,
    twap_trajectory,
)

# the example of the paper
UNITS, RISK_AVERSION = 1e6, 1e-6
GRID: Any = {"total_time": 5.0, "n_steps": 5}
IMPACT: Any = {"permanent_impact": 2.5e-7, "temporary_impact": 2.5e-6}
COSTS: Any = {"total_time": 5.0, "fixed_cost": 0.0625, **IMPACT}
RISK: Any = {"total_time": 5.0, "sigma": 0.95}
KAPPA = 0.6070761632470627


def test_the_golden_schedule() -> None:
    # eta~ = 2.5e-6 - 2.5e-7 / 2 = 2.375e-6; kappa~^2 = 1e-6 * 0.9025 / 2.375e-6 = 0.38; arcosh(1.19) = 0.607076
    kappa = almgren_chriss_kappa(**GRID, sigma=0.95, **IMPACT, risk_aversion=RISK_AVERSION)
    assert kappa == pytest.approx(KAPPA, rel=1e-14) == pytest.approx(math.acosh(1.19), rel=1e-14)
    left = [1e6, 541955.5543739223, 289854.2194099351, 147897.48782172316, 62141.801605766035, 0.0]
    assert almgren_chriss_trajectory(UNITS, kappa, **GRID) == pytest.approx(left, rel=1e-13)
    fractions = [0.4580444456260777, 0.46516975964056617, 0.4897521653374496, 0.5798319327731092, 1.0]
    actions = almgren_chriss_actions(kappa, **GRID)
    assert actions == pytest.approx(fractions, rel=1e-14)
    assert trajectory_of(actions, UNITS) == pytest.approx(left, rel=1e-13)


def test_the_golden_shortfall() -> None:
    golden = almgren_chriss_shortfall(UNITS, KAPPA, n_steps=5, sigma=0.95, **COSTS)
    assert golden == pytest.approx((911226.9863037932, 364128572058.141), rel=1e-13)
    # in basis points of 1e6 * 50
    assert 1e4 * golden.deviation / 5e7 == pytest.approx(120.68613376161174, rel=1e-13)
    assert golden.mean + RISK_AVERSION * golden.variance == pytest.approx(1275355.558361934, rel=1e-13)
    left = almgren_chriss_trajectory(UNITS, KAPPA, **GRID)
    assert expected_shortfall(left, **COSTS) == pytest.approx(golden.mean, rel=1e-13)
    assert shortfall_variance(left, **RISK) == pytest.approx(golden.variance, rel=1e-13)


def test_the_two_references() -> None:
    # 2.5e-7 * 1e12 / 2 = 125000, 0.0625 * 1e6 = 62500, 2.375e-6 * 1e12 / 5 = 475000
    # 0.9025 * 1e12 * 5 / 3 * 0.8 * 0.9
    assert twap_shortfall(UNITS, n_steps=5, sigma=0.95, **COSTS) == pytest.approx((662500.0, 1.083e12), rel=1e-14)
    equal = twap_trajectory(UNITS, 5)
    assert equal.tolist() == [1e6, 8e5, 6e5, 4e5, 2e5, 0.0]
    assert expected_shortfall(equal, **COSTS) == pytest.approx(662500.0, rel=1e-14)
    assert shortfall_variance(equal, **RISK) == pytest.approx(1.083e12, rel=1e-14)
    # 62500 + 2.5e-6 * 1e12 / 1
    at_once = immediate_shortfall(UNITS, **GRID, temporary_impact=2.5e-6, fixed_cost=0.0625)
    assert at_once == (2562500.0, 0.0)
    assert immediate_trajectory(UNITS, 5).tolist() == [1e6, 0, 0, 0, 0, 0]
    assert expected_shortfall(immediate_trajectory(UNITS, 5), **COSTS) == pytest.approx(2562500.0)


def test_a_schedule_by_hand() -> None:
    # two slices of one unit, tau 1: permanent 0.2 * 1 * 1, spread 0.1 * 2, temporary 0.5 * (1 + 1)
    costs: Any = {"total_time": 2.0, "permanent_impact": 0.2, "temporary_impact": 0.5, "fixed_cost": 0.1}
    assert expected_shortfall([2.0, 1.0, 0.0], **costs) == pytest.approx(1.4)
    assert shortfall_variance([2.0, 1.0, 0.0], total_time=2.0, sigma=3.0) == 9.0
    # the unit left over counts at the mid price, down by 0.2 * 1: 0.2 + 0.1 + 0.5, and its risk over both slices
    assert expected_shortfall([2.0, 1.0, 1.0], **costs) == pytest.approx(0.8)
    assert shortfall_variance([2.0, 1.0, 1.0], total_time=2.0, sigma=3.0) == 18.0
    both = np.array([[2.0, 2.0], [1.0, 1.0], [0.0, 1.0]])
    assert expected_shortfall(both, **costs) == pytest.approx([1.4, 0.8])
    assert shortfall_variance(both, total_time=2.0, sigma=3.0).tolist() == [9.0, 18.0]


@given(st.integers(1, 300), st.floats(-9, 3.5))
def test_closed_forms_equal_the_sums(steps: int, power: float) -> None:
    kappa = 10.0**power
    impact: Any = {"permanent_impact": 1e-9, "temporary_impact": 2.5e-6, "fixed_cost": 0.0625}
    closed = almgren_chriss_shortfall(UNITS, kappa, total_time=5.0, n_steps=steps, sigma=0.95, **impact)
    left = almgren_chriss_trajectory(UNITS, kappa, total_time=5.0, n_steps=steps)
    assert left[0] == UNITS and left[-1] == 0 and (np.diff(left) <= 0).all()
    assert closed.mean == pytest.approx(expected_shortfall(left, total_time=5.0, **impact), rel=1e-12)
    # what is left after a slice of kappa tau = 1e4 is exp(-1e4) of it: only its order is known
    assert closed.variance == pytest.approx(shortfall_variance(left, **RISK), rel=1e-10)
    actions = almgren_chriss_actions(kappa, total_time=5.0, n_steps=steps)
    assert trajectory_of(actions, UNITS) == pytest.approx(left, rel=1e-9, abs=UNITS * 1e-15)


def test_equal_slices_are_the_limit_of_patience_and_one_slice_that_of_haste() -> None:
    for kappa in (0.0, 1e-300, 1e-12, 1e-7):
        assert almgren_chriss_actions(kappa, **GRID) == pytest.approx([1 / 5, 1 / 4, 1 / 3, 1 / 2, 1], rel=1e-12)
        closed = almgren_chriss_shortfall(UNITS, kappa, n_steps=5, sigma=0.95, **COSTS)
        assert closed == pytest.approx((662500.0, 1.083e12), rel=1e-12)
    assert almgren_chriss_kappa(**GRID, sigma=0.95, **IMPACT, risk_aversion=0.0) == 0.0
    assert almgren_chriss_actions(1e4, **GRID).tolist() == [1.0] * 5
    closed = almgren_chriss_shortfall(UNITS, 1e4, n_steps=5, sigma=0.95, **COSTS)
    assert closed == pytest.approx((2562500.0, 0.0), rel=1e-14)
    one: Any = {"n_steps": 1, "sigma": 0.95, **COSTS}
    for kappa in (0.01, 3.0):
        assert almgren_chriss_shortfall(UNITS, kappa, **one) == pytest.approx(twap_shortfall(UNITS, **one), abs=1e-3)


def test_dynamic_programming_finds_the_same_fractions() -> None:
    # cost to go A_k x^2: p a^2 + q (1 - a)^2 with p = eta~ / tau, q = lambda sigma^2 tau + A_{k+1}, at a = q / (p + q)
    tau, steps = 0.2, 25
    kappa = almgren_chriss_kappa(total_time=5.0, n_steps=steps, sigma=0.95, **IMPACT, risk_aversion=RISK_AVERSION)
    p = (2.5e-6 - 2.5e-7 * tau / 2) / tau
    to_go, fractions = p, [1.0]
    for _ in range(steps - 1):
        q = RISK_AVERSION * 0.95**2 * tau + to_go
        share = q / (p + q)
        to_go = p * share**2 + q * (1 - share) ** 2
        fractions.insert(0, share)
    assert almgren_chriss_actions(kappa, total_time=5.0, n_steps=steps) == pytest.approx(fractions, rel=1e-12)


def utility(left: Any, **risk: Any) -> Any:
    return expected_shortfall(left, **COSTS) + RISK_AVERSION * shortfall_variance(left, **RISK)


def test_no_perturbation_of_the_actions_costs_less() -> None:
    rng = np.random.default_rng(4)
    actions = almgren_chriss_actions(KAPPA, **GRID)
    for scale in (1e-3, 0.03, 0.3):
        perturbed = np.tile(actions[:, None], 200)
        perturbed[:-1] = np.clip(perturbed[:-1] + scale * rng.standard_normal((4, 200)), 0, 1)
        costs = utility(trajectory_of(perturbed, UNITS))
        assert costs.shape == (200,) and (costs > utility(trajectory_of(actions, UNITS))).all()


def test_the_continuous_urgency_and_the_gross_impact_are_worse() -> None:
    best = utility(almgren_chriss_trajectory(UNITS, KAPPA, **GRID))
    continuous = math.sqrt(RISK_AVERSION * 0.95**2 / 2.375e-6)
    gross = 2 * math.asinh(math.sqrt(RISK_AVERSION * 0.95**2 / 2.5e-6) / 2)
    for wrong in (continuous, gross):
        assert abs(wrong / KAPPA - 1) > 0.01
        assert utility(almgren_chriss_trajectory(UNITS, wrong, **GRID)) > best


def test_the_frontier_has_the_least_variance_for_its_mean() -> None:
    kappas = [0.0, 0.1, 0.3, 1.0, 3.0, 10.0]
    points = [almgren_chriss_shortfall(UNITS, kappa, n_steps=5, sigma=0.95, **COSTS) for kappa in kappas]
    assert np.all(np.diff([point.mean for point in points]) > 0)
    assert np.all(np.diff([point.variance for point in points]) < 0)


def test_the_moments_are_those_of_simulated_prices() -> None:
    rng = np.random.default_rng(6)
    left = np.array([1e6, 7e5, 6e5, 1e5, 5e4, 2e4])  # no optimal schedule, and not all is sold
    sold, paths = -np.diff(left), 100_000
    mid = np.full(paths, 50.0)
    cash = np.zeros(paths)
    for units in sold:
        cash += units * (mid - 0.0625 - 2.5e-6 * units)
        mid += 0.95 * rng.standard_normal(paths) - 2.5e-7 * units
    shortfall = 1e6 * 50.0 - cash - left[-1] * mid
    mean, variance = expected_shortfall(left, **COSTS), shortfall_variance(left, **RISK)
    assert abs(shortfall.mean() - mean) < 4 * math.sqrt(variance / paths)
    assert abs(shortfall.var() / variance - 1) < 4 * math.sqrt(2 / paths)


def test_fills_are_measured_against_a_benchmark() -> None:
    # 100 at 49 and 300 at 51: average 50.5, 1 % above 50
    assert shortfall_bps([100, 300], [49.0, 51.0], benchmark=50.0) == pytest.approx(-100.0)
    assert shortfall_bps([100, 300], [49.0, 51.0], benchmark=50.0, side="buy") == pytest.approx(100.0)
    # mirrored around 50 the buyer has the seller's loss
    assert shortfall_bps([100, 300], [51.0, 49.0], benchmark=50.0, side="buy") == pytest.approx(-100.0)
    assert math.isnan(shortfall_bps([0, 0], [49.0, 51.0], benchmark=50.0))
    # the plausible wrong one averages prices without the units: nothing lost
    assert shortfall_bps([200, 200], [49.0, 51.0], benchmark=50.0) == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: almgren_chriss_kappa(
                total_time=5.0, n_steps=1, sigma=1.0, permanent_impact=2e-6, temporary_impact=2.5e-6, risk_aversion=1.0
            ),
            ValueError,
            r"temporary_impact is 2.5e-06, not above .* = 5e-06: then faster trading costs less",
        ),
        (lambda: almgren_chriss_actions(-1.0, **GRID), ValueError, "kappa is -1.0; expected a number of at least 0"),
        (lambda: almgren_chriss_actions(1.0, total_time=1.0, n_steps=2.5), TypeError, "n_steps is 2.5"),  # type: ignore[arg-type]
        (lambda: almgren_chriss_trajectory(0.0, 1.0, **GRID), ValueError, "initial_inventory is 0.0"),
        (lambda: twap_trajectory(1.0, 0), ValueError, "n_steps is 0; expected an int of at least 1"),
        (lambda: trajectory_of([0.5, 1.5], 1.0), ValueError, r"actions reach from 0.5 to 1.5; expected fractions"),
        (lambda: trajectory_of([0.5, math.nan], 1.0), ValueError, r"actions\[1\] is nan; expected finite numbers"),
        (lambda: expected_shortfall([1.0], **COSTS), ValueError, r"trajectory has shape \(1,\)"),
        (lambda: shortfall_bps([1], [1, 2], benchmark=1.0), ValueError, "expected one price for each fill"),
        (lambda: shortfall_bps([-1], [1], benchmark=1.0), ValueError, "units has -1.0"),
        (lambda: shortfall_bps([1], [1], benchmark=1.0, side="short"), ValueError, "side is 'short'"),
    ],
)
def test_crooked_arguments_are_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
