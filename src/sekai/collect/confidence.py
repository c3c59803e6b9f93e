"""How far a mean of a few episodes may lie from the mean of all."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sekai.spaces.checks import whole_number

_DRAWS_AT_ONCE = 2**20


def bootstrap_interval(
    values: ArrayLike, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean.

    The means of `resamples` samples of the same size, drawn from `values` with replacement; of these the quantiles
    `(1 - confidence) / 2` and `(1 + confidence) / 2`. Of two policies under common random numbers, compare the
    differences of their returns, episode by episode: `bootstrap_interval(a.returns - b.returns)`.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), section 13.3.

    Args:
        values: `(E,)`, independent of one another.
        confidence: between 0 and 1.
        resamples: number of samples.
        seed: of the draws.

    Returns:
        `(low, high)`; NaN both of a single value, which says nothing of its spread.

    Raises:
        ValueError: no values, another shape, or an argument out of range.

        >>> bootstrap_interval([3.0, 3.0])
        (3.0, 3.0)
    """
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"values has shape {array.shape}; expected (E,), one number per episode.")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence!r}; expected a number between 0 and 1, such as 0.95.")
    resamples = whole_number("resamples", resamples, minimum=1)
    if len(array) == 1:
        return float("nan"), float("nan")
    rng, n = np.random.default_rng(seed), len(array)
    rows = max(1, _DRAWS_AT_ONCE // n)
    means = [
        array[rng.integers(n, size=(min(rows, resamples - first), n))].mean(axis=1)
        for first in range(0, resamples, rows)
    ]
    low, high = np.quantile(np.concatenate(means), [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0])
    return float(low), float(high)
