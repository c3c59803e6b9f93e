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
    assert len(data) == 5031 and repr(data) == "MarketData(5031 rows, 1999-01-04 to 2018-12-31)"
    assert data.prices[0] == 1228.099976 and data.timestamps is not None
    assert data.prices[data.row_of("2008-11-20")] == pytest.approx(752.44, abs=0.01)  # the low of that crisis year
    assert datasets.sp500() is data


def test_reading_a_history_imports_neither_the_package_it_lies_in_nor_a_data_frame() -> None:
    code = (
        "import sys; from sekai.finance import datasets; datasets.sp500();"
        "print(sorted({'arch', 'pandas', 'scipy'} & set(sys.modules)))"
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
        datasets._closes("no_such_package", "x.csv.gz")
