"""Rollout buffers whose returns are those of a safety operator; on the device of the learner from end to end.

One class a mode: the avoid one has no place for l.

    t            0    1    2    3 = T - 1
    values       v0   v1   v2   v3          V of the observations that were acted on
    next_values  v1   v2   v*   v4          V of the true successors: v* that of a final observation, v4 the tail's
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from sekai.safety.arrays import Tensor
from sekai.safety.backups import AVOID, REACH_AVOID, Mode
from sekai.safety.diagnostics import active_branches, value_shares
from sekai.safety.returns import safety_returns
from sekai.safety.tensor.columns import dtype_of, flat_rows, new_columns, put_row


class TensorSafetyRolloutBuffer(BaseBuffer):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """Rows of one rollout, `T` steps of `N` slots, for an avoid learner.

    Args:
        buffer_size: T.
        observation_space, action_space: of one slot.
        device: where the rows are.
        gae_lambda: weight of what was met later against the value, in `[0, 1]`.
        gamma: discount of a step.
        n_envs: N.

    Attributes:
        failure_value, terminal_type: as for `sekai.safety.backups.target`; set by the learner.
    """

    mode: ClassVar[Mode] = AVOID

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: Any = "auto",
        gae_lambda: float = 1.0,
        gamma: float = 0.99,
        n_envs: int = 1,
    ) -> None:
        super().__init__(buffer_size, observation_space, action_space, device, n_envs=n_envs)
        self.gae_lambda, self.gamma = gae_lambda, gamma
        self.failure_value: float | None = None
        self.terminal_type = "all"
        self.reset()

    def reset(self) -> None:
        """Forget all rows; their arrays are used again."""
        super().reset()
        if not hasattr(self, "g"):
            self._lay_out()

    def _lay_out(self) -> None:
        self.observations = new_columns(self.observation_space, (self.buffer_size, self.n_envs), self.device)
        self.actions = self._column((self.action_dim,), dtype_of(self.action_space))
        self.g, self._values, self._log_probs, self._next_values = (self._column() for _ in range(4))
        self.not_done, self.trace = self._column(dtype=torch.bool), self._column(dtype=torch.bool)
        self._returns, self._advantages = self._column(), self._column()

    def _column(self, shape: tuple[int, ...] = (), dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros((self.buffer_size, self.n_envs, *shape), dtype=dtype, device=self.device)

    def add(
        self,
        observations: Any,
        actions: Tensor,
        g: Tensor,
        values: Tensor,
        log_probs: Tensor,
        *,
        not_done: Tensor,
        trace: Tensor,
        l: Tensor | None = None,  # noqa: E741
    ) -> None:
        """Add one step of all slots.

        Args:
            observations: that were acted on, `(N, ...)`.
            actions: as the policy gave them, `(N, A)`.
            g: margins after the step, `(N,)`.
            values, log_probs: of the observations and actions, `(N,)`.
            not_done, trace: bool `(N,)`, see `sekai.safety.returns`.
            l: target margins after the step, `(N,)`; reach-avoid only.
        """
        t = self.pos
        put_row(self.observations, t, observations)
        self.actions[t] = actions.reshape(self.n_envs, -1)
        self.g[t] = g
        self._values[t], self._log_probs[t] = values.flatten(), log_probs.flatten()
        self.not_done[t], self.trace[t] = not_done, trace
        self._keep_target(t, l)
        self.pos += 1
        self.full = self.pos == self.buffer_size

    def _keep_target(self, t: int, l: Tensor | None) -> None:  # noqa: E741
        """An avoid rollout has no target."""

    def put_final_values(self, slots: Tensor, values: Tensor) -> None:
        """The values of the final observations of the latest row, where they are backed up.

        Args:
            slots: where; integers `(K,)`.
            values: `(K,)`.
        """
        self._next_values[self.pos - 1, slots] = values.flatten()

    def compute_returns_and_advantage(self, last_values: Tensor, dones: Any = None) -> None:
        """The lambda returns of all rows and their advantages.

        Args:
            last_values: of the observations after the last row, `(N,)`.
            dones: not looked at; the rows say where the episodes ended.

        Raises:
            ValueError: a margin that is not finite; found here, once a rollout, since a look waits for the device.
        """
        if not bool(torch.isfinite(self.g).all()):
            t, slot = (int(place) for place in (~torch.isfinite(self.g)).nonzero()[0])
            raise ValueError(f"The margin g of sub-env {slot} in step {t} of the rollout is {float(self.g[t, slot])}.")
        later = torch.cat((self._values[1:], last_values.reshape(1, -1)))
        self._next_values = torch.where(self.trace, later, self._next_values)
        self._returns = safety_returns(
            self.mode,
            self.g,
            self._next_values,
            not_done=self.not_done,
            trace=self.trace,
            gamma=self.gamma,
            lambda_=self.gae_lambda,
            l_t=self._target(),
            terminal_type=self.terminal_type,
            failure_value=self.failure_value,
        )
        self._advantages = self._returns - self._values

    def _target(self) -> Tensor | None:
        return None

    def diagnostics(self) -> dict[str, float]:
        """What shows early that a certificate is going wrong, read from the device; see `sekai.safety.diagnostics`.

        `value_at_start` is the mean value of first states; left out where no episode began after the first row.
        """
        found = value_shares(self.g, self._values)
        found.update(active_branches(self.g, self._next_values, self.not_done, self._target()))
        starts = self._values[1:][~self.trace[:-1]]
        if len(starts):
            found["value_at_start"] = float(starts.mean())
        return found

    @property
    def values(self) -> np.ndarray[Any, Any]:
        """Values of the observations, `(T, N)`, read from the device."""
        array: np.ndarray[Any, Any] = self._values.cpu().numpy()
        return array

    @property
    def returns(self) -> np.ndarray[Any, Any]:
        """Lambda returns, `(T, N)`, read from the device."""
        array: np.ndarray[Any, Any] = self._returns.cpu().numpy()
        return array

    def get(self, batch_size: int | None = None) -> Iterator[RolloutBufferSamples]:
        """All rows in random order, in batches."""
        rows = self.buffer_size * self.n_envs
        order = torch.randperm(rows, device=self.device)
        for start in range(0, rows, batch_size or rows):
            yield self._get_samples(order[start : start + (batch_size or rows)])

    def _get_samples(self, batch_inds: Tensor, env: Any = None) -> RolloutBufferSamples:
        actions = self.actions.flatten(0, 1)[batch_inds].float()  # MultiBinary needs floats, the others take them
        flat = [
            column.flatten(0, 1)[batch_inds]
            for column in (self._values, self._log_probs, self._advantages, self._returns)
        ]
        return RolloutBufferSamples(flat_rows(self.observations, batch_inds), actions, *flat)


class TensorReachAvoidRolloutBuffer(TensorSafetyRolloutBuffer):
    """`TensorSafetyRolloutBuffer` with the target margins of a reach-avoid learner."""

    mode: ClassVar[Mode] = REACH_AVOID

    def _lay_out(self) -> None:
        super()._lay_out()
        self.l = self._column()

    def _keep_target(self, t: int, l: Tensor | None) -> None:  # noqa: E741
        if l is None:
            raise ValueError("A reach-avoid rollout needs the target margins l of every step; given None.")
        self.l[t] = l

    def _target(self) -> Tensor | None:
        return self.l
