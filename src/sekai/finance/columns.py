"""What the measures of a performance share: arrays with time first, and what is not defined in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.finance.checks import finite

# A return comes from a quotient near 1: differences below this are its rounding errors.
ROUNDING = 8 * float(np.finfo(np.float64).eps)


def rate_per_period(name: str, rate: float, periods: float) -> float:
    """An annual rate above -1 compounded down: `(1 + rate) ** (1 / periods) - 1`."""
    annual = finite(name, rate)
    if annual <= -1:
        raise ValueError(f"{name} is {rate!r}; expected an annual rate above -1.")
    return float((1.0 + annual) ** (1.0 / periods) - 1.0)


def equity_curve(values: Any) -> Any:
    """`values` as float64 `(T + 1,)` or `(T + 1, N)` that begins above 0."""
    array = time_major("equity", values)
    if not len(array):
        raise ValueError("equity has no rows; expected at least the equity at the start.")
    if not (array[0] > 0).all():
        raise ValueError(f"equity begins with {array[0]}; expected an equity above 0 at the start.")
    return array


def beside(name: str, values: Any, equity: Any) -> Any:
    """`values` as float64, one row for each row of the equity curve but the first."""
    array, curve = time_major(name, values), equity_curve(equity)
    if array.shape != (len(curve) - 1, *curve.shape[1:]):
        raise ValueError(
            f"{name} has shape {array.shape} and equity {curve.shape}; expected one row of {name} for each row of "
            "equity after the first."
        )
    return array


def time_major(name: str, values: Any) -> Any:
    """`values` as float64 `(T,)` or `(T, N)`."""
    array = np.asarray(values, np.float64)
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} has shape {array.shape}; expected (T,) or (T, N).")
    return array


def result(values: Any) -> Any:
    """A float where there is one number, the array otherwise."""
    return float(values) if np.ndim(values) == 0 else values


def sharpe_per_period(excess: Any) -> Any:
    """`mean(x) / sd(x)` down the first axis, not annualised; NaN with fewer than two returns or no deviation."""
    if len(excess) < 2:
        return np.full(excess.shape[1:], np.nan)
    # equal returns have a deviation of rounding errors, not of zero
    constant = excess.max(axis=0) - excess.min(axis=0) <= ROUNDING
    return excess.mean(axis=0) / np.where(constant, np.nan, excess.std(axis=0, ddof=1))


def ratio(numerator: Any, denominator: Any) -> Any:
    """The quotient; NaN where the denominator is 0 but for rounding errors."""
    return numerator / np.where(np.abs(denominator) <= ROUNDING, np.nan, denominator)
