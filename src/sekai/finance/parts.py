"""What a `MarketData` consists of: its checked arrays, the cuts through them, and the dates of its rows.

Shapes: `T` rows, `N` columns (assets). Arrays are flat, row after row, so that kernels read them as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.finance.validation import (
    Array,
    Dates,
    as_columns,
    check_assets,
    check_exogenous,
    check_fields,
    check_prices,
    check_timestamps,
)


class Parts(NamedTuple):
    """Checked arrays, nobody else's.

    Attributes:
        prices, log_returns: `(T * N,)`, `((T - 1) * N,)`.
        columns: `N`; 0 where the one asset has no axis of its own.
        timestamps: `(T,)`.
        assets: `N` names.
        fields: each `(T * N,)`.
        exogenous: each `(T,)`.
        gaps: rows with a price missing among the first k, `(T + 1,)`, counted from anywhere; empty for none.
    """

    prices: Array
    log_returns: NDArray[np.float32]
    columns: int
    timestamps: Dates | None
    assets: tuple[str, ...] | None
    fields: dict[str, Array]
    exogenous: dict[str, Array]
    gaps: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the prices: `(T,)`, or `(T, N)`."""
        return (len(self.prices) // self.columns, self.columns) if self.columns else self.prices.shape

    def between(self, first: int, stop: int) -> Parts:
        """The rows from `first` to `stop`, that one left out, as views."""
        n = self.columns or 1
        return Parts(
            self.prices[first * n : stop * n],
            self.log_returns[first * n : (stop - 1) * n],
            self.columns,
            None if self.timestamps is None else self.timestamps[first:stop],
            self.assets,
            {name: flat[first * n : stop * n] for name, flat in self.fields.items()},
            {name: values[first:stop] for name, values in self.exogenous.items()},
            self.gaps[first : stop + 1] if len(self.gaps) else self.gaps,
        )

    def fingerprint(self) -> str:
        """See `MarketData.fingerprint`."""
        digest = hashlib.blake2b(repr(self.shape).encode(), digest_size=16)
        digest.update(self.prices.data)
        if self.timestamps is not None:
            digest.update(str(self.timestamps.dtype).encode())
            digest.update(self.timestamps.view(np.int64).data)
        for name in sorted(self.fields):
            digest.update(name.encode())
            digest.update(self.fields[name].data)
        return digest.hexdigest()


def checked_parts(
    prices: Any, timestamps: Any, assets: Any, fields: Mapping[str, Any] | None, exogenous: Mapping[str, Any] | None
) -> Parts:
    """Private copies of the arguments of a `MarketData`; raise for what it refuses."""
    checked = as_columns("prices", prices)
    columns = 0 if checked.ndim == 1 else checked.shape[1]
    names = check_assets(assets, columns or 1)
    dates = None if timestamps is None else check_timestamps(timestamps, len(checked))
    check_prices(checked, dates, names)
    columned = check_fields(fields, checked, dates, names)
    returns = np.diff(np.log(checked), axis=0).astype(np.float32)
    missing = np.isnan(checked).reshape(len(checked), -1).any(axis=1)
    return Parts(
        checked.reshape(-1),
        returns.reshape(-1),
        columns,
        dates,
        names,
        {name: values.reshape(-1) for name, values in columned.items()},
        check_exogenous(exogenous, len(checked), dates),
        np.concatenate(([0], np.cumsum(missing))) if missing.any() else np.empty(0, np.int64),
    )


def as_date(date: Any) -> np.datetime64:
    """A date given by a user."""
    try:
        found = np.datetime64(date)
    except (ValueError, TypeError):
        found = np.datetime64("NaT")
    if np.isnat(found):
        raise ValueError(f"{date!r} is no date; expected one such as '2020-01-31' or a row number.")
    return found


def first_row_at(dates: Dates, date: Any) -> int:
    """The first row at or after a date, `T` where there is none."""
    return int(np.searchsorted(dates, as_date(date)))


def row_of(dates: Dates, date: Any) -> int:
    """The row of a date; raise where it has none, with the dates around it."""
    after = first_row_at(dates, date)
    if after < len(dates) and dates[after] == as_date(date):
        return after
    near = ", ".join(str(date) for date in dates[max(after - 1, 0) : after + 1])
    raise ValueError(f"{date!r} is not in the history; the nearest dates are {near}.")


def cuts(
    points: tuple[Any, ...], stops: list[int], length: int, embargo: int, history: int
) -> list[tuple[int, int, str]]:
    """First and last row (that one left out) of each part of `MarketData.split`, and what messages call it.

    Args:
        points: as they were given.
        stops: their rows.
        length: `T`.
        embargo, history: see there.
    """
    parts, begin = [], 0
    for k, stop in enumerate([*stops, length]):
        if begin < 0:
            raise ValueError(
                f"points[{k - 1}] is {points[k - 1]!r}, row {stops[k - 1]}, which has no history of {history} rows "
                "before it; expected a later point, or a shorter history."
            )
        if k < len(points) and stop >= [*stops, length][k + 1]:
            raise ValueError(f"points is {points!r}, rows {stops}; expected rows in order, within the history.")
        parts.append((begin, stop, f"Part {k} of the split, rows {begin} to {stop - 1},"))
        begin = stop + embargo - history
    return parts
