"""Measures of a performance, over time-major arrays: `(T,)` for one, `(T, N)` for `N` side by side.

Returns are simple and per period; an equity curve begins with the equity at the start, so `T` returns belong to
`T + 1` values of equity.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np


def sharpe_ratio(returns: Any, *, periods_per_year: float, risk_free: float = 0.0) -> Any:
    """Annualised Sharpe ratio: `mean(x) / sd(x) * sqrt(periods_per_year)` of the excess returns `x`.

    The risk-free rate per period is `(1 + risk_free) ** (1 / periods_per_year) - 1`, the standard deviation has
    `T - 1` in its denominator (Sharpe 1994).

    Args:
        returns: simple returns, `(T,)` or `(T, N)`.
        periods_per_year: 252 for trading days, 365 for calendar days.
        risk_free: annual rate.

    Returns:
        A float, or float64 `(N,)`; NaN with fewer than two returns or where they are all equal.
    """
    values = _time_major("returns", returns)
    periods = _positive("periods_per_year", periods_per_year)
    if len(values) < 2:
        return _result(np.full(values.shape[1:], np.nan))
    excess = values - ((1.0 + risk_free) ** (1.0 / periods) - 1.0)
    # equal returns have a deviation of rounding errors, not of zero
    constant = values.max(axis=0) == values.min(axis=0)
    deviation = np.where(constant, np.nan, excess.std(axis=0, ddof=1))
    return _result(excess.mean(axis=0) / deviation * math.sqrt(periods))


def max_drawdown(equity: Any) -> Any:
    """Largest fraction lost since an earlier peak: `max(1 - E_t / max(E_0, ..., E_t))`.

    Args:
        equity: `(T + 1,)` or `(T + 1, N)`; the equity at the start, above 0, is the first peak.

    Returns:
        A float, or float64 `(N,)`; 0 where the equity never fell.
    """
    values = _time_major("equity", equity)
    if not len(values):
        raise ValueError("equity has no rows; expected at least the equity at the start.")
    if not (values[0] > 0).all():
        raise ValueError(f"equity begins with {values[0]}; expected an equity above 0 at the start.")
    peak = np.maximum.accumulate(values, axis=0)
    return _result((1.0 - values / peak).max(axis=0))


def _time_major(name: str, values: Any) -> Any:
    array = np.asarray(values, np.float64)
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} has shape {array.shape}; expected (T,) or (T, N).")
    return array


def _positive(name: str, value: Any) -> float:
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} is {value!r}; expected a finite number above 0.")
    return number


def _result(values: Any) -> Any:
    return float(values) if np.ndim(values) == 0 else values
