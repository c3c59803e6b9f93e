"""PPO on margins, of either mode."""

from __future__ import annotations

from typing import Any

from stable_baselines3 import PPO

from sekai.safety.learners.on_policy import OnPolicySafety


class PpoSafety(OnPolicySafety, PPO):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """PPO of either mode; rollouts and batches grow with the number of slots unless they are given."""

    def _sb3_options(self, num_envs: int, given: dict[str, Any]) -> dict[str, Any]:
        n_steps = given.get("n_steps", max(100, 2048 // num_envs))
        rows = n_steps * num_envs
        most = max(1, min(10, rows // 64))
        batches = next(count for count in range(most, 0, -1) if rows % count == 0)
        options = {"n_steps": n_steps, "batch_size": rows // batches, "n_epochs": 5}
        return {**super()._sb3_options(num_envs, given), **options}
