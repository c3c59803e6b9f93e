"""`TimeLimit` cuts and counts, `TimeAwareObservation` shows the fraction of the limit that has passed."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import gymnasium
import numpy as np
import pytest

import sekai
from sekai.testing import CodedEnv
from tests.core.envs import Awaited, Plain, play

BOTH_WAYS = pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])


@BOTH_WAYS
def test_an_episode_is_cut_at_the_limit_and_its_steps_are_counted(awaited: bool) -> None:
    env = sekai.TimeLimit(CodedEnv(length=9), 3)
    results = play(env, [0, 0, 0, 0], awaited=awaited)
    steps = [result for result in results if isinstance(result, sekai.StepResult)]
    assert [step.truncated for step in steps] == [False, False, True, False]
    assert [step.terminated for step in steps] == [False] * 4
    assert [step.info for step in steps] == [{"t": t, "elapsed_steps": t} for t in (1, 2, 3, 1)]
    assert steps[3].observation.tolist() == [0, 1, 1], "the count starts again with the episode"


@BOTH_WAYS
def test_termination_at_the_very_limit_keeps_both_flags(awaited: bool) -> None:
    end = play(sekai.TimeLimit(CodedEnv(length=2), 2), [0, 0], awaited=awaited)[2]
    assert end.terminated is True
    assert end.truncated is True


def test_termination_before_the_limit_is_termination_alone() -> None:
    end = play(sekai.TimeLimit(CodedEnv(length=2), 3), [0, 0], awaited=False)[2]
    assert end[2:4] == (True, False)


def test_truncation_by_the_environment_itself_passes() -> None:
    end = play(sekai.TimeLimit(CodedEnv(length=2, ending="truncated"), 9), [0, 0], awaited=False)[2]
    assert end[2:4] == (False, True)


def test_the_count_is_put_into_a_copy_of_the_info() -> None:
    base = CodedEnv()
    env = sekai.TimeLimit(base, 3)
    env.reset()
    first = env.step(0)
    env.step(0)
    assert first.info["elapsed_steps"] == 1
    assert "elapsed_steps" not in base._info


@pytest.mark.parametrize("limit", [1, np.int64(2), np.uint8(2)])
def test_any_integer_is_a_limit(limit: Any) -> None:
    env = sekai.TimeLimit(CodedEnv(length=9), limit)
    assert type(env.max_episode_steps) is int
    assert play(env, [0] * int(limit), awaited=False)[-1].truncated is True


@pytest.mark.parametrize(
    ("limit", "kind"),
    [
        (2.7, TypeError),
        (2.0, TypeError),
        (True, TypeError),
        ("3", TypeError),
        (0, ValueError),
        (-1, ValueError),
    ],
)
@pytest.mark.parametrize("wrapper", [sekai.TimeLimit, sekai.TimeAwareObservation])
def test_anything_else_is_refused(wrapper: Any, limit: Any, kind: type[Exception]) -> None:
    text = f"max_episode_steps is {limit!r}; expected an int of at least 1."
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        wrapper(CodedEnv(), limit)


def test_a_time_limit_without_a_limit_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^max_episode_steps is None; expected an int of at least 1\.$"):
        sekai.TimeLimit(CodedEnv(), None)  # type: ignore[arg-type]  # the mistake under test


def test_no_step_before_the_first_reset() -> None:
    for make in (Awaited, Plain):
        env = sekai.TimeLimit(make(), 3)
        text = f"{env.env} has not been reset: call reset() before step()."
        with pytest.raises(sekai.ResetRequired, match=f"^{re.escape(text)}$"):
            env.step(0)
        with pytest.raises(sekai.ResetRequired, match=f"^{re.escape(text)}$"):
            asyncio.run(env.async_step(0))
        assert env.elapsed_steps is None
        env.reset()
        assert env.elapsed_steps == 0
        env.step(0)
        assert env.elapsed_steps == 1


def test_the_awaitable_way_awaits_the_environment() -> None:
    base = Awaited()
    play(sekai.TimeLimit(base, 3), [0, 0], awaited=True)
    assert base.calls == ["async_reset", "async_step", "async_step"]


def test_a_step_that_fails_is_not_counted() -> None:
    class Fragile(CodedEnv):
        def step(self, action: Any) -> sekai.StepResult:
            if action == 9:
                raise ValueError("nine is too much")
            return super().step(action)

    env = sekai.TimeLimit(Fragile(), 3)
    env.reset()
    with pytest.raises(ValueError, match="nine is too much"):
        env.step(9)
    assert env.step(0).info["elapsed_steps"] == 1


class Ramp(sekai.Env[Any, Any]):
    """Observes `[t]` in the dtype it is given; never ends."""

    def __init__(self, dtype: Any = np.float32) -> None:
        self.observation_space = sekai.Box(-1.0, 99.0, (1,), dtype)
        self.action_space = sekai.Discrete(2)
        self.dtype = dtype

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self.t = 0
        return sekai.ResetResult(np.zeros(1, self.dtype), {})

    def step(self, action: Any) -> sekai.StepResult:
        self.t += 1
        return sekai.StepResult(np.full(1, self.t, self.dtype), 0.0, False, False, {})


@BOTH_WAYS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_fraction_of_the_limit_is_appended(dtype: Any, awaited: bool) -> None:
    env = sekai.TimeAwareObservation(sekai.TimeLimit(Ramp(dtype), 4))
    results = play(env, [0] * 5, awaited=awaited)
    # t / 4, and at the fifth action the next episode: reset, then t = 1 again
    assert [result.observation.tolist() for result in results] == [
        [0, 0.0], [1, 0.25], [2, 0.5], [3, 0.75], [4, 1.0], [0, 0.0], [1, 0.25],
    ]  # fmt: skip
    assert all(result.observation.dtype == dtype for result in results)
    assert all(result.observation in env.observation_space for result in results)
    assert results[4].truncated


def test_its_space_has_one_more_entry_from_zero_to_one() -> None:
    env = sekai.TimeAwareObservation(sekai.TimeLimit(Ramp(), 4))
    assert env.observation_space == gymnasium.spaces.Box(np.array([-1, 0], np.float32), np.array([99, 1], np.float32))
    assert type(env.observation_space) is sekai.Box


@pytest.mark.parametrize("limit", [3, 4])
def test_the_limit_may_be_given(limit: int) -> None:
    env = sekai.TimeAwareObservation(Ramp(np.float64), limit)
    env.reset()
    assert env.step(0).observation.tolist() == [1, 1 / limit]


def test_a_limit_that_is_given_wins_over_the_environments() -> None:
    env = sekai.TimeAwareObservation(sekai.TimeLimit(Ramp(np.float64), 4), 8)
    env.reset()
    assert env.step(0).observation[1] == 1 / 8


def test_the_limit_is_found_through_other_layers() -> None:
    env = sekai.TimeAwareObservation(sekai.Wrapper(sekai.TimeLimit(Ramp(), 4)))
    assert env.time_limit == 4


def test_without_a_limit_it_asks_for_one() -> None:
    env = Ramp()
    text = f"{env} has no time limit; give TimeAwareObservation(env, max_episode_steps=...)."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        sekai.TimeAwareObservation(env)
    with pytest.raises(ValueError, match="has no time limit"):
        sekai.TimeLimit(sekai.TimeAwareObservation(env), 4)


@pytest.mark.parametrize(
    "space", [sekai.Discrete(3), sekai.Box(0, 1, (2, 2)), sekai.Box(0, 9, (2,), np.int64), sekai.Dict({})]
)
def test_other_observations_are_refused(space: Any) -> None:
    env: Any = Ramp()
    env.observation_space = space
    text = f"TimeAwareObservation needs a one-dimensional Box of floats; given {space}."
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        sekai.TimeAwareObservation(env, 4)


def test_the_last_observation_before_an_auto_reset_has_its_time() -> None:
    env = sekai.AutoReset(sekai.TimeAwareObservation(sekai.TimeLimit(Ramp(), 2)))
    env.reset()
    env.step(0)
    end = env.step(0)
    assert end.info["final_observation"].tolist() == [2, 1.0]
    assert end.observation.tolist() == [0, 0.0]


def test_time_beyond_the_limit_given_is_an_error_and_no_number_above_one():
    env = sekai.TimeAwareObservation(sekai.make("Pendulum-v1"), max_episode_steps=2)
    env.reset(seed=0)
    assert env.step(np.zeros(1, np.float32)).observation[-1] == 0.5
    assert env.step(np.zeros(1, np.float32)).observation[-1] == 1.0
    with pytest.raises(ValueError, match=r"^Step 3 of the episode is beyond .*max_episode_steps=2\)"):
        env.step(np.zeros(1, np.float32))


@pytest.mark.parametrize(
    "wrap",
    [lambda env: sekai.TimeLimit(env, 4), lambda env: sekai.TimeAwareObservation(env, 4)],
    ids=["limit", "aware"],
)
def test_the_steps_of_an_episode_are_state(wrap: Any) -> None:
    first, second = wrap(CodedEnv(length=9)), wrap(CodedEnv(length=9))
    for env in (first, second):
        env.reset()
    first.step(0)
    first.step(0)
    second.load_state_dict(first.state_dict())
    second.step(0)  # the third step of the episode, by the state
    third = second.step(0)
    shown = third.truncated if isinstance(second, sekai.TimeLimit) else third.observation[3] == 1.0
    assert shown and second.state_dict()["steps"] == 4
    for bad in ({}, {"steps": np.zeros(2, int)}, {"steps": -2}, {"steps": 0.5}):
        with pytest.raises(ValueError, match="state"):
            second.load_state_dict(bad)
    assert second.state_dict()["steps"] == 4


def test_a_time_limit_that_has_not_begun_says_so_in_its_state() -> None:
    fresh, begun = sekai.TimeLimit(CodedEnv(), 4), sekai.TimeLimit(CodedEnv(), 4)
    begun.reset()
    begun.load_state_dict(fresh.state_dict())
    with pytest.raises(sekai.ResetRequired):
        begun.step(0)


def test_the_steps_of_every_slot_are_state() -> None:
    made = [sekai.VecTimeAwareObservation(sekai.testing.CodedVecEnv(2, 9, max_episode_steps=4)) for _ in range(2)]
    for vec in made:
        vec.reset(seed=0)
    made[0].step([0, 0])
    made[1].load_state_dict(made[0].state_dict())
    assert made[1].step([0, 0]).observations[:, 3].tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="shape"):
        made[1].load_state_dict({"steps": np.zeros(3, int)})


def test_a_time_limit_steps_as_its_hooks_say_whatever_the_environment_returns() -> None:
    class Hooks(sekai.TimeLimit):
        """The same, through the hooks: another class than TimeLimit itself."""

    class Returns(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Discrete(9)
        action_space = gymnasium.spaces.Discrete(9)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return 0, {}

        def step(self, action: Any) -> Any:
            return results[action]

    results: list[Any] = [
        (1, 1.0, False, False, {}),
        (2, 2, np.True_, np.False_, {"a": 1, "elapsed_steps": 99}),
        (3, np.float32(3), 0, 1, {}),
        sekai.StepResult(4, 4.0, False, True, {"b": 2}),
        [5, 5.0, False, False, {}],
        (6, 6.0, False, False),
        (7, 7.0, False, False, None),
    ]
    for action in range(len(results)):
        outcomes = []
        for cls in (sekai.TimeLimit, Hooks):
            env = cls(Returns(), 3)
            env.reset()
            outcome: list[Any] = []
            for _ in range(3):
                try:
                    result = env.step(action)
                    outcome.append((type(result), *map(repr, result)))
                except TypeError as error:
                    outcome.append(str(error).partition(">")[2])
            outcomes.append((outcome, env.elapsed_steps))
        assert outcomes[0] == outcomes[1]
    with pytest.raises(sekai.ResetRequired, match="has not been reset"):
        sekai.TimeLimit(Returns(), 3).step(0)
