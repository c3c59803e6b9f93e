"""Optimal execution in closed form: Almgren and Chriss, "Optimal execution of portfolio transactions" (2000).

A trader sells `X` units within time `T` in `N` slices of length `tau = T / N`. `x_k` units are left after slice `k`
(`x_0 = X`), and slice `k` sells `n_k = x_{k-1} - x_k`. With volatility `sigma`, permanent impact `gamma`, temporary
impact `eta` and a fixed cost `eps` per unit (half the spread), the mid price moves and slice `k` fills at

    S_k     = S_{k-1} + sigma sqrt(tau) z_k - gamma n_k
    fill_k  = S_{k-1} - eps sign(n_k) - (eta / tau) n_k

The implementation shortfall is `X S_0 - sum n_k fill_k` (Perold 1988), in money; units left over at the end count at
the mid price. A buyer is the mirror image, with the same shortfall. Arguments and units are those of
`OptimalExecution-v0`: sigma in price per square root of time, permanent_impact in price per unit, temporary_impact in
price per unit per time, fixed_cost in price, risk_aversion `lambda` per unit of money.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.finance.checks import finite_array, not_negative, positive
from sekai.finance.columns import result
from sekai.spaces.checks import whole_number


class Shortfall(NamedTuple):
    """The two moments of an implementation shortfall.

    Attributes:
        mean: expected shortfall, in money.
        variance: in money squared.
    """

    mean: float
    variance: float

    @property
    def deviation(self) -> float:
        """Standard deviation, in money."""
        return math.sqrt(self.variance)


def almgren_chriss_kappa(
    *,
    total_time: float,
    n_steps: int,
    sigma: float,
    permanent_impact: float,
    temporary_impact: float,
    risk_aversion: float,
) -> float:
    """Urgency `kappa` of the optimal schedule, per unit of time.

    `(2 / tau^2) (cosh(kappa tau) - 1) = lambda sigma^2 / eta~` with `eta~ = eta - gamma tau / 2`, solved as
    `kappa = (2 / tau) arsinh(sqrt(lambda sigma^2 / eta~) tau / 2)`, which loses no digits where `kappa` is small.

    Raises:
        ValueError: `eta~` is not above 0, so that selling faster would cost less.
    """
    tau = positive("total_time", total_time) / whole_number("n_steps", n_steps, minimum=1)
    net = _net_impact(tau, permanent_impact, temporary_impact)
    pull = not_negative("risk_aversion", risk_aversion) * not_negative("sigma", sigma) ** 2
    return 2.0 / tau * math.asinh(math.sqrt(pull / net) * tau / 2.0)


def almgren_chriss_trajectory(
    initial_inventory: float, kappa: float, *, total_time: float, n_steps: int
) -> NDArray[np.float64]:
    """Units left after each slice of the schedule that minimises `mean + risk_aversion * variance` of the shortfall.

    `x_k = X sinh(kappa (T - t_k)) / sinh(kappa T)`; `twap_trajectory` as `kappa` goes to 0.

    Args:
        initial_inventory: `X`, units to sell or to buy, above 0.
        kappa: urgency, at least 0; `almgren_chriss_kappa` of the market and the risk aversion.

    Returns:
        float64 `(n_steps + 1,)`, from `X` down to 0.
    """
    units, left = positive("initial_inventory", initial_inventory), _time_left(kappa, total_time, n_steps)
    return units * _sinh_ratio(left, left[0]) if left[0] else twap_trajectory(units, n_steps)


def almgren_chriss_actions(kappa: float, *, total_time: float, n_steps: int) -> NDArray[np.float64]:
    """The optimal schedule as fractions of what is left, the actions of `OptimalExecution-v0`.

    `a_k = 1 - sinh(kappa (T - t_{k+1})) / sinh(kappa (T - t_k))`: they depend on the time alone, not on the price.

    Args:
        kappa: urgency, at least 0; at 0 the fractions are `1 / (N - k)`, equal slices.

    Returns:
        float64 `(n_steps,)`, the last one 1.
    """
    left = _time_left(kappa, total_time, n_steps)
    return 1.0 - _sinh_ratio(left[1:], left[:-1]) if left[0] else 1.0 / np.arange(n_steps, 0, -1)


def almgren_chriss_shortfall(
    initial_inventory: float,
    kappa: float,
    *,
    total_time: float,
    n_steps: int,
    sigma: float,
    permanent_impact: float,
    temporary_impact: float,
    fixed_cost: float,
) -> Shortfall:
    """Moments of the optimal schedule's shortfall in closed form: a point of the efficient frontier.

        mean     = gamma X^2 / 2 + eps X
                   + eta~ X^2 tanh(kappa tau / 2) (tau sinh(2 kappa T) + 2 T sinh(kappa tau))
                     / (2 tau^2 sinh(kappa T)^2)
        variance = (sigma^2 X^2 / 2) (tau sinh(kappa T) cosh(kappa (T - tau)) - T sinh(kappa tau))
                   / (sinh(kappa T)^2 sinh(kappa tau))

    As `kappa` goes through all values, these are the least variances for their means. At 0 it is `twap_shortfall`.

    Args:
        initial_inventory: `X`, units to sell or to buy, above 0.
        kappa: urgency, at least 0; `almgren_chriss_kappa` of the same market.
    """
    equal = twap_shortfall(
        initial_inventory,
        total_time=total_time,
        n_steps=n_steps,
        sigma=sigma,
        permanent_impact=permanent_impact,
        temporary_impact=temporary_impact,
        fixed_cost=fixed_cost,
    )
    whole = float(_time_left(kappa, total_time, n_steps)[0])
    if whole < 1e-8:  # both moments differ from those of equal slices by kappa^2 T^2 of them, less than rounding
        return equal
    tau, slice_ = total_time / n_steps, whole / n_steps
    # sinh(2 y) / sinh(y)^2 = 2 / tanh(y), and sinh(x) / sinh(y)^2 in two factors that do not overflow
    squared = float(_sinh_ratio(slice_, whole)) * _csch(whole)
    sold = math.tanh(slice_ / 2.0) * (tau / math.tanh(whole) + total_time * squared) / tau**2
    net = _net_impact(tau, permanent_impact, temporary_impact)
    linear = permanent_impact * initial_inventory**2 / 2.0 + fixed_cost * initial_inventory
    variance = (sigma * initial_inventory) ** 2 / 2.0 * tau * _summed_squares(whole, slice_)
    return Shortfall(linear + net * initial_inventory**2 * sold, variance)


def expected_shortfall(
    trajectory: Any, *, total_time: float, permanent_impact: float, temporary_impact: float, fixed_cost: float
) -> Any:
    """Expected implementation shortfall of any schedule, in money: `sum gamma x_k n_k + eps |n_k| + (eta / tau) n_k^2`.

    Not the tail measure of that name, which is `conditional_value_at_risk`.

    For a schedule that ends at 0 that is `gamma X^2 / 2 + eps sum |n_k| + (eta~ / tau) sum n_k^2`.

    Args:
        trajectory: units left, before the first slice and after each: `(n_steps + 1,)`, or `(n_steps + 1, N)` for `N`
            schedules.

    Returns:
        A float, or float64 `(N,)`.
    """
    left = _trajectory(trajectory)
    tau = positive("total_time", total_time) / (len(left) - 1)
    sold = left[:-1] - left[1:]
    permanent = not_negative("permanent_impact", permanent_impact) * (left[1:] * sold).sum(axis=0)
    spread = not_negative("fixed_cost", fixed_cost) * np.abs(sold).sum(axis=0)
    temporary = not_negative("temporary_impact", temporary_impact) / tau * (sold**2).sum(axis=0)
    return result(permanent + spread + temporary)


def shortfall_variance(trajectory: Any, *, total_time: float, sigma: float) -> Any:
    """Variance of any schedule's implementation shortfall, in money squared: `sigma^2 tau sum x_k^2` over `k >= 1`.

    Args:
        trajectory: units left, before the first slice and after each: `(n_steps + 1,)` or `(n_steps + 1, N)`.

    Returns:
        A float, or float64 `(N,)`.
    """
    left = _trajectory(trajectory)
    tau = positive("total_time", total_time) / (len(left) - 1)
    return result(not_negative("sigma", sigma) ** 2 * tau * (left[1:] ** 2).sum(axis=0))


def trajectory_of(actions: Any, initial_inventory: float) -> NDArray[np.float64]:
    """Units left when each slice sells a fraction of what remains: `x_k = x_{k-1} (1 - a_{k-1})`.

    Args:
        actions: fractions in [0, 1], `(n_steps,)` or `(n_steps, N)`; `OptimalExecution-v0` takes the last as 1.
        initial_inventory: units to sell or to buy, above 0.

    Returns:
        float64 `(n_steps + 1,)` or `(n_steps + 1, N)`.
    """
    fractions = finite_array("actions", actions)
    if fractions.ndim not in (1, 2) or not len(fractions):
        raise ValueError(f"actions has shape {fractions.shape}; expected (n_steps,) or (n_steps, N).")
    if (fractions < 0).any() or (fractions > 1).any():
        raise ValueError(f"actions reach from {fractions.min()} to {fractions.max()}; expected fractions in [0, 1].")
    whole = np.ones((1, *fractions.shape[1:]))
    units = positive("initial_inventory", initial_inventory)
    return units * np.concatenate([whole, np.cumprod(1.0 - fractions, axis=0)])


def twap_trajectory(initial_inventory: float, n_steps: int) -> NDArray[np.float64]:
    """Equal slices: `x_k = X (1 - k / N)`, float64 `(n_steps + 1,)`."""
    steps = whole_number("n_steps", n_steps, minimum=1)
    return positive("initial_inventory", initial_inventory) * (np.arange(steps, -1, -1) / steps)


def twap_shortfall(
    initial_inventory: float,
    *,
    total_time: float,
    n_steps: int,
    sigma: float,
    permanent_impact: float,
    temporary_impact: float,
    fixed_cost: float,
) -> Shortfall:
    """Moments of equal slices: the least mean of all schedules.

     `mean = gamma X^2 / 2 + eps X + eta~ X^2 / T`, `variance = sigma^2 X^2 (T / 3) (1 - 1 / N) (1 - 1 / (2 N))`
    .
    """
    units, steps = positive("initial_inventory", initial_inventory), whole_number("n_steps", n_steps, minimum=1)
    time = positive("total_time", total_time)
    net = _net_impact(time / steps, permanent_impact, temporary_impact)
    mean = permanent_impact * units**2 / 2 + not_negative("fixed_cost", fixed_cost) * units + net * units**2 / time
    variance = (not_negative("sigma", sigma) * units) ** 2 * time / 3 * (1 - 1 / steps) * (1 - 0.5 / steps)
    return Shortfall(mean, variance)


def immediate_trajectory(initial_inventory: float, n_steps: int) -> NDArray[np.float64]:
    """Everything in the first slice: float64 `(n_steps + 1,)`, `X` and then zeros."""
    left = np.zeros(whole_number("n_steps", n_steps, minimum=1) + 1)
    left[0] = positive("initial_inventory", initial_inventory)
    return left


def immediate_shortfall(
    initial_inventory: float, *, total_time: float, n_steps: int, temporary_impact: float, fixed_cost: float
) -> Shortfall:
    """Moments of selling everything in the first slice: `mean = eps X + eta X^2 / tau`, without variance."""
    units = positive("initial_inventory", initial_inventory)
    tau = positive("total_time", total_time) / whole_number("n_steps", n_steps, minimum=1)
    temporary = not_negative("temporary_impact", temporary_impact)
    return Shortfall(not_negative("fixed_cost", fixed_cost) * units + temporary * units**2 / tau, 0.0)


def shortfall_bps(units: Any, prices: Any, *, benchmark: float, side: str = "sell") -> float:
    """What was lost against a benchmark price, in basis points of it, from the fills of a finished episode.

    `1e4 (b - p) / b` for a seller and `1e4 (p - b) / b` for a buyer, `p` being the average price of the fills. With the
    price at the start as benchmark that is the implementation shortfall of what was filled (Perold 1988); with the
    mean market price over the episode, which nobody knows before its end, it is minus the price advantage over TWAP.

    Args:
        units: filled in each slice, at least 0, `(n,)`.
        prices: of the fills, `(n,)`.
        benchmark: price above 0.
        side: `"sell"` or `"buy"`.

    Returns:
        Basis points, above 0 where money was lost; NaN if nothing was filled.
    """
    filled, paid = finite_array("units", units, 1), finite_array("prices", prices, 1)
    if filled.shape != paid.shape:
        raise ValueError(f"units has shape {filled.shape} and prices {paid.shape}; expected one price for each fill.")
    if (filled < 0).any():
        raise ValueError(f"units has {filled.min()}; expected units of at least 0, whichever the side.")
    if side not in ("sell", "buy"):
        raise ValueError(f"side is {side!r}; expected 'sell' or 'buy'.")
    price = positive("benchmark", benchmark)
    if not filled.sum():
        return math.nan
    lost = 1.0 - float(filled @ paid / filled.sum()) / price
    return 1e4 * (lost if side == "sell" else -lost)


def _time_left(kappa: float, total_time: float, n_steps: int) -> NDArray[np.float64]:
    """`kappa (T - t_k)` for `k` from 0 to `N`."""
    steps = whole_number("n_steps", n_steps, minimum=1)
    return np.linspace(not_negative("kappa", kappa) * positive("total_time", total_time), 0.0, steps + 1)


def _net_impact(tau: float, permanent_impact: float, temporary_impact: float) -> float:
    permanent = not_negative("permanent_impact", permanent_impact)
    temporary = not_negative("temporary_impact", temporary_impact)
    net = temporary - permanent * tau / 2.0
    if net <= 0:
        raise ValueError(
            f"temporary_impact is {temporary_impact!r}, not above permanent_impact * total_time / n_steps / 2 = "
            f"{permanent * tau / 2.0:.6g}: then faster trading costs less and no schedule is optimal. Take more steps, "
            "or a smaller permanent impact."
        )
    return net


def _sinh_ratio(above: Any, below: Any) -> Any:
    """`sinh(above) / sinh(below)` for `0 <= above`, `0 < below`, where either may leave the range of floats."""
    return np.exp(above - below) * np.expm1(-2.0 * above) / np.expm1(-2.0 * below)


def _csch(x: float) -> float:
    return -2.0 * math.exp(-x) / math.expm1(-2.0 * x)


def _summed_squares(whole: float, slice_: float) -> float:
    """`(sinh(w) cosh(w - s) - (w / s) sinh(s)) / (sinh(w)^2 sinh(s))` with `w = kappa T`, `s = kappa tau`."""
    if whole > 1.0:
        # cosh(w - s) / sinh(w) and 1 / sinh stay in range where sinh(w)^2 does not
        hump = math.exp(-slice_) * (1.0 + math.exp(-2.0 * (whole - slice_))) / -math.expm1(-2.0 * whole)
        return hump * _csch(slice_) - whole / slice_ * _csch(whole) ** 2
    # 2 sinh(w) cosh(w - s) = sinh(2 w - s) + sinh(s): the terms that cancel for small w are left out of the series
    far = 2.0 * whole - slice_
    difference = far / 2.0 * (_sinhc_minus_one(far) - _sinhc_minus_one(slice_))
    return difference / (math.sinh(whole) ** 2 * math.sinh(slice_))


def _sinhc_minus_one(x: float) -> float:
    """`sinh(x) / x - 1` for `x` up to 2, by its series `x^2 / 3! + x^4 / 5! + ...`."""
    return sum(x ** (2 * j) / math.factorial(2 * j + 1) for j in range(1, 14))


def _trajectory(value: Any) -> NDArray[np.float64]:
    left = finite_array("trajectory", value)
    if left.ndim not in (1, 2) or len(left) < 2:
        raise ValueError(f"trajectory has shape {left.shape}; expected (n_steps + 1,) or (n_steps + 1, N).")
    return left
