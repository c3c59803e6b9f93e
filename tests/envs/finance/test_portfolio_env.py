"""Portfolio-v0, the single environment: what is observed, when it ends, what is accepted and refused."""

from __future__ import annotations

import copy
import datetime as dt
import math
import pickle
from typing import Any

import gymnasium.utils.env_checker
import numpy as np
import pytest

import sekai
from sekai.envs.finance import PortfolioEnv, TradingEnv
from sekai.envs.finance.portfolio import kernel as pk
from sekai.errors import InvalidAction, ResetRequired
from sekai.finance import FixedStart, MarketData, ProportionalCost, SequentialStart
from sekai.testing import check_env
from tests.envs.finance.portfolio_samples import HISTORY, PORTFOLIO, run

EVEN = [0.25, 0.25, 0.25, 0.25]
MARKETS = pytest.mark.parametrize("market", [{"n_assets": 3}, PORTFOLIO], ids=["simulated", "history"])


# ---- what is observed -----------------------------------------------------------------------------


def test_the_observation_is_the_last_returns_oldest_first_and_the_weights_cash_last() -> None:
    # column j at row t is 2 ** (t * t * (j + 1)): its return into row t is ln 2 * (2 t - 1) * (j + 1)
    prices = [[2.0 ** (t * t), 4.0 ** (t * t)] for t in range(8)]
    env = PortfolioEnv(prices, lookback=3, episode_length=2, transaction_cost=0.0)
    observation, info = env.reset(options={"start": 4})
    assert info["timestamp"] == 4
    expected = np.outer([3, 5, 7], [1, 2]) * math.log(2)
    np.testing.assert_allclose(observation["returns"], expected, rtol=1e-6)
    assert observation["weights"].tolist() == [0.0, 0.0, 1.0]
    result = env.step([1, 0, 0])
    assert result.info["timestamp"] == 5
    np.testing.assert_allclose(result.observation["returns"], np.outer([5, 7, 9], [1, 2]) * math.log(2), rtol=1e-6)
    assert result.observation["weights"].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("short", [False, True])
def test_observation_and_spaces_fit(short: bool) -> None:
    env = PortfolioEnv(n_assets=4, lookback=7, allow_short=short)
    assert env.action_space.shape == ((4,) if short else (5,)) and env.action_space.dtype == np.float32
    bounds = "-1.0, 1.0, (4,)" if short else "0.0, 1.0, (5,)"
    assert repr(env.action_space) == f"Box({bounds}, float32)"
    env.action_space.seed(0)
    observation = env.reset(seed=0).observation
    for _ in range(30):
        assert observation["returns"].shape == (7, 4) and observation["weights"].shape == (5,)
        assert env.observation_space.contains(observation)
        observation = env.step(env.action_space.sample()).observation


def test_the_defaults_are_five_assets_without_correlation() -> None:
    env = PortfolioEnv()
    assert env.n_assets == 5 and env.mu == 0.06 and env.corr is None and env.capital == 1e6
    assert env.sigma.tolist() == pytest.approx([0.15, 0.2, 0.25, 0.3, 0.35]) and env.dt == 1 / 252
    assert env.cost_model == ProportionalCost(1e-3) and env.transaction_cost == 1e-3


@MARKETS
def test_info_has_the_same_keys_after_reset_and_step_and_python_values(market: dict[str, Any]) -> None:
    env = PortfolioEnv(**market)
    first, result = env.reset(seed=0).info, env.step(EVEN)
    keys = ["timestamp", "dt", "equity", "portfolio_value", "weights", "turnover", "cost", "asset_returns"]
    assert list(first) == list(result.info) == keys
    for info in (first, result.info):
        assert [type(info[key]) for key in keys] == [int, *[float] * 3, np.ndarray, *[float] * 2, np.ndarray]
        assert info["weights"].shape == (4,) and info["asset_returns"].shape == (3,)
        assert info["weights"].dtype == info["asset_returns"].dtype == np.float64
    assert (first["equity"], first["portfolio_value"], first["turnover"], first["cost"]) == (1.0, 1e6, 0.0, 0.0)
    assert first["weights"].tolist() == [0, 0, 0, 1] and not first["asset_returns"].any()
    assert type(result.reward) is float and type(result.terminated) is bool and type(result.truncated) is bool


def test_state_is_read_by_name_and_belongs_to_the_reader() -> None:
    env = PortfolioEnv(**PORTFOLIO, capital=500.0)
    env.reset(options={"start": 30})
    assert (env.timestamp, env.elapsed_steps, env.equity, env.portfolio_value) == (30, 0, 1.0, 500.0)
    result = env.step(EVEN)
    assert (env.timestamp, env.elapsed_steps, env.equity) == (31, 1, result.info["equity"])
    assert env.portfolio_value == result.info["portfolio_value"] == 500.0 * env.equity
    assert np.array_equal(env.weights, result.info["weights"])
    np.testing.assert_array_equal(result.info["asset_returns"], HISTORY[31] / HISTORY[30] - 1)
    for mine in (env.weights, result.info["weights"], result.info["asset_returns"], result.observation["returns"]):
        mine[:] = 7.0
    assert env.weights.max() < 1.0 and env.step(EVEN).observation["returns"].max() < 1.0


def test_dates_stay_dates() -> None:
    days = np.arange("2020-01-01", "2020-06-28", dtype="datetime64[D]")
    env = PortfolioEnv(data=MarketData(HISTORY, days), episode_length=5, lookback=10)
    assert env.reset(options={"start": "2020-01-20"}).info["timestamp"] == days[19]
    assert env.reset(options={"start": dt.date(2020, 2, 1)}).info["timestamp"] == days[31]
    assert env.step(EVEN).info["timestamp"] == env.timestamp == days[32]


def test_nothing_seen_at_a_row_depends_on_later_prices() -> None:
    # R9: replace every price after row 25, with the same actions up to there
    other = HISTORY.copy()
    other[26:] = np.random.default_rng(9).uniform(1.0, 1000.0, other[26:].shape)
    seen: list[list[Any]] = []
    tape = np.random.default_rng(1).dirichlet(np.ones(4), 5)
    for prices in (HISTORY, other):
        env = PortfolioEnv(**{**PORTFOLIO, "prices": prices})
        steps = [env.reset(options={"start": 20}), *run(env, tape)]
        assert steps[-1].info["timestamp"] == 25
        seen.append([pickle.dumps((r.observation, r.info)) for r in steps])
        seen[-1].append(env.step(EVEN).reward)
    assert seen[0][:-1] == seen[1][:-1]
    assert seen[0][-1] != seen[1][-1]  # negative control: the next reward does depend on them


# ---- beginning and end ----------------------------------------------------------------------------


def test_the_end_of_the_window_truncates_and_liquidates_nothing() -> None:
    env = PortfolioEnv(**PORTFOLIO)
    env.reset(options={"start": 157})
    results = run(env, [[1, 0, 0, 0]] * 30)
    assert len(results) == 21 and env.elapsed_steps == 21
    assert [r.truncated for r in results] == [False] * 20 + [True] and not any(r.terminated for r in results)
    assert results[-1].info["timestamp"] == 178 and results[-1].info["weights"].tolist() == [1, 0, 0, 0]


def test_a_step_before_the_first_reset_and_after_the_end_is_refused() -> None:
    env = PortfolioEnv(**PORTFOLIO)
    with pytest.raises(ResetRequired):
        env.step(EVEN)
    env.reset()
    run(env, [EVEN] * 21)
    before = env.equity
    with pytest.raises(ResetRequired):
        env.step(EVEN)
    assert env.equity == before


@pytest.mark.parametrize(
    "market", [{"n_assets": 3, "sigma": 0.9}, {**PORTFOLIO, "sampler": FixedStart(3)}], ids=["simulated", "history"]
)
def test_an_episode_after_a_seed_is_the_same_whatever_ran_before(market: dict[str, Any]) -> None:
    # U78, R10
    env = PortfolioEnv(**market, ruin_fraction=0.2, transaction_cost=0.02)
    tape = np.random.default_rng(0).dirichlet(np.ones(4), 300)

    def episode(seed: int, tape: Any) -> list[bytes]:
        return [pickle.dumps((r.observation, r.info)) for r in (env.reset(seed=seed), *run(env, tape))]

    fresh = episode(7, tape)
    episode(8, tape[::-1])
    assert episode(7, tape) == fresh
    env.reset(seed=1)
    run(env, tape[:5])  # and an episode cut short
    assert episode(7, tape) == fresh
    assert episode(7, tape[::-1]) != fresh


def test_resets_draw_a_new_history_every_time_and_a_seed_of_zero_counts() -> None:
    env = PortfolioEnv()
    first, again, other = (env.reset(seed=seed).observation["returns"] for seed in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert len({env.reset().observation["returns"].tobytes() for _ in range(50)}) == 50


@MARKETS
def test_copies_and_pickles_go_on_alike(market: dict[str, Any]) -> None:
    env = PortfolioEnv(**market)
    env.reset(seed=0)
    env.step(EVEN)
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    expected = pickle.dumps(tuple(env.step([0.1, 0.2, 0.3, 0.4])))
    assert [pickle.dumps(tuple(other.step([0.1, 0.2, 0.3, 0.4]))) for other in copies] == [expected] * 2


@pytest.mark.parametrize("short", [False, True])
@MARKETS
def test_the_checkers_of_gymnasium_and_of_this_package_accept_it(market: dict[str, Any], short: bool) -> None:
    with pytest.warns(UserWarning, match="infinity"):  # an unbounded observation is all it remarks on
        gymnasium.utils.env_checker.check_env(PortfolioEnv(**market, allow_short=short), skip_render_check=True)
    check_env(PortfolioEnv(**market, allow_short=short))


# ---- actions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action",
    [
        [0.5, 0.5, math.nan, 0.0],
        [0.5, 0.5, math.inf, 0.0],
        [0.5, 0.6, -0.1, 0.0],
        [1.5, 0.0, 0.0, 0.0],
        [1e300, 0.0, 0.0, 0.0],
        [0.5, 0.5, 0.0],
        [[0.25, 0.25, 0.25, 0.25]],
        [True, False, False, False],
        ["a", "b", "c", "d"],
        [[1, 2], [3]],
        0,
        None,
        np.ma.masked_array([1.0, 0.0, 0.0, 0.0], [False, True, False, False]),
    ],
)
def test_what_is_no_action_is_refused_and_nothing_moves(action: Any) -> None:
    env = PortfolioEnv(n_assets=3)
    env.reset(seed=0)
    state = env.rng.bit_generator.state
    with pytest.raises(InvalidAction, match=r"expected a member of Box\(0.0, 1.0, \(4,\), float32\)"):
        env.step(action)
    assert (env.elapsed_steps, env.equity) == (0, 1.0) and env.rng.bit_generator.state == state


def test_with_short_sales_negative_weights_are_actions_and_cash_has_none() -> None:
    env = PortfolioEnv(**PORTFOLIO, allow_short=True)
    env.reset(options={"start": 10})
    assert env.step([-1, 0.5, 1]).info["turnover"] == pytest.approx(1.0, rel=2e-3)
    for action in ([-1.1, 0.0, 0.0], EVEN):
        with pytest.raises(InvalidAction):
            env.step(action)


@pytest.mark.parametrize("action", [[1, 0, 0, 0], (1.0, 0, 0, 0), np.array([1, 0, 0, 0]), np.array([1.0, 0, 0, 0])])
def test_numbers_of_every_kind_are_actions(action: Any) -> None:
    env = PortfolioEnv(**PORTFOLIO)
    env.reset(options={"start": 10})
    assert env.step(action).info["weights"].tolist() == [1, 0, 0, 0]


def test_an_array_of_any_kind_is_left_alone_and_compiles_nothing_anew() -> None:
    env = PortfolioEnv(**PORTFOLIO)
    env.reset(options={"start": 10})
    env.step(EVEN)
    known = len(pk.advance.compiled.signatures), len(pk.first_outside.compiled.signatures)
    strided, fixed = np.ones(8, np.float32)[::2], np.ones(4, np.float32)
    fixed.flags.writeable = False
    for action in (strided, fixed, fixed[::-1], fixed.astype(np.float64)):
        assert env.step(action).info["weights"].max() < 0.3 and action.tolist() == [1, 1, 1, 1]
    assert (len(pk.advance.compiled.signatures), len(pk.first_outside.compiled.signatures)) == known


# ---- options and samplers -------------------------------------------------------------------------


def test_start_is_the_row_of_the_first_decision_negative_from_the_end() -> None:
    env = PortfolioEnv(**PORTFOLIO)
    for start, row in ((10, 10), (157, 157), (-22, 157), (-169, 10), (np.int32(50), 50)):
        assert env.reset(options={"start": start}).info["timestamp"] == row


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"start": 9}, ValueError, r"options\['start'\] is 9; expected a row in \[10, 157\]"),
        ({"start": 158}, ValueError, r"expected a row in \[10, 157\]"),
        ({"start": 20.0}, TypeError, "expected a row number"),
        ({"start": "2020-01-01"}, ValueError, "this history has none"),
        ({"strat": 20}, ValueError, r"the key 'strat'; known keys are 'start'"),
    ],
)
def test_options_that_fit_nothing_are_refused_before_anything_moves(
    options: Any, error: type[Exception], message: str
) -> None:
    env = PortfolioEnv(**PORTFOLIO)
    env.reset(seed=0)
    env.step(EVEN)
    before = env.timestamp, env.equity, env.rng.bit_generator.state
    with pytest.raises(error, match=message):
        env.reset(seed=5, options=options)
    assert (env.timestamp, env.equity, env.rng.bit_generator.state) == before


def test_a_simulated_market_has_no_rows_to_start_from() -> None:
    env = PortfolioEnv()
    with pytest.raises(ValueError, match="this market is simulated"):
        env.reset(options={"start": 40})
    assert env.reset(options={}).info["timestamp"] == 30  # rows count from 0, the lookback comes first


def test_windows_come_from_the_very_sampler_that_is_given() -> None:
    sampler = SequentialStart()
    env = PortfolioEnv(**PORTFOLIO, sampler=sampler)
    assert [env.reset().info["timestamp"] for _ in range(3)] == [10, 31, 52]
    assert sampler.sample(np.random.default_rng(0), 148, 21) == 63
    assert env.reset(seed=0).info["timestamp"] == 10  # a seed restarts it
    with pytest.raises(ValueError, match=r"0 to 147 \(the history has 148 windows"):
        PortfolioEnv(**PORTFOLIO, sampler=FixedStart(148)).reset()


# ---- assets that are not listed all the time ------------------------------------------------------


def test_a_window_in_which_a_price_is_missing_is_refused_with_row_and_column() -> None:
    # window of a start s: rows s - 3 to s + 4; row 20 is missing: 17 to 23 cannot be
    prices = HISTORY[:60].copy()
    prices[20, 2] = np.nan
    env = PortfolioEnv(prices, lookback=3, episode_length=4)
    for start in (3, 15, 24, 55):
        env.reset(options={"start": start})
        run(env, [EVEN] * 4)
        assert np.isfinite(env.equity)
    before = env.equity, env.timestamp
    for start in (16, 20, 23):
        with pytest.raises(
            ValueError, match=rf"prices\[20, 2\] is NaN, and the window of rows {start - 3} to {start + 4}"
        ):
            env.reset(options={"start": start})
    assert (env.equity, env.timestamp) == before
    with pytest.raises(ValueError, match=r"prices\[20, 2\] is NaN"):
        PortfolioEnv(prices, lookback=3, episode_length=4, sampler=FixedStart(17)).reset()
    days = np.arange("2020-01-01", "2020-03-01", dtype="datetime64[D]")
    with pytest.raises(ValueError, match=r"prices\[20, 2\] \(2020-01-21\) is NaN"):
        PortfolioEnv(data=MarketData(prices, days), lookback=3, episode_length=4).reset(options={"start": "2020-01-21"})


# ---- the simulated market -------------------------------------------------------------------------


def test_without_noise_prices_grow_at_their_drift_and_parameters_act_at_once() -> None:
    env = PortfolioEnv(n_assets=2, mu=[0.252, 0.504], sigma=0.0, lookback=5)
    observation, _ = env.reset(seed=0)
    np.testing.assert_allclose(observation["returns"], [[0.001, 0.002]] * 5, rtol=1e-6)
    env.mu = 0.504
    assert env.step([1, 0, 0]).info["asset_returns"] == pytest.approx([math.expm1(0.002)] * 2, rel=1e-12)
    env.dt = 1 / 504
    assert env.step([1, 0, 0]).info["asset_returns"] == pytest.approx([math.expm1(0.001)] * 2, rel=1e-12)
    env.sigma = (0.0, 0.5)
    first, second = env.step([1, 0, 0]).info["asset_returns"]
    assert first == pytest.approx(math.expm1(0.001), rel=1e-12)
    assert second != pytest.approx(math.expm1(0.001 - 0.125 / 504), rel=1e-3)


def test_the_observed_returns_are_those_of_the_steps() -> None:
    env = PortfolioEnv(lookback=3, episode_length=20, n_assets=2)
    env.reset(seed=3)
    seen = []
    for k in range(20):  # the rings of 6 places go round three times
        result = env.step([0, 0, 1])
        seen.append(np.log1p(result.info["asset_returns"]))
        if k >= 2:
            np.testing.assert_allclose(result.observation["returns"], seen[-3:], rtol=1e-5, atol=1e-8)


def test_a_lookback_and_an_asset_of_one_work_in_both_markets() -> None:
    for market in ({"n_assets": 1}, {"prices": HISTORY[:, 0]}, {"prices": HISTORY[:, :1]}):
        env = PortfolioEnv(**market, lookback=1, episode_length=6)
        env.reset(seed=0)
        for _ in range(6):
            result = env.step([0.5, 0.5])
            assert result.observation["returns"].shape == (1, 1)
            assert result.observation["returns"][0, 0] == pytest.approx(
                math.log1p(result.info["asset_returns"][0]), abs=1e-7
            )


def test_shocks_are_clipped_where_asked_after_they_were_correlated() -> None:
    # log returns -1/2 + clipped shock, in [-1, 0]; clipped before, those of the second asset would reach further
    env = PortfolioEnv(
        n_assets=2, mu=0.0, sigma=1.0, dt=1.0, corr=0.7, shock_clip=0.5, lookback=400, episode_length=200
    )
    returns = [env.reset(seed=0).observation["returns"]]
    returns += [np.log1p(r.info["asset_returns"])[None] for r in run(env, [[0, 0, 1]] * 200)]
    stacked = np.concatenate(returns)
    assert stacked.min(axis=0) == pytest.approx([-1.0, -1.0]) and stacked.max(axis=0) == pytest.approx(
        [0, 0], abs=1e-12
    )


def test_growth_beyond_the_floats_is_an_error_and_nothing_moves() -> None:
    env = PortfolioEnv(mu=0.0, sigma=0.0)
    env.reset(seed=0)
    env.mu = 252 * 800.0
    with pytest.raises(FloatingPointError, match="price of sub-env 0 left the range of floats"):
        env.step([0] * 6)
    assert (env.elapsed_steps, env.equity) == (0, 1.0)
    env.mu = 0.0
    assert env.step([0] * 6).info["timestamp"] == 31


# ---- arguments ------------------------------------------------------------------------------------

MATRIX = np.array([[1.0, 0.5], [0.5, 1.0]])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_assets": 0}, ValueError, "n_assets"),
        ({"n_assets": 2.0}, TypeError, "n_assets"),
        ({"prices": HISTORY, "n_assets": 5}, ValueError, "n_assets is 5, and the history has 3 columns"),
        ({"episode_length": 2.5}, TypeError, "episode_length"),
        ({"lookback": 0}, ValueError, "lookback"),
        ({"allow_short": 1}, TypeError, "allow_short is 1"),
        ({"mu": math.inf}, ValueError, "mu"),
        ({"mu": [0.1, "x", 0.1, 0.1, 0.1]}, TypeError, r"mu\[1\]"),
        ({"mu": [0.1, 0.2]}, ValueError, "mu has 2 entries; expected one number for all, or 5"),
        ({"sigma": [0.1, -0.1, 0.1, 0.1, 0.1]}, ValueError, r"sigma\[1\] is -0.1"),
        ({"sigma": 1e200}, ValueError, "leave the range of floats"),
        ({"corr": 1.5}, ValueError, r"corr is 1.5; expected a correlation in \[-1, 1\]"),
        ({"corr": "x"}, TypeError, "corr"),
        ({"corr": MATRIX}, ValueError, r"corr has shape \(2, 2\); expected \(5, 5\)"),
        ({"corr": [0.5, 0.5]}, ValueError, r"corr has shape \(2,\)"),
        ({"n_assets": 2, "corr": 2 * MATRIX}, ValueError, r"corr\[0, 0\] is 2.0"),
        ({"n_assets": 2, "corr": 0.5 * MATRIX}, ValueError, "the diagonal"),
        ({"n_assets": 2, "corr": [[1, 0.5], [0.4, 1]]}, ValueError, "not symmetric"),
        ({"n_assets": 2, "corr": [[1, math.nan], [0.4, 1]]}, ValueError, r"corr\[0, 1\]"),
        ({"n_assets": 3, "corr": -0.6}, ValueError, "corr has the eigenvalue -0.2"),  # 1 - .6 * 2
        ({"dt": 0.0}, ValueError, "dt"),
        ({"capital": 0.0}, ValueError, "capital"),
        ({"shock_clip": 0.0}, ValueError, "shock_clip"),
        ({"ruin_fraction": 1.0}, ValueError, "ruin_fraction"),
        ({"render_mode": "human"}, ValueError, "render_mode"),
        ({"transaction_cost": -1e-3}, ValueError, "transaction_cost"),
        ({"transaction_cost": 1.0}, ValueError, "rate 1.0; expected less than 1"),
        ({"cost_model": [0.1, 0.2]}, ValueError, "cost_model has 2 rates; expected one for all, or 5"),
        ({"cost_model": [0.1, -0.2, 0, 0, 0]}, ValueError, r"cost_model\[1\] is -0.2"),
        ({"transaction_cost": 1e-3, "cost_model": 1e-3}, ValueError, "both given"),
        ({"sampler": "randon"}, ValueError, "sampler is 'randon'"),
        ({"sampler": FixedStart(0)}, ValueError, "sampler is FixedStart.*give prices or data"),
        ({"prices": HISTORY[:51], "lookback": 30, "episode_length": 21}, ValueError, "51 rows.*at least 52"),
        ({"prices": [[1.0, 1.0], [1.0, -1.0]]}, ValueError, r"prices\[1, 1\] is -1.0"),
        ({"prices": HISTORY, "data": MarketData(HISTORY)}, ValueError, "prices and data were both given"),
        ({"data": HISTORY}, TypeError, "data is of type ndarray; expected a MarketData"),
    ],
)
def test_a_bad_argument_is_named(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        PortfolioEnv(**arguments)


def test_a_single_asset_environment_refuses_a_history_of_several() -> None:
    with pytest.raises(ValueError, match="prices of 3 assets; expected one"):
        TradingEnv(HISTORY)


def test_parameters_are_checked_when_they_are_set_and_kept_when_refused() -> None:
    env = PortfolioEnv()
    for name, value in (
        ("sigma", -1.0), ("mu", [0.1]), ("corr", 2.0), ("cost_model", 1.0), ("dt", 0), ("capital", -1.0),
    ):  # fmt: skip
        before = getattr(env, name)
        with pytest.raises((TypeError, ValueError), match=name):
            setattr(env, name, value)
        assert getattr(env, name) is before
    env.cost_model = [0.01, 0.02, 0.03, 0.04, 0.05]
    assert env.transaction_cost == (0.01, 0.02, 0.03, 0.04, 0.05)
    with pytest.raises(ValueError, match="read-only"):
        env.sigma[0] = 5.0


@pytest.mark.parametrize(
    "name",
    [
        "n_assets",
        "lookback",
        "episode_length",
        "allow_short",
        "prices",
        "data",
        "transaction_cost",
        "weights",
        "equity",
    ],
)
def test_what_is_settled_at_construction_cannot_be_set(name: str) -> None:
    env = PortfolioEnv(**PORTFOLIO)
    with pytest.raises(AttributeError, match=name):
        env.set_attr(name, 5)


@pytest.mark.parametrize(
    ("name", "value"), [("ruin_fraction", 0.9999), ("cost_model", 0.3), ("capital", 5.0), ("dt", 0.5)]
)
def test_every_parameter_acts_on_the_next_step(name: str, value: float) -> None:
    outcomes = []
    for late in (False, True, None):  # given to the constructor, set later, not at all
        env = PortfolioEnv(**{**PORTFOLIO, **({name: value} if late is False else {})})
        env.reset(options={"start": 60})
        if late:
            setattr(env, name, value)
        outcomes.append(pickle.dumps([(r.info, r.terminated) for r in run(env, [EVEN] * 3)]))
    assert outcomes[0] == outcomes[1] != outcomes[2]


def test_the_history_is_shared_between_environments_and_cannot_be_written_to() -> None:
    first, second = PortfolioEnv(**PORTFOLIO), sekai.make("Portfolio-v0", **PORTFOLIO).unwrapped
    assert first.data is second.data and first.prices is second.prices
    assert np.shares_memory(first._slots.prices, second._slots.prices)
    assert np.shares_memory(first._slots.returns, second._slots.returns)
    assert first.prices is not None and first.n_assets == 3
    with pytest.raises(ValueError, match="read-only"):
        first.prices[0] = 1.0
