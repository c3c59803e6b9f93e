"""A price that returns to its mean."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

import numpy as np

from sekai.finance.checks import finite, not_negative, positive
from sekai.finance.models.base import Array, ShockModel, State, settle


@dataclass(frozen=True, eq=False)
class OrnsteinUhlenbeck(ShockModel):
    """The log price returns to its mean: `dx = -kappa x dt + sigma dW`, `x = ln(S / mean)` (Schwartz 1997, model 1).

    Exact at any length of a bar: `x' = x e^(-kappa dt) + sigma sqrt((1 - e^(-2 kappa dt)) / (2 kappa)) z`. In the long
    run `x` is normal with variance `sigma^2 / (2 kappa)` and autocorrelation `e^(-kappa t)`. One asset, as in the
    literature. Hidden: `gap`, `x` itself.

    Attributes:
        kappa: speed of the return, per year, above 0; half of a gap is gone after `ln(2) / kappa` years.
        sigma: volatility, per square root of a year, at least 0.
        start: `x` of the first price: 0 starts at the mean, `ln(100 / 120)` at 100 with a mean of 120; None draws it
            from the long run, so that the mean can only be guessed.

    Raises:
        TypeError, ValueError: anything else; the message names the argument.
    """

    kappa: float
    sigma: float
    _: KW_ONLY
    start: float | None = 0.0

    n_assets = 1
    start_shocks = 1
    bar_shocks = 1

    def __post_init__(self) -> None:
        settle(
            self,
            kappa=positive("kappa", self.kappa),
            sigma=not_negative("sigma", self.sigma),
            start=None if self.start is None else finite("start", self.start),
        )

    def new_state(self, num_slots: int) -> State:
        """`gap`, float64 `(N,)`."""
        return {"gap": np.zeros(num_slots)}

    def _start(self, shocks: Array) -> State:
        if self.start is None:
            return {"gap": self.sigma / math.sqrt(2.0 * self.kappa) * shocks[:, 0]}
        return {"gap": np.full(len(shocks), self.start)}

    def _move(self, hidden: State, shocks: Array, dt: float) -> Array:
        kept = math.exp(-self.kappa * dt)
        spread = self.sigma * math.sqrt(-math.expm1(-2.0 * self.kappa * dt) / (2.0 * self.kappa))
        returns = np.empty(shocks.shape)
        gap = hidden["gap"]
        for bar in range(shocks.shape[1]):
            moved = kept * gap + spread * shocks[:, bar, 0]
            returns[:, bar, 0] = moved - gap
            gap = moved
        hidden["gap"] = gap
        return returns
