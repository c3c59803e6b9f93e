"""Geometric Brownian motion of correlated assets."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field

from numpy.typing import ArrayLike

from sekai.finance.assets import correlations, count_assets, factor, per_asset, spread
from sekai.finance.checks import finite, not_negative
from sekai.finance.models.base import Array, ShockModel, State, settle
from sekai.finance.models.draws import correlated_returns


@dataclass(frozen=True, eq=False)
class GeometricBrownianMotion(ShockModel):
    """`dS_i / S_i = mu_i dt + sigma_i dW_i` with correlated `dW` (Black and Scholes 1973).

    Exact at any length of a bar. Its log return is `(mu - sigma^2 / 2) dt + sigma sqrt(dt) L z` with `L L' = corr`, so
    that `E[S_T] = S_0 e^(mu T)`.

    Attributes:
        mu: drift of the price, per year; one number, or `(n_assets,)`.
        sigma: volatility, per square root of a year, at least 0; one number, or `(n_assets,)`.
        corr: correlations `(n_assets, n_assets)`, positive semi-definite, or one number for every pair; None: none.

    Raises:
        TypeError, ValueError: anything else; the message names the argument.

    >>> GeometricBrownianMotion([0.05, 0.08], 0.2, corr=0.5).n_assets
    2
    """

    mu: ArrayLike
    sigma: ArrayLike
    _: KW_ONLY
    corr: ArrayLike | None = None
    _drift: Array = field(init=False, repr=False)
    _loading: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        mu, sigma = per_asset(finite)("mu", self.mu), per_asset(not_negative)("sigma", self.sigma)
        corr = correlations("corr", self.corr)
        n = count_assets(mu=mu, sigma=sigma, corr=corr)
        volatility = spread("sigma", sigma, n)
        settle(
            self,
            mu=mu,
            sigma=sigma,
            corr=corr,
            _drift=(spread("mu", mu, n) - 0.5 * volatility**2)[:, None, None],
            _loading=(volatility[:, None] * factor("corr", corr, n))[:, :, None, None],
        )

    @property
    def n_assets(self) -> int:
        """How many prices move together."""
        return len(self._drift)

    @property
    def bar_shocks(self) -> int:
        """One for each asset."""
        return len(self._drift)

    def new_state(self, num_slots: int) -> State:
        """Nothing is hidden."""
        return {}

    def _start(self, shocks: Array) -> State:
        return {}

    def _move(self, hidden: State, shocks: Array, dt: float) -> Array:
        return correlated_returns(self._drift * dt, self._loading * math.sqrt(dt), shocks)
