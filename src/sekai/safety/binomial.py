"""Exact bounds of a probability from counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Interval(NamedTuple):
    """Bounds of a probability."""

    low: float
    high: float


def clopper_pearson(events: int, trials: int, *, confidence: float = 0.95) -> Interval:
    """The bounds that hold the probability of an event in at least `confidence` of all experiments.

    Each end is the probability with which so many events, or so few, have a chance of (1 - confidence) / 2.

    Args:
        events: how often it happened.
        trials: how often it could have.
        confidence: within (0, 1).

    Raises:
        ValueError: numbers out of range.

    Source: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
    Biometrika 26, 1934.
    """
    if not 0 <= events <= trials or not 0.0 < confidence < 1.0:
        given = f"events is {events}, trials {trials}, confidence {confidence}"
        raise ValueError(f"{given}; expected 0 <= events <= trials and a confidence between 0 and 1.")
    tail = (1.0 - confidence) / 2
    if trials == 0:
        return Interval(0.0, 1.0)
    low = 0.0 if events == 0 else _solve(lambda p: _at_most(trials - events, trials, 1.0 - p), tail, rising=True)
    high = 1.0 if events == trials else _solve(lambda p: _at_most(events, trials, p), tail, rising=False)
    return Interval(low, high)


def _at_most(events: int, trials: int, p: float) -> float:
    """The chance of `events` or fewer in `trials`."""
    if p <= 0.0 or p >= 1.0:
        return 1.0 if p <= 0.0 or events >= trials else 0.0
    k = np.arange(events + 1)
    ways = math.lgamma(trials + 1) - np.array([math.lgamma(i + 1) + math.lgamma(trials - i + 1) for i in k.tolist()])
    logs = ways + k * math.log(p) + (trials - k) * math.log1p(-p)
    top = logs.max()
    return float(min(1.0, np.exp(logs - top).sum() * math.exp(top)))


def _solve(chance: Callable[[float], float], wanted: float, *, rising: bool) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if (chance(middle) < wanted) == rising:
            low = middle
        else:
            high = middle
    return (low + high) / 2
