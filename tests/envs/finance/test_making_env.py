"""MarketMaking-v0, the single environment: what is observed, when it ends, what is accepted and refused."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import gymnasium.utils.env_checker
import numpy as np
import pytest

import sekai
import sekai.testing
from sekai.envs.finance import MarketMakingEnv
from sekai.errors import InvalidAction, ResetRequired

# quotes at the mid are filled for certain, those FAR away never, and the mid stands still
CERTAIN: dict[str, Any] = {"fill_intensity": 1e9, "fill_decay": 1e3, "sigma": 0.0}
FAR = 5.0
KEYS = ["timestamp", "dt", "mid_price", "inventory", "cash", "wealth", "bid", "ask", "bid_filled", "ask_filled",
        "spread_pnl", "inventory_pnl"]  # fmt: skip


def started(**arguments: Any) -> MarketMakingEnv:
    env = MarketMakingEnv(**arguments)
    env.reset(seed=0)
    return env


def tape(env: MarketMakingEnv, actions: Any, seed: int | None = None) -> list[Any]:
    first = env.reset(seed=seed)
    rows: list[Any] = [first.observation.tolist(), first.info]
    for action in actions:
        result = env.step(action)
        rows += [result.observation.tolist(), result.reward, result.terminated, result.info]
        if result.done:
            break
    return rows


# ---- what is observed -----------------------------------------------------------------------------


def test_the_observation_is_the_inventory_and_the_time_left_as_fractions() -> None:
    env = started(**CERTAIN, max_inventory=8, n_steps=4)
    assert env.reset().observation.tolist() == [0.0, 1.0]
    seen = [env.step([0.0, FAR]).observation.tolist() for _ in range(4)]
    assert seen == [[1 / 8, 3 / 4], [2 / 8, 2 / 4], [3 / 8, 1 / 4], [4 / 8, 0.0]]


def test_spaces_are_those_documented() -> None:
    env = MarketMakingEnv(max_offset=2.5)
    assert repr(env.observation_space) == "Box([-1.0, 0.0], 1.0, (2,), float32)"
    assert repr(env.action_space) == "Box(0.0, 2.5, (2,), float32)"
    observation = env.reset(seed=0).observation
    assert observation.dtype == np.float32 and env.observation_space.contains(observation)


def test_info_has_the_same_keys_after_reset_and_step_and_python_values() -> None:
    env = MarketMakingEnv()
    _, first = env.reset(seed=0)
    result = env.step([0.5, 0.5])
    assert list(first) == list(result.info) == KEYS
    for info in (first, result.info):
        assert [type(info[key]) for key in KEYS] == [int] + [float] * 7 + [bool] * 2 + [float] * 2
    # before the first quote both stand at the mid
    assert list(first.values()) == [0, 0.005, 100.0, 0.0, 0.0, 0.0, 100.0, 100.0, False, False, 0.0, 0.0]
    assert type(result.reward) is float and type(result.terminated) is bool and type(result.truncated) is bool


def test_state_is_read_by_name() -> None:
    env = started(total_time=2.0, n_steps=8)
    assert (env.timestamp, env.elapsed_steps, env.time_remaining, env.dt) == (0, 0, 2.0, 0.25)
    assert (env.price, env.mid, env.inventory, env.cash, env.wealth, env.bid, env.ask) == (100, 100, 0, 0, 0, 100, 100)
    info = env.step([0.25, 0.5]).info
    assert (env.timestamp, env.elapsed_steps, env.time_remaining) == (1, 1, 1.75)
    assert (env.bid, env.ask) == (info["bid"], info["ask"]) == (99.75, 100.5)
    assert env.price == env.mid == info["mid_price"] != 100.0
    assert (env.inventory, env.cash, env.wealth) == (info["inventory"], info["cash"], info["wealth"])


# ---- beginning and end ----------------------------------------------------------------------------


def test_the_last_step_terminates_and_liquidates_nothing() -> None:
    env = started(**CERTAIN, n_steps=3)
    results = [env.step([FAR, 0.0]) for _ in range(3)]
    assert [r.terminated for r in results] == [False, False, True] and not any(r.truncated for r in results)
    assert env.inventory == -3.0 and env.time_remaining == 0.0
    assert env.metadata["finite_horizon"] is True


def test_a_step_before_the_first_reset_and_after_the_end_is_refused() -> None:
    env = MarketMakingEnv(n_steps=2)
    with pytest.raises(ResetRequired):
        env.step([1.0, 1.0])
    tape(env, [[1.0, 1.0]] * 2)
    before = env.wealth, env.elapsed_steps
    with pytest.raises(ResetRequired):
        env.step([1.0, 1.0])
    assert (env.wealth, env.elapsed_steps) == before


def test_a_time_limit_truncates_and_takes_no_terminal_penalty() -> None:
    limited = sekai.make("MarketMaking-v0", max_episode_steps=2, **CERTAIN, terminal_penalty=9.0)
    limited.reset(seed=0)
    results = [limited.step([0.0, FAR]) for _ in range(2)]
    assert [r.truncated for r in results] == [False, True] and not results[-1].terminated
    assert [r.reward for r in results] == [0.0, 0.0] and results[-1].info["elapsed_steps"] == 2


def test_an_episode_after_a_seed_is_the_same_whatever_ran_before() -> None:
    # U78, R10
    env = MarketMakingEnv(n_steps=30, terminal_penalty=0.1)
    actions = np.random.default_rng(0).uniform(0.0, 1.0, (30, 2))
    fresh = tape(env, actions, seed=7)
    tape(env, 1 - actions, seed=8)
    assert tape(env, actions, seed=7) == fresh
    tape(env, actions[:5], seed=1)  # and an episode cut short
    assert tape(env, actions, seed=7) == fresh
    assert tape(env, 1 - actions, seed=7) != fresh
    assert tape(env, actions) != fresh  # without a seed the stream goes on


def test_a_seed_of_zero_counts() -> None:
    env = MarketMakingEnv()
    first, again, other = (tape(env, [[0.1, 0.1]], seed=seed) for seed in (0, 0, 1))
    assert first == again != other


def test_a_step_draws_one_normal_and_then_a_uniform_for_each_side() -> None:
    env = started(sigma=3.0, total_time=1.0, n_steps=4, fill_intensity=2.0, fill_decay=0.0)
    rng = np.random.default_rng(0)
    for _ in range(4):
        before = env.mid
        info = env.step([1.0, 1.0]).info
        assert info["mid_price"] == pytest.approx(before + 3.0 * 0.5 * rng.standard_normal(), rel=1e-15)
        # 2 orders per unit of time, 0.5 of them in a step of 1 / 4
        assert [info["bid_filled"], info["ask_filled"]] == (rng.random(2) < 1 - math.exp(-0.5)).tolist()
    assert env.rng.bit_generator.state == rng.bit_generator.state


def test_copies_and_pickles_go_on_alike() -> None:
    env = started()
    env.step([0.1, 0.2])
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    expected = env.step([0.3, 0.4])
    for other in copies:
        result = other.step([0.3, 0.4])
        assert result.info == expected.info and np.array_equal(result.observation, expected.observation)


def test_gymnasiums_checker_and_sekais_accept_it() -> None:
    with pytest.warns(UserWarning, match="normalized space"):  # distances are prices: all that it remarks on
        gymnasium.utils.env_checker.check_env(MarketMakingEnv(), skip_render_check=True)
    sekai.testing.check_env(MarketMakingEnv(n_steps=20))


# ---- actions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action",
    [[-0.1, 1.0], [1.0, 5.1], [math.nan, 1.0], [1.0, math.inf], [1e300, 0.0], 1.0, [1.0], [1.0] * 3, [[1.0, 1.0]], None,
     "ab", ["1", "2"], [True, False], [1j, 0], [1.0, [2.0]], np.ma.masked_array([1.0, 2.0], [True, False])],
    ids=repr,
)  # fmt: skip
def test_what_is_no_action_is_refused_and_nothing_moves(action: Any) -> None:
    env = started()
    state = env.rng.bit_generator.state
    with pytest.raises(InvalidAction, match=r"a member of Box\(0.0, 5.0, \(2,\), float32\)"):
        env.step(action)
    assert (env.elapsed_steps, env.bid) == (0, 100.0) and env.rng.bit_generator.state == state


@pytest.mark.parametrize(
    "action", [[1, 2], (1.0, 2.0), np.array([1, 2], np.int8), np.array([1.0, 2.0]), np.array([1.0, 2.0], np.float16)]
)
def test_numbers_of_every_kind_are_distances(action: Any) -> None:
    info = started().step(action).info
    assert (info["bid"], info["ask"]) == (99.0, 102.0)


def test_the_largest_distance_is_a_member_whatever_float32_makes_of_it() -> None:
    env = started(max_offset=0.1)  # float32(0.1) is above 0.1
    for action in ([0.1, 0.1], env.action_space.high):
        assert env.step(action).info["ask"] > env.bid
    with pytest.raises(InvalidAction, match="ClipAction"):
        env.step([0.1001, 0.0])


# ---- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"start": 3}, ValueError, "options has the key 'start'; this environment has no options"),
        ({"inventory": 3}, ValueError, "the key 'inventory'"),
        (5, TypeError, "options is 5"),
    ],
)
def test_options_are_refused_before_anything_moves(options: Any, error: type[Exception], message: str) -> None:
    env = started()
    env.step([1.0, 1.0])
    before = env.elapsed_steps, env.mid, env.rng.bit_generator.state
    for call in (env.check_options, lambda given: env.reset(seed=5, options=given)):
        with pytest.raises(error, match=message):
            call(options)
    assert (env.elapsed_steps, env.mid, env.rng.bit_generator.state) == before
    assert env.reset(options={}).info["timestamp"] == 0


# ---- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"s0": 0.0}, ValueError, "s0"),
        ({"s0": "100"}, TypeError, "s0"),
        ({"sigma": -0.1}, ValueError, "sigma"),
        ({"total_time": 0.0}, ValueError, "total_time"),
        ({"n_steps": 2.5}, TypeError, "n_steps"),
        ({"n_steps": 0}, ValueError, "n_steps"),
        ({"n_steps": True}, TypeError, "n_steps"),
        ({"fill_intensity": -1.0}, ValueError, "fill_intensity"),
        ({"fill_decay": math.nan}, ValueError, "fill_decay"),
        ({"fill_model": "possion"}, ValueError, "fill_model is 'possion'; expected 'poisson' or 'bernoulli'"),
        ({"risk_aversion": -0.1}, ValueError, "risk_aversion"),
        ({"max_inventory": 0}, ValueError, "max_inventory"),
        ({"max_inventory": 10.0}, TypeError, "max_inventory"),
        ({"order_size": 0}, ValueError, "order_size"),
        ({"order_size": 1.5}, TypeError, "order_size"),
        ({"order_size": 51}, ValueError, "order_size is 51; expected at most max_inventory, 50"),
        ({"max_offset": 0.0}, ValueError, "max_offset"),
        ({"terminal_penalty": -1.0}, ValueError, "terminal_penalty"),
        ({"shock_clip": 0.0}, ValueError, "shock_clip"),
        ({"render_mode": "human"}, ValueError, "render_mode"),
        ({"sigma": 1e300}, ValueError, "sigma=1e"),
        ({"s0": 1e300}, ValueError, "s0=1e"),
        ({"terminal_penalty": 1e300}, ValueError, "terminal_penalty, could leave the range of floats"),
    ],
)
def test_a_bad_argument_is_named(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        MarketMakingEnv(**arguments)


def test_parameters_are_checked_when_they_are_set_and_kept_when_refused() -> None:
    env = MarketMakingEnv()
    for name, value in (("sigma", -1.0), ("order_size", 51), ("fill_model", "x"), ("total_time", 0), ("s0", None)):
        before = getattr(env, name)
        with pytest.raises((TypeError, ValueError), match=name):
            setattr(env, name, value)
        assert getattr(env, name) == before


@pytest.mark.parametrize("name", ["n_steps", "max_inventory", "max_offset", "dt", "mid", "inventory", "time_remaining"])
def test_what_is_settled_or_follows_from_the_state_cannot_be_set(name: str) -> None:
    env = started()
    with pytest.raises(AttributeError, match=name):
        env.set_attr(name, 5)


CHANGED = {
    "sigma": 7.0,
    "total_time": 4.0,
    "fill_intensity": 500.0,
    "fill_decay": 0.1,
    "fill_model": "bernoulli",
    "risk_aversion": 8.0,
    "order_size": 3,
    "terminal_penalty": 2.0,
    "shock_clip": 0.01,
}


@pytest.mark.parametrize("name", CHANGED)
def test_every_parameter_acts_on_the_next_step(name: str) -> None:
    outcomes = []
    for late in (False, True, None):  # given to the constructor, set later, not at all
        env = MarketMakingEnv(
            **{"n_steps": 40, "fill_intensity": 60.0, **({name: CHANGED[name]} if late is False else {})}
        )
        env.reset(seed=1)
        if late:
            setattr(env, name, CHANGED[name])
        outcomes.append([env.step([0.1, 0.1])[1:] for _ in range(40)])
    assert outcomes[0] == outcomes[1] != outcomes[2]


def test_the_start_price_acts_at_the_next_reset() -> None:
    env = started(sigma=0.0)
    env.s0 = 20.0
    assert env.step([1.0, 1.0]).info["mid_price"] == 100.0
    assert env.reset().info["mid_price"] == env.mid == 20.0


def test_a_mid_that_stands_still_carries_nothing_and_not_minus_nothing() -> None:
    env = started(**CERTAIN)
    carried = [env.step([FAR, 0.0]).info["inventory_pnl"] for _ in range(20)]  # short, under shocks of both signs
    assert {math.copysign(1.0, value) for value in carried} == {1.0} and set(carried) == {0.0}


def test_draws_are_unit_shocks_so_that_volatility_only_scales_them() -> None:
    moves = []
    for sigma in (1.0, 2.0):
        env = started(sigma=sigma)
        moves.append(np.diff([100.0, *(env.step([5.0, 5.0]).info["mid_price"] for _ in range(50))]))
    np.testing.assert_allclose(moves[1], 2 * moves[0], atol=1e-12)


def test_shocks_are_clipped_where_asked() -> None:
    env = started(sigma=1.0, total_time=200.0, shock_clip=0.5)  # dt = 1
    moves = np.diff([100.0, *(env.step([5.0, 5.0]).info["mid_price"] for _ in range(200))])
    assert moves.min() == pytest.approx(-0.5) and moves.max() == pytest.approx(0.5)
    assert 0.2 < (np.abs(moves) < 0.499).mean() < 0.6  # 38 % of standard normal numbers are within 0.5
