"""`OffPolicySafety`: collecting of SAC and DQN on margins, on the device of the learner."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.type_aliases import RolloutReturn, TrainFreq, TrainFrequencyUnit
from stable_baselines3.common.utils import should_collect_more_steps

from sekai.safety.arrays import Tensor
from sekai.safety.backups import AVOID, backup_ends, target
from sekai.safety.diagnostics import active_branches, value_shares
from sekai.safety.learners.base import SafetyLearner
from sekai.safety.steps import MarginStep, Stepper
from sekai.safety.tensor.env import is_tensor_env
from sekai.safety.tensor.replay import (
    SafetyBatch,
    TensorReachAvoidReplayBuffer,
    TensorReplayBuffer,
    TensorSafetyReplayBuffer,
)

REPLAYS = {buffer.mode: buffer for buffer in (TensorSafetyReplayBuffer, TensorReachAvoidReplayBuffer)}


class OffPolicySafety(SafetyLearner):
    """Collecting of an off-policy safety learner; stands before the SB3 class among the bases.

    A critic of a discount near 1 can rise by (1 - gamma) per update only, and fall at once; so avoid begins high, and
    reach-avoid low.

    Args:
        policy, env: as for the SB3 class.
        initial_value: what the critics say at first; by default the largest margin seen before learning starts for
            avoid, the least of min(l, g) for reach-avoid; None: what SB3 begins with.
        sb3: further arguments, see `SafetyLearner`.

    Raises:
        ValueError: an `initial_value` that is none of these.
    """

    replays = True
    replay_buffer: TensorReplayBuffer
    _learns_from_executed = True
    _last_original_obs: Any
    _unread: Tensor | int | None = None  # episodes that have ended since it was last read from the device
    _log_interval: int | None = None

    def __init__(self, policy: Any, env: Any, *, initial_value: Any = "auto", **sb3: Any) -> None:
        is_number = isinstance(initial_value, Real) and math.isfinite(initial_value)
        if not (initial_value is None or initial_value == "auto" or is_number):
            raise ValueError(f"initial_value is {initial_value!r}; expected a finite number, 'auto' or None.")
        self.initial_value = initial_value
        super().__init__(policy, env, **sb3)

    def _sb3_options(self, num_envs: int, given: dict[str, Any]) -> dict[str, Any]:
        return {**super()._sb3_options(num_envs, given), "replay_buffer_class": REPLAYS[self.mode]}

    def _explore(self, observations: Any) -> Tensor:
        """Actions to learn from, boxes scaled to [-1, 1]."""
        raise NotImplementedError

    def collect_rollouts(
        self,
        env: Any,
        callback: BaseCallback,
        train_freq: TrainFreq,
        replay_buffer: TensorReplayBuffer,
        action_noise: ActionNoise | None = None,
        learning_starts: int = 0,
        log_interval: int | None = None,
    ) -> RolloutReturn:
        """Collect and store as many steps or episodes as `train_freq` says."""
        self.policy.set_training_mode(False)
        if action_noise is not None:
            raise ValueError("action_noise is given; safety learners explore with their own policy: leave it out.")
        if train_freq.unit == TrainFrequencyUnit.EPISODE and is_tensor_env(env):
            raise ValueError("train_freq counts episodes, which are not read from a tensor environment: give steps.")
        steps, episodes = 0, 0
        self._log_interval = log_interval
        callback.on_rollout_start()  # before anything is drawn: a checkpoint that it writes goes on the same way
        if self.use_sde:
            self.actor.reset_noise(env.num_envs)
        with self._collecting() as stepper:
            while should_collect_more_steps(train_freq, steps, episodes):
                if self.use_sde and self.sde_sample_freq > 0 and steps % self.sde_sample_freq == 0:
                    self.actor.reset_noise(env.num_envs)
                step = self._collect_step(stepper, env, callback, replay_buffer, learning_starts)
                steps += 1
                if step is None:
                    return RolloutReturn(steps * env.num_envs, episodes, continue_training=False)
                ended = step.terminated | step.timeouts
                if step.infos:
                    self._update_info_buffer(step.infos, ended.cpu().numpy())
                    episodes += self._count_episodes(ended.sum())
                else:
                    self._unread = ended.sum() if self._unread is None else self._unread + ended.sum()
        callback.on_rollout_end()
        return RolloutReturn(steps * env.num_envs, episodes, True)

    def _collect_step(
        self,
        stepper: Stepper,
        env: Any,
        callback: BaseCallback,
        replay_buffer: TensorReplayBuffer,
        learning_starts: int,
    ) -> MarginStep | None:
        """One step, stored; None where the callback ended the training."""
        observations = self._taken_in(self._last_obs)
        with torch.no_grad():
            uniform = not (self.use_sde and self.use_sde_at_warmup)
            if self.num_timesteps < learning_starts and uniform:
                actions = self._random_actions(env.num_envs)
            else:
                actions = self._explore(observations)
        before, step = self._last_obs, stepper.step(self._executed(actions))
        self._last_obs = step.observations
        self.num_timesteps += env.num_envs
        ended, infos = step.terminated | step.timeouts, step.infos
        dones = ended.cpu().numpy() if infos else ended  # callbacks of SB3 read it by this name
        callback.update_locals(locals())
        if not callback.on_step():
            return None
        following, finals = step.observations, step.final_observations
        if self._vec_normalize_env is not None:  # kept as they are, and normalised when they are drawn
            before, following = self._last_original_obs, self._vec_normalize_env.get_original_obs()
            self._last_original_obs = following
            finals = None if finals is None else (finals[0], self._vec_normalize_env.unnormalize_obs(finals[1]))
        replay_buffer.add(
            before,
            following,
            self._kept(actions, step.executed),
            step.g,
            not_done=~backup_ends(step.terminated, step.timeouts, bootstrap_on_timeout=self.bootstrap_on_timeout),
            finals=finals,
            l=step.l,
        )
        self._see(step)
        self._update_current_progress_remaining(self.num_timesteps, self._total_timesteps)
        self._on_step()
        return step

    def _count_episodes(self, ended: Tensor | int) -> int:
        """Count episodes that have ended, and write the log where enough of them have."""
        before, count, interval = self._episode_num, int(ended), self._log_interval
        self._episode_num += count
        if interval is not None and before // interval != self._episode_num // interval:
            self.dump_logs()
        return count

    def save(self, path: Any, exclude: Any = None, include: Any = None) -> None:
        """See `SafetyLearner.save`."""
        if self._unread is not None:
            self._unread = int(self._unread)
        super().save(path, exclude, include)

    def _random_actions(self, num_envs: int) -> Tensor:
        """Uniform actions, boxes scaled to [-1, 1]."""
        space = self.action_space
        if isinstance(space, spaces.Box):
            return 2 * torch.rand((num_envs, *space.shape), device=self.device) - 1
        return torch.randint(int(space.n), (num_envs,), device=self.device)

    def _kept(self, given: Tensor, executed: Tensor | None) -> Tensor:
        """The actions to learn from: those that the environment says it executed, boxes scaled to [-1, 1]."""
        if executed is None:
            return given
        executed = executed.reshape(given.shape)
        return executed if self._box is None else self._box.scaled(executed)

    def _targets(self, batch: SafetyBatch, v_next: Tensor) -> Tensor:
        """What Q of the batch is regressed on."""
        self._backed_up = batch, v_next
        return target(
            self.mode,
            batch.g,
            v_next,
            batch.not_done,
            self.gamma,
            batch.l,
            self.terminal_type,
            failure_value=self._failure_now,
        )

    def _drawn(self, batch_size: int) -> SafetyBatch:
        return self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)

    def _begin_training(self) -> None:
        if self._unread is not None:  # here losses are read from the device anyway
            ended, self._unread = self._unread, None
            self._count_episodes(ended)
        self.gamma = self._gamma_now()
        self._failure_now = self._logged_failure_value()
        if self._n_updates == 0:
            self._initialise_critics()

    def _value_networks(self) -> list[Any]:
        """The networks of values and their targets, each a sequence of layers that ends with a linear one."""
        raise NotImplementedError

    def _initialise_critics(self) -> None:
        value = self.initial_value
        if value is None:
            return
        if value == "auto":
            buffer: Any = self.replay_buffer
            g = buffer.g[: buffer.size()]
            value = g.max() if self.mode == AVOID else torch.minimum(g, buffer.l[: buffer.size()]).min()
        with torch.no_grad():
            for network in self._value_networks():
                network[-1].bias.fill_(value)

    def _end_training(self) -> None:
        """Log what the last batch shows of the certificate."""
        batch, v_next = self._backed_up
        self._log({**value_shares(batch.g, v_next), **active_branches(batch.g, v_next, batch.not_done, batch.l)})
        del self._backed_up
