"""The stationary bootstrap, on histories whose returns say which row they are. Tolerance: 4 standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.finance import MarketData, StationaryBootstrap
from tests.finance.models.samples import DAY, assert_mean, assert_not_mean

ROWS, BLOCK = 7, 4.0
# returns 0.00, 0.01, ... 0.06: a hundred times the return is its row
COUNTING = np.exp(np.concatenate([[0.0], np.cumsum(np.arange(ROWS) / 100)]))


def rows(model: StationaryBootstrap, slots: int, bars: int, seed: int = 5) -> Any:
    returns = model.begin(np.random.default_rng(seed), model.new_state(slots), np.arange(slots), bars, DAY)
    counted = np.rint(returns[..., 0] * 100)
    assert returns[..., 0] == pytest.approx(counted / 100, abs=1e-12)
    return counted.astype(int)


def test_every_row_is_as_likely_at_every_bar() -> None:
    path = rows(StationaryBootstrap(COUNTING, BLOCK), 70_000, 3)
    for row in range(ROWS):
        assert_mean(path == row, 1 / ROWS)


def test_blocks_go_on_and_wrap_around() -> None:
    path = rows(StationaryBootstrap(COUNTING, BLOCK), 70_000, 2)
    follows = path[:, 1] == (path[:, 0] + 1) % ROWS
    # goes on with 3/4; a new block begins there by chance with 1/4 * 1/7
    assert_mean(follows, 0.75 + 0.25 / ROWS)
    last = path[:, 0] == ROWS - 1
    assert_mean(path[last, 1] == 0, 0.75 + 0.25 / ROWS)
    for row in range(2, ROWS):  # and where a block ends, every row is as likely
        assert_mean(path[path[:, 0] == 0, 1] == row, 0.25 / ROWS)


def test_blocks_have_the_mean_length_and_a_geometric_law() -> None:
    long = np.exp(np.concatenate([[0.0], np.cumsum(np.arange(10_000) * 1e-6)]))  # seams go unseen once in 10,000
    model = StationaryBootstrap(long, BLOCK)
    returns = model.begin(np.random.default_rng(1), model.new_state(1), np.array([0]), 200_000, DAY)[0, :, 0]
    path = np.rint(returns * 1e6).astype(int)
    seams = np.flatnonzero(np.diff(path) % 10_000 != 1)
    lengths = np.diff(seams)
    assert_mean(lengths, BLOCK)
    assert_not_mean(lengths, BLOCK + 1)  # a geometric law that begins with 0
    for length in (1, 2, 5):
        assert_mean(lengths == length, 0.25 * 0.75 ** (length - 1))


def test_the_state_is_the_row_of_the_latest_return() -> None:
    model = StationaryBootstrap(COUNTING, BLOCK)
    state, rng = model.new_state(500), np.random.default_rng(2)
    model.begin(rng, state, np.arange(500), 3, DAY)
    for _ in range(3):
        step = model.advance(rng, state, np.arange(500), DAY)
        assert step[:, 0] * 100 == pytest.approx(state["place"], abs=1e-10)
    assert set(state["place"]) == set(range(ROWS))


def test_single_bars_are_independent_and_endless_blocks_replay() -> None:
    alone = rows(StationaryBootstrap(COUNTING, 1), 70_000, 2)
    assert_mean(alone[:, 1] == (alone[:, 0] + 1) % ROWS, 1 / ROWS)
    replay = rows(StationaryBootstrap(COUNTING, 1e15), 50, 20)
    assert ((np.diff(replay, axis=1) % ROWS) == 1).all() and len(np.unique(replay[:, 0])) == ROWS


def test_assets_are_drawn_together() -> None:
    history = np.stack([COUNTING, 5.0 / COUNTING], axis=1)  # one falls as the other rises
    model = StationaryBootstrap(history, BLOCK)
    returns = model.begin(np.random.default_rng(0), model.new_state(40), np.arange(40), 10, DAY)
    assert model.n_assets == 2 and returns[..., 1] == pytest.approx(-returns[..., 0], abs=1e-12)


def test_a_history_may_be_market_data_and_a_bar_has_its_length() -> None:
    plain, data = StationaryBootstrap(COUNTING, BLOCK), StationaryBootstrap(MarketData(COUNTING), BLOCK)
    a, b = (model.sample_path(np.random.default_rng(3), 9, dt) for model, dt in ((plain, DAY), (data, 1.0)))
    assert np.array_equal(a, b)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 1000, 4097])
def test_the_largest_number_below_1_is_the_last_row(count: int) -> None:
    model = StationaryBootstrap(np.ones(count + 1), 1.0)
    assert model._spread(np.array([0.0, 1.0 - 2.0**-53])).tolist() == [0, count - 1]
    assert model._spread(np.array([1e300])).tolist() == [count - 1]  # a number that begins no block: unused, no warning


@pytest.mark.parametrize(
    ("prices", "block", "error", "message"),
    [
        (COUNTING, 0.5, ValueError, "mean_block is 0.5; expected at least 1, in bars"),
        (COUNTING, "20", TypeError, "mean_block is '20'"),
        ([1.0], 2, ValueError, r"prices has shape \(1,\); expected \(T,\) or \(T, n_assets\) with T of at least 2"),
        (np.ones((3, 2, 1)), 2, ValueError, r"prices has shape \(3, 2, 1\)"),
        (np.ones((3, 0)), 2, ValueError, r"prices has shape \(3, 0\)"),
        ([1.0, 2.0, -1.0], 2, ValueError, r"prices\[2\] is -1.0; expected prices above 0"),
        ([[1.0, 2.0], [1.0, np.nan]], 2, ValueError, r"prices\[1, 1\] is nan"),
        (["a", "b"], 2, TypeError, "prices is"),
    ],
)
def test_crooked_arguments_are_refused(prices: Any, block: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        StationaryBootstrap(prices, block)
