"""Figures of one panel, as SVG that is the same for the same numbers."""

from __future__ import annotations

import io
from typing import Any


def figure_of(width: float, height: float) -> tuple[Any, Any]:
    """A figure of so many inches, and its panel."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def svg_of(figure: Any) -> bytes:
    """The file; what is drawn of many cells is a picture inside it."""
    import matplotlib as mpl

    out = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "sekai"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
