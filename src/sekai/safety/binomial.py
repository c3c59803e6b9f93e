"""Exact bounds of a probability from counts."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

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
    _check(events, trials, confidence)
    tail = (1.0 - confidence) / 2
    if trials == 0:
        return Interval(0.0, 1.0)
    # so many or more at p are so few or fewer of the others at 1 - p
    low = 0.0 if events == 0 else 1.0 - _where_few_have(tail, trials - events, trials)
    high = 1.0 if events == trials else _where_few_have(tail, events, trials)
    return Interval(low, high)


def upper_bound(events: int, trials: int, *, confidence: float = 0.95) -> float:
    """The bound that the probability of an event stays below in at least `confidence` of all experiments.

    It is the upper end of an interval of Clopper and Pearson whose lower end is 0, and the quantile of
    Beta(events + 1, trials - events): the law of how much probability lies above the (events + 1)-th largest of
    `trials` independent scores, which is what split conformal prediction counts with.

    Args:
        events: how often it happened.
        trials: how often it could have.
        confidence: within (0, 1).

    Raises:
        ValueError: numbers out of range.
    """
    _check(events, trials, confidence)
    return 1.0 if events == trials else _where_few_have(1.0 - confidence, events, trials)


def events_allowed(trials: int, risk: float, *, confidence: float = 0.95) -> int:
    """The most events with which `upper_bound` is still at most `risk`; -1 where not even none would do."""
    _check(0, trials, confidence)
    k = np.arange(trials + 1)
    chances = np.exp(_log_ways(k, trials) + k * math.log(risk) + (trials - k) * math.log1p(-risk))
    return int((np.cumsum(chances) <= 1.0 - confidence).sum()) - 1


def trials_needed(risk: float, *, confidence: float = 0.95) -> int:
    """How many trials without an event show that its probability is at most `risk`: (1 - risk)^n <= 1 - confidence.

    Raises:
        ValueError: a risk or confidence that is not between 0 and 1.
    """
    if not (0.0 < risk < 1.0 and 0.0 < confidence < 1.0):
        raise ValueError(f"risk is {risk} and confidence {confidence}; expected both between 0 and 1.")
    return math.ceil(math.log(1.0 - confidence) / math.log1p(-risk))


def chance_of_at_most(allowed: int, trials: int, *, events: int, seen: int) -> float:
    """The chance of at most `allowed` events in `trials` to come, after `events` in `seen`, any probability being as
    likely as another before (the beta-binomial law)."""
    more, fewer = events + 1, seen - events + 1

    def weight(k: int) -> float:
        ways = math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        return math.exp(ways + _log_beta(k + more, trials - k + fewer) - _log_beta(more, fewer))

    return math.fsum(weight(k) for k in range(min(allowed, trials) + 1))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _check(events: int, trials: int, confidence: float) -> None:
    if not 0 <= events <= trials or not 0.0 < confidence < 1.0:
        given = f"events is {events}, trials {trials}, confidence {confidence}"
        raise ValueError(f"{given}; expected 0 <= events <= trials and a confidence between 0 and 1.")


def _where_few_have(chance: float, events: int, trials: int) -> float:
    """The probability at which `events` or fewer of `trials` have this chance; the chance falls as it rises."""
    k = np.arange(events + 1)
    ways = _log_ways(k, trials)
    low, high = 0.0, 1.0
    for _ in range(60):
        p = (low + high) / 2
        logs = ways + k * math.log(p) + (trials - k) * math.log1p(-p)
        if np.exp(logs).sum() > chance:
            low = p
        else:
            high = p
    return (low + high) / 2


def _log_ways(k: Any, trials: int) -> Any:
    """The logarithm of the number of ways in which `k` of the trials can be the events."""
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    return factorials[trials] - factorials[k] - factorials[trials - k]
