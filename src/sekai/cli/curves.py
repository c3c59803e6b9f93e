"""The picture of a backtest: how the policy's episodes went, and where those of all policies ended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.colours import FAINT, INK, SOFT

Curves = NDArray[np.float64]

CHOSEN = "#0b7a75"
OTHERS = ("#d1603d", "#4a4e69", "#c99700", "#7a4fa3", "#3a7dbf")


def draw_curves(curves: Mapping[str, Curves], output: Path, title: str, subtitle: str, text: str) -> None:
    """Save the picture, whole or not at all.

    Args:
        curves: `(T + 1, N)` of each policy, the one that was asked for first.
        output: path of the picture; the ending says the format.
        title, subtitle: above the panels.
        text: what the curves are.

    Raises:
        OSError: the file cannot be written.
    """
    figure = curves_figure(curves, title, subtitle, text)
    # half a picture is worse than none
    part = output.with_name(f".{output.name}.part")
    try:
        figure.savefig(part, format=output.suffix[1:])
        os.replace(part, output)
    finally:
        part.unlink(missing_ok=True)


def curves_figure(curves: Mapping[str, Curves], title: str, subtitle: str, text: str) -> Any:
    """The picture as a figure of matplotlib; arguments as for `draw_curves`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.8), dpi=150, facecolor="white")
    FigureCanvasAgg(figure)
    grid = {"width_ratios": [2.2, 1.0], "wspace": 0.05}
    left, right = figure.subplots(1, 2, sharey=True, gridspec_kw=grid)
    colours = dict(zip(curves, (CHOSEN, *OTHERS), strict=False))
    _draw_fan(left, curves, colours)
    _draw_ends(right, curves, colours)
    left.set_ylabel(text, color=INK, size=11, labelpad=8)
    left.set_xlabel("Step", color=INK, size=11, labelpad=6)
    figure.text(0.085, 0.935, title, size=17, weight="bold", color=INK)
    figure.text(0.085, 0.893, subtitle, size=10.5, color=SOFT)
    handles = [left.lines[-1], *left.lines[:-1]]  # the first policy is drawn last
    labels = figure.legend(
        handles, list(curves), loc="upper left", bbox_to_anchor=(0.077, 0.882), ncols=len(curves), frameon=False,
        fontsize=10.5, handlelength=1.8, columnspacing=1.6, handletextpad=0.6,
    )  # fmt: skip
    labels.get_texts()[0].set_fontweight("bold")
    figure.subplots_adjust(left=0.085, right=0.975, top=0.765, bottom=0.11)
    return figure


def limits(curves: list[Curves]) -> tuple[float, float]:
    """Limits of the axis: all that is drawn of the first curves, and of those that do not lie far outside.

    Far is twice the extent of the first beyond it: one policy that fails would leave the others no room.
    """
    bands = [np.quantile(values, [0.05, 0.95], axis=1) for values in curves]
    first_low, first_high = float(bands[0].min()), float(bands[0].max())
    reach = 2.0 * (first_high - first_low)
    low, high = first_low, first_high
    for band in bands[1:]:
        end_low, end_high = float(band[0, -1]), float(band[1, -1])
        if reach == 0.0 or (end_low >= first_low - reach and end_high <= first_high + reach):
            low, high = min(low, end_low), max(high, end_high)
    room = 0.05 * (high - low) or 0.01 * max(1.0, abs(low))
    return low - room, high + room


def _draw_fan(axes: Any, curves: Mapping[str, Curves], colours: Mapping[str, str]) -> None:
    """Quantiles of the first policy's curves over time, and the medians of the others."""
    chosen, *others = curves
    steps = np.arange(len(curves[chosen]))
    low, q1, median, q3, high = np.quantile(curves[chosen], [0.05, 0.25, 0.5, 0.75, 0.95], axis=1)
    axes.fill_between(steps, low, high, color=colours[chosen], alpha=0.14, linewidth=0)
    axes.fill_between(steps, q1, q3, color=colours[chosen], alpha=0.22, linewidth=0)
    for name in others:
        values = np.median(curves[name], axis=1)
        axes.plot(values, color=colours[name], linewidth=1.3, linestyle=(0, (4, 1.6)))
    axes.plot(steps, median, color=colours[chosen], linewidth=2.2)
    axes.set_title("Median, middle 50 % and 90 % of the episodes", loc="left", size=11, color=INK, pad=8)
    axes.margins(x=0.01)
    _dress(axes)


def _draw_ends(axes: Any, curves: Mapping[str, Curves], colours: Mapping[str, str]) -> None:
    """Where the episodes of each policy ended: 90 % of them, the middle half, the median."""
    bottom, top = limits(list(curves.values()))
    for place, (name, values) in enumerate(curves.items()):
        low, q1, median, q3, high = np.quantile(values[-1], [0.05, 0.25, 0.5, 0.75, 0.95])
        axes.plot([place, place], [low, high], color=colours[name], linewidth=1.6, solid_capstyle="butt")
        axes.plot([place, place], [q1, q3], color=colours[name], linewidth=7, solid_capstyle="butt", alpha=0.75)
        axes.plot([place], [median], "o", color="white", markeredgecolor=colours[name], markersize=6.5, zorder=5)
        if not bottom <= median <= top:
            edge, side, arrow = (top, "top", "→") if median > top else (bottom, "bottom", "←")
            axes.text(
                place, edge, f"{median:,.5g} {arrow}", rotation=90, ha="center", va=side, size=10, color=colours[name]
            )
    axes.set_title("At the end, in the same order", loc="left", size=11, color=INK, pad=8)
    axes.set_xticks([])
    axes.set_xlim(-0.6, len(curves) - 0.4)
    axes.set_ylim(bottom, top)
    _dress(axes)
    axes.tick_params(axis="y", labelleft=False)


def _dress(axes: Any) -> None:
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(SOFT)
    axes.tick_params(colors=INK, length=0, labelsize=9.5)
