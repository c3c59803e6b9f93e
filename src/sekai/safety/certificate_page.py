"""The page of a certificate: what is certified, against whom, beside the truth, and what it rests on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from sekai.safety.assumptions import assumptions, errors, meaning
from sekai.safety.calibration import Tried
from sekai.safety.certificates import Calibration, CertificateReport
from sekai.safety.certify import Certificate
from sekai.safety.learning import Curve, learning_section
from sekai.safety.page import Picture, Section, page, paragraphs, pictures, table, verdict
from sekai.safety.picture import promise_picture, set_picture

AT_WORST, NO_OPPONENT = "the worst of them in each state", "none"
LABELS = {
    "best_response_steps": "training steps of an opponent against this policy",
    "rollouts": "rollouts of each set of states, against each opponent if there are some",
    "steps": "steps of a rollout",
    "seconds": "seconds of a rollout, in simulated time",
    "edge": "edge, as a share of the certified states",
    "lowest": "lowest threshold considered",
}
DIRECTIONS = {
    "bold": "bold: unsafe may be called safe",
    "careful": "careful: safe may be called unsafe",
    "either": "either way",
}


def certificate_page(
    certificate: Certificate,
    *,
    title: str | None = None,
    report: CertificateReport | None = None,
    curves: Mapping[str, Curve] | None = None,
) -> str:
    """The whole page as HTML, with its pictures inside.

    Args:
        certificate: what is certified.
        title: what was learned, and how; by default who and what for.
        report: how far the learned set is from the truth; None where that is not known.
        curves: of `read_curves`; None where there is no log.
    """
    assumed = assumptions(certificate)
    shown = "The certified set, and how often" if report is not None else "How often"
    sections = [
        Section("What this means", paragraphs(*meaning(certificate))),
        Section(f"{shown} the promise is broken", _pictures(certificate, report)),
        Section("Against each opponent" if certificate.opponents else "Failures", _opponents(certificate)),
        *([] if report is None else [Section("Beside the exact set", _sets(certificate, report))]),
        *([learning_section(curves)] if curves else []),
        Section("What was assumed", _assumed(assumed)),
        Section("In which direction it errs", _errors(certificate)),
    ]
    footer = f"sekai {assumed['version']}, seed {certificate.plan.seed}"
    named = f"{certificate.learner} on {certificate.about.name}" if title is None else title
    return page(named, verdict(str(certificate), good=certificate.threshold is not None), sections, footer)


def _pictures(certificate: Certificate, report: CertificateReport | None) -> str:
    if report is not None:
        said = f"Bars are bounds of each bin at {report.confidence:.0%}. Of all initial states, certified or not."
        return pictures(_set_picture(certificate, report), _promise_picture(certificate, report.calibration, said))
    if certificate.by_value is None:
        return paragraphs(f"Too few initial states have V ≥ {certificate.plan.lowest:g}: there is nothing to draw.")
    said = (
        f"Rollouts from initial states with V ≥ {certificate.plan.lowest:g}, in bins of as many. Bars are bounds of "
        f"each bin at {certificate.confidence:.0%}."
    )
    return pictures(_promise_picture(certificate, certificate.by_value, said))


def _set_picture(certificate: Certificate, report: CertificateReport) -> Picture:
    sets, threshold = report.sets, certificate.threshold
    inner = "" if threshold is None else f" Dash-dotted: the certified set, V = {threshold:.4g}."
    middle = " The other numbers of the state are at their middle." if len(report.grid.axes) > 2 else ""
    over = " and ".join(report.system.state_names[:2])
    alt = (
        f"Map of the learned value over {over}: the learned set {{V >= 0}} has an "
        f"intersection over union of {sets.iou:.3f} with the exact set; {sets.false_safe:.2%} of the exact set's area "
        f"is wrongly called safe, {sets.missed:.2%} of it is missed."
    )
    return Picture(set_picture(report, threshold), alt, f"Solid: learned. Dashed: exact.{inner}{middle}")


def _promise_picture(certificate: Certificate, curve: Calibration, said: str) -> Picture:
    alt = (
        f"Share of rollouts that broke the promise by the value of their first state, in {len(curve.values)} bins: "
        f"{curve.failures[0]:.1%} in the bin of the least values, around {curve.values[0]:.3g}, and "
        f"{curve.failures[-1]:.1%} in that of the greatest, around {curve.values[-1]:.3g}."
    )
    return Picture(promise_picture(curve, certificate.threshold), alt, said)


def _opponents(certificate: Certificate) -> str:
    tried = {
        f"V ≥ {certificate.plan.lowest:g}": certificate.before,
        "checked set": certificate.whole,
        "its edge": certificate.edge,
    }
    shown = {where: found for where, found in tried.items() if found is not None}
    if not shown:
        return paragraphs(f"Too few initial states have V ≥ {certificate.plan.lowest:g}: no certificate was tried.")
    columns = ("opponent", *(f"{where}: {part}" for where in shown for part in ("broken", "bounds")))
    names = (*certificate.opponents, AT_WORST) if certificate.opponents else (NO_OPPONENT,)
    rows = [(name, *(cell for found in shown.values() for cell in _cells(found, name))) for name in names]
    at = f"at {certificate.confidence:.0%}"
    text = (
        f"Bounds of single opponents hold all together {at}; that of the worst is an upper one at the same confidence."
        if certificate.opponents
        else f"Upper bounds {at}."
    )
    return table(columns, rows) + paragraphs(text, "; ".join(_told(*each) for each in shown.items()) + ".")


def _told(where: str, tried: Tried) -> str:
    values = f"V from {tried.low:.4g} up" if math.isinf(tried.high) else f"V from {tried.low:.4g} to {tried.high:.4g}"
    return f"{where}: {tried.rollouts:,} rollouts, {values}"


def _cells(tried: Tried, name: str) -> tuple[str, str]:
    if name not in tried.intervals:  # of no opponent by itself
        return f"{tried.failed_at_worst:,}", f"≤ {tried.at_most:.4f}"
    low, high = tried.intervals[name]
    return f"{tried.failed[name]:,}", f"{low:.4f} to {high:.4f}"


def _sets(certificate: Certificate, report: CertificateReport) -> str:
    compared = [("V ≥ 0", report.sets)]
    if certificate.threshold is not None and certificate.sets is not None:
        compared.append((f"V ≥ {certificate.threshold:.4g}, certified", certificate.sets))
    rows = [(name, f"{sets.iou:.4f}", f"{sets.false_safe:.4f}", f"{sets.missed:.4f}") for name, sets in compared]
    shares = "The last two are shares of the exact set's area. "
    keeps = f"From {report.policy_keeps:.2%} of the exact set's initial states the policy keeps the promise."
    columns = ("set", "intersection over union", "wrongly called safe", "missed")
    return table(columns, rows) + paragraphs(shares + keeps)


def _assumed(assumed: Mapping[str, Any]) -> str:
    known = {name: value for name, value in assumed.items() if value is not None}
    rows = [(LABELS.get(name, name.replace("_", " ")), _text(value)) for name, value in known.items()]
    return table(("what", "as it was"), rows, texts=True)


def _text(value: Any) -> str:
    if isinstance(value, dict):  # of initial states
        if value["names"] is None:
            return str(value["drawn"])
        ranges = zip(value["names"], value["low"], value["high"], strict=True)
        return ", ".join(f"{name} from {low:g} to {high:g}" for name, low, high in ranges) + f"; {value['drawn']}"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return value if isinstance(value, str) else json.dumps(value)


def _errors(certificate: Certificate) -> str:
    rows = [(error["what"], DIRECTIONS[error["errs"]]) for error in errors(certificate)]
    return table(("what", "errs"), rows, texts=True)
