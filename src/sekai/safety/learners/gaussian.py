"""A policy of Stable-Baselines3 made cheaper to ask: the same weights, the same draws, fewer passes over memory.

SB3's Gaussian builds tensors of the deviation in the shape of the actions, and each layer writes what its tanh reads
into a tensor of its own. For thousands of slots that is a fifth of what acting costs.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from stable_baselines3.common.distributions import DiagGaussianDistribution
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import nn

from sekai.safety.arrays import Tensor

HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


class DiagGaussian(DiagGaussianDistribution):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """SB3's distribution of independent Gaussians, for means `(N, A)` and one log deviation `(A,)` for all of them."""

    def proba_distribution(self, mean_actions: Tensor, log_std: Tensor) -> DiagGaussian:
        """Take these means and log deviations."""
        self._mean, self._log_std = mean_actions, log_std
        return self

    @property
    def distribution(self) -> Any:
        """The same as torch has it."""
        return torch.distributions.Normal(self._mean, self._log_std.exp().expand_as(self._mean))

    def sample(self) -> Tensor:
        """Actions drawn, `(N, A)`."""
        self._require_finite()
        return torch.addcmul(self._mean, torch.randn_like(self._mean), self._log_std.exp())

    def mode(self) -> Tensor:
        """The means."""
        self._require_finite()
        return self._mean

    def _require_finite(self) -> None:
        """Raise `ValueError` for means that are not finite, where torch would have looked at them."""
        if torch.distributions.Distribution._validate_args and not bool(torch.isfinite(self._mean).all()):
            raise ValueError(
                "The policy gives actions that are not finite: its weights are not, or what it observed is not. A "
                "lower learning_rate, or normalize_observations=True, may keep it from there."
            )

    def log_prob(self, actions: Tensor) -> Tensor:
        """Log densities `(N,)` of actions `(N, A)`."""
        z = (actions - self._mean) * (-self._log_std).exp()
        return (z * z).sum(dim=1) * -0.5 - (self._log_std + HALF_LOG_2_PI).sum()

    def entropy(self) -> Tensor:
        """Entropies `(N,)`, which do not depend on the means."""
        return (self._log_std + HALF_LOG_2_PI + 0.5).sum().expand(len(self._mean))


class InPlaceTanh(nn.Tanh):  # type: ignore[misc]  # torch is an extra, and read as Any
    """tanh into the tensor that it is given; what stands before it must not need its own output to learn."""

    def forward(self, rows: Tensor) -> Tensor:
        """tanh of `rows`, which is overwritten."""
        return rows.tanh_()


def make_cheaper(policy: Any) -> None:
    """Replace what is costly in a policy of SB3's classes; others stay as they are."""
    if not isinstance(policy, ActorCriticPolicy):
        return
    if type(policy.action_dist) is DiagGaussianDistribution:
        policy.action_dist = DiagGaussian(policy.action_dist.action_dim)
    for part in policy.mlp_extractor.modules():
        if isinstance(part, nn.Sequential):
            for n in range(1, len(part)):
                if type(part[n]) is nn.Tanh and type(part[n - 1]) is nn.Linear:
                    part[n] = InPlaceTanh()
