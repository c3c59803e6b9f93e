"""Trading-v0, the single environment: what is observed, when it ends, what is accepted and refused."""

from __future__ import annotations

import copy
import datetime as dt
import math
import pickle
from typing import Any

import gymnasium.utils.env_checker
import numpy as np
import pytest

from sekai.envs.finance import TradingEnv
from sekai.errors import InvalidAction, ResetRequired
from sekai.finance import EpisodeSampler, FixedStart, MarketData, ProportionalCost, RandomStart, SequentialStart
from tests.envs.finance.samples import HISTORY, TRADING, run

SHORT, FLAT, LONG = range(3)


# ---- what is observed -----------------------------------------------------------------------------


def test_the_observation_is_the_last_returns_oldest_first_and_the_exposure() -> None:
    # price at row t is 2 ** (t * t): the return into row t is ln 2 * (2 t - 1)
    env = TradingEnv([2.0 ** (t * t) for t in range(8)], lookback=3, episode_length=2, transaction_cost=0.0)
    observation, info = env.reset(options={"start": 4})
    assert info["timestamp"] == 4 and info["price"] == 2.0**16
    np.testing.assert_allclose(observation, [3 * math.log(2), 5 * math.log(2), 7 * math.log(2), 0.0], rtol=1e-6)
    result = env.step(SHORT)
    assert result.info["timestamp"] == 5
    # short 1 of 1 at 2^16, at 2^25 now: owes 512, owns 2 - 512
    np.testing.assert_allclose(result.observation[:3], np.array([5, 7, 9]) * math.log(2), rtol=1e-6)


def test_observation_and_spaces_fit() -> None:
    env = TradingEnv(positions=(0.0, 0.5, 1.0, 1.5), lookback=7)
    assert env.observation_space.shape == (8,) and env.observation_space.dtype == np.float32
    assert repr(env.action_space) == "Discrete(4)"
    observation, _ = env.reset(seed=0)
    assert observation.shape == (8,) and observation.dtype == np.float32 and env.observation_space.contains(observation)


@pytest.mark.parametrize("market", [{}, TRADING], ids=["simulated", "history"])
def test_info_has_the_same_keys_after_reset_and_step_and_python_values(market: dict[str, Any]) -> None:
    env = TradingEnv(**market)
    _, first = env.reset(seed=0)
    result = env.step(LONG)
    keys = ["timestamp", "dt", "equity", "position", "price", "asset_return", "cost", "turnover", "carry"]
    assert list(first) == list(result.info) == keys
    for info in (first, result.info):
        assert [type(info[key]) for key in keys] == [int] + [float] * 8
    assert (first["equity"], first["position"]) == (1.0, 0.0)
    assert [first[key] for key in ("asset_return", "cost", "turnover", "carry")] == [0.0] * 4
    assert type(result.reward) is float and type(result.terminated) is bool and type(result.truncated) is bool


def test_state_is_read_by_name() -> None:
    env = TradingEnv(**TRADING)
    env.reset(options={"start": 30})
    assert (env.timestamp, env.elapsed_steps, env.equity, env.position) == (30, 0, 1.0, 0.0)
    result = env.step(LONG)
    assert (env.timestamp, env.elapsed_steps) == (31, 1)
    assert (env.equity, env.position, env.price) == tuple(result.info[key] for key in ("equity", "position", "price"))
    assert env.price_history.tolist() == HISTORY[21:32].tolist()


def test_dates_stay_dates() -> None:
    days = np.arange("2020-01-01", "2020-06-28", dtype="datetime64[D]")
    env = TradingEnv(data=MarketData(HISTORY, days), episode_length=5, lookback=10)
    _, info = env.reset(options={"start": "2020-01-20"})
    assert info["timestamp"] == days[19] and isinstance(info["timestamp"], np.datetime64)
    assert env.reset(options={"start": dt.date(2020, 2, 1)}).info["timestamp"] == days[31]
    assert env.step(LONG).info["timestamp"] == env.timestamp == days[32]
    with pytest.raises(ValueError, match=r"expected a row in \[10, 173\] \(2020-01-11 to 2020-06-22\)"):
        env.reset(options={"start": "2020-01-02"})


def test_nothing_seen_at_a_row_depends_on_later_prices() -> None:
    # R9: replace every price after row 25, with the same actions up to there
    other = HISTORY.copy()
    other[26:] = np.random.default_rng(9).uniform(1.0, 1000.0, len(other) - 26)
    seen = []
    for prices in (HISTORY, other):
        env = TradingEnv(**{**TRADING, "prices": prices})
        first = env.reset(options={"start": 20})
        steps = run(env, [LONG, SHORT, SHORT, FLAT, LONG])
        assert steps[-1].info["timestamp"] == 25
        seen.append([(r.observation.tolist(), r.info) for r in (first, *steps)])
        after = env.step(LONG)
        seen[-1].append(after.reward)
    assert seen[0][:-1] == seen[1][:-1]
    assert seen[0][-1] != seen[1][-1]  # negative control: the next reward does depend on them


# ---- beginning and end ----------------------------------------------------------------------------


def test_the_end_of_the_window_truncates_and_liquidates_nothing() -> None:
    env = TradingEnv(**TRADING)
    env.reset(options={"start": 157})
    results = run(env, [LONG] * 30)
    assert len(results) == 21 and env.elapsed_steps == 21
    assert [r.truncated for r in results] == [False] * 20 + [True] and not any(r.terminated for r in results)
    assert results[-1].info["timestamp"] == 178 and results[-1].info["position"] == pytest.approx(1.0)
    assert results[-1].info["turnover"] < 1e-12


def test_a_step_before_the_first_reset_and_after_the_end_is_refused() -> None:
    env = TradingEnv(**TRADING)
    with pytest.raises(ResetRequired):
        env.step(LONG)
    env.reset()
    run(env, [LONG] * 21)
    before = env.equity
    with pytest.raises(ResetRequired):
        env.step(LONG)
    assert env.equity == before


@pytest.mark.parametrize(
    "market", [{"sigma": 0.9}, {**TRADING, "sampler": FixedStart(3)}], ids=["simulated", "history"]
)
def test_an_episode_after_a_seed_is_the_same_whatever_ran_before(market: dict[str, Any]) -> None:
    # U78, R10
    env = TradingEnv(**market, rebalance="on_change", borrow_rate=0.3, ruin_fraction=0.2, transaction_cost=0.02)
    actions = np.random.default_rng(0).integers(0, 3, 300)

    def episode(seed: int, tape: Any) -> list[Any]:
        first = env.reset(seed=seed)
        return [(r.observation.tolist(), r.info) for r in (first, *run(env, tape))]

    fresh = episode(7, actions)
    episode(8, 2 - actions)
    assert episode(7, actions) == fresh
    env.reset(seed=1)
    run(env, actions[:5])  # and an episode cut short
    assert episode(7, actions) == fresh
    assert episode(7, 2 - actions) != fresh


def test_resets_draw_a_new_history_every_time() -> None:
    # U14
    env = TradingEnv()
    env.reset(seed=0)
    assert len({env.reset().observation.tobytes() for _ in range(50)}) == 50
    starts = TradingEnv(**TRADING)
    starts.reset(seed=0)
    assert len({starts.reset().info["timestamp"] for _ in range(50)}) > 25


def test_a_seed_of_zero_counts() -> None:
    env = TradingEnv()
    first, again, other = (env.reset(seed=seed).observation for seed in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_copies_and_pickles_go_on_alike() -> None:
    for market in ({}, TRADING):
        env = TradingEnv(**market)
        env.reset(seed=0)
        env.step(LONG)
        copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
        expected = env.step(SHORT)
        for other in copies:
            result = other.step(SHORT)
            assert result.info == expected.info and np.array_equal(result.observation, expected.observation)


@pytest.mark.parametrize("market", [{}, TRADING], ids=["simulated", "history"])
def test_gymnasiums_checker_accepts_it(market: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="infinity"):  # an unbounded observation is all it remarks on
        gymnasium.utils.env_checker.check_env(TradingEnv(**market), skip_render_check=True)


# ---- actions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [3, -1, 1.0, "1", None, True, np.array([1, 2]), np.float32(1), np.array([1])])
def test_what_is_no_action_is_refused_and_nothing_moves(action: Any) -> None:
    env = TradingEnv()
    env.reset(seed=0)
    state = env.rng.bit_generator.state
    with pytest.raises(InvalidAction, match=r"expected a member of Discrete\(3\)"):
        env.step(action)
    assert (env.elapsed_steps, env.equity) == (0, 1.0) and env.rng.bit_generator.state == state


@pytest.mark.parametrize("action", [2, np.int64(2), np.int8(2), np.array(2)])
def test_integers_of_every_kind_are_actions(action: Any) -> None:
    env = TradingEnv(**TRADING)
    env.reset(options={"start": 10})
    assert env.step(action).info["position"] == pytest.approx(1.0)


# ---- options and samplers -------------------------------------------------------------------------


def test_start_is_the_row_of_the_first_decision_negative_from_the_end() -> None:
    env = TradingEnv(**TRADING)
    for start, row in ((10, 10), (157, 157), (-22, 157), (-169, 10), (np.int32(50), 50)):
        assert env.reset(options={"start": start}).info["timestamp"] == row


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"start": 9}, ValueError, r"options\['start'\] is 9; expected a row in \[10, 157\]"),
        ({"start": 158}, ValueError, r"expected a row in \[10, 157\]"),
        ({"start": -21}, ValueError, r"is -21; expected a row in \[10, 157\]"),
        ({"start": 20.0}, TypeError, "expected a row number"),
        ({"start": True}, TypeError, "expected a row number"),
        ({"start": None}, TypeError, "expected a row number"),
        ({"start": "2020-01-01"}, ValueError, "this history has none"),
        ({"strat": 20}, ValueError, r"the key 'strat'; known keys are 'start'"),
        (5, TypeError, "options is 5; expected a dict"),
    ],
)
def test_options_that_fit_nothing_are_refused_before_anything_moves(
    options: Any, error: type[Exception], message: str
) -> None:
    env = TradingEnv(**TRADING)
    env.reset(seed=0)
    env.step(LONG)
    before = env.timestamp, env.equity, env.rng.bit_generator.state
    with pytest.raises(error, match=message):
        env.check_options(options)
    with pytest.raises(error, match=message):
        env.reset(seed=5, options=options)
    assert (env.timestamp, env.equity, env.rng.bit_generator.state) == before


def test_a_simulated_market_has_no_rows_to_start_from() -> None:
    env = TradingEnv()
    with pytest.raises(ValueError, match="this market is simulated"):
        env.reset(options={"start": 40})
    assert env.reset(options={}).info["timestamp"] == 30  # rows count from 0, the lookback comes first


@pytest.mark.parametrize(
    ("sampler", "rows"),
    [
        ("sequential", [10, 31, 52, 73, 94, 115, 136, 157, 10]),
        (SequentialStart(5, 60), [15, 75, 135, 15]),
        (FixedStart(7), [17, 17]),
        (FixedStart([147, 0]), [157, 10, 157]),
        (RandomStart(3, 4), [13, 13]),
    ],
)
def test_positions_of_a_sampler_count_from_the_first_legal_window(sampler: Any, rows: list[int]) -> None:
    env = TradingEnv(**TRADING, sampler=sampler)
    assert [env.reset().info["timestamp"] for _ in rows] == rows


def test_a_single_environment_uses_the_very_sampler_it_is_given() -> None:
    sampler = SequentialStart()
    env = TradingEnv(**TRADING, sampler=sampler)
    assert env.sampler is sampler
    env.reset()
    assert sampler.sample(np.random.default_rng(0), 148, 21) == 21


@pytest.mark.parametrize("sampler", [FixedStart(148), SequentialStart(148), RandomStart(0, 149)])
def test_a_sampler_out_of_range_is_an_error_at_reset_with_the_legal_range(sampler: EpisodeSampler) -> None:
    env = TradingEnv(**TRADING, sampler=sampler)
    with pytest.raises(ValueError, match=r"0 to 147 \(the history has 148 windows"):
        env.reset(seed=0)


def test_a_random_start_covers_every_window_of_a_short_history() -> None:
    env = TradingEnv(HISTORY[:35], lookback=10, episode_length=21)
    env.reset(seed=0)
    assert {env.reset().info["timestamp"] for _ in range(100)} == {10, 11, 12, 13}


# ---- the simulated market -------------------------------------------------------------------------


def test_without_noise_the_price_grows_at_its_drift_and_parameters_act_at_once() -> None:
    env = TradingEnv(mu=0.252, sigma=0.0, s0=10.0, lookback=5)
    observation, info = env.reset(seed=0)
    np.testing.assert_allclose(observation, [0.001] * 5 + [0.0], rtol=1e-6)
    assert info["price"] == pytest.approx(10 * math.exp(0.005), rel=1e-14)
    env.mu = 0.504
    assert env.step(LONG).info["asset_return"] == pytest.approx(math.expm1(0.002), rel=1e-12)
    env.dt = 1 / 504
    assert env.step(LONG).info["asset_return"] == pytest.approx(math.expm1(0.001), rel=1e-12)
    env.sigma = 0.5
    assert env.step(LONG).info["asset_return"] != pytest.approx(math.expm1(0.001 - 0.125 / 504), rel=1e-3)


def test_prices_returns_and_history_of_a_simulated_market_agree_at_every_step() -> None:
    env = TradingEnv(lookback=3, episode_length=20)
    observation, info = env.reset(seed=3)
    prices = env.price_history.tolist()
    assert prices[0] == 100.0 and len(prices) == 4
    for _ in range(20):  # the rings of 6 places go round three times
        np.testing.assert_allclose(observation[:3], np.diff(np.log(prices[-4:])), rtol=1e-5, atol=1e-8)
        assert env.price_history.tolist() == prices[-4:] and info["price"] == prices[-1]
        observation, _, _, _, info = env.step(LONG)
        prices.append(info["price"])


def test_a_lookback_of_one_works_in_both_markets() -> None:
    for market in ({}, {"prices": HISTORY}):
        env = TradingEnv(**market, lookback=1, episode_length=6)
        env.reset(seed=0)
        for _ in range(6):
            before = env.price
            result = env.step(LONG)
            assert env.price_history.tolist() == [before, env.price] and result.observation.shape == (2,)
            assert result.observation[0] == pytest.approx(math.log(env.price / before), abs=1e-7)


def test_shocks_are_clipped_where_asked() -> None:
    env = TradingEnv(mu=0.0, sigma=1.0, dt=1.0, shock_clip=0.5, lookback=200, episode_length=300)
    observation, _ = env.reset(seed=0)
    returns = np.concatenate([observation[:-1], [math.log1p(r.info["asset_return"]) for r in run(env, [FLAT] * 300)]])
    assert returns.min() == pytest.approx(-1.0) and returns.max() == pytest.approx(0.0, abs=1e-12)  # -1/2 -+ 1/2


def test_a_simulated_price_beyond_the_floats_is_an_error_and_nothing_moves() -> None:
    env = TradingEnv(mu=0.0, sigma=0.0)
    env.reset(seed=0)
    env.mu = 252 * 800.0
    with pytest.raises(FloatingPointError, match="price of sub-env 0 left the range of floats"):
        env.step(LONG)
    assert (env.price, env.elapsed_steps, env.equity) == (100.0, 0, 1.0)
    with pytest.raises(FloatingPointError, match="lower mu, sigma"):
        env.reset()
    assert env.price == 100.0


# ---- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"episode_length": 0}, ValueError, "episode_length"),
        ({"episode_length": 2.5}, TypeError, "episode_length"),
        ({"lookback": 0}, ValueError, "lookback"),
        ({"lookback": True}, TypeError, "lookback"),
        ({"positions": ()}, ValueError, "positions is empty"),
        ({"positions": (0.0, math.nan)}, ValueError, r"positions\[1\]"),
        ({"positions": 1.0}, TypeError, "positions"),
        ({"positions": "abc"}, TypeError, "positions"),
        ({"mu": math.inf}, ValueError, "mu"),
        ({"mu": "5%"}, TypeError, "mu"),
        ({"sigma": -0.1}, ValueError, "sigma"),
        ({"dt": 0.0}, ValueError, "dt"),
        ({"s0": -1.0}, ValueError, "s0"),
        ({"shock_clip": 0.0}, ValueError, "shock_clip"),
        ({"ruin_fraction": 1.0}, ValueError, "ruin_fraction"),
        ({"execution": "next_open"}, ValueError, "execution is 'next_open', and the market is simulated"),
        (
            {"prices": HISTORY, "execution": "next_open"},
            ValueError,
            r"the market has the fields \[\]; expected a history with opens",
        ),
        ({"execution": "open"}, ValueError, "execution is 'open'; expected one of 'close', 'next_open', 'next_close'"),
        ({"execution": None}, ValueError, "execution is None"),
        ({"rebalance": "sometimes"}, ValueError, "rebalance is 'sometimes'; expected 'always' or 'on_change'"),
        ({"borrow_rate": None}, TypeError, "borrow_rate"),
        ({"margin_rate": math.nan}, ValueError, "margin_rate"),
        ({"cash_rate": True}, TypeError, "cash_rate"),
        ({"render_mode": "human"}, ValueError, "render_mode"),
        ({"transaction_cost": -1e-3}, ValueError, "transaction_cost"),
        ({"transaction_cost": 1e-3, "cost_model": 1e-3}, ValueError, "both given"),
        (
            {"transaction_cost": 0.5, "positions": (-2.0, 1.0)},
            ValueError,
            r"rate 0.5 .* exposure 2.0 in positions is 1.0",
        ),
        ({"sampler": "randon"}, ValueError, "sampler is 'randon'"),
        ({"sampler": FixedStart(0)}, ValueError, "sampler is FixedStart.*give prices or data"),
        ({"prices": HISTORY[:51], "lookback": 30, "episode_length": 21}, ValueError, "51 rows.*at least 52"),
        ({"prices": [1.0, -1.0]}, ValueError, r"prices\[1\] is -1.0"),
        ({"prices": HISTORY, "data": MarketData(HISTORY)}, ValueError, "prices and data were both given"),
        ({"data": HISTORY}, TypeError, "data is of type ndarray; expected a MarketData"),
    ],
)
def test_a_bad_argument_is_named(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        TradingEnv(**arguments)


def test_a_history_of_just_enough_rows_has_one_window() -> None:
    assert TradingEnv(HISTORY[:52], lookback=30, episode_length=21).reset().info["timestamp"] == 30


def test_parameters_are_checked_when_they_are_set_and_kept_when_refused() -> None:
    env = TradingEnv()
    for name, value in (("sigma", -1.0), ("mu", "x"), ("positions", (1.0, 2.0)), ("cost_model", 1.0), ("dt", 0)):
        before = getattr(env, name)
        with pytest.raises((TypeError, ValueError), match=name if name != "cost_model" else "cost rate 1.0"):
            setattr(env, name, value)
        assert getattr(env, name) == before
    env.cost_model = 0.01
    assert env.cost_model == ProportionalCost(0.01) and env.transaction_cost == 0.01
    env.positions = [0.0, 0.5, 1.0]
    assert env.positions == (0.0, 0.5, 1.0)


@pytest.mark.parametrize("name", ["lookback", "episode_length", "prices", "data", "execution", "transaction_cost"])
def test_what_is_settled_at_construction_cannot_be_set(name: str) -> None:
    env = TradingEnv(**TRADING)
    with pytest.raises(AttributeError, match=name):
        env.set_attr(name, 5)


@pytest.mark.parametrize(
    "name", ["ruin_fraction", "rebalance", "cost_model", "positions", "cash_rate", "margin_rate", "borrow_rate"]
)
def test_every_parameter_acts_on_the_next_step(name: str) -> None:
    changed = {
        "ruin_fraction": 0.999,
        "rebalance": "on_change",
        "cost_model": 0.3,
        "positions": (2.0, 1.5, 2.5),
        "cash_rate": 9.0,
        "margin_rate": 9.0,
        "borrow_rate": 9.0,
    }
    action = {"cash_rate": FLAT, "borrow_rate": SHORT}.get(name, LONG)
    base: dict[str, Any] = {**TRADING, "positions": (-1.0, 0.0, 1.7)}
    outcomes = []
    for late in (False, True, None):  # given to the constructor, set later, not at all
        env = TradingEnv(**{**base, **({name: changed[name]} if late is False else {})})
        env.reset(options={"start": 60})
        if late:
            setattr(env, name, changed[name])
        outcomes.append([(r.info, r.terminated) for r in run(env, [action, action, action])])
    assert outcomes[0] == outcomes[1] != outcomes[2]


def test_the_history_is_shared_between_environments_and_cannot_be_written_to() -> None:
    first, second = TradingEnv(**TRADING), TradingEnv(**TRADING)
    assert first.data is second.data and first.prices is second.prices
    assert first.prices is not None
    with pytest.raises(ValueError, match="read-only"):
        first.prices[0] = 1.0
