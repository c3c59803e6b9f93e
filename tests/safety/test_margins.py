"""`MarginWrapper`: margins of the state after the step, and which ends are what."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np
import pytest

import sekai
from sekai.errors import InvalidObservation, ResetRequired
from sekai.safety.contract import MarginState, MarginWrapper, declared

BOUNDS = sekai.Box(-np.inf, np.inf, (1,), np.float64)


class Line(sekai.Env):
    """x moves by the action from 0; it ends by itself beyond `ends`, and pays 7."""

    dt = 0.1

    def __init__(self, ends: float = np.inf) -> None:
        self.ends, self.x = ends, 0.0
        self.observation_space, self.action_space = BOUNDS, sekai.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        self.x = 0.0
        return sekai.ResetResult(np.array([self.x]), {})

    def step(self, action: Any) -> sekai.StepResult:
        self.x += float(action[0])
        return sekai.StepResult(np.array([self.x]), 7.0, abs(self.x) > self.ends, False, {"inner": 1})


def inside_one(state: MarginState) -> float:
    return 1.0 - abs(state.env.x)


def near_half(state: MarginState) -> float:
    return 0.25 - abs(state.env.x - 0.5)


def walked(env: Any, *moves: float) -> Any:
    env.reset(seed=0)
    return [env.step(np.array([move])) for move in moves][-1]


def test_margins_are_of_the_state_after_the_step_and_replace_the_reward() -> None:
    env = MarginWrapper(Line(), g=inside_one, l=near_half)
    # 0 -> .5: g = 1 - .5 = .5, l = .25 - 0 = .25; of the state before they would be 1 and -.25, and the env pays 7
    step = walked(env, 0.5)
    assert (step.reward, step.info, step.terminated, step.truncated) == (0.5, {"inner": 1, "l_x": 0.25}, False, False)
    # .5 -> 1.25: g = -.25
    failure = env.step(np.array([0.75]))
    assert (failure.reward, failure.info["l_x"], failure.terminated) == (-0.25, -0.5, True)


def test_on_the_edge_nothing_has_failed() -> None:
    assert walked(MarginWrapper(Line(), g=inside_one), 0.5, 0.5)[1:4] == (0.0, False, False)


def test_an_avoid_environment_has_no_l() -> None:
    env = MarginWrapper(Line(), g=inside_one)
    assert walked(env, 0.5).info == {"inner": 1} and env.provides_l is False
    assert MarginWrapper(Line(), g=inside_one, l=near_half).provides_l is True


def test_functions_see_the_observation_the_info_and_the_own_end() -> None:
    seen: list[MarginState] = []

    def g(state: MarginState) -> float:
        seen.append(state)
        return -1.0

    doubled = sekai.TransformObservation(Line(ends=0.2), lambda x: 2.0 * x)
    walked(MarginWrapper(doubled, g), 0.5)
    (state,) = seen
    assert (state.observation.tolist(), state.env.x, state.info, state.terminated) == ([1.0], 0.5, {"inner": 1}, True)


def test_no_step_follows_a_failure_until_a_reset() -> None:
    env = MarginWrapper(Line(), g=inside_one)
    assert walked(env, 0.8, 0.8).terminated
    with pytest.raises(ResetRequired, match=re.escape("MarginWrapper(<Line instance>) has failed (g < 0)")):
        env.step(np.zeros(1))
    assert not walked(env, 0.5).terminated


def test_without_terminate_an_episode_goes_on() -> None:
    env = MarginWrapper(Line(), g=inside_one, terminate=False)
    assert walked(env, 0.8, 0.8).terminated is False
    assert walked(env, 0.8, 0.8, -0.8).reward == pytest.approx(0.2)


def test_an_episode_ends_in_the_target_where_it_is_asked_to() -> None:
    # 0 -> .5 is in the target: l = .25; by default the episode goes on there
    assert walked(MarginWrapper(Line(), g=inside_one, l=near_half), 0.5).terminated is False
    env = MarginWrapper(Line(), g=inside_one, l=near_half, end_on_target=True)
    assert walked(env, 0.1).terminated is False
    step = walked(env, 0.5)
    assert (step.reward, step.info["l_x"], step.terminated) == (0.5, 0.25, True)
    with pytest.raises(ValueError, match=r"^end_on_target is True, and there is no l, so no target to end at"):
        MarginWrapper(Line(), g=inside_one, end_on_target=True)


def test_an_own_end_that_is_neither_failure_nor_success_raises_until_it_is_said_what_it_is() -> None:
    message = (
        "<Line instance> ended its episode by terminated, and g is 0.5: neither a failure nor, with l >= 0, a success. "
        "Let g be negative wherever it ends, or say what its ends are: own_ends='truncate', as a time limit, or 'keep'."
    )
    with pytest.raises(InvalidObservation, match=f"^{re.escape(message)}$"):
        walked(MarginWrapper(Line(ends=0.3), g=inside_one), 0.5)
    for own_ends, flags in (("truncate", (False, True)), ("keep", (True, False))):
        step = walked(MarginWrapper(Line(ends=0.3), g=inside_one, own_ends=own_ends), 0.5)  # type: ignore[arg-type]  # a literal
        assert (step.terminated, step.truncated) == flags and step.reward == 0.5


@pytest.mark.parametrize("own_ends", ["error", "truncate", "keep"])
def test_an_own_end_at_a_failure_or_in_the_target_terminates(own_ends: Any) -> None:
    failure = walked(MarginWrapper(Line(ends=0.9), g=inside_one, own_ends=own_ends), 0.8, 0.8)
    success = walked(MarginWrapper(Line(ends=0.3), g=inside_one, l=near_half, own_ends=own_ends), 0.5)
    assert [(step.terminated, step.truncated) for step in (failure, success)] == [(True, False)] * 2


def test_a_timeout_stays_a_timeout_and_a_failure_on_it_is_both() -> None:
    env = MarginWrapper(sekai.TimeLimit(Line(), 2), g=inside_one)
    assert walked(env, 0.1, 0.1)[2:4] == (False, True)
    assert walked(env, 0.8, 0.8)[2:4] == (True, True)


@pytest.mark.parametrize("value", [np.nan, np.inf, np.zeros(1), None, "0.5", True])
def test_what_is_no_finite_number_is_refused(value: Any) -> None:
    for name, given in (("g", {"g": lambda _: value}), ("l", {"g": inside_one, "l": lambda _: value})):
        message = f"{name} returned {value!r}; expected one finite number."
        with pytest.raises(InvalidObservation, match=f"^{re.escape(message)}$"):
            walked(MarginWrapper(Line(), **given), 0.5)


def test_numbers_of_numpy_become_floats() -> None:
    for number in (np.float32(0.5), np.array(0.5), np.int64(1), 1):
        assert type(walked(MarginWrapper(Line(), g=lambda _, n=number: n), 0.5).reward) is float  # type: ignore[misc]  # bound in the loop


def test_declarations_are_attributes_and_what_is_not_given_is_looked_for_inside() -> None:
    env = MarginWrapper(Line(), g=inside_one, failure_horizon_s=2, g_range=(-1, 1))
    assert env.get_attr("dt") == 0.1 and env.get_attr("failure_horizon_s") == 2.0 and env.g_range == (-1.0, 1.0)
    assert MarginWrapper(Line(), g=inside_one, dt=0.2).get_attr("dt") == 0.2
    plain = MarginWrapper(Line(), g=inside_one)
    assert declared(plain, "g_range") == [] and declared(plain, "dt") == [(None, 0.1)]
    with pytest.raises(AttributeError, match="has no attribute 'g_range'"):
        plain.get_attr("g_range")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"g": 1.0}, TypeError, "g is 1.0; expected a function of a MarginState that returns a number."),
        ({"g": None}, TypeError, "g is None; expected a function of a MarginState that returns a number."),
        ({"l": 0.0}, TypeError, "l is 0.0; expected a function of a MarginState that returns a number."),
        ({"own_ends": "drop"}, ValueError, "own_ends is 'drop'; expected one of 'error', 'truncate', 'keep'."),
        ({"dt": 0}, ValueError, "dt is 0; expected a positive number of seconds."),
        ({"failure_horizon_s": np.inf}, ValueError, "failure_horizon_s is inf; expected a positive number of seconds."),
        (
            {"g_range": (1, -1)},
            ValueError,
            "g_range is (1, -1); expected (smallest, largest), smallest < largest, largest finite and above 0.",
        ),
        (
            {"g_range": (-2, -1)},
            ValueError,
            "g_range is (-2, -1); expected (smallest, largest), smallest < largest, largest finite and above 0.",
        ),
    ],
)
def test_arguments_out_of_range_are_refused(given: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        MarginWrapper(Line(), **{"g": inside_one, **given})


def test_it_stands_inside_of_what_resets() -> None:
    with pytest.raises(ValueError, match="MarginWrapper keeps state of one episode, so it cannot stand outside"):
        MarginWrapper(sekai.AutoReset(Line()), g=inside_one)


@pytest.mark.parametrize("cls", [sekai.SyncVecEnv, sekai.ProcVecEnv])
def test_slots_of_a_vector_environment_fail_and_begin_anew(cls: Any) -> None:
    with cls([lambda: MarginWrapper(Line(), g=inside_one, l=near_half)] * 2, autoreset="same_step") as vec:
        vec.reset(seed=0)
        for x in (0.5, 1.0):
            result = vec.step(np.array([[0.5], [-0.25]], np.float32))
            assert result.rewards.tolist() == [1.0 - x, 1.0 - x / 2] and not result.dones.any()
        result = vec.step(np.array([[0.5], [-0.25]], np.float32))
        assert result.rewards.tolist() == [-0.5, 0.25] and result.terminated.tolist() == [True, False]
        assert result.final_info(0)["l_x"] == -0.75 and result.observations[0] == 0.0


def test_margins_do_not_depend_on_what_is_done_to_actions_and_rewards() -> None:
    raw = MarginWrapper(Line(), g=inside_one)
    changed = sekai.RescaleAction(
        MarginWrapper(gymnasium.wrappers.TransformReward(Line(), lambda r: 1e6), g=inside_one), 0.0, 1.0
    )
    assert walked(raw, 0.5).reward == walked(changed, 0.75).reward == 0.5


def test_a_failure_may_be_of_unknown_depth() -> None:
    assert MarginWrapper(Line(), g=inside_one, g_range=(-np.inf, 1)).g_range == (-np.inf, 1.0)
    with pytest.raises(ValueError, match="largest finite and above 0"):
        MarginWrapper(Line(), g=inside_one, g_range=(-1, np.inf))
    with pytest.raises(ValueError, match="largest finite and above 0"):
        MarginWrapper(Line(), g=inside_one, g_range=(np.nan, 1))
