"""Pictures of commands: where they may go, and that of the demo, one distribution of window returns per policy."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.cli.errors import BadValue
from sekai.colours import FAINT, INK, SOFT

FORMATS = (".png", ".pdf", ".svg")
COLOURS = ("#0b7a75", "#d1603d", "#4a4e69")
LEFT = 0.09


def require_writable(output: Path) -> None:
    """Refuse a place for the picture, or to draw one at all, before the work is done.

    Raises:
        BadValue: a folder, a place in none, or a format other than `FORMATS`.
        ModuleNotFoundError: matplotlib is not installed.
    """
    folder = output.parent
    if output.is_dir() or not folder.is_dir():
        what = "is a folder" if output.is_dir() else f"lies in {folder}, which is no folder"
        raise BadValue(f"--output {output} {what}: give the path of a picture, such as demo.png.")
    if output.suffix not in FORMATS:
        raise BadValue(f"--output {output} ends in {output.suffix!r}: expected one of {', '.join(FORMATS)}.")
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError("The picture needs matplotlib, which is not installed", name="matplotlib")


def draw_distributions(returns: Mapping[str, NDArray[np.float64]], output: Path, subtitle: str) -> None:
    """Save histograms with common bins, one panel per policy, means marked.

    Args:
        returns: `{title: (N,)}`, returns of the windows as fractions.
        output: path of the picture; the ending says the format.
        subtitle: what the windows are.

    Raises:
        ValueError: a format that matplotlib does not know.
        OSError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7.2), dpi=150, facecolor="white")
    FigureCanvasAgg(figure)
    constant = [bool(np.ptp(values) == 0) for values in returns.values()]
    heights = [0.45 if flat else 1.0 for flat in constant]  # one bar says all there is to say
    grid = {"hspace": 0.42, "height_ratios": heights}
    panels = figure.subplots(len(returns), 1, sharex=True, squeeze=False, gridspec_kw=grid)[:, 0]
    edges = bin_edges(returns)
    for axes, colour, (title, values) in zip(panels, cycle(COLOURS), returns.items(), strict=False):
        _draw_panel(axes, values, edges, colour, title)
    common = max(axes.get_ylim()[1] for axes, flat in zip(panels, constant, strict=True) if not flat or all(constant))
    for axes, flat in zip(panels, constant, strict=True):
        if not flat:
            axes.set_ylim(0.0, common)
    panels[-1].set_xlabel("Return of a 252-day window, costs included", color=INK, size=11, labelpad=8)
    figure.supylabel("Share of windows", x=0.012, color=INK, size=11)
    figure.text(LEFT, 0.948, "One year in the S&P 500 under three rules", size=18, weight="bold", color=INK)
    figure.text(LEFT, 0.915, subtitle, size=10.5, color=SOFT)
    figure.subplots_adjust(left=LEFT, right=0.97, top=0.85, bottom=0.085)
    figure.savefig(output)


def bin_edges(returns: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Edges of bins two percent wide, centred on even percents, so that 0 % has a bin of its own.

    One empty bin on either side, so that rounding leaves no window out.
    """
    low = min(float(values.min()) for values in returns.values())
    high = max(float(values.max()) for values in returns.values())
    first, last = np.floor((low + 0.01) * 50), np.floor((high + 0.01) * 50)
    return (np.arange(first - 1, last + 3) * 2 - 1) / 100


def _draw_panel(axes: Any, values: NDArray[np.float64], edges: NDArray[np.float64], colour: str, title: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

    weights = np.full(len(values), 1.0 / len(values))
    mean, deviation = float(values.mean()), float(values.std(ddof=1))
    axes.hist(values, edges, weights=weights, color=colour, edgecolor="white", linewidth=0.6)
    axes.axvline(0.0, color=INK, linewidth=0.7, alpha=0.6)
    text = f"mean {mean:+.1%}, standard deviation {deviation:.1%}"
    axes.axvline(mean, color=INK, linewidth=1.6, linestyle=(0, (3.5, 2)), label=text)
    axes.set_title(title, loc="left", color=colour, size=12.5, weight="bold", pad=7)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.985), frameon=False, fontsize=10, labelcolor=INK)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:+.0%}" if round(x, 9) else "0%"))
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(SOFT)
    axes.tick_params(colors=INK, length=0, labelsize=9.5)
