"""`certify`: the threshold above which a learned value keeps its promise, with a stated risk and confidence.

    lowest ──────────── c ──── top ────────────────> V of the first state
                        [ edge )        where a filter that is leaned on spends its time
                        [ whole ...                   what is certified

Rollouts begin in states of a system and meet opponents (`SystemTrials`), or are episodes of any environment, from its
own resets (`EpisodeTrials`). The threshold c is chosen on some initial states, and checked on others, drawn
afterwards (split conformal):

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
from typing import Any

import gymnasium
import numpy as np

from sekai.safety.about import About
from sekai.safety.binomial import trials_needed
from sekai.safety.calibration import NothingCertified, Plan, Search, Tried
from sekai.safety.certificates import Calibration, compare_with_truth
from sekai.safety.episodes import EpisodeTrials
from sekai.safety.opponents import Opponent, Value, opponents_for
from sekai.safety.oracle import SetComparison
from sekai.safety.promises import Certified
from sekai.safety.starts import Starts
from sekai.safety.systems.base import System
from sekai.safety.trials import Advance, SystemTrials, Trials
from sekai.vector import VecEnv

#: states whose values say how large a set is
POOL = 20_000


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What `certify` found.

    It says: from an initial state drawn as it was drawn here, with V >= threshold, the policy breaks its promise within
    the steps of a rollout with a probability of at most `risk`, whichever of the named opponents it meets. It says
    nothing of other opponents, of other ways to draw initial states, or of a single state.

    Attributes:
        threshold: c; None where nothing is certified.
        reason: why nothing is certified; empty where something is.
        about: what was tried.
        learner: name of the class of the learner.
        risk, confidence: as asked for.
        before: rollouts from V >= lowest, which the threshold was chosen by; None where there were too few such states.
        by_value: failures of these by the value of their first state, against the opponent that is worst in each.
        whole, edge: those that checked a threshold; None where none could be chosen.
        share_before, share: of the initial states that have V >= lowest, and V >= threshold.
        sets_before, sets: these sets against the exact one; None without a truth, and for a threshold of None.
        opponents: names; empty for a system without a disturbance, and for an environment.
        plan: how much was tried.
        best_response_steps: training steps of an opponent that was trained to break this very policy; 0 for none.
    """

    threshold: float | None
    reason: str
    about: About
    learner: str
    risk: float
    confidence: float
    before: Tried | None
    by_value: Calibration | None
    whole: Tried | None
    edge: Tried | None
    share_before: float
    share: float
    sets_before: SetComparison | None
    sets: SetComparison | None
    opponents: tuple[str, ...]
    plan: Plan
    best_response_steps: int

    def __str__(self) -> str:
        """What is certified, in a sentence or two."""
        risk, confidence = (f"{100 * number:g} %" for number in (self.risk, self.confidence))
        if self.threshold is None:
            return f"Nothing is certified at a risk of {risk} and a confidence of {confidence}: {self.reason}."
        of_those = ""
        if self.share_before > 0:  # shares are of other draws than those that were tried, and may miss what is rare
            of_those = f", and {_percent(self.share / self.share_before)} of those with V ≥ {self.plan.lowest:g}"
        return (
            f"Certified: from initial states with V ≥ {self.threshold:.4g}, the promise is broken with a probability "
            f"of at most {risk} (confidence {confidence}). These are {_percent(self.share)} of all initial states"
            f"{of_those}."
        )

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
            "by_value": None if self.by_value is None else self.by_value.numbers(),
            **{
                name: None if sets is None else sets._asdict()
                for name, sets in (("sets_before", self.sets_before), ("sets", self.sets))
            },
        }


def certify(
    learner: Certified,
    system: System | VecEnv | gymnasium.Env[Any, Any],
    *,
    risk: float = 0.01,
    confidence: float = 0.95,
    opponents: Mapping[str, Opponent] | None = None,
    truth: Value | None = None,
    best_response_steps: int = 0,
    plan: Plan | None = None,
    advance: Advance | None = None,
) -> Certificate:
    """Find the threshold of a learned value that keeps its promise with a given risk, see the module.

    Args:
        learner: a safety learner, or anything with `predict` and `predict_value`.
        system: the dynamics; or, where there are none, a vector environment or an environment with margins (see
            `sekai.safety.contract`), which is reset and stepped, and not closed. What is certified then is what happens
            after its own resets, with its own randomness, until its own time limit if that comes before `plan.steps`.
        risk: largest P(fail | V >= threshold), within (0, 1).
        confidence: that the certificate is not given where the risk is higher, within (0, 1).
        opponents: by name; by default those of `opponents_for`, whose greedy one goes by the truth, else by the
            learner's own value.
        truth: exact value of states `(..., S)`, one step later, see `truth_of`; the sets are compared with its set.
        best_response_steps: for how many steps one of the opponents was trained to break this policy; only stated.
        plan: how much is tried.
        advance: told how many rollouts have been made, as they are made.

    Returns:
        The certificate; one without a threshold where no set can be certified, with the reason.

    Raises:
        ValueError: fewer rollouts than the risk and the confidence take; values that are not finite; opponents and a
            system without a disturbance; opponents or a truth and an environment; an environment that `EpisodeTrials`
            refuses.
        TypeError: `system` is nothing of the kind.
    """
    plan = Plan() if plan is None else plan
    needed = trials_needed(risk, confidence=confidence)
    if plan.rollouts < needed:
        raise ValueError(
            f"rollouts is {plan.rollouts}; a risk of {risk:g} at a confidence of {confidence:g} takes {needed}, even "
            f"if none of them fails: give Plan(rollouts={needed}) or more, a higher risk or a lower confidence."
        )
    trials = _trials_of(learner, system, plan, advance, opponents, truth, best_response_steps)
    search = Search(trials, plan, risk, confidence)
    threshold, whole, edge, reason = None, None, None, ""
    try:
        chosen = search.choose()
        whole, edge = search.check(chosen.low, np.inf), search.check(chosen.low, chosen.high)
        search.require(whole, edge)
        threshold = chosen.low
    except NothingCertified as nothing:
        reason = str(nothing)
    pool = trials.pool(POOL)
    return Certificate(
        threshold=threshold,
        reason=reason,
        about=trials.about,
        learner=type(learner).__name__,
        risk=risk,
        confidence=confidence,
        before=search.before,
        by_value=search.by_value,
        whole=whole,
        edge=edge,
        share_before=float((pool >= plan.lowest).mean()),
        share=0.0 if threshold is None else float((pool >= threshold).mean()),
        sets_before=_compared(learner, system, truth, plan, plan.lowest),
        sets=_compared(learner, system, truth, plan, threshold),
        opponents=trials.opponents,
        plan=plan,
        best_response_steps=best_response_steps,
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _trials_of(
    learner: Certified,
    system: Any,
    plan: Plan,
    advance: Advance | None,
    opponents: Mapping[str, Opponent] | None,
    truth: Value | None,
    best_response_steps: int,
) -> Trials:
    """What is tried; errors as for `certify`."""
    if isinstance(system, System):
        starts = Starts(learner, system, np.random.default_rng(plan.seed))
        against = opponents_for(learner, system, truth or starts.values_of, opponents=opponents, seed=plan.seed)
        return SystemTrials(starts, against, steps=plan.steps, advance=advance)
    given = {"opponents": opponents is not None, "truth": truth is not None, "best_response_steps": best_response_steps}
    for name, is_given in given.items():
        if is_given:
            raise ValueError(
                f"{name} is given, and an environment: nobody can choose its disturbances or know its exact set. Give "
                f"its System, or leave {name} out."
            )
    return EpisodeTrials(learner, system, steps=plan.steps, seed=plan.seed, advance=advance)


def _compared(
    learner: Certified, system: Any, truth: Value | None, plan: Plan, level: float | None
) -> SetComparison | None:
    """The set {V >= level} against the exact one; None where one of them is not known."""
    if truth is None or level is None:
        return None
    return compare_with_truth(learner, system, truth, plan.cells, level)
