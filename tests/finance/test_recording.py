"""`RecordPerformance` and `VecRecordPerformance`: whose rows a ledger holds, in every mode, and what it amounts to."""

from __future__ import annotations

import asyncio
import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.envs.finance import (
    MarketMakingEnv,
    MarketMakingVecEnv,
    OptimalExecutionEnv,
    OptimalExecutionVecEnv,
    PortfolioEnv,
    PortfolioVecEnv,
    TradingEnv,
    TradingVecEnv,
)
from sekai.finance import Performance, RecordPerformance, VecRecordPerformance, execution_summary, profit_summary
from tests.envs.finance.samples import HISTORY, on_prices

MODES = ("same_step", "next_step", "disabled")
BOOM = 9


class Account(sekai.Env):
    """Equity `1 + slot + episode / 10 + t / 100` after step `t`, a cost of `t / 1000`; action 9 raises."""

    observation_space = sekai.Box(0.0, 1e6, (1,), np.float32)
    action_space = sekai.Discrete(10)

    def __init__(self, slot: int, *lengths: int) -> None:
        self.slot, self.lengths, self.episode = slot, lengths, -1

    def _info(self) -> dict[str, Any]:
        equity = 1.0 + self.slot + self.episode / 10 + self.t / 100
        return {"equity": equity, "dt": 1 / 252, "cost": self.t / 1000 if self.t else 0}

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        self.episode, self.t = self.episode + 1, 0
        return sekai.ResetResult(np.zeros(1, np.float32), self._info())

    def step(self, action: Any) -> sekai.StepResult:
        if int(action) == BOOM:
            raise ValueError("boom")
        self.t += 1
        end = self.t >= self.lengths[self.episode % len(self.lengths)]
        return sekai.StepResult(np.zeros(1, np.float32), 0.0, False, end, self._info())


def curve(slot: int, episode: int, length: int) -> list[float]:
    return [1.0 + slot + episode / 10 + t / 100 for t in range(length + 1)]


def reported(result: Any) -> dict[int, list[float]]:
    """Equity curves by slot, after a look at all places where a performance is due."""
    found = {}
    for slot, info in enumerate(result.infos):
        if "performance" in info:
            assert result.ended[slot]
            assert result.final_info(slot)["performance"] is info["performance"]
            found[slot] = info["performance"].ledger["equity"].tolist()
    return found


def sync(mode: str, *lengths: tuple[int, ...]) -> VecRecordPerformance:
    copies = [lambda slot=slot, given=given: Account(slot, *given) for slot, given in enumerate(lengths)]
    return VecRecordPerformance(sekai.SyncVecEnv(copies, autoreset=mode))


# ---- one environment ------------------------------------------------------------------------------


def test_the_ledger_and_the_metrics_of_a_hand_made_episode() -> None:
    # Long at 1e-2 of the trade: 1 = E + 0.01 E, so E = 1 / 1.01; then +10 %, then flat: sells all, E (1 - 0.01)
    env = RecordPerformance(on_prices(100.0, 110.0, 99.0, transaction_cost=0.01))
    env.reset(seed=0)
    assert "performance" not in env.step(2).info
    performance = env.step(1).info["performance"]
    first = 1 / 1.01 * 1.1
    ledger, metrics = performance.ledger, performance.metrics
    assert ledger["equity"].tolist() == pytest.approx([1.0, first, first * 0.99], rel=1e-14)
    assert ledger["position"].tolist() == [0.0, 1.0, 0.0]
    assert ledger["timestamp"].tolist() == [1, 2, 3] and ledger["timestamp"].dtype == np.int64
    assert ledger["cost"].tolist() == pytest.approx([0.01 / 1.01, 0.01], rel=1e-13)
    assert ledger["turnover"].tolist() == pytest.approx([1 / 1.01, 1.0], rel=1e-13)
    assert ledger["dt"].tolist() == [1 / 252] * 2
    assert metrics["total_return"] == pytest.approx(first * 0.99 - 1)
    assert metrics["max_drawdown"] == pytest.approx(0.01)
    assert metrics["annual_turnover"] == pytest.approx((1 / 1.01 + 1.0) / 2 * 252)
    assert metrics["cost_drag"] == pytest.approx(0.01 / 1.01 + 0.01 * first)
    assert metrics["exposure_time"] == 0.5
    assert all(type(value) is float for value in metrics.values())


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("where", ["alone", "AutoReset inside", "AutoReset outside"])
def test_each_episode_of_one_environment_has_its_own_ledger(where: str, awaited: bool) -> None:
    base = Account(0, 2, 3)
    env: Any = RecordPerformance(sekai.AutoReset(base) if where == "AutoReset inside" else base)
    run = sekai.AutoReset(env) if where == "AutoReset outside" else env

    async def play() -> list[Any]:
        results = [await run.async_reset(seed=0) if awaited else run.reset(seed=0)]
        while len(results) < 8:
            if results[-1].done and where == "alone":
                await run.async_reset() if awaited else run.reset()
            results.append(await run.async_step(0) if awaited else run.step(0))
        return results

    infos = [result.info for result in asyncio.run(play())]
    assert [k for k, info in enumerate(infos) if "performance" in info] == [2, 5, 7]
    curves = [infos[k]["performance"].ledger["equity"].tolist() for k in (2, 5, 7)]
    assert curves == [curve(0, 0, 2), curve(0, 1, 3), curve(0, 2, 2)]
    if where != "alone":
        assert infos[5]["final_info"]["performance"] == infos[5]["performance"]
    assert infos[5]["performance"].ledger["cost"].tolist() == [0.001, 0.002, 0.003], "ints become floats"


def test_a_reset_by_hand_forgets_the_unfinished_episode_and_an_unseen_beginning_is_not_reported() -> None:
    base = Account(0, 2)
    env = RecordPerformance(base)
    env.reset()
    env.step(0)
    env.reset()
    env.step(0)
    assert env.step(0).info["performance"].ledger["equity"].tolist() == curve(0, 1, 2)
    base.reset()  # behind its back
    assert "performance" not in env.step(0).info and "performance" not in env.step(0).info


def test_the_periods_of_a_year_come_from_dt() -> None:
    env = RecordPerformance(on_prices(100.0, 110.0, 121.0, dt=1 / 4))
    env.reset(seed=0)
    env.step(2)
    metrics = env.step(2).info["performance"].metrics
    assert metrics["annual_return"] == pytest.approx(1.21**2 - 1)  # half a year
    assert metrics["exposure_time"] == 1.0, "held over each step, though not before the first"
    env.reset()
    env.step(2)
    env.unwrapped.dt = 3 / 4  # the whole year now: a quarter and three of them
    assert env.step(2).info["performance"].metrics["annual_return"] == pytest.approx(0.21)


def test_an_environment_without_any_account_is_refused_at_its_first_reset() -> None:
    with pytest.raises(ValueError, match=r"have the keys \[.*\]; expected one of \['equity', 'wealth', 'impl"):
        RecordPerformance(sekai.make("CartPole-v1")).reset()
    copies = [lambda: sekai.make("CartPole-v1")]
    with VecRecordPerformance(sekai.SyncVecEnv(copies)) as vec, pytest.raises(ValueError, match="no performance"):
        vec.reset()


# ---- slots and modes ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_each_episode_of_each_slot_is_reported_once(mode: str) -> None:
    with sync(mode, (2,), (3,)) as vec:
        vec.reset(seed=0)
        calls = [reported(vec.step([0, 0])) for _ in range(6)]
    first, second = {0: curve(0, 0, 2)}, {1: curve(1, 0, 3)}
    assert (
        calls
        == {
            "same_step": [{}, first, second, {0: curve(0, 1, 2)}, {}, {0: curve(0, 2, 2), 1: curve(1, 1, 3)}],
            "next_step": [{}, first, second, {}, {0: curve(0, 1, 2)}, {}],
            "disabled": [{}, first, second, {}, {}, {}],
        }[mode]
    )


@pytest.mark.parametrize("mode", MODES)
def test_an_episode_of_which_a_row_was_lost_is_not_reported_and_the_next_one_is(mode: str) -> None:
    with sync(mode, (3,), (4,)) as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        with pytest.raises(ValueError, match="boom"):
            vec.step([0, BOOM])  # slot 0 takes its second step unseen
        calls = [reported(vec.step([0, 0])) for _ in range(9)]
        seen = [(slot, values) for call in calls for slot, values in call.items()]
        lengths = {0: 3, 1: 4}
        assert all(values == curve(slot, round(10 * (values[0] - 1 - slot)), lengths[slot]) for slot, values in seen)
        assert all(values[0] > 1.05 + slot for slot, values in seen), "not the first episode of either"
        assert {slot for slot, _ in seen} == ({0, 1} if mode != "disabled" else set())
        vec.reset()
        again = [reported(vec.step([0, 0])) for _ in range(3)]
        assert list(again[2]) == [0] and len(again[2][0]) == 4


def test_a_partial_reset_forgets_its_slots_only() -> None:
    with sync("disabled", (3,), (3,)) as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        vec.reset(mask=np.array([True, False]))
        calls = [reported(vec.step([0, 0])) for _ in range(4)]
    assert calls == [{}, {1: curve(1, 0, 3)}, {0: curve(0, 1, 3)}, {}]


def test_a_refused_reset_forgets_nothing_and_an_unseen_reset_begins_nothing() -> None:
    with sync("same_step", (2,), (2,)) as vec:
        vec.venv.reset(seed=0)
        assert reported(vec.step([0, 0])) == reported(vec.step([0, 0])) == {}, "no reset was seen"
        vec.reset(seed=0)
        vec.step([0, 0])
        with pytest.raises(ValueError):
            vec.reset(seed=-1)
        assert list(reported(vec.step([0, 0]))) == [0, 1]


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("mode", MODES)
def test_native_ledgers_are_what_the_infos_said_over_staggered_ends_and_partial_resets(
    mode: str, awaited: bool
) -> None:
    # Episodes of 5 to 300 steps, longer than the 64 rows that a recorder begins with: leveraged positions are ruined
    vec = VecRecordPerformance(
        TradingVecEnv(
            7, positions=(-9.0, 0.0, 9.0), sigma=1.0, ruin_fraction=0.5, episode_length=300, lookback=2, autoreset=mode
        )
    )

    async def play() -> int:
        keys = ("equity", "position", "timestamp", "cost", "turnover", "carry", "dt")
        rng, lines, reports = np.random.default_rng(0), {}, 0
        lines = {slot: [info] for slot, info in enumerate((await vec.async_reset(seed=3)).infos)}
        for k in range(900):
            actions = np.where(rng.random(7) < 0.05, 2, 1)
            result = await vec.async_step(actions) if awaited else vec.step(actions)
            for slot, info in enumerate(result.infos):
                if result.kind[slot] == sekai.RowKind.RESET:
                    lines[slot] = [info]
                if result.valid[slot]:
                    lines[slot].append(result.final_info(slot) if result.ended[slot] else info)
                assert ("performance" in info) == result.ended[slot]
                if result.ended[slot]:
                    assert result.final_info(slot)["performance"] is info["performance"]
                    ledger, rows = info["performance"].ledger, lines[slot]
                    assert set(ledger) == set(keys)
                    for key in keys:
                        skipped = 0 if key in keys[:3] else 1
                        assert ledger[key].tolist() == [row[key] for row in rows[skipped:]], (k, slot, key)
                    reports += 1
                    if "reset_info" in info:
                        lines[slot] = [info["reset_info"]]
            if k % 50 == 49:
                mask = rng.random(7) < (0.8 if mode == "disabled" else 0.2)
                for slot in np.flatnonzero(mask):
                    lines[slot] = []
                fresh = await vec.async_reset(mask=mask) if awaited else vec.reset(mask=mask)
                for slot in np.flatnonzero(mask):
                    lines[slot] = [fresh.infos[slot]]
        return reports

    assert asyncio.run(play()) > 20
    assert 64 < vec._capacity <= 512, "it grew to the longest episode and no further"


def test_native_and_single_ledgers_are_equal_on_one_history() -> None:
    weights = np.random.default_rng(1).random((9, 3)).astype(np.float32)
    prices = np.stack([HISTORY, HISTORY[::-1]], axis=1)
    market: dict[str, Any] = {"prices": prices, "episode_length": 9, "lookback": 3}
    single = RecordPerformance(PortfolioEnv(**market))
    single.reset(seed=0, options={"start": 20})
    for action in weights:
        alone = single.step(action).info
    for mode in MODES:
        vec = VecRecordPerformance(PortfolioVecEnv(2, autoreset=mode, **market))
        vec.reset(seed=0, options=[{"start": 20}, {"start": 30}])
        for action in weights:
            result = vec.step(np.stack([action] * 2))
        performance = result.infos[0]["performance"]
        assert performance == alone["performance"] != result.infos[1]["performance"]
        assert performance.metrics == pytest.approx(alone["performance"].metrics, rel=1e-12)
        assert performance.ledger["weights"].shape == (10, 3)
        assert performance.metrics["exposure_time"] == 1.0


def test_a_portfolio_all_in_cash_has_no_exposure() -> None:
    performance, _ = finished(PortfolioEnv(n_assets=2, lookback=1, episode_length=3), [0.0, 0.0, 1.0])
    assert performance.metrics["exposure_time"] == 0.0
    assert performance.ledger["weights"].tolist() == [[0.0, 0.0, 1.0]] * 4


def test_a_slot_that_stays_frozen_does_not_hold_rows_back() -> None:
    with sync("disabled", (2,), (3,)) as vec:
        vec.reset(seed=0)
        for _ in range(100):
            found = [reported(vec.step([0, 0])) for _ in range(3)]
            vec.reset(mask=np.array([False, True]))
        assert list(found[2]) == [1]
        assert vec._capacity == 64


def test_lost_rows_of_a_native_environment_break_the_episode() -> None:
    vec = VecRecordPerformance(TradingVecEnv(2, HISTORY, episode_length=3, lookback=2))
    vec.reset(seed=0)
    vec.step([0, 0])
    vec.lose_rows(np.array([True, False]))
    vec.step([0, 0])
    result = vec.step([0, 0])
    assert list(reported(result)) == [1]
    assert "performance" not in result.final_info(0)
    assert [list(reported(vec.step([0, 0]))) for _ in range(3)] == [[], [], [0, 1]]


def test_copies_inside_a_vector_environment_report_in_the_final_info() -> None:
    def build() -> Any:
        return RecordPerformance(TradingEnv(HISTORY, episode_length=2, lookback=2))

    with sekai.ProcVecEnv([build, build], num_workers=1) as vec:
        vec.reset(seed=0)
        vec.step([0, 1])
        result = vec.step([0, 1])
    for slot in (0, 1):
        assert result.final_info(slot)["performance"] == result.infos[slot]["performance"]
        assert len(result.final_info(slot)["performance"].ledger["equity"]) == 3


def test_results_handed_out_and_later_changes_to_infos_do_not_meet() -> None:
    vec = VecRecordPerformance(TradingVecEnv(2, HISTORY, episode_length=2, lookback=2))
    vec.reset(seed=0)
    first = vec.step([2, 2])
    first.infos[0]["equity"] = -1.0
    kept = vec.step([2, 2]).infos[0]["performance"]
    before = copy.deepcopy(kept.ledger)
    for _ in range(200):
        vec.step([0, 0])
    assert (kept.ledger["equity"] > 0).all()
    assert all(np.array_equal(before[name], values) for name, values in kept.ledger.items())


def test_a_performance_is_pickled_alone_and_equal() -> None:
    vec = VecRecordPerformance(TradingVecEnv(50, HISTORY, episode_length=20, lookback=2))
    vec.reset(seed=0)
    for _ in range(20):
        result = vec.step(np.full(50, 2))
    performance = result.infos[7]["performance"]
    frozen = pickle.dumps(performance)
    assert len(frozen) < 4000, "without the 49 episodes beside it"
    assert pickle.loads(frozen) == performance == copy.deepcopy(performance)
    assert pickle.loads(frozen).metrics == pytest.approx(performance.metrics, rel=1e-12)
    assert "total_return" in repr(performance)


# ---- what each environment gives ------------------------------------------------------------------


def finished(env: Any, action: Any) -> tuple[Performance, dict[str, Any]]:
    recorder = RecordPerformance(env)
    recorder.reset(seed=5)
    while True:
        result = recorder.step(np.asarray(action, np.float32))
        if result.done:
            return result.info["performance"], result.info


def test_market_making_gives_money_and_where_it_came_from() -> None:
    performance, info = finished(MarketMakingEnv(n_steps=50), [0.5, 0.5])
    ledger, metrics = performance.ledger, performance.metrics
    assert ledger["wealth"][0] == 0.0 and len(ledger["wealth"]) == 51 == len(ledger["spread_pnl"]) + 1
    assert metrics["profit"] == info["wealth"]
    assert metrics["spread_profit"] + metrics["inventory_profit"] == pytest.approx(metrics["profit"], abs=1e-10)
    fills = ledger["bid_filled"].sum() + ledger["ask_filled"].sum()
    assert metrics["fills"] == fills > 0
    assert metrics["spread_profit"] == pytest.approx(0.5 * fills)
    assert metrics["max_absolute_inventory"] == np.abs(ledger["inventory"]).max() >= 1
    # 50 steps of 1 / 50: sd of a change times sqrt(50)
    assert metrics["profit_volatility"] == pytest.approx(np.diff(ledger["wealth"]).std(ddof=1) * math.sqrt(50))


def test_execution_gives_the_shortfall_and_its_parts() -> None:
    performance, info = finished(OptimalExecutionEnv(n_steps=4), [0.25])
    ledger, metrics = performance.ledger, performance.metrics
    assert ledger["inventory"].tolist() == pytest.approx([1e6, 750e3, 562.5e3, 421.875e3, 0.0])
    assert ledger["shares_sold"].tolist() == pytest.approx([250e3, 187.5e3, 140.625e3, 421.875e3])
    assert metrics["implementation_shortfall"] == info["implementation_shortfall"]
    assert metrics["shortfall_bps"] == info["shortfall_bps"]
    parts = sum(metrics[f"{part}_bps"] for part in ("spread", "temporary", "permanent", "timing"))
    assert parts == pytest.approx(metrics["shortfall_bps"])
    assert metrics["filled_fraction"] == 1.0 and metrics["slices"] == 4
    # X S_0 - X (average price) = shortfall
    assert 1e6 * (50.0 - metrics["average_price"]) == pytest.approx(metrics["implementation_shortfall"])


def test_native_market_making_and_execution_give_the_same_kinds() -> None:
    for env, single, action in (
        (MarketMakingVecEnv(3, n_steps=5), MarketMakingEnv(n_steps=5), [0.5, 0.5]),
        (OptimalExecutionVecEnv(3, n_steps=5), OptimalExecutionEnv(n_steps=5), [0.25]),
    ):
        vec = VecRecordPerformance(env)
        vec.reset(seed=0)
        for _ in range(5):
            result = vec.step(np.array([action] * 3, np.float32))
        alone, _ = finished(single, action)
        for slot in range(3):
            performance = result.final_info(slot)["performance"]
            assert performance.metrics.keys() == alone.metrics.keys()
            assert {n: v.shape for n, v in performance.ledger.items()} == {n: v.shape for n, v in alone.ledger.items()}


def test_profits_of_two_traders_side_by_side() -> None:
    # first: 0 -> 2 -> -1 -> 3: changes 2, -3, 4; second: loses 1 a step
    wealth = np.array([[0.0, 0.0], [2.0, -1.0], [-1.0, -2.0], [3.0, -3.0]])
    found = profit_summary(
        wealth, 4.0, inventory=[[9.0, 9.0], [2.0, -1.0], [2.0, -1.0], [2.0, -1.0]], fills=np.ones((3, 2))
    )
    assert found["profit"].tolist() == [3.0, -3.0]
    assert found["max_drawdown"].tolist() == [3.0, 3.0]
    assert found["profit_factor"].tolist() == [2.0, 0.0]  # (2 + 4) / 3
    assert found["hit_rate"].tolist() == [2 / 3, 0.0]
    # mean 1, squared deviations 1 + 16 + 9 = 26, over 2, times 4
    assert found["profit_volatility"].tolist() == [pytest.approx(math.sqrt(52)), 0.0]
    assert found["sharpe_ratio"][0] == pytest.approx(1 / math.sqrt(13) * 2) and np.isnan(found["sharpe_ratio"][1])
    assert found["mean_absolute_inventory"].tolist() == [2.0, 1.0] and found["fills"].tolist() == [3.0, 3.0]


def test_an_order_that_was_not_filled_has_no_price() -> None:
    found = execution_summary([0.0, 0.0], inventory=[5.0, 5.0], filled=[0.0], price=[50.0])
    assert found["filled_fraction"] == 0.0 and found["slices"] == 0.0 and math.isnan(found["average_price"])
