"""Bundled histories: read as files of packages that are never imported."""

from __future__ import annotations

import csv
import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sekai
from sekai.finance import datasets


def test_the_sp500_history_has_its_known_ends() -> None:
    data = datasets.sp500()
    assert len(data) == 5031 and data.timestamps is not None
    assert repr(data) == "MarketData(5031 rows, 1999-01-04 to 2018-12-31, open, high, low, volume)"
    assert data.prices[0] == 1228.099976 and data.fields["open"][0] == 1229.22998
    assert data.prices[data.row_of("2008-11-20")] == pytest.approx(752.44, abs=0.01)  # the low of that crisis year
    assert datasets.sp500() is data


def test_the_nasdaq_history_has_its_known_ends() -> None:
    data = datasets.nasdaq()
    assert repr(data) == "MarketData(5031 rows, 1999-01-04 to 2018-12-31, open, high, low, volume)"
    assert [data.fields[name][0] for name in data.fields] == [2207.540039, 2233.570068, 2192.679932, 936660000.0]
    assert data.prices[0] == 2208.050049
    # the day on which the bubble was largest
    assert data.prices[data.row_of("2000-03-10")] == pytest.approx(5048.62, abs=0.01)
    zeros = np.flatnonzero(data.fields["volume"] == 0)
    assert data.timestamps is not None and [str(day) for day in data.timestamps[zeros]] == ["2015-05-12", "2018-01-09"]


def test_the_stocks_are_all_but_one_of_the_file() -> None:
    data = datasets.us_stocks()
    assert repr(data) == "MarketData(8313 rows of 19 assets, 1990-01-02 to 2022-12-28)" and data.assets is not None
    assert "RRC" not in data.assets and data.assets[0] == "AAPL" and data.assets[-1] == "XOM"
    assert data.prices[0, [0, -3, -2, -1]].tolist() == [0.264, 0.31, 3.653, 4.068]  # UNH, WMT, XOM: beyond RRC
    assert data.prices[-1, -1] == 106.627


def test_reading_a_history_imports_neither_the_package_it_lies_in_nor_a_data_frame() -> None:
    code = (
        "import sys; from sekai.finance import datasets; datasets.sp500(); datasets.us_stocks();"
        "print(sorted({'arch', 'skfolio', 'pandas', 'narwhals', 'scipy'} & set(sys.modules)))"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(sekai.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_adjusted_closes_equal_closes_in_that_file() -> None:
    path = datasets._package_folder("arch") / "data/sp500/sp500.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["Adj Close"] for row in rows] == [row["Close"] for row in rows]
    assert np.array_equal(datasets.sp500().prices, [float(row["Close"]) for row in rows])


def test_a_missing_package_is_named_with_the_way_to_get_it() -> None:
    with pytest.raises(ImportError, match=r"'no_such_package', which is not installed: pip install 'sekai-rl\[data\]'"):
        datasets._package_folder("no_such_package")
