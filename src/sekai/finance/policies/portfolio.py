"""Baselines for `Portfolio-v0`.

A policy that trades nothing asks for the weights it observes. They are float32, so that a trade of their rounding
errors remains: about 1e-8 of the equity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.finance.allocation import (
    band_target,
    equal_weights,
    kelly_weights,
    minimum_variance_weights,
    no_trade_half_width,
    with_cash,
)
from sekai.finance.checks import finite_array
from sekai.finance.policies.base import Policy, parameter

Weights = NDArray[np.float64]


class FixedWeights(Policy):
    """The same weights after every trade.

    Args:
        env: `Portfolio-v0`.
        weights: of the risky assets, `(n_assets,)`; at least 0 with a sum of at most 1, with `allow_short` of either
            sign with sizes that sum to at most 1. Cash is the rest.

    Attributes:
        weights: float64 `(n_assets,)`, as given.
    """

    def __init__(self, env: Any, weights: Any) -> None:
        super().__init__(env)
        self.weights = finite_array("weights", weights, 1)
        count = parameter(env, "n_assets")
        if len(self.weights) != count:
            raise ValueError(f"weights has {len(self.weights)} entries; expected one for each of {count} assets.")
        self._short = parameter(env, "allow_short")
        self._target = self._actions(self.weights)

    def act(self, observations: Any) -> NDArray[np.float32]:
        """Target weights, float32 `(N, n_assets + 1)`, or `(N, n_assets)` with `allow_short`."""
        return np.tile(self._target, (len(observations["weights"]), 1))

    def _actions(self, risky: Weights) -> NDArray[np.float32]:
        """The actions for risky weights, `(n,)`."""
        if not self._short:
            return with_cash(risky).astype(np.float32)
        gross = np.abs(risky).sum()
        if gross > 1 + 1e-12:
            raise ValueError(f"weights have sizes that sum to {gross}; expected at most 1, the cap of the environment.")
        return risky.astype(np.float32)

    def _held(self, observations: Any) -> NDArray[np.float32]:
        """The actions that keep what is held."""
        held: NDArray[np.float32] = observations["weights"]
        return _capped(held[:, :-1]) if self._short else held


def _capped(weights: NDArray[Any]) -> NDArray[np.float32]:
    """Weights of either sign, divided by the sum of their sizes where short positions have drifted beyond 1."""
    sizes = np.abs(weights).sum(axis=1, keepdims=True)
    return np.asarray(weights / np.maximum(sizes, 1.0), np.float32)


class EqualWeight(FixedWeights):
    """`1 / n_assets` in each asset, rebalanced at every step."""

    def __init__(self, env: Any) -> None:
        super().__init__(env, equal_weights(parameter(env, "n_assets")))


class Kelly(FixedWeights):
    """The weights with the largest growth (`kelly_weights`), rebalanced at every step.

    Weights whose sizes sum to more than 1 are divided by that sum: nothing can be bought with borrowed cash, and a
    fraction of the Kelly weights is again optimal, for a larger risk aversion.

    Args:
        env: `Portfolio-v0`.
        mean: drift of the prices, per year, `(n_assets,)`; by default that of the simulated ones.
        covariance: of their returns, per year; by default that of the simulated ones.
        risk_aversion: 1 is log utility, 2 half Kelly.
    """

    def __init__(self, env: Any, *, mean: Any = None, covariance: Any = None, risk_aversion: float = 1.0) -> None:
        drift = _simulated(env, "mu") if mean is None else mean
        spread = _covariance(env) if covariance is None else covariance
        optimum = kelly_weights(drift, spread, risk_aversion=risk_aversion)
        super().__init__(env, optimum / max(1.0, np.abs(optimum).sum()))


class MinimumVariance(FixedWeights):
    """The fully invested portfolio with the least variance (`minimum_variance_weights`), rebalanced at every step.

    Args:
        env: `Portfolio-v0`.
        covariance: of the returns; by default that of the simulated ones.
    """

    def __init__(self, env: Any, *, covariance: Any = None) -> None:
        super().__init__(env, minimum_variance_weights(_covariance(env) if covariance is None else covariance))


class BuyAndHoldWeights(FixedWeights):
    """Weights bought while all is in cash, and left to drift from then on.

    Args:
        env: `Portfolio-v0`.
        weights: as for `FixedWeights`; by default equal ones.
    """

    def __init__(self, env: Any, weights: Any = None) -> None:
        super().__init__(env, equal_weights(parameter(env, "n_assets")) if weights is None else weights)

    def act(self, observations: Any) -> NDArray[np.float32]:
        """Target weights, as `FixedWeights.act`."""
        held = self._held(observations)
        return np.where((observations["weights"][:, :-1] == 0).all(axis=1)[:, None], self._target, held)


class NoTradeBand(FixedWeights):
    """Trades only where a weight has left a band around its target, and then to the edge of the band.

    Each asset has a band of its own (`band_target`), which is optimal for small costs in one risky asset; with several
    it is a rule of thumb that leaves correlations out.

    Args:
        env: `Portfolio-v0`.
        weights: the middles, as for `FixedWeights`.
        half_width: of the bands, a number or `(n_assets,)`, at least 0; by default `no_trade_half_width` of the weights
            and the cost rates of the environment.
        risk_aversion: of that default.
    """

    def __init__(self, env: Any, weights: Any, half_width: Any = None, *, risk_aversion: float = 1.0) -> None:
        super().__init__(env, weights)
        if half_width is None:
            model = parameter(env, "cost_model")
            if not model.is_proportional:
                raise ValueError(
                    f"The cost model of {env} is {model!r}, and the width of the band is known for proportional costs; "
                    "give half_width."
                )
            rates = model.rates(len(self.weights))
            half_width = [
                no_trade_half_width(w, c, risk_aversion=risk_aversion)
                for w, c in zip(self.weights, rates.tolist(), strict=True)
            ]
        self.half_width = np.broadcast_to(finite_array("half_width", half_width), self.weights.shape)

    def act(self, observations: Any) -> NDArray[np.float32]:
        """Target weights, as `FixedWeights.act`."""
        held = observations["weights"][:, :-1].astype(np.float64)
        targets = band_target(held, self.weights, self.half_width)
        if self._short:
            return _capped(targets)
        targets = np.maximum(targets, 0.0)
        cash = np.maximum(1.0 - targets.sum(axis=1, keepdims=True), 0.0)
        actions = np.concatenate([targets, cash], axis=1).astype(np.float32)
        idle = (targets == held).all(axis=1)[:, None]
        return np.where(idle, self._held(observations), actions)


def _simulated(env: Any, name: str) -> Weights:
    """A parameter of the simulated market, one number for each asset."""
    if parameter(env, "data") is not None:
        raise ValueError(
            "The environment has a history, of which only the past may be known: give mean and covariance, estimated "
            "on earlier rows."
        )
    return np.broadcast_to(np.asarray(parameter(env, name), np.float64), parameter(env, "n_assets"))


def _covariance(env: Any) -> Weights:
    sigma = _simulated(env, "sigma")
    corr = parameter(env, "corr")
    matrix = np.eye(len(sigma)) if corr is None else np.array(np.broadcast_to(corr, (len(sigma), len(sigma))))
    np.fill_diagonal(matrix, 1.0)
    return np.asarray(sigma[:, None] * matrix * sigma)
