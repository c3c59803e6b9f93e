"""Stochastic variance."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

import numpy as np

from sekai.finance.checks import finite, not_negative, positive
from sekai.finance.models.base import Array, PriceModel, Slots, State, check_slots, settle, write
from sekai.spaces.checks import whole_number

MOST_FREEDOM = 1e12  # degrees of freedom of the chi-square


@dataclass(frozen=True, eq=False)
class Heston(PriceModel):
    """`dS / S = mu dt + sqrt(v) dW1`, `dv = kappa (theta - v) dt + xi sqrt(v) dW2`, `dW1 dW2 = rho dt` (Heston 1993).

    The variance is exact: `v' = c Q`, `c = xi^2 (1 - e^(-kappa dt)) / (4 kappa)`, with `Q` noncentral chi-square of
    `4 kappa theta / xi^2` degrees of freedom and noncentrality `v e^(-kappa dt) / c` (Cox, Ingersoll and Ross 1985),
    also where it touches 0 (`2 kappa theta < xi^2`). Its integral over the bar is the trapezoid
    `I = (v + v') dt / 2`, and given both the log return is exact (Broadie and Kaya 2006):
    `mu dt - I / 2 + (rho / xi) (v' - v - kappa theta dt + kappa I) + sqrt((1 - rho^2) I) z`.

    The trapezoid is the only error. Relative error of `E[S_T]` after a year in bars of `dt`, for `theta = 0.04`,
    computed without simulation; it is of second order in `dt`:

    kappa   xi   rho    v0    1/252     1/52     1/12      1/4
      2.0  0.3  -0.5  0.04    3e-09    7e-08    1e-06    1e-05
      2.0  0.3  -0.5  0.09   -4e-07   -1e-05   -2e-04   -2e-03
      1.5  0.6  -0.7  0.04   -4e-09   -1e-07   -2e-06   -2e-05
      1.5  0.6  -0.7  0.09   -2e-07   -5e-06   -9e-05   -8e-04
      5.0  0.5  -0.7  0.04    2e-07    5e-06    8e-05    7e-04
      5.0  0.5  -0.7  0.09   -2e-06   -5e-05   -1e-03   -9e-03
      0.5  1.0  -0.9  0.04   -2e-08   -4e-07   -7e-06   -7e-05
      0.5  1.0  -0.9  0.09   -6e-08   -1e-06   -3e-05   -3e-04

    One asset, as in the paper. Hidden: `variance`. Of the contract's rules the second does not hold: a chi-square
    variate takes a varying number of draws, so at each bar the variances of all slots are drawn, in slot order, and
    then all shocks. A call for one slot is unaffected; several slots together get other draws of the same law than
    one after the other.

    Attributes:
        mu: drift of the price, per year.
        theta: long-run variance, per year, above 0; 0.04 is a volatility of 20 %.
        kappa: speed at which the variance returns to it, per year, above 0.
        xi: volatility of the variance, above 0 (a `GeometricBrownianMotion` has none).
        rho: correlation of price and variance, in [-1, 1].
        v0: variance at the start, at least 0; None: drawn from its long-run gamma distribution.

    Raises:
        TypeError, ValueError: anything else; the message names the argument.
    """

    mu: float
    theta: float
    _: KW_ONLY
    kappa: float
    xi: float
    rho: float
    v0: float | None = None

    n_assets = 1

    def __post_init__(self) -> None:
        settle(
            self,
            mu=finite("mu", self.mu),
            theta=positive("theta", self.theta),
            kappa=positive("kappa", self.kappa),
            xi=positive("xi", self.xi),
            rho=finite("rho", self.rho),
            v0=None if self.v0 is None else not_negative("v0", self.v0),
        )
        if not 4.0 * self.kappa * self.theta <= MOST_FREEDOM * self.xi * self.xi:
            raise ValueError(
                f"xi is {self.xi!r}; expected at least 1e-6 of 2 sqrt(kappa theta): below, the variance is constant "
                "but for rounding, and the market a GeometricBrownianMotion."
            )
        if not -1 <= self.rho <= 1:
            raise ValueError(f"rho is {self.rho!r}; expected a correlation in [-1, 1].")

    def new_state(self, num_slots: int) -> State:
        """`variance`, float64 `(N,)`, per year."""
        return {"variance": np.zeros(num_slots)}

    def begin(self, rng: np.random.Generator, state: State, slots: Slots, bars: int, dt: float) -> Array:
        """Begin new paths; see `PriceModel.begin`."""
        count, bars = len(check_slots(slots)), whole_number("bars", bars, minimum=0)
        positive("dt", dt)
        variance = self._first(rng, count)
        returns = np.empty((count, bars, 1))
        for bar in range(bars):
            variance, returns[:, bar, 0] = self._move(rng, variance, dt)
        write(state, slots, {"variance": variance})
        return returns

    def advance(self, rng: np.random.Generator, state: State, slots: Slots, dt: float) -> Array:
        """Move paths by one bar; see `PriceModel.advance`."""
        check_slots(slots)
        positive("dt", dt)
        variance, returns = self._move(rng, state["variance"][slots], dt)
        write(state, slots, {"variance": variance})
        return returns[:, None]

    def _first(self, rng: np.random.Generator, count: int) -> Array:
        if self.v0 is not None:
            return np.full(count, self.v0)
        scale = self.xi**2 / (2.0 * self.kappa)
        return scale * rng.standard_gamma(self.theta / scale, count)

    def _move(self, rng: np.random.Generator, variance: Array, dt: float) -> tuple[Array, Array]:
        """Variances and log returns, `(K,)`, after one bar."""
        kappa, theta, xi, rho = self.kappa, self.theta, self.xi, self.rho
        scale = xi**2 * -math.expm1(-kappa * dt) / (4.0 * kappa)
        freedom, apart = 4.0 * kappa * theta / xi**2, variance * (math.exp(-kappa * dt) / scale)
        moved = scale * rng.noncentral_chisquare(freedom, apart)
        total = (variance + moved) * (0.5 * dt)
        shared = (rho / xi) * (moved - variance - kappa * theta * dt + kappa * total)
        own = np.sqrt((1.0 - rho**2) * total) * rng.standard_normal(len(variance))
        return moved, self.mu * dt - 0.5 * total + shared + own
