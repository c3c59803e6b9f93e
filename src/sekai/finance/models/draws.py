"""What models make of standard normals: choices among a few outcomes, and returns of correlated assets."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def normal_levels(probabilities: Array) -> Array:
    """Levels that split a standard normal `z` into outcomes of given probabilities.

    Outcome `k` is chosen when exactly `k` levels are at or below `z`.

    Args:
        probabilities: `(m,)`, at least 0, with sum 1 but for rounding.

    Returns:
        float64 `(m - 1,)`, in ascending order. An outcome of probability 0 is never chosen.
    """
    below = np.cumsum(probabilities)[:-1]
    above = np.cumsum(probabilities[::-1])[::-1][1:]  # summed from its own end: 1 - below has no digits left out there
    return np.array([_level(low, high) for low, high in zip(below.tolist(), above.tolist(), strict=True)])


def _level(below: float, above: float) -> float:
    if below <= 0:
        return -np.inf
    if above <= 0:
        return np.inf
    standard = NormalDist()
    return standard.inv_cdf(below) if below <= above else -standard.inv_cdf(above)


def correlated_returns(drift: Array, loading: Array, shocks: Array) -> Array:
    """`drift + loading z`, asset by asset in a fixed order of additions.

    Args:
        drift: `(n, ...)`.
        loading: `(n, n, ...)`, lower triangular in its first two axes; entry `[i, j]` is what shock `j` does to asset
            `i`. What follows broadcasts to `(K, bars)`.
        shocks: `z`, `(K, bars, n)`.

    Returns:
        float64 `(K, bars, n)`, contiguous.
    """
    by_asset: NDArray[Any] = np.ascontiguousarray(np.moveaxis(shocks, -1, 0))
    out = drift + loading[:, 0] * by_asset[0]
    for j in range(1, len(by_asset)):
        out[j:] += loading[j:, j] * by_asset[j]
    return np.ascontiguousarray(np.moveaxis(out, 0, -1))
