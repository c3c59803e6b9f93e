"""Small environments for the tests of refusals, in a file whose import costs a worker process little."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from sekai.safety.contract import MarginWrapper


class Task(gymnasium.Env[Any, Any]):
    """An environment whose reward may be a margin."""

    metadata = {"render_modes": []}  # noqa: RUF012  # as gymnasium has it

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), 1.0, False, False, {}


class Doubled(gymnasium.RewardWrapper[Any, Any]):
    """A user's own, with a name that nobody knows."""

    def reward(self, reward: Any) -> Any:
        return 2.0 * reward


class OwnMargins(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Makes margins without `MarginWrapper`, and says so."""

    provides_l = False

    def step(self, action: Any) -> Any:
        observation, _, terminated, truncated, info = self.env.step(action)
        return observation, 0.5, terminated, truncated, info


def margins(env: Any = None, **kwargs: Any) -> Any:
    return MarginWrapper(Task() if env is None else env, g=lambda _: 1.0, **kwargs)
