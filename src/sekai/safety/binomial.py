"""Exact bounds of a probability from counts."""

from __future__ import annotations

import math
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
    # so many or more at p are so few or fewer of the others at 1 - p
    low = 0.0 if events == 0 else 1.0 - _where_few_have(tail, trials - events, trials)
    high = 1.0 if events == trials else _where_few_have(tail, events, trials)
    return Interval(low, high)


def _where_few_have(chance: float, events: int, trials: int) -> float:
    """The probability at which `events` or fewer of `trials` have this chance; the chance falls as it rises."""
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    k = np.arange(events + 1)
    ways = factorials[trials] - factorials[k] - factorials[trials - k]
    low, high = 0.0, 1.0
    for _ in range(60):
        p = (low + high) / 2
        logs = ways + k * math.log(p) + (trials - k) * math.log1p(-p)
        if np.exp(logs).sum() > chance:
            low = p
        else:
            high = p
    return (low + high) / 2
