"""Windows of a history: how many there are, and where `options={"start": ...}` asks an episode to begin."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.finance.data import MarketData

KNOWN_OPTIONS = ("start",)


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
        ValueError: an unknown key, a start outside the legal range (named in the message), or any start in a
            simulated market.
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
    return counted
