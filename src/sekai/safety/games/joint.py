"""`joined`: an environment whose actions are `Dict(ctrl, dstb)`, as one with a single box."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnvWrapper

from sekai.safety.arrays import Tensor
from sekai.safety.games.players import CONTROL, DISTURBANCE
from sekai.safety.steps import EXECUTED_KEY
from sekai.safety.tensor.env import TensorStep, TensorVecEnv, is_tensor_env
from sekai.safety.tensor.normalize import TensorVecNormalize


def joined(env: Any) -> Any:
    """`env` itself, or around it what takes `(N, U + D)` numbers where it has `Dict(ctrl, dstb)`.

    A `TensorVecNormalize` stays outermost, since a learner takes its statistics: it is given the other inside of it.

    Raises:
        ValueError: a `Dict` of other parts.
    """
    space = getattr(env, "action_space", None)
    if not isinstance(space, spaces.Dict):
        return env
    parts = dict(space.spaces)
    if parts.keys() != {CONTROL, DISTURBANCE} or not all(
        isinstance(part, spaces.Box) and len(part.shape) == 1 for part in parts.values()
    ):
        raise ValueError(
            f"The action space is {space}; expected Dict({CONTROL}=Box, {DISTURBANCE}=Box), one axis each."
        )
    if isinstance(env, TensorVecNormalize):
        env.env = joined(env.env)
        env.action_space = env.env.action_space
        return env
    return TensorJoint(env) if is_tensor_env(env) else ArrayJoint(env)


def _box(space: spaces.Dict) -> spaces.Box:
    first, second = space[CONTROL], space[DISTURBANCE]
    low, high = (np.concatenate([getattr(part, edge) for part in (first, second)]) for edge in ("low", "high"))
    return spaces.Box(low, high, dtype=np.result_type(first.dtype, second.dtype).type)


class ArrayJoint(VecEnvWrapper):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """A Stable-Baselines3 vector environment with one box of actions around one with two."""

    def __init__(self, venv: Any) -> None:
        self.ctrl_action_dim = venv.action_space[CONTROL].shape[0]
        super().__init__(venv, action_space=_box(venv.action_space))

    def reset(self) -> Any:
        """Begin an episode in every slot."""
        return self.venv.reset()

    def step_async(self, actions: Any) -> None:
        """Begin a step with actions `(N, U + D)`."""
        rows, size, parts = np.asarray(actions), self.ctrl_action_dim, self.venv.action_space
        controls = rows[:, :size].astype(parts[CONTROL].dtype)
        disturbances = rows[:, size:].astype(parts[DISTURBANCE].dtype)
        self.venv.step_async([{CONTROL: u, DISTURBANCE: d} for u, d in zip(controls, disturbances, strict=True)])

    def step_wait(self) -> Any:
        """The result of the step; what was executed as one row as well."""
        observations, rewards, dones, infos = self.venv.step_wait()
        for slot, info in enumerate(infos):
            if isinstance(executed := info.get(EXECUTED_KEY), dict):
                row = np.concatenate([executed[CONTROL], executed[DISTURBANCE]])
                infos[slot] = {**info, EXECUTED_KEY: row}
        return observations, rewards, dones, infos


class TensorJoint(TensorVecEnv):
    """A tensor environment with one box of actions around one with two."""

    def __init__(self, env: TensorVecEnv) -> None:
        self.env = env
        self.ctrl_action_dim = env.action_space[CONTROL].shape[0]
        self.provides_l = env.provides_l
        super().__init__(env.num_envs, env.observation_space, _box(env.action_space), device=env.device)

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # not there yet
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset_tensor(self) -> Any:
        """Begin an episode in every slot."""
        if type(self.env).reset_tensor is TensorVecEnv.reset_tensor:
            return super().reset_tensor()  # a step of zeros, divided like any other
        return self.env.reset_tensor()

    def step_tensor(self, actions: Tensor) -> TensorStep:
        """Step with actions `(N, U + D)`; what was executed is one row of each slot as well."""
        size = self.ctrl_action_dim
        step = TensorStep(*self.env.step_tensor({CONTROL: actions[:, :size], DISTURBANCE: actions[:, size:]}))
        executed: Any = step.executed
        if isinstance(executed, dict):
            executed = torch.cat([executed[CONTROL], executed[DISTURBANCE]], 1)
        return step._replace(executed=executed)

    def close(self) -> None:
        """Close the environment inside."""
        self.env.close()
