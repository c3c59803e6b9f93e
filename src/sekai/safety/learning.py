"""How a run has learned: the curves of its log, and a page of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sekai.colours import FAINT, INK
from sekai.safety.drawing import figure_of, svg_of
from sekai.safety.page import Picture, Section, page, paragraphs, pictures, table

#: names in a log -> what the curve shows
CURVES = {
    "safety/share_certified": "Share of values of at least 0: states called safe",
    "safety/value_at_start": "Mean value of first states",
    "safety/share_outside_g": "Share of values outside the range of the margins",
    "rollout/ep_len_mean": "Mean length of episodes, steps",
}


class Curve(NamedTuple):
    """A number of the log over the run.

    Attributes:
        steps: environment steps.
        values: the number after so many.
    """

    steps: list[float]
    values: list[float]


def read_curves(log: Path) -> dict[str, Curve]:
    """The curves of `CURVES` that a `progress.jsonl` has, by what they show; none where there is no such file."""
    found = {title: Curve([], []) for title in CURVES.values()}
    if log.exists():
        for line in log.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            for name, title in CURVES.items():
                if math.isfinite(entry.get(name, math.nan)):
                    found[title].steps.append(entry["step"])
                    found[title].values.append(entry[name])
    return {title: curve for title, curve in found.items() if curve.steps}


def learning_section(curves: Mapping[str, Curve]) -> Section:
    """The part of a page that shows them."""
    return Section("How it was learned", pictures(*(_picture(title, curve) for title, curve in curves.items())))


def run_page(title: str, config: Mapping[str, Any], curves: Mapping[str, Curve], footer: str) -> str:
    """The page of a run.

    Args:
        title: what was learned.
        config: what was asked for, by name.
        curves: of `read_curves`.
        footer: last line.
    """
    rows = [(name, json.dumps(value)) for name, value in config.items()]
    shown = [learning_section(curves)] if curves else []
    lead = paragraphs(
        "What the log of the run shows. A certificate can go wrong while every curve looks well: what its value is "
        "worth is measured by sekai certify, which writes certificate.html here."
    )
    return page(
        title, lead, [*shown, Section("What was asked for", table(("name", "value"), rows, texts=True))], footer
    )


def _picture(title: str, curve: Curve) -> Picture:
    figure, panel = figure_of(5.6, 3.2)
    panel.plot(curve.steps, curve.values, color=INK, lw=1.8, marker="o", ms=3 if len(curve.steps) < 40 else 0)
    panel.grid(color=FAINT)
    panel.set_xlabel("environment steps")
    first, last, low, high = curve.values[0], curve.values[-1], min(curve.values), max(curve.values)
    alt = (
        f"Curve over the run. {title}: {first:.3g} after {curve.steps[0]:,.0f} environment steps, {last:.3g} after "
        f"{curve.steps[-1]:,.0f}; least {low:.3g}, most {high:.3g}."
    )
    return Picture(svg_of(figure), alt, title)
