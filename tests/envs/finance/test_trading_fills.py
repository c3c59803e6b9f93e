"""`execution=` of Trading-v0: trades that fill at the next open or at the next close."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.envs.finance.trading import kernel as tk
from sekai.envs.finance.trading.env import TradingEnv
from sekai.envs.finance.trading.vec import TradingVecEnv
from sekai.finance import MarketData, assert_no_lookahead

CLOSES = [100.0, 100.0, 110.0, 121.0, 100.0]
OPENS = [99.0, 98.0, 105.0, 115.0, 120.0]


def env_of(execution: str, **arguments: Any) -> TradingEnv:
    """One window of three steps on the prices above, flat at 100."""
    data = MarketData(CLOSES, fields={"open": OPENS})
    env = TradingEnv(
        data=data,
        lookback=1,
        episode_length=3,
        execution=execution,
        **{"transaction_cost": 0.0, **arguments},
    )
    env.reset()
    return env


def equities(env: TradingEnv, actions: tuple[int, ...]) -> list[float]:
    return [env.step(action).info["equity"] for action in actions]


def test_at_the_next_open_the_old_position_earns_the_gap() -> None:
    found = equities(env_of("next_open"), (2, 0, 1))
    # long at 105, seen at 110; until the open at 115, then short 115 to 121; closed at the open at 120
    long = 110 / 105
    short = 115 / 105 * (1 - (121 - 115) / 115)
    flat = 115 / 105 * (1 - (120 - 115) / 115)
    assert found == pytest.approx([long, short, flat], rel=1e-14)


def test_at_the_next_close_the_old_position_earns_the_whole_bar() -> None:
    env = env_of("next_close")
    first = env.step(2)
    assert first.info["equity"] == 1.0 and first.info["position"] == 1.0, "long from 110 on"
    # long 110 to 121, then short 121 to 100
    assert equities(env, (0, 1)) == pytest.approx([1.1, 1.1 * (1 + 21 / 121)], rel=1e-14)


def test_at_the_close_the_new_position_earns_the_whole_bar() -> None:
    # the negative control: long 100 to 110, short 110 to 121, then flat
    assert equities(env_of("close"), (2, 0, 1)) == pytest.approx([1.1, 1.1 * 0.9, 1.1 * 0.9], rel=1e-14)


@pytest.mark.parametrize("execution", ["next_open", "next_close"])
def test_the_exposure_after_the_cost_is_the_target_at_the_fill(execution: str) -> None:
    result = env_of(execution, transaction_cost=1e-3).step(2)
    paid = 1e-3 / 1.001  # D = 1 / 1.001 and the cost 1e-3 of it
    assert result.info["cost"] == pytest.approx(paid, rel=1e-14)
    assert result.info["turnover"] == pytest.approx(1 / 1.001, rel=1e-14)
    moved = 110 / 105 if execution == "next_open" else 1.0
    assert result.info["equity"] == pytest.approx((1 - paid) * moved, rel=1e-14)
    assert result.info["position"] == pytest.approx(1.0, rel=1e-14)


def test_a_cost_is_a_fraction_of_the_equity_that_the_decision_saw() -> None:
    env = env_of("next_open", transaction_cost=1e-3)
    before = env.step(2).info["equity"]
    gap = before * 115 / 110  # the equity at the fill, all of it in the asset
    result = env.step(1)
    assert result.info["cost"] == pytest.approx(1e-3 * gap / before, rel=1e-14)
    assert result.info["equity"] == pytest.approx(gap * (1 - 1e-3), rel=1e-14)


def test_interest_accrues_on_what_is_held_after_the_fill_or_before_it_at_the_next_close() -> None:
    rates = {"cash_rate": 0.1, "dt": 0.5, "positions": (0.0, 1.0)}
    # out of cash at the open: no interest; still in cash during the bar: 0.1 * 0.5 of 1
    assert env_of("next_open", **rates).step(1).info["carry"] == 0.0
    result = env_of("next_close", **rates).step(1)
    assert result.info["carry"] == pytest.approx(0.05, rel=1e-15)
    assert result.info["equity"] == pytest.approx(1.05, rel=1e-15)


def test_ruin_at_the_next_open_ends_there() -> None:
    data = MarketData([100.0, 100.0, 100.0, 100.0], fields={"open": [100.0, 100.0, 100.0, 40.0]})
    env = TradingEnv(
        data=data, lookback=1, episode_length=2, execution="next_open", positions=(2.0,), transaction_cost=0.0
    )
    env.reset()
    assert env.step(0).info["equity"] == 1.0
    result = env.step(0)
    # 2 in the asset and 1 owed: 2 * 0.4 - 1 at the open, and the close at 100 comes too late
    assert result.terminated
    assert result.info["equity"] == pytest.approx(-0.2, rel=1e-14)
    assert (result.info["position"], result.info["cost"], result.info["turnover"]) == (0.0, 0.0, 0.0)
    assert result.reward == pytest.approx(math.log(tk.FLOOR), rel=1e-12)


def test_ruin_at_the_next_close_trades_no_more() -> None:
    env = TradingEnv(
        [100.0, 100.0, 100.0, 40.0, 40.0],
        lookback=1,
        episode_length=3,
        execution="next_close",
        positions=(2.0, 0.0),
        transaction_cost=0.01,
    )
    env.reset(options={"start": 1})
    env.step(0)
    result = env.step(1)
    assert result.terminated and result.info["equity"] < 0
    assert (result.info["cost"], result.info["turnover"]) == (0.0, 0.0)


def test_on_change_holds_its_shares_wherever_trades_fill() -> None:
    env = env_of("next_open", rebalance="on_change", positions=(0.5, -0.5))
    env.step(0)
    held = env.step(0)
    # half of it in 0.5 / 105 shares, valued at 121
    assert held.info["turnover"] == 0.0
    assert held.info["equity"] == pytest.approx(0.5 + 0.5 * 121 / 105, rel=1e-14)


@st.composite
def situations(draw: Any) -> tuple[dict[str, Any], list[int]]:
    length = draw(st.integers(1, 20))
    numbers = st.lists(st.floats(-0.2, 0.2), min_size=length + 2, max_size=length + 2)
    closes = 50 * np.exp(np.cumsum(draw(numbers)))
    opens = closes * np.exp(np.array(draw(numbers)))
    positions = tuple(draw(st.lists(st.floats(-2.5, 2.5), min_size=1, max_size=4)))
    arguments = {
        "data": MarketData(closes, fields={"open": opens}),
        "lookback": 1,
        "episode_length": length,
        "execution": draw(st.sampled_from(["next_open", "next_close"])),
        "positions": positions,
        "transaction_cost": draw(st.floats(0.0, 0.1)),
        "rebalance": draw(st.sampled_from(["always", "on_change"])),
        **{name: draw(st.floats(0.0, 0.3)) for name in ("cash_rate", "margin_rate", "borrow_rate")},
    }
    return arguments, draw(st.lists(st.integers(0, len(positions) - 1), min_size=length, max_size=length))


@settings(max_examples=200)
@given(situations())
def test_the_ledger_balances_at_every_step(situation: tuple[dict[str, Any], list[int]]) -> None:
    arguments, actions = situation
    env, data = TradingEnv(**arguments), arguments["data"]
    env.reset(seed=0)
    equity, price, shares, total = 1.0, env.price, 0.0, 0.0
    for step, action in enumerate(actions):
        result = env.step(action)
        info, new = result.info, result.info["price"]
        fill = new if arguments["execution"] == "next_close" else data.fields["open"][2 + step]
        total += result.reward
        if result.terminated:
            break
        held = info["position"] * info["equity"] / new
        expected = shares * (fill - price) + held * (new - fill) + equity * (info["carry"] - info["cost"])
        scale = 1 + (abs(shares) + abs(held)) * price
        assert info["equity"] - equity == pytest.approx(expected, abs=1e-14 * scale)
        assert total == pytest.approx(math.log(info["equity"]), abs=1e-12)
        equity, price, shares = info["equity"], new, held


@pytest.mark.parametrize("execution", ["next_open", "next_close"])
@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_native_slots_are_single_environments(execution: str, mode: str) -> None:
    rng = np.random.default_rng(0)
    closes = 100 * np.exp(np.cumsum(rng.normal(0, 0.05, 60)))
    data = MarketData(closes, fields={"open": closes * np.exp(rng.normal(0, 0.03, 60))})
    arguments: dict[str, Any] = {
        "data": data, "lookback": 3, "episode_length": 7, "execution": execution,
        "positions": (-1.5, 0.0, 2.0), "margin_rate": 0.1, "borrow_rate": 0.2, "cash_rate": 0.05,
    }  # fmt: skip
    starts = [3, 20, 41]
    vec = TradingVecEnv(3, autoreset=mode, **arguments)
    singles = [TradingEnv(**arguments) for _ in starts]
    vec.reset(options=[{"start": start} for start in starts])
    for env, start in zip(singles, starts, strict=True):
        env.reset(options={"start": start})
    for _ in range(7):
        actions = rng.integers(0, 3, 3)
        result = vec.step(actions)
        for i, env in enumerate(singles):
            alone = env.step(int(actions[i]))
            info = result.final_info(i) if result.ended[i] else result.infos[i]
            assert result.rewards[i] == alone.reward
            assert info == {**alone.info, **{key: info[key] for key in info.keys() - alone.info.keys()}}


def test_a_decision_has_seen_nothing_of_the_fill() -> None:
    def factory(data: MarketData) -> TradingEnv:
        return TradingEnv(data=data, lookback=3, episode_length=20, execution="next_open")

    closes = 100 * np.exp(np.cumsum(np.random.default_rng(1).normal(0, 0.02, 60)))
    assert_no_lookahead(factory, MarketData(closes, fields={"open": closes * 1.01}))


def test_a_state_of_other_opens_is_refused() -> None:
    env = env_of("next_open")
    data = MarketData(CLOSES, fields={"open": [price + 1 for price in OPENS]})
    other = TradingEnv(data=data, lookback=1, episode_length=3, execution="next_open", transaction_cost=0.0)
    with pytest.raises(ValueError, match="history"):
        other.set_state(env.get_state())


def test_a_simulated_market_has_closes_to_fill_at_and_no_opens() -> None:
    env = TradingEnv(execution="next_close", lookback=2, episode_length=2, transaction_cost=0.0)
    env.reset(seed=0)
    assert env.step(2).info["equity"] == 1.0
    result = env.step(2)
    assert result.info["equity"] == pytest.approx(1 + result.info["asset_return"], rel=1e-14)
