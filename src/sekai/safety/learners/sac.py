"""SAC on margins: entropy stands in the loss of the actor and in no target, and targets take the action of the mode.

Critics begin where they can still go, see `OffPolicySafety`. The least of two critics, which keeps rewards from being
overestimated, ratchets a minimum down: targets take the mean, certificates the least.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from stable_baselines3 import SAC
from torch.nn import functional

from sekai.safety.arrays import Tensor
from sekai.safety.learners.off_policy import OffPolicySafety
from sekai.safety.tensor.replay import SafetyBatch

Aggregator = Literal["mean", "min"]


class SacSafety(OffPolicySafety, SAC):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """SAC of either mode.

    Args:
        policy, env: as for SB3's SAC.
        target_aggregator, actor_aggregator: of the critics: `"mean"` or `"min"`.
        alpha_bounds: the entropy coefficient stays between these two numbers.
        initial_value: what the critics say at first, see `OffPolicySafety`.
        sb3: further arguments, see `SafetyLearner`.
    """

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        target_aggregator: Aggregator = "mean",
        actor_aggregator: Aggregator = "mean",
        alpha_bounds: tuple[float, float] = (0.0, float("inf")),
        **sb3: Any,
    ) -> None:
        for name, given in {"target_aggregator": target_aggregator, "actor_aggregator": actor_aggregator}.items():
            if given not in ("mean", "min"):
                raise ValueError(f"{name} is {given!r}; expected 'mean' or 'min'.")
        low, high = alpha_bounds
        if not 0.0 <= low <= high:
            raise ValueError(f"alpha_bounds is {alpha_bounds}; expected (low, high) with 0 <= low <= high.")
        self.target_aggregator, self.actor_aggregator = target_aggregator, actor_aggregator
        self.alpha_bounds = float(low), float(high)
        super().__init__(policy, env, **sb3)

    def _sb3_options(self, num_envs: int, given: dict[str, Any]) -> dict[str, Any]:
        return {
            **super()._sb3_options(num_envs, given),
            "gradient_steps": 4,
            "tau": 0.02,
            "learning_starts": 1000,
            "ent_coef": "auto_0.01",  # margins are small: from 1 on, entropy would outweigh them for most of a run
        }

    _losses: ClassVar[tuple[str, ...]] = ("ent_coef", "critic_loss", "actor_loss")

    def _explore(self, observations: Any) -> Tensor:
        actions: Tensor = self.actor(observations)
        return actions

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Learn from so many batches."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self._optimizers())
        self._begin_training()
        with self._unchecked():
            losses = np.array([self._update(self._drawn(batch_size)) for _ in range(gradient_steps)])
        self._n_updates += gradient_steps
        self._end_training()
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, mean in zip(self._losses, losses.mean(axis=0), strict=True):
            self.logger.record(f"train/{name}", mean)

    def _optimizers(self) -> list[Any]:
        found = [self.actor.optimizer, self.critic.optimizer]
        return found if self.ent_coef_optimizer is None else [*found, self.ent_coef_optimizer]

    def _update(self, batch: SafetyBatch) -> tuple[float, ...]:
        """One step of every optimiser; the numbers that `_losses` names."""
        if self.use_sde:
            self.actor.reset_noise()
        actions, log_prob = self.actor.action_log_prob(batch.observations)
        log_prob = log_prob.reshape(-1, 1)
        alpha = self._alpha(log_prob)
        with torch.no_grad():
            after = self.actor(batch.next_observations, deterministic=True)
            v_next = aggregate(self.critic_target(batch.next_observations, after), self.target_aggregator)
            targets = self._targets(batch, v_next)
        critic_loss = sum(0.5 * functional.mse_loss(q, targets) for q in self.critic(batch.observations, batch.actions))
        self.critic.optimizer.zero_grad()
        critic_loss.backward()
        self.critic.optimizer.step()
        value = aggregate(self.critic(batch.observations, actions), self.actor_aggregator)
        actor_loss = (alpha * log_prob - value).mean()
        self.actor.optimizer.zero_grad()
        actor_loss.backward()
        self.actor.optimizer.step()
        self._follow()
        losses = float(alpha), critic_loss.item(), actor_loss.item()
        require_finite(losses, batch)
        return losses

    def _alpha(self, log_prob: Tensor) -> Tensor:
        """The entropy coefficient within its bounds, after a step of its optimiser."""
        low, high = self.alpha_bounds
        if self.ent_coef_optimizer is None or self.log_ent_coef is None:
            return torch.clamp(self.ent_coef_tensor, low, high)
        return entropy_coefficient(
            self.log_ent_coef, self.ent_coef_optimizer, log_prob, float(self.target_entropy), self.alpha_bounds
        )

    def _follow(self) -> None:
        """Let the target critics follow."""
        with torch.no_grad():
            for mine, theirs in zip(self.critic_target.parameters(), self.critic.parameters(), strict=True):
                mine.lerp_(theirs, self.tau)

    def _value_networks(self) -> list[Any]:
        return [*self.critic.q_networks, *self.critic_target.q_networks]

    def predict_value(self, observations: Any) -> np.ndarray[Any, Any]:
        """See `SafetyLearner.predict_value`: the least of the critics, at the action of the mode."""
        return self._on_rows(observations, self._lower_value)

    def predict_action_value(self, observations: Any, actions: Any) -> np.ndarray[Any, Any]:
        """Q of observations `(N, ...)` and actions `(N, A)` in units of the environment, `(N,)`.

        It is the least of the critics, and a value of the state after the action, with the margin of that state.
        """
        with torch.no_grad():
            chosen = self._scaled(torch.as_tensor(np.asarray(actions), device=self.device))
            values: np.ndarray[Any, Any] = self._lower_action_value(self._tensors(observations), chosen).cpu().numpy()
        return values[:, 0]

    def _scaled(self, actions: Tensor) -> Tensor:
        """Actions as the policy chooses them, within [-1, 1]."""
        assert self._box is not None
        return self._box.scaled(actions)

    def _lower_value(self, rows: Any) -> Tensor:
        return self._lower_action_value(rows, self.actor(rows, deterministic=True))

    def _lower_action_value(self, rows: Any, actions: Tensor) -> Tensor:
        return aggregate(self.critic(rows, actions), "min")


def entropy_coefficient(
    log: Tensor, optimizer: Any, log_prob: Tensor, target: float, bounds: tuple[float, float]
) -> Tensor:
    """The entropy coefficient within its bounds, of before a step of its optimiser.

    Args:
        log: its logarithm, which takes a step.
        optimizer: of `log`.
        log_prob: log densities of actions `(B, 1)`.
        target: entropy that is aimed at.
        bounds: the coefficient stays between these two numbers.
    """
    low, high = bounds
    before = torch.clamp(torch.exp(log.detach()), low, high)
    loss = -(log * (log_prob + target).detach()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():  # or it would go on beyond its bounds, and take as long to come back
        log.clamp_(np.log(max(low, 1e-30)), np.log(high) if np.isfinite(high) else None)
    return before


def aggregate(values: tuple[Tensor, ...], how: Aggregator) -> Tensor:
    """One value `(B, 1)` of those of several critics, `(B, 1)` each."""
    together = torch.cat(values, dim=1)
    return together.mean(dim=1, keepdim=True) if how == "mean" else together.amin(dim=1, keepdim=True)


def require_finite(losses: tuple[float, ...], batch: SafetyBatch) -> None:
    """Raise `ValueError` for losses of a batch that are not finite."""
    if not np.isfinite(losses).all():
        bad = (~torch.isfinite(batch.g[:, 0])).sum().item()
        raise ValueError(
            f"The losses of the critics and the actor are {losses[1:]}; {bad} margins of the batch are not finite."
        )
