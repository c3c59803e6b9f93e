"""OptimalExecution-v0, the single environment: what is observed, when it ends, what is accepted and refused."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import gymnasium.utils.env_checker
import numpy as np
import pytest

import sekai
from sekai.envs.finance import OptimalExecutionEnv
from sekai.errors import InvalidAction, ResetRequired
from sekai.testing import check_env
from tests.envs.finance.execution_samples import ready, run

HALF = np.array([0.5], np.float32)
KEYS = [
    "timestamp", "dt", "shares_sold", "execution_price", "mid_price", "inventory", "implementation_shortfall",
    "shortfall_bps", "spread_bps", "temporary_bps", "permanent_bps", "timing_bps",
]  # fmt: skip


# ---- what is observed -----------------------------------------------------------------------------


def test_the_observation_is_what_is_left_the_time_left_and_the_move_of_the_price() -> None:
    env = OptimalExecutionEnv(sigma=0.0, permanent_impact=2.5e-6, n_steps=4)
    observation, _ = env.reset(seed=0)
    assert observation.tolist() == [1.0, 1.0, 0.0]
    observation = env.step(np.array([0.2], np.float32)).observation
    # 200 000 shares move the mid by half of one of fifty
    np.testing.assert_allclose(observation, [0.8, 0.75, -0.01], rtol=1e-6)
    assert observation.dtype == np.float32 and env.observation_space.contains(observation)


def test_the_spaces() -> None:
    env = OptimalExecutionEnv()
    assert repr(env.observation_space) == "Box([0.0, 0.0, -inf], [1.0, 1.0, inf], (3,), float32)"
    assert repr(env.action_space) == "Box(0.0, 1.0, (1,), float32)"
    assert env.metadata["finite_horizon"] is True


def test_info_has_the_same_keys_after_reset_and_step_and_python_values() -> None:
    env = OptimalExecutionEnv()
    _, first = env.reset(seed=0)
    result = env.step(HALF)
    assert list(first) == list(result.info) == KEYS
    assert {type(value) for info in (first, result.info) for value in info.values()} == {float}
    assert [first[key] for key in KEYS[:6]] == [0.0, 0.2, 0.0, 50.0, 50.0, 1e6]
    assert [first[key] for key in KEYS[6:]] == [0.0] * 6
    assert result.info["timestamp"] == 0.2 and result.info["inventory"] == 5e5
    assert type(result.reward) is float and type(result.terminated) is bool and result.truncated is False


def test_state_is_read_by_name() -> None:
    env = ready()
    assert (env.price, env.mid, env.inventory, env.shortfall, env.shortfall_bps) == (50.0, 50.0, 1e6, 0.0, 0.0)
    assert (env.elapsed_steps, env.timestamp, env.time_remaining, env.dt) == (0, 0.0, 5.0, 0.2)
    info = run(env, [0.5, 0.5])[-1].info
    assert (env.price, env.mid) == (info["mid_price"],) * 2 and env.inventory == info["inventory"] == 250000.0
    assert (env.shortfall, env.shortfall_bps) == (info["implementation_shortfall"], info["shortfall_bps"])
    assert env.elapsed_steps == 2 and env.timestamp == info["timestamp"] == 0.4
    assert env.time_remaining == pytest.approx(4.6)


# ---- beginning and end ----------------------------------------------------------------------------


def test_it_terminates_when_everything_is_sold() -> None:
    results = run(ready(), [0.5, 1.0, 0.5])
    assert [(r.terminated, r.truncated) for r in results] == [(False, False), (True, False)]
    assert results[-1].info["inventory"] == 0.0 and results[-1].observation[0] == 0.0


def test_the_last_slice_sells_the_rest_and_terminates() -> None:
    env = ready(n_steps=3)
    results = run(env, [0.0] * 9)
    assert [r.terminated for r in results] == [False, False, True] and not any(r.truncated for r in results)
    assert [r.info["shares_sold"] for r in results] == [0.0, 0.0, 1e6]
    assert env.time_remaining == 0.0 and results[-1].observation[1] == 0.0


def test_a_single_slice_is_an_episode() -> None:
    (result,) = run(ready(n_steps=1), [0.3])
    assert result.terminated and result.info["shares_sold"] == 1e6


def test_a_step_before_the_first_reset_and_after_the_end_is_refused() -> None:
    env = OptimalExecutionEnv()
    with pytest.raises(ResetRequired):
        env.step(HALF)
    env.reset(seed=0)
    run(env, [1.0])
    before = env.shortfall, env.rng.bit_generator.state
    with pytest.raises(ResetRequired):
        env.step(HALF)
    assert (env.shortfall, env.rng.bit_generator.state) == before


def test_an_episode_after_a_seed_is_the_same_whatever_ran_before() -> None:
    # U78, R10
    env = OptimalExecutionEnv(n_steps=6, side="buy", max_participation=0.2, volume=5e5)

    def episode(seed: int, fractions: Any) -> list[Any]:
        first = env.reset(seed=seed)
        return [(r.observation.tolist(), r.info) for r in (first, *run(env, fractions))]

    tape = np.random.default_rng(0).random(6)
    fresh = episode(7, tape)
    episode(8, 1 - tape)
    assert episode(7, tape) == fresh
    env.reset(seed=1)
    run(env, tape[:2])  # and an episode cut short
    assert episode(7, tape) == fresh != episode(8, tape)


def test_a_reset_without_a_seed_goes_on_and_a_seed_of_zero_counts() -> None:
    env = ready()
    prices = [run(env, [0.1])[-1].info["mid_price"]]
    for seed in (None, None, 0):
        env.reset(seed=seed)
        prices.append(run(env, [0.1])[-1].info["mid_price"])
    assert len(set(prices[:3])) == 3 and prices[3] == prices[0]


def test_copies_and_pickles_go_on_alike() -> None:
    env = ready(max_participation=0.1, volume=[1e6] * 25)
    env.step(HALF)
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    expected = env.step(HALF)
    for other in copies:
        result = other.step(HALF)
        assert result.info == expected.info and np.array_equal(result.observation, expected.observation)


def test_results_are_never_overwritten_and_the_action_is_left_alone() -> None:
    env = ready()
    action = HALF.copy()
    results = [env.step(action) for _ in range(3)]
    assert [r.observation[0] for r in results] == [0.5, 0.25, 0.125] and action[0] == 0.5
    assert [r.info["inventory"] for r in results] == [5e5, 2.5e5, 1.25e5]


def test_the_checkers_accept_it() -> None:
    with pytest.warns(UserWarning, match="infinity"):  # an unbounded price is all it remarks on
        gymnasium.utils.env_checker.check_env(OptimalExecutionEnv(), skip_render_check=True)
    assert check_env(sekai.make("OptimalExecution-v0"), steps=150, determinism=True) == []
    assert check_env(sekai.make("OptimalExecution-v0", n_steps=3, max_participation=0.1, volume=1e5), steps=60) == []


# ---- actions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action",
    [
        [math.nan], [math.inf], [-1e-6], [1.0000002], [1e300], 0.5, [0.5, 0.5], [[0.5]], [], ["0.5"], [True], [None],
        [0.5j], None, "x", {}, np.ma.masked_array([0.5], [True]),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_action_is_refused_and_nothing_moves(action: Any) -> None:
    env = ready()
    before = env.rng.bit_generator.state
    with pytest.raises(InvalidAction, match=r"expected a member of Box\(0.0, 1.0, \(1,\), float32\)"):
        env.step(action)
    assert (env.elapsed_steps, env.inventory) == (0, 1e6) and env.rng.bit_generator.state == before


@pytest.mark.parametrize("action", [[0.25], (0.25,), np.array([0.25]), np.array([0.25], np.float16)], ids=repr)
def test_numbers_of_every_kind_are_actions(action: Any) -> None:
    assert ready().step(action).info["shares_sold"] == 250000.0


def test_whole_numbers_and_the_ends_of_the_range_are_actions() -> None:
    assert run(ready(), [0.0])[0].info["shares_sold"] == 0.0
    assert ready().step(np.array([1])).info["shares_sold"] == 1e6


# ---- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"start": 3}, ValueError, "'start'.*knows no options.*no rows to start from"),
        ({"seed": 3}, ValueError, "'seed'.*knows no options"),
        (5, TypeError, "options is 5; expected None or an empty dict"),
        ([], TypeError, "options is"),
    ],
)
def test_options_are_refused_before_anything_moves(options: Any, error: type[Exception], message: str) -> None:
    env = ready()
    env.step(HALF)
    before = env.inventory, env.rng.bit_generator.state
    for refuse in (lambda: env.check_options(options), lambda: env.reset(seed=5, options=options)):
        with pytest.raises(error, match=message):
            refuse()
    assert (env.inventory, env.rng.bit_generator.state) == before
    assert env.reset(options={}).info["inventory"] == 1e6


# ---- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_steps": 2.5}, TypeError, "n_steps is 2.5; expected an int of at least 1"),
        ({"n_steps": 0}, ValueError, "n_steps"),
        ({"n_steps": True}, TypeError, "n_steps"),
        ({"n_steps": None}, TypeError, "n_steps"),
        ({"initial_inventory": 0}, ValueError, "initial_inventory"),
        ({"initial_inventory": "1e6"}, TypeError, "initial_inventory"),
        ({"s0": -1.0}, ValueError, "s0"),
        ({"sigma": -0.1}, ValueError, "sigma"),
        ({"sigma": math.nan}, ValueError, "sigma"),
        ({"total_time": 0.0}, ValueError, "total_time"),
        ({"permanent_impact": -1e-9}, ValueError, "permanent_impact"),
        ({"temporary_impact": math.inf}, ValueError, "temporary_impact"),
        ({"fixed_cost": -1}, ValueError, "fixed_cost"),
        ({"risk_aversion": None}, TypeError, "risk_aversion"),
        ({"side": "SELL"}, ValueError, "side is 'SELL'; expected 'sell' or 'buy'"),
        ({"side": 1}, ValueError, "side is 1"),
        ({"shock_clip": 0.0}, ValueError, "shock_clip"),
        ({"max_participation": 0.1}, ValueError, "max_participation is 0.1 and volume is None"),
        ({"max_participation": 1.5, "volume": 1e5}, ValueError, "max_participation is 1.5; expected a share"),
        ({"max_participation": 0.0, "volume": 1e5}, ValueError, "max_participation"),
        ({"volume": -1.0}, ValueError, "volume"),
        ({"volume": "1e6"}, TypeError, "volume"),
        ({"volume": [1e5] * 24}, ValueError, "volume has 24 entries and n_steps is 25"),
        ({"volume": [1e5, math.nan], "n_steps": 2}, ValueError, r"volume\[1\] is nan"),
        ({"volume": np.ones((2, 1)), "n_steps": 2}, TypeError, "volume is"),
        ({"initial_inventory": 1e300}, ValueError, "range of floats"),
        ({"total_time": 5e-324}, ValueError, "range of floats"),
        ({"render_mode": "human"}, ValueError, "render_mode"),
    ],
)
def test_a_bad_argument_is_named(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        OptimalExecutionEnv(**arguments)


def test_arguments_are_keywords() -> None:
    with pytest.raises(TypeError, match="positional"):
        OptimalExecutionEnv(1e6)  # type: ignore[misc]  # that is the point


def test_parameters_are_checked_when_they_are_set_and_kept_when_refused() -> None:
    env = ready(volume=[1e5] * 25, max_participation=0.5)
    refused = {
        "sigma": -1.0, "n_steps": 2.5, "side": "short", "volume": [1.0], "max_participation": 2.0, "s0": 0,
    }  # fmt: skip
    for name, value in refused.items():
        before = getattr(env, name)
        with pytest.raises((TypeError, ValueError), match=name):
            setattr(env, name, value)
        assert getattr(env, name) is before
    with pytest.raises(ValueError, match="volume has 25 entries and n_steps is 5"):
        env.n_steps = 5
    with pytest.raises(ValueError, match="volume is None"):
        env.volume = None
    env.max_participation = env.volume = None
    env.n_steps = 5


def test_the_volumes_given_are_copied_and_those_read_cannot_be_written_to() -> None:
    given = np.full(25, 1e5)
    env = ready(volume=given, max_participation=0.5)
    given[:] = 0.0
    assert run(env, [1.0])[0].info["shares_sold"] == 5e4
    with pytest.raises(ValueError, match="read-only"):
        env.volume[0] = 1.0


CHANGES: dict[str, Any] = {
    "sigma": 2.0,
    "total_time": 8.0,
    "n_steps": 3,
    "permanent_impact": 1e-6,
    "temporary_impact": 1e-6,
    "fixed_cost": 0.1,
    "risk_aversion": 1e-5,
    "max_participation": 0.05,
    "volume": 1e5,
    "shock_clip": 0.01,
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_parameter_acts_on_the_next_step(name: str) -> None:
    base = {"max_participation": 0.5, "volume": 1e6}
    outcomes = []
    for late in (False, True, None):  # given to the constructor, set later, not at all
        env = ready(**{**base, **({name: CHANGES[name]} if late is False else {})})
        if late:
            setattr(env, name, CHANGES[name])
        outcomes.append([(r.info, r.reward, r.terminated) for r in run(env, [0.3, 0.3, 0.3])])
    assert outcomes[0] == outcomes[1] != outcomes[2]


@pytest.mark.parametrize(("name", "value"), [("initial_inventory", 10.0), ("s0", 20.0), ("side", "buy")])
def test_what_an_episode_starts_from_acts_at_the_next_reset(name: str, value: Any) -> None:
    def rewards(env: OptimalExecutionEnv) -> list[float]:
        return [result.reward for result in run(env, [0.3, 0.3])]

    env, untouched = ready(), ready()
    setattr(env, name, value)
    assert rewards(env) == rewards(untouched)
    env.reset(seed=0)
    assert rewards(env) == rewards(ready(**{name: value})) != rewards(ready())


def test_a_schedule_cut_short_ends_with_the_next_slice() -> None:
    env = ready(sigma=0.0)
    run(env, [0.1] * 10)
    env.n_steps = 7
    assert env.time_remaining == 0.0
    result = env.step(HALF)
    assert result.terminated and result.info["inventory"] == 0.0 and result.observation[1] == 0.0


@pytest.mark.parametrize("name", ["price", "mid", "inventory", "shortfall", "time_remaining", "elapsed_steps", "dt"])
def test_state_cannot_be_set(name: str) -> None:
    with pytest.raises(AttributeError):
        ready().set_attr(name, 1.0)
