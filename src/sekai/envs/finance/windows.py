"""Windows of a history: how many there are, and where an episode begins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.finance.data import MarketData
from sekai.finance.samplers import EpisodeSampler, check_positions
from sekai.finance.sharing import shared_history

KNOWN_OPTIONS = ("start",)


def history(prices: Any, data: Any) -> MarketData | None:
    """The one of the two arguments that was given, as a history; None where neither was.

    Raises:
        TypeError, ValueError: both were given, or `data` is no `MarketData`.
    """
    if prices is not None and data is not None:
        raise ValueError("prices and data were both given; expected one history, so leave one of them out.")
    if data is not None and not isinstance(data, MarketData):
        raise TypeError(
            f"data is of type {type(data).__name__}; expected a MarketData. Bare prices are given as prices=."
        )
    return data if prices is None else shared_history(prices)


def share_history(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments of an environment with the history as `data`, so that it travels to other processes checked."""
    if arguments.get("prices") is None or arguments.get("data") is not None:
        return arguments
    return {**arguments, "prices": None, "data": shared_history(arguments["prices"])}


def count_windows(data: MarketData, lookback: int, episode_length: int) -> int:
    """Legal windows: the first decision is at row `lookback` or later, and the last row is in the history.

    Raises:
        ValueError: there is none.
    """
    windows = len(data) - lookback - episode_length
    if windows < 1:
        raise ValueError(
            f"The history has {len(data)} rows; lookback={lookback} and episode_length={episode_length} need at least "
            f"{lookback + episode_length + 1}."
        )
    return windows


def start_row(options: dict[str, Any] | None, data: MarketData | None, lookback: int, num_windows: int) -> int | None:
    """The row of the first decision that `options` ask for, None where they leave it to the sampler.

    Raises:
        TypeError: options that are no dict, or a start that is neither an int nor a date.
        ValueError: an unknown key, a start outside the legal range (named in the message) or whose window lacks a
            price, or any start in a simulated market.
    """
    if options is None:
        return None
    if not isinstance(options, dict):
        raise TypeError(f"options is {options!r}; expected a dict such as {{'start': row}}, or None.")
    for key in options:
        if key not in KNOWN_OPTIONS:
            raise ValueError(f"options has the key {key!r}; known keys are {', '.join(map(repr, KNOWN_OPTIONS))}.")
    if "start" not in options:
        return None
    start = options["start"]
    if data is None:
        raise ValueError(
            f"options['start'] is {start!r}, and this market is simulated: every episode has a history of its own, "
            "and no rows to start from. Give prices or data to choose windows."
        )
    if isinstance(start, (bool, float, np.floating)) or start is None or np.ndim(start) > 0:
        raise TypeError(f"options['start'] is {start!r}; expected a row number (an int) or a date of the history.")
    row = int(start) if isinstance(start, (int, np.integer)) else data.row_of(start)
    counted = row + len(data) if row < 0 else row
    last = lookback + num_windows - 1
    if not lookback <= counted <= last:
        dates = "" if data.timestamps is None else f" ({data.timestamps[lookback]} to {data.timestamps[last]})"
        raise ValueError(
            f"options['start'] is {start!r}; expected a row in [{lookback}, {last}]{dates}: the observation needs "
            f"{lookback} rows before it and the episode {len(data) - 1 - last} rows after it. Negative rows count "
            f"from the end of the {len(data)} rows."
        )
    data.check_listed(counted - lookback, counted + len(data) - 1 - last)
    return counted


def sampled_rows(
    positions: NDArray[np.int64], data: MarketData, lookback: int, num_windows: int, sampler: EpisodeSampler
) -> NDArray[np.int64]:
    """Rows of the first decisions in the windows that `sampler` chose.

    Raises:
        TypeError: the positions are no integers.
        ValueError: one of them is no legal position, or its window lacks a price.
    """
    rows = lookback + check_positions(positions, num_windows, sampler)
    data.check_listed(rows - lookback, rows + len(data) - lookback - num_windows)
    return rows


def check_clock(
    row: NDArray[np.int64], last: NDArray[np.int64], head: NDArray[np.int64], *, rows: int | None, lookback: int
) -> None:
    """Raise unless a clock from a saved state points to rows and places that exist.

    Args:
        row, last, head: of each slot, see the kernels; zeros before the first episode.
        rows: of the history; None for a simulated market, whose rings have `2 lookback` places.
        lookback: returns in an observation.
    """
    fits = (head >= 0) & (head < 2 * lookback) & (row <= last)
    if rows is not None:
        fits &= ((row >= lookback) & (last < rows)) | ((row == 0) & (last == 0))
    if not fits.all():
        slot = int(np.flatnonzero(~fits)[0])
        raise ValueError(
            f"state['env.slots.clock'] has row {row[slot]}, last row {last[slot]} and place {head[slot]} in slot "
            f"{slot}; expected rows of the history, the last not before the other, and a place below {2 * lookback}."
        )
