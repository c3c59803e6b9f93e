"""Histories from data frames and files: layouts, names, refusals with row and column."""

from __future__ import annotations

import datetime as dt
import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.finance import MarketData

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

DAYS = [dt.date(2020, 1, 2), dt.date(2020, 1, 3), dt.date(2020, 1, 6)]
BARS: dict[str, Any] = {
    "Date": DAYS,
    "Open": [9.0, 10.0, 11.0],
    "High": [11.0, 12.0, 13.0],
    "Low": [8.0, 9.0, 10.0],
    "Close": [10.0, 11.0, 12.0],
    "Adj Close": [1.0, 2.0, 3.0],
    "Volume": [100, 200, 0],
    "rate": [0.01, 0.02, 0.03],
}
LONG: dict[str, Any] = {
    "date": [DAYS[1], DAYS[2], DAYS[0], DAYS[1]],
    "symbol": ["B", "B", "A", "A"],
    "close": [20.0, 30.0, 1.0, 2.0],
    "volume": [5, 6, 7, 8],
    "rate": [0.2, 0.3, 0.1, 0.2],
}
KINDS = pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])


@KINDS
def test_bars_of_one_asset_bring_their_fields(table: Any) -> None:
    data = MarketData.from_frame(table(BARS), exogenous=["rate"])
    assert data.prices.tolist() == [10.0, 11.0, 12.0] and data.assets is None
    assert {name: values.tolist() for name, values in data.fields.items()} == {
        "open": [9.0, 10.0, 11.0],
        "high": [11.0, 12.0, 13.0],
        "low": [8.0, 9.0, 10.0],
        "volume": [100.0, 200.0, 0.0],
    }
    assert data.exogenous["rate"].tolist() == [0.01, 0.02, 0.03]
    assert data.timestamps is not None and data.timestamps.tolist() == DAYS
    adjusted = MarketData.from_frame(table({"day": DAYS, "Adj Close": [1.0, 2, 3]}), timestamp="day", price="Adj Close")
    assert adjusted.prices.tolist() == [1.0, 2.0, 3.0]


@KINDS
def test_rows_of_several_assets_are_lined_up_by_date(table: Any) -> None:
    data = MarketData.from_frame(table(LONG), exogenous=["rate"])
    assert data.assets == ("B", "A") and data.timestamps is not None and data.timestamps.tolist() == DAYS
    np.testing.assert_array_equal(data.prices, [[np.nan, 1.0], [20.0, 2.0], [30.0, np.nan]])
    np.testing.assert_array_equal(data.fields["volume"], [[np.nan, 7.0], [5.0, 8.0], [6.0, np.nan]])
    assert data.exogenous["rate"].tolist() == [0.1, 0.2, 0.3]


@KINDS
def test_other_columns_are_assets(table: Any) -> None:
    data = MarketData.from_frame(table({"time": DAYS, "A": [1, 2, 3], "B": [None, 5.0, 6.0]}))
    assert data.assets == ("A", "B")
    np.testing.assert_array_equal(data.prices, [[1.0, np.nan], [2.0, 5.0], [3.0, 6.0]])
    rows = MarketData.from_frame(table({"A": [1, 2, 3], "rate": [0.0, 0.1, 0.2]}), exogenous="rate")
    assert rows.timestamps is None and rows.prices.shape == (3,) and rows.assets == ("A",)


def test_an_index_of_pandas_is_a_column() -> None:
    index = pd.DatetimeIndex(DAYS)
    wide = MarketData.from_frame(pd.DataFrame({"A": [1.0, 2, 3], "B": [1.0, 2, 3]}, index=index))
    assert wide.assets == ("A", "B") and wide.timestamps is not None and wide.timestamps.dtype == "M8[D]"
    kept = pd.DataFrame({"A": [1.0, 2, 3, 4]})[1:]  # labels 1 to 3 are neither dates nor prices
    assert MarketData.from_frame(kept).prices.tolist() == [2.0, 3.0, 4.0]
    stacked = pd.DataFrame(LONG).set_index(["date", "symbol"])
    assert MarketData.from_frame(stacked).assets == ("B", "A")
    levels = pd.DataFrame(np.ones((3, 2)), columns=pd.MultiIndex.from_product([["Close"], ["A", "B"]]), index=index)
    with pytest.raises(TypeError, match=r"more than one level; expected one: frame.stack\(level=1\)"):
        MarketData.from_frame(levels)


def test_a_time_of_day_is_kept() -> None:
    hours = [dt.datetime(2020, 1, 2, hour) for hour in (9, 10, 11)]
    data = MarketData.from_frame(pl.DataFrame({"time": hours, "close": [1.0, 2, 3]}))
    assert data.timestamps is not None and data.timestamps.tolist() == hours


@pytest.mark.parametrize(
    ("table", "arguments", "error", "message"),
    [
        ({"A": [1.0, -2.0], "B": [1.0, 1.0]}, {}, ValueError, r"prices\[1, 0\] \(A\) is -2.0; expected finite prices"),
        ({"date": DAYS, "close": [1.0, 0.0, 1.0]}, {}, ValueError, r"close\[1\] \(2020-01-03\) is 0.0"),
        (
            {**BARS, "Low": [8.0, 10.5, 10.0]},
            {},
            ValueError,
            r"open\[1\] \(2020-01-03\) is 10.0, and low there is 10.5",
        ),
        ({**BARS, "Volume": [1, -1, 1]}, {}, ValueError, r"volume\[1\] \(2020-01-03\) is -1.0; expected .* at least 0"),
        (
            {"date": [DAYS[1], DAYS[0]], "close": [1.0, 2.0]},
            {},
            ValueError,
            r"date\[1\] is 2020-01-02, not after date\[0\], 2020-01-03",
        ),
        (
            {"date": [DAYS[1], DAYS[1]], "close": [1.0, 2.0]},
            {},
            ValueError,
            r"date\[1\] is 2020-01-03, not after date\[0\], 2020-01-03",
        ),
        (
            {"date": [DAYS[1]] * 2, "symbol": ["A", "A"], "close": [1.0, 2.0]},
            {},
            ValueError,
            "row 1 has A at 2020-01-03 twice; expected strictly increasing dates for each asset",
        ),
        (
            {"date": [DAYS[2], DAYS[0], DAYS[1]], "symbol": ["A", "B", "A"], "close": [1.0, 2.0, 3.0]},
            {},
            ValueError,
            "row 2 has A at 2020-01-03 after row 0, 2020-01-06",
        ),
        (
            {**LONG, "rate": [0.2, 0.3, 0.1, 0.5]},
            {"exogenous": ["rate"]},
            ValueError,
            r"'rate' is 0.2 in row 0, and 0.5 in another row of 2020-01-03; expected one number",
        ),
        ({"symbol": ["A"], "close": [1.0]}, {}, ValueError, "no column of dates to line them up by"),
        ({"date": DAYS, "symbol": ["A"] * 3}, {}, ValueError, "no column of their prices; expected 'close'"),
        ({"date": DAYS}, {}, ValueError, "There is no column of prices; the columns are 'date'"),
        (BARS, {"price": "last"}, ValueError, "price is 'last', and there is no such column; the columns are 'Date'"),
        (
            {"a": [1.0, 2.0], "note": ["ok", "bad"]},
            {},
            ValueError,
            "column 'note' has 'ok' in row 0; expected a number",
        ),
        ({"date": DAYS, "time": DAYS, "close": [1.0] * 3}, {}, ValueError, "'date', 'time' could all be the timestamp"),
        (
            {"time": [dt.datetime(2020, 1, d, tzinfo=dt.UTC) for d in (2, 3)], "close": [1.0, 2.0]},
            {},
            TypeError,
            "column 'time' has dates in the time zone UTC",
        ),
    ],
)
def test_what_is_wrong_is_named(table: Any, arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        MarketData.from_frame(pl.DataFrame(table), **arguments)


def test_other_objects_are_no_frames() -> None:
    for other in (BARS, np.ones(3), pl.LazyFrame(BARS)):
        with pytest.raises(TypeError, match=r"expected a table of pandas, polars \(not lazy\) or pyarrow"):
            MarketData.from_frame(other)


def test_files_give_what_frames_give(tmp_path: Path) -> None:
    frame = pl.DataFrame(BARS)
    frame.write_csv(tmp_path / "bars.csv")
    frame.write_parquet(tmp_path / "bars.parquet")
    (tmp_path / "bars.csv.gz").write_bytes(gzip.compress((tmp_path / "bars.csv").read_bytes()))
    expected = MarketData.from_frame(frame, exogenous=["rate"])
    for data in (
        MarketData.from_csv(tmp_path / "bars.csv", exogenous=["rate"]),
        MarketData.from_csv(str(tmp_path / "bars.csv.gz"), exogenous=["rate"]),
        MarketData.from_parquet(tmp_path / "bars.parquet", exogenous=["rate"]),
    ):
        assert repr(data) == repr(expected) and np.array_equal(data.prices, expected.prices)
        assert all(np.array_equal(data.fields[name], expected.fields[name]) for name in expected.fields)
        assert np.array_equal(data.timestamps, expected.timestamps)  # type: ignore[arg-type]


def test_a_csv_file_may_have_gaps_and_dates_of_another_form(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("\ufeffDate, A,B\n1/2/2020,1,\n1/3/2020, 2,5\n\n", encoding="utf-8")
    data = MarketData.from_csv(path, date_format="%m/%d/%Y")
    np.testing.assert_array_equal(data.prices, [[1.0, np.nan], [2.0, 5.0]])
    assert data.timestamps is not None and data.timestamps.tolist() == DAYS[:2] and data.assets == ("A", "B")


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("Date,Close\n2020-01-02,1\n2020-01-03,x\n", {}, "column 'Close' has 'x' in row 1; expected a number"),
        ("Date,Close\n2020-01-02,1\n2020-01-03,-1\n", {}, r"Close\[1\] \(2020-01-03\) is -1.0"),
        ("Date,Close\n2020-01-02,1\n2020-01-03\n", {}, "line 3 has 1 cells; expected 2"),
        ("Date,Close\n1/2/2020,1\n1/3/2020,2\n", {}, r"Date\[0\] is '1/2/2020'; expected an ISO date"),
        ("Day,Close\n2020-01-02,1\n,2\n", {"timestamp": "Day"}, r"Day\[1\] is not a date \(NaT\)"),
        ("Date,A,B\n2020-01-02,1,1\n1/3/2020,2,1\n", {}, r"Date\[1\] is '1/3/2020'; expected an ISO date"),
        (
            "Date,Close\n20200102,1\n20200103,2\n",
            {},
            r"Date\[0\] is the year 20200102; expected an ISO date such as '2020-01-31': from_csv reads 20200131 with "
            "date_format='%Y%m%d'",
        ),
        # long: the row is that of the file, not one among the dates
        ("Date,ticker,Close\n2020-01-02,A,1\n2020-01-02,B,2\n1/3/2020,B,2\n", {}, r"Date\[2\] is '1/3/2020'"),
        ("Date,ticker,Close\n2020-01-02,A,1\n2020-01-02,B,2\n,B,2\n", {}, r"Date\[2\] is not a date \(NaT\)"),
        (
            "Date,ticker,Close\n2020-01-02,A,1\n2020-01-02,B,2\n2020-01-03,A,\n2020-01-03,B,-2\n",
            {},
            r"Close\[3\] \(B, 2020-01-03\) is -2.0; expected finite prices above 0, .* \(1 of 4 rows are not\)",
        ),
        (
            "Date,Close,High\n2020-01-02,1,2\n2020-01-03,2,1\n",
            {},
            r"Close\[1\] \(2020-01-03\) is 2.0, and high there is 1.0; expected low <= open, close <= high",
        ),
        (
            "Date,ticker,Close,High\n2020-01-02,A,1,2\n2020-01-03,A,2,1\n2020-01-03,B,2,2\n",
            {},
            r"Close\[1, 0\] \(A, 2020-01-03\) is 2.0, and high there is 1.0",
        ),
        ("Date,Close\n2020-01-02,1\n", {"date_format": "%d.%m.%Y"}, "'2020-01-02' in row 0; expected a date in the fo"),
        ("Date,Close\n", {}, "prices has 0 rows; expected at least 2"),
        ("A,A\n1,2\n", {}, "expected different names"),
        ("", {}, "the file is empty"),
    ],
)
def test_a_bad_file_is_named_with_row_and_column(tmp_path: Path, text: str, arguments: Any, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"bad\.csv: .*{message}"):
        MarketData.from_csv(path, **arguments)


def test_dates_without_hyphens_are_read_by_their_format(tmp_path: Path) -> None:
    path = tmp_path / "compact.csv"
    path.write_text("Date,Close\n20200102,1\n20200103,2\n")
    data = MarketData.from_csv(path, date_format="%Y%m%d")
    assert data.timestamps is not None and data.timestamps.tolist() == DAYS[:2]


def test_nothing_of_the_sort_is_imported_before_it_is_needed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Date,Close\n2020-01-02,1\n2020-01-03,2\n")
    code = (
        f"import sys; import sekai.finance; sekai.finance.MarketData.from_csv({str(tmp_path / 'a.csv')!r});"
        "print(sorted({'narwhals', 'pandas', 'polars', 'pyarrow'} & set(sys.modules)))"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(sekai.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(ImportError, match=r"'narwhals', which is not installed: pip install 'sekai-rl\[data\]'"):
        MarketData.from_frame(pl.DataFrame(BARS))
