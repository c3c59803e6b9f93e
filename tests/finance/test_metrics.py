"""Measures of a performance, against numbers worked out by hand, another library's, and the degenerate cases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sekai.finance import (
    annual_return,
    annual_turnover,
    calmar_ratio,
    conditional_value_at_risk,
    cost_drag,
    exposure_time,
    hit_rate,
    max_drawdown,
    probabilistic_sharpe_ratio,
    profit_factor,
    sharpe_ratio,
    sharpe_standard_error,
    simple_returns,
    sortino_ratio,
    summary,
    total_return,
    value_at_risk,
    volatility,
)

RETURNS = np.array([0.01, -0.02, 0.03, -0.01, 0.02])
EQUITY = np.concatenate(([1.0], np.cumprod(1 + RETURNS)))
YEAR: Any = {"periods_per_year": 252}


def curve(returns: Any) -> Any:
    return np.concatenate([np.ones((1, *np.shape(returns)[1:])), np.cumprod(1 + np.asarray(returns), axis=0)])


def test_the_golden_numbers() -> None:
    # mean 0.006; deviations 4 -26 24 -16 14 thousandths, squares sum to 1720e-6, /4 = 4.3e-4, root 0.0207364
    # 0.006 / 0.0207364 * sqrt(252) = 4.59322
    assert sharpe_ratio(RETURNS, **YEAR) == pytest.approx(4.593220484431883, rel=1e-14)
    assert max_drawdown(EQUITY) == pytest.approx(0.020000000000000018, abs=1e-16)
    assert total_return(EQUITY) == pytest.approx(0.02948504120000006, rel=1e-13)
    # 1.0294850 ** (252 / 5) = 4.32564
    assert annual_return(EQUITY, **YEAR) == pytest.approx(3.325636719291218, rel=1e-13)
    # 0.0207364 * sqrt(252)
    assert volatility(RETURNS, **YEAR) == pytest.approx(0.32918080138428485, rel=1e-14)
    # losses 20 and 10 thousandths: (400 + 100)e-6 / 5 = 1e-4, root 0.01; 0.006 / 0.01 * sqrt(252) = 9.52470
    assert sortino_ratio(RETURNS, **YEAR) == pytest.approx(9.524704719832526, rel=1e-14)
    assert calmar_ratio(EQUITY, **YEAR) == pytest.approx(3.325636719291218 / 0.02, rel=1e-12)


# empyrical-reloaded 0.7.1 with NumPy 2.4.6, in an environment of its own (`pip install empyrical-reloaded`), on the
# returns below, with the annual rate R as p = (1 + R) ** (1 / P) - 1 per period:
#   cum_returns_final(r), annual_return(r, annualization=P), annual_volatility(r, annualization=P),
#   sharpe_ratio(r, risk_free=p, annualization=P), sortino_ratio(r, required_return=p, annualization=P),
#   -max_drawdown(r), calmar_ratio(r, annualization=P), -value_at_risk(r, 0.05), -conditional_value_at_risk(r, 0.05)
NAMES = (
    "total_return", "annual_return", "volatility", "sharpe_ratio", "sortino_ratio", "max_drawdown", "calmar_ratio",
    "value_at_risk", "conditional_value_at_risk",
)  # fmt: skip
# seed, R, P
OTHERS = {
    (0, 0.0, 252): (
        0.18875394560377545, 0.4377823235298268, 0.3044512037625535, 1.3444580074276504, 2.0294130338855756,
        0.14854362768209364, 2.947163270219499, 0.025799298781254826, 0.036139509092891556,
    ),
    (1, 0.02, 252): (
        0.010754573502075315, 0.0054059253779363825, 0.2343244621140828, 0.05539759095771881, 0.0794741602091221,
        0.3527540574318414, 0.015324913389496327, 0.0211463926382859, 0.03344908750850997,
    ),
    (2, 0.0, 365): (
        -0.30929789711187217, -0.23672283789462023, 0.25771777091879156, -0.9188726534700494, -1.2238889898931278,
        0.33713383931915886, -0.7021627920017806, 0.023044306607854215, 0.0320199029270606,
    ),
    (7, 0.05, 12): (
        -0.30230081590746527, -0.008602002926794583, 0.04479519445145689, -1.2618149280415873, -1.3673009697644773,
        0.4051751420914695, -0.02123033235057805, 0.023876943198398563, 0.03075022945344392,
    ),
}  # fmt: skip


def drawn_returns(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return 0.0005 + 0.01 * rng.standard_t(4, 500) if seed else rng.normal(0.0, 0.02, 120)


@pytest.mark.parametrize("case", OTHERS)
def test_the_numbers_of_empyrical(case: tuple[int, float, int]) -> None:
    seed, rate, periods = case
    measures = summary(curve(drawn_returns(seed)), periods, risk_free=rate)
    for name, expected in zip(NAMES, OTHERS[case], strict=True):
        # measured on a curve: returns have gone through a product and a quotient
        assert measures[name] == pytest.approx(expected, rel=1e-12, abs=1e-12), name


def test_the_denominator_is_one_less_than_the_number_of_returns() -> None:
    wrong = RETURNS.mean() / RETURNS.std() * math.sqrt(252)
    assert sharpe_ratio(RETURNS, **YEAR) != pytest.approx(wrong, rel=0.05)


def test_downside_squares_are_averaged_over_all_returns() -> None:
    losses = RETURNS[RETURNS < 0]
    for wrong in (losses.std(ddof=1), losses.std(), math.sqrt((losses**2).mean())):
        assert sortino_ratio(RETURNS, **YEAR) != pytest.approx(RETURNS.mean() / wrong * math.sqrt(252), rel=0.05)


def test_a_year_is_compounded_not_multiplied() -> None:
    # 21 % in two periods of half a year
    assert annual_return([1.0, 1.1, 1.21], periods_per_year=2) == pytest.approx(0.21)
    # and in two periods of a quarter: 1.21 ** 2
    assert annual_return([1.0, 1.1, 1.21], periods_per_year=4) == pytest.approx(0.4641)
    # 21 % in two periods, of which one is a year: root of 1.21
    assert annual_return([1.0, 1.0, 1.21], periods_per_year=1) == pytest.approx(0.1)


def test_rates_are_compounded_down_to_a_period() -> None:
    # 1.0201 a year is 1.01 a half-year: excess returns are 0.01 lower
    half: Any = {"periods_per_year": 2}
    expected = sharpe_ratio(RETURNS - 0.01, **half)
    assert sharpe_ratio(RETURNS, risk_free=0.0201, **half) == pytest.approx(expected, rel=1e-12)
    expected = sortino_ratio(RETURNS - 0.01, **half)
    assert sortino_ratio(RETURNS, target=0.0201, **half) == pytest.approx(expected, rel=1e-12)


def test_columns_are_measured_side_by_side() -> None:
    both = np.stack([RETURNS, -RETURNS, np.full(5, 0.1)], axis=1)
    ratio = sharpe_ratio(both, **YEAR)
    assert ratio[0] == -ratio[1] and np.isnan(ratio[2])
    # 1 -> 0.9 -> 1.2 -> 0.6: half of 1.2 is lost; the other never falls
    curves = np.array([[1.0, 1.0], [0.9, 1.0], [1.2, 1.1], [0.6, 1.2]])
    assert max_drawdown(curves).tolist() == [0.5, 0.0]


def test_a_summary_of_columns_is_the_columns_summaries() -> None:
    returns = np.random.default_rng(3).normal(0.001, 0.02, (60, 4))
    turnover, cost = np.abs(returns), np.abs(returns) / 100
    extra: Any = {"turnover": turnover, "cost": cost, "exposure": np.sign(returns)}
    together = summary(curve(returns), 252, risk_free=0.01, **extra)
    assert {len(values) for values in together.values()} == {4}
    for column in range(4):
        alone = summary(
            curve(returns)[:, column], 252, risk_free=0.01, **{name: v[:, column] for name, v in extra.items()}
        )
        assert all(isinstance(value, float) for value in alone.values())
        assert {name: v[column] for name, v in together.items()} == pytest.approx(alone, rel=1e-12)


def test_a_summary_has_what_was_asked_for() -> None:
    plain = summary(EQUITY, 252)
    assert not {"annual_turnover", "cost_drag", "exposure_time"} & set(plain)
    assert plain["hit_rate"] == 0.6
    assert summary(EQUITY, 252, level=0.3)["value_at_risk"] == pytest.approx(0.006)
    assert summary(EQUITY, 252, level=0.3)["conditional_value_at_risk"] == pytest.approx(0.015)
    full = summary(EQUITY, 252, turnover=[1, 0, 0, 0, 1], cost=[0.1, 0, 0, 0, 0], exposure=[0, 1, 1, 1, 1])
    assert full["annual_turnover"] == pytest.approx(0.4 * 252)
    assert full["cost_drag"] == 0.1 and full["exposure_time"] == 0.8


def test_the_equity_at_the_start_is_the_first_peak() -> None:
    assert max_drawdown([1.0, 0.8, 0.9]) == pytest.approx(0.2)
    assert max_drawdown([0.8, 0.9]) == 0.0  # without the start, that loss cannot be seen


def test_value_at_risk_is_interpolated_and_the_mean_beyond_it_is_worse() -> None:
    # sorted -0.02 -0.01 0.01 0.02 0.03; 0.3 of 4 intervals is 1.2: -0.01 + 0.2 * 0.02 = -0.006
    assert value_at_risk(RETURNS, level=0.3) == pytest.approx(0.006)
    assert conditional_value_at_risk(RETURNS, level=0.3) == pytest.approx(0.015)  # of -0.02 and -0.01
    assert value_at_risk([0.01, 0.02], level=0.5) == pytest.approx(-0.015)  # a gain


def test_hits_are_counted_among_bets() -> None:
    assert hit_rate([0.1, 0.0, -0.1, 0.2, 0.0]) == pytest.approx(2 / 3)
    # 0.1 + 0.2 gained, 0.1 lost
    assert profit_factor([0.1, 0.0, -0.1, 0.2, 0.0]) == pytest.approx(3.0)


def test_turnover_costs_and_exposure() -> None:
    # 0.5 a period over four periods, at four periods a year
    assert annual_turnover([1.0, 0.0, 0.5, 0.5], periods_per_year=4) == pytest.approx(2.0)
    # 1 % of 1 and 2 % of 3, per unit at the start: fractions add up only in money
    assert cost_drag([0.01, 0.02], [1.0, 3.0, 6.0]) == pytest.approx(0.07)
    assert cost_drag([0.01, 0.02], [2.0, 6.0, 12.0]) == pytest.approx(0.07)
    assert exposure_time([0.0, -1.0, 0.5, 0.0]) == 0.5


def test_the_standard_error_of_lo() -> None:
    # per period s = 0.006 / 0.0207364 = 0.289345; (1 + 0.0837209 / 2) / 5 = 0.2083721, root 0.456478
    assert sharpe_standard_error(RETURNS, periods_per_year=1) == pytest.approx(0.45647795, rel=1e-7)
    annual = sharpe_standard_error(RETURNS, **YEAR)
    assert annual == pytest.approx(0.45647795 * math.sqrt(252), rel=1e-7)
    # the plausible wrong one puts the annual ratio into the formula
    wrong = math.sqrt((1 + sharpe_ratio(RETURNS, **YEAR) ** 2 / 2) / 5)
    assert annual != pytest.approx(wrong, rel=0.1)


def test_the_standard_error_is_that_of_repeated_samples() -> None:
    returns = np.random.default_rng(5).normal(0.5, 1.0, (400, 4000))
    ratios = sharpe_ratio(returns, periods_per_year=1)
    # the deviation of 4000 ratios is known to 1 / sqrt(8000) = 1.1 %
    assert ratios.std() == pytest.approx(sharpe_standard_error(returns, periods_per_year=1).mean(), rel=0.04)


def test_the_probabilistic_sharpe_ratio() -> None:
    # s = 0.2893457; central moments: m2 = 3.44e-4, m3 = (64 - 17576 + 13824 - 4096 + 2744)e-9 / 5 = -1.008e-6,
    # m4 = (256 + 456976 + 331776 + 65536 + 38416)e-12 / 5 = 1.785920e-7
    # g3 = -1.008e-6 / 3.44e-4^1.5 = -0.1579876, g4 = 1.78592e-7 / 3.44e-4^2 = 1.5091942
    # 1 + 0.1579876 * 0.2893457 + 0.5091942 / 4 * 0.0837209 = 1.0563706
    # 0.2893457 * 2 / sqrt(1.0563706) = 0.5630395; Phi = 0.7132960
    psr = probabilistic_sharpe_ratio(RETURNS, periods_per_year=1)
    assert psr == pytest.approx(0.7132960, abs=1e-7)
    # a ratio is above itself with probability one half, in the units of a year as well
    own = sharpe_ratio(RETURNS, **YEAR)
    assert probabilistic_sharpe_ratio(RETURNS, benchmark=own, **YEAR) == pytest.approx(0.5)
    assert probabilistic_sharpe_ratio(RETURNS, **YEAR) == pytest.approx(psr)
    # without skewness and kurtosis it would be Phi(0.2893457 * 2 / sqrt(1 + 0.0837209 / 2)) = 0.7146248
    assert psr != pytest.approx(0.7146248, abs=1e-3)


@pytest.mark.parametrize("returns", [[], [0.01], [0.01, 0.01, 0.01], [0.1] * 7])
def test_there_is_no_sharpe_ratio_without_variance(returns: Any) -> None:
    assert math.isnan(sharpe_ratio(returns, **YEAR))
    assert math.isnan(sharpe_standard_error(returns, **YEAR))
    assert math.isnan(probabilistic_sharpe_ratio(returns, **YEAR))


def test_rounding_errors_of_a_curve_are_no_variance() -> None:
    powers = 1.003 ** np.arange(100)
    assert np.ptp(simple_returns(powers)) > 0  # the quotients differ in their last bits
    steady = summary(powers, 252, risk_free=1.003**252 - 1)
    assert math.isnan(steady["sharpe_ratio"]) and math.isnan(steady["sortino_ratio"])


def test_what_is_not_defined_is_nan() -> None:
    assert math.isnan(volatility([0.1], **YEAR)) and math.isnan(sortino_ratio([-0.1], **YEAR))
    assert math.isnan(sortino_ratio([0.1, 0.2], **YEAR))  # no loss
    assert math.isnan(calmar_ratio([1.0, 1.1], **YEAR))  # no drawdown
    assert math.isnan(profit_factor([0.1])) and math.isnan(hit_rate([0.0, 0.0]))
    assert math.isnan(value_at_risk([])) and math.isnan(conditional_value_at_risk([]))
    assert math.isnan(annual_return([1.0], **YEAR)) and total_return([1.0]) == 0.0
    assert math.isnan(annual_turnover([], **YEAR)) and math.isnan(exposure_time([]))
    assert all(math.isnan(value) for name, value in summary([1.0], 252).items() if name[:3] not in ("tot", "max"))


def test_a_column_that_holds_a_nan_measures_nan_and_the_others_do_not() -> None:
    returns = np.stack([RETURNS, np.where(RETURNS == 0.03, np.nan, RETURNS)], axis=1)
    measures = summary(curve(returns), 252, exposure=returns, turnover=returns, cost=returns)
    alone = summary(EQUITY, 252, exposure=RETURNS, turnover=RETURNS, cost=RETURNS)
    for name, (clean, dirty) in measures.items():
        assert math.isnan(dirty), name
        assert clean == pytest.approx(alone[name], rel=1e-12), name


def test_all_may_be_lost_in_the_last_row() -> None:
    assert simple_returns([1.0, 0.5, 0.0]).tolist() == [-0.5, -1.0]
    assert annual_return([1.0, 0.5, 0.0], **YEAR) == -1.0
    assert math.isnan(annual_return([1.0, -0.1], **YEAR)) and total_return([1.0, -0.1]) == pytest.approx(-1.1)
    assert max_drawdown([1.0, -0.1]) == pytest.approx(1.1)
    assert annual_return([1.0, 100.0], periods_per_year=100_000) == math.inf
    with pytest.raises(ValueError, match=r"equity at row 1 is 0.0; expected equity above 0 in every row but the last"):
        summary([1.0, 0.0, 0.0], 252)


@given(arrays(np.float64, st.integers(2, 30), elements=st.floats(-0.5, 0.5)), st.floats(0.01, 0.99))
def test_bounds_of_the_measures(returns: Any, level: float) -> None:
    equity = curve(returns)
    assert 0 <= max_drawdown(equity) < 1
    assert max_drawdown(equity * 7.0) == pytest.approx(max_drawdown(equity), abs=1e-12)
    assert conditional_value_at_risk(returns, level=level) >= value_at_risk(returns, level=level) - 1e-15
    assert total_return(equity) == pytest.approx(math.expm1(np.log1p(returns).sum()), rel=1e-9, abs=1e-12)


def test_crooked_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="periods_per_year is 0; expected a number above 0"):
        sharpe_ratio(RETURNS, periods_per_year=0)
    with pytest.raises(TypeError, match="periods_per_year is 'daily'"):
        summary(EQUITY, "daily")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"returns has shape \(1, 1, 1\)"):
        sharpe_ratio(np.ones((1, 1, 1)), **YEAR)
    with pytest.raises(ValueError, match="equity above 0 at the start"):
        max_drawdown([0.0, 1.0])
    with pytest.raises(ValueError, match="equity has no rows"):
        max_drawdown([])
    with pytest.raises(ValueError, match="risk_free is -1; expected an annual rate above -1"):
        sharpe_ratio(RETURNS, risk_free=-1, **YEAR)
    with pytest.raises(ValueError, match=r"level is 5; expected a probability in \(0, 1\)"):
        value_at_risk(RETURNS, level=5)
    with pytest.raises(ValueError, match=r"cost has shape \(6,\) and equity \(6,\); expected one row of cost"):
        cost_drag(EQUITY, EQUITY)
    with pytest.raises(ValueError, match=r"turnover has shape \(6,\) and equity \(6,\)"):
        summary(EQUITY, 252, turnover=EQUITY)
