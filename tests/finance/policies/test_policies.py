"""What all baselines share: the same actions on single and native environments, by any way to make one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.finance import VecRecordPerformance, policies
from tests.envs.finance.samples import HISTORY

PRICES = np.stack([HISTORY, HISTORY[::-1]], axis=1)
TRADING: dict[str, Any] = {"prices": HISTORY, "episode_length": 40, "lookback": 5, "positions": (-1.0, 0.0, 0.5, 1.0)}
PORTFOLIO: dict[str, Any] = {"prices": PRICES, "episode_length": 40, "lookback": 5, "transaction_cost": 0.01}
MAKING: dict[str, Any] = {"n_steps": 40, "max_inventory": 6, "order_size": 2, "risk_aversion": 0.01}

COVARIANCE = np.array([[0.04, 0.01], [0.01, 0.09]])
EVERY: list[tuple[str, dict[str, Any], Callable[[Any], policies.Policy]]] = [
    ("Trading-v0", TRADING, lambda env: policies.ConstantExposure(env, 0.0)),
    ("Trading-v0", TRADING, lambda env: policies.ConstantExposure(env, -1.0)),
    ("Trading-v0", TRADING, policies.BuyAndHold),
    ("Trading-v0", TRADING, lambda env: policies.Momentum(env, 3)),
    ("Trading-v0", TRADING, lambda env: policies.CPPI(env, 0.95, max_loss=0.04)),
    ("Trading-v0", TRADING, lambda env: policies.CPPI(env, 0.95, max_loss=0.04, trailing=True)),
    ("Portfolio-v0", PORTFOLIO, policies.EqualWeight),
    ("Portfolio-v0", PORTFOLIO, policies.BuyAndHoldWeights),
    ("Portfolio-v0", PORTFOLIO, lambda env: policies.FixedWeights(env, [0.3, 0.2])),
    ("Portfolio-v0", PORTFOLIO, lambda env: policies.Kelly(env, mean=[0.01, 0.03], covariance=COVARIANCE)),
    ("Portfolio-v0", PORTFOLIO, lambda env: policies.MinimumVariance(env, covariance=COVARIANCE)),
    ("Portfolio-v0", PORTFOLIO, lambda env: policies.NoTradeBand(env, [0.3, 0.4], 0.02)),
    ("Portfolio-v0", {**PORTFOLIO, "allow_short": True}, lambda env: policies.NoTradeBand(env, [0.3, -0.4])),
    ("Portfolio-v0", {**PORTFOLIO, "allow_short": True}, lambda env: policies.BuyAndHoldWeights(env, [0.6, -0.4])),
    ("MarketMaking-v0", MAKING, policies.FixedSpread),
    ("MarketMaking-v0", MAKING, policies.AvellanedaStoikov),
    ("MarketMaking-v0", MAKING, policies.GLFT),
    ("MarketMaking-v0", MAKING, policies.CarteaJaimungal),
    ("OptimalExecution-v0", {"n_steps": 40}, policies.AlmgrenChriss),
    ("OptimalExecution-v0", {"n_steps": 40}, policies.TWAP),
    ("OptimalExecution-v0", {"n_steps": 40}, policies.Immediate),
]


@pytest.mark.parametrize(("name", "arguments", "make"), EVERY)
def test_single_and_native_environments_are_given_the_same_actions(name: str, arguments: Any, make: Any) -> None:
    """A single environment that sees what slot 2 sees: the same history, or rows handed to it."""
    vec = VecRecordPerformance(sekai.make_vec(name, 3, vectorization_mode="native", **arguments))
    env = sekai.make(name, **arguments)
    windowed = "prices" in arguments
    starts = [{"start": 10}, {"start": 40}, {"start": 70}]
    seen = vec.reset(seed=0, options=starts if windowed else None).observations
    alone = env.reset(seed=0, options=starts[2] if windowed else None)[0]
    for_all, for_one = make(vec), make(env)
    taken = []
    for k in range(39):
        actions = for_all.act(seen)
        assert vec.batch_action_space.contains(actions), (k, actions)
        alone = alone if windowed else seen[2]
        action = for_one.act_one(alone)
        assert np.array_equal(action, actions[2])
        taken.append(actions)
        seen = vec.step(actions).observations
        if windowed:
            alone = env.step(action)[0]
    steady = (
        "ConstantExposure",
        "BuyAndHold",
        "EqualWeight",
        "FixedWeights",
        "Kelly",
        "MinimumVariance",
        "FixedSpread",
    )
    assert np.ptp(taken, axis=0).any() == (type(for_all).__name__ not in (*steady, "Immediate"))


def test_what_a_policy_reads_must_be_the_same_for_all_slots() -> None:
    copies = [lambda sigma=sigma: sekai.make("MarketMaking-v0", sigma=sigma) for sigma in (1.0, 2.0)]
    with sekai.SyncVecEnv(copies) as vec, pytest.raises(ValueError, match="sigma differs between the slots of"):
        policies.AvellanedaStoikov(vec)


@pytest.mark.parametrize(
    ("name", "arguments", "make", "message"),
    [
        (
            "Trading-v0",
            {},
            lambda e: policies.ConstantExposure(e, 0.5),
            r"one of the positions of the environment, \(-1.0, 0",
        ),
        ("Trading-v0", {"lookback": 3}, lambda e: policies.Momentum(e, 4), "at most lookback=3"),
        ("Trading-v0", {"positions": (0.5, 1.0)}, policies.CPPI, "expected a 0 among them"),
        ("Trading-v0", {}, lambda e: policies.CPPI(e, 1.0), r"floor is 1.0; expected a fraction of the equity in"),
        ("Portfolio-v0", {}, lambda e: policies.FixedWeights(e, [1.0]), "has 1 entries; expected one for each of 5"),
        ("Portfolio-v0", {}, lambda e: policies.FixedWeights(e, [-0.1, 0, 0, 0, 0]), "without short sales"),
        ("Portfolio-v0", {"n_assets": 2, "allow_short": True}, lambda e: policies.FixedWeights(e, [-0.6, 0.6]), "1.2"),
        ("Portfolio-v0", PORTFOLIO, policies.Kelly, "of which only the past may be known"),
        ("MarketMaking-v0", {}, policies.CarteaJaimungal, "Lower the penalties or max_inventory"),
        (
            "MarketMaking-v0",
            {},
            lambda e: policies.GLFT(e, max_inventory=51),
            "max_inventory is 51; expected order_size=1",
        ),
        ("MarketMaking-v0", {}, lambda e: policies.FixedSpread(e, 6.0), "expected at most max_offset=5.0"),
        ("OptimalExecution-v0", {}, lambda e: policies.Schedule(e, [1.0]), "expected one for each of 25 slices"),
        ("OptimalExecution-v0", {"n_steps": 1}, lambda e: policies.Schedule(e, [1.5]), r"expected numbers in \[0, 1\]"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(name: str, arguments: Any, make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(sekai.make(name, **arguments))
