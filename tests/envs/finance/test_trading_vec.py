"""Trading-v0, native: row for row what single environments give, in every autoreset mode."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.core.kernels import Kernel
from sekai.envs.finance import TradingEnv, TradingVecEnv
from sekai.envs.finance.trading import kernel as tk
from sekai.errors import InvalidAction, ResetRequired
from sekai.finance import EpisodeSampler, FixedStart, MarketData, RandomStart, SequentialStart
from sekai.vector import RowKind, SyncVecEnv, VecStepResult
from tests.envs.finance.samples import HISTORY, TRADING

MODES = ["same_step", "next_step", "disabled"]
SHORT, FLAT, LONG = range(3)


def same_rows(native: VecStepResult, sync: VecStepResult) -> None:
    """Two results are equal to the bit, in every field, infos and types of info values included."""
    for name in ("observations", "rewards", "terminated", "truncated", "kind", "valid", "ended"):
        a, b = getattr(native, name), getattr(sync, name)
        assert a.dtype == b.dtype and np.array_equal(a, b), name
    for mine, theirs in zip(native.infos, sync.infos, strict=True):
        same_info(mine, theirs)


def same_info(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert list(mine) == list(theirs)
    for key, value in mine.items():
        if key in ("final_info", "reset_info"):
            same_info(value, theirs[key])
        else:
            assert type(value) is type(theirs[key]) and np.array_equal(value, theirs[key]), key


def both(n: int, mode: str, **arguments: Any) -> tuple[TradingVecEnv, SyncVecEnv]:
    native = TradingVecEnv(n, autoreset=mode, **arguments)

    def make() -> TradingEnv:
        own = dict(arguments)
        if isinstance(own.get("sampler"), EpisodeSampler):
            own["sampler"] = own["sampler"].spawn()  # as make_vec does
        return TradingEnv(**own)

    return native, SyncVecEnv([make] * n, autoreset=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "arguments",
    [
        {"sampler": FixedStart([3, 60, 147])},
        {"sampler": "sequential", "rebalance": "on_change", "transaction_cost": 0.01},
        {"sampler": "sequential", "positions": (-3.0, 1.0, 9.0), "ruin_fraction": 0.9, "margin_rate": 0.4},
        {
            "data": MarketData(HISTORY, np.arange("2020-01-01", "2020-06-28", dtype="datetime64[D]")),
            "prices": None,
            "sampler": FixedStart(9),
            "cash_rate": 0.1,
            "borrow_rate": 0.2,
        },
    ],
    ids=["fixed", "sequential", "ruin", "dates"],
)
def test_native_and_sync_agree_to_the_bit(mode: str, arguments: dict[str, Any]) -> None:
    native, sync = both(5, mode, **{**TRADING, **arguments})
    rng = np.random.default_rng(1)
    first, other = native.reset(seed=0), sync.reset(seed=0)
    assert np.array_equal(first.observations, other.observations) and first.infos == other.infos
    ended = 0
    for call in range(70):
        actions = rng.integers(0, 3, 5)
        results = native.step(actions), sync.step(actions)
        same_rows(*results)
        ended += int(results[0].ended.sum())
        for name in ("equity", "position", "price", "timestamp", "elapsed_steps"):
            assert native.get_attr(name) == sync.get_attr(name), name
        assert np.array_equal(native.get_attr("price_history"), sync.get_attr("price_history"))
        if mode == "disabled" and call % 25 == 24:
            mask = np.array([True, False, True, True, False]) | results[0].dones if call < 50 else np.ones(5, bool)
            partial = native.reset(mask=mask), sync.reset(mask=mask)
            assert np.array_equal(partial[0].observations, partial[1].observations)
            assert partial[0].infos == partial[1].infos and np.array_equal(partial[0].dones, partial[1].dones)
    assert ended >= 5  # episodes did end, or this test compares little


@pytest.mark.parametrize("mode", MODES)
def test_without_noise_a_simulated_market_agrees_to_the_bit_too(mode: str) -> None:
    native, sync = both(4, mode, sigma=0.0, mu=0.3, episode_length=15, lookback=4, positions=(-2.0, 0.5, 2.0))
    rng = np.random.default_rng(1)
    assert np.array_equal(native.reset(seed=0).observations, sync.reset(seed=0).observations)
    for call in range(50):
        actions = rng.integers(0, 3, 4)
        same_rows(native.step(actions), sync.step(actions))
        if mode == "disabled" and call == 30:
            mask = np.array([True, False, True, False])
            assert np.array_equal(native.reset(mask=mask).observations, sync.reset(mask=mask).observations)


def test_one_slot_with_the_same_seed_is_the_single_environment() -> None:
    native, single = TradingVecEnv(1, episode_length=12), TradingEnv(episode_length=12)
    assert np.array_equal(native.reset(seed=5).observations[0], single.reset(seed=5).observation)
    for action in np.random.default_rng(0).integers(0, 3, 40):
        row, result = native.step([action]), single.step(action)
        assert row.rewards[0] == result.reward
        if result.done:
            assert np.array_equal(row.final_observation(0), result.observation)
            assert np.array_equal(row.observations[0], single.reset().observation)
        else:
            assert np.array_equal(row.observations[0], result.observation) and row.infos[0] == result.info


@settings(max_examples=30)
@given(st.data())
def test_random_tapes_and_masks_agree_to_the_bit(data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(MODES))
    arguments: dict[str, Any] = {
        **TRADING,
        "episode_length": data.draw(st.integers(1, 8)),
        "sampler": FixedStart(data.draw(st.lists(st.integers(0, 160), min_size=1, max_size=4))),
        "positions": (-2.0, 0.0, data.draw(st.floats(0.5, 20.0))),
        "transaction_cost": data.draw(st.floats(0.0, 0.04)),
        "rebalance": data.draw(st.sampled_from(["always", "on_change"])),
        "ruin_fraction": data.draw(st.sampled_from([0.0, 0.97])),
    }
    native, sync = both(3, mode, **arguments)
    native.reset(), sync.reset()
    for _ in range(12):
        if data.draw(st.integers(0, 4)) == 0:
            mask = np.array(data.draw(st.lists(st.booleans(), min_size=3, max_size=3)))
            a, b = native.reset(mask=mask), sync.reset(mask=mask)
            assert np.array_equal(a.observations, b.observations) and a.infos == b.infos
        actions = np.array(data.draw(st.lists(st.integers(0, 2), min_size=3, max_size=3)))
        same_rows(native.step(actions), sync.step(actions))


def test_the_machine_code_gives_the_bits_of_the_python_it_was_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    def tape() -> list[Any]:
        rows: list[Any] = []
        # the window of 9 steps at position 160 - 1 ends with the history: a slot frozen there must not read on
        for market in ({**TRADING, "sampler": FixedStart(159)}, {"sigma": 0.6, "shock_clip": 1.5, "lookback": 3}):
            vec = TradingVecEnv(
                3, **{**market, "episode_length": 9, "positions": (-2.0, 0.0, 3.0), "ruin_fraction": 0.8},
                margin_rate=0.3, cash_rate=0.1, borrow_rate=0.2, transaction_cost=0.02, autoreset=False,
            )  # fmt: skip
            vec.reset(seed=0)
            for actions in np.random.default_rng(0).integers(0, 3, (15, 3)):
                result = vec.step(actions)
                rows += [result.observations.tolist(), result.rewards.tolist(), list(result.infos), vec.price_history]
        return rows

    machine = tape()
    for name in ("advance", "begin", "begin_simulated", "observe", "first_outside"):
        python = Kernel(getattr(tk, name).py_func)
        python.__dict__["compiled"] = python.py_func
        monkeypatch.setattr(tk, name, python)
    assert tk.advance.compiled is tk.advance.py_func
    np.testing.assert_equal(tape(), machine)


# ---- rows and resets ------------------------------------------------------------------------------


def test_every_internal_reset_belongs_to_one_flag() -> None:
    # U16: 91 steps a window, ruin in some of them
    vec = TradingVecEnv(8, episode_length=91, sigma=0.8, positions=(-2.0, 2.0), ruin_fraction=0.5)
    vec.reset(seed=0)
    flags, starts = 0, 0
    for actions in np.random.default_rng(0).integers(0, 2, (300, 8)):
        result = vec.step(actions)
        last = np.array([info["timestamp"] for info in map(result.final_info, np.flatnonzero(result.ended))]) == 30 + 91
        both = (result.terminated & result.truncated)[result.ended]
        assert not both[~last].any(), "before the last row of the window only ruin ends an episode"
        assert (result.truncated[result.ended] == last).all()
        flags += int(result.dones.sum())
        starts += sum("reset_info" in info for info in result.infos)
        assert ((np.array(vec.get_attr("elapsed_steps")) == 0) == result.dones).all()
    assert flags == starts > 24


def test_a_frozen_slot_keeps_its_state_and_ignores_its_action() -> None:
    vec = TradingVecEnv(2, prices=[100.0, 100.0, 50.0, 60.0, 70.0, 80.0], lookback=1, episode_length=4,
                        positions=(0.0, 2.0), autoreset=False, transaction_cost=0.0)  # fmt: skip
    vec.reset()
    ruined = vec.step([1, 0])
    assert ruined.terminated.tolist() == [True, False] and ruined.rewards[0] == math.log(1e-8)
    for _ in range(2):
        result = vec.step([77, 0])  # out of range, and ignored
        assert result.kind.tolist() == [RowKind.FROZEN, RowKind.STEP]
        assert result.observations[0].tolist() == ruined.observations[0].tolist()
        assert (vec.get_attr("timestamp")[0], vec.get_attr("price")[0], result.infos[0]) == (2, 50.0, {})
    assert vec.get_attr("timestamp")[1] == 4 and vec.get_attr("price_history")[0].tolist() == [100.0, 50.0]


def test_actions_of_frozen_slots_are_not_looked_at() -> None:
    actions, frozen = np.array([7, 1, 3, -1]), np.array([True, False, False, False])
    assert tk.first_outside(actions, frozen, 4) == tk.first_outside.compiled(actions, frozen, 4) == 3
    assert tk.first_outside.compiled(actions, frozen, 3) == 2
    assert tk.first_outside.compiled(actions[:2], frozen[:2], 3) == -1


def test_slots_that_are_reset_fall_into_step_with_the_others() -> None:
    # so that what they write to their rings each step lies side by side in memory
    vec = TradingVecEnv(3, lookback=4, autoreset=False)
    vec.reset(seed=0)
    for _ in range(5):
        vec.step([1, 1, 1])
    vec.reset(mask=np.array([True, False, False]))
    assert vec._slots.clock[tk.HEAD].tolist() == [5, 5, 5]


def test_an_observation_is_handed_out_once() -> None:
    vec = TradingVecEnv(3)
    vec.reset(seed=0)
    seen = vec.step([0, 1, 2]).observations
    again = vec.reset(mask=np.zeros(3, bool)).observations
    assert np.array_equal(again, seen) and not np.shares_memory(again, seen)
    vec._step(np.array([0, 1, 2]))  # a step whose result was never delivered, as after an interrupt
    assert np.array_equal(vec.reset(seed=0).observations, TradingVecEnv(3).reset(seed=0).observations)


def test_an_action_out_of_range_names_the_sub_env_and_nothing_moves() -> None:
    vec = TradingVecEnv(3)
    vec.reset(seed=0)
    before = vec.rng.bit_generator.state, vec.get_attr("price")
    with pytest.raises(InvalidAction, match=r"The action of sub-env 1 is 3; expected a member of Discrete\(3\)"):
        vec.step([0, 3, -1])
    assert (vec.rng.bit_generator.state, vec.get_attr("price")) == before
    with pytest.raises(InvalidAction, match="sub-env 2 is -1"):
        vec.step([0, 1, -1])
    other = TradingVecEnv(3)
    other.reset(seed=0)
    result = vec.step([0, 1, 2])
    assert np.array_equal(result.rewards, other.step([0, 1, 2]).rewards)
    assert result.valid.all(), "no row was lost to the refused calls"


def test_results_are_never_overwritten() -> None:
    for market in ({}, TRADING):
        vec = TradingVecEnv(3, **market)
        kept = [vec.reset(seed=0).observations]
        copies = [kept[0].copy()]
        for _ in range(30):
            result = vec.step([0, 1, 2])
            kept += [result.observations, result.rewards, result.terminated, result.infos.columns["equity"][0]]
            copies += [array.copy() for array in kept[len(copies) :]]
        assert all(np.array_equal(a, b) for a, b in zip(kept, copies, strict=True))
        kept[-4][:] = 7.0  # and what the caller does to them changes nothing
        assert vec.step([1, 1, 1]).observations.max() < 7.0


def test_slots_of_a_simulated_market_have_prices_of_their_own_and_seeds_repeat_them() -> None:
    vec = TradingVecEnv(4)
    first = vec.reset(seed=3).observations
    assert len({row.tobytes() for row in first}) == 4
    assert np.array_equal(vec.reset(seed=3).observations, first)
    assert not np.array_equal(vec.reset(seed=4).observations, first)
    assert len({vec.reset().observations.tobytes() for _ in range(50)}) == 50  # U14


def test_partial_resets_leave_the_other_slots_and_their_windows_alone() -> None:
    vec = TradingVecEnv(3, lookback=4, episode_length=40)
    vec.reset(seed=0)
    for _ in range(7):
        before = vec.step([2, 2, 2])
    history = vec.price_history
    result = vec.reset(mask=np.array([False, True, False]))
    assert np.array_equal(result.observations[[0, 2]], before.observations[[0, 2]])
    assert vec.get_attr("elapsed_steps") == [7, 0, 7] and vec.get_attr("timestamp") == [11, 4, 11]
    assert np.array_equal(vec.price_history[[0, 2]], history[[0, 2]])
    for _ in range(20):
        step = vec.step([2, 2, 2])
        returns = np.diff(np.log(vec.price_history), axis=1)
        np.testing.assert_allclose(step.observations[:, :4], returns, rtol=1e-4, atol=1e-7)


def test_a_time_limit_cuts_as_well() -> None:
    vec = TradingVecEnv(2, **TRADING, max_episode_steps=5, autoreset=False)
    vec.reset(seed=0)
    for _ in range(5):
        result = vec.step([1, 1])
    assert result.truncated.all() and result.infos[0]["elapsed_steps"] == 5


# ---- options and samplers -------------------------------------------------------------------------


def test_options_choose_the_start_of_each_slot() -> None:
    vec = TradingVecEnv(3, **TRADING, sampler="sequential")
    result = vec.reset(options=[{"start": 50}, None, {"start": -22}])
    assert [info["timestamp"] for info in result.infos] == [50, 10, 157]


def test_refused_options_name_the_slot_and_leave_everything_as_it_was() -> None:
    vec = TradingVecEnv(3, **TRADING)
    vec.reset(seed=0)
    vec.step([2, 2, 2])
    before = vec.rng.bit_generator.state, vec.get_attr("timestamp"), vec.get_attr("equity")
    with pytest.raises(ValueError, match=r"expected a row in \[10, 157\]") as caught:
        vec.reset(seed=1, options=[{"start": 10}, {"start": 20}, {"start": 158}])
    assert caught.value.__notes__ == ["These are the options of sub-env 2."]
    assert (vec.rng.bit_generator.state, vec.get_attr("timestamp"), vec.get_attr("equity")) == before
    vec.step([2, 2, 2])  # still in the middle of its episodes


def test_options_for_the_next_episode_reach_an_autoreset() -> None:
    # U17
    def options(slot: int, episode: int) -> dict[str, int] | None:
        return {"start": 30 + slot} if episode == 1 else None

    vec = TradingVecEnv(2, **TRADING, sampler=FixedStart(0), autoreset_options=options)
    starts = [info["timestamp"] for info in vec.reset().infos]
    for _ in range(42):
        starts += [info["reset_info"]["timestamp"] for info in vec.step([1, 1]).infos if "reset_info" in info]
    assert starts == [10, 10, 30, 31, 10, 10]


def test_each_slot_has_a_spawned_sampler_and_the_instance_given_is_not_advanced() -> None:
    sampler = SequentialStart()
    vec = TradingVecEnv(3, **TRADING, sampler=sampler)
    starts = [[info["timestamp"] for info in vec.reset().infos] for _ in range(2)]
    assert starts == [[10, 10, 10], [31, 31, 31]]
    partial = vec.reset(mask=np.array([False, True, False]))
    assert partial.infos[1]["timestamp"] == 52
    assert sampler.sample(np.random.default_rng(0), 148, 21) == 0


def test_a_shared_sampler_changed_later_acts_on_every_slot() -> None:
    sampler = RandomStart(0, 1)
    vec = TradingVecEnv(3, **TRADING, sampler=sampler)
    assert [info["timestamp"] for info in vec.reset(seed=0).infos] == [10, 10, 10]
    sampler.low, sampler.high = 100, 101
    assert [info["timestamp"] for info in vec.reset().infos] == [110, 110, 110]
    vec.set_attr("sampler", FixedStart([1, 2]))
    assert [info["timestamp"] for info in vec.reset().infos] == [11, 11, 11]


def test_a_sampler_out_of_range_is_refused_at_reset_and_nothing_moves() -> None:
    vec = TradingVecEnv(2, **TRADING, sampler="sequential")
    vec.reset(seed=0)
    vec.set_attr("sampler", FixedStart(500))
    before = vec.rng.bit_generator.state, vec.get_attr("timestamp")
    with pytest.raises(ValueError, match="gave position 500; expected 0 to 147"):
        vec.reset(seed=3)
    assert (vec.rng.bit_generator.state, vec.get_attr("timestamp")) == before


def test_random_starts_of_the_slots_are_drawn_in_slot_order_from_the_one_generator() -> None:
    vec = TradingVecEnv(6, **TRADING)
    rows = [info["timestamp"] for info in vec.reset(seed=11).infos]
    rng = np.random.default_rng(11)
    assert rows == [10 + int(rng.integers(148)) for _ in range(6)]


# ---- parameters -----------------------------------------------------------------------------------


def test_parameters_live_on_the_template_and_act_at_the_next_step() -> None:
    vec = TradingVecEnv(3, mu=0.252)
    vec.reset(seed=0)
    vec.set_attr("sigma", 0.0)
    assert vec.get_attr("sigma") == [0.0] * 3 and vec.template.sigma == 0.0
    result = vec.step([1, 1, 1])
    assert [info["asset_return"] for info in result.infos] == pytest.approx([math.expm1(0.001)] * 3, rel=1e-12)
    vec.template.mu = 0.504
    assert vec.step([1, 1, 1]).infos[2]["asset_return"] == pytest.approx(math.expm1(0.002), rel=1e-12)
    vec.set_attr("cost_model", [0.01] * 3)
    assert vec.step([2, 2, 2]).infos[0]["cost"] == pytest.approx(0.01 / 1.01)


def test_different_values_per_slot_are_refused_with_the_way_out() -> None:
    vec = TradingVecEnv(3)
    with pytest.raises(ValueError, match="vectorization_mode='sync'"):
        vec.set_attr("sigma", [0.1, 0.1, 0.2])
    with pytest.raises(ValueError, match="list of 2 values; expected 3"):
        vec.set_attr("sigma", [0.1, 0.1])
    assert vec.template.sigma == 0.2


@pytest.mark.parametrize(
    "name",
    ["lookback", "episode_length", "prices", "data", "transaction_cost", "metadata", "template", "equity", "position",
     "price", "timestamp", "elapsed_steps", "price_history", "allow_short", "no_such_thing"],
)  # fmt: skip
def test_what_cannot_be_set_stays(name: str) -> None:
    vec = TradingVecEnv(4, **TRADING)
    vec.reset(seed=0)
    with pytest.raises(AttributeError):
        vec.set_attr(name, 5)
    vec.step([1, 1, 1, 1])


def test_an_unknown_name_is_met_with_close_ones() -> None:
    vec = TradingVecEnv(3)
    with pytest.raises(AttributeError, match=r"has no attribute 'sigme'\. Did you mean 'sigma'"):
        vec.get_attr("sigme")
    with pytest.raises(AttributeError, match="'cost_model'"):
        vec.set_attr("cost_modle", 0.1)


def test_a_parameter_as_long_as_there_are_slots_is_still_one_value() -> None:
    vec = TradingVecEnv(3, **TRADING)
    vec.set_attr("positions", (-0.5, 0.0, 0.5))
    assert vec.get_attr("positions") == [(-0.5, 0.0, 0.5)] * 3
    same_length = TradingVecEnv(179, **TRADING)
    assert same_length.get_attr("prices")[0].shape == (179,)


def test_a_step_before_the_first_reset_is_refused() -> None:
    with pytest.raises(ResetRequired):
        TradingVecEnv(2).step([0, 0])


def test_a_bad_argument_is_named_here_too() -> None:
    with pytest.raises(ValueError, match="sigma"):
        TradingVecEnv(2, sigma=-1)
    with pytest.raises(ValueError, match="num_envs"):
        TradingVecEnv(0)


def test_the_arguments_are_those_of_the_single_environment_with_the_same_defaults() -> None:
    import inspect

    single = inspect.signature(TradingEnv).parameters
    native = dict(inspect.signature(TradingVecEnv).parameters)
    own = ("num_envs", "num_threads", "max_episode_steps", "autoreset", "autoreset_options")
    extra = [native.pop(name) for name in own]
    assert [p.default for p in extra[1:]] == [1, None, True, None]
    assert {name: (p.default, p.kind) for name, p in native.items()} == {
        name: (p.default, p.kind) for name, p in single.items()
    }


@pytest.mark.parametrize("mode", ["native", "sync"])
def test_equal_seeds_replay_equal_windows_and_no_seed_goes_on(mode: str) -> None:
    """SequentialStart over windows of 21 rows after a lookback of 10: first decisions at 10, 31, 52, ..."""
    vec = sekai.make_vec("Trading-v0", 2, vectorization_mode=mode, sampler="sequential", **TRADING)

    def firsts(**arguments: Any) -> list[int]:
        return [info["timestamp"] for info in vec.reset(**arguments).infos]

    assert firsts(seed=0) == [10, 10]
    assert firsts() == [31, 31]
    assert firsts(seed=0) == [10, 10]
    assert firsts() == [31, 31]
    assert firsts(seed=[7, None]) == [10, 52]  # the slot without a seed goes on
    vec.close()


@pytest.mark.parametrize("market", [TRADING, {"episode_length": 21, "lookback": 10}])
def test_a_slot_whose_end_went_unnoticed_is_held_and_ended_not_stepped_past_its_data(market: dict[str, Any]) -> None:
    """What an interrupt between the kernel and the bookkeeping leaves: state at the last row, phase still live."""
    vec = TradingVecEnv(2, autoreset=False, **market)
    vec.reset(seed=0)
    for _ in range(20):
        vec.step([2, 2])
    vec._step(np.array([2, 2]))  # the 21st step, of which the base class learns nothing
    before = vec.get_attr("equity"), vec.get_attr("price"), vec.get_attr("timestamp")
    result = vec.step([0, 0])
    assert result.truncated.all() and result.rewards.tolist() == [0.0, 0.0]
    assert (vec.get_attr("equity"), vec.get_attr("price"), vec.get_attr("timestamp")) == before
    assert vec.step([0, 0]).kind.tolist() == [sekai.RowKind.FROZEN] * 2
