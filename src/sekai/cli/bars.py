"""The picture of `sekai bench --compare`: one bar for each backend."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sekai.colours import FAINT, INK, SOFT

BAR, BASE = "#0b7a75", "#a9a9bc"
#: from this ratio of the largest to the smallest on, small bars are seen on a scale of powers only
WIDE = 20.0


def draw_ratios(bars: Mapping[str, tuple[float, str]], output: Path, title: str, subtitle: str) -> None:
    """Save horizontal bars, the first of them the one that the others are compared with.

    Args:
        bars: `{name: (ratio, what stands beside it)}`.
        output: path of the picture; the ending says the format.
        title, subtitle: above the bars.

    Raises:
        OSError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.7 + 0.55 * len(bars)), dpi=150, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    ratios = [ratio for ratio, _ in bars.values()]
    wide = max(ratios) > WIDE * min(ratios)
    if wide:
        axes.set_xscale("log")
    axes.barh(list(bars), ratios, color=[BASE, *[BAR] * (len(bars) - 1)], height=0.62, left=0)
    axes.axvline(1.0, color=INK, linewidth=0.9, linestyle=(0, (3.5, 2)))
    for row, (ratio, beside) in enumerate(bars.values()):
        axes.annotate(
            f"{ratio:.2f} times, {beside}",
            (ratio, row),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=INK,
            size=10,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )
    axes.set_xlim(min(0.5, *ratios) * 0.8 if wide else 0.0, max(ratios) * (8.0 if wide else 1.55))
    axes.invert_yaxis()
    axes.set_xlabel(subtitle, color=INK, size=10.5)
    axes.set_title(title, loc="left", color=INK, size=14, weight="bold", pad=10)
    axes.grid(axis="x", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(SOFT)
    axes.tick_params(colors=INK, length=0, labelsize=10.5)
    figure.savefig(output)
