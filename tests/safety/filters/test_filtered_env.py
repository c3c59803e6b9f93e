"""`FilteredEnv`: what its infos say, when its latches are cleared, and how it works under a collector and learners."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.collect import Collector
from sekai.errors import InvalidAction, ResetRequired
from sekai.safety.envs import SafetyVecEnv
from sekai.safety.filters import ActionValue, FilteredEnv, Shield
from sekai.safety.systems import DoubleIntegrator
from sekai.testing import check_vec_env
from tests.safety.filters.braking import SPACE, exact_shield

SYSTEM = DoubleIntegrator(dt=0.1)
PUSH = np.ones((2, 1), np.float32)


def observed(rows: Any, actions: Any) -> Any:
    """Safe up to x = .1, whatever is asked for."""
    return 0.1 - rows[:, 0]


def to_the_left(rows: Any) -> Any:
    return np.full((len(rows), 1), -0.5)


def make(slots: int = 2, *, hysteresis: float = 0.0, **options: Any) -> FilteredEnv:
    vec = SafetyVecEnv(slots, SYSTEM, **options)
    return FilteredEnv(vec, Shield(ActionValue(observed), to_the_left, SPACE, hysteresis=hysteresis))


def test_infos_say_what_was_executed_and_whether_the_filter_intervened() -> None:
    env = make()
    env.reset(seed=0, options=[{"state": [0.0, 0.0]}, {"state": [0.5, 0.0]}])
    result = env.step(PUSH)
    assert result.infos[0]["executed_action"].tolist() == [1.0] and result.infos[0]["intervened"] is False
    assert result.infos[1]["executed_action"].tolist() == [-0.5] and result.infos[1]["intervened"] is True
    # v' = .1 and -.05; x' = .005 and .5 - .0025
    assert result.observations == pytest.approx(np.array([[0.005, 0.1], [0.4975, -0.05]]))
    assert result.rewards == pytest.approx([0.995, 0.5025])


def test_an_action_beyond_the_box_is_brought_to_its_bounds_and_that_is_no_intervention() -> None:
    env = make()
    env.reset(seed=0, options={"state": [0.0, 0.0]})
    result = env.step(3 * PUSH)
    assert [info["intervened"] for info in result.infos] == [False, False]
    assert result.infos[0]["executed_action"].tolist() == [1.0]


def test_the_filter_reads_states_where_it_is_told_to() -> None:
    vec = SafetyVecEnv(2, SYSTEM)
    seen: list[Any] = []

    def exact(rows: Any, actions: Any) -> Any:
        seen.append(rows.dtype)
        return np.ones(2)

    for states in (None, lambda: vec.states):
        env = FilteredEnv(vec, Shield(ActionValue(exact), to_the_left, SPACE), states=states)
        env.reset(seed=0)
        env.step(PUSH)
    assert seen == [np.float32, np.float64]


def test_the_caller_may_write_to_what_it_was_given() -> None:
    env = make()
    first = env.reset(seed=0, options={"state": [0.0, 0.0]}).observations
    first[:] = 5.0
    result = env.step(PUSH)
    result.observations[:] = 5.0
    assert not any(info["intervened"] for info in env.step(PUSH).infos)


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_a_latch_is_cleared_where_an_episode_begins_and_nowhere_else(mode: str) -> None:
    # both slots begin at x = .5, which latches; with a hysteresis of 9 nothing ever lets go. Slot 0 fails first: it
    # moves with v = 3 at .5 m from the wall: x = .5, .80, 1.09
    starts = [{"state": [0.5, 3.0]}, {"state": [0.5, 0.0]}]
    middle = {"state": [0.0, 0.0]}
    options = {} if mode == "disabled" else {"autoreset_options": lambda slot, episode: middle}
    env = make(hysteresis=9.0, autoreset=mode, **options)
    env.reset(seed=0, options=starts)
    assert env.shield.latched is not None
    timeline = []
    for _ in range(3):
        env.step(PUSH)
        timeline.append(env.shield.latched.tolist())
        if mode == "disabled" and len(timeline) == 2:
            env.reset(mask=np.array([True, False]), options=middle)
            timeline[-1] = env.shield.latched.tolist()
    # in the second step slot 0 ends; under next_step its next episode begins with the third
    assert timeline[0] == [True, True]
    assert timeline[1] == [mode == "next_step", True]
    # at x = 0 the margin is .1: the third action is let through as it was asked for
    assert timeline[2] == [False, True]


def test_a_row_without_an_action_has_no_action_in_its_info_and_none_is_judged() -> None:
    seen: list[list[float]] = []

    def spying(rows: Any, actions: Any) -> Any:
        seen.append(actions[:, 0].tolist())
        return np.full(2, -1.0)

    vec = SafetyVecEnv(2, SYSTEM, autoreset="next_step")
    env = FilteredEnv(vec, Shield(ActionValue(spying), to_the_left, SPACE))
    env.reset(seed=0, options=[{"state": [0.95, 3.0]}, {"state": [0.0, 0.0]}])
    assert env.step(PUSH).ended.tolist() == [True, False]
    result = env.step(PUSH)  # in slot 0 the next episode begins
    assert "executed_action" not in result.infos[0] and "intervened" not in result.infos[0]
    assert result.infos[1]["intervened"] is True
    assert env.shield.latched is not None and env.shield.latched.tolist() == [False, True]


def test_a_slot_that_is_frozen_is_not_judged_on_its_last_row() -> None:
    env = make(autoreset="disabled")
    env.reset(seed=0, options=[{"state": [0.05, 11.0]}, {"state": [0.0, 0.0]}])
    assert env.shield.latched is not None
    assert env.step(PUSH).ended.tolist() == [True, False]  # x = 1.155: unsafe, and too late
    env.step(PUSH)
    assert env.shield.latched.tolist() == [False, False]


def test_the_last_info_of_an_episode_says_it_too() -> None:
    env = make()
    env.reset(seed=0, options=[{"state": [0.95, 3.0]}, {"state": [0.0, 0.0]}])
    result = env.step(PUSH)
    assert result.ended.tolist() == [True, False]
    assert result.final_info(0)["intervened"] is True
    assert result.final_info(0)["executed_action"].tolist() == [-0.5]


def test_what_an_environment_says_of_its_actions_itself_stays() -> None:
    class Halves(SafetyVecEnv):
        def _step(self, actions: Any) -> Any:
            rewards, terminated, truncated, infos = super()._step(actions)
            return rewards, terminated, truncated, {**infos, "executed_action": actions / 2}

    vec = Halves(2, SYSTEM, autoreset="next_step")
    env = FilteredEnv(vec, Shield(ActionValue(observed), to_the_left, SPACE))
    env.reset(seed=0, options=[{"state": [0.05, 11.0]}, {"state": [0.0, 0.0]}])
    assert [info["executed_action"].tolist() for info in env.step(PUSH).infos] == [[0.5], [0.5]]
    infos = env.step(PUSH).infos  # the next episode of slot 0 begins
    assert infos[1] == {"executed_action": np.array([0.5]), "intervened": False}
    assert infos[0] == {}


def test_an_environment_that_says_nothing_of_its_actions_is_spoken_for() -> None:
    class Silent(SafetyVecEnv):
        def _step(self, actions: Any) -> Any:
            rewards, terminated, truncated, _ = super()._step(actions)
            return rewards, terminated, truncated, {}

    env = FilteredEnv(Silent(2, SYSTEM), Shield(ActionValue(observed), to_the_left, SPACE))
    env.reset(seed=0, options=[{"state": [0.5, 0.0]}, {"state": [0.95, 3.0]}])
    result = env.step(PUSH)
    assert [info["executed_action"].tolist() for info in result.infos] == [[-0.5], [-0.5]]
    assert result.final_info(1)["intervened"] is True


def test_latches_stay_where_a_step_is_refused() -> None:
    env = make()
    env.reset(seed=0, options={"state": [0.5, 0.0]})
    assert env.shield.latched is not None
    with pytest.raises(InvalidAction, match="sub-env 1"):
        env.step(np.array([[0.0], [np.nan]], np.float32))
    assert env.shield.latched.tolist() == [False, False]


def test_nothing_is_judged_on_rows_that_were_lost() -> None:
    env = make()
    env.reset(seed=0)
    env.lose_rows(np.array([False, True]))
    with pytest.raises(ResetRequired, match=r"sub-envs \[1\] were never seen"):
        env.step(PUSH)
    env.reset()
    env.step(PUSH)


def test_a_step_before_the_first_reset_is_refused_as_ever() -> None:
    with pytest.raises(ResetRequired):
        make().step(PUSH)


def test_what_does_not_fit_is_refused() -> None:
    vec = SafetyVecEnv(2, SYSTEM)
    with pytest.raises(TypeError, match="expected a Shield"):
        FilteredEnv(vec, to_the_left)  # type: ignore[arg-type]
    weaker = SafetyVecEnv(2, DoubleIntegrator(acceleration=0.5))
    with pytest.raises(ValueError, match="The filter is for actions of"):
        FilteredEnv(weaker, Shield(ActionValue(observed), to_the_left, SPACE))
    with pytest.raises(NotImplementedError, match="needs the rows of all slots"):
        make().send(PUSH, [0, 1])


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_it_keeps_the_contract_of_vector_environments(mode: str) -> None:
    assert check_vec_env(make(3, hysteresis=0.1, autoreset=mode), steps=200) == []


def test_a_collector_keeps_what_was_executed() -> None:
    system = DoubleIntegrator()
    vec = SafetyVecEnv(8, system, autoreset_options=lambda slot, episode: {"state": [0.0, 0.0]})
    env = FilteredEnv(vec, exact_shield(system), states=lambda: vec.states)
    keys = ("executed_action", "intervened")
    policy = np.ones((8, 1), np.float32)
    collector = Collector(env, lambda observations: policy, fragment_length=300, infos=keys)
    fragment = collector.collect()
    # wherever its first, random start was safe nothing has failed since, though all slots are pushed to the wall
    assert (fragment.rewards[150:] >= 0).all()
    kept = fragment.infos
    assert (kept["executed_action"][~kept["intervened"]] == 1.0).all()
    assert 0.2 < kept["intervened"].mean() < 0.9
    assert (kept["executed_action"][kept["intervened"]] < 1.0).all()


def test_filters_without_learners_need_no_torch() -> None:
    code = "import sys, sekai.safety.filters; print('torch' in sys.modules)"
    source = str(Path(__file__).resolve().parents[3] / "src")
    env = os.environ | {"PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout == "False\n"
