"""Time: `TimeLimit` cuts an episode after so many steps, `TimeAwareObservation` shows the time that has passed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.core.env import as_step_result, find_attr
from sekai.core.results import ResetResult, StepResult, step_result
from sekai.core.wrapper import ObservationWrapper, Wrapper
from sekai.errors import ResetRequired
from sekai.spaces.checks import whole_number
from sekai.stats.state import check_state
from sekai.wrappers.transforms import append_time, time_aware


def check_max_episode_steps(value: Any) -> int:
    """`value` as an int of at least 1; `TypeError` for what is no integer, `ValueError` for less than 1."""
    return whole_number("max_episode_steps", value, minimum=1)


def check_steps(state: Mapping[str, Any], like: Mapping[str, NDArray[Any]], *, minimum: int) -> NDArray[Any]:
    """The `steps` of a state, held to those of another.

    Raises:
        ValueError: another shape or dtype, or a number of steps below `minimum`.
    """
    steps: NDArray[Any] = check_state(state, like)["steps"]
    if (steps < minimum).any():
        raise ValueError(f"'steps' of the state is {steps}; expected at least {minimum}.")
    return steps


class TimeLimit(Wrapper):
    """Truncate every episode after `max_episode_steps` steps and count the steps in `info["elapsed_steps"]`.

    Args:
        env: the environment to wrap, sekai's or gymnasium's.
        max_episode_steps: at least 1.

    Attributes:
        max_episode_steps: the limit.
        elapsed_steps: steps taken in the current episode, None before the first reset.
    """

    stateful = True

    def __init__(self, env: gymnasium.Env[Any, Any], max_episode_steps: int) -> None:
        super().__init__(env)
        self.max_episode_steps = check_max_episode_steps(max_episode_steps)
        self.elapsed_steps: int | None = None
        self._plain = type(self) is TimeLimit  # a class of its own may have other hooks

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """`steps` taken in the episode, -1 before the first reset."""
        return {"steps": np.array(-1 if self.elapsed_steps is None else self.elapsed_steps)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Raises:
            ValueError: it does not fit; nothing is taken over.
        """
        steps = int(check_steps(state, self.state_dict(), minimum=-1))
        self.elapsed_steps = None if steps < 0 else steps

    async_step = Wrapper.async_step

    def step(self, action: Any) -> StepResult:
        """Step the environment and count."""
        if not self._plain or self.elapsed_steps is None:
            return super().step(action)
        result: Any = self.env.step(action)
        if type(result) is not tuple or len(result) != 5 or type(result[4]) is not dict:
            return self.after_step(result if type(result) is StepResult else as_step_result(result, self.env))
        # `after_step`, written out for what gymnasium's environments return: nearly all of them have this layer, and it
        # would take a third as long as CartPole itself
        observation, reward, terminated, truncated, info = result
        self.elapsed_steps = elapsed = self.elapsed_steps + 1
        truncated = elapsed >= self.max_episode_steps or bool(truncated)
        return step_result((observation, reward, bool(terminated), truncated, {**info, "elapsed_steps": elapsed}))

    def before_step(self, action: Any) -> Any:
        """Refuse to count steps of an episode that has not begun."""
        if self.elapsed_steps is None:
            raise ResetRequired(f"{self.env} has not been reset: call reset() before step().")
        return action

    def after_step(self, result: StepResult) -> StepResult:
        """Count the step and cut the episode at the limit."""
        observation, reward, terminated, truncated, info = result
        self.elapsed_steps = elapsed = self.elapsed_steps + 1  # type: ignore[operator]  # before_step saw to it
        truncated = elapsed >= self.max_episode_steps or bool(truncated)
        return step_result((observation, reward, bool(terminated), truncated, {**info, "elapsed_steps": elapsed}))

    def after_reset(self, result: ResetResult) -> ResetResult:
        """Start counting."""
        self.elapsed_steps = 0
        return result


class TimeAwareObservation(ObservationWrapper):
    """Append the fraction of the time limit that has passed, in `[0, 1]`, to a flat `Box` observation.

    Args:
        env: an environment with a one-dimensional `Box` observation of a float dtype.
        max_episode_steps: the time limit; by default that of the environment.

    Raises:
        TypeError: another observation space.
        ValueError: no limit is given and the environment has none.
    """

    stateful = True
    vector_version = "VecTimeAwareObservation"

    def __init__(self, env: gymnasium.Env[Any, Any], max_episode_steps: int | None = None) -> None:
        super().__init__(env)
        self.observation_space = time_aware(env.observation_space, name="TimeAwareObservation")
        if max_episode_steps is None:
            max_episode_steps = self._limit_of(env)
        self.time_limit = check_max_episode_steps(max_episode_steps)
        self._steps = 0

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """`steps` taken in the episode."""
        return {"steps": np.array(self._steps)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Raises:
            ValueError: it does not fit; nothing is taken over.
        """
        self._steps = int(check_steps(state, self.state_dict(), minimum=0))

    @staticmethod
    def _limit_of(env: gymnasium.Env[Any, Any]) -> int:
        try:
            limit: int | None = find_attr(env, "max_episode_steps")[1]
        except AttributeError:
            limit = None
        if limit is None:
            raise ValueError(f"{env} has no time limit; give TimeAwareObservation(env, max_episode_steps=...).")
        return limit

    def observation(self, observation: Any) -> Any:
        """The observation with the time appended, `(D + 1,)`.

        Raises:
            ValueError: the episode is longer than the limit given, so that the time would leave `[0, 1]`.
        """
        return append_time(observation, self._steps, self.time_limit)

    def after_step(self, result: StepResult) -> StepResult:
        """Let time pass before the observation is made."""
        self._steps += 1
        return super().after_step(result)

    def after_reset(self, result: ResetResult) -> ResetResult:
        """Start at time 0."""
        self._steps = 0
        return super().after_reset(result)
