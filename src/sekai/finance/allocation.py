"""How much to hold, in closed form. Weights are fractions of wealth in the risky assets; cash is what is left.

Letters: `n` risky assets, `mu` their mean returns, `Sigma` the covariance of the returns, `r` the return of cash, all
in the same unit of time: per year, say, for a geometric Brownian motion with drift `mu`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.finance.checks import finite, finite_array, not_negative, positive
from sekai.finance.columns import result
from sekai.spaces.checks import whole_number

Array = NDArray[np.float64]


def equal_weights(n_assets: int) -> Array:
    """`1 / n` in each of `n` risky assets and no cash: float64 `(n,)`."""
    count = whole_number("n_assets", n_assets, minimum=1)
    return np.full(count, 1.0 / count)


def minimum_variance_weights(covariance: Any) -> Array:
    """The fully invested portfolio with the least variance: `Sigma^-1 1 / (1' Sigma^-1 1)` (Markowitz 1952).

    Args:
        covariance: `Sigma`, `(n, n)`, symmetric and positive definite.

    Returns:
        float64 `(n,)` with sum 1; below 0 for an asset that hedges the others when sold short.
    """
    matrix = _covariance(covariance)
    raw = np.linalg.solve(matrix, np.ones(len(matrix)))
    return np.asarray(raw / raw.sum())


def kelly_weights(mean: Any, covariance: Any, *, risk_free: float = 0.0, risk_aversion: float = 1.0) -> Array:
    """Optimal constant weights under continuous rebalancing without costs: `Sigma^-1 (mu - r 1) / gamma`.

    `risk_aversion=1` is log utility, the largest growth (Kelly 1956); others are power utility (Merton 1969), and 2
    is half Kelly.

    Args:
        mean: `mu`, `(n,)`; for a geometric Brownian motion the drift of the price, not that of its logarithm.
        covariance: `Sigma`, `(n, n)`, symmetric and positive definite.
        risk_free: `r`.
        risk_aversion: `gamma`, above 0.

    Returns:
        float64 `(n,)`, of either sign and any sum: above 1 with borrowed cash.
    """
    matrix = _covariance(covariance)
    excess = _per_asset("mean", mean, matrix) - finite("risk_free", risk_free)
    return np.asarray(np.linalg.solve(matrix, excess) / positive("risk_aversion", risk_aversion), np.float64)


def growth_rate(weights: Any, mean: Any, covariance: Any, *, risk_free: float = 0.0) -> float:
    """Mean growth of log wealth with constant weights: `r + w'(mu - r 1) - w' Sigma w / 2`.

    With the Kelly weights it is the largest there is, `r + (mu - r 1)' Sigma^-1 (mu - r 1) / 2`.

    Args:
        weights: `w`, `(n,)`.
        mean: `mu`, `(n,)`.
        covariance: `Sigma`, `(n, n)`.
        risk_free: `r`.
    """
    matrix = _covariance(covariance)
    held, rate = _per_asset("weights", weights, matrix), finite("risk_free", risk_free)
    excess = _per_asset("mean", mean, matrix) - rate
    return float(rate + held @ excess - held @ matrix @ held / 2.0)


def with_cash(weights: Any) -> Array:
    """Risky weights and the cash that is left, the actions of `Portfolio-v0` without short sales.

    Args:
        weights: `(n,)`, at least 0, with a sum of at most 1.

    Returns:
        float64 `(n + 1,)`, cash last, with sum 1.
    """
    risky = finite_array("weights", weights, 1)
    if (risky < 0).any():
        raise ValueError(f"weights has {risky.min()}; expected at least 0: without short sales no asset can be sold.")
    cash = 1.0 - risky.sum()
    if cash < -1e-12:
        raise ValueError(f"weights sum to {risky.sum()}; expected at most 1: nothing can be bought with borrowed cash.")
    return np.append(risky, max(cash, 0.0))


def no_trade_half_width(weight: Any, cost: float, *, risk_aversion: float = 1.0) -> Any:
    """Half the width of the band around the optimal weight inside which trading does not pay.

    `(3 / (2 gamma) w^2 (1 - w)^2 c)^(1/3)`, the leading term for small costs in one risky asset (Davis and Norman 1990;
    Janecek and Shreve 2004; Gerhold, Guasoni, Muhle-Karbe and Schachermayer 2014). It is 0 at weights 0 and 1, which
    drift nowhere.

    Args:
        weight: optimal weight without costs, `kelly_weights` of the one asset.
        cost: `c`, of either side, a fraction of the traded value in [0, 1).
        risk_aversion: `gamma`, above 0; 1 is log utility.

    Returns:
        A float, or float64 of the shape of `weight`.
    """
    optimum, rate = finite_array("weight", weight), not_negative("cost", cost)
    if rate >= 1:
        raise ValueError(f"cost is {cost!r}; expected a fraction of the traded value in [0, 1), such as 0.001.")
    spread = 1.5 / positive("risk_aversion", risk_aversion) * optimum**2 * (1.0 - optimum) ** 2 * rate
    return result(np.cbrt(spread))


def band_target(weight: Any, optimum: Any, half_width: Any) -> Any:
    """Where to trade to: nowhere inside the band `optimum +- half_width`, and to its nearer edge outside.

    Args:
        weight: held now, drifted with the prices.
        optimum: middle of the band.
        half_width: `no_trade_half_width`, at least 0.

    Returns:
        A float, or a float64 array: all three broadcast.
    """
    held, middle = finite_array("weight", weight), finite_array("optimum", optimum)
    width = finite_array("half_width", half_width)
    if (width < 0).any():
        raise ValueError(f"half_width is {half_width!r}; expected at least 0.")
    return result(np.clip(held, middle - width, middle + width))


def cppi_exposure(equity: Any, floor: Any, *, max_loss: float, max_exposure: float = 1.0) -> Any:
    """The largest exposure that keeps equity above a floor: `(E - F) / (E max_loss)` (Black and Perold 1992).

    If no step loses more than `max_loss` of what is held, equity never falls below a fixed floor, nor below one that
    trails the peak of equity (Grossman and Zhou 1993).

    Args:
        equity: `E`, above 0.
        floor: `F`; for a trailing one a fraction of the peak so far. At or above equity the exposure is 0.
        max_loss: largest loss per step and unit of exposure, above 0; with trading costs, those of a full change
            added. Its inverse is the multiplier.
        max_exposure: cap, at least 0.

    Returns:
        Exposure in `[0, max_exposure]`, a float, or a float64 array: equity and floor broadcast.
    """
    held, lowest = finite_array("equity", equity), finite_array("floor", floor)
    if (held <= 0).any():
        raise ValueError(f"equity is {equity!r}; expected equity above 0.")
    cushion = (held - lowest) / (held * positive("max_loss", max_loss))
    return result(np.clip(cushion, 0.0, not_negative("max_exposure", max_exposure)))


def _covariance(value: Any) -> Array:
    matrix = finite_array("covariance", value, 2)
    if matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise ValueError(f"covariance has shape {matrix.shape}; expected (n, n) for n assets.")
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0.0):
        raise ValueError("covariance is not symmetric; expected the same covariance on both sides of the diagonal.")
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least <= len(matrix) * np.finfo(np.float64).eps * float(np.abs(matrix).max()):
        raise ValueError(
            f"covariance has the eigenvalue {least:.3g}; expected a positive definite matrix. An asset without risk, "
            "or one that repeats others, has no optimal weight: leave it out."
        )
    return matrix


def _per_asset(name: str, value: Any, matrix: Array) -> Array:
    array = finite_array(name, value, 1)
    if len(array) != len(matrix):
        raise ValueError(f"{name} has {len(array)} entries and covariance {len(matrix)} assets; expected one each.")
    return array
