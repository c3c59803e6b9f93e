"""`from_gymnasium_vector`: rows over gymnasium's vector environments are those of sekai's own."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, VectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import sekai
from sekai import RowKind, check_vec_env
from sekai.compat import from_gymnasium_vector, to_gymnasium_vector, to_sb3
from sekai.vector.infos import same_value
from tests.compat.samples import BACKENDS, MODES, coded, gymnasium_coded, places
from tests.compat.test_vector_infos import Poison

STEP, TERMINATED, TRUNCATED, RESET, FROZEN, LOST = RowKind
ENDS = ("terminated", "truncated", "both")


def rows(result: Any) -> tuple[Any, ...]:
    return places(result.observations), result.rewards.tolist(), result.kind.tolist()


def test_same_step_timeline() -> None:
    vec = from_gymnasium_vector(gymnasium_coded((2, 3), ("terminated", "truncated")))
    first = vec.reset(seed=0)
    assert (places(first.observations), first.infos, first.dones.tolist()) == (
        [(0, 0, 0), (1, 0, 0)],
        [{"t": 0}, {"t": 0}],
        [False, False],
    )
    assert rows(vec.step([1, 2])) == ([(0, 0, 1), (1, 0, 1)], [11.0, 12.0], [STEP, STEP])
    ends = vec.step([1, 2])
    assert rows(ends) == ([(0, 1, 0), (1, 0, 2)], [21.0, 22.0], [TERMINATED, STEP])
    assert ends.final_observation(0).tolist() == [0, 0, 2]
    assert ends.final_info(0) == {"t": 2}
    assert ends.infos[1] == {"t": 2}
    info = dict(ends.infos[0])
    assert info.pop("final_observation").tolist() == [0, 0, 2]
    assert info == {"t": 2, "final_info": {"t": 2}, "reset_info": {"t": 0}}
    ends = vec.step([1, 2])
    assert rows(ends) == ([(0, 1, 1), (1, 1, 0)], [11.0, 32.0], [STEP, TRUNCATED])
    assert ends.final_observation(1).tolist() == [1, 0, 3]


def test_next_step_timeline() -> None:
    vec = from_gymnasium_vector(gymnasium_coded((2, 3), ("terminated", "truncated"), "next_step"))
    vec.reset()
    vec.step([1, 2])
    ends = vec.step([1, 2])
    assert rows(ends) == ([(0, 0, 2), (1, 0, 2)], [21.0, 22.0], [TERMINATED, STEP])
    assert ends.final_observation(0).tolist() == [0, 0, 2]
    reset = vec.step([1, 2])
    assert rows(reset) == ([(0, 1, 0), (1, 0, 3)], [0.0, 32.0], [RESET, TRUNCATED])
    assert (reset.valid.tolist(), reset.infos) == ([False, True], [{"t": 0}, {"t": 3}])
    assert rows(vec.step([1, 2])) == ([(0, 1, 1), (1, 1, 0)], [11.0, 0.0], [STEP, RESET])


def test_disabled_timeline() -> None:
    vec = from_gymnasium_vector(gymnasium_coded((2, 5), mode="disabled"))
    vec.reset()
    vec.step([1, 2])
    assert rows(vec.step([1, 2])) == ([(0, 0, 2), (1, 0, 2)], [21.0, 22.0], [TERMINATED, STEP])
    for step in (3, 4):  # slot 0 is frozen, whatever runs beneath it
        frozen = vec.step([9, 2])
        assert rows(frozen) == ([(0, 0, 2), (1, 0, step)], [0.0, 10.0 * step + 2], [FROZEN, STEP])
        assert (frozen.terminated.tolist(), frozen.infos[0]) == ([True, False], {})
    assert rows(vec.step([1, 2])) == ([(0, 0, 2), (1, 0, 5)], [0.0, 52.0], [FROZEN, TERMINATED])
    assert rows(vec.step([1, 2])) == ([(0, 0, 2), (1, 0, 5)], [0.0, 0.0], [FROZEN, FROZEN])
    one = vec.reset(mask=np.array([True, False]))
    episode = places(one.observations)[0][1]  # episodes 1 and 2 were hidden ones
    assert (places(one.observations), one.dones.tolist(), one.infos) == (
        [(0, episode, 0), (1, 0, 5)],
        [False, True],
        [{"t": 0}, {}],
    )
    assert rows(vec.step([1, 2])) == ([(0, episode, 1), (1, 0, 5)], [11.0, 0.0], [STEP, FROZEN])


def test_a_partial_reset_shows_the_frozen_rows_of_the_others() -> None:
    vec = from_gymnasium_vector(gymnasium_coded((2, 9), mode="disabled"))
    vec.reset()
    for _ in range(3):
        vec.step([1, 2])
    assert places(vec.reset(mask=np.array([False, True])).observations) == [(0, 0, 2), (1, 1, 0)]
    assert rows(vec.step([1, 2]))[0] == [(0, 0, 2), (1, 1, 1)]


def pairs(mode: str, cls: Any = None) -> tuple[Any, Any]:
    lengths = (1, 2, 3)
    return from_gymnasium_vector(gymnasium_coded(lengths, ENDS, mode, cls)), coded("sync", lengths, ENDS, mode)


def assert_equal_runs(ours: Any, plain: Any, steps: int = 30) -> int:
    """Both run for some steps, in disabled mode with resets of what ended; returns how many episodes ended."""
    n, ended = plain.num_envs, 0
    first, expected = ours.reset(seed=5), plain.reset(seed=5)
    assert same_value(first.observations, expected.observations) and first.infos == expected.infos
    for step in range(steps):
        actions = np.arange(n) + step % 5
        mine, other = ours.step(actions), plain.step(actions)
        for name in ("observations", "rewards", "terminated", "truncated", "kind", "ended"):
            left, right = getattr(mine, name), getattr(other, name)
            assert same_value(left, right), (name, step)
            assert left.dtype == right.dtype
        for slot in np.flatnonzero(other.ended).tolist():
            assert same_value(mine.final_observation(slot), other.final_observation(slot))
            assert mine.final_info(slot) == other.final_info(slot)
        assert mine.infos == other.infos
        ended += int(other.ended.sum())
        over = other.dones.copy()
        if plain.autoreset is sekai.AutoresetMode.DISABLED and over.any():
            left, right = ours.reset(mask=over), plain.reset(mask=over)
            assert same_value(left.observations, right.observations) and left.infos == right.infos
    return ended


@pytest.mark.parametrize("mode", MODES)
def test_rows_are_those_of_a_sync_vec_env(mode: str) -> None:
    assert assert_equal_runs(*pairs(mode)) == {"same_step": 55, "next_step": 32, "disabled": 55}[mode]


def test_rows_over_worker_processes_of_gymnasium_are_the_same() -> None:
    ours, plain = pairs("next_step", AsyncVectorEnv)
    with ours:
        assert assert_equal_runs(ours, plain) == 32


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_there_and_back_is_the_same_row_by_row(backend: str, mode: str) -> None:
    lengths = (1, 2, 3)
    with coded(backend, lengths, ENDS, mode) as inner, coded(backend, lengths, ENDS, mode) as plain:
        ours = from_gymnasium_vector(to_gymnasium_vector(inner))
        assert assert_equal_runs(ours, plain) == {"same_step": 55, "next_step": 32, "disabled": 55}[mode]
        assert ours.autoreset is plain.autoreset


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_there_and_back_keeps_every_draw_of_a_real_environment(mode: str) -> None:
    inner, plain = (
        sekai.make_vec("CartPole-v1", num_envs=3, vector_kwargs={"autoreset": mode}, max_episode_steps=9)
        for _ in range(2)
    )
    ours = from_gymnasium_vector(to_gymnasium_vector(inner))
    left, right = ours.reset(seed=11), plain.reset(seed=11)
    for step in range(60):
        assert same_value(left.observations, right.observations)
        left, right = (vec.step(np.array([step % 2, 1, 0])) for vec in (ours, plain))
        assert left.infos == right.infos and same_value(left.kind, right.kind)


@pytest.mark.parametrize("mode", MODES)
def test_the_checker_of_vector_environments_finds_nothing(mode: str) -> None:
    env = gymnasium.make_vec(
        "CartPole-v1",
        num_envs=3,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode[mode.upper()]},
    )
    assert check_vec_env(from_gymnasium_vector(env), steps=60) == []


def test_a_frozen_row_of_the_way_back_is_repeated_too() -> None:
    vec = from_gymnasium_vector(to_gymnasium_vector(coded(lengths=(1, 9), mode="disabled")))
    vec.reset()
    for step in range(1, 6):
        result = vec.step([1, 1])
        assert places(result.observations) == [(0, 0, 1), (1, 0, step)]
        assert result.kind.tolist() == [TERMINATED if step == 1 else FROZEN, STEP]


def test_an_int_seed_is_spread_as_sekai_does_and_never_seed_plus_i() -> None:
    vec = from_gymnasium_vector(gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync"))
    plain = sekai.make_vec("CartPole-v1", num_envs=2)
    assert vec.reset(seed=3).observations.tolist() == plain.reset(seed=3).observations.tolist()
    native = from_gymnasium_vector(
        gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
    )
    again = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
    assert native.reset(seed=3).observations.tolist() == again.reset(seed=3)[0].tolist()


class Scripted(VectorEnv):
    """Two slots in same_step mode; returns what it was given, one result after another."""

    single_observation_space = sekai.Box(0.0, 9.0, (1,))
    single_action_space = sekai.Discrete(2)

    def __init__(self, *results: Any, mode: str = "SAME_STEP") -> None:
        self.num_envs, self.results = 2, list(results)
        self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode[mode]}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((2, 1), np.float32), {}

    def step(self, actions: Any) -> Any:
        self.heard = actions.tolist()
        ended, infos = self.results.pop(0)
        observations = np.ones((2, 1), np.float32)
        return observations, np.zeros(2), np.array(ended), np.zeros(2, bool), infos

    scale = 3.0


def objects(first: Any, second: Any) -> Any:
    array = np.full(2, None, object)
    array[0], array[1] = first, second
    return array


HALF = np.array([False, True])


def test_final_entries_that_nobody_filled_are_never_read() -> None:
    last = np.full(1, 7.0)  # float64, as a sub-environment may return it
    infos = {
        "final_obs": objects(Poison(), last),
        "_final_obs": HALF,
        "final_info": {"x": objects(Poison(), "end"), "_x": HALF, "n": np.array([np.nan, 2.0])},
        "_final_info": HALF,
        "y": objects(Poison(), "new"),
        "_y": HALF,
    }
    vec = from_gymnasium_vector(Scripted(((False, True), infos)))
    vec.reset()
    result = vec.step([0, 0])
    assert result.infos[0] == {}
    assert result.final_info(1) == {"x": "end", "n": 2.0}
    assert result.infos[1]["reset_info"] == {"y": "new"}
    assert result.final_observation(1).tolist() == [7.0] and result.final_observation(1).dtype == np.float32
    last[:] = 0.0
    assert result.final_observation(1).tolist() == [7.0]


def test_an_end_without_its_last_observation_is_an_error_that_names_the_slot() -> None:
    masked = {"final_obs": objects(Poison(), Poison()), "_final_obs": np.array([True, False])}
    for infos in ({}, masked):
        vec = from_gymnasium_vector(Scripted(((False, True), infos)))
        vec.reset()
        with pytest.raises(sekai.InvalidObservation) as missing:
            vec.step([0, 0])
        assert str(missing.value) == (
            "The episodes of sub-envs [1] have ended, and the infos of Scripted(num_envs=2) hold no 'final_obs' for "
            "them, as autoreset mode same_step needs."
        )
        with pytest.raises(sekai.ResetRequired, match=re.escape("sub-envs [0, 1] need a reset")):
            vec.step([0, 0])


def test_a_batch_of_last_observations_and_no_final_info_are_taken_too() -> None:
    vec = from_gymnasium_vector(Scripted(((False, True), {"final_obs": np.array([[np.nan], [6.0]], np.float32)})))
    vec.reset()
    result = vec.step([0, 0])
    assert (result.final_observation(1).tolist(), result.final_info(1)) == ([6.0], {})


def test_an_end_in_the_call_that_resets_is_no_next_step() -> None:
    vec = from_gymnasium_vector(Scripted(((True, False), {}), ((True, False), {}), mode="NEXT_STEP"))
    vec.reset()
    vec.step([0, 0])
    with pytest.raises(sekai.InvalidObservation) as wrong:
        vec.step([0, 0])
    assert str(wrong.value) == (
        "Scripted(num_envs=2) ended the episodes of sub-envs [0] in the call that reset them; it does not keep to "
        "autoreset mode next_step."
    )


class Reusing(Scripted):
    """Returns one array again and again."""

    buffer = np.zeros((2, 1), np.float32)

    def reset(self, **given: Any) -> Any:
        self.buffer[:] = 0.0
        return self.buffer, {}

    def step(self, actions: Any) -> Any:
        self.buffer[:] = 1.0
        return self.buffer, *super().step(actions)[1:]


@pytest.mark.parametrize("cls", [Scripted, Reusing])
def test_an_environment_that_ignores_the_mask_is_found_out(cls: Any) -> None:
    vec = from_gymnasium_vector(cls(((False, False), {}), mode="DISABLED"))
    vec.reset()
    vec.step([0, 0])
    with pytest.raises(RuntimeError) as ignored:
        vec.reset(mask=np.array([True, False]))
    assert str(ignored.value) == (
        f"{cls.__name__}(num_envs=2) ignores options['reset_mask'] and has reset other slots too: reset all slots "
        "together, or use an environment that resets by itself."
    )
    with pytest.raises(sekai.ResetRequired):
        vec.step([0, 0])


def test_an_error_of_the_environment_asks_for_a_reset_of_all() -> None:
    vec = from_gymnasium_vector(Scripted(((False, False), {})))
    with pytest.raises(sekai.ResetRequired):
        vec.step([0, 0])
    vec.reset()
    vec.step([0, 0])
    with pytest.raises(IndexError):
        vec.step([0, 0])
    assert vec.lost_rows.tolist() == [True, True]
    with pytest.raises(sekai.ResetRequired):
        vec.step([0, 0])
    vec.reset()
    assert vec.lost_rows.tolist() == [False, False]


def test_a_call_in_which_all_slots_are_frozen_does_not_reach_the_environment() -> None:
    env = Scripted(((True, True), {}), mode="DISABLED")
    vec = from_gymnasium_vector(env)
    vec.reset()
    vec.step([1, 1])
    frozen = vec.step([0, 0])
    assert (frozen.kind.tolist(), env.heard) == ([FROZEN, FROZEN], [1, 1])


def test_a_failed_reset_loses_the_rows_of_its_slots() -> None:
    class Fails(Scripted):
        def reset(self, **given: Any) -> Any:
            raise ValueError("no episode")

    vec = from_gymnasium_vector(Fails())
    with pytest.raises(ValueError, match="no episode"):
        vec.reset()
    assert vec.lost_rows.tolist() == [True, True]


def test_a_waiting_slot_is_not_told_the_action_that_it_ignores() -> None:
    nothing: dict[str, Any] = {}
    vec = from_gymnasium_vector(Scripted(((True, False), nothing), ((False, False), nothing), mode="NEXT_STEP"))
    vec.reset()
    vec.step([1, 1])
    vec.step([0, 0])
    assert vec.env.heard == [1, 0]


def test_wrong_shapes_and_dtypes_are_named() -> None:
    class Wrong(Scripted):
        def step(self, actions: Any) -> Any:
            observations, rewards, *rest = super().step(actions)
            return observations.astype(self.dtype), rewards[: self.take], *rest

    for dtype, take, message in (
        (np.float64, 2, "Wrong(num_envs=2).step() returned an array of shape (2, 1) and dtype float64; expected an "),
        (np.float32, 1, "Wrong(num_envs=2).step(): rewards is an array of shape (1,) and dtype float64; expected an "),
    ):
        env = Wrong(((False, False), {}))
        env.dtype, env.take = dtype, take
        vec = from_gymnasium_vector(env)
        vec.reset()
        with pytest.raises(sekai.InvalidObservation, match=re.escape(message)):
            vec.step([0, 0])


def test_episodes_of_gymnasium_s_recorder_belong_to_the_episode_that_ended() -> None:
    vec = from_gymnasium_vector(RecordEpisodeStatistics(gymnasium_coded((2, 3))))
    vec.reset()
    vec.step([1, 2])
    result = vec.step([1, 2])
    assert result.infos[0]["reset_info"] == {"t": 0}
    assert {key: result.final_info(0)["episode"][key] for key in ("r", "l")} == {"r": 32.0, "l": 2}
    assert "episode" not in result.infos[1]
    assert to_sb3(vec).env_is_wrapped(sekai.RecordEpisodeStatistics) == [True, True]


def test_options_go_to_every_slot_alike() -> None:
    vec = from_gymnasium_vector(gymnasium_coded((4, 4)))
    given = {"at": 2}
    assert places(vec.reset(options=given).observations) == [(0, 0, 2), (1, 0, 2)]
    one = vec.reset(options=[{"at": 1}, {"at": 3}], mask=np.array([False, True]))
    assert places(one.observations) == [(0, 0, 2), (1, 1, 3)]
    assert given == {"at": 2}
    with pytest.raises(ValueError) as refused:
        vec.reset(options=[{"at": 1}, {"at": 3}])
    assert str(refused.value) == (
        "The options of sub-env 1 differ from those of sub-env 0, and gymnasium takes one dict for all slots: reset "
        "them in turns, with mask=."
    )
    nothing = vec.reset(mask=np.zeros(2, bool))
    assert (places(nothing.observations), nothing.infos) == ([(0, 0, 2), (1, 1, 3)], [{}, {}])


def test_results_belong_to_the_caller() -> None:
    vec = from_gymnasium_vector(gymnasium_coded((4, 4), mode="disabled"))
    vec.reset()
    result = vec.step([1, 2])
    kept = places(result.observations)
    result.observations[:] = 0.0
    assert places(vec.reset(mask=np.zeros(2, bool)).observations) == kept


def test_attributes_come_from_sub_environments_or_from_the_environment_itself() -> None:
    vec = from_gymnasium_vector(gymnasium_coded((2, 3)))
    assert vec.get_attr("length") == [2, 3]
    vec.set_attr("length", [4, 5])
    assert vec.call("length") == [4, 5]
    with pytest.raises(AttributeError):
        vec.set_attr("lenght", 3)
    assert vec.layers() == ["FromGymnasiumVector", "SyncVectorEnv"]
    scripted = from_gymnasium_vector(Scripted())
    assert scripted.get_attr("scale") == [3.0, 3.0]
    scripted.set_attr("scale", 4.0)
    assert (scripted.call("scale"), scripted.env.scale) == ([4.0, 4.0], 4.0)
    with pytest.raises(AttributeError, match=re.escape("has no attribute 'scael'. Did you mean 'scale'?")):
        scripted.get_attr("scael")
    scripted.close()
    assert scripted.env.closed
    with pytest.raises(sekai.VecEnvClosed):
        scripted.reset()


def test_the_mode_must_be_known() -> None:
    env = Scripted()
    env.metadata = {}
    with pytest.raises(ValueError) as unknown:
        from_gymnasium_vector(env)
    assert str(unknown.value) == (
        "Scripted(num_envs=2) does not say when it resets (metadata['autoreset_mode']): give autoreset='next_step', "
        "'same_step' or 'disabled', as its documentation has it."
    )
    assert from_gymnasium_vector(env, autoreset="next_step").autoreset is sekai.AutoresetMode.NEXT_STEP
    with pytest.raises(ValueError) as two:
        from_gymnasium_vector(Scripted(), autoreset="next_step")
    assert str(two.value) == (
        "autoreset is 'next_step', and Scripted(num_envs=2) says AutoresetMode.SAME_STEP: leave autoreset out."
    )


def test_what_is_no_vector_environment_of_gymnasium_is_refused() -> None:
    with pytest.raises(TypeError, match=re.escape("Around one environment use sekai.FromGymnasium.")):
        from_gymnasium_vector(gymnasium.make("CartPole-v1"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=re.escape("takes a gymnasium.vector.VectorEnv; given 3 (int).")):
        from_gymnasium_vector(3)  # type: ignore[arg-type]
