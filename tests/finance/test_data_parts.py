"""Fields and parts of a `MarketData`: what slices, dates, splits and selections hold, and what they share."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.finance import MarketData

DAYS = np.arange("2019-12-28", "2020-01-07", dtype="M8[D]")
CODED = 100.0 * np.arange(1, 11)[:, None] + [1, 2, 3]  # row and column of a price in its digits
DATA = MarketData(CODED, DAYS, assets=["A", "B", "C"], fields={"volume": CODED}, exogenous={"rate": np.arange(10.0)})


def test_fields_stand_beside_the_prices_and_never_change() -> None:
    assert DATA.fields["volume"][4, 2] == 503.0 and DATA.exogenous["rate"][4] == 4.0 and DATA.assets == ("A", "B", "C")
    assert repr(DATA) == "MarketData(10 rows of 3 assets, 2019-12-28 to 2020-01-06, volume, rate)"
    with pytest.raises(ValueError, match="read-only"):
        DATA.fields["volume"][0, 0] = 1.0
    with pytest.raises(TypeError, match="assignment"):
        DATA.fields["volume"] = CODED  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"fields": {"close": [1, 2]}}, ValueError, "fields has the key 'close'; expected open, high, low, volume, sp"),
        ({"fields": [1, 2]}, TypeError, "fields is of type list; expected a dict"),
        ({"fields": {"open": [1, 2, 3]}}, ValueError, r"open has shape \(3,\); expected \(2,\), that of prices"),
        ({"fields": {"open": [1, np.nan]}}, ValueError, r"open\[1\] \(A\) is nan; expected numbers above 0, NaN only"),
        ({"fields": {"spread": [0, -1]}}, ValueError, r"spread\[1\] \(A\) is -1.0; expected numbers of at least 0"),
        (
            {"fields": {"high": [5, 1.9]}},
            ValueError,
            r"prices\[1\] \(A\) is 2.0, and high there is 1.9; expected low <=",
        ),
        ({"fields": {"low": [1, 2], "high": [5, 5], "open": [0.5, 2]}}, ValueError, r"open\[0\] \(A\) is 0.5, and low"),
        ({"exogenous": {"rate": [1, np.inf]}}, ValueError, r"exogenous\['rate'\]\[1\] is inf; expected finite"),
        ({"exogenous": {"rate": [1, 2, 3]}}, ValueError, r"exogenous\['rate'\] has shape \(3,\); expected \(2,\)"),
        ({"assets": ["A", "B"]}, ValueError, "assets has 2 names; expected 1"),
        ({"assets": [1]}, TypeError, "assets contains 1; expected names"),
    ],
)
def test_bad_fields_are_refused_with_row_and_name(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        MarketData([1.0, 2.0], **{"assets": "A", **arguments})


def test_names_come_once_and_a_field_may_be_missing_where_the_price_is() -> None:
    with pytest.raises(ValueError, match="assets has 'A' twice"):
        MarketData(np.ones((2, 2)), assets=["A", "A"])
    prices = [[1.0, np.nan], [1.0, 2.0]]
    assert np.isnan(MarketData(prices, fields={"open": prices}).fields["open"][0, 1])
    MarketData([1.0, 2.0], fields={"high": [1.0, 2.0 * (1 - 1e-9)]})  # rounding of a vendor


def test_a_slice_is_a_view_of_everything() -> None:
    part = DATA[2:6]
    assert part.prices.tolist() == CODED[2:6].tolist() and len(part) == 4
    assert part.log_returns.tolist() == DATA.log_returns[2:5].tolist()
    assert part.timestamps is not None and part.timestamps.tolist() == DAYS[2:6].tolist()
    assert part.exogenous["rate"].tolist() == [2.0, 3.0, 4.0, 5.0] and part.assets == DATA.assets
    for mine, whole in (
        (part.prices, DATA.prices),
        (part.log_returns, DATA.log_returns),
        (part.timestamps, DATA.timestamps),
        (part.fields["volume"], DATA.fields["volume"]),
        (part.exogenous["rate"], DATA.exogenous["rate"]),
        *zip(part.kernel_arrays, DATA.kernel_arrays, strict=True),
    ):
        assert np.shares_memory(mine, whole)  # type: ignore[arg-type]
    assert all(array.flags.c_contiguous and array.flags.writeable for array in part.kernel_arrays)
    assert DATA[-3:].prices[0, 0] == 801.0 and part[1:3].prices.tolist() == CODED[3:5].tolist()


def test_gaps_are_found_in_parts_as_in_the_whole() -> None:
    prices = np.where(np.arange(12).reshape(6, 2) == 5, np.nan, 1.0)  # row 2, column 1
    part = MarketData(prices, assets=["A", "B"])[1:]
    part.check_listed(2, 4)
    with pytest.raises(ValueError, match=r"prices\[1, 1\] \(B\) is NaN, and the window of rows 0 to 2"):
        part.check_listed(0, 2)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (3, TypeError, r"The index is 3; expected a slice of rows such as data\[100:500\]"),
        (slice(0, 9, 2), ValueError, "has the step 2; expected neighbouring rows"),
        (slice(3, 4), ValueError, r"data\[3:4\] has 1 rows; expected at least 2"),
    ],
)
def test_what_is_no_slice_of_rows_is_refused(rows: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        DATA[rows]


@pytest.mark.parametrize(
    ("start", "end", "rows"),
    [
        ("2019-12-30", "2020-01-02", (2, 6)),  # both days included
        (None, "2019", (0, 4)),  # the whole year
        ("2020", None, (4, 10)),
        ("2019-12", "2020-01", (0, 10)),
        ("1999", np.datetime64("2019-12-29"), (0, 2)),
    ],
)
def test_dates_bound_a_part_with_all_that_they_hold(start: Any, end: Any, rows: tuple[int, int]) -> None:
    part = DATA.between(start, end)
    assert part.prices[:, 0].tolist() == CODED[slice(*rows), 0].tolist() and np.shares_memory(part.prices, DATA.prices)


def test_a_day_ends_with_its_last_moment() -> None:
    hours = np.arange("2020-01-01T00", "2020-01-04T00", dtype="M8[h]")
    assert len(MarketData(np.ones(72), hours).between("2020-01-02", "2020-01-03")) == 48


def test_dates_need_dates_and_rows() -> None:
    with pytest.raises(ValueError, match="The time between 2021 and None has 0 rows"):
        DATA.between("2021")
    with pytest.raises(ValueError, match="this history has none"):
        MarketData([1.0, 2.0]).between("2021")
    with pytest.raises(ValueError, match="'soon' is no date"):
        DATA.between("soon")


def test_a_selection_has_the_assets_in_the_order_given() -> None:
    part = DATA.select(["C", "A"])
    assert part.assets == ("C", "A") and part.prices[3].tolist() == [403.0, 401.0]
    assert part.fields["volume"][3].tolist() == [403.0, 401.0] and part.exogenous["rate"][3] == 3.0
    assert part.kernel_arrays[0][:4].tolist() == [103.0, 101.0, 203.0, 201.0]
    single = DATA.select("B")
    assert (
        single.prices.shape == (10,)
        and single.assets == ("B",)
        and DATA.select([1]).prices.tolist() == CODED[:, 1].tolist()
    )


@pytest.mark.parametrize(
    ("assets", "message"),
    [
        ("D", "There is no asset 'D': there are A, B, C"),
        ([3], "There is no column 3; expected 0 to 2"),
        (["A", 0], "expected every asset once"),
        ([], "no asset; expected at least one"),
    ],
)
def test_unknown_assets_are_refused(assets: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DATA.select(assets)


def test_a_split_leaves_out_the_embargo_and_reads_history_when_asked() -> None:
    def rows(*parts: MarketData) -> list[list[int]]:
        return [(part.prices[:, 0] // 100 - 1).astype(int).tolist() for part in parts]

    assert rows(*DATA.split(4, 8)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert rows(*DATA.split("2020-01", embargo=2)) == [[0, 1, 2, 3], [6, 7, 8, 9]]
    # the first decision after 3 rows of history is row 6 = 4 + 2
    assert rows(*DATA.split(4, embargo=2, history=3)) == [[0, 1, 2, 3], [3, 4, 5, 6, 7, 8, 9]]
    assert rows(*DATA.split(-4)) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9]]
    assert rows(*DATA.split()) == [list(range(10))]
    assert all(np.shares_memory(part.prices, DATA.prices) for part in DATA.split(4, 8))


@given(st.integers(2, 60), st.lists(st.integers(0, 60), max_size=4), st.integers(0, 5))
def test_no_row_is_in_two_parts_of_a_split(n: int, points: list[int], embargo: int) -> None:
    try:
        parts = MarketData(np.arange(1.0, n + 1)).split(*points, embargo=embargo)
    except ValueError:
        return
    rows = np.concatenate([part.prices for part in parts])
    assert (np.diff(rows) > 0).all() and len(rows) == n - embargo * len(points)


@pytest.mark.parametrize(
    ("points", "arguments", "message"),
    [
        ((8, 4), {}, r"points is \(8, 4\), rows \[8, 4\]; expected rows in order"),
        ((10,), {}, r"points is \(10,\), rows \[10\]; expected rows in order, within the history"),
        ((9,), {}, "Part 1 of the split, rows 9 to 9, has 1 rows"),
        ((4,), {"history": 5}, r"points\[0\] is 4, row 4, which has no history of 5 rows before it"),
        ((4,), {"embargo": 5}, "Part 1 of the split, rows 9 to 9, has 1 rows"),
    ],
)
def test_a_split_that_does_not_fit_is_refused(points: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DATA.split(*points, **arguments)


def test_a_pickle_holds_a_part_only_and_all_that_belongs_to_it() -> None:
    many = MarketData(np.ones((1000, 3)))
    assert len(pickle.dumps(many[10:20])) < 1500
    again = pickle.loads(pickle.dumps(DATA[2:6]))
    assert repr(again) == repr(DATA[2:6]) and np.array_equal(again.fields["volume"], CODED[2:6])
    assert np.array_equal(again.log_returns, DATA.log_returns[2:5]) and not again.prices.flags.writeable


def test_an_environment_and_its_history_share_memory_in_copies_too() -> None:
    from sekai.envs.finance import PortfolioEnv

    env = PortfolioEnv(data=DATA, lookback=2, episode_length=3)
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert other._slots.prices is other.data.kernel_arrays[0]
        assert other._slots.returns is other.data.kernel_arrays[1]
    assert copy.deepcopy(env).data is DATA
