"""A safety learner on an environment whose tensors never leave their device: 64 double integrators, complete.

A mass between two walls at -1 and 1, pushed by a force of at most 1. It must never touch a wall. Run it as a program:

    python tests/test_tensor_sac.py          # trains for 20,000 steps and says what it has learned
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

from sekai.safety.learners import SafetySAC  # noqa: E402
from sekai.safety.tensor import TensorStep, TensorVecEnv  # noqa: E402

DT, LIMIT = 0.05, 100


class DoubleIntegrators(TensorVecEnv):
    """x' = v, v' = u, with the margin g = 1 - |x|."""

    dt = DT
    failure_horizon_s = 2.0  # full braking from wall to wall
    g_range = (-0.1, 1.0)

    def __init__(self, num_envs: int = 64, device: Any = "cpu") -> None:
        observations = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        super().__init__(num_envs, observations, gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32), device=device)
        self.width = torch.tensor([1.0, 2.0], device=self.device)
        self.state = torch.zeros((num_envs, 2), device=self.device)
        self.steps = torch.zeros(num_envs, dtype=torch.int64, device=self.device)

    def fresh(self) -> Any:
        """States to begin with, one for every slot: |x| < 1, |v| < 2."""
        return (2 * torch.rand((self.num_envs, 2), device=self.device) - 1) * torch.tensor(
            [1.0, 2.0], device=self.device
        )

    def reset_tensor(self) -> Any:
        self.state, self.steps = self.fresh(), torch.zeros_like(self.steps)
        return self.state

    def step_tensor(self, actions: Any) -> TensorStep:
        x, v = self.state.unbind(1)
        after = torch.stack([x + DT * v, v + DT * actions[:, 0]], 1)
        self.steps = self.steps + 1
        g = 1.0 - after[:, 0].abs()
        failed = g < 0
        timeouts = ~failed & (self.steps >= LIMIT)
        dones = failed | timeouts
        self.state = torch.where(dones[:, None], self.fresh(), after)  # without asking which: that would wait
        self.steps = torch.where(dones, 0, self.steps)
        return TensorStep(self.state, g, dones, timeouts, final_obs=after)


def learned(steps: int, device: Any = "cpu") -> Any:
    """A controller and its certificate."""
    options = {"policy_kwargs": {"net_arch": [64, 64]}, "seed": 0, "device": device}
    return SafetySAC("MlpPolicy", DoubleIntegrators(device=device), **options).learn(steps)


def test_the_certificate_of_a_short_run_knows_the_middle_from_the_doomed(device: str) -> None:
    torch.set_num_threads(1)
    model = learned(10_000, device)
    # braking from v takes v^2 / 2: at x = 0.9, v = 1.5 nothing helps
    assert model.certificate([0.0, 0.0]) and not model.certificate([0.9, 1.5]) and not model.certificate([-0.9, -1.5])
    state = np.array([[0.0, 0.0]])
    for _ in range(200):
        force = np.clip(model.predict(state.astype(np.float32), deterministic=True)[0], -1, 1)
        state = np.array([[state[0, 0] + DT * state[0, 1], state[0, 1] + DT * force[0, 0]]])
        assert abs(state[0, 0]) < 1.0


if __name__ == "__main__":
    model = learned(20_000)
    for where in ([0.0, 0.0], [0.5, 0.5], [0.9, 1.5]):
        print(
            where, f"V = {float(model.predict_value(where)):+.2f}", "safe" if model.certificate(where) else "not safe"
        )
