"""Fees, half-spreads and impact in Trading-v0 and Portfolio-v0: exact after the cost, whatever it is made of."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.envs.finance import PortfolioEnv, PortfolioVecEnv, TradingEnv, TradingVecEnv
from sekai.envs.finance.portfolio import kernel as pk
from sekai.envs.finance.trading import kernel as tk
from sekai.finance import CostModel, FixedCost, HalfSpreadCost, MarketData, ProportionalCost, SquareRootImpact
from sekai.finance.policies import BuyAndHoldWeights, NoTradeBand
from tests.envs.finance.samples import on_prices

ALL = ProportionalCost(1e-3) + HalfSpreadCost(2e-3) + FixedCost(1e-4) + SquareRootImpact(0.02, 4.0)
#: rate 1e-3 + 1e-3, fee 1e-4, impact 0.02 / sqrt(4)
RATE, FEE, IMPACT = 2e-3, 1e-4, 0.01

both = pytest.mark.parametrize("trade_to", [tk.trade_to, tk.trade_to.compiled], ids=["python", "machine"])
portion = st.floats(-3.0, 3.0)


# ---- Trading-v0 ------------------------------------------------------------------------------------


def test_a_fee_is_paid_before_the_exposure_is_reached() -> None:
    result = on_prices(100.0, 110.0, cost_model=ProportionalCost(1e-3) + FixedCost(0.01)).step(2)
    # 0.99 is left to trade with: D (1 + 0.001) = 0.99
    trade = 0.99 / 1.001
    assert result.info["turnover"] == pytest.approx(trade, rel=1e-14)
    assert result.info["cost"] == pytest.approx(0.01 + 1e-3 * trade, rel=1e-14)
    assert result.info["equity"] == pytest.approx(trade * 1.1, rel=1e-14), "all that is left is invested"


def test_impact_by_hand() -> None:
    # x + k x^1.5 = 1 with k = 0.25 / 0.512: x = 0.64, since 0.8^3 = 0.512 and 0.64 + 0.36 = 1
    k = 0.36 / 0.512
    result = on_prices(100.0, 100.0, cost_model=SquareRootImpact(k, 1.0)).step(2)
    assert result.info["turnover"] == pytest.approx(0.64, rel=1e-14)
    assert result.info["cost"] == pytest.approx(0.36, rel=1e-14)


def test_half_the_spread_is_a_rate() -> None:
    spread, rate = (
        on_prices(100.0, 120.0, cost_model=model).step(0) for model in (HalfSpreadCost(4e-3), ProportionalCost(2e-3))
    )
    assert spread.info == rate.info


def test_who_is_on_target_pays_no_fee() -> None:
    env = on_prices(100.0, 110.0, 95.0, cost_model=FixedCost(0.01))
    assert env.step(2).info["cost"] == 0.01
    second = env.step(2)  # fully invested, but for rounding
    assert (second.info["cost"], second.info["turnover"]) == (0.0, 0.0)
    assert on_prices(100.0, 110.0, cost_model=FixedCost(0.01)).step(1).info["cost"] == 0.0, "flat stays flat"
    # 1e-12 of the equity away, as rounding leaves it: no trade; 1e-9 away: a trade with its fee
    assert tk.trade_to(1.0, 1.0 + 1e-12, 1.0, 0.0, 0.01, 0.0)[:2] == (0.0, 0.0)
    assert tk.trade_to(1.0, 1.0 + 1e-9, 1.0, 0.0, 0.01, 0.0)[1] == 0.01


def test_a_fee_that_nobody_can_pay_stops_the_first_trade_and_ruins_who_must_leave() -> None:
    flat = on_prices(100.0, 110.0, cost_model=FixedCost(2.0)).step(2)
    assert flat.info["equity"] == 1.0 and flat.info["cost"] == 0.0
    assert not flat.terminated
    env = on_prices(100.0, 100.0, 100.0, cost_model=0.0)
    env.step(2)
    env.cost_model = FixedCost(2.0)
    gone = env.step(0)
    assert gone.terminated and gone.info["equity"] == -1.0


@both
@settings(max_examples=300)
@given(
    equity=st.floats(0.01, 10.0),
    held=portion,
    target=portion,
    rate=st.floats(0.0, 0.1),
    fee=st.floats(0.0, 0.01),
    impact=st.floats(0.0, 0.1),
)
def test_the_exposure_after_every_cost_is_the_target(
    trade_to: Any, equity: float, held: float, target: float, rate: float, fee: float, impact: float
) -> None:
    value = held * equity
    trade, cost, after, exposure = trade_to(equity, value, target, rate, fee, impact)
    scale = equity * (1 + abs(held) + abs(target))
    paid = (fee if trade or cost else 0.0) + rate * abs(trade) + impact * abs(trade) ** 1.5
    assert cost == pytest.approx(paid, rel=1e-12, abs=1e-15)
    assert after == equity - cost
    if cost == 0.0 and trade == 0.0:
        on_target = abs(target * equity - value) <= 1e-10 * equity
        assert on_target or value == 0.0, "nothing to close"
    elif exposure == target:
        assert value + trade == pytest.approx(target * after, abs=2e-15 * scale)
    else:
        assert exposure == 0.0 and trade == -value, "closed, since no trade reaches the target"


class CountingMath:
    """The module `math`, counting square roots: one a turn of `trade_to`, and one or two for the cost."""

    def __init__(self) -> None:
        self.roots = 0

    def sqrt(self, x: float) -> float:
        self.roots += 1
        return math.sqrt(x)


def bracketed_size(gap: float, pull: float, rate: float, impact: float) -> float:
    """The least root of `x + pull (rate x + impact x^1.5) = gap`, halved down to 40 digits."""
    with localcontext(prec=60):
        g, s, c, k = map(Decimal, (gap, pull, rate, impact))
        # with pull < 0 the left side turns where 1 + s c = 1.5 |s| k sqrt(x)
        low, high = Decimal(0), g if s >= 0 else ((1 + s * c) / (-s * k) * 2 / 3) ** 2
        for _ in range(200):
            middle = (low + high) / 2
            too_little = middle + s * (c + k * middle.sqrt()) * middle < g
            low, high = (middle, high) if too_little else (low, middle)
        return float(low)


def test_a_trade_is_found_in_a_few_turns_and_is_the_bracketed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, solved = np.random.default_rng(0), 0
    for _ in range(300):
        equity, held, target = rng.uniform(0.1, 10.0), rng.uniform(-3.0, 3.0), rng.uniform(-3.0, 3.0)
        rate, fee, impact = rng.uniform(0.0, 0.1), rng.uniform(0.0, 0.01), rng.uniform(0.001, 0.1)
        counting = CountingMath()
        with monkeypatch.context() as patch:
            patch.setattr(tk, "math", counting)
            trade, _, _, exposure = tk.trade_to(equity, held * equity, target, rate, fee, impact)
        assert counting.roots <= 15, (equity, held, target, rate, fee, impact)
        if exposure == target:
            gap = target * (equity - fee) - held * equity
            size = bracketed_size(abs(gap), math.copysign(target, target * gap), rate, impact)
            assert trade == pytest.approx(math.copysign(size, gap), rel=1e-14)
            solved += 1
    assert solved > 250


def test_the_first_order_cost_misses_the_target() -> None:
    # the negative control: the cost of the trade that would do without one
    gap = 1.0
    first_order = RATE * gap + FEE + IMPACT * gap**1.5
    trade, cost, after, _ = tk.trade_to(1.0, 0.0, 1.0, RATE, FEE, IMPACT)
    assert abs(trade - (1.0 - cost)) < 1e-15 < 1e-5 < abs(gap - (1.0 - first_order))
    assert after == 1.0 - cost


def test_buying_and_selling_short_mirror_each_other_in_what_they_cost() -> None:
    # from cash to a: D = a (1 - c); with the exposure -a, the same D the other way
    long, short = (tk.trade_to(1.0, 0.0, target, RATE, FEE, IMPACT) for target in (0.5, -0.5))
    assert long[0] == -short[0] and long[1:3] == short[1:3]


def test_a_proportional_cost_keeps_its_closed_form() -> None:
    for value, target in ((0.0, 1.0), (0.7, -1.0), (-0.5, 0.3)):
        assert tk.trade_to(1.0, value, target, 1e-3, 0.0, 0.0) == tk.retarget(1.0, value, target, 1e-3)
        # and the other path comes to the same
        limit = tk.trade_to(1.0, value, target, 1e-3, 0.0, 1e-300)
        assert limit == pytest.approx(tk.retarget(1.0, value, target, 1e-3), rel=1e-14)


# ---- Portfolio-v0 ----------------------------------------------------------------------------------


def block(n: int, rate: Any, fee: Any, impact: Any) -> Any:
    assets = np.zeros((pk.FACTOR + n, n))
    assets[pk.RATE], assets[pk.FEE], assets[pk.IMPACT] = rate, fee, impact
    return assets


def traded(kernel: Any, equity: float, held: Any, targets: Any, assets: Any) -> tuple[Any, float, float]:
    """Targets (which may be overwritten), turnover and cost of one slot; `held` and `targets` of the risky assets."""
    columns = [np.array([[*weights, 1 - sum(weights)]], float).T.copy() for weights in (held, targets)]
    turnover, cost = np.zeros(1), np.zeros(1)
    kernel(np.array([equity]), columns[0], columns[1], assets, turnover, cost)
    return columns[1][:, 0], float(turnover[0]), float(cost[0])


weights = st.lists(st.floats(-1.0, 1.0), min_size=3, max_size=3).map(lambda w: np.array(w) / max(1, sum(map(abs, w))))


@pytest.mark.parametrize("kernel", [pk.trade_all, pk.trade_all.compiled], ids=["python", "machine"])
@settings(max_examples=200)
@given(
    equity=st.floats(0.05, 20.0),
    held=weights,
    targets=weights,
    rate=st.lists(st.floats(0.0, 0.05), min_size=3, max_size=3),
    fee=st.lists(st.floats(0.0, 1e-3), min_size=3, max_size=3),
    impact=st.lists(st.floats(0.0, 0.05), min_size=3, max_size=3),
)
def test_the_fraction_left_solves_its_equation(
    kernel: Any, equity: float, held: Any, targets: Any, rate: Any, fee: Any, impact: Any
) -> None:
    assets = block(3, rate, fee, impact)
    reached, turnover, cost = traded(kernel, equity, held, targets, assets)
    if np.abs(targets - held).max() <= pk.NO_TRADE:
        assert (turnover, cost) == (0.0, 0.0) and np.array_equal(reached[:3], held)
        return
    assert np.array_equal(reached[:3], targets)
    left = 1.0 - cost
    sizes = np.abs(left * targets - held)
    # in money: the cost of trades of `equity * sizes`, in units of the equity at the start
    money = equity * sizes
    fees = np.where((np.abs(targets - held) > pk.NO_TRADE) | (sizes > pk.NO_TRADE), fee, 0.0).sum()
    paid = fees + (np.array(rate) * money).sum() + (np.array(impact) * money**1.5).sum()
    assert cost * equity == pytest.approx(paid, rel=1e-12, abs=1e-14 * equity)
    assert turnover == pytest.approx(sizes.sum(), rel=1e-12, abs=1e-14)
    # the order of the assets is one of rounding
    order = [2, 0, 1]
    again = traded(kernel, equity, held[order], targets[order], assets[:, order])
    assert again[2] == pytest.approx(cost, rel=1e-12, abs=1e-15)


def test_a_portfolio_by_hand() -> None:
    env = PortfolioEnv(
        np.full((4, 2), 100.0), lookback=1, episode_length=2, cost_model=FixedCost((0.01, 0.02)) + ProportionalCost(0.1)
    )
    env.reset()
    half = env.step(np.array([0.5, 0.0, 0.5], np.float32))
    # only asset 0 trades: m = 1 - 0.01 - 0.1 * 0.5 m, so m = 0.99 / 1.05
    left = 0.99 / 1.05
    assert half.info["equity"] == pytest.approx(left, rel=1e-14)
    assert half.info["turnover"] == pytest.approx(0.5 * left, rel=1e-14)
    second = env.step(np.array([0.0, 0.5, 0.5], np.float32))
    # fees of both are 0.03 of the start; sells 0.5 and buys 0.5 m: m = 1 - 0.03 / left - 0.05 - 0.05 m
    again = (0.95 - 0.03 / left) / 1.05
    assert second.info["equity"] == pytest.approx(left * again, rel=1e-14)


def test_who_keeps_the_weights_pays_nothing() -> None:
    env = PortfolioEnv(n_assets=2, cost_model=FixedCost(0.01), lookback=1, episode_length=5, sigma=0.0, mu=0.0)
    env.reset(seed=0)
    assert env.step(np.array([0.5, 0.25, 0.25], np.float32)).info["cost"] == 0.02
    kept = env.step(np.array([0.5, 0.25, 0.25], np.float32))
    assert (kept.info["cost"], kept.info["turnover"]) == (0.0, 0.0)
    assert kept.reward == 0.0


def test_drifted_weights_handed_back_in_float32_pay_no_fee() -> None:
    # what is observed is rounded, and so is the sum that an action is divided by: this is no trade
    vec = PortfolioVecEnv(50, n_assets=7, cost_model=FixedCost(1e-3), lookback=2, episode_length=30)
    policy = BuyAndHoldWeights(vec)
    result: Any = vec.reset(seed=0)
    result = vec.step(policy.act(result.observations))
    assert [info["cost"] for info in result.infos] == pytest.approx([7e-3] * 50)  # seven assets bought
    for _ in range(20):
        result = vec.step(policy.act(result.observations))
        assert [(info["cost"], info["turnover"]) for info in result.infos] == [(0.0, 0.0)] * 50


def test_a_trade_that_is_seen_in_float32_pays_its_fee() -> None:
    # 1e-6 of the equity more of asset 0, ten times what rounding makes of an action
    held, targets = np.array([0.5, 0.25, 0.0]), np.array([0.500001, 0.25, 0.0])
    assert traded(pk.trade_all, 1.0, held, targets, block(3, 0.0, 0.01, 0.0))[2] == 0.02


def test_without_fees_and_impact_both_paths_agree() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        held, targets = (w / np.abs(w).sum() for w in rng.uniform(-1, 1, (2, 3)))
        assets = block(3, 0.02, 0.0, 0.0)
        columns = [np.array([[*w, 1 - w.sum()]]).T.copy() for w in (held, targets)]
        turnover, cost = np.zeros(1), np.zeros(1)
        pk.trade(columns[0], columns[1], assets[pk.RATE], turnover, cost)
        assert traded(pk.trade_all, 1.0, held, targets, assets)[1:] == pytest.approx((turnover[0], cost[0]), rel=1e-13)


def test_who_cannot_pay_for_covering_covers() -> None:
    assets = block(2, 0.5, (0.25, 0.125), 1.0)
    targets, turnover, cost = traded(pk.trade_all, 1.0, [-3.0, 0.0], [0.5, 0.5], assets)
    # 0.5 * 3 + 3^1.5 is more than all there is; asset 1 is not traded and pays no fee
    assert targets.tolist() == [0.0, 0.0, 1.0]
    assert (turnover, cost) == (3.0, pytest.approx(0.25 + 1.5 + 3**1.5))


# ---- both ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [ALL, FixedCost(1e-3), SquareRootImpact(0.02, 4.0)], ids=repr)
def test_native_slots_are_single_environments(model: CostModel) -> None:
    prices = 100 * np.exp(np.cumsum(np.random.default_rng(0).normal(0, 0.03, (40, 2)), axis=0))
    for single, native, action, count in (
        (TradingEnv, TradingVecEnv, lambda rng: rng.integers(0, 3), 1),
        (PortfolioEnv, PortfolioVecEnv, lambda rng: rng.random(3).astype(np.float32), 2),
    ):
        rng = np.random.default_rng(1)
        arguments = {
            "prices": prices[:, 0] if count == 1 else prices,
            "cost_model": model,
            "lookback": 2,
            "episode_length": 20,
        }
        env, vec = single(**arguments), native(3, autoreset="disabled", **arguments)
        starts = [{"start": row} for row in (2, 9, 15)]
        vec.reset(options=starts)
        env.reset(options=starts[1])
        for _ in range(20):
            actions = np.stack([action(rng) for _ in range(3)])
            result, one = vec.step(actions), env.step(actions[1])
            assert result.rewards[1] == one.reward
            info = result.infos[1]
            assert all(np.array_equal(info[name], value) for name, value in one.info.items())


@pytest.mark.parametrize("execution", ["close", "next_open", "next_close"])
def test_the_ledger_balances_wherever_trades_fill(execution: str) -> None:
    rng = np.random.default_rng(2)
    closes = 100 * np.exp(np.cumsum(rng.normal(0, 0.03, 200)))
    data = MarketData(closes, fields={"open": closes * np.exp(rng.normal(0, 0.01, 200))})
    env = TradingEnv(
        data=data,
        lookback=1,
        episode_length=190,
        execution=execution,
        cost_model=ALL,
        positions=(-1.0, -0.3, 0.0, 0.5, 1.5),
    )
    env.reset(options={"start": 1})
    equity, price, shares, fees = 1.0, closes[1], 0.0, 0
    for step in range(190):
        info = env.step(int(rng.integers(5))).info
        fill = {"close": price, "next_open": data.fields["open"][2 + step], "next_close": info["price"]}[execution]
        held = info["position"] * info["equity"] / info["price"]
        expected = shares * (fill - price) + held * (info["price"] - fill) - info["cost"] * equity
        assert info["equity"] - equity == pytest.approx(expected, abs=1e-13)
        size = info["turnover"] * equity
        assert info["cost"] * equity == pytest.approx(
            (FEE if size else 0.0) + RATE * size + IMPACT * size**1.5, rel=1e-11
        )
        fees += size > 0
        equity, price, shares = info["equity"], info["price"], held
    assert fees > 100


def test_a_cost_model_may_be_set_and_is_part_of_the_state(tmp_path: Any) -> None:
    model = ALL + ProportionalCost([1e-3, 2e-3])
    vec, other = (PortfolioVecEnv(4, n_assets=2) for _ in range(2))
    vec.reset(seed=0)
    vec.set_attr("cost_model", model)
    assert vec.template.transaction_cost is None
    np.savez(tmp_path / "state.npz", **vec.get_state())
    with np.load(tmp_path / "state.npz", allow_pickle=False) as state:
        other.set_state(state)
    assert other.template.cost_model == model
    action = np.full((4, 3), 0.3, np.float32)
    assert np.array_equal(vec.step(action).rewards, other.step(action).rewards)
    bad = {**vec.get_state(), "env.parameters.cost_model": np.array('[["Bribe", {}]]')}
    with pytest.raises(ValueError, match=r"^cost_model is .*expected names and arguments of cost models"):
        other.set_state(bad)


def test_the_shorthand_is_read_where_there_is_nothing_but_a_rate() -> None:
    assert TradingEnv(cost_model=HalfSpreadCost(0.01)).transaction_cost == 0.005
    assert TradingEnv(cost_model=FixedCost(0.01)).transaction_cost is None
    env = PortfolioEnv(n_assets=2, cost_model=HalfSpreadCost((0.01, 0.02)) + ProportionalCost(0.001))
    assert env.transaction_cost == (0.006, 0.011)


def test_a_band_needs_a_proportional_cost_or_a_width() -> None:
    env = PortfolioEnv(n_assets=1, cost_model=FixedCost(0.01))
    with pytest.raises(ValueError, match="the width of the band is known for proportional costs; give half_width"):
        NoTradeBand(env, [0.5])
    assert NoTradeBand(env, [0.5], 0.1).half_width.tolist() == [0.1]


def test_growth_is_log_growth_under_every_cost() -> None:
    env = PortfolioEnv(n_assets=3, cost_model=ALL, lookback=1, episode_length=50)
    env.reset(seed=1)
    rng, total = np.random.default_rng(0), 0.0
    for _ in range(50):
        result = env.step(rng.random(4).astype(np.float32))
        total += result.reward
    assert total == pytest.approx(math.log(result.info["equity"]), abs=1e-12)
