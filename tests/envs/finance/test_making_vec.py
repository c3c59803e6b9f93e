"""MarketMaking-v0, native: row for row what single environments give, in every autoreset mode."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import sekai
import sekai.testing
from sekai.envs.finance import MarketMakingEnv, MarketMakingVecEnv
from sekai.envs.finance.making import kernel as mk
from sekai.errors import InvalidAction, ResetRequired
from sekai.vector import RowKind, SyncVecEnv, VecStepResult
from tests.envs.finance.test_trading_vec import same_rows

MODES = ["same_step", "next_step", "disabled"]
NAMES = ("price", "mid", "inventory", "cash", "wealth", "bid", "ask", "time_remaining", "timestamp", "elapsed_steps")
FAR = 5.0
# nothing is left to chance: quotes at the mid are filled, those FAR away are not, and the mid stands still
CERTAIN: dict[str, Any] = {"fill_intensity": 1e9, "fill_decay": 1e3, "sigma": 0.0}
STILL: dict[str, Any] = {"fill_intensity": 0.0, "sigma": 0.0}


def both(n: int, mode: str, **arguments: Any) -> tuple[MarketMakingVecEnv, SyncVecEnv]:
    native = MarketMakingVecEnv(n, autoreset=mode, **arguments)
    return native, SyncVecEnv([lambda: MarketMakingEnv(**arguments)] * n, autoreset=mode)


def quotes(rng: np.random.Generator, n: int, arguments: dict[str, Any]) -> Any:
    """Random distances; only the mid and `FAR` where nothing is left to chance."""
    return rng.choice([0.0, FAR], (n, 2)) if arguments.get("fill_decay") == 1e3 else rng.uniform(0.0, 2.0, (n, 2))


# ---- parity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("n", "arguments"),
    [
        (5, STILL),
        (5, {**CERTAIN, "max_inventory": 3, "terminal_penalty": 0.5}),
        (3, {**CERTAIN, "max_inventory": 5, "order_size": 2, "fill_model": "bernoulli", "total_time": 3.0}),
    ],
    ids=["still", "certain", "orders of two"],
)
def test_native_and_sync_agree_to_the_bit(mode: str, n: int, arguments: dict[str, Any]) -> None:
    native, sync = both(n, mode, n_steps=9, **arguments)
    rng = np.random.default_rng(1)
    first, other = native.reset(seed=0), sync.reset(seed=0)
    assert np.array_equal(first.observations, other.observations) and first.infos == other.infos
    ended = 0
    for call in range(60):
        actions = quotes(rng, n, arguments)
        results = native.step(actions), sync.step(actions)
        same_rows(*results)
        ended += int(results[0].ended.sum())
        for name in NAMES:
            assert native.get_attr(name) == sync.get_attr(name), name
        if mode == "disabled" and call % 7 == 6:
            mask = np.arange(n) % 2 == call % 2
            partial = native.reset(mask=mask), sync.reset(mask=mask)
            assert np.array_equal(partial[0].observations, partial[1].observations)
            assert partial[0].infos == partial[1].infos and np.array_equal(partial[0].dones, partial[1].dones)
    assert ended >= 5  # episodes did end, or this test compares little


@pytest.mark.parametrize("mode", ["same_step", "disabled"])  # in next_step a waiting slot draws as well, in vain
@pytest.mark.parametrize("model", ["poisson", "bernoulli"])
def test_one_slot_with_the_same_generator_is_the_single_environment(mode: str, model: str) -> None:
    chance = {"fill_model": model, "fill_intensity": 15.0, "shock_clip": 2.0}
    native, sync = both(1, mode, n_steps=12, max_inventory=2, terminal_penalty=0.1, **chance)
    native.reset(seed=5)
    sync.reset(seed=[5])  # an int would be spawned from
    rng, ended, filled = np.random.default_rng(0), 0, 0
    for _ in range(80):
        actions = rng.uniform(0.0, 1.0, (1, 2))
        results = native.step(actions), sync.step(actions)
        same_rows(*results)
        ended += int(results[0].ended.sum())
        filled += int(native.inventory[0] != 0)
        if mode == "disabled" and results[0].ended.any():
            assert native.reset().infos == sync.reset().infos
    assert ended > 4 and filled > 20
    assert native.rng.bit_generator.state == sync.get_attr("rng")[0].bit_generator.state


def test_one_slot_with_an_int_seed_is_the_single_environment() -> None:
    native, single = MarketMakingVecEnv(1, n_steps=12), MarketMakingEnv(n_steps=12)
    assert np.array_equal(native.reset(seed=5).observations[0], single.reset(seed=5).observation)
    for action in np.random.default_rng(0).uniform(0.0, 1.0, (40, 2)):
        row, result = native.step([action]), single.step(action)
        assert row.rewards[0] == result.reward
        if result.done:
            assert row.final_info(0) == result.info
            assert np.array_equal(row.observations[0], single.reset().observation)
        else:
            assert np.array_equal(row.observations[0], result.observation) and row.infos[0] == result.info


def test_a_step_draws_the_normals_of_all_slots_and_then_two_uniforms_for_each() -> None:
    vec, rng = MarketMakingVecEnv(3, n_steps=4, fill_decay=0.0, fill_intensity=2.0), np.random.default_rng(7)
    vec.reset(seed=7)  # draws nothing
    result = vec.step(np.ones((3, 2)))
    shocks, uniforms = rng.standard_normal(3), rng.random((3, 2))
    # dt = 1 / 4: sigma sqrt(dt) = 1, and 0.5 orders expected on each side
    np.testing.assert_allclose([info["mid_price"] for info in result.infos], 100 + shocks, rtol=1e-15)
    filled = [[info["bid_filled"], info["ask_filled"]] for info in result.infos]
    assert filled == (uniforms < 1 - np.exp(-0.5)).tolist()
    assert vec.rng.bit_generator.state == rng.bit_generator.state


# ---- rows and resets ------------------------------------------------------------------------------


def test_slots_have_mids_and_fills_of_their_own_and_seeds_repeat_them() -> None:
    def rows(seed: int) -> list[Any]:
        vec.reset(seed=seed)
        results: list[VecStepResult] = [vec.step(np.full((4, 2), 0.1)) for _ in range(20)]
        return [list(result.infos) for result in results]

    vec = MarketMakingVecEnv(4)
    first = rows(3)
    assert len({info["mid_price"] for info in first[0]}) == 4
    assert len({tuple(row[slot]["bid_filled"] for row in first) for slot in range(4)}) == 4
    assert rows(3) == first != rows(4)


@pytest.mark.parametrize("limits", [{"n_steps": 3}, {"max_episode_steps": 3}], ids=["deadline", "time limit"])
def test_a_frozen_slot_keeps_its_state_and_ignores_its_action(limits: dict[str, int]) -> None:
    vec = MarketMakingVecEnv(2, **limits, autoreset=False)
    vec.reset(seed=0)
    vec.step(np.full((2, 2), 0.1))
    vec.reset(mask=np.array([False, True]))  # slot 1 is a step behind now
    vec.step(np.full((2, 2), 0.1))
    last = vec.step(np.full((2, 2), 0.1))
    assert last.dones.tolist() == [True, False]
    kept = {name: vec.get_attr(name)[0] for name in NAMES}
    result = vec.step(np.array([[77.0, -3.0], [0.1, 0.1]]))  # out of range, and ignored
    assert result.kind[0] == RowKind.FROZEN and result.dones.tolist() == [True, True]
    assert result.observations[0].tolist() == last.observations[0].tolist()
    assert {name: vec.get_attr(name)[0] for name in NAMES} == kept and result.infos[0] == {}


def test_partial_resets_leave_the_other_slots_alone_and_draw_nothing() -> None:
    vec = MarketMakingVecEnv(3, autoreset=False)
    vec.reset(seed=0)
    for _ in range(7):
        before = vec.step(np.full((3, 2), 0.1))
    state, mids = vec.rng.bit_generator.state, vec.mid
    result = vec.reset(mask=np.array([False, True, False]))
    assert np.array_equal(result.observations[[0, 2]], before.observations[[0, 2]])
    assert result.observations[1].tolist() == [0.0, 1.0]
    assert vec.get_attr("timestamp") == [7, 0, 7] and vec.mid.tolist() == [mids[0], 100.0, mids[2]]
    assert result.infos[0] == {} and result.infos[1]["wealth"] == 0.0
    assert vec.rng.bit_generator.state == state


def test_in_next_step_mode_the_call_after_the_end_only_resets() -> None:
    vec = MarketMakingVecEnv(2, n_steps=2, autoreset="next_step", **CERTAIN)
    vec.reset(seed=0)
    kinds, inventories = [], []
    for _ in range(5):
        kinds.append(vec.step(np.tile([0.0, FAR], (2, 1))).kind[0])
        inventories.append(vec.get_attr("inventory")[0])
    step, ended, reset = RowKind.STEP, RowKind.TERMINATED, RowKind.RESET
    assert kinds == [step, ended, reset, step, ended] and inventories == [1.0, 2.0, 0.0, 1.0, 2.0]


def test_an_observation_is_handed_out_once() -> None:
    vec = MarketMakingVecEnv(3)
    vec.reset(seed=0)
    seen = vec.step(np.full((3, 2), 0.1)).observations
    again = vec.reset(mask=np.zeros(3, bool)).observations
    assert np.array_equal(again, seen) and not np.shares_memory(again, seen)
    vec._step(np.full((3, 2), 0.1, np.float32))  # a step whose result was never delivered, as after an interrupt
    assert vec.reset(seed=0).observations.tolist() == [[0.0, 1.0]] * 3


def test_results_are_never_overwritten() -> None:
    vec = MarketMakingVecEnv(3, n_steps=10)
    kept: list[Any] = [vec.reset(seed=0).observations]
    copies: list[Any] = [kept[0].copy()]
    for _ in range(30):
        result = vec.step(np.full((3, 2), 0.1))
        kept += [result.observations, result.rewards, result.terminated, result.truncated]
        kept += [vec.mid, vec.inventory, vec.wealth, vec.timestamp]
        kept += [values for values, _ in result.infos.columns.values() if isinstance(values, np.ndarray)]
        copies += [array.copy() for array in kept[len(copies) :]]
    assert all(np.array_equal(a, b) for a, b in zip(kept, copies, strict=True))
    state = [vec.get_attr(name) for name in NAMES]
    for array in kept:
        array[...] = 7  # and what the caller does to them changes nothing
    assert [vec.get_attr(name) for name in NAMES] == state


def test_the_action_batch_may_be_written_to_after_the_call() -> None:
    vec, other = MarketMakingVecEnv(2), MarketMakingVecEnv(2)
    vec.reset(seed=0), other.reset(seed=0)
    actions = np.full((2, 2), 0.5, np.float32)
    vec.step(actions)
    other.step(actions.copy())
    actions[:] = 4.0
    assert vec.bid.tolist() == other.bid.tolist() == [99.5, 99.5]


def test_a_slot_whose_end_went_unnoticed_is_held_and_ended() -> None:
    """What an interrupt between the kernel and the bookkeeping leaves: no step left, phase still live."""
    vec = MarketMakingVecEnv(2, n_steps=3, autoreset=False, terminal_penalty=1.0)
    vec.reset(seed=0)
    for _ in range(2):
        vec.step(np.full((2, 2), 0.1))
    vec._step(np.full((2, 2), 0.1, np.float32))  # the third step, of which the base class learns nothing
    before = [vec.get_attr(name) for name in NAMES[:-1]]
    result = vec.step(np.full((2, 2), 0.1))
    assert result.terminated.all() and result.rewards.tolist() == [0.0, 0.0]
    assert [vec.get_attr(name) for name in NAMES[:-1]] == before
    assert result.infos[0]["wealth"] == vec.wealth[0] and not result.infos[0]["bid_filled"]


@pytest.mark.parametrize("mode", ["native", "sync"])
def test_a_time_limit_truncates_on_every_backend(mode: str) -> None:
    vec = sekai.make_vec("MarketMaking-v0", 2, vectorization_mode=mode, max_episode_steps=2, **CERTAIN)
    vec.reset(seed=0)
    results = [vec.step(np.tile([0.0, FAR], (2, 1))) for _ in range(2)]
    assert results[1].truncated.all() and not results[1].terminated.any()
    assert [info["final_info"]["elapsed_steps"] for info in results[1].infos] == [2, 2]
    vec.close()


def test_the_checker_finds_nothing_in_any_mode() -> None:
    for mode in MODES:
        sekai.testing.check_vec_env(MarketMakingVecEnv(3, n_steps=15, autoreset=mode))


# ---- actions and options --------------------------------------------------------------------------


def test_an_action_out_of_range_names_the_sub_env_and_nothing_moves() -> None:
    vec = MarketMakingVecEnv(3)
    vec.reset(seed=0)
    before = vec.rng.bit_generator.state, vec.get_attr("mid"), vec.get_attr("elapsed_steps")
    good, bad = [1.0, 1.0], [1.0, 5.5]
    for actions, slot in (
        ([good, bad, [-1.0, 0.0]], 1),
        ([good, good, [-0.5, 1.0]], 2),
        ([[np.nan, 1.0], good, bad], 0),
    ):
        with pytest.raises(InvalidAction, match=f"sub-env {slot} is"):
            vec.step(np.array(actions))
    with pytest.raises(InvalidAction, match=r"\[0, 5.0\].*sekai.VecClipAction"):
        vec.step(np.array([good, good, bad]))
    assert (vec.rng.bit_generator.state, vec.get_attr("mid"), vec.get_attr("elapsed_steps")) == before
    result = vec.step(np.array([good, good, [5.0, 0.0]]))
    assert result.valid.all(), "no row was lost to the refused calls"


def test_actions_of_frozen_slots_are_not_looked_at() -> None:
    offsets = np.array([[9.0, 0.0], [0.0, 5.0], [0.0, np.nan], [-1.0, 0.0]], np.float32)
    frozen = np.array([True, False, False, False])
    for function in (mk.first_outside, mk.first_outside.compiled):
        assert function(offsets, frozen, 5.0) == 2
        assert function(offsets, frozen, 4.9) == 1
        assert function(offsets[:2], frozen[:2], 5.0) == -1


def test_clipped_actions_are_those_of_the_bounds() -> None:
    vec = sekai.VecClipAction(MarketMakingVecEnv(2, sigma=0.0))
    vec.reset(seed=0)
    result = vec.step(np.array([[-3.0, 9.0], [1.0, 2.0]]))
    assert [(info["bid"], info["ask"]) for info in result.infos] == [(100.0, 105.0), (99.0, 102.0)]


def test_refused_options_name_the_slot_and_leave_everything_as_it_was() -> None:
    vec = MarketMakingVecEnv(3)
    vec.reset(seed=0)
    vec.step(np.ones((3, 2)))
    before = vec.rng.bit_generator.state, vec.get_attr("timestamp"), vec.get_attr("mid")
    with pytest.raises(ValueError, match="the key 'start'; this environment has no options") as caught:
        vec.reset(seed=1, options=[None, {}, {"start": 158}])
    assert caught.value.__notes__ == ["These are the options of sub-env 2."]
    assert (vec.rng.bit_generator.state, vec.get_attr("timestamp"), vec.get_attr("mid")) == before


# ---- parameters -----------------------------------------------------------------------------------


def test_parameters_live_on_the_template_and_act_at_the_next_step() -> None:
    vec = MarketMakingVecEnv(3)
    vec.reset(seed=0)
    vec.set_attr("sigma", 0.0)
    assert vec.get_attr("sigma") == [0.0] * 3 and vec.template.sigma == 0.0
    assert {info["mid_price"] for info in vec.step(np.ones((3, 2))).infos} == {100.0}
    vec.set_attr("fill_decay", [1e3] * 3)
    vec.template.fill_intensity = 1e9
    vec.template.order_size = 4
    assert vec.step(np.tile([0.0, FAR], (3, 1))).infos[2]["inventory"] - vec.inventory[2] == 0.0
    assert (vec.inventory >= 3.0).all()
    vec.template.total_time = 2.0
    assert vec.get_attr("dt") == [0.01] * 3 and vec.time_remaining.tolist() == [2.0 * 198 / 200] * 3


def test_different_values_per_slot_are_refused_with_the_way_out() -> None:
    vec = MarketMakingVecEnv(3)
    with pytest.raises(ValueError, match="vectorization_mode='sync'"):
        vec.set_attr("sigma", [0.1, 0.1, 0.2])
    assert vec.template.sigma == 2.0


@pytest.mark.parametrize(
    "name",
    ["n_steps", "max_inventory", "max_offset", "dt", "metadata", "template", "wealth", "inventory", "mid", "price",
     "bid", "elapsed_steps", "time_remaining", "lookback", "no_such_thing"],
)  # fmt: skip
def test_what_cannot_be_set_stays(name: str) -> None:
    vec = MarketMakingVecEnv(4)
    vec.reset(seed=0)
    with pytest.raises(AttributeError):
        vec.set_attr(name, 5)
    vec.step(np.ones((4, 2)))


def test_a_step_before_the_first_reset_is_refused() -> None:
    with pytest.raises(ResetRequired):
        MarketMakingVecEnv(2).step(np.ones((2, 2)))


def test_a_bad_argument_is_named_here_too() -> None:
    with pytest.raises(TypeError, match="n_steps"):
        MarketMakingVecEnv(2, n_steps=2.5)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(ValueError, match="num_envs"):
        MarketMakingVecEnv(0)


def test_the_arguments_are_those_of_the_single_environment_with_the_same_defaults() -> None:
    single = inspect.signature(MarketMakingEnv).parameters
    native = dict(inspect.signature(MarketMakingVecEnv).parameters)
    own = ("num_envs", "num_threads", "max_episode_steps", "autoreset", "autoreset_options")
    extra = [native.pop(name) for name in own]
    assert [p.default for p in extra[1:]] == [1, None, True, None]
    assert {name: (p.default, p.kind) for name, p in native.items()} == {
        name: (p.default, p.kind) for name, p in single.items()
    }
    assert MarketMakingVecEnv(1).metadata["finite_horizon"] is True
