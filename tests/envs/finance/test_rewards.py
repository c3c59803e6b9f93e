"""`reward=` of Trading-v0 and Portfolio-v0: single, sync, native and in processes, over ends, resets and files."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.envs.finance import PortfolioEnv, PortfolioVecEnv, TradingEnv, TradingVecEnv, portfolio, threads, trading
from sekai.envs.finance.rewarding import SlotRewards
from sekai.errors import ResetRequired
from sekai.finance import (
    DifferentialSharpe,
    DrawdownPenalty,
    FixedStart,
    LogReward,
    Outcome,
    ProfitAndLoss,
    Reward,
    SimpleReward,
    max_drawdown,
)
from sekai.finance.rewards import as_reward
from sekai.vector import SyncVecEnv
from tests.envs.finance import portfolio_samples, samples

MODES = ["same_step", "next_step", "disabled"]
LENGTH, N, CALLS = 9, 4, 40

#: ruin strikes in some episodes: that is a fall to 0.97 of the start
MARKETS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "trading": (
        TradingEnv,
        TradingVecEnv,
        {
            "prices": samples.HISTORY,
            "lookback": 3,
            "episode_length": LENGTH,
            "positions": (-3.0, 0.0, 3.0),
            "ruin_fraction": 0.97,
            "transaction_cost": 0.002,
        },
    ),
    "portfolio": (
        PortfolioEnv,
        PortfolioVecEnv,
        {
            "prices": portfolio_samples.HISTORY,
            "lookback": 3,
            "episode_length": LENGTH,
            "ruin_fraction": 0.97,
            "transaction_cost": 0.002,
        },
    ),
}
each_market = pytest.mark.parametrize("market", MARKETS)
each_mode = pytest.mark.parametrize("mode", MODES)


@dataclass(frozen=True)
class Streak(Reward):
    """A reward of a user's: steps in a row with turnover below a bound, writing into the state it is given."""

    bound: float = 0.5

    def new_state(self, num_slots: int) -> dict[str, Any]:
        return {"steps": np.zeros(num_slots, np.int64), "most": np.zeros((num_slots, 2), bool)}

    def compute(self, state: dict[str, Any], outcome: Outcome) -> Any:
        state["steps"] += 1
        state["steps"][outcome.turnover >= self.bound] = 0
        state["most"][:, 1] |= outcome.terminated
        return state["steps"]


REWARDS: dict[str, Any] = {
    "simple": "simple",
    "pnl": "pnl",
    "mean_variance": "mean_variance",
    "differential_sharpe": DifferentialSharpe(0.2),
    "drawdown": DrawdownPenalty(3.0),
    "a user's": Streak(),
}
each_reward = pytest.mark.parametrize("reward", REWARDS)


def single(market: str, **arguments: Any) -> Any:
    cls, _, own = MARKETS[market]
    return cls(**{**own, "sampler": starts(), **arguments})


def starts() -> FixedStart:
    """Windows in turn, with a memory of its own."""
    return FixedStart([5, 60, 147])


def native(market: str, num_envs: int = N, *, mode: str = "same_step", **arguments: Any) -> Any:
    _, cls, own = MARKETS[market]
    return cls(num_envs, autoreset=mode, **{**own, "sampler": starts(), **arguments})


def actions_of(vec: Any, count: int = CALLS) -> list[Any]:
    vec.batch_action_space.seed(7)
    return [vec.batch_action_space.sample() for _ in range(count)]


def on_ends(vec: Any, call: int, result: Any) -> Any:
    """A mask for a reset between two calls, where the mode needs one; slot 1 is cut short now and then."""
    if vec.autoreset.value != "disabled" or call % 5 != 4:
        return None
    return result.dones | (np.arange(vec.num_envs) == (1 if call % 2 else -1))


# ---- one formula, whoever steps -------------------------------------------------------------------


@each_market
@each_mode
@each_reward
def test_native_and_sync_agree_to_the_bit(market: str, mode: str, reward: str) -> None:
    vec = native(market, mode=mode, reward=REWARDS[reward])
    sync = SyncVecEnv([lambda: single(market, reward=REWARDS[reward])] * N, autoreset=mode)
    vec.reset(seed=0), sync.reset(seed=0)
    ended, frozen = 0, 0
    for call, actions in enumerate(actions_of(vec)):
        mine, theirs = vec.step(actions), sync.step(actions)
        assert mine.rewards.dtype == theirs.rewards.dtype == np.float64
        assert mine.rewards.tobytes() == theirs.rewards.tobytes(), call
        assert np.array_equal(mine.terminated, theirs.terminated) and np.array_equal(mine.kind, theirs.kind)
        assert not mine.rewards[~mine.valid].any()
        ended += int(mine.ended.sum())
        frozen += int((mine.kind == sekai.RowKind.FROZEN).sum())
        mask = on_ends(vec, call, mine)
        if mask is not None:
            vec.reset(mask=mask), sync.reset(mask=mask)
    assert ended > 10 and (frozen > 5 or mode != "disabled")  # or this test compares little


@each_market
@each_reward
def test_workers_agree_to_the_bit(market: str, reward: str) -> None:
    arguments = {**MARKETS[market][2], "sampler": starts(), "reward": REWARDS[reward]}
    name = {"trading": "Trading-v0", "portfolio": "Portfolio-v0"}[market]
    vecs = [sekai.make_vec(name, 3, vectorization_mode=mode, **arguments) for mode in ("native", "proc")]
    for vec in vecs:
        vec.reset(seed=0)
    for actions in actions_of(vecs[0], 25):
        mine, theirs = (vec.step(actions) for vec in vecs)
        assert mine.rewards.tobytes() == theirs.rewards.tobytes()
    for vec in vecs:
        vec.close()


def reference(name: str, equity: list[float]) -> float:
    """The reward of the last step of an episode whose equity ran through `equity`, in plain Python."""
    returns = [b / a - 1.0 for a, b in pairwise(equity)]
    if name == "simple":
        return returns[-1]
    if name == "pnl":
        return 1e6 * (equity[-1] - equity[-2])
    if name == "mean_variance":
        return returns[-1] - returns[-1] ** 2 / 2
    growth = math.log(max(equity[-1], 1e-8) / equity[-2])
    if name == "drawdown":
        return growth - 3.0 * (max_drawdown(equity) - max_drawdown(equity[:-1]))
    a = b = value = 0.0
    for r in returns:
        v = b - a * a
        value = 0.0 if v <= 1e-12 * b else (b * (r - a) - a * (r * r - b) / 2) / v**1.5
        a, b = a + 0.2 * (r - a), b + 0.2 * (r * r - b)
    return value


@each_market
@each_mode
@pytest.mark.parametrize("reward", ["simple", "pnl", "mean_variance", "differential_sharpe", "drawdown"])
def test_rewards_are_those_of_the_equity_of_each_episode_alone(market: str, mode: str, reward: str) -> None:
    """Told from the infos: an episode's memory begins with it, also where others go on, wait or are frozen."""
    vec = native(market, mode=mode, reward=REWARDS[reward])
    vec.reset(seed=0)
    curves: list[list[float]] = [[1.0] for _ in range(N)]
    compared = 0
    for call, actions in enumerate(actions_of(vec)):
        result = vec.step(actions)
        for slot in range(N):
            if not result.valid[slot]:
                curves[slot] = [1.0] if result.kind[slot] == sekai.RowKind.RESET else curves[slot]
                assert result.rewards[slot] == 0.0
                continue
            info = result.final_info(slot) if mode == "same_step" and result.ended[slot] else result.infos[slot]
            curves[slot].append(info["equity"])
            assert result.rewards[slot] == pytest.approx(reference(reward, curves[slot]), rel=1e-9, abs=1e-12), call
            compared += 1
            if mode == "same_step" and result.ended[slot]:
                curves[slot] = [1.0]
        mask = on_ends(vec, call, result)
        if mask is not None:
            vec.reset(mask=mask)
            curves = [[1.0] if mask[slot] else curves[slot] for slot in range(N)]
    assert compared > 100


# ---- what they add up to --------------------------------------------------------------------------


@each_market
@pytest.mark.parametrize("capital", [1.0, 2500.0])
def test_profits_add_up_to_capital_times_the_change_of_equity(market: str, capital: float) -> None:
    env = single(market, reward=ProfitAndLoss(), capital=capital, ruin_fraction=0.0)
    env.reset(seed=0)
    env.action_space.seed(3)
    results = [env.step(env.action_space.sample()) for _ in range(LENGTH)]
    total = sum(result.reward for result in results)
    assert results[-1].done and total == pytest.approx(capital * (env.equity - 1.0), rel=1e-10)
    assert total != 0.0
    with pytest.raises(ResetRequired):
        env.step(env.action_space.sample())


def test_rewards_with_drawdown_add_up_to_growth_less_the_largest_drawdown() -> None:
    # 100, 110, 88, 99: equity 1, 1.1, 0.88, 0.99; the largest drawdown is 1 - 0.88 / 1.1 = 0.2
    env = samples.on_prices(100.0, 110.0, 88.0, 99.0, reward=DrawdownPenalty(2.0))
    rewards = [result.reward for result in samples.run(env, [2, 2, 2])]
    assert rewards == pytest.approx([math.log(1.1), math.log(0.8) - 0.4, math.log(1.125)])
    assert sum(rewards) == pytest.approx(math.log(0.99) - 2.0 * 0.2)


def test_ruin_is_paid_by_its_formula_and_only_log_growth_stops_at_a_floor() -> None:
    # twice leveraged, from 100 to 40: equity 1 + 2 * -0.6 = -0.2
    paid = {}
    for name in ("log", "simple", "pnl", "drawdown"):
        (result,) = samples.run(samples.on_prices(100.0, 40.0, positions=(0.0, 2.0), reward=name), [1])
        assert result.terminated
        paid[name] = result.reward
    # drawdown 1 - -0.2 / 1 = 1.2
    assert paid == pytest.approx({"log": math.log(1e-8), "simple": -1.2, "pnl": -1.2e6, "drawdown": paid["log"] - 1.2})


# ---- the outcome ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noting(Reward):
    """Keeps the outcomes it was shown."""

    seen: list[Outcome] = field(default_factory=list)

    def compute(self, state: dict[str, Any], outcome: Outcome) -> Any:
        self.seen.append(outcome)
        return np.full(len(outcome.equity), 7.0)


def test_the_outcome_of_a_trade_by_hand() -> None:
    # cost 0.1 %, long at 100: D = 1 / 1.001 = 0.999001 traded, cost 0.000999; at 110 equity 0.999001 * 1.1 = 1.098901
    reward = Noting()
    env = samples.on_prices(100.0, 110.0, 110.0, transaction_cost=1e-3, reward=reward, dt=0.5, capital=3.0)
    samples.run(env, [2, 1])  # then to flat: 0.1 % of everything
    long, flat = reward.seen
    assert long.equity_before.tolist() == [1.0] and long.equity.tolist() == pytest.approx([1.1 / 1.001])
    assert long.log_growth.tolist() == pytest.approx([math.log(1.1 / 1.001)])
    assert long.cost.tolist() == pytest.approx([0.001 / 1.001]) and long.turnover.tolist() == pytest.approx([1 / 1.001])
    assert long.weights.tolist() == [[1.0, 0.0]] and flat.weights.tolist() == [[0.0, 1.0]]
    assert flat.equity_before.tolist() == long.equity.tolist() and flat.cost.tolist() == pytest.approx([0.001])
    assert long.terminated.tolist() == [False] and (long.dt, long.capital) == (0.5, 3.0)


def test_the_outcome_of_a_portfolio_is_that_of_its_infos() -> None:
    reward = Noting()
    vec = native("portfolio", reward=reward, capital=5.0)
    vec.reset(seed=0)
    equity = vec.equity
    result = vec.step(actions_of(vec)[0])
    (outcome,) = reward.seen
    assert np.array_equal(outcome.equity_before, equity) and outcome.capital == 5.0
    for name in ("equity", "cost", "turnover", "weights"):
        assert np.array_equal(getattr(outcome, name), [info[name] for info in result.infos]), name
    assert np.array_equal(outcome.terminated, result.terminated) and result.rewards.tolist() == [7.0] * N


@each_market
def test_a_reward_is_shown_only_slots_that_took_a_step_and_may_keep_what_it_saw(market: str) -> None:
    reward = Noting()
    vec = native(market, mode="disabled", reward=reward, sampler=FixedStart(0), ruin_fraction=0.0)
    vec.reset(seed=0)
    tape = actions_of(vec)
    vec.step(tape[0])
    vec.reset(mask=np.arange(N) == 2)  # slot 2 is one step behind
    for actions in tape[1:LENGTH]:
        last = vec.step(actions)
    assert last.truncated.tolist() == [True, True, False, True]
    result = vec.step(tape[LENGTH])
    assert [len(outcome.equity) for outcome in reward.seen] == [N] * LENGTH + [1]
    assert result.rewards.tolist() == [0.0, 0.0, 7.0, 0.0]
    assert vec.step(tape[LENGTH]).rewards.tolist() == [0.0] * N and len(reward.seen) == LENGTH + 1
    befores = [outcome.equity_before[0] for outcome in reward.seen[:LENGTH]]
    afters = [outcome.equity[0] for outcome in reward.seen[:LENGTH]]
    assert befores[1:] == afters[:-1], "what was kept has been overwritten"


@each_market
def test_a_single_environment_overwrites_nothing_that_a_reward_kept(market: str) -> None:
    reward = Noting()
    env = single(market, reward=reward, ruin_fraction=0.0)
    env.reset(seed=0)
    env.action_space.seed(0)
    equity = [1.0, *(env.step(env.action_space.sample()).info["equity"] for _ in range(LENGTH))]
    assert [outcome.equity[0] for outcome in reward.seen] == equity[1:]
    assert [outcome.equity_before[0] for outcome in reward.seen] == equity[:-1]


@each_market
def test_frozen_slots_keep_what_is_remembered_of_them(market: str) -> None:
    vec = native(market, mode="disabled", reward=DifferentialSharpe(0.2), ruin_fraction=0.0)
    vec.reset(seed=0)
    tape = iter(actions_of(vec))
    vec.step(next(tape)), vec.step(next(tape))
    vec.reset(mask=np.arange(N) == 2)
    while not vec.step(next(tape)).ended.any():
        pass
    frozen = vec.frozen.copy()
    assert frozen.tolist() == [True, True, False, True]
    before = vec.get_state()["env.slots.reward.mean"]
    vec.step(next(tape))
    after = vec.get_state()["env.slots.reward.mean"]
    assert np.array_equal(before[frozen], after[frozen]) and (before[~frozen] != after[~frozen]).all()
    vec.reset(mask=frozen)
    fresh = vec.get_state()["env.slots.reward.mean"]
    assert not fresh[frozen].any() and np.array_equal(fresh[~frozen], after[~frozen])


@pytest.mark.parametrize(("cls", "vec_cls"), [(TradingEnv, TradingVecEnv), (PortfolioEnv, PortfolioVecEnv)])
@pytest.mark.parametrize("reward", [DifferentialSharpe(0.2), DrawdownPenalty(3.0)])
def test_simulated_markets_pay_by_the_same_formulas_and_begin_anew_too(cls: Any, vec_cls: Any, reward: Reward) -> None:
    env, vec = cls(reward=reward, episode_length=6), vec_cls(1, reward=reward, episode_length=6)
    env.reset(seed=5), vec.reset(seed=5)
    fresh = {name: array for name, array in env.get_state().items() if ".reward." in name}
    for call, actions in enumerate(actions_of(vec, 25)):
        result, row = env.step(actions[0]), vec.step(actions)
        assert row.rewards[0] == result.reward and type(result.reward) is float
        assert any(env.get_state()[name] != array for name, array in fresh.items()) or call % 6 == 0
        if result.done:
            env.reset()
            for one in (env, vec):
                assert all(one.get_state()[name] == array for name, array in fresh.items())


# ---- the default ----------------------------------------------------------------------------------


@each_market
def test_log_growth_asks_nobody(market: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the default has nothing to compute")

    monkeypatch.setattr(SlotRewards, "compute", refuse)
    for reward in (None, "log", LogReward()):
        vec, env = native(market, reward=reward), single(market, reward=reward)
        assert env.reward == vec.template.reward == LogReward()
        vec.reset(seed=0), env.reset(seed=0)
        vec.step(actions_of(vec)[0]), env.step(env.action_space.sample())
    other = native(market, reward="simple")
    other.reset(seed=0)
    with pytest.raises(AssertionError):
        other.step(actions_of(other)[0])


# ---- what may be set, and what not ----------------------------------------------------------------


@each_market
def test_a_reward_is_settled_when_an_environment_is_made(market: str) -> None:
    vec, env = native(market, reward="simple"), single(market, reward="simple")
    for one in (vec, env):
        with pytest.raises(AttributeError, match=r"'reward' of \w+ is settled when it is made: make a new one"):
            one.set_attr("reward", "log")
    assert vec.get_attr("reward") == [SimpleReward()] * N and env.get_attr("reward") == SimpleReward()


@each_market
def test_capital_acts_at_the_next_step(market: str) -> None:
    vec, other = native(market, reward="pnl"), native(market, reward="pnl", capital=2e6)
    vec.reset(seed=0), other.reset(seed=0)
    first, second = actions_of(vec, 2)
    vec.step(first), other.step(first)
    vec.set_attr("capital", 2e6)
    assert vec.get_attr("capital") == [2e6] * N
    assert np.array_equal(vec.step(second).rewards, other.step(second).rewards)


@pytest.mark.parametrize("make", [TradingEnv, PortfolioEnv, lambda **given: TradingVecEnv(2, **given)])
def test_wrong_arguments_are_named(make: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="reward is 'sharpe'; expected a Reward, or one of 'log', 'simple', 'pnl'"):
        make(reward="sharpe")
    with pytest.raises(TypeError, match=r"reward is the class DifferentialSharpe; expected an object"):
        make(reward=DifferentialSharpe)
    with pytest.raises(ValueError, match="capital is 0; expected a number above 0"):
        make(capital=0)


# ---- states ---------------------------------------------------------------------------------------


def through_a_file(state: dict[str, Any]) -> Any:
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    return np.load(file, allow_pickle=False)


@each_market
@each_mode
@pytest.mark.parametrize("reward", ["differential_sharpe", "drawdown", "a user's"])
def test_an_episode_goes_on_to_the_bit_from_a_file(market: str, mode: str, reward: str) -> None:
    def make() -> Any:
        return native(market, mode=mode, reward=REWARDS[reward], ruin_fraction=0.0, sampler="random")

    vec, other, fresh = make(), make(), make()
    tape = actions_of(vec)
    vec.reset(seed=0), fresh.reset(seed=1)
    for actions in tape[:5]:
        vec.step(actions)
    state = vec.get_state()
    other.set_state(through_a_file(state))
    names = [name for name in state if name.startswith("env.slots.reward.")]
    assert len(names) == 2 and all(other.get_state()[name].tobytes() == state[name].tobytes() for name in names)
    paid = [vec.step(actions).rewards.tobytes() for actions in tape[5:]]
    assert [other.step(actions).rewards.tobytes() for actions in tape[5:]] == paid
    if reward != "a user's":  # the same state with the memory of episodes that begin pays other rewards
        for name in names:
            other.set_state({**state, name: fresh.get_state()[name]})
            assert [other.step(actions).rewards.tobytes() for actions in tape[5:]] != paid, name


@each_market
def test_a_state_does_not_fit_an_environment_with_another_reward(market: str) -> None:
    for make in (native, single):
        env = make(market, reward=DifferentialSharpe(0.2))
        env.reset(seed=0)
        state = env.get_state()
        for reward in (None, DifferentialSharpe(0.3)):
            expected = repr(as_reward(reward)).replace("(", r"\(").replace(")", r"\)")
            other = make(market, reward=reward)
            with pytest.raises(ValueError, match=rf"'DifferentialSharpe\(eta=0.2\)'; expected '{expected}'"):
                other.set_state(state)


# ---- rewards of a user's that break the contract --------------------------------------------------


@dataclass(frozen=True)
class Broken(Reward):
    """Does what it is told, after it has changed its state."""

    act: Callable[[dict[str, Any], Outcome], Any]
    fresh: Callable[[int], Any] = lambda n: {"count": np.zeros(n)}

    def new_state(self, num_slots: int) -> Any:
        return self.fresh(num_slots)

    def compute(self, state: dict[str, Any], outcome: Outcome) -> Any:
        state["count"] += 1
        return self.act(state, outcome)


def _assign(array: Any) -> Any:
    array[:] = 0.0
    return array


def _lose(state: dict[str, Any]) -> Any:
    return state.pop("count")


def _change(state: dict[str, Any], value: Any) -> Any:
    state["count"] = value
    return np.zeros(N)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda state, outcome: 0.0, r"Broken.compute\(\) returned 0.0; expected the rewards .* float64 \(4,\)"),
        (lambda state, outcome: np.zeros((4, 1)), r"Broken.compute\(\) returned float64 \(4, 1\); expected"),
        (lambda state, outcome: outcome.terminated, r"Broken.compute\(\) returned bool \(4,\); expected"),
        (lambda state, outcome: _assign(outcome.equity), "read-only"),
        (lambda state, outcome: _assign(outcome.weights), "read-only"),
        (lambda state, outcome: _lose(state), r"left a state with the names \[\]; expected those of new_state, \['cou"),
        (lambda state, outcome: _change(state, 1.0), r"left 1.0 as state\['count'\]; expected float64 \(4,\), as new_"),
        (lambda state, outcome: _change(state, np.zeros(1)), r"left float64 \(1,\) as state\['count'\]"),
        (lambda state, outcome: _change(state, np.zeros(4, complex)), r"left complex128 \(4,\) as state\['count'\]"),
    ],
)
@each_market
def test_what_a_reward_may_not_do_is_refused_and_its_state_stays(market: str, act: Any, message: str) -> None:
    vec = native(market, reward=Broken(act))
    vec.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        vec.step(actions_of(vec)[0])
    assert vec.get_state()["env.slots.reward.count"].tolist() == [0.0] * N


@pytest.mark.parametrize(
    ("fresh", "error", "message"),
    [
        (lambda n: None, TypeError, r"Broken.new_state\(1\) returned None; expected a dict of arrays by name"),
        (lambda n: {"a": [0.0]}, ValueError, r"Broken.new_state\(1\)\['a'\] is \[0.0\]; expected an array of numbers"),
        (lambda n: {"a": np.zeros(3)}, ValueError, r"\['a'\] is float64 \(3,\); .* with 1 rows, one for each slot"),
        (lambda n: {"a": np.array([None] * n)}, ValueError, r"\['a'\] is object \(1,\)"),
    ],
)
def test_a_state_that_cannot_be_kept_is_refused_when_the_environment_is_made(
    fresh: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        TradingEnv(reward=Broken(lambda state, outcome: 0.0, fresh))


def test_rewards_share_no_memory_with_infos_or_with_what_is_remembered() -> None:
    # one that hands out its own state, and one that hands out a column of the outcome
    for act in (lambda state, outcome: state["count"], lambda state, outcome: outcome.equity):
        vec = native("trading", reward=Broken(act))
        vec.reset(seed=0)
        tape = actions_of(vec)
        result = vec.step(tape[0])
        assert not np.shares_memory(result.rewards, result.infos.columns["equity"][0])
        result.rewards[:] = 99.0
        assert vec.step(tape[1]).rewards.max() < 99.0


class RaisesAtRuin(Reward):
    """A user's reward that cannot cope with ruin."""

    def compute(self, state: Any, outcome: Any) -> Any:
        if (outcome.equity <= 0).any():
            raise ArithmeticError("no logarithm")
        return outcome.log_growth


#: doubles twice: who is short by all there is is ruined in the second step
DOUBLING = np.array([1.0, 1.0, 1.0, 3.0, 3.3, 3.3, 3.0, 3.0, 3.0, 3.0])
SHORT: dict[str, tuple[dict[str, Any], Any]] = {
    "Trading-v0": ({"prices": DOUBLING, "positions": (-1.0, 0.0)}, np.int64(0)),
    "Portfolio-v0": ({"prices": DOUBLING[:, None], "allow_short": True}, np.array([-1.0], np.float32)),
}


@pytest.mark.parametrize("name", SHORT)
def test_who_is_ruined_while_a_reward_raises_trades_no_more(name: str) -> None:
    arguments, action = SHORT[name]
    env = sekai.make(name, reward=RaisesAtRuin(), lookback=1, episode_length=7, **arguments)
    env.reset(options={"start": 1})
    env.step(action)
    with pytest.raises(ArithmeticError):
        env.step(action)
    assert env.unwrapped.equity <= 0
    with pytest.raises(sekai.ResetRequired):
        env.step(action)


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("num_threads", [1, 2])
def test_slots_that_are_ruined_while_a_reward_raises_end_in_the_next_call(
    monkeypatch: pytest.MonkeyPatch, name: str, mode: str, num_threads: int
) -> None:
    monkeypatch.setattr(threads, "GRAIN", 1)
    for module in (trading, portfolio):
        monkeypatch.setattr(module.slots, "FEWEST", 1)
    arguments, action = SHORT[name]
    arguments = {**arguments, "lookback": 1, "episode_length": 7, "num_threads": num_threads}
    vec = sekai.make_vec(name, 2, reward=RaisesAtRuin(), vector_kwargs={"autoreset": mode}, **arguments)
    actions = np.stack([action, action])
    vec.reset(options={"start": 1})
    vec.step(actions)
    with pytest.raises(ArithmeticError):
        vec.step(actions)
    lost = vec.get_attr("equity")
    assert max(lost) <= 0
    result = vec.step(actions)
    assert result.terminated.all() and result.rewards.tolist() == [0.0, 0.0]
    assert not result.valid.any(), "a row of an episode of which one was lost"
    if mode != "disabled":
        fresh = vec.step(actions) if mode == "next_step" else result
        assert vec.get_attr("equity") == [1.0, 1.0], "the next episode has begun"
        assert np.isfinite(fresh.rewards).all()
    else:
        assert vec.get_attr("equity") == lost
        assert vec.step(actions).rewards.tolist() == [0.0, 0.0]
    vec.close()
