"""gymnasium's environments inside sekai's wrappers, sekai's environments inside gymnasium's, and its checker."""

from __future__ import annotations

import asyncio
import re
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import sekai
from sekai.testing import CodedEnv
from tests.core.envs import Plain


class Walk(sekai.Env[Any, Any]):
    """A random walk as a user would write it."""

    def __init__(self) -> None:
        self.observation_space = sekai.Box(-100.0, 100.0, shape=(1,))
        self.action_space = sekai.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        self.x = self.rng.normal()
        return sekai.ResetResult(np.array([self.x], np.float32), {})

    def step(self, action: Any) -> sekai.StepResult:
        self.x += self.rng.normal() + action
        return sekai.StepResult(np.array([self.x], np.float32), float(-abs(self.x)), abs(self.x) > 50, False, {})


WRAPPERS = [
    sekai.Wrapper,
    sekai.FromGymnasium,
    sekai.AutoReset,
    sekai.OrderEnforcing,
    lambda env: sekai.ClipReward(env, -10.0, 10.0),
    lambda env: sekai.TimeLimit(env, 50),
    lambda env: sekai.TimeAwareObservation(env, 50),
]
every_wrapper = pytest.mark.parametrize("wrap", WRAPPERS, ids=lambda wrap: wrap(Plain()).layers()[0])


@every_wrapper
def test_plain_tuples_become_named_results_with_python_bools(wrap: Any) -> None:
    for awaited in (False, True):
        env = wrap(Plain())
        assert type(asyncio.run(env.async_reset()) if awaited else env.reset()) is sekai.ResetResult
        for ends in (False, True):
            result = asyncio.run(env.async_step(0)) if awaited else env.step(0)
            assert type(result) is sekai.StepResult
            assert result.terminated is ends, "the environment returned np.bool_"
            assert result.truncated is False


@every_wrapper
def test_seeds_handed_to_gymnasium_are_python_ints(wrap: Any) -> None:
    env = wrap(Plain())
    for seed in (np.int64(5), 5, None):
        env.reset(seed=seed)
    asyncio.run(env.async_reset(seed=np.uint8(6)))
    assert env.unwrapped.seeds == [5, 5, None, 6]
    assert [type(seed) for seed in env.unwrapped.seeds] == [int, int, type(None), int]


@every_wrapper
def test_a_generator_reaches_a_gymnasium_environment(wrap: Any) -> None:
    for awaited in (False, True):
        env, generator = wrap(Plain()), np.random.default_rng(5)
        first = asyncio.run(env.async_reset(seed=generator)) if awaited else env.reset(seed=generator)
        assert env.unwrapped.np_random is generator
        assert first.observation[0] == np.float32(np.random.default_rng(5).random())
        assert env.unwrapped.seeds == [None]


@every_wrapper
def test_spaces_of_a_gymnasium_environment_become_readable(wrap: Any) -> None:
    env = wrap(Plain())
    assert type(env.observation_space) is sekai.Box
    assert type(env.action_space) is sekai.Discrete
    assert env.action_space == gymnasium.spaces.Discrete(2)
    assert type(env.unwrapped.action_space) is gymnasium.spaces.Discrete, "its own are left alone"


def test_a_readable_space_shares_the_stream_of_the_original() -> None:
    env = sekai.FromGymnasium(Plain())
    env.action_space.seed(3)
    drawn = [env.action_space.sample() for _ in range(8)]
    env.unwrapped.action_space.seed(3)
    assert drawn == [env.action_space.sample() for _ in range(8)]


@pytest.mark.parametrize(
    ("returned", "what"),
    [
        ((1, 2, 3, 4), "a tuple of 4"),
        ((1, 2, 3, 4, 5, 6), "a tuple of 6"),
        (None, "a NoneType"),
        ({"observation": 0}, "a dict"),
    ],
)
@every_wrapper
def test_a_step_that_returns_something_else_is_named(wrap: Any, returned: Any, what: str) -> None:
    class Wrong(Plain):
        def step(self, action: Any) -> Any:
            return returned

    text = f"Wrong instance>.step() returned {what}; expected StepResult(observation, reward, terminated, truncated, "
    for awaited in (False, True):
        env = wrap(Wrong())
        env.reset()
        with pytest.raises(TypeError, match=re.escape(text)):
            asyncio.run(env.async_step(0)) if awaited else env.step(0)


@every_wrapper
def test_a_reset_that_returns_something_else_is_named(wrap: Any) -> None:
    class Wrong(Plain):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return np.zeros(2)  # the observation alone, as gym did

    text = "Wrong instance>.reset() returned a ndarray; expected ResetResult(observation, info)."
    with pytest.raises(TypeError, match=re.escape(text)):
        wrap(Wrong()).reset()
    with pytest.raises(TypeError, match=re.escape(text)):
        asyncio.run(wrap(Wrong()).async_reset())


def test_gymnasiums_wrappers_stand_outside_sekais_environments() -> None:
    env: Any = gymnasium.wrappers.TransformObservation(
        gymnasium.wrappers.TimeLimit(sekai.ClipReward(CodedEnv(4, length=9), max_reward=15.0), 2), lambda o: o + 1, None
    )
    observation, info = env.reset(seed=0)
    assert observation.tolist() == [5, 1, 1]
    assert info == {"t": 0}
    assert env.step(3)[1:4] == (13.0, False, False)
    observation, reward, terminated, truncated, _ = env.step(3)
    assert (observation.tolist(), reward, terminated, truncated) == ([5, 1, 3], 15.0, False, True)
    assert env.unwrapped.np_random_seed == 0


def test_sekais_wrappers_see_through_gymnasiums_to_an_auto_reset() -> None:
    between = gymnasium.wrappers.TransformReward(sekai.AutoReset(CodedEnv()), lambda r: r)
    with pytest.raises(ValueError, match="cannot stand outside AutoReset"):
        sekai.TimeLimit(between, 3)
    sekai.TimeLimit(gymnasium.wrappers.TransformReward(CodedEnv(), lambda r: r), 3)


def test_layers_are_listed_through_gymnasiums_wrappers() -> None:
    env = sekai.TimeLimit(gymnasium.wrappers.TransformReward(sekai.Wrapper(CodedEnv()), lambda r: r), 3)
    assert env.layers() == ["TimeLimit", "TransformReward", "Wrapper", "CodedEnv"]


@pytest.mark.parametrize(
    "make", [Walk, *(lambda wrap=wrap: wrap(Walk()) for wrap in WRAPPERS)], ids=lambda make: make().layers()[0]
)
def test_gymnasiums_checker_finds_nothing(make: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # it warns about every wrapper, since it means to check environments
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version.*")
        check_env(make(), skip_render_check=True)


def test_gymnasiums_checker_finds_what_is_wrong() -> None:
    class Unseeded(Walk):
        def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
            return super().reset()

    with pytest.raises(AssertionError):
        check_env(Unseeded(), skip_render_check=True)


def test_results_unpack_as_gymnasiums() -> None:
    env = Walk()
    observation, info = env.reset(seed=0)
    assert observation in env.observation_space
    observation, reward, terminated, truncated, info = env.step(0)
    assert (type(reward), type(terminated), truncated, info) == (float, bool, False, {})
