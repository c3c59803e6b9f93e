"""Checks of a market's arrays, which become private copies; a refusal names row, column, asset and date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.spaces.checks import has_masked_entries

Array = NDArray[np.float64]
Dates = NDArray[np.datetime64]

# a price beyond these is a slip, and its quotients and squares leave the range of floats
LOWEST, HIGHEST = 1e-100, 1e100
LAST_YEAR = np.datetime64("9999")  # NumPy reads 20200131 as a year
FIELDS = ("open", "high", "low", "volume", "spread")
PRICE_FIELDS = FIELDS[:3]
ROUNDING = 1e-6  # by which a vendor's prices of one bar may contradict each other


def as_columns(name: str, given: Any) -> Array:
    """A private float64 copy, `(T,)` of one asset, `(T, N)` of several, `T` at least 2; values are not looked at."""
    if has_masked_entries(given):
        raise TypeError(f"{name} is a masked array with masked entries; fill or leave out these rows.")
    try:
        raw = np.asarray(given)
        array = np.array(raw, np.float64, order="C")
    except (ValueError, TypeError) as error:
        raise TypeError(f"{name} must be numbers, shape (T,) or (T, N): {error}.") from None
    if raw.dtype.kind not in "iufO":
        raise TypeError(f"{name} has dtype {raw.dtype}; expected numbers: convert the column to float.")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.reshape(-1)
    if array.ndim not in (1, 2) or 0 in array.shape[1:]:
        raise ValueError(f"{name} has shape {array.shape}; expected (T,), or (T, N) with a column for each asset.")
    if len(array) < 2:
        raise ValueError(f"{name} has {len(array)} rows; expected at least 2.")
    return array


def check_prices(
    prices: Array,
    dates: NDArray[Any] | None,
    assets: Sequence[str] | None,
    name: str = "prices",
    *,
    owners: Sequence[str] | None = None,
) -> None:
    """Raise for a price that is none; NaN is one among several columns only.

    Args:
        prices: `(T,)` of one asset, `(T, N)` of several.
        dates, assets: of the rows and columns, where they are known.
        name: what the prices are called.
        owners: `(T,)`, the asset of each row, where the prices of several stand one below the other.
    """
    bad = ~((prices >= LOWEST) & (prices <= HIGHEST))
    if prices.ndim == 2 or owners is not None:
        bad &= ~np.isnan(prices)
    if bad.any():
        rows = int(bad.reshape(len(bad), -1).any(axis=1).sum())
        who = assets if owners is None else [owners[int(bad.argmax())]]
        raise ValueError(
            f"{_first(name, prices, bad, dates, who)}; expected finite prices above 0, within "
            f"[{LOWEST}, {HIGHEST}] ({rows} of {len(bad)} rows are not): repair or leave out these rows."
        )


def check_fields(
    fields: Mapping[str, Any] | None,
    prices: Array,
    dates: Dates | None,
    assets: Sequence[str] | None,
    price: str = "prices",
) -> dict[str, Array]:
    """Private copies of the fields, each of the shape of `prices`, which are called `price`."""
    checked: dict[str, Array] = {}
    for name, given in {} if fields is None else _named("fields", fields).items():
        if name not in FIELDS:
            raise ValueError(f"fields has the key {name!r}; expected {', '.join(FIELDS)}. Other series are exogenous.")
        values = as_columns(name, given)
        if values.shape != prices.shape:
            raise ValueError(f"{name} has shape {values.shape}; expected {prices.shape}, that of {price}.")
        low, what = (LOWEST, "above 0") if name in PRICE_FIELDS else (0.0, "of at least 0")
        bad = ~((values >= low) & (values <= HIGHEST)) & ~(np.isnan(values) & np.isnan(prices))
        if bad.any():
            raise ValueError(
                f"{_first(name, values, bad, dates, assets)}; expected numbers {what}, NaN only where the price is."
            )
        checked[name] = values
    _check_bars(checked, prices, dates, assets, price)
    return checked


def _check_bars(
    fields: Mapping[str, Array], prices: Array, dates: Dates | None, assets: Sequence[str] | None, price: str
) -> None:
    """Raise for a bar that opens, closes or goes below its low, or above its high."""
    inside = {price: prices, **{name: fields[name] for name in PRICE_FIELDS if name in fields}}
    for edge, sign in (("low", 1.0), ("high", -1.0)):
        for name, values in inside.items() if edge in fields else ():
            bad = sign * (values - fields[edge]) < -ROUNDING * values
            if bad.any():
                place = np.argwhere(bad)[0]
                raise ValueError(
                    f"{_first(name, values, bad, dates, assets)}, and {edge} there is {fields[edge][*place]}; expected "
                    "low <= open, close <= high: are some of them adjusted for splits and dividends, and others not?"
                )


def check_exogenous(exogenous: Mapping[str, Any] | None, rows: int, dates: Dates | None) -> dict[str, Array]:
    """Private copies of the exogenous series, each `(T,)` and finite."""
    checked: dict[str, Array] = {}
    for name, given in {} if exogenous is None else _named("exogenous", exogenous).items():
        label = f"exogenous[{name!r}]"
        values = as_columns(label, given)
        if values.shape != (rows,):
            raise ValueError(f"{label} has shape {values.shape}; expected {(rows,)}, a number for each row.")
        bad = ~np.isfinite(values)
        if bad.any():
            raise ValueError(f"{_first(label, values, bad, dates, None)}; expected finite numbers in every row.")
        checked[name] = values
    return checked


def check_assets(assets: Any, count: int) -> tuple[str, ...] | None:
    """The names of the assets, None where there are none."""
    if assets is None:
        return None
    names = (assets,) if isinstance(assets, str) else tuple(assets)
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(f"assets contains {name!r}; expected names, as strings.")
    if len(names) != count:
        raise ValueError(f"assets has {len(names)} names; expected {count}, one for each column of prices.")
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise ValueError(f"assets has {twice!r} twice; expected a name of its own for each column.")
    return names


def check_timestamps(timestamps: Any, rows: int, name: str = "timestamps") -> Dates:
    """A private copy of the dates, strictly increasing; messages call them `name`."""
    dates = as_dates(timestamps, rows, name)
    late = np.flatnonzero(dates[1:] <= dates[:-1])
    if len(late):
        row = int(late[0]) + 1
        raise ValueError(
            f"{name}[{row}] is {dates[row]}, not after {name}[{row - 1}], {dates[row - 1]}; expected strictly "
            "increasing dates: sort the rows and drop duplicates."
        )
    return dates


def as_dates(given: Any, rows: int, name: str) -> Dates:
    """A private copy of dates in any order, one for each row."""
    if has_masked_entries(given):
        raise TypeError(f"{name} is a masked array with masked entries; every row needs a date.")
    raw = np.asarray(given)
    if raw.dtype.kind not in "MOU" or (raw.dtype.kind == "O" and not all(map(_is_date, raw.flat))):
        raise TypeError(
            f"{name} has dtype {raw.dtype}; expected dates without a time zone (datetime64, datetime, date or "
            "ISO strings): convert numbers with np.asarray(seconds, 'datetime64[s]')."
        )
    try:
        dates: Dates = np.array(raw, "datetime64")
    except ValueError:
        row, value = next((row, value) for row, value in enumerate(raw.flat) if not _parses(value))
        raise ValueError(f"{name}[{row}] is {str(value)!r}; expected an ISO date such as '2020-01-31'.") from None
    if dates.shape != (rows,):
        raise ValueError(f"{name} has shape {dates.shape}; expected {(rows,)}, one for each row of prices.")
    if np.isnat(dates).any():
        row = int(np.flatnonzero(np.isnat(dates))[0])
        raise ValueError(f"{name}[{row}] is not a date (NaT); expected one for each row.")
    far = np.flatnonzero(dates.astype("datetime64[Y]") > LAST_YEAR)
    if len(far):
        row = int(far[0])
        raise ValueError(
            f"{name}[{row}] is the year {dates[row].astype('datetime64[Y]')}; expected an ISO date such as "
            "'2020-01-31': from_csv reads 20200131 with date_format='%Y%m%d'."
        )
    return dates


def _named(name: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise TypeError(f"{name} is of type {type(given).__name__}; expected a dict with names as keys.")
    return given


def _first(
    name: str, values: Array, bad: NDArray[np.bool_], dates: NDArray[Any] | None, assets: Sequence[str] | None
) -> str:
    """The first bad value and its place: `prices[3, 1] (AAPL, 2020-01-06) is -2.0`."""
    place = np.argwhere(bad)[0].tolist()
    return f"{place_text(name, place, dates, assets)} is {values[*place]}"


def place_text(name: str, place: Sequence[int], dates: NDArray[Any] | None, assets: Sequence[str] | None) -> str:
    """A place in words, with its asset and date where they are known: `prices[3, 1] (AAPL, 2020-01-06)`."""
    asset = [] if assets is None else [assets[place[1] if len(place) > 1 else 0]]
    known = [*asset, *([] if dates is None else [str(dates[place[0]])])]
    return f"{name}[{', '.join(map(str, place))}]" + (f" ({', '.join(known)})" if known else "")


def _parses(value: Any) -> bool:
    try:
        np.datetime64(value)
    except ValueError:
        return False
    return True


def _is_date(value: Any) -> bool:
    # a date with a time zone would lose it silently
    return isinstance(value, str) or (hasattr(value, "year") and getattr(value, "tzinfo", None) is None)
