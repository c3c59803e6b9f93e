"""Portfolio-v0, native: row for row what single environments give, in every autoreset mode."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.core.kernels import Kernel
from sekai.envs.finance import PortfolioEnv, PortfolioVecEnv
from sekai.envs.finance.portfolio import kernel as pk
from sekai.errors import InvalidAction, ResetRequired
from sekai.finance import EpisodeSampler, FixedStart, MarketData, SequentialStart
from sekai.testing import check_vec_env
from sekai.vector import RowKind, SyncVecEnv
from tests.envs.finance.portfolio_samples import HISTORY, PORTFOLIO, same_info, same_observations, same_rows

MODES = ["same_step", "next_step", "disabled"]
DAYS = np.arange("2020-01-01", "2020-06-28", dtype="datetime64[D]")


def both(n: int, mode: str, **arguments: Any) -> tuple[PortfolioVecEnv, SyncVecEnv]:
    native = PortfolioVecEnv(n, autoreset=mode, **arguments)

    def make() -> PortfolioEnv:
        own = dict(arguments)
        if isinstance(own.get("sampler"), EpisodeSampler):
            own["sampler"] = own["sampler"].spawn()  # as make_vec does
        return PortfolioEnv(**own)

    return native, SyncVecEnv([make] * n, autoreset=mode)


def actions_of(rng: np.random.Generator, vec: Any) -> Any:
    """Random members of the action space, some of them all zero, some all in one asset."""
    space = vec.action_space
    actions = rng.uniform(space.low, space.high, (vec.num_envs, *space.shape)).astype(np.float32)
    actions[rng.random(vec.num_envs) < 0.2] = 0.0
    whole = rng.random(vec.num_envs) < 0.2
    actions[whole] = np.eye(space.shape[0], dtype=np.float32)[rng.integers(space.shape[0], size=whole.sum())]
    return actions


def same_resets(native: Any, sync: Any) -> None:
    same_observations(native.observations, sync.observations)
    assert np.array_equal(native.dones, sync.dones)
    for mine, theirs in zip(native.infos, sync.infos, strict=True):
        same_info(mine, theirs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "arguments",
    [
        {"sampler": FixedStart([3, 60, 147])},
        {"sampler": "sequential", "cost_model": [0.01, 0.2, 0.0], "capital": 7.0},
        {"sampler": "sequential", "allow_short": True, "ruin_fraction": 0.95, "transaction_cost": 0.01},
        {"prices": np.exp(3 * np.log(HISTORY)), "sampler": FixedStart(9), "allow_short": True, "ruin_fraction": 0.6},
        {"data": MarketData(HISTORY, DAYS), "prices": None, "sampler": FixedStart(9)},
    ],
    ids=["fixed", "per-asset", "short", "wild", "dates"],
)
def test_native_and_sync_agree_to_the_bit(mode: str, arguments: dict[str, Any]) -> None:
    native, sync = both(5, mode, **{**PORTFOLIO, **arguments})
    rng = np.random.default_rng(1)
    same_resets(native.reset(seed=0), sync.reset(seed=0))
    ended = 0
    for call in range(70):
        actions = actions_of(rng, native)
        results = native.step(actions), sync.step(actions)
        same_rows(*results)
        ended += int(results[0].ended.sum())
        for name in ("equity", "portfolio_value", "timestamp", "elapsed_steps"):
            assert native.get_attr(name) == sync.get_attr(name), name
        assert np.array_equal(native.get_attr("weights"), sync.get_attr("weights"))
        if mode == "disabled" and call % 25 == 24:
            mask = np.array([True, False, True, True, False]) | results[0].dones if call < 50 else np.ones(5, bool)
            same_resets(native.reset(mask=mask), sync.reset(mask=mask))
    assert ended >= 5  # episodes did end, or this test compares little


@pytest.mark.parametrize("mode", MODES)
def test_without_noise_a_simulated_market_agrees_to_the_bit_too(mode: str) -> None:
    native, sync = both(4, mode, sigma=0.0, mu=[0.3, -0.2, 2.0], n_assets=3, corr=0.4, episode_length=15, lookback=4)
    rng = np.random.default_rng(1)
    same_resets(native.reset(seed=0), sync.reset(seed=0))
    for call in range(50):
        actions = actions_of(rng, native)
        same_rows(native.step(actions), sync.step(actions))
        if mode == "disabled" and call == 30:
            mask = np.array([True, False, True, False])
            same_resets(native.reset(mask=mask), sync.reset(mask=mask))


def test_one_slot_with_the_same_seed_is_the_single_environment() -> None:
    arguments: dict[str, Any] = {"episode_length": 12, "corr": 0.3, "shock_clip": 1.5}
    native, single = PortfolioVecEnv(1, **arguments), PortfolioEnv(**arguments)
    same_observations({k: v[0] for k, v in native.reset(seed=5).observations.items()}, single.reset(seed=5).observation)
    for action in np.random.default_rng(0).random((40, 6), np.float32):
        row, result = native.step(action[None]), single.step(action)
        assert row.rewards[0] == result.reward
        after = {key: value[0] for key, value in row.observations.items()}
        if result.done:
            same_observations(row.final_observation(0), result.observation)
            same_observations(after, single.reset().observation)
        else:
            same_observations(after, result.observation)
            same_info(row.infos[0], result.info)


@settings(max_examples=30)
@given(st.data())
def test_random_tapes_and_masks_agree_to_the_bit(data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(MODES))
    arguments: dict[str, Any] = {
        **PORTFOLIO,
        "prices": np.exp(data.draw(st.sampled_from([1, 4])) * np.log(HISTORY)),
        "episode_length": data.draw(st.integers(1, 8)),
        "sampler": FixedStart(data.draw(st.lists(st.integers(0, 160), min_size=1, max_size=4))),
        "allow_short": data.draw(st.booleans()),
        "transaction_cost": data.draw(st.floats(0.0, 0.6)),
        "ruin_fraction": data.draw(st.sampled_from([0.0, 0.97])),
    }
    native, sync = both(3, mode, **arguments)
    native.reset(), sync.reset()
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    for _ in range(12):
        if data.draw(st.integers(0, 4)) == 0:
            mask = np.array(data.draw(st.lists(st.booleans(), min_size=3, max_size=3)))
            same_resets(native.reset(mask=mask), sync.reset(mask=mask))
        actions = actions_of(rng, native)
        same_rows(native.step(actions), sync.step(actions))


def test_the_machine_code_gives_the_bits_of_the_python_it_was_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    def tape() -> list[Any]:
        rows: list[Any] = []
        # the window of 9 steps at position 159 ends with the history: a slot frozen there must not read on
        for market in (
            {**PORTFOLIO, "sampler": FixedStart(159)},
            {"n_assets": 3, "sigma": 2.5, "shock_clip": 1.5, "lookback": 3, "corr": 0.3},
        ):
            for short in (False, True):
                vec = PortfolioVecEnv(
                    3, **{**market, "episode_length": 9, "ruin_fraction": 0.8},
                    allow_short=short, transaction_cost=0.1, autoreset=False,
                )  # fmt: skip
                vec.reset(seed=0)
                rng = np.random.default_rng(0)
                for _ in range(15):
                    result = vec.step(actions_of(rng, vec))
                    rows += [result.observations, result.rewards.tolist(), list(result.infos), vec.weights]
        return rows

    machine = tape()
    for name in ("advance", "begin", "begin_simulated", "observe", "simulate", "first_outside"):
        python = Kernel(getattr(pk, name).py_func)
        python.__dict__["compiled"] = python.py_func
        monkeypatch.setattr(pk, name, python)
    assert pk.advance.compiled is pk.advance.py_func
    np.testing.assert_equal(tape(), machine)


# ---- rows and resets ------------------------------------------------------------------------------


def test_every_internal_reset_belongs_to_one_flag() -> None:
    # U16: 91 steps a window, ruin in some of them
    vec = PortfolioVecEnv(8, n_assets=2, episode_length=91, sigma=0.8, ruin_fraction=0.7)
    vec.reset(seed=0)
    rng = np.random.default_rng(0)
    flags, starts, ruined = 0, 0, 0
    for _ in range(300):
        result = vec.step(actions_of(rng, vec))
        finished = np.flatnonzero(result.ended)
        last = np.array([result.final_info(i)["timestamp"] for i in finished]) == 30 + 91
        assert (result.truncated[finished] == last).all()
        assert (result.terminated[finished] | last).all(), "before the last row of the window only ruin ends an episode"
        flags += int(result.dones.sum())
        ruined += int(result.terminated.sum())
        starts += sum("reset_info" in info for info in result.infos)
        assert ((np.array(vec.get_attr("elapsed_steps")) == 0) == result.dones).all()
    assert flags == starts > 24 and ruined > 0


def test_a_frozen_slot_keeps_its_state_and_ignores_its_action() -> None:
    prices = [[1.0], [1.0], [2.0], [2.0], [4.0], [4.0]]
    vec = PortfolioVecEnv(2, prices, lookback=1, episode_length=4, allow_short=True, autoreset=False, cost_model=0.0)
    vec.reset()
    ruined = vec.step([[-1.0], [0.0]])
    assert ruined.terminated.tolist() == [True, False] and ruined.rewards[0] == math.log(1e-8)
    for _ in range(2):
        result = vec.step([[77.0], [0.5]])  # out of bounds, and ignored
        assert result.kind.tolist() == [RowKind.FROZEN, RowKind.STEP]
        assert np.array_equal(result.observations["weights"][0], ruined.observations["weights"][0])
        assert np.array_equal(result.observations["returns"][0], ruined.observations["returns"][0])
        assert (vec.get_attr("timestamp")[0], vec.get_attr("equity")[0], result.infos[0]) == (2, 0.0, {})
    assert vec.get_attr("timestamp")[1] == 4


def test_slots_that_are_reset_fall_into_step_with_the_others() -> None:
    vec = PortfolioVecEnv(3, lookback=4, autoreset=False)
    vec.reset(seed=0)
    for _ in range(5):
        vec.step(np.zeros((3, 6)))
    vec.reset(mask=np.array([True, False, False]))
    assert vec._slots.clock[pk.HEAD].tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([[0, 0, 1], [0, 0, 1], [0, -0.5, 1]], r"The action of sub-env 2 is .*; expected a member of Box\(0.0, 1.0"),
        ([[0, 0, 1], [0, 1.5, 1], [0, -0.5, 1]], "The action of sub-env 1 is"),
        ([[0, 0, 1], [0, math.nan, 1], [0, 0, 1]], "The action of sub-env 1 is .*expected finite numbers"),
        ([[0, 0, 1], [0, 1], [0, 0, 1]], r"The action of sub-env 1 is \[0, 1\]"),
        (np.zeros((3, 4)), r"shape \(3, 4\); expected \(3, 3\)"),
        (np.zeros((2, 3)), r"shape \(2, 3\); expected \(3, 3\)"),
    ],
)
def test_odd_actions_name_the_sub_env_and_nothing_moves(actions: Any, message: str) -> None:
    vec, other = PortfolioVecEnv(3, n_assets=2), PortfolioVecEnv(3, n_assets=2)
    vec.reset(seed=0), other.reset(seed=0)
    with pytest.raises(InvalidAction, match=message):
        vec.step(actions)
    result = vec.step(np.eye(3))
    same_rows(result, other.step(np.eye(3)))
    assert result.valid.all(), "no row was lost to the refused call"


def test_results_are_never_overwritten() -> None:
    for market in ({"n_assets": 3}, PORTFOLIO):
        vec = PortfolioVecEnv(3, **market)
        observations = vec.reset(seed=0).observations
        kept = list(observations.values())
        copies = [array.copy() for array in kept]
        kept += [vec.equity, vec.weights, vec.portfolio_value, vec.timestamp]
        copies += [array.copy() for array in kept[len(copies) :]]
        rng = np.random.default_rng(0)
        for _ in range(30):
            result = vec.step(actions_of(rng, vec))
            columns = [values for values, _ in result.infos.columns.values() if values.dtype != object]
            kept += [*result.observations.values(), result.rewards, result.terminated, *columns]
            copies += [array.copy() for array in kept[len(copies) :]]
        assert all(np.array_equal(a, b) for a, b in zip(kept, copies, strict=True))
        result.infos.columns["weights"][0][:] = 7.0  # and what the caller does to them changes nothing
        result.observations["returns"][:] = 7.0
        after = vec.step(np.ones((3, 4)))
        assert after.observations["returns"].max() < 7.0 and after.infos[0]["turnover"] < 3.0


def test_a_batch_of_actions_in_any_memory_order_compiles_nothing_anew() -> None:
    vec = PortfolioVecEnv(3, **PORTFOLIO)
    vec.reset(seed=0)
    vec.step(np.ones((3, 4), np.float32))
    known = len(pk.advance.compiled.signatures), len(pk.first_outside.compiled.signatures)
    for dtype in (np.float32, np.float64, np.int64):
        vec.step(np.ones((4, 3), dtype).T)
    assert (len(pk.advance.compiled.signatures), len(pk.first_outside.compiled.signatures)) == known


def test_an_observation_is_handed_out_once() -> None:
    vec = PortfolioVecEnv(3)
    vec.reset(seed=0)
    seen = vec.step(np.ones((3, 6))).observations
    again = vec.reset(mask=np.zeros(3, bool)).observations
    same_observations(again, seen)
    assert not any(np.shares_memory(again[key], seen[key]) for key in seen)
    vec._step(np.ones((3, 6), np.float32))  # a step whose result was never delivered, as after an interrupt
    same_observations(vec.reset(seed=0).observations, PortfolioVecEnv(3).reset(seed=0).observations)


def test_slots_of_a_simulated_market_have_prices_of_their_own_and_seeds_repeat_them() -> None:
    vec = PortfolioVecEnv(4)
    first = vec.reset(seed=3).observations["returns"]
    assert len({row.tobytes() for row in first}) == 4
    assert np.array_equal(vec.reset(seed=3).observations["returns"], first)
    assert not np.array_equal(vec.reset(seed=4).observations["returns"], first)
    assert len({vec.reset().observations["returns"].tobytes() for _ in range(50)}) == 50  # U14


def test_partial_resets_leave_the_other_slots_and_their_windows_alone() -> None:
    vec = PortfolioVecEnv(3, n_assets=2, lookback=4, episode_length=40)
    vec.reset(seed=0)
    for _ in range(7):
        before = vec.step(np.ones((3, 3)))
    result = vec.reset(mask=np.array([False, True, False]))
    for key, rows in result.observations.items():
        assert np.array_equal(rows[[0, 2]], before.observations[key][[0, 2]])
    assert vec.get_attr("elapsed_steps") == [7, 0, 7] and vec.get_attr("timestamp") == [11, 4, 11]
    assert vec.weights[1].tolist() == [0, 0, 1] and vec.equity[1] == 1.0 and (vec.equity[[0, 2]] != 1.0).all()
    window = result.observations["returns"]
    for _ in range(20):
        step = vec.step(np.ones((3, 3)))
        newest = np.log1p(step.infos.columns["asset_returns"][0]).astype(np.float32)[:, None]
        window = np.concatenate([window[:, 1:], newest], axis=1)
        np.testing.assert_allclose(step.observations["returns"], window, rtol=1e-4, atol=1e-7)


def test_a_time_limit_cuts_as_well() -> None:
    vec = PortfolioVecEnv(2, **PORTFOLIO, max_episode_steps=5, autoreset=False)
    vec.reset(seed=0)
    for _ in range(5):
        result = vec.step(np.ones((2, 4)))
    assert result.truncated.all() and result.infos[0]["elapsed_steps"] == 5


@pytest.mark.parametrize("market", [PORTFOLIO, {"n_assets": 3, "episode_length": 21, "lookback": 10}])
def test_a_slot_whose_end_went_unnoticed_is_held_and_ended_not_stepped_past_its_data(market: dict[str, Any]) -> None:
    """What an interrupt between the kernel and the bookkeeping leaves: state at the last row, phase still live."""
    vec = PortfolioVecEnv(2, autoreset=False, **market)
    vec.reset(seed=0)
    whole = np.ones((2, 4), np.float32)
    for _ in range(20):
        vec.step(whole)
    vec._step(whole)  # the 21st step, of which the base class learns nothing
    before = vec.get_attr("equity"), vec.weights.tolist(), vec.get_attr("timestamp")
    result = vec.step(np.zeros((2, 4)))
    assert result.truncated.all() and result.rewards.tolist() == [0.0, 0.0]
    columns = result.infos.columns
    assert not any(columns[name][0].any() for name in ("turnover", "cost", "asset_returns"))
    assert columns["weights"][0].tolist() == before[1] and columns["equity"][0].tolist() == before[0]
    assert (vec.get_attr("equity"), vec.weights.tolist(), vec.get_attr("timestamp")) == before
    assert vec.step(whole).kind.tolist() == [RowKind.FROZEN] * 2


def test_growth_beyond_the_floats_names_the_first_slot_that_steps_and_nothing_moves() -> None:
    vec = PortfolioVecEnv(3, autoreset=False, n_assets=2)
    vec.reset(seed=0)
    vec.set_attr("mu", 252 * 800.0)
    before = vec.equity, vec.weights, vec.timestamp
    with pytest.raises(FloatingPointError, match="price of sub-env 0 left"):
        vec.step(np.ones((3, 3)))
    after = vec.equity, vec.weights, vec.timestamp
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("simulate", [pk.simulate, pk.simulate.compiled], ids=["python", "machine"])
def test_shocks_of_slots_that_do_not_move_are_not_looked_at(simulate: Any) -> None:
    template = PortfolioVecEnv(1, n_assets=2, mu=0.5, sigma=1.0, dt=1.0).template  # log return = shock
    clock = np.zeros((pk.CLOCK_ROWS, 3), int)
    clock[pk.LAST_ROW] = [9, 9, 0]  # the last slot is at its end
    shocks = np.array([[800.0, 1.0], [2.0, 3.0], [-800.0, 1.0]])
    moving = shocks.copy()
    assert simulate(0, 3, shocks, np.array([True, False, False]), clock, *template._blocks) == -1
    assert shocks.tolist() == [[0.0, 0.0], [2.0, 3.0], [0.0, 0.0]]
    clock[pk.LAST_ROW] = 9
    assert simulate(0, 3, moving, np.array([True, False, False]), clock, *template._blocks) == 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("market", [{"n_assets": 3, "episode_length": 9}, PORTFOLIO], ids=["simulated", "history"])
def test_the_checker_of_this_package_accepts_it(mode: str, market: dict[str, Any]) -> None:
    check_vec_env(PortfolioVecEnv(3, autoreset=mode, **market))


# ---- options, samplers, parameters ----------------------------------------------------------------


def test_options_choose_the_start_of_each_slot_and_refused_ones_name_it() -> None:
    vec = PortfolioVecEnv(3, **PORTFOLIO, sampler="sequential")
    result = vec.reset(options=[{"start": 50}, None, {"start": -22}])
    assert [info["timestamp"] for info in result.infos] == [50, 10, 157]
    before = vec.rng.bit_generator.state, vec.get_attr("timestamp")
    with pytest.raises(ValueError, match=r"expected a row in \[10, 157\]") as caught:
        vec.reset(seed=1, options=[{"start": 10}, {"start": 20}, {"start": 158}])
    assert caught.value.__notes__ == ["These are the options of sub-env 2."]
    assert (vec.rng.bit_generator.state, vec.get_attr("timestamp")) == before


def test_a_window_in_which_a_price_is_missing_is_refused_and_nothing_moves() -> None:
    prices = HISTORY.copy()
    prices[:40, 1] = np.nan
    vec = PortfolioVecEnv(2, **{**PORTFOLIO, "prices": prices}, sampler=FixedStart([40, 39]))
    assert [info["timestamp"] for info in vec.reset(seed=0).infos] == [50, 50]
    before = vec.rng.bit_generator.state, vec.get_attr("timestamp")
    with pytest.raises(ValueError, match=r"prices\[39, 1\] is NaN, and the window of rows 39 to 70 contains it"):
        vec.reset()
    with pytest.raises(ValueError, match=r"prices\[39, 1\] is NaN") as caught:
        vec.reset(options=[{"start": 50}, {"start": 49}])
    assert caught.value.__notes__ == ["These are the options of sub-env 1."]
    assert (vec.rng.bit_generator.state, vec.get_attr("timestamp")) == before


def test_each_slot_has_a_spawned_sampler_and_a_seed_restarts_it() -> None:
    sampler = SequentialStart()
    vec = PortfolioVecEnv(3, **PORTFOLIO, sampler=sampler)
    starts = [[info["timestamp"] for info in vec.reset().infos] for _ in range(2)]
    assert starts == [[10, 10, 10], [31, 31, 31]]
    assert [info["timestamp"] for info in vec.reset(seed=0).infos] == [10, 10, 10]
    assert sampler.sample(np.random.default_rng(0), 148, 21) == 0


def test_random_starts_and_shocks_are_drawn_in_slot_order_from_the_one_generator() -> None:
    vec = PortfolioVecEnv(6, **PORTFOLIO)
    rng = np.random.default_rng(11)
    assert [info["timestamp"] for info in vec.reset(seed=11).infos] == [10 + int(rng.integers(148)) for _ in range(6)]
    simulated = PortfolioVecEnv(4, n_assets=2, lookback=3, mu=0.5 * 0.2**2, sigma=0.2, dt=1.0)  # no drift of the log
    rng = np.random.default_rng(11)
    seen = simulated.reset(seed=11).observations["returns"]
    np.testing.assert_allclose(seen, 0.2 * rng.standard_normal((4, 3, 2)), rtol=1e-6)
    moved = simulated.step(np.zeros((4, 3))).infos.columns["asset_returns"][0]
    np.testing.assert_allclose(moved, np.expm1(0.2 * rng.standard_normal((4, 2))), rtol=1e-12)


def test_parameters_live_on_the_template_and_act_at_the_next_step() -> None:
    vec = PortfolioVecEnv(3, n_assets=2, mu=0.252)
    vec.reset(seed=0)
    vec.set_attr("sigma", 0.0)
    assert vec.get_attr("sigma") == [0.0] * 3 and vec.template.sigma == 0.0
    result = vec.step(np.zeros((3, 3)))
    assert result.infos[2]["asset_returns"].tolist() == pytest.approx([math.expm1(0.001)] * 2, rel=1e-12)
    vec.template.mu = (0.504, 0.0)
    assert vec.step(np.zeros((3, 3))).infos[1]["asset_returns"] == pytest.approx([math.expm1(0.002), 0.0], rel=1e-12)
    vec.set_attr("cost_model", (0.01, 0.02))
    assert vec.step([[0, 1, 0]] * 3).infos[0]["cost"] == pytest.approx(0.02 / 1.02)
    vec.set_attr("capital", 3.0)
    assert vec.get_attr("portfolio_value") == (3.0 * vec.equity).tolist()
    with pytest.raises(ValueError, match="vectorization_mode='sync'"):
        vec.set_attr("mu", [0.1, 0.1, 0.2])


@pytest.mark.parametrize(
    "name",
    ["n_assets", "lookback", "episode_length", "allow_short", "prices", "data", "transaction_cost", "metadata",
     "template", "equity", "portfolio_value", "weights", "timestamp", "elapsed_steps", "no_such_thing"],
)  # fmt: skip
def test_what_cannot_be_set_stays(name: str) -> None:
    vec = PortfolioVecEnv(4, **PORTFOLIO)
    vec.reset(seed=0)
    with pytest.raises(AttributeError):
        vec.set_attr(name, 5)
    vec.step(np.ones((4, 4)))


def test_a_parameter_as_long_as_there_are_slots_is_still_one_value() -> None:
    vec = PortfolioVecEnv(3, n_assets=3, mu=[0.1, 0.2, 0.3])
    assert [value.tolist() for value in vec.get_attr("mu")] == [[0.1, 0.2, 0.3]] * 3
    vec.set_attr("mu", np.array([0.3, 0.2, 0.1]))
    assert vec.template.mu.tolist() == [0.3, 0.2, 0.1]


def test_a_step_before_the_first_reset_is_refused_and_a_bad_argument_is_named() -> None:
    with pytest.raises(ResetRequired):
        PortfolioVecEnv(2).step(np.zeros((2, 6)))
    with pytest.raises(ValueError, match="sigma"):
        PortfolioVecEnv(2, sigma=-1)


def test_the_arguments_are_those_of_the_single_environment_with_the_same_defaults() -> None:
    single = inspect.signature(PortfolioEnv).parameters
    native = dict(inspect.signature(PortfolioVecEnv).parameters)
    own = ("num_envs", "num_threads", "max_episode_steps", "autoreset", "autoreset_options")
    extra = [native.pop(name) for name in own]
    assert [p.default for p in extra[1:]] == [1, None, True, None]
    assert {name: (p.default, p.kind) for name, p in native.items()} == {
        name: (p.default, p.kind) for name, p in single.items()
    }


def test_the_history_is_shared_with_every_environment_and_never_copied() -> None:
    data = MarketData(np.asfortranarray(HISTORY))
    vec = sekai.make_vec("Portfolio-v0", 64, data=data, lookback=10, episode_length=21)
    assert isinstance(vec, PortfolioVecEnv)
    assert np.shares_memory(vec._slots.prices, data.prices) and np.shares_memory(vec._slots.returns, data.log_returns)


# ---- the simulated market, against its closed forms -----------------------------------------------


def test_moments_of_the_simulated_market_are_those_of_a_correlated_geometric_brownian_motion() -> None:
    mu, sigma, dt, n, steps = np.array([0.1, -0.2, 0.3]), np.array([0.2, 0.3, 0.5]), 1 / 12, 4000, 12
    corr = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.0]])
    vec = PortfolioVecEnv(n, n_assets=3, mu=mu, sigma=sigma, corr=corr, dt=dt, lookback=2, episode_length=50)
    vec.reset(seed=0)
    moves = [np.log1p(vec.step(np.zeros((n, 4))).infos.columns["asset_returns"][0]) for _ in range(steps)]
    single = np.concatenate(moves)  # 48,000 steps
    deviation = sigma * np.sqrt(dt)
    error = 4 / np.sqrt(len(single))  # four standard errors
    assert (np.abs(single.mean(axis=0) - (mu - sigma**2 / 2) * dt) < error * deviation).all()
    assert (np.abs(single.std(axis=0) / deviation - 1) < error / np.sqrt(2)).all()
    assert np.abs(np.corrcoef(single.T) - corr).max() < error
    # negative control: without the variance term the mean of the last would be off by sigma^2 / 2 dt
    assert abs(single[:, 2].mean() - mu[2] * dt) > 2 * error * deviation[2]
    total = np.exp(np.sum(moves, axis=0))  # E S_T / S_0 = exp(mu T), T = 1
    assert (np.abs(total.mean(axis=0) - np.exp(mu)) < 4 * total.std(axis=0) / np.sqrt(n)).all()


def test_perfectly_correlated_assets_move_as_one() -> None:
    vec = PortfolioVecEnv(5, n_assets=3, sigma=0.2, corr=1.0)
    vec.reset(seed=0)
    moves = vec.step(np.zeros((5, 4))).infos.columns["asset_returns"][0]
    np.testing.assert_allclose(moves, np.repeat(moves[:, :1], 3, axis=1), atol=1e-9)
    assert moves.std() > 1e-3


def test_growth_at_constant_weights_has_the_mean_and_variance_of_the_closed_form() -> None:
    # in half steps of one asset of two: mean w'mu - w'Sigma w / 2, variance w'Sigma w, per year
    mu, sigma, rho, n, steps, dt = 0.1, 0.3, 0.5, 3000, 30, 1 / 252
    vec = PortfolioVecEnv(n, n_assets=2, mu=mu, sigma=sigma, corr=rho, transaction_cost=0.0, dt=dt, lookback=1)
    vec.reset(seed=1)
    growth = np.sum([vec.step(np.full((n, 3), [0.5, 0.25, 0.25])).rewards for _ in range(steps)], axis=0)
    variance = sigma**2 * (0.5**2 + 0.25**2 + 2 * rho * 0.5 * 0.25)
    mean, deviation = (0.75 * mu - variance / 2) * steps * dt, math.sqrt(variance * steps * dt)
    assert abs(growth.mean() - mean) < 4 * deviation / math.sqrt(n)
    assert abs(growth.std(ddof=1) / deviation - 1) < 4 / math.sqrt(2 * n) + 0.01
