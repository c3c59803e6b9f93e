"""Replay of margins, on the device of the learner. One class a mode: the avoid one has no place for l."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer

from sekai.safety.action_box import unit_box
from sekai.safety.arrays import Tensor
from sekai.safety.backups import AVOID, REACH_AVOID, Mode
from sekai.safety.tensor.columns import dtype_of, flat_rows, new_columns, put_row, put_slots
from sekai.safety.tensor.env import as_numpy


class SafetyBatch(NamedTuple):
    """Transitions that were drawn, `B` of them.

    Attributes:
        observations, next_observations: `(B, ...)`; the next ones mean nothing where the backup ends.
        actions: `(B, A)`, boxes scaled to [-1, 1].
        g: margins of the next states, `(B, 1)`.
        not_done: bool `(B, 1)`, the backup goes on.
        l: target margins of the next states, `(B, 1)`; None in avoid.
    """

    observations: Any
    actions: Tensor
    next_observations: Any
    g: Tensor
    not_done: Tensor
    l: Tensor | None  # noqa: E741


class TensorReplayBuffer(BaseBuffer):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """Transitions of N slots in a ring; what the two modes share.

    Args:
        buffer_size: transitions of all slots together.
        observation_space, action_space: of one slot.
        device: where they are.
        n_envs: N.
        optimize_memory_usage: refused: the true successors are kept.

    Raises:
        ValueError: `optimize_memory_usage`.
    """

    mode: ClassVar[Mode]
    _rows: ClassVar[tuple[str, ...]] = ("observations", "next_observations", "actions", "g", "not_done")
    pos: int

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: Any = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
    ) -> None:
        if optimize_memory_usage:
            raise ValueError("optimize_memory_usage is True; this buffer keeps true successors: leave it False.")
        super().__init__(max(buffer_size // n_envs, 1), observation_space, action_space, device, n_envs=n_envs)
        shape = self.buffer_size, n_envs
        self.observations = new_columns(observation_space, shape, self.device)
        self.next_observations = new_columns(observation_space, shape, self.device)
        self.actions = torch.zeros(
            (*shape, self.action_dim), dtype=dtype_of(unit_box(action_space)), device=self.device
        )
        self.g = torch.zeros(shape, device=self.device)
        self.not_done = torch.zeros(shape, dtype=torch.bool, device=self.device)

    def add(
        self,
        observations: Any,
        next_observations: Any,
        actions: Tensor,
        g: Tensor,
        *,
        not_done: Tensor,
        finals: tuple[Tensor, Any] | None = None,
        l: Tensor | None = None,  # noqa: E741
    ) -> None:
        """Add one step of all slots.

        Args:
            observations, next_observations: `(N, ...)`.
            actions: as executed, `(N, A)`, boxes scaled to [-1, 1].
            g: margins after the step, `(N,)`.
            not_done: bool `(N,)`, the backup goes on.
            finals: slots and rows that stand for the next observations of these slots.
            l: target margins after the step, `(N,)`; reach-avoid only.
        """
        t = self.pos
        put_row(self.observations, t, observations)
        put_row(self.next_observations, t, next_observations)
        if finals is not None:
            put_slots(self.next_observations, t, *finals)
        self.actions[t] = actions.reshape(self.n_envs, -1)
        self.g[t], self.not_done[t] = g, not_done
        self._keep_target(t, l)
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full, self.pos = True, 0

    def _keep_target(self, t: int, l: Tensor | None) -> None:  # noqa: E741
        """An avoid step has no target."""

    def sample(self, batch_size: int, env: Any = None) -> SafetyBatch:
        """Transitions drawn with replacement, each as likely as any other.

        Args:
            batch_size: B.
            env: SB3's `VecNormalize`, by whose present statistics observations are normalised; None for none.
        """
        return self._get_samples(torch.randint(self.size() * self.n_envs, (batch_size,), device=self.device), env)

    def state_dict(self) -> dict[str, Any]:
        """All transitions and the place of the next one, tensors of this buffer."""
        rows = {name: getattr(self, name) for name in self._rows}
        return {**rows, "pos": self.pos, "full": self.full}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        for name in self._rows:
            setattr(self, name, state[name])
        self.pos, self.full = state["pos"], state["full"]

    def _get_samples(self, batch_inds: Tensor, env: Any = None) -> SafetyBatch:
        g, not_done = (column.flatten()[batch_inds, None] for column in (self.g, self.not_done))
        before, actions, after = (
            flat_rows(column, batch_inds) for column in (self.observations, self.actions, self.next_observations)
        )
        if env is not None:
            before, after = (self._normalised(part, env) for part in (before, after))
        return SafetyBatch(before, actions, after, g, not_done, self._target(batch_inds))

    def _normalised(self, observations: Any, env: Any) -> Any:
        rows = env.normalize_obs(as_numpy(observations))
        if isinstance(rows, dict):
            return {key: torch.as_tensor(part, device=self.device) for key, part in rows.items()}
        return torch.as_tensor(rows, device=self.device)

    def _target(self, rows: Tensor) -> Tensor | None:
        return None


class TensorSafetyReplayBuffer(TensorReplayBuffer):
    """Transitions of an avoid learner."""

    mode: ClassVar[Mode] = AVOID


class TensorReachAvoidReplayBuffer(TensorReplayBuffer):
    """Transitions of a reach-avoid learner, with their target margins."""

    mode: ClassVar[Mode] = REACH_AVOID
    _rows = (*TensorReplayBuffer._rows, "l")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.l = torch.zeros_like(self.g)

    def _keep_target(self, t: int, l: Tensor | None) -> None:  # noqa: E741
        if l is None:
            raise ValueError("A reach-avoid step needs its target margins l; given None.")
        self.l[t] = l

    def _target(self, rows: Tensor) -> Tensor | None:
        return self.l.flatten()[rows, None]
