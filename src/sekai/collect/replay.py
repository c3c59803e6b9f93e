"""`ReplayBuffer`: the latest transitions of each slot, and draws from them.

Every slot has a ring of its own, into which its transitions are written in order; rows that are none are left out. The
successor of a stored row is most often the observation of the next one, and then it is stored once. Where it is not
(an episode ended, a row in between was lost), it stands in a table on the side. So what is drawn has its true
successor, and memory is that of the observations and little more.

    slot 0, ring of 6      oldest                 newest
    observation         c2    c3  | d0    d1    d2  | (free)       episodes c and d; c ended after its step 3
    next observation    c3   (c4)   d1    d2   (d3)
                               |                 |
                             table       the latest successor of the slot, kept until its next row comes
    continues            x     .     x     x     .

An n-step draw goes on while rows continue, so it passes neither an end nor a lost row nor the newest row.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.collect import replay_state
from sekai.collect.replay_columns import Arrays, Layout, Leaf, equal_rows, extra_leaves
from sekai.collect.replay_rows import ReplaySample, Rows
from sekai.collect.replay_storage import Storage, SuccessorTable
from sekai.collect.returns_checks import check_steps, check_unit
from sekai.seeding import Seed, check_seed
from sekai.spaces.checks import whole_number

_FLAG, _REWARD = np.dtype(np.bool_), np.dtype(np.float64)


class ReplayBuffer:
    """The latest transitions of `num_envs` slots, drawn uniformly.

        buffer = ReplayBuffer(vec.observation_space, vec.action_space, capacity=100_000, num_envs=vec.num_envs, seed=0)
        buffer.extend(collector.collect())
        batch = buffer.sample(256, gamma=0.99, n_step=3)

    Args:
        observation_space, action_space: of one sub-environment: Box, Discrete, MultiDiscrete, MultiBinary, Dict, Tuple.
        capacity: transitions of all slots together, a multiple of `num_envs`.
        num_envs: number of slots, `N`.
        extras: further columns, name -> what `np.dtype` takes, for instance `{"log_prob": np.float32, "state":
            (np.float32, (64,))}`.
        seed: of the draws; an int, None or a generator.
        directory: an empty folder for files that hold the columns, for more than fits into memory; None for memory.

    Raises:
        ValueError: a capacity that is no multiple of `num_envs`.
        TypeError: a space without a fixed size.
        FileExistsError: `directory` is not empty.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        *,
        capacity: int,
        num_envs: int,
        extras: Mapping[str, Any] | None = None,
        seed: Seed = None,
        directory: str | Path | None = None,
    ) -> None:
        self.num_envs = whole_number("ReplayBuffer: num_envs", num_envs, minimum=1)
        self.capacity = whole_number("ReplayBuffer: capacity", capacity, minimum=1)
        self._length, rest = divmod(self.capacity, self.num_envs)
        if rest:
            raise ValueError(
                f"ReplayBuffer: capacity is {self.capacity}; expected a multiple of num_envs, {self.num_envs}, so that "
                f"every slot has the same room: write capacity={self.capacity + self.num_envs - rest}."
            )
        self.rng = np.random.default_rng(check_seed(seed, "ReplayBuffer: seed"))
        self._observations = Layout(observation_space, "observations")
        self._actions = Layout(action_space, "actions")
        self._extras = extra_leaves(extras or {})
        self._allocate(Storage(directory))

    def _allocate(self, storage: Storage) -> None:
        n, capacity = self.num_envs, self.capacity

        def column(name: str, leaf: Leaf) -> NDArray[Any]:
            return storage.zeros(name, (capacity, *leaf.shape), leaf.dtype)

        # a cell is row * N + slot, so that a row of all slots lies together
        self._seen = [column(f"observations.{i}", leaf) for i, leaf in enumerate(self._observations.leaves)]
        self._done = [column(f"actions.{i}", leaf) for i, leaf in enumerate(self._actions.leaves)]
        self._more = [column(f"extras.{i}", leaf) for i, leaf in enumerate(self._extras.values())]
        self._rewards = column("rewards", Leaf("", (), _REWARD))
        self._terminated, self._truncated, self._continues = (
            column(name, Leaf("", (), _FLAG)) for name in ("terminated", "truncated", "continues")
        )
        self._place = column("places", Leaf("", (), np.dtype(np.int32 if capacity < 2**31 else np.int64)))
        self._place[:] = -1  # in the table; -1: the successor is the next row, or the latest
        self._table = SuccessorTable(self._observations.leaves, storage)
        self._latest = [np.zeros((n, *leaf.shape), leaf.dtype) for leaf in self._observations.leaves]
        self._head, self._count = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._open = np.zeros(n, bool)  # the next row of the slot, if it is a transition, continues the newest

    def __len__(self) -> int:
        return int(self._count.sum())

    def __repr__(self) -> str:
        return f"ReplayBuffer({len(self)} of {self.capacity} transitions, {self.num_envs} slots)"

    @property
    def nbytes(self) -> int:
        """Size of all columns and of the table, in bytes, in memory or in files."""
        columns = (self._rewards, self._terminated, self._truncated, self._continues, self._place)
        lists = (self._seen, self._done, self._more, self._table.leaves, self._latest)
        return sum(array.nbytes for array in (*columns, *(array for arrays in lists for array in arrays)))

    def add(
        self,
        observations: Any,
        actions: Any,
        rewards: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_observations: Any,
        *,
        valid: ArrayLike,
        episode_start: ArrayLike | None = None,
        extras: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a row of every slot; nothing is added if anything does not fit.

        Args:
            observations: what the policy acted on, `(N, ...)`.
            actions: what it did.
            rewards: `(N,)`.
            terminated, truncated: bool `(N,)`.
            next_observations: the true successors: the final observation where an episode ended.
            valid: bool `(N,)`: rows that are transitions. Others are not stored, and nothing of theirs is read.
            episode_start: bool `(N,)`: rows that do not continue the latest row of their slot. Needed only for what
                ended without a flag, by `vec.reset` within an episode for instance.
            extras: the declared extra columns, `(N, ...)` each.

        Raises:
            ValueError, TypeError: something does not fit; the message names it.
        """
        starts = np.zeros(self.num_envs, bool) if episode_start is None else episode_start
        given = (observations, actions, rewards, terminated, truncated, next_observations, valid, starts, extras or {})
        if unknown := sorted((extras or {}).keys() - self._extras.keys()):
            raise ValueError(
                f"extras has {unknown}, which were not declared; expected {sorted(self._extras)}: declare them as "
                "ReplayBuffer(..., extras=...)."
            )
        self._append(*self._read((self.num_envs,), *given))

    def extend(self, rows: Rows) -> None:
        """Add all rows of a fragment, in order; nothing is added if anything does not fit.

        Fragments are given in the order in which they were collected. Of its extras those that were declared are kept.

        Args:
            rows: a `Fragment`, or anything with its arrays.

        Raises:
            ValueError, TypeError: something does not fit; the message names it.
        """
        lead = len(rows.rewards), self.num_envs
        read = self._read(
            lead,
            rows.observations,
            rows.actions,
            rows.rewards,
            rows.terminated,
            rows.truncated,
            rows.next_observations(),
            rows.valid,
            rows.episode_start,
            rows.extras,
        )
        for t in range(lead[0]):
            self._append(*([array[t] for array in arrays] for arrays in read))

    def _read(
        self,
        lead: tuple[int, ...],
        observations: Any,
        actions: Any,
        rewards: Any,
        terminated: Any,
        truncated: Any,
        next_observations: Any,
        valid: Any,
        starts: Any,
        extras: Mapping[str, Any],
    ) -> tuple[Arrays, Arrays, Arrays, Arrays, Arrays]:
        """Observations, what is stored beside them, successors, `[valid, starts]`: checked arrays `(*lead, ...)`."""
        if missing := sorted(self._extras.keys() - extras.keys()):
            raise ValueError(f"extras lacks {missing}; expected every declared column, {sorted(self._extras)}.")
        flags = {"terminated": terminated, "truncated": truncated, "valid": valid, "episode_start": starts}
        ended, cut, known, begun = (Leaf(name, (), _FLAG).read(value, lead) for name, value in flags.items())
        return (
            self._observations.read(observations, lead, "observations"),
            self._actions.read(actions, lead, "actions"),
            [Leaf("rewards", (), _REWARD).read(rewards, lead), ended, cut],
            [leaf.read(extras[name], lead) for name, leaf in self._extras.items()],
            [*self._observations.read(next_observations, lead, "next_observations"), known, begun],
        )

    def _append(self, seen: Arrays, done: Arrays, outcome: Arrays, more: Arrays, after: Arrays) -> None:
        *successors, valid, starts = after
        self._open &= ~starts
        slots = np.flatnonzero(valid)
        self._settle(slots, [leaf[slots] for leaf in seen])
        cells = self._head[slots] * self.num_envs + slots
        old = self._place[cells]
        self._table.release(old[old >= 0])
        self._place[cells], self._continues[cells] = -1, False
        columns = [*self._seen, *self._done, self._rewards, self._terminated, self._truncated, *self._more]
        for column, rows in zip(columns, [*seen, *done, *outcome, *more], strict=True):
            column[cells] = rows[slots]
        for latest, rows in zip(self._latest, successors, strict=True):
            latest[slots] = rows[slots]
        self._open[:] = valid & ~(outcome[1] | outcome[2])
        self._head[slots] = (self._head[slots] + 1) % self._length
        self._count[slots] = np.minimum(self._count[slots] + 1, self._length)

    def _settle(self, slots: NDArray[np.intp], seen: Arrays) -> None:
        """Say of the newest row of some slots how the row that comes now follows it."""
        has = self._count[slots] > 0
        slots, seen = slots[has], [leaf[has] for leaf in seen]
        newest = self._newest(slots)
        successors = [leaf[slots] for leaf in self._latest]
        equal = equal_rows(successors, seen)
        self._continues[newest] = equal & self._open[slots]
        if not equal.all():
            apart = [leaf[~equal] for leaf in successors]
            self._place[newest[~equal]] = self._table.put(apart, int((~equal).sum()))

    def _newest(self, slots: NDArray[np.intp]) -> NDArray[np.int64]:
        newest: NDArray[np.int64] = (self._head[slots] - 1) % self._length * self.num_envs + slots
        return newest

    def sample(self, batch_size: int, *, gamma: float, n_step: int = 1) -> ReplaySample:
        """Draw uniformly, with replacement, from all stored transitions.

        Args:
            batch_size: number of draws, `B`.
            gamma: discount of a step, in `[0, 1]`.
            n_step: most steps of a draw, at least 1.

        Raises:
            ValueError: the buffer is empty, or a number is out of range.
        """
        size = whole_number("ReplayBuffer.sample: batch_size", batch_size, minimum=1)
        gamma, n = check_unit("ReplayBuffer.sample", "gamma", gamma), check_steps("ReplayBuffer.sample", n_step)
        if not len(self):
            raise ValueError("ReplayBuffer.sample: the buffer is empty; add transitions first.")
        draws, ends = self.rng.integers(len(self), size=size), np.cumsum(self._count)
        slots = np.searchsorted(ends, draws, side="right")
        first = (draws - ends[slots] + self._count[slots]) * self.num_envs + slots
        last, rewards, steps = self._walk(first, gamma, n)
        return ReplaySample(
            observations=self._observations.build([leaf[first] for leaf in self._seen]),
            actions=self._actions.build([leaf[first] for leaf in self._done]),
            rewards=rewards,
            next_observations=self._observations.build(self._successors(last, slots)),
            terminated=self._terminated[last],
            truncated=self._truncated[last],
            discounts=np.power(gamma, steps, dtype=np.float64),
            steps=steps,
            extras={name: column[first] for name, column in zip(self._extras, self._more, strict=True)},
        )

    def _walk(
        self, cells: NDArray[np.int64], gamma: float, n: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
        """The last cell of each draw, the discounted rewards on the way, and the number of steps."""
        rewards, steps = self._rewards[cells], np.ones(len(cells), np.int64)
        going = self._continues[cells]
        for k in range(1, n):
            if not going.any():
                break
            cells = np.where(going, self._next(cells), cells)
            rewards[going] += gamma**k * self._rewards[cells[going]]
            steps += going
            going &= self._continues[cells]
        return cells, rewards, steps

    def _next(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        return (cells + self.num_envs) % self.capacity

    def _successors(self, cells: NDArray[np.int64], slots: NDArray[np.intp]) -> Arrays:
        found = [leaf[self._next(cells)] for leaf in self._seen]
        place, newest = self._place[cells], cells == self._newest(slots)
        apart = place >= 0
        for rows, table, latest in zip(found, self._table.leaves, self._latest, strict=True):
            rows[apart] = table[place[apart]]
            rows[newest] = latest[slots[newest]]
        return found

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Everything, as plain arrays for `np.savez`: what is stored, and the generator of the draws.

        It is a copy of the filled part of all columns, in memory also where the columns are in files.
        """
        return replay_state.save(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave: later draws and rows are to the bit what they would have been.

        Raises:
            ValueError, TypeError: it is of a buffer of other spaces, size or extras; nothing is taken over.
        """
        replay_state.load(self, state)
