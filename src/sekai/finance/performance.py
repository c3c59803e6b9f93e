"""The measures of a performance, all at once: of an equity, of a wealth in money, of an order that is worked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sekai.finance import metrics
from sekai.finance.columns import beside, ratio, result, time_major
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


def profit_summary(
    wealth: Any,
    periods_per_year: float,
    *,
    level: float = 0.05,
    inventory: Any = None,
    spread: Any = None,
    carried: Any = None,
    fills: Any = None,
) -> dict[str, Any]:
    """Measures of a wealth in money that may begin at 0 and change sign, so that it has no returns.

    Args:
        wealth: `(T + 1,)` or `(T + 1, N)`, the wealth at the start first.
        periods_per_year: periods per unit of time, of a year or of any other.
        level: tail of the value at risk, in (0, 1).
        inventory: units held, as `wealth`: adds `mean_absolute_inventory` and `max_absolute_inventory`, over the
            periods, at their ends.
        spread: money made by quoting, of each period, `(T,)` or `(T, N)`: adds `spread_profit`, its sum.
        carried: money made by the inventory, of each period: adds `inventory_profit`, its sum.
        fills: filled quotes of each period: adds `fills`, their number.

    Returns:
        Floats, or float64 arrays `(N,)`: `profit`; `profit_volatility` per square root of the unit of time;
        `sharpe_ratio` of the changes; `max_drawdown`, `value_at_risk` and `conditional_value_at_risk`, in money;
        `hit_rate` and `profit_factor`.
    """
    values = time_major("wealth", wealth)
    changes = np.diff(values, axis=0)
    year: Any = {"periods_per_year": periods_per_year}
    measures = {
        "profit": result(values[-1] - values[0]),
        "profit_volatility": metrics.volatility(changes, **year),
        "sharpe_ratio": metrics.sharpe_ratio(changes, **year),
        "max_drawdown": result((np.maximum.accumulate(values, axis=0) - values).max(axis=0)),
        "value_at_risk": metrics.value_at_risk(changes, level=level),
        "conditional_value_at_risk": metrics.conditional_value_at_risk(changes, level=level),
        "hit_rate": metrics.hit_rate(changes),
        "profit_factor": metrics.profit_factor(changes),
    }
    if inventory is not None:
        sizes = np.abs(time_major("inventory", inventory)[1:])
        measures["mean_absolute_inventory"] = result(sizes.mean(axis=0))
        measures["max_absolute_inventory"] = result(sizes.max(axis=0))
    for name, flow in {"spread_profit": spread, "inventory_profit": carried, "fills": fills}.items():
        if flow is not None:
            measures[name] = result(time_major(name, flow).sum(axis=0))
    return measures


def execution_summary(
    shortfall: Any, *, inventory: Any, filled: Any, price: Any, parts: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Measures of an order that was worked in slices.

    Args:
        shortfall: implementation shortfall so far, in money, `(T + 1,)` or `(T + 1, N)`; 0 at the start.
        inventory: units still to trade, as `shortfall`.
        filled: units traded in each slice, `(T,)` or `(T, N)`.
        price: average price of each slice, `(T,)` or `(T, N)`.
        parts: further running sums by name, as `shortfall`: their last values are handed on.

    Returns:
        Floats, or float64 arrays `(N,)`: `implementation_shortfall`; `filled_fraction` of the order; `average_price`
        of what was filled, NaN if nothing was; `slices` in which something was filled; and `parts`.
    """
    units = time_major("filled", filled)
    left = time_major("inventory", inventory)
    paid = (units * time_major("price", price)).sum(axis=0)
    measures = {
        "implementation_shortfall": result(time_major("shortfall", shortfall)[-1]),
        "filled_fraction": result(1.0 - left[-1] / left[0]),
        "average_price": result(ratio(paid, units.sum(axis=0))),
        "slices": result((units > 0).sum(axis=0).astype(np.float64)),
    }
    for name, values in (parts or {}).items():
        measures[name] = result(time_major(name, values)[-1])
    return measures
