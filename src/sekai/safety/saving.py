"""`save_certificate`: a certificate as files, numbers for programs and a page for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from sekai.safety.assumptions import assumptions, errors
from sekai.safety.certificate_page import certificate_page
from sekai.safety.certificates import CertificateReport
from sekai.safety.certify import Certificate
from sekai.safety.learning import Curve

CERTIFICATE, PAGE = "certificate.json", "certificate.html"


def save_certificate(
    certificate: Certificate,
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
        folder: where to.
        title: what was learned, and how; by default who and what for.
        report: of `evaluate_certificate`, where the truth is known.
        curves: of `read_curves`.
        html: whether to write the page; one of an earlier certificate is removed otherwise.
    """
    measured = CertificateReport.unmeasured() if report is None else report.numbers()
    rest = {"calibrated": certificate.numbers(), "assumed": assumptions(certificate), "errs": errors(certificate)}
    text = json.dumps({**measured, **rest}, indent=2, allow_nan=False)
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    (where / CERTIFICATE).write_text(text + "\n", encoding="utf-8")
    if html:
        page = certificate_page(certificate, title=title, report=report, curves=curves)
        (where / PAGE).write_text(page, encoding="utf-8")
    else:
        (where / PAGE).unlink(missing_ok=True)
