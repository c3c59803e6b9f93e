"""The pictures of the four environments. Each is drawn from the rows of an episode, the start first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.colours import FAINT, INK, SOFT
from sekai.envs.finance.rendering import Picture, Rows
from sekai.finance.execution import (
    almgren_chriss_kappa,
    almgren_chriss_trajectory,
    expected_shortfall,
    shortfall_variance,
)

MAIN, BUY, SELL, PLAN = "#4a4e69", "#0b7a75", "#d1603d", "#c99700"
COLOURS = ("#0b7a75", "#d1603d", "#3a7dbf", "#c99700", "#7a4fa3", "#4a4e69", "#8f9d35", "#b5446e", "#5fa8a3", "#8b6b4a")
NAMED = len(COLOURS)  # of more assets than that, a legend would hide the curves
EARLIER: dict[str, Any] = {"linewidth": 1.1, "alpha": 0.6}
DASHES = (0, (4, 2))
POINTS = 50  # of an expected curve, at most
SMALLEST = 0.01  # trades of a smaller fraction of equity are not marked: keeping an exposure takes one in every bar


def _trading(figure: Any, rows: Rows, env: Any) -> None:
    top, middle, bottom = _panels(figure, [2.0, 1.2, 1.0])
    x, price, held = rows["timestamp"], rows["price"], rows["position"]
    _curve(top, x, price, MAIN)
    earlier, growth = _before(rows, env)
    top.plot(earlier, price[0] * growth, color=MAIN, **EARLIER)
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
    _finish(figure, {"Price": top, "Equity": middle, "Exposure": bottom}, x, _when(x), earlier=earlier)


def _portfolio(figure: Any, rows: Rows, env: Any) -> None:
    top, middle, bottom = _panels(figure, [1.6, 1.0, 1.2])
    x = rows["timestamp"]
    weights = rows["weights"]
    moved = rows["asset_returns"].reshape(len(x), -1)  # of a state just restored, a single 0
    growth = np.cumprod(1.0 + np.broadcast_to(moved, (len(x), weights.shape[1] - 1)), axis=0)
    count = growth.shape[1]
    names = (None if env.data is None else env.data.assets) or [f"asset {k}" for k in range(count)]
    colours = [COLOURS[k % NAMED] for k in range(count)]
    earlier, before = _before(rows, env)
    for k in range(count):
        top.plot(earlier, before[:, k], color=colours[k], **EARLIER)
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
    _finish(figure, titles, x, _when(x), earlier=earlier)


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
    top, middle, bottom = _panels(figure, [1.1, 1.2, 1.2])
    x, left, mid, lost = (rows[name] for name in ("timestamp", "inventory", "mid_price", "shortfall_bps"))
    schedule = _schedule(env)
    if schedule is not None:
        times = np.linspace(0.0, env.total_time, env.n_steps + 1)
        top.plot(times, schedule, color=PLAN, linewidth=1.4, linestyle=DASHES, label="Almgren-Chriss")
        _expectation(bottom, schedule, env)
    top.plot(x, left, "o-", color=BUY, linewidth=1.6, markersize=3.5, label="this episode")
    top.set_ylim(bottom=0.0)
    _legend(top)
    _curve(middle, x, mid, MAIN, "mid")
    traded = rows["shares_sold"][1:] > 0
    colour, marker = (SELL, "v") if env.side == "sell" else (BUY, "^")
    fills = rows["execution_price"][1:][traded]  # a slice trades at the mid before it, at a cost
    style = {"color": colour, "markersize": 6, "markeredgecolor": "white", "markeredgewidth": 0.5}
    middle.plot(x[:-1][traded], fills, marker, label="fills", **style)
    middle.axhline(env.s0, color=SOFT, linewidth=0.7, label="arrival price")
    _legend(middle)
    bottom.plot(x, lost, "o-", color=SELL, linewidth=1.6, markersize=3.5, label=f"this episode: {lost[-1]:,.1f}")
    bottom.axhline(0.0, color=SOFT, linewidth=0.7)
    _legend(bottom)
    titles = {"Shares left": top, "Price": middle, "Implementation shortfall, bps": bottom}
    _finish(figure, titles, x, "Time", (0.0, env.total_time))


def _expectation(axes: Any, schedule: NDArray[np.float64], env: Any) -> None:
    """The expected shortfall of a schedule as it is worked, with a standard deviation on either side."""
    tau, unit = env.total_time / env.n_steps, 1e4 / (env.initial_inventory * env.s0)
    steps = np.unique(np.linspace(0, env.n_steps, min(env.n_steps, POINTS) + 1).astype(int))
    impact = {name: getattr(env, name) for name in ("permanent_impact", "temporary_impact", "fixed_cost")}
    mean, deviation = np.zeros(len(steps)), np.zeros(len(steps))
    for place, k in enumerate(steps[1:].tolist(), 1):  # a schedule cut short leaves units that count at the mid
        mean[place] = unit * expected_shortfall(schedule[: k + 1], total_time=k * tau, **impact)
        variance = shortfall_variance(schedule[: k + 1], total_time=k * tau, sigma=env.sigma)
        deviation[place] = unit * np.sqrt(variance)
    axes.fill_between(steps * tau, mean - deviation, mean + deviation, color=PLAN, alpha=0.15, linewidth=0)
    name = f"Almgren-Chriss, expected: {mean[-1]:,.1f}"
    axes.plot(steps * tau, mean, color=PLAN, linewidth=1.4, linestyle=DASHES, label=name)


def _schedule(env: Any) -> NDArray[np.float64] | None:
    """Shares left in the optimal schedule, `(n_steps + 1,)`; None where selling faster would only cost less."""
    market = ("total_time", "n_steps", "sigma", "permanent_impact", "temporary_impact", "risk_aversion")
    try:
        kappa = almgren_chriss_kappa(**{name: getattr(env, name) for name in market})
    except ValueError:
        return None
    return almgren_chriss_trajectory(env.initial_inventory, kappa, total_time=env.total_time, n_steps=env.n_steps)


def _before(rows: Rows, env: Any) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The lookback window and the start: rows or dates `(L + 1,)`, prices over those at the start `(L + 1, ...)`."""
    past, start = rows["past"].astype(np.float64), rows["timestamp"][0]
    to_start = np.cumsum(past[::-1], axis=0)[::-1]
    growth: NDArray[np.float64] = np.exp(-np.concatenate([to_start, np.zeros_like(past[:1])]))
    if env.data is None or env.data.timestamps is None:
        return np.arange(start - len(past), start + 1), growth
    row = env.data.row_of(start)
    return env.data.timestamps[row - len(past) : row + 1], growth


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
    figure: Any,
    titled: dict[str, Any],
    x: NDArray[Any],
    label: str,
    limits: tuple[float, float] | None = None,
    *,
    earlier: NDArray[Any] | None = None,
) -> None:
    """Dress the panels.

    Args:
        figure: that they stand in.
        titled: by title, from top to bottom.
        x: of the rows of the episode.
        label: of the axis of x.
        limits: of that axis; None: what is drawn.
        earlier: x of the lookback window and the start, which is shaded.
    """
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
        if earlier is not None:
            axes.axvspan(earlier[0], earlier[-1], color=FAINT, alpha=0.5, linewidth=0, zorder=0)
            axes.axvline(earlier[-1], color=SOFT, linewidth=0.8)
    last = axes
    last.set_xlabel(label if earlier is None else f"{label}; the lookback window is shaded", color=INK, size=10)
    if limits is not None:
        room = 0.01 * (limits[1] - limits[0])
        last.set_xlim(limits[0] - room, limits[1] + room)
    elif len(x) == 1:
        last.set_xlim((x if earlier is None else earlier)[0] - 1, x[0] + 30)
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
    {"timestamp": "timestamp", "inventory": "inventory", "shortfall_bps": "shortfall_bps", "mid_price": "price"},
    ("shares_sold", "execution_price"),
    _execution,
)
