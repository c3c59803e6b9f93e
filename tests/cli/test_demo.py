"""The demo: its policies, its numbers against NumPy, its picture and its output."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.cli import main, picture
from sekai.cli.demo import (
    AVERAGE,
    CASH,
    LONG,
    POLICIES,
    WINDOW,
    Outcome,
    above_average,
    buy_and_hold,
    cash,
    make_windows,
    play,
    summarise,
    window_starts,
)
from sekai.cli.errors import BadValue
from sekai.cli.picture import bin_edges, draw_distributions
from sekai.finance import datasets

COST = 1e-3  # the environment's default
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def closes() -> Any:
    return datasets.sp500().prices


def play_policy(closes: Any, actions: Any, starts: Any) -> Outcome:
    with make_windows(closes, len(starts)) as vec:
        return play(vec, actions, starts, lambda amount: None)


def by_hand(closes: Any, actions: Any, start: int) -> float:
    """Return of one window: buying costs a factor 1 / (1 + c) of equity, selling everything 1 - c."""
    equity, held = 1.0, False
    for row in range(start, start + WINDOW):
        long = actions[row] == LONG
        if long and not held:
            equity /= 1.0 + COST  # spend E / (1 + c), so that the exposure after the cost is 1
        elif held and not long:
            equity *= 1.0 - COST
        held = long
        if held:
            equity *= closes[row + 1] / closes[row]
    return equity - 1.0


def test_the_average_is_long_above_the_mean_of_the_last_closes_itself_included() -> None:
    # means of three: 2, 7/3, 2, 2: the closes 3, 2, 1, 3 are above, below, below, above; two rows come too early
    assert above_average(np.array([1.0, 2.0, 3.0, 2.0, 1.0, 3.0]), 3).tolist() == [CASH, CASH, LONG, CASH, CASH, LONG]


def test_a_close_equal_to_its_average_and_a_short_history_are_cash() -> None:
    assert above_average(np.full(5, 7.0), 3).tolist() == [CASH] * 5
    assert above_average(np.array([1.0, 2.0]), 3).tolist() == [CASH] * 2


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 6))
def test_a_decision_does_not_know_later_closes(history: list[int], days: int) -> None:
    closes = np.array(history, float)
    for policy in (lambda seen: above_average(seen, days), buy_and_hold, cash):
        actions = policy(closes)
        assert [policy(closes[: row + 1])[-1] for row in range(len(closes))] == actions.tolist()


def test_windows_begin_evenly_from_the_first_average_to_the_last_row_that_leaves_a_year(closes: Any) -> None:
    starts = window_starts(len(closes), 1024)
    assert starts[0] == AVERAGE - 1 and starts[-1] + WINDOW == len(closes) - 1
    assert len(np.unique(starts)) == 1024
    assert set(np.diff(starts)) == {4, 5}  # 4,580 rows for 1,024 windows: steps of 4.47


def test_more_windows_than_rows_to_begin_in_are_refused() -> None:
    assert window_starts(10, 3, first=2, length=5).tolist() == [2, 3, 4]  # 4 + 5 is the last row, 9
    with pytest.raises(BadValue, match="10 closes have 3 rows in which a window of 5 days can begin, row 2"):
        window_starts(10, 4, first=2, length=5)
    with pytest.raises(BadValue, match="7 closes have 0 rows"):
        window_starts(7, 2, first=2, length=5)


def test_buy_and_hold_is_the_price_ratio_less_the_cost_of_the_first_trade(closes: Any) -> None:
    starts = window_starts(len(closes), 1024)
    outcome = play_policy(closes, buy_and_hold(closes), starts)
    ratio = closes[starts + WINDOW] / closes[starts]
    np.testing.assert_allclose(outcome.returns, ratio / (1.0 + COST) - 1.0, rtol=0, atol=1e-11)
    assert summarise(outcome).mean == pytest.approx(np.mean(ratio / (1.0 + COST) - 1.0), abs=1e-11)
    assert abs(summarise(outcome).mean - np.mean(ratio - 1.0)) > 1e-4  # without the cost it would not agree
    np.testing.assert_allclose(outcome.turnover, 1.0 / (1.0 + COST), atol=1e-3)  # one trade of nearly all equity


def test_the_moving_average_pays_for_every_trade_and_earns_the_next_day(closes: Any) -> None:
    starts = window_starts(len(closes), 40)
    actions = above_average(closes)
    outcome = play_policy(closes, actions, starts)
    expected = [by_hand(closes, actions, start) for start in starts.tolist()]
    np.testing.assert_allclose(outcome.returns, expected, rtol=0, atol=1e-10)
    seen_early = [by_hand(closes, np.roll(actions, -1), start) for start in starts.tolist()]
    assert np.mean(seen_early) - np.mean(expected) > 0.01  # knowing tomorrow's close would pay
    trades = [
        np.count_nonzero(np.diff(np.concatenate([[CASH], actions[start : start + WINDOW]])))
        for start in starts.tolist()
    ]
    np.testing.assert_allclose(outcome.turnover, trades, atol=2e-3 * max(trades))


def test_cash_stays_what_it_is(closes: Any) -> None:
    outcome = play_policy(closes, cash(closes), window_starts(len(closes), 8))
    summary = summarise(outcome)
    assert not outcome.daily.any() and not outcome.turnover.any()
    assert (summary.mean, summary.deviation, summary.drawdown, summary.turnover) == (0.0, 0.0, 0.0, 0.0)
    assert math.isnan(summary.sharpe)


def test_a_summary_by_hand() -> None:
    daily = np.array([[0.10, -0.50], [-0.10, 0.50]])  # two days, two windows
    summary = summarise(Outcome(daily, np.array([1.0, 2.0])))
    # windows: 1.1 * 0.9 - 1 = -0.01 and 0.5 * 1.5 - 1 = -0.25
    assert summary.mean == pytest.approx(-0.13)
    assert summary.deviation == pytest.approx(0.24 / math.sqrt(2))  # half the distance squared, twice, over N - 1
    # the first peak of the second window is the start: 1 -> 0.5 is a drawdown of one half
    assert summary.drawdown == pytest.approx((0.1 + 0.5) / 2)
    assert summary.turnover == 1.5
    assert summary.sharpe == 0.0  # pooled, the four days have mean 0
    one_more = summarise(Outcome(np.array([[0.1, 0.3]]), np.zeros(2)))
    assert one_more.sharpe == pytest.approx(0.2 / (0.2 / math.sqrt(2)) * math.sqrt(252))  # ddof 1


@given(st.lists(st.floats(-0.99, 3.0), min_size=1, max_size=20))
def test_every_return_lies_in_a_bin_and_zero_in_the_middle_of_one(values: list[float]) -> None:
    returns = np.array(values)
    edges = bin_edges({"a": returns, "b": np.zeros(2)})
    assert np.histogram(returns, edges)[0].sum() == len(values)
    place = int(np.searchsorted(edges, 0.0))
    assert edges[place - 1] == pytest.approx(-0.01) and edges[place] == pytest.approx(0.01)


def test_the_picture_is_drawn_even_where_nothing_varies(tmp_path: Path) -> None:
    draw_distributions({"A": np.zeros(3), "B": np.full(3, 0.1)}, tmp_path / "flat.png", "3 windows")
    assert (tmp_path / "flat.png").read_bytes().startswith(PNG)


def test_the_demo_prints_a_line_per_policy_and_saves_the_picture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, closes: Any
) -> None:
    picture = tmp_path / "out.png"
    assert main(["demo", "--output", str(picture), "--windows", "16"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert err == "" and [line.split()[0] for line in lines] == [*POLICIES, "Trading-v0", str(picture)]
    starts = window_starts(len(closes), 16)
    mean = float(np.mean(closes[starts + WINDOW] / closes[starts] / (1.0 + COST) - 1.0))
    assert f"buy-and-hold mean_return={mean:+.2%} " in lines[1]
    assert lines[2] == "cash mean_return=+0.00% sd=0.00% sharpe=n/a max_drawdown=0.00% turnover=0.00"
    steps = 3 * 16 * WINDOW
    assert re.fullmatch(rf"Trading-v0 windows=16 steps={steps} seconds=[\d.]+ \d+ steps/s", lines[3])
    assert picture.read_bytes().startswith(PNG)


def test_a_picture_of_another_format_is_refused_before_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--output", "d.txt"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "Error: --output d.txt ends in '.txt': expected one of .png, .pdf, .svg.\n"
    assert captured.out == ""


def test_a_missing_price_history_and_a_missing_matplotlib_are_one_line_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ["demo", "--output", str(tmp_path / "demo.png"), "--windows", "4"]
    with monkeypatch.context() as patch:
        patch.setattr(datasets, "find_spec", lambda name: None)
        datasets.sp500.cache_clear()
        assert main(words) == 2
    err = capsys.readouterr().err
    assert "'arch'" in err and err.endswith("pip install 'sekai-rl[data]'\n") and err.count("\n") == 1
    monkeypatch.setattr(picture, "find_spec", lambda name: None)
    assert main(words) == 2
    assert capsys.readouterr().err == (
        "Error: The picture needs matplotlib, which is not installed: pip install 'sekai-rl[viz]'\n"
    )
    assert not (tmp_path / "demo.png").exists()
