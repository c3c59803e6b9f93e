"""`sekai demo`: three trading rules over a thousand parallel windows of the S&P 500, and a picture.

`T` rows of closes, `N` windows of `L` decisions each. A decision taken in row `t` knows the closes up to row
`t` and earns the return from row `t` to row `t + 1`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.cli.errors import BadValue
from sekai.cli.output import Advance, on_terminal, progress, show_table
from sekai.cli.picture import draw_distributions, require_writable
from sekai.registry import make_vec
from sekai.vector import VecEnv

ID = "Trading-v0"
WINDOW = 252
AVERAGE = 200
POSITIONS = (0.0, 1.0)
CASH, LONG = 0, 1

Policy = Callable[[NDArray[np.float64]], NDArray[np.int64]]


def above_average(closes: NDArray[np.float64], days: int = AVERAGE) -> NDArray[np.int64]:
    """Long where the close is above the mean of the last `days` closes, itself included; cash elsewhere.

    Rows before the first full average are cash.

    Args:
        closes: `(T,)`.
        days: length of the average.

    Returns:
        Actions `(T,)`.
    """
    actions = np.full(len(closes), CASH)
    if len(closes) >= days:
        averages = np.lib.stride_tricks.sliding_window_view(closes, days).mean(axis=1)
        actions[days - 1 :] = np.where(closes[days - 1 :] > averages, LONG, CASH)
    return actions


def buy_and_hold(closes: NDArray[np.float64]) -> NDArray[np.int64]:
    """Long in every row."""
    return np.full(len(closes), LONG)


def cash(closes: NDArray[np.float64]) -> NDArray[np.int64]:
    """Cash in every row."""
    return np.full(len(closes), CASH)


POLICIES: Mapping[str, Policy] = {
    "moving-average": above_average,
    "buy-and-hold": buy_and_hold,
    "cash": cash,
}
TITLES = {
    "moving-average": f"{AVERAGE}-day moving average: long or cash",
    "buy-and-hold": "Buy and hold",
    "cash": "Cash",
}


def window_starts(rows: int, windows: int, *, first: int = AVERAGE - 1, length: int = WINDOW) -> NDArray[np.int64]:
    """The rows of the first decisions, evenly spaced from `first` to the last that leaves `length` steps.

    Returns:
        `(windows,)`.

    Raises:
        BadValue: more windows than there are rows to start in.
    """
    last = rows - 1 - length
    if last < first or windows > last - first + 1:
        raise BadValue(
            f"{windows} windows do not fit: {rows} closes have {max(0, last - first + 1)} rows in which a "
            f"window of {length} days can begin, row {first} being the first."
        )
    return np.linspace(first, last, windows).round().astype(np.int64)


@dataclass(frozen=True)
class Outcome:
    """What one policy did in every window.

    Attributes:
        daily: simple returns per day, costs included, `(L, N)`.
        turnover: traded value over equity, summed over the window, `(N,)`.
    """

    daily: NDArray[np.float64]
    turnover: NDArray[np.float64]

    @property
    def equity(self) -> NDArray[np.float64]:
        """Equity `(L + 1, N)`, 1 at the start."""
        equity = np.ones((len(self.daily) + 1, self.daily.shape[1]))
        np.cumprod(1.0 + self.daily, axis=0, out=equity[1:])
        return equity

    @property
    def returns(self) -> NDArray[np.float64]:
        """Return of each window, `(N,)`."""
        last: NDArray[np.float64] = self.equity[-1]
        return last - 1.0


@dataclass(frozen=True)
class Summary:
    """The numbers of one policy; all but the Sharpe ratio are fractions.

    Attributes:
        mean: mean return of a window.
        deviation: standard deviation of the windows' returns (`N - 1` in the denominator).
        sharpe: annualised Sharpe ratio of all daily returns pooled; NaN where they are all equal.
        drawdown: maximum drawdown, mean over the windows.
        turnover: traded value over equity in a window, mean over the windows.
    """

    mean: float
    deviation: float
    sharpe: float
    drawdown: float
    turnover: float


def summarise(outcome: Outcome) -> Summary:
    """The numbers of one policy."""
    from sekai.finance import max_drawdown, sharpe_ratio

    return Summary(
        mean=float(outcome.returns.mean()),
        deviation=float(outcome.returns.std(ddof=1)),
        sharpe=sharpe_ratio(outcome.daily.ravel(), periods_per_year=252),
        drawdown=float(np.mean(max_drawdown(outcome.equity))),
        turnover=float(outcome.turnover.mean()),
    )


def play(vec: VecEnv, actions: NDArray[np.int64], starts: NDArray[np.int64], advance: Advance) -> Outcome:
    """Play one window in every slot, to its end.

    Args:
        vec: `Trading-v0` with autoreset off and log growth of equity as its reward.
        actions: action of each row, `(T,)`.
        starts: row of the first decision of each slot, `(N,)`.
        advance: told the env steps done.
    """
    result: Any = vec.reset(seed=0, options=[{"start": start} for start in starts.tolist()])
    rows, finished = starts.copy(), np.zeros(len(starts), bool)
    growth, turnover = [], np.zeros(len(starts))
    while not finished.all():
        result = vec.step(actions[rows])
        growth.append(result.rewards)
        turnover += np.where(finished, 0.0, result.infos.columns["turnover"][0])
        finished = result.dones
        rows += ~finished
        advance(len(starts))
    return Outcome(np.expm1(growth), turnover)


def make_windows(closes: NDArray[np.float64], windows: int) -> VecEnv:
    """The vector environment: one slot per window, no autoreset."""
    return make_vec(
        ID,
        windows,
        prices=closes,
        positions=POSITIONS,
        episode_length=WINDOW,
        vector_kwargs={"autoreset": False},
    )


def demo(output: Path, windows: int) -> None:
    """Run the demo: print the table and the throughput, save the picture.

    Raises:
        ImportError: the price history, or matplotlib, is not installed.
        BadValue: too many windows, or the picture cannot be written.
    """
    require_writable(output)
    from sekai.finance.datasets import sp500

    data = sp500()
    closes = data.prices
    starts = window_starts(len(closes), windows)
    with make_windows(closes, windows) as vec:
        play(vec, cash(closes), starts, lambda amount: None)  # compiles the dynamics, or loads them
        with progress(f"{len(POLICIES)} policies, {windows} windows", len(POLICIES) * WINDOW * windows) as advance:
            started = time.perf_counter()
            outcomes = {name: play(vec, policy(closes), starts, advance) for name, policy in POLICIES.items()}
            seconds = time.perf_counter() - started
    assert data.timestamps is not None
    years = f"{data.timestamps[starts[0]]} to {data.timestamps[-1]}"
    _report(outcomes, windows, seconds, years)
    returns = {TITLES[name]: outcome.returns for name, outcome in outcomes.items()}
    draw_distributions(returns, output, f"{windows:,} overlapping windows, {years}")
    print(f"{output} saved")


def _report(outcomes: Mapping[str, Outcome], windows: int, seconds: float, years: str) -> None:
    steps = len(outcomes) * WINDOW * windows
    summaries = {name: summarise(outcome) for name, outcome in outcomes.items()}
    throughput = f"{ID} windows={windows} steps={steps} seconds={seconds:.3f} {steps / seconds:.0f} steps/s"
    if on_terminal():
        columns = ("policy", "mean return", "sd", "Sharpe", "max drawdown", "turnover")
        rows = [(TITLES[name], *_cells(summary)) for name, summary in summaries.items()]
        show_table(
            f"S&P 500, {windows:,} windows of {WINDOW} days, {years}, costs included",
            columns,
            rows,
            right=True,
        )
    else:
        for name, summary in summaries.items():
            names = ("mean_return", "sd", "sharpe", "max_drawdown", "turnover")
            print(name, *(f"{field}={cell}" for field, cell in zip(names, _cells(summary), strict=True)))
    print(throughput)


def _cells(summary: Summary) -> tuple[str, ...]:
    return (
        f"{summary.mean:+.2%}",
        f"{summary.deviation:.2%}",
        "n/a" if np.isnan(summary.sharpe) else f"{summary.sharpe:.2f}",
        f"{summary.drawdown:.2%}",
        f"{summary.turnover:.2f}",
    )
