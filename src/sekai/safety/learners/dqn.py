"""DQN on margins, for discrete actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3 import DQN
from torch.nn import functional

from sekai.safety.arrays import Tensor
from sekai.safety.learners.off_policy import OffPolicySafety


class DqnSafety(OffPolicySafety, DQN):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """DQN of either mode.

    Args:
        policy, env: as for SB3's DQN.
        initial_value: what the critic says at first, see `OffPolicySafety`.
        sb3: further arguments, see `SafetyLearner`.
    """

    def _explore(self, observations: Any) -> Tensor:
        """Each slot by itself takes a random action with probability `exploration_rate`."""
        best = self.q_net(observations).argmax(dim=1)
        anything = self._random_actions(len(best))
        return torch.where(torch.rand(len(best), device=self.device) < self.exploration_rate, anything, best)

    def _value_networks(self) -> list[Any]:
        return [self.q_net.q_net, self.q_net_target.q_net]

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Learn from so many batches."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        self._begin_training()
        losses = []
        for _ in range(gradient_steps):
            batch = self._drawn(batch_size)
            with torch.no_grad():
                targets = self._targets(batch, self.q_net_target(batch.next_observations).amax(dim=1, keepdim=True))
            values = self.q_net(batch.observations).gather(1, batch.actions)
            loss = functional.smooth_l1_loss(values, targets)
            losses.append(loss.item())
            self.policy.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
        self._n_updates += gradient_steps
        self._end_training()
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))

    def predict_value(self, observations: Any) -> np.ndarray[Any, Any]:
        """See `SafetyLearner.predict_value`: of the best action."""
        return self._on_rows(observations, lambda rows: self.q_net(rows).amax(dim=1, keepdim=True))
