"""Pages: they need nothing from outside, say everything in words, and escape what they are given."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.safety.calibration import Plan
from sekai.safety.certificate_page import certificate_page
from sekai.safety.certificates import evaluate_certificate
from sekai.safety.certify import certify
from sekai.safety.learning import Curve, read_curves, run_page
from sekai.safety.opponents import ConstantOpponent
from sekai.safety.page import Picture, Section, page, pictures, table, verdict
from sekai.safety.systems import DoubleIntegrator

pytest.importorskip("matplotlib")

PUSHED = DoubleIntegrator(force_bound=0.25)
MET = {"zero": ConstantOpponent([0.0]), "right <b>": ConstantOpponent([0.25])}


class Brakes:
    """Brakes fully, and calls the states safe from which full braking stops before a wall, and a little more."""

    def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
        return np.clip(-observation[:, 1:] / PUSHED.dt, -1, 1), None

    def predict_value(self, observations: Any) -> Any:
        return value(np.asarray(observations, np.float64)) + 0.2


def value(states: Any) -> Any:
    x, v = states[..., 0], states[..., 1]
    return 1 - np.maximum(abs(x), abs(x + v * abs(v) / 1.5))


class Tags(HTMLParser):
    """Tags with their attributes, and whether all that are opened are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def whole_page(plan: Plan | None = None, curves: dict[str, Curve] | None = None) -> str:
    plan = Plan(rollouts=600, steps=40, cells=31) if plan is None else plan
    learner = Brakes()
    certificate = certify(learner, PUSHED, opponents=MET, truth=value, plan=plan)
    report = evaluate_certificate(learner, PUSHED, value, rollouts=200, steps=40, cells=31, opponents=MET)
    return certificate_page(certificate, title="A <run>", report=report, curves=curves)


def test_a_certificate_page_needs_nothing_from_outside_and_describes_its_pictures() -> None:
    text = whole_page(curves={"Share": Curve([1.0, 2.0], [0.5, 0.7])})
    tags = Tags(text)
    assert tags.open == [] and "link" not in dict(tags.seen) and "script" not in dict(tags.seen)
    images = [attributes for tag, attributes in tags.seen if tag == "img"]
    assert len(images) == 3 and all(len(image["alt"] or "") > 60 for image in images)
    for image in images:
        kind, _, data = (image["src"] or "").partition(",")
        assert kind == "data:image/svg+xml;base64"
        svg = base64.b64decode(data).decode()
        assert not re.search(r'(?:href|src)="(?!#|data:)', svg.partition("<defs>")[2])
    rest = re.sub(r'src="data:[^"]*"', "", text)
    assert not re.search(r"https?://|@import|url\(", rest)


def test_a_certificate_page_says_what_it_holds_for() -> None:
    text = whole_page()
    assert "<title>A &lt;run&gt;</title>" in text and "<b>" not in text
    for said in (
        "Certified: from initial states with V ≥ ",
        "whichever of these opponents it meets: zero, right &lt;b&gt;",
        "It does not say that any single state is safe",
        "no opponent was trained to break this policy",
        "bold: unsafe may be called safe",
        "x from -1 to 1, v from -2 to 2; as System.start draws them",
    ):
        assert said in text, said
    assert 'name="viewport"' in text and "prefers-color-scheme: dark" in text


def test_a_page_of_nothing_certified_says_why() -> None:
    text = whole_page(Plan(rollouts=400, steps=40, cells=31, lowest=5.0))
    assert "Nothing is certified at a risk of 1 % and a confidence of 95 %: only 0 of " in text
    assert "Too few initial states have V ≥ 5: no certificate was tried." in text


def test_an_opponent_of_any_name_has_its_own_numbers() -> None:
    plan = Plan(rollouts=400, steps=40, cells=31)
    named = certify(Brakes(), PUSHED, risk=0.05, opponents={"none": ConstantOpponent([0.0])}, plan=plan)
    row = re.search(r"<td>none</td><td>(.*?)</td><td>(.*?)</td>", certificate_page(named))
    assert row is not None and " to " in row[2]  # both of its bounds, not those of the worst


def test_the_same_numbers_make_the_same_page() -> None:
    assert whole_page() == whole_page()


def test_a_table_holds_its_cells_and_a_verdict_its_text() -> None:
    text = page(
        "a & b",
        verdict("no <good>", good=False),
        [Section("1 < 2", table(("x",), [("<i>",)])), Section("p", pictures(Picture(b"<svg/>", 'an "alt"', "c")))],
        "end",
    )
    assert Tags(text).open == []
    assert "<td>&lt;i&gt;</td>" in text and "no &lt;good&gt;" in text and "1 &lt; 2" in text
    assert 'alt="an &quot;alt&quot;"' in text


def test_curves_of_a_log_are_read_by_name_and_what_is_no_number_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "progress.jsonl"
    lines = [
        {"step": 64, "safety/share_certified": 0.5, "train/loss": 3.0},
        {"step": 128, "safety/share_certified": float("nan")},
        {"step": 192, "safety/share_certified": 0.75, "safety/value_at_start": -0.5},
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    curves = read_curves(log)
    assert curves == {
        "Share of values of at least 0: states called safe": Curve([64, 192], [0.5, 0.75]),
        "Mean value of first states": Curve([192], [-0.5]),
    }
    assert read_curves(tmp_path / "none.jsonl") == {}
    text = run_page("A run", {"task": "mine<", "options": {"a": 1}}, curves, "end")
    assert "0.5 after 64 environment steps, 0.75 after 192; least 0.5, most 0.75." in text
    assert "&quot;mine&lt;&quot;" in text and Tags(text).open == []
    assert "img" not in dict(Tags(run_page("A run", {}, {}, "end")).seen)
