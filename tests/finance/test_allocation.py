"""Allocations in closed form, against hand numbers and the property that defines each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sekai.finance import (
    band_target,
    cppi_exposure,
    equal_weights,
    growth_rate,
    kelly_weights,
    minimum_variance_weights,
    no_trade_half_width,
    with_cash,
)

COVARIANCE = np.array([[0.04, 0.01], [0.01, 0.09]])
MEAN = np.array([0.08, 0.11])


def test_kelly_by_hand() -> None:
    # one asset: 0.06 / 0.04 = 1.5, growth 0.02 + 0.06^2 / 0.08
    assert kelly_weights([0.08], [[0.04]], risk_free=0.02).tolist() == pytest.approx([1.5])
    assert growth_rate([1.5], [0.08], [[0.04]], risk_free=0.02) == pytest.approx(0.065)
    # two: determinant 0.0035; (0.09 * 0.06 - 0.01 * 0.09, 0.04 * 0.09 - 0.01 * 0.06) / 0.0035
    weights = kelly_weights(MEAN, COVARIANCE, risk_free=0.02)
    assert weights == pytest.approx([0.0045 / 0.0035, 0.003 / 0.0035])
    # each asset on its own is the plausible wrong one
    assert weights != pytest.approx([0.06 / 0.04, 0.09 / 0.09], rel=0.1)
    # risk aversion 2 is half Kelly
    assert kelly_weights(MEAN, COVARIANCE, risk_free=0.02, risk_aversion=2.0) == pytest.approx(weights / 2)


def test_kelly_grows_fastest() -> None:
    weights = kelly_weights(MEAN, COVARIANCE, risk_free=0.02)
    best = growth_rate(weights, MEAN, COVARIANCE, risk_free=0.02)
    # r + excess' w / 2
    assert best == pytest.approx(0.02 + (0.06 * weights[0] + 0.09 * weights[1]) / 2)
    for change in np.random.default_rng(1).normal(0, 0.3, (100, 2)):
        assert growth_rate(weights + change, MEAN, COVARIANCE, risk_free=0.02) < best


def test_growth_is_that_of_log_wealth() -> None:
    # 2000 years in steps of a day, in one asset: wealth of constant weight 0.7
    rng = np.random.default_rng(2)
    dt, steps, weight = 1 / 252, 252 * 2000, 0.7
    prices = np.exp((0.08 - 0.02) * dt + 0.2 * math.sqrt(dt) * rng.standard_normal(steps))
    growth = np.log1p(weight * (prices - 1)).sum() / (steps * dt)
    # 0.056 - 0.0098, known to 0.14 / sqrt(2000)
    assert growth_rate([weight], [0.08], [[0.04]]) == pytest.approx(0.0462)
    assert abs(growth - 0.0462) < 4 * 0.14 / math.sqrt(2000)


def test_minimum_variance_by_hand_and_by_definition() -> None:
    # uncorrelated: in proportion to 1 / 0.04 and 1 / 0.01
    assert minimum_variance_weights(np.diag([0.04, 0.01])) == pytest.approx([0.2, 0.8])
    # 0.09 - 0.01 and 0.04 - 0.01, over their sum
    weights = minimum_variance_weights(COVARIANCE)
    assert weights == pytest.approx([0.08 / 0.11, 0.03 / 0.11])
    for tilt in (-0.3, -0.01, 0.01, 0.3):
        other = weights + np.array([tilt, -tilt])
        assert other @ COVARIANCE @ other > weights @ COVARIANCE @ weights
    # a hedge is sold short: 0.09 - 0.05, 0.04 - 0.05, over 0.03
    assert minimum_variance_weights([[0.04, 0.05], [0.05, 0.09]]) == pytest.approx([4 / 3, -1 / 3])


def test_weights_with_their_cash() -> None:
    assert equal_weights(4).tolist() == [0.25] * 4
    assert with_cash(equal_weights(4)).tolist() == [0.25] * 4 + [0.0]
    assert with_cash([0.5, 0.2]) == pytest.approx([0.5, 0.2, 0.3])
    assert equal_weights(20).sum() > 1 and with_cash(equal_weights(20))[-1] == 0.0  # rounded
    with pytest.raises(ValueError, match=r"weights has -0.1; expected at least 0"):
        with_cash([-0.1, 0.5])
    with pytest.raises(ValueError, match=r"weights sum to 1.5; expected at most 1"):
        with_cash([1.0, 0.5])


def test_the_band_is_the_one_found_numerically() -> None:
    # half-widths of a numerical ergodic optimum at weight 0.48: 0.0986 and 0.0987 for 1 %, 0.0455 for 0.1 %
    # 1.5 * 0.2304 * 0.2704 * 0.01 = 9.345e-4, cube root 0.09777
    assert no_trade_half_width(0.48, 0.01) == pytest.approx(0.09777, abs=1e-5)
    assert no_trade_half_width(0.48, 0.001) == pytest.approx(0.0455, abs=2e-4)
    assert no_trade_half_width(0.48, 0.008, risk_aversion=8.0) == pytest.approx(no_trade_half_width(0.48, 0.001))
    assert no_trade_half_width([0.0, 1.0, 0.5], 0.0).tolist() == [0.0, 0.0, 0.0]
    widths = no_trade_half_width([0.0, 1.0, -0.5, 1.5], 0.01)
    assert widths[:2].tolist() == [0.0, 0.0] and widths[2] == widths[3] > 0  # mirror images around a half


def test_a_band_is_left_alone_and_traded_back_to_its_edge() -> None:
    targets = band_target([0.40, 0.55, 0.75], 0.5, 0.1)
    assert targets.tolist() == pytest.approx([0.40, 0.55, 0.60])  # not to the middle
    assert band_target(0.3, 0.5, 0.1) == pytest.approx(0.4)
    with pytest.raises(ValueError, match=r"half_width is -0.1; expected at least 0"):
        band_target(0.3, 0.5, -0.1)


def test_cppi_by_hand() -> None:
    # cushion 0.1; a loss of 5 % of 2 takes all of it
    assert cppi_exposure(1.0, 0.9, max_loss=0.05, max_exposure=3.0) == pytest.approx(2.0)
    assert cppi_exposure(1.0, 0.9, max_loss=0.05) == 1.0
    # of equity, not of the start: 0.2 / (2 * 0.5)
    assert cppi_exposure([2.0, 1.8, 1.7], 1.8, max_loss=0.5).tolist() == pytest.approx([0.2, 0.0, 0.0])


@given(arrays(np.float64, 60, elements=st.floats(-0.1, 0.1)), st.floats(0.05, 0.9), st.booleans())
def test_cppi_never_falls_below_its_floor(returns: Any, drawdown: float, trailing: bool) -> None:
    equity = peak = 1.0
    for value in returns:
        floor = (1 - drawdown) * (peak if trailing else 1.0)
        equity *= 1 + cppi_exposure(equity, floor, max_loss=0.1, max_exposure=20.0) * value
        assert equity >= floor - 1e-12
        peak = max(peak, equity)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: equal_weights(0), ValueError, "n_assets is 0; expected an int of at least 1"),
        (lambda: minimum_variance_weights([0.1]), ValueError, r"covariance has shape \(1,\); expected 2 axes"),
        (lambda: minimum_variance_weights([[0.1, 0.2]]), ValueError, r"shape \(1, 2\); expected \(n, n\)"),
        (lambda: minimum_variance_weights([[1.0, 0.2], [0.1, 1.0]]), ValueError, "covariance is not symmetric"),
        (lambda: minimum_variance_weights(np.ones((2, 2))), ValueError, "expected a positive definite matrix"),
        (lambda: minimum_variance_weights([[1, math.nan], [0, 1]]), ValueError, r"covariance\[0, 1\] is nan"),
        (lambda: kelly_weights([0.1], COVARIANCE), ValueError, "mean has 1 entries and covariance 2 assets"),
        (lambda: kelly_weights(MEAN, COVARIANCE, risk_aversion=0.0), ValueError, "risk_aversion is 0.0"),
        (lambda: growth_rate([0.1], MEAN, COVARIANCE), ValueError, "weights has 1 entries"),
        (lambda: no_trade_half_width(0.5, 1.0), ValueError, r"cost is 1.0; expected a fraction of the traded value"),
        (lambda: cppi_exposure(0.0, 0.0, max_loss=0.1), ValueError, "equity is 0.0; expected equity above 0"),
        (lambda: cppi_exposure(1.0, 0.0, max_loss=0.0), ValueError, "max_loss is 0.0; expected a number above 0"),
    ],
)
def test_crooked_arguments_are_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
