"""PPO of two players: both learn from the same rollouts, each from the games that it plays itself.

Every match of the league has a value of its own, a head of one network; returns are those of the operator along what
that match met. The value that is reported is the least of the heads of the controller that learns.

    controller   ascends the advantage  G - V_match(s)       in its games
    disturbance  descends               G - W(s, u)          in its games, W its own value of what it observes
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import nn
from torch.nn import functional

from sekai.safety.action_box import unit_box
from sekai.safety.arrays import Tensor
from sekai.safety.learners.game import GameLearner
from sekai.safety.learners.gaussian import make_cheaper
from sekai.safety.learners.ppo import PpoSafety
from sekai.safety.tensor.columns import flat_rows


class Heads(nn.Linear):  # type: ignore[misc]  # torch is an extra, and read as Any
    """One value for each match, `(B, M)` of features `(B, F)`; called, the least of those of one controller, `(B, 1)`.

    Args:
        features: F.
        matches: M.
        own: which of them are those of the controller that learns.
    """

    def __init__(self, features: int, matches: int, own: slice) -> None:
        super().__init__(features, matches)
        self.own = own

    def every(self, features: Tensor) -> Tensor:
        """`(B, M)`."""
        values: Tensor = super().forward(features)
        return values

    def forward(self, features: Tensor) -> Tensor:
        """`(B, 1)`."""
        return self.every(features)[:, self.own].amin(dim=1, keepdim=True)


#: arguments of a policy that the network of the disturbance takes as well
OF_BOTH = ("net_arch", "activation_fn", "ortho_init", "log_std_init", "optimizer_class", "optimizer_kwargs")


class PpoGame(GameLearner, PpoSafety):
    """PPO of two players and either mode; arguments as for `GameLearner` and SB3's PPO.

    Args:
        policy, env: as for `GameLearner`.
        disturbance_kwargs: arguments of the network of the disturbance; those of `OF_BOTH` that are left out are those
            of `policy_kwargs`. Noise of the controller (`log_std_init`) lowers what its values say, noise of the
            disturbance raises it, and keeps it searching.
        rest: as for `GameLearner`.

    Raises:
        ValueError: `target_kl` or `clip_range_vf`, which the updates of two players do not have; arguments that the
            network of the disturbance does not take.
    """

    policy: Any

    def __init__(self, policy: Any, env: Any, *, disturbance_kwargs: dict[str, Any] | None = None, **rest: Any) -> None:
        self.disturbance_kwargs = dict(disturbance_kwargs or {})
        for name in self.disturbance_kwargs:
            if name not in OF_BOTH:
                raise ValueError(f"disturbance_kwargs has {name!r}; expected some of {', '.join(OF_BOTH)}.")
        for name in ("target_kl", "clip_range_vf"):
            if rest.get(name) is not None:
                raise ValueError(f"{name} is {rest[name]}, and PPO of two players updates without it: leave it out.")
        super().__init__(policy, env, **rest)

    def _chosen_from(self) -> Any:
        return unit_box(self._players.control)

    def _setup_model(self) -> None:
        super()._setup_model()
        self._row_match = self.league.match_of_slot
        T, N, D = self.n_steps, self.n_envs, self._players.disturbance.shape[0]
        self._chosen = torch.zeros((T, N, D), device=self.device)
        self._log_probs, self._answers = (torch.zeros((T, N), device=self.device) for _ in range(2))

    def _make_disturbance(self, observes: spaces.Box, chooses: Any) -> Any:
        self._put_heads()
        policy = ActorCriticPolicy(observes, chooses, self.lr_schedule, **self._network_options()).to(self.device)
        make_cheaper(policy)
        return policy

    def _network_options(self) -> dict[str, Any]:
        shared = {name: self.policy_kwargs[name] for name in OF_BOTH if name in self.policy_kwargs}
        return {**shared, **self.disturbance_kwargs}

    def _put_heads(self) -> None:
        """Give the policy a value for each match."""
        policy, own = self.policy, [m for m, match in enumerate(self.matches) if match.controller is None]
        heads = Heads(policy.mlp_extractor.latent_dim_vf, len(self.matches), slice(own[0] if own else 0, None))
        nn.init.orthogonal_(heads.weight)
        nn.init.zeros_(heads.bias)
        policy.value_net = heads.to(self.device)
        options = policy.optimizer_kwargs
        policy.optimizer = policy.optimizer_class(policy.parameters(), lr=self.lr_schedule(1), **options)

    def _networks(self) -> tuple[Any, Any]:
        return self.policy, self.disturbance

    def _mode_of(self, network: Any, observations: Any) -> Tensor:
        return network.get_distribution(observations).mode().clamp(-1.0, 1.0)

    # ---- collecting ----------------------------------------------------------------------------

    def _latents(self, observations: Any) -> tuple[Tensor, Tensor]:
        """Features of the policy and of its values, `(B, F)`."""
        policy = self.policy
        features = policy.extract_features(observations)
        if policy.share_features_extractor:
            latents: tuple[Tensor, Tensor] = policy.mlp_extractor(features)
            return latents
        return policy.mlp_extractor.forward_actor(features[0]), policy.mlp_extractor.forward_critic(features[1])

    def _decide(self, observations: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        for_policy, for_values = self._latents(observations)
        drawn = self.policy._get_action_dist_from_latent(for_policy)
        controls = drawn.get_actions()
        log_probs, values = drawn.log_prob(controls), self._heads_of(for_values)
        controls = self._with_earlier_controllers(observations, controls)
        met = self._met(observations, controls.clamp(-1.0, 1.0))
        chosen, answers, disturbance_log_probs = self.disturbance(met)
        t = self.rollout_buffer.pos
        self._log_probs[t], self._answers[t] = disturbance_log_probs, answers.flatten()
        self._chosen[t] = chosen = self._with_other_disturbances(met, chosen)
        return controls, values, log_probs, self._given(controls, chosen)

    def _heads_of(self, features: Tensor, slots: Any = slice(None)) -> Tensor:
        every = self.policy.value_net.every(features)
        return every.gather(1, self._row_match[slots].reshape(-1, 1))

    def _values_of(self, observations: Any, slots: Any = slice(None)) -> Tensor:
        return self._heads_of(self._latents(observations)[1], slots)

    # ---- learning ------------------------------------------------------------------------------

    def train(self) -> None:
        """Learn from the rollout."""
        for network in (self.policy, self.disturbance):
            network.set_training_mode(True)
        self._update_learning_rate([self.policy.optimizer, self.disturbance.optimizer])
        self._clip = self.clip_range(self._current_progress_remaining)
        rows = self._rows()
        mine = torch.tensor([match.controller is None for match in self.matches], device=self.device)
        yours = torch.tensor([match.disturbance is None for match in self.matches], device=self.device)
        theirs = yours[rows["match"]].nonzero()[:, 0]
        losses: dict[str, list[float]] = {}
        for _ in range(self.n_epochs):
            for batch in torch.randperm(len(rows["match"]), device=self.device).split(self.batch_size):
                _note(losses, self._update_controller(rows, batch, mine[rows["match"][batch]].float()))
            for batch in theirs[torch.randperm(len(theirs), device=self.device)].split(self.batch_size):
                _note(losses, self._update_disturbance(rows, batch))
            self._n_updates += 1
        for name, found in losses.items():
            self.logger.record(f"train/{name}", float(np.mean(found)))
        self.logger.record("train/std", self.policy.log_std.detach().exp().mean().item())
        self.logger.record("train/disturbance_std", self.disturbance.log_std.detach().exp().mean().item())
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self._end_update()

    def _rows(self) -> dict[str, Tensor]:
        """The rollout as rows, `(T * N, ...)`."""
        buffer = self.rollout_buffer
        T, N = buffer.g.shape
        every = torch.arange(T * N, device=self.device)
        return {
            "observations": flat_rows(buffer.observations, every),
            "controls": buffer.actions.flatten(0, 1),
            "log_probs": buffer._log_probs.flatten(),
            "advantages": buffer._advantages.flatten(),
            "returns": buffer._returns.flatten(),
            "chosen": self._chosen.flatten(0, 1),
            "disturbance_log_probs": self._log_probs.flatten(),
            "answers": self._answers.flatten(),
            "match": self._row_match.repeat(T),
        }

    def _update_controller(self, rows: dict[str, Tensor], batch: Tensor, mine: Tensor) -> dict[str, float]:
        """One step of the controller, in its games, and of the values of all games."""
        for_policy, for_values = self._latents(rows["observations"][batch])
        drawn = self.policy._get_action_dist_from_latent(for_policy)
        values = self.policy.value_net.every(for_values).gather(1, rows["match"][batch, None])[:, 0]
        value_loss = functional.mse_loss(values, rows["returns"][batch])
        log_probs = drawn.log_prob(rows["controls"][batch])
        policy_loss = self._clipped(log_probs - rows["log_probs"][batch], rows["advantages"][batch], mine)
        entropy = drawn.entropy().mean()
        self._step(self.policy, policy_loss + self.vf_coef * value_loss - self.ent_coef * entropy)
        return {"policy_gradient_loss": policy_loss.item(), "value_loss": value_loss.item()}

    def _update_disturbance(self, rows: dict[str, Tensor], batch: Tensor) -> dict[str, float]:
        """One step of the disturbance, on rows of its games."""
        controls = rows["controls"][batch].clamp(-1.0, 1.0)
        with torch.no_grad():
            met = self._met(rows["observations"][batch], controls)
        answers, log_probs, entropy = self.disturbance.evaluate_actions(met, rows["chosen"][batch])
        returns = rows["returns"][batch]
        value_loss = functional.mse_loss(answers.flatten(), returns)
        gains = rows["answers"][batch] - returns
        everyone = torch.ones_like(gains)
        policy_loss = self._clipped(log_probs - rows["disturbance_log_probs"][batch], gains, everyone)
        self._step(self.disturbance, policy_loss + self.vf_coef * value_loss - self.ent_coef * entropy.mean())
        return {"disturbance_policy_gradient_loss": policy_loss.item(), "disturbance_value_loss": value_loss.item()}

    def _clipped(self, log_ratio: Tensor, advantages: Tensor, weights: Tensor) -> Tensor:
        """The clipped loss of PPO over the rows of weight 1, whose advantages are normalised."""
        count = weights.sum().clamp(min=1.0)
        if self.normalize_advantage:
            mean = (weights * advantages).sum() / count
            spread = ((weights * (advantages - mean) ** 2).sum() / count).sqrt()
            advantages = (advantages - mean) / (spread + 1e-8)
        ratio = log_ratio.exp()
        worse = torch.minimum(advantages * ratio, advantages * ratio.clamp(1 - self._clip, 1 + self._clip))
        return -(weights * worse).sum() / count

    def _step(self, network: Any, loss: Tensor) -> None:
        network.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), self.max_grad_norm)
        network.optimizer.step()

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_chosen", "_log_probs", "_answers", "_row_match", "_clip"]


def _note(found: dict[str, list[float]], numbers: dict[str, float]) -> None:
    for name, number in numbers.items():
        found.setdefault(name, []).append(number)
