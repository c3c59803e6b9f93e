"""The page of a certificate: what is certified, against whom, beside the truth, and what it rests on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sekai.safety.assumptions import assumptions, errors, meaning, name_of
from sekai.safety.calibration import Tried
from sekai.safety.certificates import Calibration, CertificateReport
from sekai.safety.certify import Certificate
from sekai.safety.learning import Curve, learning_section
from sekai.safety.page import Picture, Section, page, paragraphs, pictures, table, verdict
from sekai.safety.picture import promise_picture, set_picture
from sekai.safety.promises import NOBODY, Certified
from sekai.safety.systems.base import System

CERTIFICATE, PAGE = "certificate.json", "certificate.html"
AT_WORST = "the worst of them in each state"
LABELS = {
    "best_response_steps": "training steps of an opponent against this policy",
    "rollouts": "rollouts of each set of states, against each opponent",
    "steps": "steps of a rollout",
    "seconds": "seconds of a rollout, in the time of the system",
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
    system: Any,
    *,
    title: str,
    assumed: Mapping[str, Any],
    report: CertificateReport | None = None,
    curves: Mapping[str, Curve] | None = None,
) -> str:
    """The whole page as HTML, with its pictures inside.

    Args:
        certificate: what is certified.
        system: the dynamics, or the environment.
        title: what was learned, and how.
        assumed: of `assumptions`.
        report: how far the learned set is from the truth; None where that is not known.
        curves: of `read_curves`; None where there is no log.
    """
    sections = [
        Section("What this means", paragraphs(*meaning(certificate, system))),
        Section("The certified set, and how often the promise is broken", _pictures(certificate, report, system)),
        Section("Against each opponent" if certificate.opponents else "Failures", _opponents(certificate)),
        *([] if report is None else [Section("Beside the exact set", _sets(certificate, report))]),
        *([learning_section(curves)] if curves else []),
        Section("What was assumed", _assumed(assumed)),
        Section("In which direction it errs", _errors(certificate, system)),
    ]
    footer = f"sekai {assumed['version']}, seed {certificate.plan.seed}"
    return page(title, verdict(str(certificate), good=certificate.threshold is not None), sections, footer)


def _pictures(certificate: Certificate, report: CertificateReport | None, system: Any) -> str:
    if report is not None:
        said = f"Bars are bounds of each bin at {report.confidence:.0%}. Of all initial states, certified or not."
        return pictures(
            _set_picture(certificate, report, system), _promise_picture(certificate, report.calibration, said)
        )
    if certificate.by_value is None:
        return paragraphs("Too few initial states have such a value: there is nothing to draw.")
    of = f"Of initial states with V ≥ {certificate.plan.lowest:g}."
    said = f"Bars are bounds of each bin at {certificate.confidence:.0%}. {of}"
    return pictures(_promise_picture(certificate, certificate.by_value, said))


def _set_picture(certificate: Certificate, report: CertificateReport, system: System) -> Picture:
    sets, threshold = report.sets, certificate.threshold
    inner = "" if threshold is None else f" Dash-dotted: the certified set, V = {threshold:.4g}."
    middle = " The other numbers of the state are at their middle." if len(report.grid.axes) > 2 else ""
    alt = (
        f"Map of the learned value over {' and '.join(system.state_names[:2])}: the learned set {{V >= 0}} has an "
        f"intersection over union of {sets.iou:.3f} with the exact set; {sets.false_safe:.2%} of the exact set's area "
        f"is wrongly called safe, {sets.missed:.2%} of it is missed."
    )
    return Picture(set_picture(report, system, threshold), alt, f"Solid: learned. Dashed: exact.{inner}{middle}")


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
        return paragraphs("Too few initial states have such a value: no rollouts were made.")
    columns = ("opponent", *(f"{where}: {part}" for where in shown for part in ("broken", "bounds")))
    names = (*certificate.opponents, AT_WORST) if certificate.opponents else (NOBODY,)
    rows = [(name, *(cell for found in shown.values() for cell in _cells(found, name))) for name in names]
    at = f"at {certificate.confidence:.0%}"
    text = (
        f"Bounds of single opponents hold all together {at}; that of the worst is an upper one at the same confidence."
        if certificate.opponents
        else f"Nothing opposes the policy. The bounds are upper ones {at}."
    )
    return table(columns, rows) + paragraphs(text, "; ".join(_told(*each) for each in shown.items()) + ".")


def _told(where: str, tried: Tried) -> str:
    values = f"V from {tried.low:.4g} up" if math.isinf(tried.high) else f"V from {tried.low:.4g} to {tried.high:.4g}"
    return f"{where}: {tried.rollouts:,} rollouts, {values}"


def _cells(tried: Tried, name: str) -> tuple[str, str]:
    if name in (AT_WORST, NOBODY):
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
    rows = [(LABELS.get(name, name.replace("_", " ")), _text(value)) for name, value in assumed.items()]
    return table(("what", "as it was"), rows, texts=True)


def _text(value: Any) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, dict):  # of initial states
        ranges = zip(value["names"], value["low"], value["high"], strict=True)
        spread = ", ".join(f"{name} from {low:g} to {high:g}" for name, low, high in ranges)
        return f"{spread}; {value['drawn']}" if spread else str(value["drawn"])
    if isinstance(value, list):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value)


def _errors(certificate: Certificate, system: System) -> str:
    rows = [(error["what"], DIRECTIONS[error["errs"]]) for error in errors(certificate, system)]
    return table(("what", "errs"), rows, texts=True)


def save_certificate(
    certificate: Certificate,
    learner: Certified,
    system: Any,
    folder: Path | str,
    *,
    title: str | None = None,
    report: CertificateReport | None = None,
    curves: Mapping[str, Curve] | None = None,
    html: bool = True,
) -> None:
    """Write `certificate.json`, and `certificate.html` for reading, into a folder, which is made if there is none.

    Args:
        certificate: of `certify`.
        learner, system: of whom and for what, as `certify` was given them.
        folder: where to.
        title: what was learned, and how; by default the learner and the system.
        report: of `evaluate_certificate`, where the truth is known.
        curves: of `read_curves`.
        html: whether to write the page.
    """
    assumed = assumptions(certificate, learner, system)
    measured = CertificateReport.unmeasured() if report is None else report.numbers()
    kept = {**measured, "calibrated": certificate.numbers(), "assumed": assumed, "errs": errors(certificate, system)}
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    (where / CERTIFICATE).write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    if html:
        named = f"{assumed['learner']} on {name_of(system)}" if title is None else title
        text = certificate_page(certificate, system, title=named, assumed=assumed, report=report, curves=curves)
        (where / PAGE).write_text(text, encoding="utf-8")
