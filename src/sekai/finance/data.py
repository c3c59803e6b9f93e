"""`MarketData`: a price history, checked once and shared by everything that reads it.

Shapes: `T` rows (bars), stamped by their close; `N` columns (assets).
"""

from __future__ import annotations

import hashlib
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.spaces.checks import has_masked_entries

# a price beyond these is a slip, and its quotients and squares leave the range of floats
LOWEST, HIGHEST = 1e-100, 1e100


class MarketData:
    """The price history of one asset or of several.

    It never changes: its arrays are read-only, so environments share them and copy nothing.

    Args:
        prices: `(T,)` or `(T, N)`, finite and above 0, `T` at least 2. NaN among several columns says that the asset
            is not listed in that row; a single column has none. A private float64 copy is kept.
        timestamps: `(T,)` dates (`datetime64`, `datetime`, `date` or ISO strings), strictly increasing; None: the
            rows have numbers only.

    Attributes:
        prices: float64 `(T,)` of one asset, `(T, N)` of several.
        n_assets: `N`.
        timestamps: `datetime64` `(T,)`, or None.
        log_returns: float32 `(T - 1,)` or `(T - 1, N)`, row `t` is `ln(prices[t + 1] / prices[t])`, computed in
            float64.
        kernel_arrays: the memory of `prices` and `log_returns` as kernels take it, flat, row after row, and not
            marked read-only: machine code is compiled for arrays of one kind, and the rings of a simulated market
            are written to.

    Raises:
        TypeError, ValueError: anything else; the message names the row, and the column of several.
    """

    __slots__ = (
        "__weakref__",
        "_fingerprint",
        "_gaps",
        "kernel_arrays",
        "log_returns",
        "n_assets",
        "prices",
        "timestamps",
    )

    n_assets: int
    _fingerprint: str | None  # once it was asked for
    _gaps: NDArray[np.int64]  # rows with a price missing among the first k, (T + 1,); empty where none is missing
    prices: NDArray[np.float64]
    timestamps: NDArray[np.datetime64] | None
    log_returns: NDArray[np.float32]
    kernel_arrays: tuple[NDArray[np.float64], NDArray[np.float32]]

    def __init__(self, prices: Any, timestamps: Any = None) -> None:
        checked = check_prices(prices)
        dates = None if timestamps is None else _check_timestamps(timestamps, len(checked))
        returns = np.diff(np.log(checked), axis=0).astype(np.float32)
        for name, value in (
            ("prices", _read_only(checked)),
            ("timestamps", None if dates is None else _read_only(dates)),
            ("n_assets", 1 if checked.ndim == 1 else checked.shape[1]),
            ("log_returns", _read_only(returns)),
            ("kernel_arrays", (checked.reshape(-1), returns.reshape(-1))),
            ("_gaps", _count_gaps(checked)),
            ("_fingerprint", None),
        ):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"MarketData never changes: {name!r} cannot be set; make a new one.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"MarketData never changes: {name!r} cannot be deleted.")

    def __len__(self) -> int:
        return len(self.prices)

    def __repr__(self) -> str:
        assets = "" if self.prices.ndim == 1 else f" of {self.n_assets} assets"
        dates = "" if self.timestamps is None else f", {self.timestamps[0]} to {self.timestamps[-1]}"
        return f"MarketData({len(self)} rows{assets}{dates})"

    def __reduce__(self) -> tuple[Any, ...]:
        return MarketData, (self.prices, self.timestamps)

    def __copy__(self) -> MarketData:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> MarketData:
        return self

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits, equal for equal prices and timestamps and for no others."""
        if self._fingerprint is None:
            digest = hashlib.blake2b(repr(self.prices.shape).encode(), digest_size=16)
            digest.update(self.prices.data)
            if self.timestamps is not None:
                digest.update(str(self.timestamps.dtype).encode())
                digest.update(self.timestamps.view(np.int64).data)
            object.__setattr__(self, "_fingerprint", digest.hexdigest())
        assert self._fingerprint is not None
        return self._fingerprint

    def check_listed(self, first: Any, last: Any) -> None:
        """Raise unless every asset is listed in every row of some windows.

        Args:
            first, last: int `(K,)`, first and last row of each window.

        Raises:
            ValueError: a price is missing; the message names its row and column.
        """
        if not len(self._gaps):
            return
        first, last = np.atleast_1d(first), np.atleast_1d(last)
        bad = np.flatnonzero(self._gaps[last + 1] > self._gaps[first])
        if len(bad):
            begin, end = int(first[bad[0]]), int(last[bad[0]])
            row, column = np.argwhere(np.isnan(self.prices[begin : end + 1]))[0].tolist()
            date = "" if self.timestamps is None else f" ({self.timestamps[begin + row]})"
            raise ValueError(
                f"prices[{begin + row}, {column}]{date} is NaN, and the window of rows {begin} to {end} contains it: "
                "an asset that is not listed cannot be held. Leave out the column, or choose other windows with "
                "options={'start': ...} or a sampler."
            )

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
    if known is not None and _are_prices_of(known, prices):
        return known
    made = MarketData(prices)
    _shared[id(prices)] = made
    return made


def _are_prices_of(data: MarketData, prices: Any) -> bool:
    given = np.asarray(prices)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given.reshape(-1)
    # NaN is the only value that differs from itself
    return given.shape == data.prices.shape and bool(
        ((given == data.prices) | ((given != given) & (data.prices != data.prices))).all()
    )


def check_prices(prices: Any) -> NDArray[np.float64]:
    """A private float64 copy of `prices`, `(T,)` of one asset, `(T, N)` of several; see `MarketData`."""
    if isinstance(prices, MarketData):
        raise TypeError("prices is a MarketData; give it as data=.")
    if has_masked_entries(prices):
        raise TypeError("prices is a masked array with masked entries; fill or leave out these rows.")
    try:
        given = np.asarray(prices)
        array = np.array(given, np.float64, order="C")
    except (ValueError, TypeError) as error:
        raise TypeError(f"prices must be numbers, shape (T,) or (T, N): {error}.") from None
    if given.dtype.kind not in "iufO":
        raise TypeError(f"prices has dtype {given.dtype}; expected numbers: convert the column to float.")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.reshape(-1)
    if array.ndim not in (1, 2) or 0 in array.shape[1:]:
        raise ValueError(f"prices has shape {array.shape}; expected (T,), or (T, N) with a column for each asset.")
    if len(array) < 2:
        raise ValueError(f"prices has {len(array)} rows; expected at least 2.")
    bad = ~((array >= LOWEST) & (array <= HIGHEST))
    if array.ndim == 2:
        bad &= ~np.isnan(array)
    if bad.any():
        place = np.argwhere(bad)[0].tolist()
        rows = int(bad.reshape(len(bad), -1).any(axis=1).sum())
        raise ValueError(
            f"prices[{', '.join(map(str, place))}] is {array[*place]}; expected finite prices above 0, within "
            f"[{LOWEST}, {HIGHEST}] ({rows} of {len(array)} rows are not): repair or leave out these rows."
        )
    return array


def _count_gaps(prices: NDArray[np.float64]) -> NDArray[np.int64]:
    missing = np.isnan(prices).reshape(len(prices), -1).any(axis=1)
    return np.concatenate(([0], np.cumsum(missing))) if missing.any() else np.empty(0, np.int64)


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
