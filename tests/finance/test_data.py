"""`MarketData`: what is accepted, what is refused and how the refusal reads, what is shared."""

from __future__ import annotations

import copy
import datetime as dt
import gc
import pickle
from typing import Any

import numpy as np
import pytest

from sekai.finance import MarketData
from sekai.finance.sharing import shared_history

DAYS = np.array(["2020-01-02", "2020-01-03", "2020-01-06"], "datetime64[D]")


def test_log_returns_are_those_of_the_prices() -> None:
    data = MarketData([100, 110, 99])
    assert data.prices.dtype == np.float64 and data.log_returns.dtype == np.float32
    # ln(110/100) = 0.0953102, ln(99/110) = ln 0.9 = -0.1053605
    assert data.log_returns.tolist() == pytest.approx([0.0953102, -0.1053605], abs=1e-7)
    assert len(data) == 3 and repr(data) == "MarketData(3 rows)"


@pytest.mark.parametrize(
    "dates", [DAYS, DAYS.tolist(), [str(day) for day in DAYS], [dt.datetime(2020, 1, d) for d in (2, 3, 6)]]
)
def test_dates_come_in_many_forms(dates: Any) -> None:
    data = MarketData([1.0, 2.0, 3.0], dates)
    assert data.timestamps is not None and (data.timestamps == DAYS).all()
    assert data.row_of("2020-01-06") == data.row_of(dt.date(2020, 1, 6)) == data.row_of(DAYS[2]) == 2


def test_a_column_is_a_history() -> None:
    assert MarketData(np.ones((4, 1))).prices.shape == (4,)


def test_columns_are_assets_and_returns_go_down_the_rows() -> None:
    data = MarketData([[100, 1], [110, 1], [99, 2]], DAYS)
    assert data.n_assets == 2 and data.prices.shape == (3, 2) and MarketData([1, 2]).n_assets == 1
    # ln 1.1 and 0; ln 0.9 and ln 2
    expected = [[0.0953102, 0.0], [-0.1053605, 0.6931472]]
    np.testing.assert_allclose(data.log_returns, expected, atol=1e-7)
    assert repr(data) == "MarketData(3 rows of 2 assets, 2020-01-02 to 2020-01-06)"


@pytest.mark.parametrize("order", ["C", "F"])
def test_kernels_get_the_memory_of_the_history_row_after_row(order: Any) -> None:
    data = MarketData(np.array([[1.0, 2.0], [3.0, 4.0]], order=order))
    prices, returns = data.kernel_arrays
    assert prices.tolist() == [1.0, 2.0, 3.0, 4.0] and returns.tolist() == data.log_returns.reshape(-1).tolist()
    assert np.shares_memory(prices, data.prices) and np.shares_memory(returns, data.log_returns)


def test_a_window_in_which_an_asset_is_not_listed_is_refused_with_row_and_column() -> None:
    nan = np.nan
    data = MarketData(
        [[1.0, nan], [1.0, 1.0], [1.0, 1.0], [nan, 1.0]], np.arange("2020-01-01", "2020-01-05", dtype="M8[D]")
    )
    data.check_listed(1, 2)
    data.check_listed([1, 2], [2, 2])
    for first, last, place in (
        (0, 2, r"\[0, 1\] \(2020-01-01"),
        (1, 3, r"\[3, 0\] \(2020-01-04"),
        ([1, 2], [1, 3], "3, 0"),
    ):
        with pytest.raises(ValueError, match=rf"prices.*{place}.*is NaN"):
            data.check_listed(first, last)


@pytest.mark.parametrize(
    ("prices", "error", "message"),
    [
        ([1.0, np.nan, 2.0], ValueError, r"prices\[1\] is nan; expected finite prices above 0, .*\(1 of 3 rows"),
        ([1.0, 2.0, 0.0], ValueError, r"prices\[2\] is 0.0"),
        ([1.0, -2.0, np.inf], ValueError, r"prices\[1\] is -2.0; .*\(2 of 3"),
        ([[1.0, 2.0], [np.nan, -2.0]], ValueError, r"prices\[1, 1\] is -2.0; .*\(1 of 2 rows"),
        ([1.0], ValueError, "1 rows; expected at least 2"),
        (np.ones((3, 2, 1)), ValueError, r"shape \(3, 2, 1\); expected \(T,\), or \(T, N\)"),
        (np.ones((3, 0)), ValueError, r"shape \(3, 0\)"),
        (5.0, ValueError, r"shape \(\)"),
        (["a", "b"], TypeError, "prices must be numbers"),
        ([1.0, 1e-310], ValueError, r"prices\[1\] is 1e-310; expected finite prices above 0, within"),
        (np.ma.masked_array([1.0, 999.0], [False, True]), TypeError, "masked entries"),
        ([True, True], TypeError, "dtype bool"),
        (["1", "2"], TypeError, "dtype <U1"),
        (MarketData([1, 2]), TypeError, "give it as data="),
    ],
)
def test_bad_prices_are_refused_with_the_row(prices: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        MarketData(prices)


@pytest.mark.parametrize(
    ("dates", "error", "message"),
    [
        (DAYS[:2], ValueError, r"shape \(2,\); expected \(3,\)"),
        (DAYS[[0, 2, 1]], ValueError, r"timestamps\[2\] is 2020-01-03, not after timestamps\[1\], 2020-01-06"),
        (DAYS[[0, 0, 1]], ValueError, r"timestamps\[1\] is 2020-01-02, not after"),
        (np.array(["2020-01-02", "NaT", "2020-01-06"], "datetime64[D]"), ValueError, r"timestamps\[1\] is not a date"),
        ([1, 2, 3], TypeError, "dtype int64; expected dates"),
        ([dt.datetime(2020, 1, d, tzinfo=dt.UTC) for d in (2, 3, 6)], TypeError, "without a time zone"),
        (
            ["2020-01-02", "01/03/2020", "2020-01-06"],
            ValueError,
            r"timestamps\[1\] is '01/03/2020'; expected an ISO date",
        ),
        (np.array(["2020-01-02", 3, "2020-01-06"], object), TypeError, "dtype object; expected dates"),
    ],
)
def test_bad_timestamps_are_refused_with_the_row(dates: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        MarketData([1.0, 2.0, 3.0], dates)


def test_dates_may_be_a_column_of_strings_as_data_frames_have_it() -> None:
    column = np.array(["2020-01-02", "2020-01-03", "2020-01-06"], object)
    assert np.array_equal(MarketData([1.0, 2.0, 3.0], column).timestamps, DAYS)


def test_it_never_changes() -> None:
    given = np.array([1.0, 2.0, 3.0])
    data = MarketData(given, DAYS)
    given[0] = 50.0
    assert data.prices[0] == 1.0
    for array in (data.prices, data.log_returns, data.timestamps):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]  # type: ignore[index]
    with pytest.raises(AttributeError, match="never changes"):
        data.prices = given
    with pytest.raises(AttributeError, match="never changes"):
        del data.prices


def test_copies_are_itself_and_pickles_are_read_only_too() -> None:
    data = MarketData([1.0, 2.0, 3.0], DAYS)
    assert copy.deepcopy(data) is data and copy.copy(data) is data
    again = pickle.loads(pickle.dumps(data))
    assert (again.prices == data.prices).all() and (again.timestamps == DAYS).all()
    assert not again.prices.flags.writeable


@pytest.mark.parametrize(
    ("date", "message"),
    [("2020-01-04", "nearest dates are 2020-01-03, 2020-01-06"), ("1999-01-01", "2020-01-02"), ("x", "is no date")],
)
def test_unknown_dates_name_their_neighbours(date: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MarketData([1.0, 2.0, 3.0], DAYS).row_of(date)
    with pytest.raises(ValueError, match="this history has none: give a row, 0 to 1"):
        MarketData([1.0, 2.0]).row_of("2020-01-03")


def test_one_array_makes_one_history_until_it_is_changed() -> None:
    prices = np.array([1.0, 2.0, 3.0])
    first = shared_history(prices)
    assert shared_history(prices) is first
    assert shared_history(prices.copy()) is not first
    prices[1] = 5.0
    second = shared_history(prices)
    assert second is not first and second.prices.tolist() == [1.0, 5.0, 3.0] and first.prices[1] == 2.0
    several = np.array([[1.0, 2.0], [np.nan, 3.0]])
    history = shared_history(several)
    assert shared_history(several) is history
    several.shape = (4, 1)
    with pytest.raises(ValueError, match=r"prices\[2\] is nan"):
        shared_history(several)  # one asset, listed throughout


def test_a_shared_history_is_dropped_with_its_last_user() -> None:
    from sekai.finance import sharing as module

    prices = np.array([1.0, 2.0])
    history = shared_history(prices)
    assert module._shared[id(prices)] is history
    del history
    gc.collect()
    assert id(prices) not in module._shared
