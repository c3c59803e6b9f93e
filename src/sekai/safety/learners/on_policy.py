"""`OnPolicySafety`: what makes a safety learner of Stable-Baselines3's PPO and A2C.

It owns collecting: margins are stored as they come, nothing is ever added to them, and returns are those of the
operator. Updates are those of the base class.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback

from sekai.safety.action_box import unit_box
from sekai.safety.arrays import Tensor
from sekai.safety.backups import backup_ends
from sekai.safety.learners.base import SafetyLearner
from sekai.safety.learners.gaussian import make_cheaper
from sekai.safety.steps import Stepper
from sekai.safety.tensor.rollouts import TensorReachAvoidRolloutBuffer, TensorSafetyRolloutBuffer

ROLLOUTS = {buffer.mode: buffer for buffer in (TensorSafetyRolloutBuffer, TensorReachAvoidRolloutBuffer)}


class OnPolicySafety(SafetyLearner):
    """Collecting of an on-policy safety learner; stands before the SB3 class among the bases."""

    rollout_buffer: TensorSafetyRolloutBuffer
    action_space: Any

    def _sb3_options(self, num_envs: int, given: dict[str, Any]) -> dict[str, Any]:
        return {**super()._sb3_options(num_envs, given), "rollout_buffer_class": ROLLOUTS[self.mode]}

    def _setup_model(self) -> None:
        given = self.action_space
        self.action_space = self._chosen_from()  # that of the policy, and of the rows it is trained on
        try:
            super()._setup_model()
        finally:
            self.action_space = given
        make_cheaper(self.policy)

    def _chosen_from(self) -> Any:
        """What the policy chooses from."""
        return unit_box(self.action_space)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        """As the SB3 class: actions in the units of the environment. Those of `policy.predict` are within [-1, 1]."""
        actions, state = super().predict(observation, state, episode_start, deterministic)
        return self._executed(torch.as_tensor(actions, device=self.device)).cpu().numpy(), state

    def collect_rollouts(
        self, env: Any, callback: BaseCallback, rollout_buffer: TensorSafetyRolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Collect `n_rollout_steps` steps of every slot; False where the callback ended the training."""
        assert self._last_obs is not None
        self.policy.set_training_mode(False)
        rollout_buffer.reset()
        self._begin_rollout(rollout_buffer)
        callback.on_rollout_start()  # before anything is drawn: a checkpoint that it writes goes on the same way
        if self.use_sde:
            self.policy.reset_noise(env.num_envs)
        with self._collecting() as stepper:
            for n in range(n_rollout_steps):
                if not self._collect_step(stepper, env, callback, rollout_buffer, n):
                    return False
        with torch.no_grad():
            last_values = self._values_of(self._tensors(self._last_obs))
        self._end_rollout(rollout_buffer)
        rollout_buffer.compute_returns_and_advantage(last_values)
        self._log(rollout_buffer.diagnostics())
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    def _collect_step(
        self, stepper: Stepper, env: Any, callback: BaseCallback, rollout_buffer: TensorSafetyRolloutBuffer, n: int
    ) -> bool:
        """Step `n` of a rollout; False where the callback ended the training."""
        if self.use_sde and self.sde_sample_freq > 0 and n % self.sde_sample_freq == 0:
            self.policy.reset_noise(env.num_envs)
        with torch.no_grad():
            actions, values, log_probs, executed = self._decide(self._taken_in(self._last_obs))
        before, step = self._last_obs, stepper.step(executed)
        self._last_obs = step.observations
        self.num_timesteps += env.num_envs
        ended, infos = step.terminated | step.timeouts, step.infos
        dones = ended.cpu().numpy() if infos else ended  # callbacks of SB3 read it by this name
        callback.update_locals(locals())
        if not callback.on_step():
            return False
        if infos:
            self._update_info_buffer(infos, dones)
        rollout_buffer.add(
            before,
            actions,
            step.g,
            values,
            log_probs,
            not_done=~backup_ends(step.terminated, step.timeouts, bootstrap_on_timeout=self.bootstrap_on_timeout),
            trace=~ended,
            l=step.l,
        )
        if step.final_observations is not None:
            slots, rows = step.final_observations
            with torch.no_grad():
                rollout_buffer.put_final_values(slots, self._values_of(self._tensors(rows), slots))
        self._see(step)
        return True

    def _decide(self, observations: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Actions, values and log probabilities of observations `(N, ...)`, and what the environment is given."""
        actions, values, log_probs = self.policy(observations)
        return actions, values, log_probs, self._executed(actions)

    def _values_of(self, observations: Any, slots: Any = slice(None)) -> Tensor:
        """Values of observations of these slots."""
        values: Tensor = self.policy.predict_values(observations)
        return values

    def _begin_rollout(self, rollout_buffer: TensorSafetyRolloutBuffer) -> None:
        self.gamma = rollout_buffer.gamma = self._gamma_now()
        rollout_buffer.terminal_type = self.terminal_type

    def _end_rollout(self, rollout_buffer: TensorSafetyRolloutBuffer) -> None:
        rollout_buffer.failure_value = self._logged_failure_value()

    def predict_value(self, observations: Any) -> np.ndarray[Any, Any]:
        """See `SafetyLearner.predict_value`: that of the value network."""
        return self._on_rows(observations, self.policy.predict_values)
