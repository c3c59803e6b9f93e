"""What the walk-forward benchmark of floors declares, and that nothing breaches on clipped returns of the history."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
if importlib.util.find_spec("skfolio") is None:
    pytest.skip("the history is bundled in skfolio", allow_module_level=True)

from benchmarks import drawdown as bench
from sekai.finance import datasets


def prices() -> Any:
    return np.array(datasets.us_stocks().prices)


def test_what_a_fold_declares_and_trains_on_ends_before_its_year() -> None:
    history = prices()
    folds = bench.folds_of(history)
    assert len(folds) == 26
    fold = folds[7]
    market, begin = bench.market_of(history, fold, 1.0), fold.test.start
    later = history.copy()
    later[begin:] *= np.random.default_rng(0).uniform(0.5, 2.0, later[begin:].shape)
    blind = bench.market_of(later, fold, 1.0)
    assert np.array_equal(blind.falls, market.falls) and np.array_equal(blind.train, market.train)
    assert not np.array_equal(blind.test, market.test)
    # one row before the year does count
    later[begin - 1] = 0.05 * later[begin - 2]
    assert (bench.market_of(later, fold, 1.0).falls == 0.95).all()
    moves = abs(history[begin - bench.TRAIN + 1 : begin] / history[begin - bench.TRAIN : begin - 1] - 1)
    assert market.falls == pytest.approx(moves.max(axis=0))
    assert bench.market_of(history, fold, 1.5).falls == pytest.approx(1.5 * moves.max(axis=0))


def test_clipped_returns_are_within_what_was_declared_and_else_as_they_were() -> None:
    history = prices()
    market = bench.market_of(history, bench.folds_of(history)[18], 1.0)  # 2014, of which falls beyond are few
    clipped = market.clipped()
    was, now = bench.returns_of(market.test), bench.returns_of(clipped.test)
    assert np.array_equal(clipped.test[: bench.LOOKBACK + 1], market.test[: bench.LOOKBACK + 1])
    year = now[bench.LOOKBACK :]
    assert (abs(year) <= market.falls + 1e-12).all()
    same = abs(was) <= market.falls
    assert now[same] == pytest.approx(was[same], abs=1e-12) and 0.99 < same.mean() <= 1.0


def test_no_trader_breaches_a_floor_on_clipped_returns_and_without_one_they_do() -> None:
    history = prices()
    market = bench.market_of(history, bench.folds_of(history)[12], 0.5).clipped()  # 2008; half, so that much is clipped
    cases = [(market, floor) for floor in (None, *bench.FLOORS)]
    for trader, slots in ((bench.at_random(market, 0), 8), (bench.buys_what_falls(market), 1)):
        free, *kept = bench.run(trader, cases, slots)
        assert max(run.drawdown for run in free) > 0.3
        assert [run.depth for runs in kept for run in runs] == [0.0] * (4 * slots)
        assert min(run.intervened for runs in kept for run in runs) > 0.1
        for runs, (_, floor) in zip(kept, cases[1:], strict=True):
            assert min(run.growth for run in runs) >= 1 - floor[0] - 1e-12


def test_breaches_are_counted_where_there_are_some() -> None:
    path = np.array([[1.0, 1.0], [1.2, 0.85], [1.05, 0.95]])
    fixed, trailing = (bench.runs_of(path, np.zeros(2), floor) for floor in ((0.1, False), (0.1, True)))
    # .85 is .05 below .9; 1.05 / 1.2 = .875 is .025 below it
    assert [run.depth for run in fixed] == pytest.approx([0.0, 0.05])
    assert [run.depth for run in trailing] == pytest.approx([0.025, 0.05])
    assert [run.drawdown for run in fixed] == pytest.approx([0.125, 0.15])
    assert bench.line("x", trailing).split()[1:6] == ["2", "-0.13%", "15.0%", "2", "5.00%"]
