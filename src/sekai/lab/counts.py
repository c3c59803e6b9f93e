"""The independent binary model of how many slots yield a transition, and what a real run does instead.

`n` slots, each of which yields a useful transition with probability `p`, independently: the number of those that do,
`K`, is binomial. Probabilities are scipy's; nothing is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sekai.spaces.checks import whole_number

#: more outcomes than that are no picture any more
MOST = 200
DEFAULT_N, DEFAULT_P = 20, 0.75


@dataclass(frozen=True)
class Binomial:
    """The model.

    Attributes:
        n: number of slots, 1 to 200.
        p: probability that a slot yields a transition, within [0, 1].

    Raises:
        ValueError: a number out of range.
        TypeError: `n` is no int.

    Example:
        >>> from sekai.lab import Binomial
        >>> Binomial(20, 0.75).mean, Binomial(20, 0.5).mean
        (15.0, 10.0)
    """

    n: int = DEFAULT_N
    p: float = DEFAULT_P

    def __post_init__(self) -> None:
        if whole_number("n", self.n, minimum=1) > MOST:
            raise ValueError(f"n is {self.n}; expected 1 to {MOST}.")
        if not 0.0 <= self.p <= 1.0:  # refuses NaN, too
            raise ValueError(f"p is {self.p}; expected a probability, from 0 to 1.")

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """P(K = k) for k = 0..n, `(n + 1,)`."""
        from scipy.stats import binom

        found: NDArray[np.float64] = binom.pmf(np.arange(self.n + 1), self.n, self.p)
        return found

    @cached_property
    def running(self) -> NDArray[np.float64]:
        """P(K <= k) for k = 0..n, the sum of the probabilities so far, `(n + 1,)`."""
        return np.cumsum(self.probabilities)

    @property
    def mean(self) -> float:
        """`n p`."""
        return self.n * self.p

    @property
    def deviation(self) -> float:
        """Standard deviation, `sqrt(n p (1 - p))`."""
        return math.sqrt(self.n * self.p * (1.0 - self.p))


@dataclass(frozen=True)
class Dispersion:
    """Valid-slot counts of a real run beside the binomial model of the same mean.

    Attributes:
        slots: number of slots, `n`.
        counts: calls in which k slots yielded a transition, for k = 0..n, int `(n + 1,)`.
        mean: of the counts over all calls.
        deviation: their standard deviation (the number of calls in the denominator).
    """

    slots: int
    counts: NDArray[np.int64]
    mean: float
    deviation: float

    @classmethod
    def of(cls, valid_counts: NDArray[np.int64], slots: int) -> Dispersion:
        """Of the transitions of each call, `(T,)`.

        Raises:
            ValueError: no call.
        """
        if not len(valid_counts):
            raise ValueError("There are no calls to count yet; step the run first.")
        counts = np.bincount(valid_counts, minlength=slots + 1)
        return cls(slots, counts, float(valid_counts.mean()), float(valid_counts.std()))

    @property
    def share(self) -> float:
        """Share of rows that are transitions: the `p` of the model with the same mean."""
        return self.mean / self.slots

    @property
    def binomial_deviation(self) -> float:
        """What the standard deviation would be if slots were independent identical trials of that `p`."""
        return math.sqrt(self.slots * self.share * (1.0 - self.share))

    @property
    def ratio(self) -> float | None:
        """Variance over that of the model; None where the model has none, since every row is a transition."""
        variance = self.binomial_deviation**2
        return self.deviation**2 / variance if variance else None
