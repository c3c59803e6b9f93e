"""Wrappers: pure hooks around the calls of an environment, with one sync and one async driver over them.

A wrapper says what happens before the action, after the result and on reset; it never calls the environment
itself. So whatever it does, it does the same on `step` and on `async_step`:

    step(action):  before_step(action) -> env.step -> after_step(result) [-> follow_up(result)]
    reset(...):    before_reset(options) -> env.reset -> after_reset(result)

A wrapper that needs further calls within one step (`AutoReset` resets) overrides `follow_up`, a generator that
yields `StepCall` or `ResetCall` and is sent their results.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias

import gymnasium
import numpy as np

from sekai.core.env import Env, as_step_result, await_reset, await_step, call_reset, call_step, walk
from sekai.core.results import ResetResult, StepResult
from sekai.seeding import Seed, check_seed
from sekai.spaces import readable


class StepCall(NamedTuple):
    """Ask the driver to step the inner environment."""

    action: Any


class ResetCall(NamedTuple):
    """Ask the driver to reset the inner environment, its stream continuing."""

    options: dict[str, Any] | None = None


FollowUp: TypeAlias = Generator[StepCall | ResetCall, Any, StepResult]


class Wrapper(Env[Any, Any], gymnasium.Wrapper[Any, Any, Any, Any]):
    """Base class of single-environment wrappers: override the hooks you need.

    Args:
        env: the environment to wrap, sekai's or gymnasium's.

    Raises:
        TypeError: `env` is no single environment.
        ValueError: a stateful wrapper outside an environment that resets itself: it would not see the reset.
    """

    #: True for a wrapper with state of one episode that only a reset can begin anew.
    stateful: bool = False
    #: True for a wrapper that has to know which rows are transitions.
    counts_rows: bool = False
    #: Name of the wrapper that does the same to a vector environment.
    vector_version: str | None = None
    _follows: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._follows = cls.follow_up is not Wrapper.follow_up

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        name = type(self).__name__
        if not isinstance(env, gymnasium.Env):
            raise TypeError(
                f"{name} wraps a single environment; given {env!r} ({type(env).__name__}).{self._advice(env)}"
            )
        if (self.stateful or self.counts_rows) and _in_gymnasiums_autoreset(env):
            raise ValueError(
                f"{name} cannot stand outside gymnasium's Autoreset, which resets in the step after an end and calls "
                f"that a step. Use sekai.AutoReset, or let {name} stand inside."
            )
        if self.stateful and resets_itself(env):
            raise ValueError(
                f"{name} keeps state of one episode, so it cannot stand outside AutoReset, which starts the next "
                f"episode without a reset that {name} could see. Wrap the other way round: AutoReset({name}(env))."
            )
        gymnasium.Wrapper.__init__(self, env)
        if not isinstance(env, Env):
            self._observation_space = readable(env.observation_space)
            self._action_space = readable(env.action_space)

    def _advice(self, env: object) -> str:
        """What to do instead for what looks like a vector environment."""
        if not hasattr(env, "num_envs"):
            return ""
        name = type(self).__name__
        outside = "" if self.vector_version is None else f" around a vector environment use {self.vector_version}, or"
        return (
            f" It wraps each copy: make_vec(..., wrappers=[lambda env: {name}(env, ...)]);{outside} give {name} one "
            "environment."
        )

    def before_step(self, action: Any) -> Any:
        """The action handed inwards."""
        return action

    def after_step(self, result: StepResult) -> StepResult:
        """The result handed outwards."""
        return result

    def follow_up(self, result: StepResult) -> FollowUp:
        """Further calls within the same step, after `after_step`; returns the result handed outwards."""
        return result
        yield

    def before_reset(self, options: dict[str, Any] | None) -> dict[str, Any] | None:
        """The options handed inwards. Also called to check options, so it should do nothing else."""
        return options

    def after_reset(self, result: ResetResult) -> ResetResult:
        """The first result handed outwards."""
        return result

    def step(self, action: Any) -> StepResult:
        """Step the environment through the hooks."""
        # call_step, written out: this is the hottest line of a serial backend
        result = self.env.step(self.before_step(action))
        if type(result) is not StepResult:
            result = as_step_result(result, self.env)
        result = self.after_step(result)
        if not self._follows:
            return result
        calls, answer = self.follow_up(result), None
        while True:
            try:
                call = calls.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # the generator's return type is not kept
            answer = (
                call_step(self.env, call.action)
                if isinstance(call, StepCall)
                else call_reset(self.env, None, call.options)
            )

    async def async_step(self, action: Any) -> StepResult:
        """Awaitable `step`, through the same hooks."""
        result = self.after_step(await await_step(self.env, self.before_step(action)))
        if not self._follows:
            return result
        calls, answer = self.follow_up(result), None
        while True:
            try:
                call = calls.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # the generator's return type is not kept
            answer = (
                await await_step(self.env, call.action)
                if isinstance(call, StepCall)
                else await await_reset(self.env, None, call.options)
            )

    def reset(self, *, seed: Seed = None, options: dict[str, Any] | None = None) -> ResetResult:
        """Reset the environment through the hooks."""
        checked = None if seed is None else check_seed(seed)
        return self.after_reset(call_reset(self.env, checked, self.before_reset(options)))

    async def async_reset(self, *, seed: Seed = None, options: dict[str, Any] | None = None) -> ResetResult:
        """Awaitable `reset`, through the same hooks."""
        return self.after_reset(await await_reset(self.env, check_seed(seed), self.before_reset(options)))

    def check_options(self, options: dict[str, Any] | None) -> None:
        """Check the options that would be handed inwards."""
        if isinstance(self.env, Env):
            self.env.check_options(self.before_reset(options))

    def render(self) -> Any:
        """Handed inwards."""
        return self.env.render()

    @property
    def resets_itself(self) -> bool:  # type: ignore[override]  # a class constant in Env, handed on here
        """Whether a layer inside starts the next episode by itself."""
        return resets_itself(self.env)

    @property
    def rng(self) -> np.random.Generator:
        """The generator of the base environment."""
        return self.env.np_random

    @property
    def spec(self) -> Any:  # type: ignore[override]  # handed on, not stored
        """The registry entry of the base environment."""
        return self.env.spec

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.env})"

    __str__ = __repr__


def awaits(env: Any) -> bool:
    """Whether some layer of an environment waits without blocking: its awaitable step is not `step` under a name."""
    own = (type(layer).async_step for layer in walk(env) if isinstance(layer, Env))
    return any(step not in (Env.async_step, Wrapper.async_step) for step in own)


def resets_itself(env: object) -> bool:
    """Whether `env` starts its next episode by itself, inside `step`."""
    while isinstance(env, gymnasium.Wrapper) and not isinstance(env, Env):
        env = env.env  # gymnasium's wrappers do not say
    return isinstance(env, Env) and env.resets_itself


def _in_gymnasiums_autoreset(env: object) -> bool:
    """Whether a layer is gymnasium's wrapper that resets in the step after the end."""
    return any(isinstance(layer, gymnasium.wrappers.Autoreset) for layer in walk(env))


class ObservationWrapper(Wrapper):
    """Base class of wrappers that transform observations: implement `observation`.

    Outside `AutoReset`, `info["final_observation"]` goes through `final_observation`.
    """

    def observation(self, observation: Any) -> Any:
        """The transformed observation."""
        raise NotImplementedError(f"{type(self).__name__} must implement observation(observation).")

    def final_observation(self, observation: Any) -> Any:
        """The transformed last observation of an episode; by default that of any other."""
        return self.observation(observation)

    def after_step(self, result: StepResult) -> StepResult:
        """Transform the observation, and the final one that `AutoReset` left in the info."""
        info = result.info
        if self.resets_itself and "final_observation" in info:
            first = self.observation(result.observation)
            info = {**info, "final_observation": self.final_observation(info["final_observation"])}
            return result._replace(observation=first, info=info)
        transform = self.final_observation if result.terminated or result.truncated else self.observation
        return result._replace(observation=transform(result.observation))

    def after_reset(self, result: ResetResult) -> ResetResult:
        """Transform the first observation."""
        return result._replace(observation=self.observation(result.observation))


class RewardWrapper(Wrapper):
    """Base class of wrappers that transform rewards: implement `reward`."""

    def reward(self, reward: float) -> float:
        """The transformed reward."""
        raise NotImplementedError(f"{type(self).__name__} must implement reward(reward).")

    def after_step(self, result: StepResult) -> StepResult:
        """Transform the reward."""
        return result._replace(reward=self.reward(result.reward))


class ActionWrapper(Wrapper):
    """Base class of wrappers that transform actions: implement `action`."""

    def action(self, action: Any) -> Any:
        """The action for the inner environment."""
        raise NotImplementedError(f"{type(self).__name__} must implement action(action).")

    def before_step(self, action: Any) -> Any:
        """Transform the action."""
        return self.action(action)
