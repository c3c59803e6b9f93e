"""`to_gymnasium_vector`: gymnasium's own vector environment of the same slots says the same."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, NormalizeObservation, RecordEpisodeStatistics

import sekai
from sekai.compat import to_gymnasium_vector
from sekai.testing import CodedEnv
from sekai.vector.infos import same_value
from tests.compat.samples import BACKENDS, MODES, coded, gymnasium_coded, places

ENDS = ("terminated", "truncated", "both")


def rows(result: Any) -> tuple[Any, ...]:
    observations, rewards, terminated, truncated, _ = result
    return places(observations), rewards.tolist(), terminated.tolist(), truncated.tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_same_step_timeline(backend: str) -> None:
    with coded(backend, (2, 3), ("terminated", "truncated")) as vec:
        env = to_gymnasium_vector(vec)
        observations, infos = env.reset(seed=0)
        assert places(observations) == [(0, 0, 0), (1, 0, 0)]
        assert same_value(infos, {"t": np.array([0, 0]), "_t": np.array([True, True])})
        first = env.step(np.array([1, 2]))
        assert rows(first) == ([(0, 0, 1), (1, 0, 1)], [11.0, 12.0], [False, False], [False, False])
        assert same_value(first[4], {"t": np.array([1, 1]), "_t": np.array([True, True])})

        ends = env.step(np.array([1, 2]))
        assert rows(ends) == ([(0, 1, 0), (1, 0, 2)], [21.0, 22.0], [True, False], [False, False])
        infos = ends[4]
        assert infos["final_obs"].dtype == object and infos["final_obs"][1] is None
        assert infos.pop("final_obs")[0].tolist() == [0, 0, 2]
        half = np.array([True, False])
        final = {"t": np.array([2, 0]), "_t": half}
        both = np.array([True, True])
        assert same_value(
            infos, {"t": np.array([0, 2]), "_t": both, "final_info": final, "_final_info": half, "_final_obs": half}
        )
        ends = env.step(np.array([1, 2]))
        assert rows(ends) == ([(0, 1, 1), (1, 1, 0)], [11.0, 32.0], [False, False], [False, True])
        assert ends[4]["final_obs"][1].tolist() == [1, 0, 3]
        assert ends[4]["_final_obs"].tolist() == [False, True]


@pytest.mark.parametrize("backend", BACKENDS)
def test_next_step_timeline(backend: str) -> None:
    with coded(backend, (2, 3), ("terminated", "truncated"), "next_step") as vec:
        env = to_gymnasium_vector(vec)
        env.reset()
        env.step(np.array([1, 2]))
        ends = env.step(np.array([1, 2]))
        assert rows(ends) == ([(0, 0, 2), (1, 0, 2)], [21.0, 22.0], [True, False], [False, False])
        assert ends[4].keys() == {"t", "_t"}
        reset = env.step(np.array([1, 2]))
        assert rows(reset) == ([(0, 1, 0), (1, 0, 3)], [0.0, 32.0], [False, False], [False, True])
        assert reset[4]["t"].tolist() == [0, 3]


def test_disabled_timeline_with_a_partial_reset() -> None:
    env = to_gymnasium_vector(coded(lengths=(2, 3), mode="disabled"))
    env.reset()
    env.step(np.array([1, 2]))
    ends = env.step(np.array([1, 2]))
    assert rows(ends) == ([(0, 0, 2), (1, 0, 2)], [21.0, 22.0], [True, False], [False, False])
    with pytest.raises(sekai.ResetRequired) as refused:
        env.step(np.array([1, 2]))
    assert str(refused.value) == (
        "The episodes of sub-envs [0] have ended and autoreset is disabled: call reset(options={'reset_mask': mask}) "
        "first."
    )
    options = {"reset_mask": np.array([True, False]), "at": 1}
    observations, infos = env.reset(options=options)
    assert options.keys() == {"reset_mask", "at"}  # gymnasium's own takes the mask out of it
    assert places(observations) == [(0, 1, 1), (1, 0, 2)]
    assert same_value(infos, {"t": np.array([1, 0]), "_t": np.array([True, False])})
    ends = env.step(np.array([1, 2]))
    assert rows(ends) == ([(0, 1, 2), (1, 0, 3)], [21.0, 32.0], [True, True], [False, False])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", ["sync", "native"])
def test_gymnasium_s_own_says_the_same_for_thirty_steps(backend: str, mode: str) -> None:
    lengths = (1, 2, 3)
    ours = to_gymnasium_vector(coded(backend, lengths, ENDS, mode))
    theirs = gymnasium_coded(lengths, ENDS, mode)
    for name in ("num_envs", "single_observation_space", "single_action_space", "observation_space", "action_space"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.metadata["autoreset_mode"] is theirs.metadata["autoreset_mode"] is AutoresetMode[mode.upper()]
    assert data_equivalence(ours.reset(), theirs.reset(), exact=True)
    ended = 0
    for step in range(30):
        actions = np.array([step % 10, 1, 2])
        mine, other = ours.step(actions), theirs.step(actions)
        finals = [pair[4].pop("final_obs", np.zeros(0)) for pair in (mine, other)]
        assert same_value(list(finals[0]), list(finals[1]))
        assert same_value(mine[4], other[4])
        assert data_equivalence(mine[:4], other[:4], exact=True)
        over = other[2] | other[3]
        ended += over.sum()
        if mode == "disabled" and over.any():
            pair = [env.reset(options={"reset_mask": over}) for env in (ours, theirs)]
            assert data_equivalence(*pair, exact=True)
    assert ended == {"same_step": 30 + 15 + 10, "next_step": 15 + 10 + 7, "disabled": 30 + 15 + 10}[mode]


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_episodes_recorded_here_and_by_gymnasium_s_wrapper_are_those_we_record(mode: str) -> None:
    inner = sekai.VecRecordEpisodeStatistics(coded(lengths=(2, 3), mode=mode))
    env = to_gymnasium_vector(inner)
    theirs = RecordEpisodeStatistics(to_gymnasium_vector(coded(lengths=(2, 3), mode=mode)))
    env.reset(), theirs.reset()
    seen = 0
    for _ in range(12):
        mine, other = (each.step(np.array([1, 2]))[4] for each in (env, theirs))
        assert ("episode" in mine) == ("episode" in other)
        if "episode" in other:
            mask = other["_episode"]
            assert mine["_episode"].tolist() == mask.tolist()
            for key in ("r", "l"):
                assert mine["episode"][key][mask].tolist() == other["episode"][key][mask].tolist()
            seen += mask.sum()
    assert seen == len(inner.tracker.episodes) == {"same_step": 6 + 4, "next_step": 4 + 3}[mode]


def test_gymnasium_s_wrappers_stand_on_it() -> None:
    env = DictInfoToList(to_gymnasium_vector(coded(lengths=(2, 3))))
    _, infos = env.reset(seed=1)
    assert infos == [{"t": 0}, {"t": 0}]
    env.step(np.array([1, 2]))
    *_, infos = env.step(np.array([1, 2]))
    assert (infos[0]["final_info"], infos[0]["t"], infos[1]) == ({"t": 2}, 0, {"t": 2})
    normal = NormalizeObservation(to_gymnasium_vector(coded(lengths=(2, 3), mode="next_step")))
    normal.reset(seed=1)
    for _ in range(4):
        observations, *_ = normal.step(np.array([1, 2]))
    assert observations.dtype == np.float32 and np.abs(observations).max() < 5.0


def test_seeds_give_the_episodes_that_sekai_gives() -> None:
    ours = to_gymnasium_vector(sekai.make_vec("CartPole-v1", num_envs=2))
    plain = sekai.make_vec("CartPole-v1", num_envs=2)
    assert ours.reset(seed=3)[0].tolist() == plain.reset(seed=3).observations.tolist()
    assert ours.np_random_seed == 3
    assert ours.reset(seed=[4, None])[0].tolist() == plain.reset(seed=[4, None]).observations.tolist()


def test_attributes_calls_pictures_and_closing() -> None:
    vec = coded(lengths=(2, 3))
    env = to_gymnasium_vector(vec)
    assert env.get_attr("length") == (2, 3)
    env.set_attr("length", (4, 5))
    assert env.call("length") == (4, 5)
    env.set_attr("length", 6)
    assert env.get_attr("length") == (6, 6)
    env.close()
    env.close()
    assert vec.closed and env.closed
    traded = to_gymnasium_vector(sekai.make_vec("Trading-v0", num_envs=2, render_mode="rgb_array"))
    traded.reset(seed=0)
    assert (traded.render_mode, len(traded.render()), traded.spec.id) == ("rgb_array", 2, "Trading-v0")


def test_what_cannot_be_told_in_gymnasium_s_words_is_refused() -> None:
    with pytest.raises(TypeError, match=re.escape("to_gymnasium_vector takes a sekai.VecEnv; given")):
        to_gymnasium_vector(gymnasium.make_vec("CartPole-v1", num_envs=1))  # type: ignore[arg-type]

    def build(mode: str) -> Any:
        return sekai.SyncVecEnv([lambda: sekai.AutoReset(CodedEnv())], autoreset=mode)

    with pytest.raises(ValueError) as refused:
        to_gymnasium_vector(build("next_step"))
    assert str(refused.value) == (
        "The sub-envs of SyncVecEnv(num_envs=1) reset themselves, and autoreset is 'next_step': leave out AutoReset, "
        "or use autoreset='same_step'."
    )
    env = to_gymnasium_vector(build("same_step"))
    env.reset()
    *_, infos = [env.step(np.array([0])) for _ in range(3)]
    assert infos[4]["final_obs"][0].tolist() == [0, 0, 3]


def test_rows_lost_in_a_failed_step_ask_for_a_reset() -> None:
    vec = coded(lengths=(4, 4))
    env = to_gymnasium_vector(vec)
    env.reset()
    vec.lose_rows(np.array([False, True]))
    with pytest.raises(sekai.ResetRequired, match=re.escape("sub-envs [1] were never seen")):
        env.step(np.array([0, 0]))
    env.reset()
    env.step(np.array([0, 0]))
