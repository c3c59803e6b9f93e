"""Baselines of Trading-v0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.envs.finance import TradingEnv, TradingVecEnv
from sekai.finance import RecordPerformance, policies
from tests.envs.finance.samples import on_prices

UP_AND_DOWN = (100.0, 110.0, 99.0, 99.0, 120.0)


def equity_of(make: Any, *prices: float, **arguments: Any) -> list[float]:
    env = RecordPerformance(on_prices(*prices, **arguments))
    result: Any = env.reset(seed=0)
    policy = make(env)
    while not result.done:
        result = env.step(policy.act_one(result.observation))
    return result.info["performance"].ledger["equity"].tolist()


def test_buy_and_hold_pays_once_and_then_moves_with_the_price() -> None:
    # 1 = E + 0.01 E
    assert equity_of(policies.BuyAndHold, *UP_AND_DOWN, transaction_cost=0.01) == pytest.approx(
        [1.0, *(price / 100 / 1.01 for price in UP_AND_DOWN[1:])], rel=1e-14
    )


def test_flat_stays_at_one_and_short_earns_minus_the_return() -> None:
    assert equity_of(lambda env: policies.ConstantExposure(env, 0.0), *UP_AND_DOWN) == [1.0] * 5
    # 1 - 0.1 = 0.9, 0.9 * 1.1 = 0.99, 0.99, 0.99 (1 - 21 / 99) = 0.78
    short = equity_of(lambda env: policies.ConstantExposure(env, -1.0), *UP_AND_DOWN)
    assert short == pytest.approx([1.0, 0.9, 0.99, 0.99, 0.78], rel=1e-14)


def test_momentum_follows_the_sign_of_the_last_returns() -> None:
    env = TradingEnv(positions=(1.0, 0.1, -1.0), lookback=4)
    # the newest return stands last, before the exposure
    rows = np.array([[9, -1, 2, 3, -9], [9, 1, -2, -3, 9], [9, -9, 1, -1, 5]], np.float32)
    assert policies.Momentum(env, 2).act(rows).tolist() == [0, 2, 1]
    assert policies.Momentum(env).act(rows).tolist() == [0, 0, 1]  # 13, 5, 0
    assert policies.Momentum(TradingEnv(positions=(0.0, 1.0), lookback=4), 2).act(rows).tolist() == [1, 0, 0]


@pytest.mark.parametrize("trailing", [False, True])
def test_cppi_keeps_equity_above_its_floor_where_shocks_are_bounded(trailing: bool) -> None:
    # no bar loses more than 1 - exp(-3 * 0.3 / sqrt(252)) = 5.5 % (less drift), and a trade 0.1 % of its size
    levels = tuple(np.linspace(0.0, 1.0, 21).tolist())
    vec = TradingVecEnv(64, positions=levels, sigma=0.3, mu=0.0, shock_clip=3.0, lookback=1, autoreset="disabled")
    seen = vec.reset(seed=1).observations
    policy, peak, lowest = policies.CPPI(vec, 0.9, max_loss=0.06, trailing=trailing), np.ones(64), np.inf
    exposures = []
    for _ in range(252):
        seen = vec.step(policy.act(seen)).observations
        exposures.append(vec.position)
        peak = np.maximum(peak, vec.equity) if trailing else peak
        lowest = min(lowest, (vec.equity / peak).min())
    assert 0.9 <= lowest < 0.91
    assert np.mean(exposures) > 0.1 and np.min(exposures) == 0.0

    seen, long = vec.reset(seed=1).observations, policies.BuyAndHold(vec)
    for _ in range(252):
        seen = vec.step(long.act(seen)).observations
    assert vec.equity.min() < 0.8, "the floor was needed"


def test_cppi_rounds_down_and_forgets_the_peaks_of_new_episodes() -> None:
    vec = TradingVecEnv(2, [100.0, 100.0, 150.0, 120.0, 120.0], positions=(1.0, -1.0, 0.0, 0.5), episode_length=3,
                        lookback=1, transaction_cost=0.0, autoreset="disabled")  # fmt: skip
    seen = vec.reset(seed=0).observations
    policy = policies.CPPI(vec, 0.8, max_loss=0.25, trailing=True)
    assert policy.act(seen).tolist() == [3, 3]  # 0.2 / 0.25 = 0.8 allows 0.5
    seen = vec.step([0, 3]).observations  # equity 1.5 and 1.25, both at their peaks
    assert policy.act(seen).tolist() == [3, 3]
    seen = vec.step([0, 3]).observations  # 1.2 of a peak of 1.5 is the floor; 1.125 of 1.25: (1.125 - 1) / 1.125 / 0.25
    assert policy.act(seen).tolist() == [2, 2]  # 0 and 0.44, which allows nothing
    seen = vec.reset(mask=np.array([True, False])).observations
    policy.reset(np.array([True, False]))
    assert policy.act(seen).tolist() == [3, 2]
    policy.reset()
    assert policy._peaks.tolist() == [1.0, 1.0]
