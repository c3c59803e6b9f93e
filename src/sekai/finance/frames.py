"""Tables of prices: from files and data frames to the arrays of a `MarketData`. See `MarketData.from_frame`."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.finance.validation import FIELDS, Array, Dates, as_dates, check_fields, check_prices, check_timestamps

Column = NDArray[Any]
#: columns by name, all of one length
Table = dict[str, Column]

TIMES = ("timestamp", "date", "datetime", "time")
ASSETS = ("asset", "symbol", "ticker")
PRICES = ("close",)


class Layout(NamedTuple):
    """Arguments of a `MarketData`."""

    prices: Array
    timestamps: Dates | None
    assets: list[str] | None
    fields: dict[str, Array]
    exogenous: dict[str, Array]


def read_layout(
    table: Table, timestamp: str | None, asset: str | None, price: str | None, exogenous: Iterable[str]
) -> Layout:
    """What the columns of a table are, by the names given, else by their usual names; see `MarketData.from_frame`.

    Dates and prices are checked here as well as by `MarketData`, so that a message names the column and the row of the
    table.
    """
    when = _find(table, "timestamp", timestamp, TIMES)
    who = _find(table, "asset", asset, ASSETS)
    what = _find(table, "price", price, PRICES)
    dates = None
    if when is not None:
        check = check_timestamps if who is None else as_dates
        dates = check(_whole_days(table[when]), len(table[when]), when)
    extra = [_required(table, "exogenous", name) for name in ([exogenous] if isinstance(exogenous, str) else exogenous)]
    series = {name: _numbers(name, table[name]) for name in extra}
    if what is None and who is None:
        assets = [name for name in table if name != when and name not in series]
        if not assets:
            raise ValueError(f"There is no column of prices; the columns are {_names(table)}.")
        prices = np.column_stack([_numbers(name, table[name]) for name in assets])
        return Layout(prices, dates, assets, {}, series)
    if what is None:
        raise ValueError(
            f"{who!r} names the assets, and there is no column of their prices; expected 'close', or another one named "
            f"by price=. The columns are {_names(table)}."
        )
    fields = {name: found for name in FIELDS if (found := _find(table, name, None, (name,))) not in (None, what)}
    values = {name: _numbers(str(column), table[str(column)]) for name, column in fields.items()}
    closes = _numbers(what, table[what])
    if who is None:
        check_prices(closes, dates, None, what)
        check_fields(values, closes, dates, None, what)
        return Layout(closes, dates, None, values, series)
    if dates is None:
        raise ValueError(
            f"{who!r} names the assets, and there is no column of dates to line them up by; expected one named "
            f"{', '.join(TIMES)}, or by timestamp=. The columns are {_names(table)}."
        )
    names = [str(name) for name in table[who]]
    check_prices(closes, dates, None, what, owners=names)
    layout = _pivot(dates, names, closes, values, series)
    check_fields(layout.fields, layout.prices, layout.timestamps, layout.assets, what)
    return layout


def _pivot(times: Dates, names: list[str], closes: Array, fields: dict[str, Array], series: dict[str, Array]) -> Layout:
    """Columns of assets side by side, from rows of assets one below the other."""
    assets = list(dict.fromkeys(names))
    place = {name: column for column, name in enumerate(assets)}
    columns = np.array([place[name] for name in names])
    order = np.argsort(columns, kind="stable")  # rows of each asset, as they stand
    late = (columns[order[1:]] == columns[order[:-1]]) & ~(times[order[1:]] > times[order[:-1]])
    if late.any():
        before, row = order[:-1][late][0], order[1:][late][0]
        what = "twice" if times[row] == times[before] else f"after row {before}, {times[before]}"
        raise ValueError(
            f"row {row} has {names[row]} at {times[row]} {what}; expected strictly increasing dates for each asset: "
            "sort the rows and drop duplicates."
        )
    moments, rows = np.unique(times, return_inverse=True)

    def wide(values: Array) -> Array:
        spread = np.full((len(moments), len(assets)), np.nan)
        spread[rows, columns] = values
        return spread

    common: dict[str, Array] = {}
    for name, values in series.items():
        common[name] = np.empty(len(moments))
        common[name][rows] = values
        odd = np.flatnonzero((common[name][rows] != values) & (values == values))
        if len(odd):
            raise ValueError(
                f"{name!r} is {values[odd[0]]} in row {odd[0]}, and {common[name][rows[odd[0]]]} in another row of "
                f"{times[odd[0]]}; expected one number for a date, since an exogenous series belongs to no asset."
            )
    return Layout(wide(closes), moments, assets, {name: wide(values) for name, values in fields.items()}, common)


def _find(table: Table, role: str, given: str | None, usual: Sequence[str]) -> str | None:
    """The column that plays a role: the one given, else the one with a usual name."""
    if given is not None:
        return _required(table, role, given)
    found = [name for name in table if name.lower() in usual]
    if len(found) > 1:
        raise ValueError(
            f"The columns {', '.join(map(repr, found))} could all be the {role}; leave out all but one"
            + (f", or choose with {role}=." if role in ("timestamp", "asset", "price") else ".")
        )
    return found[0] if found else None


def _required(table: Table, role: str, name: Any) -> str:
    if name not in table:
        raise ValueError(f"{role} is {name!r}, and there is no such column; the columns are {_names(table)}.")
    return str(name)


def _names(table: Table) -> str:
    return ", ".join(map(repr, table))


def _numbers(name: str, column: Column) -> Array:
    """A column as float64; texts are read as numbers, empty ones as NaN."""
    if column.dtype.kind not in "iufUO":
        raise TypeError(f"column {name!r} has dtype {column.dtype}; expected numbers.")
    try:
        return column.astype(np.float64)
    except (ValueError, TypeError):
        values = np.empty(len(column))
        for row, value in enumerate(column):
            try:
                values[row] = np.nan if value is None or value == "" else float(value)
            except (ValueError, TypeError):
                raise ValueError(
                    f"column {name!r} has {str(value)!r} in row {row}; expected a number. Is it a price at all? Name "
                    "the columns with timestamp=, asset=, price= and exogenous=, and leave out the others."
                ) from None
        return values


def _whole_days(dates: Column) -> Column:
    """Dates whose time of day is always midnight as days, others as they are."""
    try:
        moments: Column = dates if dates.dtype.kind == "M" else np.array(dates, "datetime64")
    except (ValueError, TypeError):
        return dates  # as_dates says what is wrong with them
    days = moments.astype("datetime64[D]")
    return days if bool(((days == moments) | np.isnat(moments)).all()) else moments


def columns_of(frame: Any) -> Table:
    """The columns of a data frame of pandas, polars or pyarrow."""
    nw = needed("narwhals")
    native = frame
    if nw.dependencies.is_pandas_dataframe(frame):
        if frame.columns.nlevels > 1:
            raise TypeError(
                "The columns have more than one level; expected one: frame.stack(level=1) puts the assets below one "
                "another (long layout), frame['Close'] leaves the prices alone (wide layout)."
            )
        native = _with_index(frame)
    try:
        table = nw.from_native(native, eager_only=True)
    except TypeError:
        raise TypeError(
            f"frame is of type {type(frame).__name__}; expected a table of pandas, polars (not lazy) or pyarrow."
        ) from None
    columns: Table = {}
    for name in table.columns:
        series = table[name]
        kind = series.dtype
        if kind == nw.Datetime and kind.time_zone is not None:
            raise TypeError(
                f"column {name!r} has dates in the time zone {kind.time_zone}; expected dates without one: convert "
                "them to the zone of the market, then drop it."
            )
        columns[str(name)] = (series.cast(nw.Float64) if kind.is_numeric() else series).to_numpy()
    return columns


def _with_index(frame: Any) -> Any:
    """A pandas frame with its index among the columns, where that has a name or is one of dates."""
    index = frame.index
    if index.nlevels == 1 and index.name is None:
        if index.inferred_type != "datetime64":
            return frame
        frame = frame.rename_axis("timestamp")
    return frame.reset_index()


def read_csv(path: Path) -> Table:
    """The columns of a CSV file, as texts."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as lines:
        rows = csv.reader(lines)
        header = [name.strip() for name in next(rows, [])]
        if not header:
            raise ValueError("the file is empty; expected a line of column names, and rows.")
        if len(set(header)) < len(header):
            raise ValueError(f"the columns are {', '.join(map(repr, header))}; expected different names.")
        cells: list[list[str]] = []
        for row in rows:
            if row and len(row) != len(header):
                raise ValueError(f"line {rows.line_num} has {len(row)} cells; expected {len(header)}, as the header.")
            if row:
                cells.append(row)
    columns = zip(*cells, strict=True) if cells else [()] * len(header)
    return {name: np.char.strip(np.array(column, str)) for name, column in zip(header, columns, strict=True)}


def parse_dates(table: Table, timestamp: str | None, date_format: str) -> None:
    """Turn the texts of the column of dates into dates."""
    when = _find(table, "timestamp", timestamp, TIMES)
    if when is None:
        raise ValueError(f"date_format is given, and there is no column of dates; the columns are {_names(table)}.")
    dates = np.empty(len(table[when]), "datetime64[us]")
    for row, text in enumerate(table[when].tolist()):
        try:
            dates[row] = datetime.strptime(text, date_format)
        except ValueError:
            raise ValueError(
                f"column {when!r} has {text!r} in row {row}; expected a date in the format {date_format!r}."
            ) from None
    table[when] = dates


def read_parquet(path: Path) -> Any:
    """The table in a Parquet file."""
    return needed("pyarrow.parquet").read_table(path)


def needed(module: str) -> Any:
    """A module of the extra `data`, imported."""
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(
            f"This needs the package {module.partition('.')[0]!r}, which is not installed: pip install 'sekai-rl[data]'"
        ) from None


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Put the path of a file before the text of what is wrong with it."""
    try:
        yield
    except TypeError as error:
        raise TypeError(f"{path}: {error}") from error
    except ValueError as error:  # a UnicodeDecodeError is one, and takes more than a text
        raise ValueError(f"{path}: {error}") from error
