"""The measures of a performance, all at once."""

from __future__ import annotations

from typing import Any

from sekai.finance import metrics
from sekai.finance.columns import beside
from sekai.finance.significance import probabilistic_sharpe_ratio, sharpe_standard_error


def summary(
    equity: Any,
    periods_per_year: float,
    *,
    risk_free: float = 0.0,
    level: float = 0.05,
    turnover: Any = None,
    cost: Any = None,
    exposure: Any = None,
) -> dict[str, Any]:
    """Every measure of an equity curve, by the name of the function that makes it.

    Args:
        equity: `(T + 1,)` or `(T + 1, N)`, the equity at the start first.
        periods_per_year: 252 for trading days, 365 for calendar days.
        risk_free: annual rate, above -1; also the target of the Sortino ratio.
        level: tail of the value at risk, in (0, 1).
        turnover: of each period, a fraction of equity, `(T,)` or `(T, N)`: adds `annual_turnover`.
        cost: of each period, a fraction of equity, `(T,)` or `(T, N)`: adds `cost_drag`.
        exposure: held over each period, `(T,)` or `(T, N)`: adds `exposure_time`.

    Returns:
        Floats, or float64 arrays `(N,)`.

    Example:
        >>> summary([1.0, 1.2, 0.6], 252)["max_drawdown"]  # 1.2 -> 0.6
        0.5
    """
    returns = metrics.simple_returns(equity)
    year: Any = {"periods_per_year": periods_per_year}
    measures = {
        "total_return": metrics.total_return(equity),
        "annual_return": metrics.annual_return(equity, **year),
        "volatility": metrics.volatility(returns, **year),
        "sharpe_ratio": metrics.sharpe_ratio(returns, risk_free=risk_free, **year),
        "sharpe_standard_error": sharpe_standard_error(returns, risk_free=risk_free, **year),
        "probabilistic_sharpe_ratio": probabilistic_sharpe_ratio(returns, risk_free=risk_free, **year),
        "sortino_ratio": metrics.sortino_ratio(returns, target=risk_free, **year),
        "max_drawdown": metrics.max_drawdown(equity),
        "calmar_ratio": metrics.calmar_ratio(equity, **year),
        "value_at_risk": metrics.value_at_risk(returns, level=level),
        "conditional_value_at_risk": metrics.conditional_value_at_risk(returns, level=level),
        "hit_rate": metrics.hit_rate(returns),
        "profit_factor": metrics.profit_factor(returns),
    }
    if turnover is not None:
        measures["annual_turnover"] = metrics.annual_turnover(beside("turnover", turnover, equity), **year)
    if cost is not None:
        measures["cost_drag"] = metrics.cost_drag(cost, equity)
    if exposure is not None:
        measures["exposure_time"] = metrics.exposure_time(beside("exposure", exposure, equity))
    return measures
