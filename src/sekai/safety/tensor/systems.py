"""`SafetyTensorEnv`: many copies of one system on a device, by the same dynamics as its NumPy environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from sekai.safety.arrays import Tensor
from sekai.safety.envs.rules import OfSystem, action_box, check_disturbance
from sekai.safety.systems.base import System
from sekai.safety.systems.named import as_system
from sekai.safety.tensor.env import TensorStep, TensorVecEnv
from sekai.spaces import Box


class SafetyTensorEnv(OfSystem, TensorVecEnv):
    """A system as a tensor environment; margins and ends are those of `SafetyVecEnv` with end_criterion "failure".

    Args:
        num_envs: number of slots.
        system: a `System`, or a name in `sekai.safety.systems.named`; then `parameters` are its arguments.
        device: where the states are.
        seed: of the states that episodes start in, and of random disturbances.
        disturbance: "zero", "random", "worst", "player" or a function of states, as for `SafetyVecEnv`, but of tensors.

    Attributes:
        system: the dynamics and margins.
        states: the current states, float32 `(N, S)`.
        steps: taken in the episode of each slot, `(N,)`.
    """

    def __init__(
        self,
        num_envs: int,
        system: System | str,
        *,
        device: Any = "cpu",
        seed: int = 0,
        disturbance: str | Callable[[Tensor], Any] = "zero",
        **parameters: Any,
    ) -> None:
        self.system = as_system(system, parameters)
        check_disturbance(self.system, disturbance)
        self.disturbance = disturbance
        self.provides_l = self.system.provides_l
        self._take_players(disturbance)
        space = Box(-np.inf, np.inf, (self.system.observation_size,), np.float32)
        super().__init__(num_envs, space, action_box(self.system, disturbance), device=device)
        self._generator = torch.Generator(self.device).manual_seed(seed)
        self.states = torch.zeros((num_envs, self.system.state_size), device=self.device)
        self.steps = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        worst = self.system.worst_disturbance
        self._worst = None if worst is None else torch.tensor([worst], device=self.device).expand(num_envs, -1)

    def reset_tensor(self) -> Tensor:
        """Begin an episode in every slot."""
        self.states, self.steps = self._starts(), torch.zeros_like(self.steps)
        return self.system.observe(self.states)

    def step_tensor(self, actions: Tensor) -> TensorStep:
        """Step every slot; those that end begin anew."""
        system = self.system
        size = system.control.size
        after = system.step(self.states, actions[:, :size], self._disturbances(actions[:, size:]))
        g = system.g(after)
        failed = g < 0
        cut = self.steps.add_(1) >= system.time_limit
        dones = failed | cut
        self.states = torch.where(dones[:, None], self._starts(), after)
        self.steps.masked_fill_(dones, 0)
        margins = system.l(after) if self.provides_l else None
        return TensorStep(system.observe(self.states), g, dones, cut & ~failed, margins, system.observe(after))

    def _disturbances(self, played: Tensor) -> Tensor | None:
        bounded = self.system.disturbance
        if bounded is None or self.disturbance == "zero":
            return None
        if self.disturbance == "player":
            return played  # the system projects it
        shape = (self.num_envs, bounded.size)
        if callable(self.disturbance):
            chosen = torch.as_tensor(self.disturbance(self.states.clone()), dtype=torch.float32, device=self.device)
            return chosen.expand(shape)
        if self.disturbance == "worst":
            return self._worst
        return bounded.sample(torch.rand(shape, generator=self._generator, device=self.device))

    def _starts(self) -> Tensor:
        # for every slot, ended or not: to ask which ended would wait for the device
        return self.system.start(torch.rand(self.states.shape, generator=self._generator, device=self.device))
