"""What a certificate rests on, and in which direction each approximation errs, in words for a report."""

from __future__ import annotations

import sys
from typing import Any

from sekai.safety.backups import REACH_AVOID
from sekai.safety.certify import Certificate


def assumptions(certificate: Certificate) -> dict[str, Any]:
    """What was assumed, with keys that are always the same."""
    plan, about = certificate.plan, certificate.about
    return {
        "version": sys.modules["sekai"].__version__,
        "learner": certificate.learner,
        "system": about.described,
        "mode": about.mode,
        "policy": "deterministic, the one that predict() executes",
        "opponents": list(certificate.opponents),
        "disturbances": about.disturbances,
        "greedy_goes_by": _greedy(certificate),
        "best_response_steps": certificate.best_response_steps,
        "initial_states": about.initial_states,
        "rollouts": plan.rollouts,
        "steps": plan.steps,
        "seconds": None if about.dt is None else plan.steps * about.dt,
        "edge": plan.edge,
        "lowest": plan.lowest,
        "seed": plan.seed,
        "risk": certificate.risk,
        "confidence": certificate.confidence,
    }


def meaning(certificate: Certificate) -> list[str]:
    """What a certificate says, and what it does not, one text a paragraph."""
    plan, about = certificate.plan, certificate.about
    reach = about.mode == REACH_AVOID
    kept = "reaches the target, without a failure before," if reach else "does not fail"
    after = "after the target has been reached, or after these steps" if reach else "after these steps"
    risk, confidence = f"{100 * certificate.risk:g} %", f"{100 * certificate.confidence:g} %"
    against = ", ".join(certificate.opponents)
    if about.kind == "environment":
        within, met = f"{plan.steps} steps, or until the episode ends", "in this environment, with its own randomness"
    else:
        within = f"{plan.steps} steps"
        met = f"whichever of these opponents it meets: {against}" if against else "in the system as it is, undisturbed"
    wrong = f"{100 * (1 - certificate.confidence):.3g} %"
    return [
        f"A certificate says: draw an initial state as stated below. If its value is at least the threshold, the "
        f"policy {kept} within {within}, except with a probability of at most {risk}, {met}. The same holds "
        f"at the edge, for the {100 * plan.edge:g} % of the certified initial states with the least values. A "
        f"certificate that does not hold is given with a probability of at most {wrong} (confidence {confidence}).",
        "It does not say that any single state is safe, and nothing of initial states that are drawn in another way, "
        f"of other opponents, of another {about.kind}, or of what happens {after}.",
    ]


def errors(certificate: Certificate) -> list[dict[str, str]]:
    """Each approximation, as "what", and the direction in which it "errs": "bold" where unsafe may be called safe,
    "careful" where safe may be called unsafe, or "either"."""
    plan, about, reach = certificate.plan, certificate.about, certificate.about.mode == REACH_AVOID
    late = "a target that is reached later counts as missed" if reach else "a later failure is not seen"
    ends = "" if about.kind == "system" else ", or where the environment ends its episodes"
    found = [(f"rollouts end after {plan.steps} steps{ends}: {late}", "careful" if reach else "bold")]
    if reach:
        found.append(("a rollout that has reached the target is over: a failure after it is not seen", "bold"))
    if certificate.opponents:
        found += [
            ("an opponent that is not named may be worse", "bold"),
            (_best_response(certificate.best_response_steps), "bold"),
            ("in each state the opponent counts that breaks the promise, if one of them does", "careful"),
        ]
    found += [
        ("the bounds are exact, and hold with at least the confidence", "careful"),
        ("the threshold leaves room, so that its check can be expected to hold", "careful"),
        ("the edge is drawn by value, not as a filter that is leaned on visits it", "either"),
    ]
    if certificate.sets_before is not None:
        found.append(("sets are compared at the nodes of a grid; an exact one may be interpolated", "either"))
    return [{"what": what, "errs": errs} for what, errs in found]


def _greedy(certificate: Certificate) -> str | None:
    """What value the usual greedy opponent went by; None where there is none."""
    if "greedy" not in certificate.opponents:
        return None
    return "the learner's own value" if certificate.sets_before is None else "the exact value"


def _best_response(steps: int) -> str:
    if steps == 0:
        return "no opponent was trained to break this policy"
    return f"an opponent was trained for {steps:,} steps to break this policy: a longer search may find more"
