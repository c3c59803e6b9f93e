"""Diffusion with jumps."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache

import numpy as np

from sekai.finance.checks import finite, not_negative
from sekai.finance.models.base import Array, ShockModel, State, settle
from sekai.finance.models.draws import normal_levels

MOST_JUMPS = 10_000


@dataclass(frozen=True, eq=False)
class MertonJumps(ShockModel):
    """A geometric Brownian motion that jumps at the times of a Poisson process (Merton 1976), exact at any bar length.

    With `n` jumps in a bar, its log return is `(mu - sigma^2 / 2 - intensity kbar) dt + m n` and a normal of variance
    `sigma^2 dt + delta^2 n`. The mean relative jump, `kbar = e^(m + delta^2 / 2) - 1`, is taken out of the drift, so
    that `E[S_T] = S_0 e^(mu T)`. Cumulants of `ln(S_T / S_0)` from the second on:
    `(sigma^2 + intensity (m^2 + delta^2)) T`, `intensity (m^3 + 3 m delta^2) T`,
    `intensity (m^4 + 6 m^2 delta^2 + 3 delta^4) T`. One asset, as in the paper. Nothing is hidden.

    Attributes:
        mu: drift of the price, jumps included, per year.
        sigma: volatility between jumps, per square root of a year, at least 0.
        intensity: jumps per year, at least 0; at most 10,000 a bar.
        jump_mean: `m`, mean jump of the log price.
        jump_std: `delta`, its standard deviation, at least 0.

    Raises:
        TypeError, ValueError: anything else; the message names the argument.
    """

    mu: float
    sigma: float
    _: KW_ONLY
    intensity: float
    jump_mean: float
    jump_std: float
    _drift: float = field(init=False, repr=False)

    n_assets = 1
    bar_shocks = 2

    def __post_init__(self) -> None:
        mu, sigma = finite("mu", self.mu), not_negative("sigma", self.sigma)
        intensity, mean = not_negative("intensity", self.intensity), finite("jump_mean", self.jump_mean)
        std = not_negative("jump_std", self.jump_std)
        try:
            relative = math.expm1(mean + 0.5 * std * std)
        except OverflowError:
            raise ValueError(
                f"jump_mean={mean} and jump_std={std} make a mean jump beyond the range of floats; lower them: they "
                "are jumps of the log price."
            ) from None
        settle(self, mu=mu, sigma=sigma, intensity=intensity, jump_mean=mean, jump_std=std)
        settle(self, _drift=mu - 0.5 * sigma * sigma - intensity * relative)

    def new_state(self, num_slots: int) -> State:
        """Nothing is hidden."""
        return {}

    def _start(self, shocks: Array) -> State:
        return {}

    def _move(self, hidden: State, shocks: Array, dt: float) -> Array:
        fewest, levels = poisson_levels(self.intensity * dt)
        jumps = fewest + np.searchsorted(levels, shocks[..., 0], side="right")
        deviation = np.sqrt(self.sigma**2 * dt + self.jump_std**2 * jumps)
        returns: Array = self._drift * dt + self.jump_mean * jumps + deviation * shocks[..., 1]
        return returns[..., None]

    def _check_bar(self, dt: float) -> None:
        super()._check_bar(dt)
        if self.intensity * dt > MOST_JUMPS:
            raise ValueError(
                f"intensity={self.intensity} makes {self.intensity * dt} jumps in a bar of dt={dt}; expected at most "
                f"{MOST_JUMPS}: so many are a diffusion."
            )


@lru_cache(maxsize=32)
def poisson_levels(mean: float) -> tuple[int, Array]:
    """The levels that split a standard normal into Poisson counts of this mean, and the count below them all.

    Counts of probability less than 1e-16 at both ends are left out.
    """
    if mean == 0.0:
        return 0, np.full(1, np.inf)
    reach = 12.0 * math.sqrt(mean) + 40.0
    counts = np.arange(max(0, math.floor(mean - reach)), math.ceil(mean + reach) + 1)
    logs = np.array([count * math.log(mean) - mean - math.lgamma(count + 1.0) for count in counts.tolist()])
    mass = np.exp(logs)
    levels = normal_levels(mass / mass.sum())
    levels.flags.writeable = False
    return int(counts[0]), levels
