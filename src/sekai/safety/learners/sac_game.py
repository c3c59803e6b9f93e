"""SAC of two players: one critic Q(s, u, d), a controller that ascends it, a disturbance that descends it.

Wherever a value is taken, it is that against the worst of several answers to the control: those of the disturbance that
learns and of its earlier selves, as they are executed: in the set of the disturbances.

    target       B(g, [l,] min_k Q'(s', u', d_k(s', u'))),   u' the action of the mode
    controller   ascends   min_k Q(s, u, d_k(s, u))
    disturbance  descends  Q(s, u, d(s, u)),   u the action of the mode
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from gymnasium import spaces
from stable_baselines3.sac.policies import Actor, SACPolicy
from torch import nn
from torch.nn import functional

from sekai.safety.action_box import unit_box
from sekai.safety.arrays import Tensor
from sekai.safety.learners.game import GameLearner
from sekai.safety.learners.sac import Aggregator, SacSafety, aggregate, entropy_coefficient, require_finite
from sekai.safety.tensor.replay import SafetyBatch


class GameSacPolicy(SACPolicy):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """SB3's policy of SAC, whose critics see the actions of both players, and whose actor is the controller's.

    Args:
        observation_space, action_space, lr_schedule: as for `SACPolicy`; actions are those of both.
        control: what the controller chooses from.
        rest: as for `SACPolicy`.
    """

    def __init__(self, observation_space: Any, action_space: Any, lr_schedule: Any, *, control: Any, **rest: Any):
        self._control = control
        super().__init__(observation_space, action_space, lr_schedule, **rest)
        self.action_space = control  # what it predicts

    def make_actor(self, features_extractor: Any = None) -> Actor:
        """The actor of the controller."""
        options = self._update_features_extractor(
            {**self.actor_kwargs, "action_space": self._control}, features_extractor
        )
        return Actor(**options).to(self.device)


class Temperature(nn.Module):  # type: ignore[misc]  # torch is an extra, and read as Any
    """The entropy coefficient of the disturbance.

    Args:
        initial: what it is at first.
        target: entropy that is aimed at; None: the coefficient stays as it is.
        learning_rate: of its optimiser.
        bounds: the coefficient stays between these two numbers.
    """

    def __init__(self, initial: float, target: float | None, learning_rate: float, bounds: tuple[float, float]) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(initial).clamp(min=1e-30).log())
        self._target, self._bounds = target, bounds
        self.optimizer = torch.optim.Adam(self.parameters(), lr=learning_rate)

    def step(self, log_prob: Tensor) -> Tensor:
        """The coefficient, and a step of it towards the target for the next time."""
        if self._target is None:
            return self.log.detach().exp().clamp(*self._bounds)
        return entropy_coefficient(self.log, self.optimizer, log_prob, self._target, self._bounds)


class SacGame(GameLearner, SacSafety):
    """SAC of two players and either mode; arguments as for `GameLearner` and `SacSafety`."""

    policy_kwargs: dict[str, Any]
    target_entropy: Any
    policy_aliases: ClassVar[dict[str, Any]] = {"MlpPolicy": GameSacPolicy}
    _losses: ClassVar[tuple[str, ...]] = (*SacSafety._losses, "disturbance_loss")

    def _setup_model(self) -> None:
        given, control = self.policy_kwargs, self._players_of_action().control
        self.policy_kwargs = {**given, "control": unit_box(control)}
        if self.target_entropy == "auto":  # SB3's own would be that of both players
            self.target_entropy = -float(control.shape[0])
        try:
            super()._setup_model()
        finally:
            self.policy_kwargs = given

    def _make_disturbance(self, observes: spaces.Box, chooses: Any) -> Any:
        policy = self.policy
        extractor = policy.features_extractor_class(observes, **policy.features_extractor_kwargs)
        options = {**policy.actor_kwargs, "observation_space": observes, "action_space": chooses, "use_sde": False}
        actor = Actor(**options, features_extractor=extractor, features_dim=extractor.features_dim).to(self.device)
        rate = self.lr_schedule(1)
        actor.optimizer = policy.optimizer_class(actor.parameters(), lr=rate, **policy.optimizer_kwargs)
        learned = self.ent_coef_optimizer is not None
        initial = self.log_ent_coef.detach().exp().item() if learned else self.ent_coef_tensor.item()
        target = -float(chooses.shape[0]) if learned else None
        self.temperature = Temperature(initial, target, rate, self.alpha_bounds).to(self.device)
        return actor

    def _networks(self) -> tuple[Any, Any]:
        return self.actor, self.disturbance

    def _mode_of(self, network: Any, observations: Any) -> Tensor:
        chosen: Tensor = network(observations, deterministic=True)
        return chosen

    # ---- collecting ----------------------------------------------------------------------------

    def _explore(self, observations: Any) -> Tensor:
        controls = self._with_earlier_controllers(observations, self.actor(observations))
        met = self._met(observations, controls)
        chosen = self._with_other_disturbances(met, self.disturbance(met))
        return torch.cat([controls, chosen], 1)

    def _executed(self, actions: Tensor) -> Tensor:
        size = self._players.control.shape[0]
        return self._given(actions[:, :size], actions[:, size:])

    def _kept(self, given: Tensor, executed: Tensor | None) -> Tensor:
        kept, size = super()._kept(given, executed), self._players.control.shape[0]
        return torch.cat([kept[:, :size], self._players.admissible(kept[:, size:])], 1)

    def _end_training(self) -> None:
        super()._end_training()
        self._end_update()

    # ---- learning ------------------------------------------------------------------------------

    def _answers(self, observations: Any, controls: Tensor) -> list[Tensor]:
        """What the disturbances would choose, `(B, D)` each."""
        met = self._met(observations, controls)
        with torch.no_grad():
            chosen = [self._mode_of(network, met) for network in (self.disturbance, *self.league.disturbances)]
        return [self._players.admissible(choice) for choice in chosen]

    def _worst(self, critic: Any, observations: Any, controls: Tensor, how: Aggregator) -> Tensor:
        """The value of controls against the worst answer, `(B, 1)`."""
        answers = self._answers(observations, controls.detach())
        found = [aggregate(critic(observations, torch.cat([controls, d], 1)), how) for d in answers]
        return torch.cat(found, 1).amin(dim=1, keepdim=True)

    def _optimizers(self) -> list[Any]:
        return [*super()._optimizers(), self.disturbance.optimizer, self.temperature.optimizer]

    def _update(self, batch: SafetyBatch) -> tuple[float, ...]:
        observations, following = batch.observations, batch.next_observations
        with torch.no_grad():
            after = self.actor(following, deterministic=True)
            targets = self._targets(batch, self._worst(self.critic_target, following, after, self.target_aggregator))
        critic_loss = sum(0.5 * functional.mse_loss(q, targets) for q in self.critic(observations, batch.actions))
        _descend(self.critic, critic_loss)
        alpha, actor_loss = self._update_controller(observations)
        disturbance_loss = self._update_disturbance(observations)
        self._follow()
        losses = float(alpha), critic_loss.item(), actor_loss.item(), disturbance_loss.item()
        require_finite(losses, batch)
        return losses

    def _update_controller(self, observations: Any) -> tuple[Tensor, Tensor]:
        if self.use_sde:
            self.actor.reset_noise()
        controls, log_prob = self.actor.action_log_prob(observations)
        log_prob = log_prob.reshape(-1, 1)
        alpha = self._alpha(log_prob)
        loss = (alpha * log_prob - self._worst(self.critic, observations, controls, self.actor_aggregator)).mean()
        _descend(self.actor, loss)
        return alpha, loss

    def _update_disturbance(self, observations: Any) -> Tensor:
        with torch.no_grad():
            controls = self.actor(observations, deterministic=True)
        chosen, log_prob = self.disturbance.action_log_prob(self._met(observations, controls))
        alpha = self.temperature.step(log_prob.reshape(-1, 1))
        executed = torch.cat([controls, self._players.admissible(chosen)], 1)
        values = aggregate(self.critic(observations, executed), self.actor_aggregator)
        loss = (alpha * log_prob.reshape(-1, 1) + values).mean()
        _descend(self.disturbance, loss)
        return loss

    def _scaled(self, actions: Tensor) -> Tensor:
        return self._players.control_box.scaled(actions)

    def _lower_action_value(self, rows: Any, actions: Tensor) -> Tensor:
        return self._worst(self.critic, rows, actions, "min")

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "temperature"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        states, others = super()._get_torch_save_params()
        return [*states, "temperature", "temperature.optimizer"], others


def _descend(network: Any, loss: Tensor) -> None:
    network.optimizer.zero_grad()
    loss.backward()
    network.optimizer.step()
