"""`TensorFromNative`: a native vector environment of sekai as a tensor environment, on the CPU without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sekai.core.slots import AutoresetMode
from sekai.safety.arrays import Tensor
from sekai.safety.chain import changes_actions
from sekai.safety.steps import EXECUTED_KEY
from sekai.safety.tensor.env import TensorStep, TensorVecEnv, as_numpy
from sekai.spaces import take_rows
from sekai.vector import VecEnv


class TensorFromNative(TensorVecEnv):
    """A sekai vector environment, mostly a native one, as a `TensorVecEnv`.

    Observations are the arrays that the environment hands out, seen as tensors; to another device they are copied.

    Args:
        vec: in same_step mode; rewards are g, `infos` have `l_x` where `provides_l` is True.
        device: where the tensors are to be.
        seed: of the first reset; a learner that has a seed gives its own.

    Raises:
        TypeError: no `sekai.VecEnv`.
        ValueError: another autoreset mode.
    """

    def __init__(self, vec: VecEnv, *, device: Any = "cpu", seed: int | None = None) -> None:
        if not isinstance(vec, VecEnv):
            raise TypeError(f"TensorFromNative takes a sekai.VecEnv; given {type(vec).__name__}.")
        if vec.autoreset is not AutoresetMode.SAME_STEP:
            raise ValueError(f"{vec} has autoreset={vec.autoreset.value!r}; expected 'same_step'.")
        self.vec: Any = vec
        self._first_seed = seed
        self._same_units = not changes_actions(vec)
        self.provides_l = bool(vec.get_attr("provides_l")[0])
        super().__init__(vec.num_envs, vec.observation_space, vec.action_space, device=device)

    def __getattr__(self, name: str) -> Any:
        if name == "vec":  # not there yet
            raise AttributeError(name)
        return self.vec.get_attr(name)[0]

    def seed(self, seed: int | None = None) -> Any:
        """Seed the next reset."""
        self._first_seed = seed
        return super().seed(seed)

    def reset_tensor(self) -> Any:
        """Begin an episode in every slot."""
        seed, self._first_seed = self._first_seed, None
        return self._tensors(self.vec.reset(seed=seed).observations)

    def step_tensor(self, actions: Tensor) -> TensorStep:
        """Step every slot."""
        result = self.vec.step(as_numpy(actions))
        margins = None
        if self.provides_l:
            values, present = result.infos.columns["l_x"]
            if not present.all():
                raise LookupError(f"The info of sub-env {int(np.flatnonzero(~present)[0])} has no 'l_x'.")
            margins = self._tensors(values)
        finals = None
        if result.ended.any():
            finals = self._tensors(self._finals(result))
        return TensorStep(
            self._tensors(result.observations),
            self._tensors(result.rewards),
            self._tensors(result.dones),
            self._tensors(result.truncated & ~result.terminated),
            margins,
            self._tensors(result.observations) if finals is None else finals,
            self._executed(result.infos),
        )

    def _executed(self, infos: Any) -> Tensor | None:
        if EXECUTED_KEY not in infos.columns or not self._same_units:
            return None
        values, present = infos.columns[EXECUTED_KEY]
        if not present.all():
            raise LookupError(f"The info of sub-env {int(np.flatnonzero(~present)[0])} has no {EXECUTED_KEY!r}.")
        return self._tensors(values)

    def _finals(self, result: Any) -> Any:
        """The observations, with the last ones of episodes that ended in their rows."""
        rows = take_rows(self.observation_space, result.observations, np.arange(self.num_envs))
        for slot in np.flatnonzero(result.ended).tolist():
            final = result.final_observation(slot)
            if isinstance(rows, dict):
                for key, column in rows.items():
                    column[slot] = final[key]
            else:
                rows[slot] = final
        return rows

    def _tensors(self, arrays: Any) -> Any:
        if isinstance(arrays, dict):
            return {key: self._tensors(part) for key, part in arrays.items()}
        return torch.as_tensor(arrays, device=self.device)

    def get_state(self) -> Any:
        """That of the vector environment, plain arrays."""
        return self.vec.get_state()

    def set_state(self, state: Any) -> None:
        """Take over what `get_state` gave."""
        self.vec.set_state(state)

    def close(self) -> None:
        """Close the vector environment."""
        self.vec.close()
