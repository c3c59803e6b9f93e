"""`TensorStepper`: the steps of a `TensorVecEnv`, for a learner; nothing leaves the device."""

from __future__ import annotations

from typing import Any

import torch

from sekai.safety.arrays import Tensor
from sekai.safety.backups import REACH_AVOID, Mode
from sekai.safety.steps import MarginStep
from sekai.safety.tensor.env import TensorStep


class TensorStepper:
    """The steps of a `TensorVecEnv`.

    Args:
        env: the environment.
        mode: of the learner; an avoid learner does not look at l.
        finals: whether the last observations of timeouts are wanted.

    Raises:
        LookupError: by `step`: no l for a reach-avoid learner.
        ValueError: by `step`: no last observations where they are wanted, or shapes that are not `(N,)`.
    """

    def __init__(self, env: Any, mode: Mode, *, finals: bool) -> None:
        self._env, self._finals = env, finals
        self._has_target = mode == REACH_AVOID

    def step(self, actions: Tensor) -> MarginStep:
        """One step of all slots."""
        env = self._env
        step = TensorStep(*env.step_tensor(actions))
        env.observations = copied(step.obs)  # many simulators write the next step into the same tensors
        if self._has_target and step.l_x is None:
            raise LookupError(
                f"{type(env).__name__}.step_tensor gave no l_x, which a reach-avoid learner needs with every step; an "
                "avoid task is for Safety learners."
            )
        columns = {"reward_g": step.reward_g, "dones": step.dones, "timeouts": step.timeouts}
        if self._has_target:
            columns["l_x"] = step.l_x
        for name, column in columns.items():
            if tuple(column.shape) != (env.num_envs,):
                raise ValueError(f"step_tensor gave {name} of shape {tuple(column.shape)}; expected ({env.num_envs},).")
        dones, timeouts = step.dones.bool(), step.timeouts.bool()
        finals = None
        if self._finals:
            if step.final_obs is None:
                raise ValueError(
                    "bootstrap_on_timeout=True needs the last observations, and step_tensor gave no final_obs: leave "
                    "it False, or return TensorStep(..., final_obs=...)."
                )
            finals = slice(None), _where(dones, step.final_obs, step.obs)
        return MarginStep(
            env.observations,
            step.reward_g.float(),
            step.l_x.float() if self._has_target and step.l_x is not None else None,
            dones & ~timeouts,
            dones & timeouts,
            finals,
            [],
            step.executed,
        )


def copied(observations: Any) -> Any:
    """Observations in tensors of their own."""
    if isinstance(observations, dict):
        return {key: copied(part) for key, part in observations.items()}
    return observations.clone()


def _where(mask: Tensor, yes: Any, no: Any) -> Any:
    if isinstance(yes, dict):
        return {key: _where(mask, yes[key], no[key]) for key in yes}
    return torch.where(mask.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)
