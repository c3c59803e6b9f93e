"""`certify`: the threshold above which a learned value keeps its promise, with a stated risk and confidence.

    lowest ──────────── c ──── top ────────────────> V of the first state
                        [ edge )        where a filter that is leaned on spends its time
                        [ whole ...                   what is certified

The threshold c is chosen on some initial states, and checked on others, drawn afterwards (split conformal):

    choose   c rises from `lowest` until few enough of the states with V >= c fail, and few enough of its edge, the
             share of them with the least values. It rises to just above the value of a state that failed, so that it
             is an order statistic of these values; failures above it are outliers, if they are few
    check    fresh states with V >= c, and fresh ones of the edge, each with an exact binomial bound of P(fail)

The certificate is given only where both bounds are at most the risk, against the opponent that is worst in each state.
So a wrong one is given with a probability of at most 1 - confidence, whatever the value is and however c was chosen: to
be given, both hypotheses "the risk is higher" have to be rejected, and the wrong one of them is not, with that
confidence. The bound of k failures in n is the quantile of Beta(k + 1, n - k), the law of split conformal prediction.

Sources: Lin and Bansal, "Verification of neural reachable tubes via scenario optimization and conformal prediction",
2023 (outliers allowed, the Beta law); Vovk, "Conditional validity of inductive conformal predictors", 2012 (the law,
and bounds within a category, here the edge); Berger, "Multiparameter hypothesis testing and acceptance sampling", 1982
(all hypotheses at one level).
"""

from __future__ import annotations

from collections.abc import Mapping
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
from sekai.safety.certificates import compare_with_truth
from sekai.safety.opponents import Opponent, Value, opponents_for
from sekai.safety.oracle import SetComparison
from sekai.safety.promises import Certified, fails_at_worst, fails_by_opponent
from sekai.safety.starts import Starts
from sekai.safety.systems.base import System
from sekai.spaces.checks import whole_number

Floats = NDArray[np.float64]

#: how sure the choice is of its check, which it fails rather seldom
SURE = 0.95
#: times that the edge may rise
ROUNDS = 50
#: states whose values say how large a set is
POOL = 20_000


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


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What `certify` found.

    It says: from an initial state drawn as it was drawn here, with V >= threshold, the policy breaks its promise within
    the steps of a rollout with a probability of at most `risk`, whichever of the named opponents it meets. It says
    nothing of other opponents, of other ways to draw initial states, or of a single state.

    Attributes:
        threshold: c; None where nothing is certified.
        reason: why nothing is certified; empty where something is.
        risk, confidence: as asked for.
        before: rollouts from V >= lowest, which the threshold was chosen by; None where there were too few such states.
        whole, edge: those that checked a threshold; None where none could be chosen.
        share_before, share: of the initial states that have V >= lowest, and V >= threshold.
        sets_before, sets: these sets against the exact one; None without a truth, and for a threshold of None.
        opponents: names; empty for a system without a disturbance.
        plan: how much was tried.
        best_response_steps: training steps of an opponent that was trained to break this very policy; 0 for none.
    """

    threshold: float | None
    reason: str
    risk: float
    confidence: float
    before: Tried | None
    whole: Tried | None
    edge: Tried | None
    share_before: float
    share: float
    sets_before: SetComparison | None
    sets: SetComparison | None
    opponents: tuple[str, ...]
    plan: Plan
    best_response_steps: int

    def numbers(self) -> dict[str, Any]:
        """As numbers, for a file; the keys are always the same."""
        return {
            "threshold": self.threshold,
            "reason": self.reason,
            "risk": self.risk,
            "confidence": self.confidence,
            "share_before": self.share_before,
            "share": self.share,
            **{
                name: None if tried is None else tried.numbers()
                for name, tried in (("before", self.before), ("whole", self.whole), ("edge", self.edge))
            },
            **{
                name: None if sets is None else sets._asdict()
                for name, sets in (("sets_before", self.sets_before), ("sets", self.sets))
            },
        }


def certify(
    learner: Certified,
    system: System,
    *,
    risk: float = 0.01,
    confidence: float = 0.95,
    opponents: Mapping[str, Opponent] | None = None,
    truth: Value | None = None,
    best_response_steps: int = 0,
    plan: Plan | None = None,
) -> Certificate:
    """Find the threshold of a learned value that keeps its promise with a given risk, see the module.

    Args:
        learner: a safety learner, or anything with `predict` and `predict_value`.
        system: the dynamics.
        risk: largest P(fail | V >= threshold), within (0, 1).
        confidence: that the certificate is not given where the risk is higher, within (0, 1).
        opponents: by name; by default those of `opponents_for`, whose greedy one goes by the truth, else by the
            learner's own value.
        truth: exact value of states `(..., S)`, one step later, see `truth_of`; the sets are compared with its set.
        best_response_steps: for how many steps one of the opponents was trained to break this policy; only stated.
        plan: how much is tried.

    Returns:
        The certificate; one without a threshold where no set can be certified, with the reason.

    Raises:
        ValueError: fewer rollouts than the risk and the confidence take; values that are not finite; opponents and a
            system without a disturbance.
    """
    plan = Plan() if plan is None else plan
    needed = trials_needed(risk, confidence=confidence)
    if plan.rollouts < needed:
        raise ValueError(
            f"rollouts is {plan.rollouts}; a risk of {risk:g} at a confidence of {confidence:g} takes {needed}, even "
            f"if none of them fails: give Plan(rollouts={needed}) or more, a higher risk or a lower confidence."
        )
    starts = Starts(learner, system, np.random.default_rng(plan.seed))
    against = opponents_for(learner, system, truth or starts.values_of, opponents=opponents, seed=plan.seed)
    search = _Search(starts, against, plan, risk, confidence)
    threshold, whole, edge, reason = None, None, None, ""
    try:
        chosen = search.choose()
        whole, edge = search.check(chosen.low, np.inf), search.check(chosen.low, chosen.high)
        search.require(whole, edge)
        threshold = chosen.low
    except _NothingCertified as nothing:
        reason = str(nothing)
    pool = starts.pool(POOL)
    sets = [
        None if truth is None or level is None else compare_with_truth(learner, system, truth, plan.cells, level)
        for level in (plan.lowest, threshold)
    ]
    return Certificate(
        threshold=threshold,
        reason=reason,
        risk=risk,
        confidence=confidence,
        before=search.before,
        whole=whole,
        edge=edge,
        share_before=float((pool >= plan.lowest).mean()),
        share=0.0 if threshold is None else float((pool >= threshold).mean()),
        sets_before=sets[0],
        sets=sets[1],
        opponents=tuple(against),
        plan=plan,
        best_response_steps=best_response_steps,
    )


class _NothingCertified(Exception):
    """No threshold can be chosen; the message says why."""


class _Band(NamedTuple):
    """Values from low to below high."""

    low: float
    high: float


class _Search:
    """Chooses a threshold, and checks one.

    Attributes:
        before: rollouts from V >= lowest; None as long as there are none.
    """

    def __init__(
        self, starts: Starts, opponents: Mapping[str, Opponent], plan: Plan, risk: float, confidence: float
    ) -> None:
        self._starts, self._opponents, self._plan = starts, opponents, plan
        self._risk, self._confidence = risk, confidence
        self._needed = trials_needed(risk, confidence=confidence)
        self._allowed = events_allowed(plan.rollouts, risk, confidence=confidence)
        self._few = max(k for k in range(self._allowed + 1) if self._will_pass(k, plan.rollouts))
        self.before: Tried | None = None

    def choose(self) -> _Band:
        """The threshold and the top of its edge: it rises until the set and its edge can be expected to pass the check.

        Raises:
            _NothingCertified: there is none.
        """
        low = self._plan.lowest
        for _ in range(ROUNDS):
            raised, high = self._raised(_Band(low, np.inf)), np.inf
            if raised is None:
                high = self._top_of_edge(low)
                raised = self._raised(_Band(low, high))
            if raised is None:
                return _Band(low, high)
            low = raised
        raise _NothingCertified(f"after {ROUNDS} rounds the promise is still broken too often at V >= {low:.4g}")

    def _raised(self, band: _Band) -> float | None:
        """Where the threshold has to rise to, by what rollouts from a band show; None where it may stay."""
        states, values = self._starts.within(*band, self._plan.rollouts)
        if len(states) < self._needed:
            where = f"V >= {band.low:.4g}" if np.isinf(band.high) else f"{band.low:.4g} <= V < {band.high:.4g}, an edge"
            raise _NothingCertified(
                f"only {len(states)} of {self._starts.drawn:,} initial states were found to have {where}, and a risk "
                f"of {self._risk:g} at a confidence of {self._confidence:g} takes {self._needed}"
            )
        fails = self._fails(states)
        if self.before is None:
            self.before = self._tried(band, fails)
        broken = fails_at_worst(fails)
        if self._will_pass(int(broken.sum()), len(broken)):
            return None
        raised = lowest_safe(values, broken, band.low, self._seems_safe)
        if raised is None and np.isinf(band.high):
            more = "; more rollouts could show that it is lower" if broken.mean() < self._risk else ""
            raise _NothingCertified(
                f"no threshold is found with a risk of {self._risk:g}: the promise is broken from {broken.mean():.2%} "
                f"of the states with V >= {band.low:.4g}, the one of the highest value among them{more}"
            )
        # what has been found to fail is left behind in any case, so that every round gets on
        least = np.nextafter(values[broken].min(), np.inf)
        return float(max(band.high if raised is None else raised, least))

    def _top_of_edge(self, low: float) -> float:
        if self._plan.edge == 1.0:
            return float(np.inf)
        _, values = self._starts.within(low, np.inf, self._plan.rollouts)
        return float(np.quantile(values, self._plan.edge))

    def check(self, low: float, high: float) -> Tried:
        """Rollouts from fresh states."""
        states, _ = self._starts.within(low, high, self._plan.rollouts)
        return self._tried(_Band(low, high), self._fails(states))

    def require(self, whole: Tried, edge: Tried) -> None:
        """Refuse a threshold whose check did not hold.

        Raises:
            _NothingCertified: it did not.
        """
        for name, tried in (("set", whole), ("edge", edge)):
            if tried.at_most > self._risk:
                raise _NothingCertified(
                    f"the check of the {name} at V >= {tried.low:.4g} failed: the promise was broken from "
                    f"{tried.failed_at_worst} of {tried.rollouts} fresh states, which bounds the risk by "
                    f"{tried.at_most:.4g} only; more rollouts make that rarer"
                )

    def _fails(self, states: Floats) -> dict[str, NDArray[np.bool_]]:
        starts = self._starts
        return fails_by_opponent(starts.learner, starts.system, states, self._opponents, steps=self._plan.steps)

    def _tried(self, band: _Band, fails: dict[str, NDArray[np.bool_]]) -> Tried:
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


def lowest_safe(values: Any, fails: Any, lowest: float, safe: Any) -> float | None:
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


def _finite(number: float) -> float | None:
    """A number as JSON can have it: None for infinity."""
    return float(number) if np.isfinite(number) else None
