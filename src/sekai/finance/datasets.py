"""Real price histories that installed packages carry with them, read as files: nothing is imported or downloaded."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from sekai.finance.data import MarketData


@cache
def sp500() -> MarketData:
    """Daily bars of the S&P 500 index, 1999 to 2018: closes, open, high, low, volume; bundled in the package `arch`.

    The index pays no dividends, so these are price returns, not total returns.

    Raises:
        ImportError: the package is not installed.
    """
    return _index("data/sp500/sp500.csv.gz")


@cache
def nasdaq() -> MarketData:
    """Daily bars of the NASDAQ Composite index, 1999 to 2018: as `sp500`, bundled in the package `arch`.

    Two days (2015-05-12 and 2018-01-09) have a volume of 0: the file lacks it.

    Raises:
        ImportError: the package is not installed.
    """
    return _index("data/nasdaq/nasdaq.csv.gz")


@cache
def us_stocks() -> MarketData:
    """Daily closes of 19 large US stocks, 1990 to 2022, adjusted for splits and dividends; bundled in `skfolio`.

    Its twentieth, Range Resources (RRC), is left out. All 19 were large at the end of these years: returns of such a
    choice are better than those of stocks chosen at the beginning.

    Raises:
        ImportError: the package is not installed.
    """
    stocks = MarketData.from_csv(_package_folder("skfolio") / "datasets/data/sp500_dataset.csv.gz")
    return stocks.select([name for name in stocks.assets or () if name != "RRC"])


def _index(file: str) -> MarketData:
    return MarketData.from_csv(_package_folder("arch") / file, date_format="%m/%d/%Y")


def _package_folder(package: str) -> Path:
    # of a top-level package, find_spec looks for the file and imports nothing
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ImportError(
            f"This price history is bundled in the package {package!r}, which is not installed: "
            "pip install 'sekai-rl[data]'"
        )
    return Path(spec.origin).parent
