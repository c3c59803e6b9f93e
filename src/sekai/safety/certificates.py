"""How far a learned certificate is from the truth, and how often it breaks its promise.

A certificate says of a state: from here the policy stays safe (avoid), or reaches the target without failing
(reach-avoid). Two questions, two answers:

    the set      {V >= 0} against the exact set of the same sampled-time system, one step later, since V leaves out the
                 margin of the state itself: intersection over union, and the shares wrongly called safe and missed
    the promise  rollouts of the deterministic policy, against each of some opponents where there is a disturbance, from
                 states spread evenly over the initial ones: how often it fails where V >= 0, with exact
                 (Clopper-Pearson) bounds. Without another word it fails where at least one of them makes it fail

The policy can be nearly perfect while the certificate is wrong by half, so a success rate measures neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.safety.binomial import Interval, clopper_pearson
from sekai.safety.opponents import Opponent, opponents_for
from sekai.safety.oracle import Grid, SetComparison, compare_sets
from sekai.safety.promises import Certified, fails_at_worst, fails_by_opponent
from sekai.safety.systems.base import System

Floats = NDArray[np.float64]

#: keys of `CertificateReport.numbers`
_MEASURED = (
    "iou",
    "false_safe",
    "missed",
    "policy_keeps",
    "fails_if_certified",
    "fails_if_certified_bounds",
    "certified_if_fails",
    "certified",
    "rollouts",
    "confidence",
    "opponents",
    "calibration",
)


class Calibration(NamedTuple):
    """Failures by value, in bins of equally many rollouts.

    Attributes:
        values: mean value of each bin, ascending.
        failures: share of the rollouts of each bin that failed.
        bounds: of the probability of failing, each with the confidence of the report.
    """

    values: list[float]
    failures: list[float]
    bounds: list[Interval]

    def numbers(self) -> dict[str, Any]:
        """As numbers, for a file."""
        return {"values": self.values, "failures": self.failures, "bounds": [list(bound) for bound in self.bounds]}


class AgainstOpponent(NamedTuple):
    """The promise against one opponent.

    Attributes:
        policy_keeps: share of the exact set from which the policy keeps the promise.
        fails_if_certified: P(fail | V >= 0).
        bounds: of it; those of all opponents hold together with the confidence of the report.
    """

    policy_keeps: float
    fails_if_certified: float
    bounds: Interval


class CertificateReport(NamedTuple):
    """What `evaluate_certificate` found.

    Attributes:
        sets: the learned set against the exact one.
        policy_keeps: share of the exact set from which the policy keeps the promise.
        fails_if_certified: P(fail | V >= 0).
        fails_if_certified_bounds: of it.
        certified_if_fails: P(V >= 0 | fail).
        certified: rollouts with V >= 0.
        rollouts: all of them.
        calibration: failures by value.
        confidence: of the bounds.
        opponents: the same by opponent, `NOBODY` for a system without a disturbance.
        system: whose states they are.
        grid, learned, exact: the states, the learned and the exact value on them, for a picture.
    """

    sets: SetComparison
    policy_keeps: float
    fails_if_certified: float
    fails_if_certified_bounds: Interval
    certified_if_fails: float
    certified: int
    rollouts: int
    calibration: Calibration
    confidence: float
    opponents: dict[str, AgainstOpponent]
    system: System
    grid: Grid
    learned: Floats
    exact: Floats

    @staticmethod
    def unmeasured() -> dict[str, None]:
        """The keys of `numbers`, where there is no truth to measure by."""
        return dict.fromkeys(_MEASURED)

    def numbers(self) -> dict[str, Any]:
        """The report as numbers, for a file."""
        return {
            "iou": self.sets.iou,
            "false_safe": self.sets.false_safe,
            "missed": self.sets.missed,
            "policy_keeps": self.policy_keeps,
            "fails_if_certified": self.fails_if_certified,
            "fails_if_certified_bounds": list(self.fails_if_certified_bounds),
            "certified_if_fails": self.certified_if_fails,
            "certified": self.certified,
            "rollouts": self.rollouts,
            "confidence": self.confidence,
            "opponents": {
                name: {**against._asdict(), "bounds": list(against.bounds)} for name, against in self.opponents.items()
            },
            "calibration": self.calibration.numbers(),
        }


def evaluate_certificate(
    learner: Certified,
    system: System,
    truth: Callable[[Any], Any],
    *,
    cells: int = 121,
    rollouts: int = 4000,
    steps: int = 200,
    confidence: float = 0.95,
    seed: int = 0,
    opponents: Mapping[str, Opponent] | None = None,
) -> CertificateReport:
    """Measure a learned certificate.

    Args:
        learner: a safety learner, or anything with `predict` and `predict_value`.
        system: of two or three state numbers.
        truth: exact value of states `(..., S)`, one step later, see `sekai.safety.oracle.after_step`.
        cells: nodes of each axis of the grid on which sets are compared.
        rollouts, steps: how many, and how long.
        confidence: of the bounds.
        seed: of the states that rollouts start in, and of a random opponent.
        opponents: that choose the disturbance, by name; by default those of `opponents_for`, whose greedy one goes by
            the truth, and so is the worst response to every action.

    Raises:
        ValueError: opponents, and the system has no disturbance.
    """
    against = opponents_for(learner, system, truth, opponents=opponents, seed=seed)
    grid, learned, exact, alive = _on_grid(learner, system, truth, cells)
    sets = compare_sets((learned >= 0) & alive, (exact >= 0) & alive, weights=grid.cells)

    drawn = system.start(np.random.default_rng(seed).random((rollouts, system.state_size)))
    by_opponent = fails_by_opponent(learner, system, drawn, against, steps=steps)
    values = np.asarray(learner.predict_value(np.asarray(system.observe(drawn), np.float32)), np.float64)
    certified, fails = values >= 0, fails_at_worst(by_opponent)
    safe = np.asarray(truth(drawn)) >= 0
    broken = int((fails & certified).sum())
    each = 1.0 - (1.0 - confidence) / len(by_opponent)
    return CertificateReport(
        sets=sets,
        policy_keeps=_share(~fails & safe, safe),
        fails_if_certified=_share(fails & certified, certified),
        fails_if_certified_bounds=clopper_pearson(broken, int(certified.sum()), confidence=confidence),
        certified_if_fails=_share(fails & certified, fails),
        certified=int(certified.sum()),
        rollouts=rollouts,
        calibration=calibration_of(values, fails, confidence),
        confidence=confidence,
        opponents={name: _against(flags, certified, safe, each) for name, flags in by_opponent.items()},
        system=system,
        grid=grid,
        learned=learned,
        exact=exact,
    )


def compare_with_truth(
    learner: Certified, system: System, truth: Callable[[Any], Any], cells: int, level: float
) -> SetComparison:
    """The set {V >= level} against the exact one; arguments as for `evaluate_certificate`."""
    grid, learned, exact, alive = _on_grid(learner, system, truth, cells)
    return compare_sets((learned >= level) & alive, (exact >= 0) & alive, weights=grid.cells)


def _on_grid(
    learner: Certified, system: System, truth: Callable[[Any], Any], cells: int
) -> tuple[Grid, Floats, Floats, NDArray[np.bool_]]:
    """A grid, the learned and the exact value on it, and where g >= 0."""
    grid = Grid.around(system, cells, margin=0.1)
    exact = np.asarray(truth(grid.states), np.float64)
    learned = np.asarray(learner.predict_value(np.asarray(system.observe(grid.states), np.float32)), np.float64)
    # nobody asks whether what has failed is safe
    return grid, learned, exact, np.asarray(system.g(grid.states)) >= 0


def _against(
    fails: NDArray[np.bool_], certified: NDArray[np.bool_], safe: NDArray[np.bool_], confidence: float
) -> AgainstOpponent:
    bounds = clopper_pearson(int((fails & certified).sum()), int(certified.sum()), confidence=confidence)
    return AgainstOpponent(_share(~fails & safe, safe), _share(fails & certified, certified), bounds)


def threshold_for(
    values: Any, fails: Any, risk: float, *, confidence: float = 0.95, candidates: int = 100
) -> float | None:
    """The lowest threshold c with P(fail | V >= c) at most `risk`, by its exact upper bound; None where there is none.

    The bound of each candidate is widened so that all of them hold together (Bonferroni).

    Args:
        values: of rollouts, `(N,)`.
        fails: whether each failed, bool `(N,)`.
        risk: within (0, 1).
        confidence: that the risk of the threshold returned is as said.
        candidates: thresholds that are looked at, quantiles of the values.
    """
    values, fails = np.asarray(values, np.float64), np.asarray(fails, bool)
    single = 1.0 - (1.0 - confidence) / candidates
    for level in np.quantile(values, np.linspace(0.0, 1.0, candidates, endpoint=False)):
        above = values >= level
        if clopper_pearson(int(fails[above].sum()), int(above.sum()), confidence=single).high <= risk:
            return float(level)
    return None


def calibration_of(values: Floats, fails: NDArray[np.bool_], confidence: float, bins: int = 20) -> Calibration:
    """Failures by value.

    Args:
        values: of the first states of rollouts, `(N,)`.
        fails: whether each failed, bool `(N,)`.
        confidence: of the bounds of each bin.
        bins: at most so many.
    """
    parts = np.array_split(np.argsort(values, kind="stable"), max(1, min(bins, len(values))))
    bounds = [clopper_pearson(int(fails[part].sum()), len(part), confidence=confidence) for part in parts]
    return Calibration(
        [float(values[part].mean()) for part in parts], [float(fails[part].mean()) for part in parts], bounds
    )


def _share(part: NDArray[np.bool_], whole: NDArray[np.bool_]) -> float:
    """The share of one in the other; 0 where there is none of the other."""
    return float(part.sum() / max(int(whole.sum()), 1))
