"""The picture of a certificate: the learned set over the exact one, and how often it breaks its promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sekai.colours import FAINT, INK, SOFT
from sekai.safety.certificates import Calibration, CertificateReport
from sekai.safety.drawing import figure_of, svg_of

EXACT, INNER = "#d1603d", "#1f4fd8"


def draw_certificate(report: CertificateReport, output: Path, title: str) -> None:
    """Save the picture: value as colour with both zero level sets, and failures by value.

    Of three state numbers the middle of the last one is shown.

    Args:
        report: what is drawn.
        output: path of the picture; the ending says the format.
        title: what was learned, and how.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.8), dpi=150, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    left, right = figure.subplots(1, 2, width_ratios=(1.35, 1.0))
    _draw_sets(left, report)
    _draw_promise(right, report.calibration)
    right.set_title(_promised(report), loc="left", fontsize=10, color=SOFT)
    figure.savefig(output)


def set_picture(report: CertificateReport, threshold: float | None) -> bytes:
    """The left panel alone as SVG, with the certified set where a threshold is given."""
    figure, panel = figure_of(6.2, 4.8)
    _draw_sets(panel, report, threshold)
    return svg_of(figure)


def promise_picture(curve: Calibration, threshold: float | None) -> bytes:
    """Failures by value as SVG, with the threshold where one is given."""
    figure, panel = figure_of(6.2, 4.8)
    _draw_promise(panel, curve)
    if threshold is not None:
        panel.axvline(threshold, color=INNER, lw=1.8, ls="dashdot", label=f"threshold {threshold:.3g}")
    panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    return svg_of(figure)


def _draw_sets(panel: Any, report: CertificateReport, threshold: float | None = None) -> None:
    middle: Any = (slice(None), slice(None), *(axis.count // 2 for axis in report.grid.axes[2:]))
    first, second = (np.linspace(axis.low, axis.high, axis.count) for axis in report.grid.axes[:2])
    learned, exact = report.learned[middle].T, report.exact[middle].T
    alive = np.asarray(report.system.g(report.grid.states))[middle].T >= 0
    limit = float(np.abs(learned[alive]).max())
    shown = np.where(alive, learned, np.nan)
    colours = panel.pcolormesh(
        first, second, shown, cmap="BrBG", vmin=-limit, vmax=limit, shading="nearest", rasterized=True
    )
    panel.figure.colorbar(colours, ax=panel, label="learned value V")
    shown_sets = [(learned, "solid", INK), (exact, "dashed", EXACT)]
    if threshold:
        shown_sets.append((learned - threshold, "dashdot", INNER))
        panel.plot([], [], color=INNER, lw=2, ls="dashdot", label=f"certified: V = {threshold:.3g}")
    for values, line, colour in shown_sets:
        inside = np.where(alive, values, -1e-9)  # failed states are in no set
        if (inside >= 0).any():
            panel.contour(first, second, inside, levels=[0.0], colors=[colour], linestyles=[line], linewidths=2.0)
    panel.plot([], [], color=INK, lw=2, label="learned: V = 0")
    panel.plot([], [], color=EXACT, lw=2, ls="dashed", label="exact")
    panel.legend(loc="upper right", frameon=True, framealpha=0.9, edgecolor=FAINT)
    panel.set_xlabel(report.system.state_names[0])
    panel.set_ylabel(report.system.state_names[1])
    sets = report.sets
    panel.set_title(
        f"IoU {sets.iou:.3f}, wrongly called safe {sets.false_safe:.2%}, missed {sets.missed:.2%}",
        loc="left",
        fontsize=10,
        color=SOFT,
    )


def _draw_promise(panel: Any, curve: Calibration) -> None:
    low = [share - bound.low for share, bound in zip(curve.failures, curve.bounds, strict=True)]
    high = [bound.high - share for share, bound in zip(curve.failures, curve.bounds, strict=True)]
    panel.errorbar(curve.values, curve.failures, yerr=[low, high], fmt="o", color=INK, ecolor=SOFT, ms=4, lw=1)
    panel.axvline(0.0, color=EXACT, lw=1.5, ls="dashed", label="V = 0")
    panel.set_ylim(-0.03, 1.03)
    panel.grid(color=FAINT)
    panel.set_xlabel("learned value V of the first state")
    panel.set_ylabel("share of rollouts that failed")


def _promised(report: CertificateReport) -> str:
    bound = report.fails_if_certified_bounds
    share = f"P(fail | V >= 0) = {report.fails_if_certified:.4f}"
    between = f"at {report.confidence:.0%} {bound.low:.4f} to {bound.high:.4f}"
    return f"{share}, {between}"
