"""OptimalExecution-v0, native: row for row what single environments give, in every autoreset mode."""

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
from sekai.envs.finance import OptimalExecutionEnv, OptimalExecutionVecEnv
from sekai.envs.finance.blocks import row_length
from sekai.envs.finance.execution import kernel as xk
from sekai.errors import InvalidAction, ResetRequired
from sekai.testing import check_vec_env
from sekai.vector import RowKind, SyncVecEnv, VecStepResult

MODES = ["same_step", "next_step", "disabled"]
STATE = ("price", "mid", "inventory", "shortfall", "shortfall_bps", "timestamp", "time_remaining", "elapsed_steps")
QUIET: dict[str, Any] = {"sigma": 0.0, "n_steps": 7}


def column(*fractions: float) -> Any:
    return np.array(fractions, np.float32)[:, None]


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


def both(n: int, mode: str, **arguments: Any) -> tuple[OptimalExecutionVecEnv, SyncVecEnv]:
    native = OptimalExecutionVecEnv(n, autoreset=mode, **arguments)
    return native, SyncVecEnv([lambda: OptimalExecutionEnv(**arguments)] * n, autoreset=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"side": "buy", "risk_aversion": 1e-5, "fixed_cost": 0.1, "total_time": 3.0},
        {"max_participation": 0.3, "volume": [1e5, 0.0, 3e6, 2e5, 0.0, 1e6, 4e4]},
    ],
    ids=["sell", "buy", "capped"],
)
def test_native_and_sync_agree_to_the_bit_through_staggered_ends(mode: str, arguments: dict[str, Any]) -> None:
    native, sync = both(5, mode, **{**QUIET, **arguments})
    rng = np.random.default_rng(1)
    first, other = native.reset(seed=0), sync.reset(seed=0)
    assert np.array_equal(first.observations, other.observations) and first.infos == other.infos
    ends = []
    for call in range(60):
        # everything at once, now and then: episodes of 1 to 7 slices
        actions = np.where(rng.random((5, 1)) < 0.15, 1.0, rng.random((5, 1))).astype(np.float32)
        results = native.step(actions), sync.step(actions)
        same_rows(*results)
        ends.append(int(results[0].ended.sum()))
        for name in STATE:
            assert native.get_attr(name) == sync.get_attr(name), name
        if mode == "disabled" and call % 5 == 4:
            mask = np.array([True, False, True, True, False]) | results[0].dones if call % 10 == 4 else np.ones(5, bool)
            partial = native.reset(mask=mask), sync.reset(mask=mask)
            assert np.array_equal(partial[0].observations, partial[1].observations)
            assert partial[0].infos == partial[1].infos and np.array_equal(partial[0].dones, partial[1].dones)
    assert sum(ends) >= 10, "episodes did end, or this test compares little"
    if "volume" not in arguments:  # a cap lets nobody end early
        assert sum(0 < count < 5 for count in ends) >= 10, "and at different times"


def test_one_slot_with_the_same_seed_is_the_single_environment() -> None:
    native, single = OptimalExecutionVecEnv(1, n_steps=5), OptimalExecutionEnv(n_steps=5)
    assert np.array_equal(native.reset(seed=5).observations[0], single.reset(seed=5).observation)
    for fraction in np.random.default_rng(0).random(40):
        row, result = native.step([[fraction]]), single.step([fraction])
        assert row.rewards[0] == result.reward
        if result.done:
            assert np.array_equal(row.final_observation(0), result.observation)
            assert row.final_info(0) == result.info
            assert np.array_equal(row.observations[0], single.reset().observation)
        else:
            assert np.array_equal(row.observations[0], result.observation) and row.infos[0] == result.info


@settings(max_examples=40)
@given(st.data())
def test_random_tapes_and_masks_agree_to_the_bit(data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(MODES))
    arguments: dict[str, Any] = {
        "sigma": 0.0,
        "n_steps": data.draw(st.integers(1, 6)),
        "side": data.draw(st.sampled_from(["sell", "buy"])),
        "initial_inventory": data.draw(st.floats(1.0, 1e6)),
        "permanent_impact": data.draw(st.floats(0.0, 1e-5)),
    }
    native, sync = both(3, mode, **arguments)
    native.reset(), sync.reset()
    for _ in range(12):
        if data.draw(st.integers(0, 4)) == 0:
            mask = np.array(data.draw(st.lists(st.booleans(), min_size=3, max_size=3)))
            a, b = native.reset(mask=mask), sync.reset(mask=mask)
            assert np.array_equal(a.observations, b.observations) and a.infos == b.infos
        fractions = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0, width=32))
        actions = column(*data.draw(st.lists(fractions, min_size=3, max_size=3)))
        same_rows(native.step(actions), sync.step(actions))


def test_the_machine_code_gives_the_bits_of_the_python_it_was_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    def tape() -> list[Any]:
        vec = OptimalExecutionVecEnv(
            3, n_steps=4, side="buy", max_participation=0.6, volume=[1e6, 0.0, 1e6, 1e5], shock_clip=0.7,
            autoreset="next_step",
        )  # fmt: skip
        rows: list[Any] = [vec.reset(seed=0).observations.tolist()]
        for actions in np.random.default_rng(0).random((15, 3, 1)):
            result = vec.step(actions)
            rows += [result.observations.tolist(), result.rewards.tolist(), list(result.infos), vec.shortfall]
        return rows

    machine = tape()
    for name in ("advance", "observe", "observe_slot", "report", "first_outside"):
        python = Kernel(getattr(xk, name).py_func)
        python.__dict__["compiled"] = python.py_func
        monkeypatch.setattr(xk, name, python)
    assert xk.advance.compiled is xk.advance.py_func
    np.testing.assert_equal(tape(), machine)


# ---- rows and resets ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_the_checker_accepts_it(mode: str) -> None:
    with sekai.make_vec("OptimalExecution-v0", 4, n_steps=6, vector_kwargs={"autoreset": mode}) as vec:
        assert isinstance(vec, OptimalExecutionVecEnv)
        assert check_vec_env(vec, steps=60) == []
        assert vec.metadata["finite_horizon"] is True


def test_a_frozen_slot_keeps_its_state_and_ignores_its_action() -> None:
    vec = OptimalExecutionVecEnv(2, autoreset=False)
    vec.reset(seed=0)
    done = vec.step(column(1.0, 0.5))
    assert done.terminated.tolist() == [True, False]
    state = [vec.get_attr(name)[0] for name in STATE]
    for _ in range(2):
        result = vec.step(column(77.0, 0.5))  # out of range, and ignored
        assert result.kind.tolist() == [RowKind.FROZEN, RowKind.STEP]
        assert result.observations[0].tolist() == done.observations[0].tolist()
        assert (result.rewards[0], result.infos[0]) == (0.0, {})
        assert [vec.get_attr(name)[0] for name in STATE] == state
    assert vec.get_attr("inventory")[1] == 125000.0


def test_a_slot_whose_end_went_unnoticed_is_held_and_ended() -> None:
    """What an interrupt between the kernel and the bookkeeping leaves: nothing left to trade, phase still live."""
    vec = OptimalExecutionVecEnv(2, n_steps=3, max_participation=0.1, volume=1e5, autoreset=False)
    vec.reset(seed=0)
    vec.step(column(0.5, 0.5))
    vec.step(column(0.5, 0.5))
    vec._step(column(0.5, 0.5))  # the last slice, of which the base class learns nothing; some is left over
    before = [vec.get_attr(name) for name in STATE[:6]]
    result = vec.step(column(1.0, 1.0))
    assert result.terminated.all() and result.rewards.tolist() == [0.0, 0.0]
    assert result.infos[0]["shares_sold"] == 0.0 and result.infos[0]["inventory"] == 970000.0
    assert [vec.get_attr(name) for name in STATE[:6]] == before
    assert vec.step(column(0.0, 0.0)).kind.tolist() == [RowKind.FROZEN] * 2


def test_every_end_is_a_termination_of_its_own_slot() -> None:
    # U16: fractions decide when each slot ends
    vec = OptimalExecutionVecEnv(64, n_steps=9)
    vec.reset(seed=0)
    rng = np.random.default_rng(0)
    steps = np.zeros(64, int)
    for _ in range(100):
        actions = np.where(rng.random((64, 1)) < 0.05, 1.0, 0.01).astype(np.float32)
        steps += 1
        result = vec.step(actions)
        expected = (actions[:, 0] == 1) | (steps == 9)
        assert np.array_equal(result.terminated, expected) and not result.truncated.any()
        assert np.array_equal(result.kind, np.where(expected, RowKind.TERMINATED, RowKind.STEP))
        assert [("reset_info" in info) for info in result.infos] == expected.tolist()
        steps[expected] = 0
        assert vec.get_attr("elapsed_steps") == steps.tolist()
        for slot in np.flatnonzero(expected):
            info = result.final_info(slot)
            assert info["inventory"] == 0.0 and result.final_observation(slot)[0] == 0.0
            assert result.infos[slot]["reset_info"]["inventory"] == 1e6
            assert result.observations[slot].tolist() == [1.0, 1.0, 0.0]


def test_an_observation_is_handed_out_once() -> None:
    vec = OptimalExecutionVecEnv(3)
    vec.reset(seed=0)
    seen = vec.step(column(0.1, 0.2, 0.3)).observations
    again = vec.reset(mask=np.zeros(3, bool)).observations
    assert np.array_equal(again, seen) and not np.shares_memory(again, seen)
    vec._step(column(0.1, 0.2, 0.3))  # a step whose result was never delivered, as after an interrupt
    assert np.array_equal(vec.reset(seed=0).observations, [[1.0, 1.0, 0.0]] * 3)


@pytest.mark.parametrize("bad", [1.0000002, -0.1])
def test_an_action_out_of_range_names_the_sub_env_and_nothing_moves(bad: float) -> None:
    vec, other = OptimalExecutionVecEnv(3), OptimalExecutionVecEnv(3)
    vec.reset(seed=0), other.reset(seed=0)
    before = vec.rng.bit_generator.state, vec.get_attr("inventory")
    with pytest.raises(InvalidAction, match=r"sub-env 1 is \[.*\]; expected a member of Box\(0.0, 1.0, \(1,\)"):
        vec.step(column(0.5, bad, -5.0))
    with pytest.raises(InvalidAction, match="sub-env 2"):
        vec.step(column(0.5, 0.5, math.nan))
    assert (vec.rng.bit_generator.state, vec.get_attr("inventory")) == before
    result = vec.step(column(0.0, 0.5, 1.0))
    assert np.array_equal(result.rewards, other.step(column(0.0, 0.5, 1.0)).rewards)
    assert result.valid.all(), "no row was lost to the refused calls"


def test_actions_of_frozen_slots_are_not_looked_at() -> None:
    actions, frozen = column(7.0, 1.0, 1.5, -1.0), np.array([True, False, False, False])
    assert xk.first_outside(actions, frozen) == xk.first_outside.compiled(actions, frozen) == 2
    assert xk.first_outside.compiled(actions[[0, 1, 3]], frozen[:3]) == 2
    assert xk.first_outside.compiled(actions[:2], frozen[:2]) == -1
    assert xk.first_outside.compiled(column(math.nan, 0.5), frozen[1:3]) == 0


def test_float64_and_lists_are_taken_as_single_environments_take_them() -> None:
    fractions = [[0.1], [1 / 3], [0.7]]
    native, sync = both(3, "same_step", **QUIET)
    native.reset(), sync.reset()
    same_rows(native.step(np.array(fractions)), sync.step(fractions))
    assert native.inventory[1] == 1e6 - 1e6 * float(np.float32(1 / 3))


def test_results_are_never_overwritten() -> None:
    vec = OptimalExecutionVecEnv(300, n_steps=4)
    first = vec.reset(seed=0)
    kept = [first.observations, first.infos.columns["inventory"][0]]
    copies = [array.copy() for array in kept]
    rng = np.random.default_rng(0)
    for _ in range(12):
        result = vec.step(rng.random((300, 1)))
        inventory = np.array([info.get("inventory") for info in result.infos])
        kept += [result.observations, result.rewards, result.terminated, result.truncated, result.kind, inventory]
        copies += [array.copy() for array in kept[len(copies) :]]
    assert all(np.array_equal(a, b) for a, b in zip(kept, copies, strict=True))
    kept[-6][:] = 7.0  # and what the caller does to them changes nothing
    assert vec.step(np.full((300, 1), 0.5)).observations.max() <= 1.0


@pytest.mark.parametrize("n", [1, 16, 255, 256, 1016, 1024, 1040, 16384])
def test_rows_of_a_block_do_not_meet_in_the_cache_whatever_the_number_of_slots(n: int) -> None:
    length = row_length(n)
    assert n <= length < n + 48
    # 24 rows, in a cache of 64 sets of lines of 64 bytes: no set gets more than 8
    sets = np.arange(24) * length * 8 // 64 % 64
    assert n < 64 or np.bincount(sets).max() <= 8


def test_slots_have_prices_of_their_own_and_seeds_repeat_them() -> None:
    vec = OptimalExecutionVecEnv(4)

    def prices(seed: int | None) -> list[float]:
        vec.reset(seed=seed)
        vec.step(column(0.5, 0.5, 0.5, 0.5))
        return vec.price.tolist()

    first = prices(3)
    assert len(set(first)) == 4 and prices(3) == first != prices(4)
    assert not set(prices(None)) & set(prices(None))
    # one draw for each slot, in slot order
    z = np.random.default_rng(3).standard_normal(4)
    assert first == pytest.approx(50 + 0.95 * math.sqrt(0.2) * z - 2.5e-7 * 5e5, rel=1e-12)


def test_partial_resets_leave_the_other_slots_alone() -> None:
    vec = OptimalExecutionVecEnv(3)
    vec.reset(seed=0)
    before = vec.step(column(0.1, 0.2, 0.3))
    prices = vec.price
    result = vec.reset(mask=np.array([False, True, False]))
    assert np.array_equal(result.observations[[0, 2]], before.observations[[0, 2]])
    assert result.observations[1].tolist() == [1.0, 1.0, 0.0] and result.infos[0] == {}
    assert vec.get_attr("elapsed_steps") == [1, 0, 1]
    assert vec.price.tolist() == [prices[0], 50.0, prices[2]] and vec.shortfall[1] == 0.0


def test_a_time_limit_truncates_and_a_slot_frozen_there_trades_no_more() -> None:
    vec = OptimalExecutionVecEnv(2, max_episode_steps=3, autoreset=False)
    vec.reset(seed=0)
    vec.step(column(0.1, 0.1))
    vec.reset(mask=np.array([False, True]))
    for _ in range(2):
        result = vec.step(column(0.5, 0.5))
    assert result.truncated.tolist() == [True, False] and not result.terminated.any()
    assert result.infos[0]["elapsed_steps"] == 3
    state = [vec.get_attr(name)[0] for name in STATE]
    assert vec.step(column(0.5, 0.5)).kind.tolist() == [RowKind.FROZEN, RowKind.TRUNCATED]
    assert [vec.get_attr(name)[0] for name in STATE] == state and vec.inventory[1] == 125000.0


def test_each_slot_keeps_the_order_it_started_with() -> None:
    vec = OptimalExecutionVecEnv(2, sigma=0.0, permanent_impact=1e-6)
    vec.reset()
    for name, value in (("s0", 10.0), ("initial_inventory", 1e5), ("side", "buy")):
        vec.set_attr(name, value)
    vec.reset(mask=np.array([False, True]))
    result = vec.step(column(0.5, 0.5))
    # half a million sold moves 50 by -.5, half of a hundred thousand bought moves 10 by +.05
    np.testing.assert_allclose(result.observations, [[0.5, 0.96, -0.01], [0.5, 0.96, 0.005]], rtol=1e-6)
    # spread, temporary and permanent: .0625 * v + 1.25e-5 * v^2 + 1e-6 * v^2 with v = 5e5 and 5e4
    costs = np.array([0.0625 * v + 1.35e-5 * v * v for v in (5e5, 5e4)])
    np.testing.assert_allclose(vec.shortfall, costs, rtol=1e-12)
    np.testing.assert_allclose(vec.shortfall_bps, costs * 1e4 / [5e7, 1e6], rtol=1e-12)
    np.testing.assert_allclose([info["shortfall_bps"] for info in result.infos], vec.shortfall_bps, rtol=1e-15)


def test_refused_options_name_the_slot_and_leave_everything_as_it_was() -> None:
    vec = OptimalExecutionVecEnv(3)
    vec.reset(seed=0)
    vec.step(column(0.1, 0.2, 0.3))
    before = vec.rng.bit_generator.state, vec.get_attr("inventory")
    with pytest.raises(ValueError, match="knows no options") as caught:
        vec.reset(seed=1, options=[None, {}, {"start": 3}])
    assert caught.value.__notes__ == ["These are the options of sub-env 2."]
    assert (vec.rng.bit_generator.state, vec.get_attr("inventory")) == before


def test_a_step_before_the_first_reset_is_refused() -> None:
    with pytest.raises(ResetRequired):
        OptimalExecutionVecEnv(2).step(column(0.0, 0.0))


# ---- parameters -----------------------------------------------------------------------------------


def test_parameters_live_on_the_template_and_act_at_the_next_step() -> None:
    vec = sekai.make_vec("OptimalExecution-v0", 3)
    assert isinstance(vec, OptimalExecutionVecEnv)
    vec.reset(seed=0)
    vec.set_attr("sigma", 0.0)
    assert vec.get_attr("sigma") == [0.0] * 3 and vec.template.sigma == 0.0
    # half of a million moves the mid by 2.5e-7 * 5e5, the other half by nothing
    assert vec.step(column(0.5, 0.5, 0.5)).infos[2]["mid_price"] == 49.875
    vec.template.permanent_impact = 0.0
    assert vec.step(column(0.5, 0.5, 0.5)).infos[2]["mid_price"] == 49.875
    vec.set_attr("initial_inventory", [10.0] * 3)
    assert vec.get_attr("inventory") == [250000.0] * 3
    assert vec.reset().infos[1]["inventory"] == 10.0


def test_different_values_per_slot_are_refused_with_the_way_out() -> None:
    vec = OptimalExecutionVecEnv(3)
    with pytest.raises(ValueError, match="vectorization_mode='sync'"):
        vec.set_attr("sigma", [0.1, 0.1, 0.2])
    with pytest.raises(TypeError, match=r"n_steps is 2\.5"):
        vec.set_attr("n_steps", 2.5)
    assert (vec.template.sigma, vec.template.n_steps) == (0.95, 25)


@pytest.mark.parametrize("name", [*STATE, "dt", "metadata", "template", "no_such_thing"])
def test_what_cannot_be_set_stays(name: str) -> None:
    vec = OptimalExecutionVecEnv(4)
    vec.reset(seed=0)
    with pytest.raises(AttributeError):
        vec.set_attr(name, 5)
    vec.step(column(0.1, 0.1, 0.1, 0.1))


def test_volumes_as_many_as_there_are_slots_are_still_one_value() -> None:
    vec = OptimalExecutionVecEnv(3, n_steps=3, volume=[1.0, 2.0, 3.0], max_participation=1.0)
    vec.reset(seed=0)
    assert [volume.tolist() for volume in vec.get_attr("volume")] == [[1.0, 2.0, 3.0]] * 3
    assert [info["shares_sold"] for info in vec.step(column(1.0, 1.0, 1.0)).infos] == [1.0] * 3
    vec.set_attr("volume", np.array([5.0, 6.0, 7.0]))
    assert [info["shares_sold"] for info in vec.step(column(1.0, 1.0, 1.0)).infos] == [6.0] * 3


def test_state_has_one_value_for_each_slot() -> None:
    vec = OptimalExecutionVecEnv(3, sigma=0.0)
    vec.reset()
    vec.step(column(0.0, 0.5, 0.25))
    assert vec.get_attr("inventory") == [1e6, 5e5, 7.5e5]
    assert vec.get_attr("dt") == [0.2] * 3 and vec.get_attr("timestamp") == [0.2] * 3
    assert vec.get_attr("time_remaining") == pytest.approx([4.8] * 3)


def test_the_arguments_are_those_of_the_single_environment_with_the_same_defaults() -> None:
    single = inspect.signature(OptimalExecutionEnv).parameters
    native = dict(inspect.signature(OptimalExecutionVecEnv).parameters)
    own = ("num_envs", "num_threads", "max_episode_steps", "autoreset", "autoreset_options")
    extra = [native.pop(name) for name in own]
    assert [p.default for p in extra[1:]] == [1, None, True, None]
    assert {name: (p.default, p.kind) for name, p in native.items()} == {
        name: (p.default, p.kind) for name, p in single.items()
    }
