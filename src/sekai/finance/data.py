"""`MarketData`: a price history, checked once and shared by everything that reads it.

Shapes: `T` rows (bars), stamped by their close; `N` columns (assets).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.finance import frames
from sekai.finance.parts import Parts, as_date, checked_parts, cuts, first_row_at, row_of
from sekai.finance.validation import Array, Dates, place_text
from sekai.spaces.checks import whole_number


class MarketData:
    """The price history of one asset or of several.

    It never changes: its arrays are read-only, so environments share them and copy nothing. A slice is a view:

        data[100:500]                      rows 100 to 499
        data.between("2010", "2019-06")    rows by date, from the first day of 2010 to the last of June 2019
        data.split("2015", "2018")         three histories, one after the other
        data.select(["AAPL", "KO"])        some of the assets; a copy, since rows lie side by side in memory

    Args:
        prices: `(T,)` or `(T, N)`, finite and above 0, `T` at least 2: closes. NaN among several columns says that
            the asset is not listed in that row; a single column has none. A private float64 copy is kept.
        timestamps: `(T,)` dates (`datetime64`, `datetime`, `date` or ISO strings), strictly increasing; None: the
            rows have numbers only.
        assets: `N` different names; None: the columns have numbers only.
        fields: more of each bar, by name, each of the shape of `prices`: "open", "high", "low" (prices), "volume" (at
            least 0, in shares) and "spread" (ask less bid, at least 0, in the unit of the prices). NaN may stand only
            where the price is NaN.
        exogenous: series that belong to no asset, by name, each `(T,)` and finite. Row `t` must have been known at
            the close of bar `t`.

    Attributes:
        prices: float64 `(T,)` of one asset, `(T, N)` of several.
        n_assets: `N`.
        timestamps: `datetime64` `(T,)`, or None.
        assets: tuple of names, or None.
        fields, exogenous: read-only mappings of names to float64 arrays.
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
        "_parts",
        "assets",
        "exogenous",
        "fields",
        "kernel_arrays",
        "log_returns",
        "n_assets",
        "prices",
        "timestamps",
    )

    n_assets: int
    _fingerprint: str | None  # once it was asked for
    prices: Array
    timestamps: Dates | None
    assets: tuple[str, ...] | None
    fields: Mapping[str, Array]
    exogenous: Mapping[str, Array]
    log_returns: NDArray[np.float32]
    kernel_arrays: tuple[Array, NDArray[np.float32]]
    _parts: Parts

    def __init__(
        self,
        prices: Any,
        timestamps: Any = None,
        *,
        assets: Any = None,
        fields: Mapping[str, Any] | None = None,
        exogenous: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(prices, MarketData):
            raise TypeError("prices is a MarketData; give it as data=.")
        self._settle(checked_parts(prices, timestamps, assets, fields, exogenous))

    def _settle(self, parts: Parts) -> None:
        shape = parts.shape
        for name, value in (
            ("_parts", parts),
            ("prices", _read_only(parts.prices.reshape(shape))),
            ("timestamps", None if parts.timestamps is None else _read_only(parts.timestamps)),
            ("assets", parts.assets),
            ("n_assets", parts.columns or 1),
            ("fields", _read_only_mapping({name: flat.reshape(shape) for name, flat in parts.fields.items()})),
            ("exogenous", _read_only_mapping(parts.exogenous)),
            ("log_returns", _read_only(parts.log_returns.reshape(-1, *shape[1:]))),
            ("kernel_arrays", (parts.prices, parts.log_returns)),
            ("_fingerprint", None),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        timestamp: str | None = None,
        asset: str | None = None,
        price: str | None = None,
        exogenous: Iterable[str] = (),
    ) -> MarketData:
        """The history in a table of pandas, polars or pyarrow (package `narwhals`, extra `data`).

        Column names that are recognised are so in any case. There are three layouts:

        - bars of one asset: a column of prices ("close"), beside it any of "open", "high", "low", "volume", "spread";
        - long: the same with a column of asset names ("asset", "symbol" or "ticker"): a row for each bar of each
          asset. Assets come in the order in which they appear, dates in order of time; NaN stands where an asset has
          no row at a date that others have;
        - wide: anything else is a column of prices for each asset, named after it.

        In the first two, columns with other names are not read. The named levels of a pandas index are columns.

        Args:
            frame: the table.
            timestamp: name of the column of dates; None: "timestamp", "date", "datetime" or "time". Without one the
                rows have numbers only.
            asset: name of the column of asset names.
            price: name of the column of prices.
            exogenous: names of columns with series that belong to no asset; in a long table all assets of a date have
                the same number.

        Raises:
            ImportError: the package is not installed.
            TypeError, ValueError: as for the class; no such column; a pair of date and asset that comes twice, or out
                of order.
        """
        return cls._from_table(frames.columns_of(frame), timestamp, asset, price, exogenous)

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        *,
        timestamp: str | None = None,
        asset: str | None = None,
        price: str | None = None,
        exogenous: Iterable[str] = (),
        date_format: str | None = None,
    ) -> MarketData:
        """The history in a CSV file, plain or gzipped (`.gz`), with a header line and commas; nothing is imported.

        Args:
            path: the file. An empty cell is NaN.
            timestamp, asset, price, exogenous: as for `from_frame`.
            date_format: how dates are written, as for `datetime.strptime` ("%m/%d/%Y"); None: ISO.

        Raises:
            OSError: the file cannot be read.
            TypeError, ValueError: as for `from_frame`; the message begins with the path.
        """
        with frames.naming(path):
            table = frames.read_csv(Path(path))
            if date_format is not None:
                frames.parse_dates(table, timestamp, date_format)
            return cls._from_table(table, timestamp, asset, price, exogenous)

    @classmethod
    def from_parquet(
        cls,
        path: str | Path,
        *,
        timestamp: str | None = None,
        asset: str | None = None,
        price: str | None = None,
        exogenous: Iterable[str] = (),
    ) -> MarketData:
        """The history in a Parquet file (packages `pyarrow` and `narwhals`, extra `data`).

        Args:
            path: the file.
            timestamp, asset, price, exogenous: as for `from_frame`.

        Raises:
            ImportError: a package is not installed.
            OSError: the file cannot be read.
            TypeError, ValueError: as for `from_frame`; the message begins with the path.
        """
        with frames.naming(path):
            table = frames.columns_of(frames.read_parquet(Path(path)))
            return cls._from_table(table, timestamp, asset, price, exogenous)

    @classmethod
    def _from_table(
        cls, table: frames.Table, timestamp: str | None, asset: str | None, price: str | None, exogenous: Iterable[str]
    ) -> MarketData:
        found = frames.read_layout(table, timestamp, asset, price, exogenous)
        return cls(found.prices, found.timestamps, assets=found.assets, fields=found.fields, exogenous=found.exogenous)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"MarketData never changes: {name!r} cannot be set; make a new one.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"MarketData never changes: {name!r} cannot be deleted.")

    def __len__(self) -> int:
        return len(self.prices)

    def __repr__(self) -> str:
        assets = "" if self.prices.ndim == 1 else f" of {self.n_assets} assets"
        dates = "" if self.timestamps is None else f", {self.timestamps[0]} to {self.timestamps[-1]}"
        more = "".join(f", {name}" for name in (*self.fields, *self.exogenous))
        return f"MarketData({len(self)} rows{assets}{dates}{more})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._parts,)

    def __copy__(self) -> MarketData:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> MarketData:
        memo.update({id(array): array for array in self.kernel_arrays})  # an environment holds them beside this object
        return self

    # ---- parts ----------------------------------------------------------------------------------

    def __getitem__(self, rows: slice) -> MarketData:
        """The rows of a slice, as views.

        Raises:
            TypeError: no slice; one row is `data.prices[row]`.
            ValueError: a step other than 1, or fewer than 2 rows.
        """
        if not isinstance(rows, slice):
            raise TypeError(f"The index is {rows!r}; expected a slice of rows such as data[100:500].")
        first, stop, step = rows.indices(len(self))
        if step != 1:
            raise ValueError(f"The slice has the step {rows.step}; expected neighbouring rows.")
        return self._rows(first, stop, f"data[{first}:{stop}]")

    def _rows(self, first: int, stop: int, what: str) -> MarketData:
        if stop - first < 2:
            raise ValueError(f"{what} has {max(stop - first, 0)} rows; expected at least 2.")
        return _restored(self._parts.between(first, stop))

    def between(self, start: Any = None, end: Any = None) -> MarketData:
        """The rows from one date to another, both included, as views.

        Args:
            start: a date; None: from the beginning.
            end: a date, with all that it holds: "2019" is the whole year, "2019-06-30" the whole day. None: to the end.

        Raises:
            ValueError: the history has no dates, or fewer than 2 rows between these.
        """
        first = 0 if start is None else self._first_row_at(start)
        stop = len(self) if end is None else self._first_row_at(as_date(end) + 1)
        return self._rows(first, stop, f"The time between {start} and {end}")

    def select(self, assets: Any) -> MarketData:
        """Some of the assets, in the order given; a single name gives the history of one asset, `(T,)`.

        Rows lie side by side in memory, so this copies, once.

        Args:
            assets: a name or column number, or a sequence of them.

        Raises:
            ValueError: no such asset, one that comes twice, or a single one with a price missing.
        """
        given = [assets] if isinstance(assets, (str, int, np.integer)) else list(assets)
        columns = [self._column(asset) for asset in given]
        if not columns:
            raise ValueError("select was given no asset; expected at least one.")
        if len(set(columns)) < len(columns):
            raise ValueError(f"assets is {assets!r}; expected every asset once.")

        def chosen(values: Array) -> Array:
            return values.reshape(len(self), -1)[:, columns]

        return MarketData(
            chosen(self.prices),
            self.timestamps,
            assets=None if self.assets is None else [self.assets[column] for column in columns],
            fields={name: chosen(values) for name, values in self.fields.items()},
            exogenous=self.exogenous,
        )

    def split(self, *points: Any, embargo: int = 0, history: int = 0) -> tuple[MarketData, ...]:
        """Cut at some rows into histories, one after the other, as views.

            rows     0 .............. point | embargo |.......................
            first    [=====================)
            second               [ history  |         [======================)

        Without `history` no row is in two of them. With `history=lookback` the first decision of a later part falls
        on the first row after the point and its embargo: its observation then reads rows before it.

        Args:
            points: rows or dates, in order. A date stands for the first row at or after it.
            embargo: rows left out after each point.
            history: rows of a later part before those.

        Returns:
            One history more than there are points.

        Raises:
            ValueError: points out of order, a part with fewer than 2 rows, or less history than asked for.
        """
        embargo = whole_number("embargo", embargo, minimum=0)
        history = whole_number("history", history, minimum=0)
        stops = [self._point(point) for point in points]
        return tuple(self._rows(*part) for part in cuts(points, stops, len(self), embargo, history))

    def _point(self, point: Any) -> int:
        if isinstance(point, (int, np.integer)) and not isinstance(point, bool):
            return int(point) + (len(self) if point < 0 else 0)
        return self._first_row_at(point)

    def _column(self, asset: Any) -> int:
        if isinstance(asset, str):
            if self.assets is None or asset not in self.assets:
                known = "none has a name" if self.assets is None else f"there are {', '.join(self.assets)}"
                raise ValueError(f"There is no asset {asset!r}: {known}.")
            return self.assets.index(asset)
        column = whole_number("assets", asset, minimum=0)
        if column >= self.n_assets:
            raise ValueError(f"There is no column {column}; expected 0 to {self.n_assets - 1}.")
        return column

    # ---- rows -----------------------------------------------------------------------------------

    def kernel_field(self, name: str) -> Array:
        """The memory of a field as kernels take it; see `kernel_arrays`."""
        return self._parts.fields[name]

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits, equal for equal prices, timestamps and fields and for no others."""
        if self._fingerprint is None:
            object.__setattr__(self, "_fingerprint", self._parts.fingerprint())
        assert self._fingerprint is not None
        return self._fingerprint

    def check_listed(self, first: Any, last: Any) -> None:
        """Raise unless every asset is listed in every row of some windows.

        Args:
            first, last: int `(K,)`, first and last row of each window.

        Raises:
            ValueError: a price is missing; the message names its row and column.
        """
        gaps = self._parts.gaps
        if not len(gaps):
            return
        first, last = np.atleast_1d(first), np.atleast_1d(last)
        bad = np.flatnonzero(gaps[last + 1] > gaps[first])
        if len(bad):
            begin, end = int(first[bad[0]]), int(last[bad[0]])
            row, column = np.argwhere(np.isnan(self.prices[begin : end + 1]))[0].tolist()
            place = place_text("prices", (begin + row, column), self.timestamps, self.assets)
            raise ValueError(
                f"{place} is NaN, and the window of rows {begin} to {end} contains it: an asset that is not listed "
                "cannot be held. Leave out the column, or choose other windows with options={'start': ...} or a "
                "sampler."
            )

    def row_of(self, date: Any) -> int:
        """The row of a date.

        Raises:
            ValueError: the history has no dates, or not this one; the message names the nearest ones.
        """
        return row_of(self._dates(date), date)

    def _first_row_at(self, date: Any) -> int:
        return first_row_at(self._dates(date), date)

    def _dates(self, date: Any) -> Dates:
        if self.timestamps is None:
            raise ValueError(f"{date!r} is a date, and this history has none: give a row, 0 to {len(self) - 1}.")
        return self.timestamps


def _restored(parts: Parts) -> MarketData:
    """A history of parts that have been checked, and that nobody else writes to."""
    data = MarketData.__new__(MarketData)
    data._settle(parts)
    return data


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def _read_only_mapping(arrays: Mapping[str, Array]) -> Mapping[str, Array]:
    return MappingProxyType({name: _read_only(array) for name, array in arrays.items()})
