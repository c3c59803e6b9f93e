"""`MarketData`: a price history, checked once and shared by everything that reads it.

Shapes: `T` rows (bars), stamped by their close.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.spaces.checks import has_masked_entries

# a price beyond these is a slip, and its quotients and squares leave the range of floats
LOWEST, HIGHEST = 1e-100, 1e100


class MarketData:
    """The price history of one asset.

    It never changes: its arrays are read-only, so environments share them and copy nothing.

    Args:
        prices: `(T,)` or `(T, 1)`, finite and above 0, `T` at least 2. A private float64 copy is kept.
        timestamps: `(T,)` dates (`datetime64`, `datetime`, `date` or ISO strings), strictly increasing; None: the
            rows have numbers only.

    Attributes:
        prices: float64 `(T,)`.
        timestamps: `datetime64` `(T,)`, or None.
        log_returns: float32 `(T - 1,)`, entry `t` is `ln(prices[t + 1] / prices[t])`, computed in float64.
        kernel_arrays: the memory of `prices` and `log_returns` as kernels take it, not marked read-only: machine code
            is compiled for arrays of one kind, and the rings of a simulated market are written to.

    Raises:
        TypeError, ValueError: anything else; the message names the row.
    """

    __slots__ = ("__weakref__", "kernel_arrays", "log_returns", "prices", "timestamps")

    prices: NDArray[np.float64]
    timestamps: NDArray[np.datetime64] | None
    log_returns: NDArray[np.float32]
    kernel_arrays: tuple[NDArray[np.float64], NDArray[np.float32]]

    def __init__(self, prices: Any, timestamps: Any = None) -> None:
        checked = check_prices(prices)
        dates = None if timestamps is None else _check_timestamps(timestamps, len(checked))
        returns = np.diff(np.log(checked)).astype(np.float32)
        for name, value in (
            ("prices", _read_only(checked)),
            ("timestamps", None if dates is None else _read_only(dates)),
            ("log_returns", _read_only(returns)),
            ("kernel_arrays", (checked, returns)),
        ):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"MarketData never changes: {name!r} cannot be set; make a new one.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"MarketData never changes: {name!r} cannot be deleted.")

    def __len__(self) -> int:
        return len(self.prices)

    def __repr__(self) -> str:
        if self.timestamps is None:
            return f"MarketData({len(self)} rows)"
        return f"MarketData({len(self)} rows, {self.timestamps[0]} to {self.timestamps[-1]})"

    def __reduce__(self) -> tuple[Any, ...]:
        return MarketData, (self.prices, self.timestamps)

    def __copy__(self) -> MarketData:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> MarketData:
        return self

    def row_of(self, date: Any) -> int:
        """The row of a date.

        Raises:
            ValueError: the history has no dates, or not this one; the message names the nearest ones.
        """
        if self.timestamps is None:
            raise ValueError(f"{date!r} is a date, and this history has none: give a row, 0 to {len(self) - 1}.")
        try:
            wanted = np.datetime64(date)
        except (ValueError, TypeError):
            raise ValueError(f"{date!r} is no date; expected one such as '2020-01-31' or a row number.") from None
        after = int(np.searchsorted(self.timestamps, wanted)) if not np.isnat(wanted) else len(self)
        if after < len(self) and self.timestamps[after] == wanted:
            return after
        near = ", ".join(str(date) for date in self.timestamps[max(after - 1, 0) : after + 1])
        raise ValueError(f"{date!r} is not in the history; the nearest dates are {near}.")


_shared: weakref.WeakValueDictionary[int, MarketData] = weakref.WeakValueDictionary()


def shared_history(prices: Any) -> MarketData:
    """A `MarketData` of `prices`, the same one for every caller that gives the same array, unless it was changed."""
    known = _shared.get(id(prices))
    if known is not None and np.array_equal(known.prices, np.ravel(prices)):
        return known
    made = MarketData(prices)
    _shared[id(prices)] = made
    return made


def check_prices(prices: Any) -> NDArray[np.float64]:
    """A private float64 `(T,)` copy of `prices`; see `MarketData`."""
    if isinstance(prices, MarketData):
        raise TypeError("prices is a MarketData; give it as data=.")
    if has_masked_entries(prices):
        raise TypeError("prices is a masked array with masked entries; fill or leave out these rows.")
    try:
        given = np.asarray(prices)
        array = np.array(given, np.float64)
    except (ValueError, TypeError) as error:
        raise TypeError(f"prices must be numbers, shape (T,): {error}.") from None
    if given.dtype.kind not in "iufO":
        raise TypeError(f"prices has dtype {given.dtype}; expected numbers: convert the column to float.")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.reshape(-1)
    if array.ndim != 1:
        raise ValueError(f"prices has shape {array.shape}; expected (T,) or (T, 1), the history of one asset.")
    if len(array) < 2:
        raise ValueError(f"prices has {len(array)} rows; expected at least 2.")
    bad = ~((array >= LOWEST) & (array <= HIGHEST))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"prices[{row}] is {array[row]}; expected finite prices above 0, within [{LOWEST}, {HIGHEST}] "
            f"({int(bad.sum())} of {len(array)} rows are not): repair or leave out these rows."
        )
    return array


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def _check_timestamps(timestamps: Any, rows: int) -> NDArray[np.datetime64]:
    if has_masked_entries(timestamps):
        raise TypeError("timestamps is a masked array with masked entries; every row needs a date.")
    given = np.asarray(timestamps)
    if given.dtype.kind not in "MOU" or (given.dtype.kind == "O" and not all(map(_is_date, given.flat))):
        raise TypeError(
            f"timestamps has dtype {given.dtype}; expected dates without a time zone (datetime64, datetime, date or "
            "ISO strings): convert numbers with np.asarray(seconds, 'datetime64[s]')."
        )
    try:
        dates: NDArray[np.datetime64] = np.array(given, "datetime64")
    except ValueError:
        row, value = next((row, value) for row, value in enumerate(given.flat) if not _parses(value))
        raise ValueError(f"timestamps[{row}] is {str(value)!r}; expected an ISO date such as '2020-01-31'.") from None
    if dates.shape != (rows,):
        raise ValueError(f"timestamps has shape {dates.shape}; expected {(rows,)}, one for each row of prices.")
    if np.isnat(dates).any():
        row = int(np.flatnonzero(np.isnat(dates))[0])
        raise ValueError(f"timestamps[{row}] is not a date (NaT); expected one for each row.")
    late = np.flatnonzero(dates[1:] <= dates[:-1])
    if len(late):
        row = int(late[0]) + 1
        raise ValueError(
            f"timestamps[{row}] is {dates[row]}, not after timestamps[{row - 1}], {dates[row - 1]}; expected strictly "
            "increasing dates: sort the rows and drop duplicates."
        )
    return dates


def _parses(value: Any) -> bool:
    try:
        np.datetime64(value)
    except ValueError:
        return False
    return True


def _is_date(value: Any) -> bool:
    # a date with a time zone would lose it silently
    return isinstance(value, str) or (hasattr(value, "year") and getattr(value, "tzinfo", None) is None)
