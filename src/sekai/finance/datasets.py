"""Real price histories that installed packages carry with them, read as files: nothing is imported or downloaded."""

from __future__ import annotations

import csv
import gzip
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from sekai.finance.data import MarketData


@cache
def sp500() -> MarketData:
    """Daily closes of the S&P 500 index, 1999 to 2018, with their dates; bundled in the package `arch`.

    The index pays no dividends, so these are price returns, not total returns.

    Raises:
        ImportError: the package is not installed.
    """
    return _closes("arch", "data/sp500/sp500.csv.gz")


def _closes(package: str, file: str) -> MarketData:
    """Dates and closes of a CSV file with the columns `Date` (month/day/year) and `Close`."""
    with gzip.open(_package_folder(package) / file, "rt", encoding="utf-8", newline="") as lines:
        rows = [(row["Date"].split("/"), float(row["Close"])) for row in csv.DictReader(lines)]
    dates = [f"{int(year):04}-{int(month):02}-{int(day):02}" for (month, day, year), _ in rows]
    return MarketData([close for _, close in rows], np.array(dates, "datetime64[D]"))


def _package_folder(package: str) -> Path:
    # of a top-level package, find_spec looks for the file and imports nothing
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ImportError(
            f"This price history is bundled in the package {package!r}, which is not installed: "
            "pip install 'sekai-rl[data]'"
        )
    return Path(spec.origin).parent
