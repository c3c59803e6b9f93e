"""How a threshold is chosen and checked: `Plan`, `Tried` and `Search`; what for is told in `sekai.safety.certify`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.safety.binomial import (
    Interval,
    chance_of_at_most,
    clopper_pearson,
    events_allowed,
    trials_needed,
    upper_bound,
)
from sekai.safety.certificates import Calibration, calibration_of
from sekai.safety.promises import fails_at_worst
from sekai.safety.trials import Trials
from sekai.spaces.checks import whole_number

Floats = NDArray[np.float64]

#: how sure the choice is of its check, which it fails rather seldom
SURE = 0.95
#: times that the threshold may rise
ROUNDS = 50


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is tried.

    Attributes:
        rollouts: of each set of initial states: those that choose, those that check, and those of an edge.
        steps: of a rollout.
        edge: share of the certified states that are the edge, those with the least values.
        lowest: the lowest threshold that is considered; below 0 the value itself promises nothing.
        cells: nodes of each axis of the grid on which sets are compared, where the truth is given.
        seed: of all initial states, and of a random opponent.
    """

    rollouts: int = 2000
    steps: int = 200
    edge: float = 0.1
    lowest: float = 0.0
    cells: int = 121
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("rollouts", self.rollouts, minimum=1)
        whole_number("steps", self.steps, minimum=1)
        whole_number("seed", self.seed, minimum=0)
        if not np.isfinite(self.lowest):
            raise ValueError(f"lowest is {self.lowest}; expected a finite value, 0 unless less is promised.")
        if not 0.0 < self.edge <= 1.0:
            raise ValueError(f"edge is {self.edge}; expected a share above 0, at most 1.")


class Tried(NamedTuple):
    """Rollouts from fresh initial states with low <= V < high.

    Attributes:
        low, high: bounds of the value; infinity where there is none.
        rollouts: how many, against each opponent.
        failed: how many of them, by opponent.
        intervals: of P(fail), by opponent; all of them hold together with the confidence of the certificate.
        failed_at_worst: from how many states at least one opponent breaks the promise.
        at_most: bound of the probability of that, which no opponent among these, or mixture of them, exceeds.
    """

    low: float
    high: float
    rollouts: int
    failed: dict[str, int]
    intervals: dict[str, Interval]
    failed_at_worst: int
    at_most: float

    def numbers(self) -> dict[str, Any]:
        """As numbers, for a file."""
        return {
            "low": _finite(self.low),
            "high": _finite(self.high),
            "rollouts": self.rollouts,
            "failed_at_worst": self.failed_at_worst,
            "at_most": self.at_most,
            "opponents": {
                name: {"failed": failed, "bounds": list(self.intervals[name])} for name, failed in self.failed.items()
            },
        }


class NothingCertified(Exception):
    """No threshold can be chosen; the message says why."""


class Band(NamedTuple):
    """Values from low to below high."""

    low: float
    high: float


class Search:
    """Chooses a threshold, and checks one.

    Attributes:
        before: rollouts from V >= lowest; None as long as there are none.
        by_value: failures of these by value.
    """

    def __init__(self, trials: Trials, plan: Plan, risk: float, confidence: float) -> None:
        self._trials, self._plan = trials, plan
        self._risk, self._confidence = risk, confidence
        self._needed = trials_needed(risk, confidence=confidence)
        self._allowed = events_allowed(plan.rollouts, risk, confidence=confidence)
        self._few = max(k for k in range(self._allowed + 1) if self._will_pass(k, plan.rollouts))
        self.before: Tried | None = None
        self.by_value: Calibration | None = None

    def choose(self) -> Band:
        """The threshold and the top of its edge: it rises until the set and its edge can be expected to pass the check.

        Raises:
            NothingCertified: there is none.
        """
        low = self._plan.lowest
        for _ in range(ROUNDS):
            raised, high = self._raised(Band(low, np.inf)), np.inf
            if raised is None:
                high = self._top_of_edge(low)
                raised = self._raised(Band(low, high))
            if raised is None:
                return Band(low, high)
            low = raised
        raise NothingCertified(f"after {ROUNDS} rounds the promise is still broken too often at V >= {low:.4g}")

    def _raised(self, band: Band) -> float | None:
        """Where the threshold has to rise to, by what rollouts from a band show; None where it may stay."""
        values, fails = self._trials.play(*band, self._plan.rollouts)
        if len(values) < self._needed:
            where = f"V >= {band.low:.4g}" if np.isinf(band.high) else f"{band.low:.4g} <= V < {band.high:.4g}, an edge"
            raise NothingCertified(
                f"only {len(values)} of {self._trials.drawn:,} initial states were found to have {where}, and a risk "
                f"of {self._risk:g} at a confidence of {self._confidence:g} takes {self._needed}; the highest value of "
                f"any was {self._trials.highest:.4g}"
            )
        broken = fails_at_worst(fails)
        if self.before is None:
            self.before = self._tried(band, fails)
            self.by_value = calibration_of(values, broken, self._confidence)
        if self._will_pass(int(broken.sum()), len(broken)):
            return None
        raised = lowest_safe(values, broken, band.low, self._seems_safe)
        if raised is None and np.isinf(band.high):
            more = "; more rollouts could show that it is lower" if broken.mean() < self._risk else ""
            raise NothingCertified(
                f"no threshold is found with a risk of {self._risk:g}: the promise is broken from {broken.mean():.2%} "
                f"of the states with V >= {band.low:.4g}, the one of the highest value among them{more}"
            )
        # what has been found to fail is left behind in any case, so that every round gets on
        least = np.nextafter(values[broken].min(), np.inf)
        return _in_float32(max(band.high if raised is None else raised, least))

    def _top_of_edge(self, low: float) -> float:
        if self._plan.edge == 1.0:
            return float(np.inf)
        top = np.quantile(self._trials.values(low, np.inf, self._plan.rollouts), self._plan.edge)
        return float(np.nextafter(top, np.inf))  # so that values equal to it, which may be all, are of the edge

    def check(self, low: float, high: float) -> Tried:
        """Rollouts from fresh states."""
        return self._tried(Band(low, high), self._trials.play(low, high, self._plan.rollouts).fails)

    def require(self, whole: Tried, edge: Tried) -> None:
        """Refuse a threshold whose check did not hold.

        Raises:
            NothingCertified: it did not.
        """
        for name, tried in (("set", whole), ("edge", edge)):
            if tried.at_most > self._risk:
                raise NothingCertified(
                    f"the check of the {name} at V >= {tried.low:.4g} failed: the promise was broken from "
                    f"{tried.failed_at_worst} of {tried.rollouts} fresh states, which bounds the risk by "
                    f"{tried.at_most:.4g} only; more rollouts make that rarer"
                )

    def _tried(self, band: Band, fails: dict[str, NDArray[np.bool_]]) -> Tried:
        each = 1.0 - (1.0 - self._confidence) / len(fails)
        failed = {name: int(flags.sum()) for name, flags in fails.items()}
        at_worst = fails_at_worst(fails)
        broken, count = int(at_worst.sum()), len(at_worst)
        intervals = {name: clopper_pearson(events, count, confidence=each) for name, events in failed.items()}
        at_most = upper_bound(broken, count, confidence=self._confidence)
        return Tried(*band, count, failed, intervals, broken, at_most)

    def _will_pass(self, failed: int, count: int) -> bool:
        """Whether a check by as many rollouts as planned can be expected to hold; no failure is the best there is."""
        return failed == 0 or chance_of_at_most(self._allowed, self._plan.rollouts, events=failed, seen=count) >= SURE

    def _seems_safe(self, failed: int, count: int) -> bool:
        """Whether so many of fewer states leave room for the check: the share of failures with which it would hold."""
        return failed * self._plan.rollouts <= self._few * count


def lowest_safe(values: Any, fails: Any, lowest: float, safe: Callable[[int, int], bool]) -> float | None:
    """The lowest threshold at which what lies above it is safe; None where there is none.

    Looked at are `lowest` and what lies just above the value of each state that failed: only there the number of
    failures changes.

    Args:
        values: `(N,)`, all at least `lowest`.
        fails: bool `(N,)`.
        lowest: the first threshold.
        safe: whether so many failures of so many states will do, `(failures, states) -> bool`.
    """
    values, fails = np.sort(np.asarray(values, np.float64)), np.sort(np.asarray(values)[np.asarray(fails, bool)])
    for candidate in (lowest, *np.nextafter(np.unique(fails), np.inf)):
        count = len(values) - int(np.searchsorted(values, candidate))
        failed = len(fails) - int(np.searchsorted(fails, candidate))
        if count and safe(failed, count):
            return float(candidate)
    return None


def _in_float32(threshold: float) -> float:
    """The next number up that float32 has: values of learners are such, and compare with it as they are."""
    rounded = np.float32(threshold)
    above = float(rounded) >= threshold  # in float64: NumPy would round the threshold
    return float(rounded if above else np.nextafter(rounded, np.float32(np.inf)))


def _finite(number: float) -> float | None:
    """A number as JSON can have it: None for infinity."""
    return float(number) if np.isfinite(number) else None
