"""A floor under `Portfolio-v0`: no breach within the declared falls, safe actions left alone, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.safety.tasks.finance import (
    FloorPortfolio,
    FloorRows,
    SoldAtWorst,
    TowardsCash,
    floor_portfolios,
    portfolio_shield,
)
from sekai.safety.tasks.finance.liquidation import sold

BOUNDS = np.array([0.02, 0.05, 0.1])
COSTS = (0.001, 0.002, 0.005)
#: what float64 loses
ROUNDING = 1e-12


def market(returns: Any, num_envs: int | None = None, autoreset: str = "same_step", **options: Any) -> Any:
    """`Portfolio-v0` on a history of these returns, `(T, 3)`, from the first row on."""
    prices = 100 * np.cumprod(np.concatenate([np.ones((2, 3)), 1 + returns]), axis=0)
    given = {"prices": prices, "lookback": 1, "episode_length": len(returns), "transaction_cost": COSTS, **options}
    if num_envs is None:
        return sekai.make("Portfolio-v0", **given)
    return sekai.make_vec("Portfolio-v0", num_envs, vector_kwargs={"autoreset": autoreset}, **given)


def only_falls(steps: int) -> Any:
    return np.tile(-BOUNDS, (steps, 1))


def lowest_margins(env: Any, policy: Any, steps: int, *, drawdown: float, trailing: bool) -> tuple[Any, Any, float]:
    """Lowest equity, and lowest equity after selling all, over the reference and less the floor; interventions."""
    env.reset(seed=0)
    inner = env.unwrapped
    reference, floor = np.ones(env.num_envs), 1 - drawdown
    equity_margin, sold_margin, changed = np.inf, np.inf, 0.0
    for k in range(steps):
        result = env.step(policy(k, inner))
        info = result.infos
        everyone = np.arange(env.num_envs)
        equity, weights = info.part("equity", everyone).values, np.array(list(info.part("weights", everyone).values))
        reference = np.maximum(reference, equity) if trailing else reference
        equity_margin = min(equity_margin, (equity / reference).min() - floor)
        left = equity * sold(weights[:, :3], np.array(COSTS))
        sold_margin = min(sold_margin, (left / reference).min() - floor)
        changed += np.mean(info.part("intervened", everyone).values)
    return equity_margin, sold_margin, changed / steps


def wild(seed: int) -> Any:
    """Everything into one asset and out again, all over the place, and what is held already, by turns."""
    rng = np.random.default_rng(seed)

    def act(k: int, vec: Any) -> Any:
        n = vec.num_envs
        one = np.eye(4)[rng.integers(0, 4, n)]
        mixed = np.where((rng.integers(0, 3, n) == 0)[:, None], rng.random((n, 4)), one)
        return np.where((rng.integers(0, 3, n) == 0)[:, None], vec.weights, mixed).astype(np.float32)

    return act


@pytest.mark.parametrize("trailing", [True, False], ids=["trailing", "fixed"])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), drawdown=st.floats(0.01, 0.6), drift=st.floats(-1.0, 1.0))
def test_no_fall_within_the_bounds_takes_equity_below_the_floor(
    trailing: bool, seed: int, drawdown: float, drift: float
) -> None:
    rng = np.random.default_rng(seed)
    # corners, where shocks are largest, and a drift towards all rises or all falls
    shocks = np.sign(rng.uniform(-1, 1, (60, 3)) + drift) * np.where(rng.random((60, 3)) < 0.5, 1, rng.random((60, 3)))
    env = floor_portfolios(market(shocks * BOUNDS, 8), falls=BOUNDS, drawdown=drawdown, trailing=trailing)
    equity, left, _ = lowest_margins(env, wild(seed), 60, drawdown=drawdown, trailing=trailing)
    assert equity >= left >= -ROUNDING


@pytest.mark.parametrize("trailing", [True, False], ids=["trailing", "fixed"])
def test_falls_that_go_on_after_a_peak_take_all_that_they_may_and_no_more(trailing: bool) -> None:
    # the worst for a trailing floor: a peak first, which lifts it
    shocks = np.concatenate([np.tile(BOUNDS, (30, 1)), only_falls(200)])
    env = floor_portfolios(market(shocks, 16), falls=BOUNDS, drawdown=0.15, trailing=trailing)
    equity, left, changed = lowest_margins(
        env, lambda k, vec: np.tile(np.float32([0, 0, 1, 0]), (16, 1)), 230, drawdown=0.15, trailing=trailing
    )
    assert equity >= left >= -ROUNDING and changed > 0.5
    # it gives up what it may, and no more: at the end next to nothing is left above the floor
    assert left < 2e-3


def test_without_the_filter_or_without_costs_in_it_the_floor_breaks() -> None:
    class Careless(SoldAtWorst):
        """Forgets what trades cost."""

        rates = np.zeros(3)

    def everything(k: int, vec: Any) -> Any:
        return np.tile(np.float32([0, 0, 1, 0]), (1, 1)) if k % 2 else np.tile(np.float32([0, 1, 0, 0]), (1, 1))

    options = {"drawdown": 0.1, "trailing": False}
    for monitor, holds in ((SoldAtWorst, True), (Careless, False)):
        env = floor_portfolios(market(only_falls(100), 1), falls=BOUNDS, **options)
        env.shield.monitor = monitor(env.unwrapped.template, BOUNDS, 0.1)
        env.shield.intervention = TowardsCash(env.shield.monitor)
        equity, _, _ = lowest_margins(env, everything, 100, **options)
        assert (equity >= -ROUNDING) == holds
    free = market(only_falls(3), 1)
    free.reset(seed=0)
    assert min(free.step(everything(k, free)).infos[0]["equity"] for k in range(3)) < 0.9


def test_falls_beyond_the_bound_can_break_it_and_then_all_is_sold() -> None:
    crash = np.concatenate([np.zeros((1, 3)), [[-0.5, -0.5, -0.5]], np.tile(BOUNDS, (20, 1))])
    env = floor_portfolios(market(crash, 1), falls=BOUNDS, drawdown=0.1)
    env.reset(seed=0)
    greedy = np.float32([[1, 1, 1, 0]])
    seen = [env.step(greedy).infos[0] for _ in range(22)]
    assert seen[0]["equity"] > 0.9 > seen[1]["equity"]
    assert all(info["executed_action"].tolist() == [0, 0, 0, 1] and info["intervened"] for info in seen[2:])
    assert seen[2]["equity"] == pytest.approx(seen[-1]["equity"])


def test_safe_actions_are_executed_as_they_are() -> None:
    rng = np.random.default_rng(0)
    env = floor_portfolios(market(rng.uniform(-0.1, 0.1, (50, 3)) * BOUNDS, 20), falls=BOUNDS, drawdown=0.3)
    env.reset(seed=0)
    for _ in range(50):
        asked = rng.random((20, 4)).astype(np.float32)
        result = env.step(asked)
        assert not any(info["intervened"] for info in result.infos)
        assert np.array_equal([info["executed_action"] for info in result.infos], asked.astype(float))


def test_the_executed_weights_by_hand() -> None:
    # one asset without costs, falls of .1 and a floor at .95: from cash .05 / .1 = .5 of equity may be held
    prices = np.full((5, 1), 100.0)
    env = floor_portfolios(
        sekai.make_vec("Portfolio-v0", 1, prices=prices, lookback=1, episode_length=3, transaction_cost=0.0),
        falls=0.1,
        drawdown=0.05,
    )
    env.reset(seed=0)
    told = env.step(np.float32([[1.0, 0.0]])).infos[0]
    assert told["intervened"] and told["executed_action"] == pytest.approx([0.5, 0.5], abs=3e-6)
    assert told["executed_action"][0] <= 0.5
    # weights are divided by their sum: .4 / .85 = .47 is safe, .3 / .4 = .75 is not, and nothing at all is cash
    for asked, changed in (([0.4, 0.45], False), ([0.3, 0.1], True), ([0.0, 0.0], False)):
        env.reset(seed=0)
        told = env.step(np.float32([asked])).infos[0]
        assert told["intervened"] == changed
        if changed:
            assert told["executed_action"] == pytest.approx([0.5, 0.5], abs=3e-6)
    # with a cost of .01: m (1 - (.1 + .01 - .001) w) = .95 with m = 1 / (1 + .01 w), so w = .05 / (.109 + .0095)
    shield = portfolio_shield(
        sekai.make("Portfolio-v0", prices=prices, lookback=1, episode_length=3, transaction_cost=0.01).unwrapped,
        falls=0.1,
        drawdown=0.05,
    )
    executed = shield.decide(np.array([[1.0, 0.0]]), np.float32([[1.0, 0.0]]), np.zeros(1, bool)).actions
    assert executed[0] == pytest.approx([0.05 / 0.1185, 1 - 0.05 / 0.1185], abs=3e-6)


def test_as_much_is_executed_as_is_safe() -> None:
    rng = np.random.default_rng(0)
    env = market(only_falls(3), transaction_cost=0.02).unwrapped
    shield = portfolio_shield(env, falls=BOUNDS, drawdown=0.1)
    held = rng.dirichlet(np.ones(4), 2000)[:, :3]
    # a margin of up to .03 over what selling all leaves
    rows = np.column_stack([(0.9 + rng.uniform(1e-5, 0.03, 2000)) / sold(held, np.full(3, 0.02)), held])
    asked = rng.dirichlet(np.ones(4), 2000).astype(np.float32)
    decided = shield.decide(rows, asked, np.zeros(2000, bool))
    changed = decided.intervened
    executed = decided.actions[changed].astype(float)
    assert changed.sum() > 1500 and (decided.actions[~changed] == asked[~changed]).all()
    # the mix of what is asked for, but for cash, and at the rim: the root that bisection finds
    share = executed[:, :3].sum(axis=1) / asked[changed, :3].astype(float).sum(axis=1)
    assert executed[:, :3] == pytest.approx(share[:, None] * asked[changed, :3], abs=1e-6)
    margins = shield.monitor.margins(rows[changed], decided.actions[changed])
    assert (margins >= 1e-9).all() and margins.max() < 1e-6 and 0.0 < share.min() < share.max() <= 1.0
    # nothing is safe below the floor, and then it is cash
    sunk = shield.decide(np.array([[0.9, 0.5, 0.0, 0.0]]), asked[:1], np.zeros(1, bool)).actions
    assert sunk.tolist() == [[0.0, 0.0, 0.0, 1.0]]


def test_filtering_twice_is_filtering_once_and_stays_in_the_box() -> None:
    rng = np.random.default_rng(0)
    shield = portfolio_shield(market(only_falls(3)).unwrapped, falls=BOUNDS, drawdown=0.1)
    held = rng.dirichlet(np.ones(4), 500)[:, :3]
    rows = np.column_stack([rng.uniform(0.88, 1.0, 500), held])
    idle = np.zeros(500, bool)
    once = shield.decide(rows, rng.random((500, 4)), idle)
    twice = shield.decide(rows, once.actions, idle)
    assert once.intervened.sum() > 100 and np.array_equal(once.actions, twice.actions)
    assert ((once.actions >= 0) & (once.actions <= 1)).all()


def test_the_single_environment_is_filtered_alike() -> None:
    rng = np.random.default_rng(0)
    returns = rng.uniform(-1, 1, (80, 3)) * BOUNDS
    one = FloorPortfolio(market(returns), falls=BOUNDS, drawdown=0.08)
    many = floor_portfolios(market(returns, 1), falls=BOUNDS, drawdown=0.08)
    one.reset(seed=0)
    many.reset(seed=0)
    changed = 0
    for _ in range(79):
        asked = rng.random(4).astype(np.float32) * [2, 1, 1, 1]  # also beyond the box, which is brought to its bounds
        alone, slot = one.step(asked), many.step(asked[None]).infos[0]
        for key in ("equity", "intervened"):
            assert alone.info[key] == slot[key]
        assert np.array_equal(alone.info["executed_action"], slot["executed_action"])
        changed += alone.info["intervened"]
    assert 10 < changed < 79
    assert not one.step(np.zeros(4)).info["intervened"]


def test_a_peak_is_one_of_its_episode() -> None:
    rises = np.tile(BOUNDS, (10, 1))
    for autoreset in ("same_step", "next_step"):
        vec = market(rises, 1, autoreset=autoreset)
        rows = FloorRows(vec)
        vec.reset(seed=0)
        peaks = []
        for _ in range(13):
            assert rows()[0, 0] == pytest.approx(1.0)
            peaks.append(float(rows.reference[0]))
            vec.step(np.float32([[1, 1, 1, 0]]))
        assert peaks[0] == 1.0 and peaks[9] > 1.5 and min(peaks[10:]) == 1.0
    # a fixed floor knows none
    fixed = FloorRows(vec, trailing=False)
    assert fixed()[0, 0] == vec.equity[0] > 1.0


def test_rates_that_are_set_later_count() -> None:
    vec = market(only_falls(5), 1)
    env = floor_portfolios(vec, falls=BOUNDS, drawdown=0.05)
    env.reset(seed=0)
    asked = np.float32([[0.4, 0.0, 0.0, 0.6]])
    rows = np.array([[1.0, 0.0, 0.0, 0.0]])
    before = env.shield.monitor.margins(rows, asked)
    vec.set_attr("cost_model", 0.02)
    assert env.shield.monitor.margins(rows, asked) < before - 0.01


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({}, {"falls": [0.1, 0.1]}, "expected the largest fall in a step, in (0, 1): one number, or one for each of 3"),
        ({}, {"falls": 1.0}, "falls is 1.0; expected the largest fall in a step"),
        ({}, {"drawdown": 1.0}, "drawdown is 1.0; expected a share of the reference in (0, 1)."),
        ({"allow_short": True}, {}, "The portfolio may sell short, and its largest loss has no bound"),
        ({"transaction_cost": 0.3}, {}, "The cost rates go up to 0.3, and drawdown is 0.2; expected rates of at most"),
        (
            {"transaction_cost": None, "cost_model": sekai.finance.FixedCost(1e-4)},
            {},
            "expected proportional ones: of others the worst is not known.",
        ),
    ],
)
def test_what_has_no_guarantee_is_refused(options: Any, arguments: Any, message: str) -> None:
    chosen = {"falls": 0.1, "drawdown": 0.2, **arguments}
    with pytest.raises(ValueError, match=re.escape(message)):
        floor_portfolios(market(only_falls(3), 2, **options), **chosen)
    with pytest.raises(ValueError, match=re.escape(message)):
        FloorPortfolio(market(only_falls(3), **options), **chosen)


def test_other_environments_are_refused() -> None:
    with pytest.raises(TypeError, match=r"expected native Portfolio-v0\. Elsewhere wrap each copy"):
        floor_portfolios(sekai.make_vec("Trading-v0", 2), falls=0.1, drawdown=0.2)
    with pytest.raises(TypeError, match=r"expected Portfolio-v0\."):
        FloorPortfolio(sekai.make("Trading-v0"), falls=0.1, drawdown=0.2)


def test_a_trader_of_stable_baselines_learns_above_its_floor() -> None:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback

    from sekai.compat import to_sb3

    class Lowest(BaseCallback):
        """Remembers the lowest equity, and how often the filter intervened."""

        equity, changed = 1.0, 0

        def _on_step(self) -> bool:
            infos = self.locals["infos"]
            self.equity = min(self.equity, *(info["equity"] for info in infos))
            self.changed += sum(info["intervened"] for info in infos)
            return True

    rng, lowest = np.random.default_rng(0), Lowest()
    falling = np.where(rng.random((60, 3)) < 0.7, -1.0, 1.0) * BOUNDS
    env = floor_portfolios(market(falling, 4), falls=BOUNDS, drawdown=0.1, trailing=False)
    PPO("MultiInputPolicy", to_sb3(env), n_steps=128, batch_size=128, n_epochs=1, seed=0, device="cpu").learn(
        512, callback=lowest
    )
    assert 0.9 <= lowest.equity < 0.91 and lowest.changed > 50
