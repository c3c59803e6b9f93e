"""How much a Sharpe ratio says: its standard error, and the probability that the true one is above a benchmark."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sekai.finance.checks import finite, positive
from sekai.finance.columns import rate_per_period, ratio, result, sharpe_per_period, time_major


def sharpe_standard_error(returns: Any, *, periods_per_year: float, risk_free: float = 0.0) -> Any:
    """Standard error of the annualised `sharpe_ratio`, for independent returns: `sqrt((1 + s^2 / 2) / T * P)`.

    `s` is the Sharpe ratio per period, `P` is `periods_per_year` (Lo 2002, "The Statistics of Sharpe Ratios");
    `periods_per_year=1` gives the error of the ratio per period.

    Args:
        returns: simple returns, `(T,)` or `(T, N)`.
        periods_per_year: periods a year.
        risk_free: annual rate, above -1.

    Returns:
        A float, or float64 `(N,)`; NaN where there is no Sharpe ratio.
    """
    periods = positive("periods_per_year", periods_per_year)
    excess = time_major("returns", returns) - rate_per_period("risk_free", risk_free, periods)
    sharpe = sharpe_per_period(excess)
    return result(np.sqrt((1.0 + sharpe**2 / 2.0) * (periods / max(len(excess), 1))))


def probabilistic_sharpe_ratio(
    returns: Any, *, periods_per_year: float, benchmark: float = 0.0, risk_free: float = 0.0
) -> Any:
    """Probability that the true Sharpe ratio is above a benchmark, given skewness and kurtosis of the returns.

    `Phi((s - s*) sqrt(T - 1) / sqrt(1 - g3 s + (g4 - 1) / 4 s^2))` with the ratios `s`, `s*` per period, skewness `g3`
    and kurtosis `g4` (3 for a normal distribution) with `T` in their denominators (Bailey and Lopez de Prado 2012,
    "The Sharpe Ratio Efficient Frontier").

    Args:
        returns: simple returns, `(T,)` or `(T, N)`.
        periods_per_year: periods a year.
        benchmark: annualised Sharpe ratio to compare with.
        risk_free: annual rate, above -1.

    Returns:
        A float, or float64 `(N,)`, in [0, 1]; NaN where there is no Sharpe ratio.
    """
    periods = positive("periods_per_year", periods_per_year)
    excess = time_major("returns", returns) - rate_per_period("risk_free", risk_free, periods)
    sharpe = sharpe_per_period(excess)
    if len(excess) < 2:
        return result(sharpe)
    centred = excess - excess.mean(axis=0)
    variance = (centred**2).mean(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):  # columns without variance: their Sharpe ratio is NaN
        skewness = (centred**3).mean(axis=0) / variance**1.5
        kurtosis = (centred**4).mean(axis=0) / variance**2
    spread = np.sqrt(np.maximum(1.0 - skewness * sharpe + (kurtosis - 1.0) / 4.0 * sharpe**2, 0.0))
    distance = sharpe - finite("benchmark", benchmark) / math.sqrt(periods)
    return result(_normal_cdf(ratio(distance * math.sqrt(len(excess) - 1), spread)))


def _normal_cdf(values: Any) -> Any:
    flat = [0.5 * math.erfc(-value / math.sqrt(2.0)) for value in np.ravel(values)]
    return np.reshape(flat, np.shape(values))
