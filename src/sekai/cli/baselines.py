"""The baselines of each finance environment by the names that the command line knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.cli.errors import BadValue
from sekai.finance import policies
from sekai.finance.data import MarketData
from sekai.finance.policies import Policy


class Estimates(NamedTuple):
    """Moments of the returns of a history, as a policy that knows only its past would estimate them.

    Attributes:
        mean: drift of the prices, per year, `(n,)`.
        covariance: of their log returns, per year, `(n, n)`.
    """

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @property
    def minimum_variance(self) -> NDArray[np.float64]:
        """The fully invested weights without short sales that have the least variance."""
        weights = without_shorts(np.ones(len(self.mean)), self.covariance)
        return np.asarray(weights / weights.sum())

    @property
    def kelly(self) -> NDArray[np.float64]:
        """The weights without short sales of the largest growth, divided by their sum where that is above 1."""
        weights = without_shorts(self.mean, self.covariance)
        return np.asarray(weights / max(1.0, weights.sum()))


Make = Callable[[Any, Estimates | None], Policy]

TRADING: Mapping[str, Make] = {
    "flat": lambda env, _: policies.ConstantExposure(env, 0.0),
    "buy-and-hold": lambda env, _: policies.BuyAndHold(env),
    "short": lambda env, _: policies.ConstantExposure(env, -1.0),
    "momentum": lambda env, _: policies.Momentum(env),
    # of whole positions the default floor of 0.9 would never buy one
    "cppi": lambda env, _: policies.CPPI(env, floor=0.75),
}
PORTFOLIO: Mapping[str, Make] = {
    "equal-weight": lambda env, _: policies.EqualWeight(env),
    "buy-and-hold": lambda env, _: policies.BuyAndHoldWeights(env),
    "cash": lambda env, _: policies.FixedWeights(env, np.zeros(_count(env))),
    "no-trade-band": lambda env, _: policies.NoTradeBand(env, _equal(env)),
    "minimum-variance": lambda env, past: (
        policies.MinimumVariance(env) if past is None else policies.FixedWeights(env, past.minimum_variance)
    ),
    "kelly": lambda env, past: policies.Kelly(env) if past is None else policies.FixedWeights(env, past.kelly),
}
MAKING: Mapping[str, Make] = {
    "fixed-spread": lambda env, _: policies.FixedSpread(env),
    "avellaneda-stoikov": lambda env, _: policies.AvellanedaStoikov(env),
    "glft": lambda env, _: policies.GLFT(env),
    # with the environment's own limit some optimal quotes would lie beyond the mid
    "cartea-jaimungal": lambda env, _: policies.CarteaJaimungal(env, max_inventory=10),
}
EXECUTION: Mapping[str, Make] = {
    "twap": lambda env, _: policies.TWAP(env),
    "almgren-chriss": lambda env, _: policies.AlmgrenChriss(env),
    "immediate": lambda env, _: policies.Immediate(env),
}
BASELINES: Mapping[str, Mapping[str, Make]] = {
    "Trading-v0": TRADING,
    "Portfolio-v0": PORTFOLIO,
    "MarketMaking-v0": MAKING,
    "OptimalExecution-v0": EXECUTION,
}


def baselines_of(id: str) -> Mapping[str, Make]:
    """The baselines of an environment, by name.

    Raises:
        BadValue: it has none.
    """
    if id not in BASELINES:
        raise BadValue(f"{id} has no baselines to run; expected one of {', '.join(BASELINES)}.")
    return BASELINES[id]


def require_policy(id: str, name: str) -> None:
    """Refuse a policy that the environment does not have.

    Raises:
        BadValue: the message lists the names that it has.
    """
    known = baselines_of(id)
    if name not in known:
        raise BadValue(f"{id} has no policy {name!r}; expected one of {', '.join(known)}.")


def without_shorts(
    linear: NDArray[np.float64], covariance: NDArray[np.float64], *, tolerance: float = 1e-12
) -> NDArray[np.float64]:
    """The `w >= 0` that minimise `w' covariance w / 2 - linear' w`, by coordinate descent.

    With the drifts as `linear` these are Kelly weights; with ones they are proportional to those of minimum variance,
    since the optimality conditions of both problems differ by a factor only.

    Args:
        linear: `(n,)`.
        covariance: positive definite, `(n, n)`.
        tolerance: largest change of a weight in the last sweep, relative to the largest weight.
    """
    weights = np.zeros(len(linear))
    change = np.inf
    while change > tolerance * max(1.0, np.abs(weights).max()):
        change = 0.0
        for i, variance in enumerate(np.diag(covariance)):
            rest = covariance[i] @ weights - variance * weights[i]
            best = max(0.0, (linear[i] - rest) / variance)
            change, weights[i] = max(change, abs(best - weights[i])), best
    return weights


def estimate(data: MarketData, bars_per_year: float) -> Estimates:
    """Moments of a history without gaps, per year.

    Raises:
        BadValue: too few rows for a covariance matrix of full rank, or an asset that repeats others.
    """
    rows, needed = len(data) - 1, data.n_assets + 1
    if rows < needed:
        raise BadValue(
            f"{rows} returns are left to estimate moments of {data.n_assets} assets; expected at least {needed}: "
            "give a longer history."
        )
    returns = data.log_returns.astype(np.float64).reshape(len(data) - 1, -1)
    covariance = np.atleast_2d(np.cov(returns, rowvar=False)) * bars_per_year
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    if not (scale > 0).all() or np.linalg.matrix_rank(covariance / scale, hermitian=True) < data.n_assets:
        raise BadValue(
            "The moments of the assets cannot be estimated: in the rows left to it some returns are constant, or some "
            "assets repeat the others. Leave those out."
        )
    return Estimates(returns.mean(axis=0) * bars_per_year + 0.5 * np.diag(covariance), covariance)


def _equal(env: Any) -> NDArray[np.float64]:
    count = _count(env)
    return np.full(count, 1.0 / count)


def _count(env: Any) -> int:
    return int(policies.base.parameter(env, "n_assets"))
