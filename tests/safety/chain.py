"""A chain of states on a line, whose margins can be worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv


class Walk(VecEnv):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """Slot `i` is at x; action 0 goes left by 1, action 1 right. g = x + 0.5, so x = -1 fails; cut after `limit` steps.

    Observations are `(slot, x)`, so that every row tells whose it is. Every episode starts at x = 2.
    """

    dt = 0.5

    def __init__(
        self, num_envs: int = 3, *, limit: int = 4, target: bool = False, box: bool = False, declares: bool = True
    ) -> None:
        self.render_mode = None
        if declares:
            self.failure_horizon_s, self.g_range = 1.5, (-0.5, 4.5)
        self.limit, self.target, self.box = limit, target, box
        action_space = spaces.Box(-1.0, 3.0, (1,), np.float32) if box else spaces.Discrete(2)
        super().__init__(num_envs, spaces.Box(-10.0, 10.0, (2,), np.float32), action_space)
        self.x, self.t = np.full(num_envs, 2.0), np.zeros(num_envs, int)
        self.executed: list[Any] = []

    def observe(self) -> Any:
        return np.stack([np.arange(self.num_envs), self.x], 1).astype(np.float32)

    def reset(self) -> Any:
        self.x[:], self.t[:] = 2.0, 0
        return self.observe()

    def step_async(self, actions: Any) -> None:
        self.executed.append(np.array(actions))

    def step_wait(self) -> Any:
        actions = self.executed[-1]
        self.x = self.x + (np.sign(actions[:, 0] - 1.0) if self.box else 2.0 * actions - 1.0)
        self.t += 1
        g = self.x + 0.5
        terminated = g < 0
        truncated = ~terminated & (self.t >= self.limit)
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": bool(cut)} for cut in truncated]
        if self.target:
            for info, x in zip(infos, self.x, strict=True):
                info["l_x"] = float(x - 3.5)
        done = terminated | truncated
        last = self.observe()
        for slot in np.flatnonzero(done):
            infos[slot]["terminal_observation"] = last[slot]
        self.x, self.t = np.where(done, 2.0, self.x), np.where(done, 0, self.t)
        return self.observe(), g, done, infos

    def close(self) -> None:
        pass

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        return [getattr(self, method_name)(*args, **kwargs)] * self.num_envs

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        return [False] * self.num_envs
