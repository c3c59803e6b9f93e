"""Measures of a performance, over time-major arrays: `(T,)` for one, `(T, N)` for `N` side by side.

Returns are simple and per period; an equity curve begins with the equity at the start, so `T` returns belong to
`T + 1` values of equity. Rates that go in, and everything annualised that comes out, are per year of
`periods_per_year` periods (252 trading days, 365 calendar days). A drawdown, a value at risk, a shortfall and a cost
are losses: above 0 where money is lost.

What is not defined is NaN: a deviation of fewer than two returns; a ratio whose denominator is 0, or only the
rounding errors of numbers that are equal; a column that holds a NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.finance.checks import finite, positive
from sekai.finance.columns import (
    beside,
    equity_curve,
    rate_per_period,
    ratio,
    result,
    sharpe_per_period,
    time_major,
)


def simple_returns(equity: Any) -> NDArray[np.float64]:
    """Simple returns of an equity curve: `E_t / E_{t-1} - 1`.

    Args:
        equity: `(T + 1,)` or `(T + 1, N)`, above 0 but for the last row, where ruin may have struck.

    Returns:
        float64 `(T,)` or `(T, N)`.
    """
    values = equity_curve(equity)
    if (values[:-1] <= 0).any():
        row = int(np.argwhere(values[:-1] <= 0)[0][0])
        raise ValueError(
            f"equity at row {row} is {values[row]}; expected equity above 0 in every row but the last: cut the curve "
            "where it is ruined."
        )
    return np.asarray(values[1:] / values[:-1] - 1.0)


def total_return(equity: Any) -> Any:
    """Total return `E_T / E_0 - 1`.

    Args:
        equity: `(T + 1,)` or `(T + 1, N)`.

    Returns:
        A float, or float64 `(N,)`.
    """
    values = equity_curve(equity)
    return result(values[-1] / values[0] - 1.0)


def annual_return(equity: Any, *, periods_per_year: float) -> Any:
    """Compound annual growth `(E_T / E_0) ** (periods_per_year / T) - 1`.

    Args:
        equity: `(T + 1,)` or `(T + 1, N)`.
        periods_per_year: periods a year.

    Returns:
        A float, or float64 `(N,)`; NaN with no return, or with an equity below 0 at the end; inf
        where a short gain, compounded over a year, leaves the range of floats.
    """
    values = equity_curve(equity)
    periods = positive("periods_per_year", periods_per_year)
    growth = values[-1] / values[0]
    if len(values) < 2:
        return result(np.full(growth.shape, np.nan))
    with np.errstate(over="ignore"):
        return result(np.where(growth < 0, np.nan, growth) ** (periods / (len(values) - 1)) - 1.0)


def volatility(returns: Any, *, periods_per_year: float) -> Any:
    """Annualised volatility: `sd(r) * sqrt(periods_per_year)`, with `T - 1` in the deviation's denominator.

    Args:
        returns: simple returns, `(T,)` or `(T, N)`.
        periods_per_year: periods a year.

    Returns:
        A float, or float64 `(N,)`; NaN with fewer than two returns.
    """
    values = time_major("returns", returns)
    periods = positive("periods_per_year", periods_per_year)
    if len(values) < 2:
        return result(np.full(values.shape[1:], np.nan))
    return result(values.std(axis=0, ddof=1) * math.sqrt(periods))


def sharpe_ratio(returns: Any, *, periods_per_year: float, risk_free: float = 0.0) -> Any:
    """Annualised Sharpe ratio: `mean(x) / sd(x) * sqrt(periods_per_year)` of the excess returns `x`.

    The risk-free rate per period is `(1 + risk_free) ** (1 / periods_per_year) - 1`, the standard deviation has
    `T - 1` in its denominator (Sharpe 1994).

    Args:
        returns: simple returns, `(T,)` or `(T, N)`.
        periods_per_year: 252 for trading days, 365 for calendar days.
        risk_free: annual rate, above -1.

    Returns:
        A float, or float64 `(N,)`; NaN with fewer than two returns or where they are all equal.
    """
    periods = positive("periods_per_year", periods_per_year)
    excess = time_major("returns", returns) - rate_per_period("risk_free", risk_free, periods)
    return result(sharpe_per_period(excess) * math.sqrt(periods))


def sortino_ratio(returns: Any, *, periods_per_year: float, target: float = 0.0) -> Any:
    """Annualised Sortino ratio: `mean(x) / sqrt(mean(min(x, 0)^2)) * sqrt(periods_per_year)`, `x` returns over target.

    The mean of squares goes over all `T` returns, not only over those below the target (Sortino and Price 1994).

    Args:
        returns: simple returns, `(T,)` or `(T, N)`.
        periods_per_year: periods a year.
        target: minimum acceptable return, an annual rate above -1, compounded down to a period.

    Returns:
        A float, or float64 `(N,)`; NaN with fewer than two returns or where none is below the target.
    """
    periods = positive("periods_per_year", periods_per_year)
    excess = time_major("returns", returns) - rate_per_period("target", target, periods)
    if len(excess) < 2:
        return result(np.full(excess.shape[1:], np.nan))
    downside = np.sqrt((np.minimum(excess, 0.0) ** 2).mean(axis=0))
    return result(ratio(excess.mean(axis=0), downside) * math.sqrt(periods))


def max_drawdown(equity: Any) -> Any:
    """Largest fraction lost since an earlier peak: `max(1 - E_t / max(E_0, ..., E_t))`.

    Args:
        equity: `(T + 1,)` or `(T + 1, N)`; the equity at the start, above 0, is the first peak.

    Returns:
        A float, or float64 `(N,)`; 0 where the equity never fell.
    """
    values = equity_curve(equity)
    peak = np.maximum.accumulate(values, axis=0)
    return result((1.0 - values / peak).max(axis=0))


def calmar_ratio(equity: Any, *, periods_per_year: float) -> Any:
    """Calmar ratio: `annual_return / max_drawdown` (Young 1991, over the whole curve).

    Args:
        equity: `(T + 1,)` or `(T + 1, N)`.
        periods_per_year: periods a year.

    Returns:
        A float, or float64 `(N,)`; NaN with no drawdown.
    """
    return result(ratio(annual_return(equity, periods_per_year=periods_per_year), max_drawdown(equity)))


def value_at_risk(returns: Any, *, level: float = 0.05) -> Any:
    """Historical value at risk: minus the `level` quantile of the returns, interpolated linearly.

    Args:
        returns: simple returns per period, `(T,)` or `(T, N)`.
        level: probability of losing more, in (0, 1).

    Returns:
        A float, or float64 `(N,)`: the loss, a fraction of equity; below 0 where even that quantile is a gain. NaN
        with no return.
    """
    return result(-_quantile(time_major("returns", returns), level))


def conditional_value_at_risk(returns: Any, *, level: float = 0.05) -> Any:
    """Mean loss of the worst returns, those at or below the `level` quantile: `-mean(r | r <= quantile)`.

    Args:
        returns: simple returns per period, `(T,)` or `(T, N)`.
        level: share of the worst returns, in (0, 1).

    Returns:
        A float, or float64 `(N,)`, at least `value_at_risk`; NaN with no return.
    """
    values = time_major("returns", returns)
    worst = values <= _quantile(values, level)
    return result(-ratio(np.where(worst, values, 0.0).sum(axis=0), worst.sum(axis=0)))


def hit_rate(returns: Any) -> Any:
    """Share of gains among the returns that are not 0; a period out of the market is no miss.

    Args:
        returns: simple returns, `(T,)` or `(T, N)`.

    Returns:
        A float, or float64 `(N,)`; NaN where every return is 0.
    """
    values = time_major("returns", returns)
    bets = np.where(np.isnan(values).any(axis=0), 0, (values != 0).sum(axis=0))
    return result(ratio((values > 0).sum(axis=0), bets))


def profit_factor(returns: Any) -> Any:
    """Sum of the gains over the sum of the losses.

    Args:
        returns: simple returns, or profits in money, `(T,)` or `(T, N)`.

    Returns:
        A float, or float64 `(N,)`; NaN without a loss.
    """
    values = time_major("returns", returns)
    return result(ratio(np.maximum(values, 0.0).sum(axis=0), -np.minimum(values, 0.0).sum(axis=0)))


def annual_turnover(turnover: Any, *, periods_per_year: float) -> Any:
    """Turnover a year: the mean per period times `periods_per_year`.

    Args:
        turnover: what was traded in each period as a fraction of equity, buys plus sells of risky assets, as the
            environments' infos report it: `(T,)` or `(T, N)`. One-way turnover, as funds report it, is half of that.
        periods_per_year: periods a year.

    Returns:
        A float, or float64 `(N,)`: 2 is all equity bought and sold once a year. NaN with no period.
    """
    values = time_major("turnover", turnover)
    periods = positive("periods_per_year", periods_per_year)
    return result(ratio(values.sum(axis=0), np.full(values.shape[1:], len(values))) * periods)


def cost_drag(cost: Any, equity: Any) -> Any:
    """All that trading cost, as a fraction of the equity at the start: `sum(c_t E_t) / E_0`.

    Args:
        cost: cost of each period as a fraction of the equity before the trade, as the environments' infos report it:
            `(T,)` or `(T, N)`.
        equity: `(T + 1,)` or `(T + 1, N)`.

    Returns:
        A float, or float64 `(N,)`.
    """
    values, curve = beside("cost", cost, equity), equity_curve(equity)
    return result((values * curve[:-1]).sum(axis=0) / curve[0])


def exposure_time(exposure: Any) -> Any:
    """Share of the periods with a holding.

    Args:
        exposure: held over each period, of either sign: `(T,)` or `(T, N)`.

    Returns:
        A float, or float64 `(N,)`; NaN with no period.
    """
    values = time_major("exposure", exposure)
    periods = np.where(np.isnan(values).any(axis=0), 0, len(values))
    return result(ratio((values != 0).sum(axis=0), periods))


def _quantile(values: Any, level: float) -> Any:
    share = finite("level", level)
    if not 0 < share < 1:
        raise ValueError(f"level is {level!r}; expected a probability in (0, 1), such as 0.05.")
    if not len(values):
        return np.full(values.shape[1:], np.nan)
    return np.quantile(values, share, axis=0)
