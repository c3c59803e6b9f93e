"""A `MaskedBox` observation in Stable-Baselines3's policy for dicts."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env

from sekai import spaces


class CountOrders(gymnasium.Env[Any, Any]):
    """Say how many orders there are; one-step episodes."""

    def __init__(self) -> None:
        self.observation_space = spaces.MaskedBox(1.0, 2.0, (2,), 3)
        self.action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.count = int(self.np_random.integers(4))
        return self.observation_space.pack(np.ones((self.count, 2))), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.empty(), float(int(action) == self.count), True, False, {}


def test_the_environment_passes_the_checker() -> None:
    check_env(CountOrders(), warn=False)


def test_the_dict_policy_sees_the_elements_and_the_mask() -> None:
    env = CountOrders()
    model = PPO("MultiInputPolicy", env, n_steps=32, batch_size=16, n_epochs=1, seed=0, device="cpu")
    before = [parameter.detach().clone() for parameter in model.policy.parameters()]
    model.learn(64)
    assert any((old != new).any() for old, new in zip(before, model.policy.parameters(), strict=True))
    assert model.policy.features_extractor.features_dim == 3 * 2 + 3
    action, _ = model.predict(env.observation_space.pack([[1.0, 2.0]]), deterministic=True)
    assert action in env.action_space
