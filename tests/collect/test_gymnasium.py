"""gymnasium's own vector environments, in their three modes."""

from __future__ import annotations

from itertools import islice
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from hypothesis import given, settings

import sekai
from sekai.collect import Collector
from tests.collect.envs import CodedPolicy, Script, ScriptedEnv, act, by_hand
from tests.collect.test_timelines import column, zeros
from tests.collect.test_truth import LENGTHS, SCRIPTS, check_marks, check_memory, transitions

MODES = tuple(AutoresetMode)


class Plain(gymnasium.Env[Any, Any]):
    """A scripted environment that knows nothing of sekai, and reports `t`, plus `last` in a final step only."""

    def __init__(self, slot: int, script: Script) -> None:
        self.inner = ScriptedEnv(slot, script)
        self.observation_space, self.action_space = self.inner.observation_space, self.inner.action_space

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        observation, info = self.inner.reset()
        return observation.copy(), {"t": info["t"] + 100}

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.inner.step(action)
        more = {"last": True} if terminated or truncated else {}
        return observation.copy(), reward, terminated, truncated, {"t": info["t"], **more}


def build(scripts: list[Script], mode: AutoresetMode, cls: Any = SyncVectorEnv, **kwargs: Any) -> Any:
    return cls([lambda i=i: Plain(i, scripts[i]) for i in range(len(scripts))], autoreset_mode=mode, **kwargs)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=60)
@given(scripts=SCRIPTS, lengths=LENGTHS)
def test_what_is_collected_is_what_single_environments_do(
    mode: AutoresetMode, copy: bool, scripts: list[Script], lengths: list[int]
) -> None:
    collector = Collector(
        build(scripts, mode, copy=copy), CodedPolicy(), fragment_length=lengths[0], values=True, state_stride=2
    )
    fragments = [collector.collect() for _ in range(3)]
    for slot, script in enumerate(scripts):
        found = [one for fragment in fragments for one in transitions(fragment, slot)]
        assert found == list(islice(by_hand(slot, script), len(found)))
    for fragment in fragments:
        check_marks(fragment)
        check_memory(fragment)
    counters = collector.counters
    assert counters.valid + counters.reset_only == counters.rows
    assert (counters.reset_only == 0) or mode is AutoresetMode.NEXT_STEP


@pytest.mark.parametrize("mode", MODES)
def test_worker_processes_of_gymnasium(mode: AutoresetMode) -> None:
    scripts: list[Script] = [[(2, "truncated")], [(3, "terminated")]]
    vec = build(scripts, mode, AsyncVectorEnv)
    try:
        fragment = Collector(vec, act, fragment_length=8, infos=["t"]).collect()
    finally:
        vec.close()
    for slot, script in enumerate(scripts):
        found = transitions(fragment, slot)
        assert found == list(islice(by_hand(slot, script), len(found)))
        assert fragment.infos["t"][fragment.valid[:, slot], slot].tolist() == [row.successor[2] for row in found]


@pytest.mark.parametrize("mode", MODES)
def test_an_info_is_that_of_the_step_and_not_of_the_reset(mode: AutoresetMode) -> None:
    vec = build([[(2, "truncated")], [(3, "terminated")]], mode)
    fragment = Collector(vec, zeros, fragment_length=6, infos=["t"]).collect()
    expected = fragment.observations[..., 2] + 1
    assert fragment.infos["t"][fragment.valid].tolist() == expected[fragment.valid].tolist()
    assert not fragment.infos["t"][~fragment.valid].any()


@pytest.mark.parametrize("mode", MODES)
def test_an_info_that_a_slot_lacks_is_an_error_that_names_it(mode: AutoresetMode) -> None:
    vec = build([[(1, "truncated")], [(3, "terminated")]], mode)
    with pytest.raises(LookupError, match=r"infos\[1\] has no 'last'"):
        Collector(vec, zeros, fragment_length=6, infos=["last"]).collect()


class Mute(gymnasium.vector.VectorWrapper):
    """Loses the presence of final observations, as an environment may that fills no entry."""

    def step(self, actions: Any) -> Any:
        *results, infos = self.env.step(actions)
        if "_final_obs" in infos:
            infos["_final_obs"][:] = False
        return *results, infos


def test_an_unfilled_final_observation_is_not_read() -> None:
    vec = Mute(build([[(9, "truncated")], [(1, "terminated")]], AutoresetMode.SAME_STEP))
    with pytest.raises(sekai.InvalidObservation, match=r"sub-env 1 ended .* infos\['final_obs'\] has no entry"):
        Collector(vec, zeros, fragment_length=2).collect()


class Boom(Plain):
    """Fails in its second step."""

    def step(self, action: Any) -> Any:
        if self.inner.t == 1:
            raise ValueError("went boom")
        return super().step(action)


def test_after_a_failed_call_a_reset_is_asked_for_and_the_rows_before_it_stay() -> None:
    vec = SyncVectorEnv([lambda: Plain(0, [(9, "truncated")]), lambda: Boom(1, [(9, "truncated")])])
    collector = Collector(vec, zeros, fragment_length=3)
    with pytest.raises(ValueError, match="went boom"):
        collector.collect()
    with pytest.raises(sekai.ResetRequired, match=r"call collector\.reset\(\)"):
        collector.collect()
    collector.reset()
    with pytest.raises(ValueError, match="went boom"):
        collector.collect()
    collector.reset()
    fragment = collector.collect()
    assert column(fragment.observations) == [[0, 0, 0], [0, 1, 0], [0, 2, 0]]
    assert column(fragment.next_observations()) == [[0, 0, 1], [0, 1, 1], [0, 2, 1]]
    assert fragment.cut.all() and fragment.episode_start.all()
    assert (collector.counters.failed_calls, collector.counters.calls) == (3, 3)


def test_a_vector_environment_of_gymnasium_s_own_making() -> None:
    vec = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="vector_entry_point")
    collector = Collector(vec, lambda observations: np.ones(3, np.int64), fragment_length=40)
    fragment = collector.collect()
    starts = fragment.observations[fragment.episode_start]
    assert (np.abs(starts) <= 0.05).all(), "where episodes of CartPole begin"
    ends = fragment.next_observations()[fragment.terminated & fragment.valid]
    assert len(ends) > 6 and (np.abs(ends[:, 2]) > 0.2094).all(), "where they end: beyond 12 degrees"
    assert collector.counters.reset_only == int((~fragment.valid).sum()) > 0


def test_one_that_does_not_say_how_it_resets_is_refused() -> None:
    vec = build([[(1, "truncated")]], AutoresetMode.SAME_STEP)
    vec.metadata = {}
    with pytest.raises(ValueError, match=r"does not say how it resets: set metadata\['autoreset_mode'\]"):
        Collector(vec, zeros, fragment_length=1)
    with pytest.raises(ValueError, match="refuses to step while a slot that has ended waits"):
        Collector(build([[(1, "truncated")]], AutoresetMode.DISABLED), zeros, fragment_length=1, restart="all")
