"""`TensorVecEnv`: many environments whose observations, actions and margins stay on one device.

A subclass implements `step_tensor`; it resets ended slots itself, within the step (same_step). Learners recognise it
(`is_tensor_env`) and read nothing back while they collect. To everything else it is a Stable-Baselines3 `VecEnv`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from sekai.safety.arrays import Tensor


class TensorStep(NamedTuple):
    """What `step_tensor` returns; a plain tuple of the first five to seven does as well.

    Attributes:
        obs: observations of the next decision, `(N, ...)`: where an episode ended, the first of the next one.
        reward_g: safety margins g of the states after the step, `(N,)`.
        dones: bool `(N,)`, the episode ended in this step.
        timeouts: bool `(N,)`, it was cut and did not terminate.
        l_x: target margins l of the same states, `(N,)`; None in an avoid environment, which is not the same as 0.
        final_obs: last observations of the episodes that ended, `(N, ...)`; rows of others mean nothing. None where
            they are not known.
        executed: actions as they were executed, `(N, A)` in the units of the action space; None where they are those
            given. Off-policy learners learn from them.
    """

    obs: Any
    reward_g: Tensor
    dones: Tensor
    timeouts: Tensor
    l_x: Tensor | None = None
    final_obs: Any = None
    executed: Tensor | None = None


class TensorVecEnv(VecEnv):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """Many environments on one device.

    Args:
        num_envs: N.
        observation_space, action_space: of one slot.
        device: where the tensors are.

    Attributes:
        device: the same.
        provides_l: whether steps have target margins; an environment without is for avoid learners only.
        observations: those of the next decision, on the device.

    Example: `docs/how-to/tensor-env.md`.
    """

    is_tensor_env = True
    provides_l: bool = False

    def __init__(
        self,
        num_envs: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        device: Any = "cpu",
    ) -> None:
        self.device = torch.device(device)
        self.render_mode = None
        self.observations: Any = None
        self._actions: Any = None
        super().__init__(num_envs, observation_space, action_space)

    @abstractmethod
    def step_tensor(self, actions: Tensor) -> TensorStep | tuple[Any, ...]:
        """Step every slot and reset those that end.

        Args:
            actions: `(N, A)`, in the units of the action space and inside its box, on the device.

        Returns:
            A `TensorStep`, or a tuple of its first five to seven; a learner copies the observations that it keeps, so
            that a simulator may write into the same tensors with every step.
        """

    def reset_tensor(self) -> Any:
        """Begin an episode in every slot and return the observations.

        By default one step of zeros is taken and its observations are returned, for simulators that begin by
        themselves.
        """
        shape = self.action_space.shape or ()
        dtype = torch.float32 if isinstance(self.action_space, spaces.Box) else torch.int64
        return TensorStep(*self.step_tensor(torch.zeros((self.num_envs, *shape), dtype=dtype, device=self.device))).obs

    # ---- the same as a VecEnv of NumPy arrays --------------------------------------------------

    def reset(self) -> Any:
        """`reset_tensor`, as NumPy arrays."""
        self.observations = self.reset_tensor()
        return as_numpy(self.observations)

    def step_async(self, actions: Any) -> None:
        """Take the actions of the next step."""
        self._actions = torch.as_tensor(actions, device=self.device)

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """`step_tensor`, as NumPy arrays and infos."""
        step = TensorStep(*self.step_tensor(self._actions))
        self.observations = step.obs
        dones, timeouts = as_numpy(step.dones), as_numpy(step.timeouts)
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": bool(timeout)} for timeout in timeouts]
        if step.l_x is not None:
            for info, margin in zip(infos, as_numpy(step.l_x).tolist(), strict=True):
                info["l_x"] = margin
        if step.final_obs is not None:
            finals = as_numpy(step.final_obs)
            for slot in np.flatnonzero(dones).tolist():
                infos[slot]["terminal_observation"] = (
                    {key: rows[slot] for key, rows in finals.items()} if isinstance(finals, dict) else finals[slot]
                )
        return as_numpy(step.obs), as_numpy(step.reward_g), dones, infos

    def close(self) -> None:
        """Nothing is held."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """One attribute of the environment, once for each slot asked."""
        return [getattr(self, attr_name)] * len(self._slots(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the environment, which all slots share."""
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Call a method of the environment, which acts on all slots; its result once for each slot asked."""
        return [getattr(self, method_name)(*method_args, **method_kwargs)] * len(self._slots(indices))

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """No slot is wrapped by itself."""
        return [False] * len(self._slots(indices))

    def _slots(self, indices: int | Iterable[int] | None) -> list[int]:
        return list(self._get_indices(indices))


def is_tensor_env(env: Any) -> bool:
    """Whether an environment hands out tensors of its device.

    SB3's wrappers hand on the attributes of what is inside, and would be passed by: the class says it.
    """
    return bool(getattr(type(env), "is_tensor_env", False))


def as_numpy(tensors: Any) -> Any:
    """Tensors, or a dict of them, as NumPy arrays."""
    if isinstance(tensors, dict):
        return {key: as_numpy(tensor) for key, tensor in tensors.items()}
    return tensors.cpu().numpy() if isinstance(tensors, torch.Tensor) else np.asarray(tensors)
