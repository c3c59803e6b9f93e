"""The pictures of the four environments. Each is drawn from the rows of an episode, the start first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.envs.finance.rendering import Picture, Rows
from sekai.finance.execution import almgren_chriss_kappa, almgren_chriss_trajectory

INK, SOFT, FAINT = "#22223b", "#5c5c77", "#e3e3ec"
MAIN, BUY, SELL, PLAN = "#4a4e69", "#0b7a75", "#d1603d", "#c99700"
COLOURS = ("#0b7a75", "#d1603d", "#3a7dbf", "#c99700", "#7a4fa3", "#4a4e69", "#8f9d35", "#b5446e", "#5fa8a3", "#8b6b4a")
NAMED = len(COLOURS)  # of more assets than that, a legend would hide the curves
SMALLEST = 0.01  # trades of a smaller fraction of equity are not marked: keeping an exposure takes one in every bar


def _trading(figure: Any, rows: Rows, env: Any) -> None:
    top, middle, bottom = _panels(figure, [2.0, 1.2, 1.0])
    x, price, held = rows["timestamp"], rows["price"], rows["position"]
    _curve(top, x, price, MAIN)
    moved = rows["asset_return"][1:]
    # the exposure that drifted to the one observed, before the price moved
    target = held[1:] / (1.0 + moved - held[1:] * moved)
    late = 0 if env.execution == "close" else 1  # the row in which the trade fills
    for colour, marker, name, side in ((BUY, "^", "buys", 1.0), (SELL, "v", "sells", -1.0)):
        at = np.flatnonzero((rows["turnover"][1:] > SMALLEST) & (side * (target - held[:-1]) > 0)) + late
        top.plot(x[at], price[at], marker, color=colour, markersize=7, markeredgecolor="white", label=name)
    _legend(top)
    _curve(middle, x, rows["equity"], BUY)
    middle.axhline(1.0, color=SOFT, linewidth=0.7)
    bottom.step(x, held, where="post", color=MAIN, linewidth=1.3)
    bottom.axhline(0.0, color=SOFT, linewidth=0.7)
    _finish(figure, {"Price": top, "Equity": middle, "Exposure": bottom}, x, _when(x))


def _portfolio(figure: Any, rows: Rows, env: Any) -> None:
    top, middle, bottom = _panels(figure, [1.6, 1.0, 1.2])
    x = rows["timestamp"]
    weights = rows["weights"]
    moved = rows["asset_returns"].reshape(len(x), -1)  # of a state just restored, a single 0
    growth = np.cumprod(1.0 + np.broadcast_to(moved, (len(x), weights.shape[1] - 1)), axis=0)
    count = growth.shape[1]
    names = (None if env.data is None else env.data.assets) or [f"asset {k}" for k in range(count)]
    colours = [COLOURS[k % NAMED] for k in range(count)]
    for k in range(count):
        _curve(top, x, growth[:, k], colours[k], names[k] if count <= NAMED else None)
    at = np.flatnonzero(rows["turnover"][1:] > SMALLEST)
    top.plot(x[at], np.full(len(at), 0.02), "|", color=INK, markersize=7, transform=top.get_xaxis_transform())
    if count <= NAMED:
        _legend(top)
    _curve(middle, x, rows["equity"], BUY)
    middle.axhline(1.0, color=SOFT, linewidth=0.7)
    for sign in (1.0, -1.0):  # long above 0, short below
        parts = np.maximum(sign * weights[:, :-1], 0.0).T * sign
        bottom.stackplot(x, parts, colors=colours, step="post", linewidth=0)
    bottom.axhline(0.0, color=SOFT, linewidth=0.7)
    bottom.set_ylim(min(0.0, 1.05 * np.minimum(weights[:, :-1], 0.0).sum(axis=1).min()), 1.0)
    titles = {"Prices, 1 at the start; trades below": top, "Equity": middle, "Weights, the rest in cash": bottom}
    _finish(figure, titles, x, _when(x))


def _making(figure: Any, rows: Rows, env: Any) -> None:
    top, middle, bottom = _panels(figure, [2.0, 1.0, 1.0])
    x, mid = rows["timestamp"], rows["mid_price"]
    before = x[:-1]  # the quotes of a step stand around the mid before it
    _curve(top, x, mid, MAIN, "mid")
    for side, colour, marker, name in (("bid", BUY, "^", "bid"), ("ask", SELL, "v", "ask")):
        quotes, filled = rows[side][1:], rows[f"{side}_filled"][1:].astype(bool)
        top.plot(before, quotes, color=colour, linewidth=0.8, alpha=0.55, drawstyle="steps-post")
        top.plot(before[filled], quotes[filled], marker, color=colour, markersize=4.5, label=f"{name} filled")
    _legend(top)
    middle.step(x, rows["inventory"], where="post", color=MAIN, linewidth=1.3)
    middle.axhline(0.0, color=SOFT, linewidth=0.7)
    _curve(bottom, x, rows["wealth"], BUY)
    bottom.axhline(0.0, color=SOFT, linewidth=0.7)
    _finish(figure, {"Mid price and quotes": top, "Inventory": middle, "Wealth": bottom}, x, "Step", (0, env.n_steps))


def _execution(figure: Any, rows: Rows, env: Any) -> None:
    top, bottom = _panels(figure, [1.4, 1.0])
    x, left = rows["timestamp"], rows["inventory"]
    schedule = _schedule(env)
    if schedule is not None:
        times = np.linspace(0.0, env.total_time, env.n_steps + 1)
        top.plot(times, schedule, color=PLAN, linewidth=1.4, linestyle=(0, (4, 2)), label="Almgren-Chriss")
    top.plot(x, left, "o-", color=BUY, linewidth=1.6, markersize=3.5, label="this episode")
    top.set_ylim(bottom=0.0)
    _legend(top)
    bottom.plot(x, rows["shortfall_bps"], "o-", color=SELL, linewidth=1.6, markersize=3.5)
    bottom.axhline(0.0, color=SOFT, linewidth=0.7)
    titles = {"Shares left": top, "Implementation shortfall, basis points": bottom}
    _finish(figure, titles, x, "Time", (0.0, env.total_time))


def _schedule(env: Any) -> NDArray[np.float64] | None:
    """Shares left in the optimal schedule, `(n_steps + 1,)`; None where selling faster would only cost less."""
    market = ("total_time", "n_steps", "sigma", "permanent_impact", "temporary_impact", "risk_aversion")
    try:
        kappa = almgren_chriss_kappa(**{name: getattr(env, name) for name in market})
    except ValueError:
        return None
    return almgren_chriss_trajectory(env.initial_inventory, kappa, total_time=env.total_time, n_steps=env.n_steps)


# ---- what they share ------------------------------------------------------------------------------


def _panels(figure: Any, heights: list[float]) -> Any:
    grid = {"height_ratios": heights, "hspace": 0.32}
    return figure.subplots(len(heights), 1, sharex=True, gridspec_kw=grid)


def _curve(axes: Any, x: NDArray[Any], y: NDArray[Any], colour: str, label: str | None = None) -> None:
    """A line, and a point where it has come to, which is all there is at the start."""
    axes.plot(x, y, color=colour, linewidth=1.4, label=label)
    axes.plot(x[-1:], y[-1:], "o", color=colour, markersize=4)


def _legend(axes: Any) -> None:
    """Above the panel, at the right, where no curve is."""
    handles, labels = axes.get_legend_handles_labels()
    columns = len(labels) if len(labels) <= 5 else -(-len(labels) // 2)
    axes.legend(
        handles, labels, loc="lower right", bbox_to_anchor=(1.01, 0.97), ncols=columns, frameon=False, fontsize=9,
        labelcolor=INK, handlelength=1.2, columnspacing=1.2, handletextpad=0.5, labelspacing=0.2,
    )  # fmt: skip


def _when(x: NDArray[Any]) -> str:
    return "Date" if x.dtype.kind == "M" else "Row"


def _finish(
    figure: Any, titled: dict[str, Any], x: NDArray[Any], label: str, limits: tuple[float, float] | None = None
) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for title, axes in titled.items():
        axes.set_title(title, loc="left", size=11, weight="bold", color=INK, pad=6)
        axes.grid(axis="y", color=FAINT, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_color(SOFT)
        axes.tick_params(colors=INK, length=0, labelsize=9)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.8g}"))
        low, high = axes.dataLim.intervaly
        if high - low < 1e-9 * max(1.0, abs(low)):  # an axis needs an extent
            axes.set_ylim(low - 0.05 * max(1.0, abs(low)), low + 0.05 * max(1.0, abs(low)))
    last = axes
    last.set_xlabel(label, color=INK, size=10)
    if limits is not None:
        room = 0.01 * (limits[1] - limits[0])
        last.set_xlim(limits[0] - room, limits[1] + room)
    elif len(x) == 1:
        last.set_xlim(x[0] - 1, x[0] + 30)
    if x.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=3, maxticks=8)
        last.xaxis.set_major_locator(locator)
        last.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    elif label != "Time":
        last.xaxis.get_major_locator().set_params(integer=True)
    figure.subplots_adjust(left=0.11, right=0.97, top=0.925, bottom=0.085)


TRADING = Picture(
    {name: name for name in ("timestamp", "price", "equity", "position")}, ("asset_return", "turnover"), _trading
)
PORTFOLIO = Picture(
    {name: name for name in ("timestamp", "equity", "weights")}, ("asset_returns", "turnover"), _portfolio
)
MAKING = Picture(
    {
        "timestamp": "timestamp",
        "mid_price": "mid",
        "inventory": "inventory",
        "wealth": "wealth",
        "bid": "bid",
        "ask": "ask",
    },
    ("bid_filled", "ask_filled"),
    _making,
)
EXECUTION = Picture(
    {"timestamp": "timestamp", "inventory": "inventory", "shortfall_bps": "shortfall_bps"}, (), _execution
)
