"""Walk-forward splits: which rows train and test episodes read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.finance import Fold, MarketData, RandomStart, walk_forward


def rows_read(starts: range, lookback: int, episode_length: int) -> set[int]:
    return {row for s in starts for row in range(s - lookback, s + episode_length + 1)}


def test_starts_are_those_counted_by_hand() -> None:
    folds = walk_forward(20, 10, 5, lookback=2, episode_length=2)
    # train rows 0..9: s - 2 >= 0 and s + 2 <= 9. Test rows 10..14: s - 2 >= 10 and s + 2 <= 14. Then 5 rows further.
    assert folds == [Fold(range(2, 8), range(12, 13)), Fold(range(7, 13), range(17, 18))]


def test_a_warm_up_lets_tests_begin_with_the_first_test_row() -> None:
    (fold,) = walk_forward(15, 10, 5, lookback=2, episode_length=2, warmup=True)
    assert fold == (range(2, 8), range(10, 13))


def test_an_embargo_moves_the_test_and_expanding_keeps_the_first_row() -> None:
    folds = walk_forward(20, 8, 4, 3, True, 2, lookback=1, episode_length=1)
    # ends of training 8 and 11; the tests at rows 10..13 and 13..16; the next one, at 16..19, still fits 20 rows
    assert folds == [
        (range(1, 7), range(11, 13)),
        (range(1, 10), range(14, 16)),
        (range(1, 13), range(17, 19)),
    ]


@given(
    n=st.integers(10, 80),
    train=st.integers(2, 40),
    test=st.integers(2, 20),
    step=st.none() | st.integers(1, 10),
    expanding=st.booleans(),
    embargo=st.integers(0, 5),
    lookback=st.integers(0, 6),
    episode_length=st.integers(1, 6),
    warmup=st.booleans(),
)
def test_no_row_is_shared_between_training_and_test(
    n: int, train: int, test: int, lookback: int, episode_length: int, warmup: bool, embargo: int, **how: Any
) -> None:
    try:
        folds = walk_forward(
            n, train, test, embargo=embargo, lookback=lookback, episode_length=episode_length, warmup=warmup, **how
        )
    except ValueError:
        return
    for fold in folds:
        trained = rows_read(fold.train, lookback, episode_length)
        tested = rows_read(fold.test, 0 if warmup else lookback, episode_length)
        assert fold.train and fold.test and min(trained) >= 0 and max(tested) < n
        assert max(trained) + embargo < min(tested)
        # every row is used, so the ranges could not be wider
        assert len(tested) == test and max(trained) + 1 - min(trained) >= train
        assert fold.test.start - lookback >= 0


def test_rows_equal_those_of_scikit_learn() -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    splitter = selection.TimeSeriesSplit(n_splits=4, gap=3, test_size=6, max_train_size=None)
    n = 10 + 3 + 4 * 6
    theirs = [(set(a.tolist()), set(b.tolist())) for a, b in splitter.split(np.zeros(n))]
    folds = walk_forward(n, 10, 6, expanding=True, embargo=3, lookback=2, episode_length=1)
    assert [(rows_read(fold.train, 2, 1), rows_read(fold.test, 2, 1)) for fold in folds] == theirs


def test_a_range_is_what_a_sampler_draws_from() -> None:
    from sekai.envs.finance import TradingEnv

    fold = walk_forward(40, 20, 10, lookback=5, episode_length=4)[1]
    env = TradingEnv(
        data=MarketData(np.arange(1.0, 41.0)),
        lookback=5,
        episode_length=4,
        sampler=RandomStart(fold.train.start - 5, fold.train.stop - 5),
    )
    assert {int(env.reset(seed=seed).info["timestamp"]) for seed in range(200)} == set(fold.train)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 14}, "n is 14; expected at least 15 rows: train=10, embargo=0, test=5"),
        ({"train": 4}, "train is 4; expected at least 5, or no episode fits: lookback=2, episode_length=2"),
        ({"test": 4}, "test is 4; expected at least 5, or no episode fits"),
        ({"test": 2, "warmup": True}, "test is 2; expected at least 3"),
        ({"step": 0}, "step"),
        ({"embargo": -1}, "embargo"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    arguments = {"n": 20, "train": 10, "test": 5, "lookback": 2, "episode_length": 2, **change}
    with pytest.raises(ValueError, match=message):
        walk_forward(**arguments)
    with pytest.raises(TypeError):
        walk_forward(**{**arguments, **{name: 2.5 for name in change if name != "warmup"}})
