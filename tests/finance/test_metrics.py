"""Measures of a performance, against numbers worked out by hand and the degenerate cases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sekai.finance import max_drawdown, sharpe_ratio

RETURNS = np.array([0.01, -0.02, 0.03, -0.01, 0.02])


def test_the_golden_sharpe_ratio_and_drawdown() -> None:
    # mean 0.006; deviations 4 -26 24 -16 14 thousandths, squares sum to 1720e-6, /4 = 4.3e-4, root 0.0207364
    # 0.006 / 0.0207364 * sqrt(252) = 4.59322
    assert sharpe_ratio(RETURNS, periods_per_year=252) == pytest.approx(4.593220484431883, rel=1e-14)
    equity = np.concatenate(([1.0], np.cumprod(1 + RETURNS)))
    assert max_drawdown(equity) == pytest.approx(0.020000000000000018, abs=1e-16)


def test_the_denominator_is_one_less_than_the_number_of_returns() -> None:
    wrong = RETURNS.mean() / RETURNS.std() * math.sqrt(252)
    assert sharpe_ratio(RETURNS, periods_per_year=252) != pytest.approx(wrong, rel=0.05)


def test_the_risk_free_rate_is_compounded_down_to_a_period() -> None:
    # 1.0201 a year is 1.01 a half-year: excess returns are 0.01 lower
    expected = sharpe_ratio(RETURNS - 0.01, periods_per_year=2)
    assert sharpe_ratio(RETURNS, periods_per_year=2, risk_free=0.0201) == pytest.approx(expected, rel=1e-12)


def test_columns_are_measured_side_by_side() -> None:
    both = np.stack([RETURNS, -RETURNS, np.full(5, 0.1)], axis=1)
    ratio = sharpe_ratio(both, periods_per_year=252)
    assert ratio[0] == -ratio[1] and np.isnan(ratio[2])
    # 1 -> 0.9 -> 1.2 -> 0.6: half of 1.2 is lost; the other never falls
    curves = np.array([[1.0, 1.0], [0.9, 1.0], [1.2, 1.1], [0.6, 1.2]])
    assert max_drawdown(curves).tolist() == [0.5, 0.0]


def test_the_equity_at_the_start_is_the_first_peak() -> None:
    assert max_drawdown([1.0, 0.8, 0.9]) == pytest.approx(0.2)
    assert max_drawdown([0.8, 0.9]) == 0.0  # without the start, that loss cannot be seen


@pytest.mark.parametrize("returns", [[], [0.01], [0.01, 0.01, 0.01], [0.1] * 7])
def test_there_is_no_sharpe_ratio_without_variance(returns: Any) -> None:
    assert math.isnan(sharpe_ratio(returns, periods_per_year=252))


def test_crooked_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="periods_per_year is 0; expected a finite number above 0"):
        sharpe_ratio(RETURNS, periods_per_year=0)
    with pytest.raises(ValueError, match=r"returns has shape \(1, 1, 1\)"):
        sharpe_ratio(np.ones((1, 1, 1)), periods_per_year=252)
    with pytest.raises(ValueError, match="equity above 0 at the start"):
        max_drawdown([0.0, 1.0])
    with pytest.raises(ValueError, match="equity has no rows"):
        max_drawdown([])
