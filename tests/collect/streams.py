"""Rows of slots that say where they come from: the observation after `t` steps of episode `e` of slot `s` is
`(s, e, t)`. All kinds of rows come in random order, and every transition is written down beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Place = tuple[int, int, int]


class Step(NamedTuple):
    """A transition, as it was made."""

    place: Place
    action: int
    reward: float
    terminated: bool
    truncated: bool


class Row(NamedTuple):
    """One row of all slots, as `ReplayBuffer.add` takes it; observations are `(N, 3)`."""

    observations: NDArray[Any]
    actions: NDArray[Any]
    rewards: NDArray[Any]
    terminated: NDArray[Any]
    truncated: NDArray[Any]
    next_observations: NDArray[Any]
    valid: NDArray[Any]
    episode_start: NDArray[Any]


@dataclass
class Stream:
    """`N` slots whose rows end, reset, freeze and get lost at random.

    Attributes:
        steps: of each slot, all transitions so far, None between two that do not follow one another.
    """

    num_envs: int
    rng: np.random.Generator
    ends: float = 0.3
    invalid: float = 0.2
    steps: list[list[Step | None]] = field(init=False)

    def __post_init__(self) -> None:
        self.steps = [[] for _ in range(self.num_envs)]
        self._at = [(slot, 0, 0) for slot in range(self.num_envs)]

    def row(self) -> Row:
        """The next row."""
        n = self.num_envs
        row = Row(
            np.array(self._at, np.float32),
            self.rng.integers(10, size=n),
            self.rng.normal(size=n),
            np.zeros(n, bool),
            np.zeros(n, bool),
            np.full((n, 3), np.nan, np.float32),
            np.zeros(n, bool),
            np.zeros(n, bool),
        )
        for slot in range(n):
            self._fill(row, slot)
        return row

    def _fill(self, row: Row, slot: int) -> None:
        if self.rng.random() < self.invalid:  # a row that resets, or is frozen, or was lost
            self._break(slot, new=self.rng.random() < 0.5)
            for flags in (row.terminated, row.truncated):
                flags[slot] = self.rng.random() < 0.5
            return
        if self.steps[slot] and self.rng.random() < 0.1:  # a reset in the middle of an episode
            self._break(slot, new=True)
            row.observations[slot], row.episode_start[slot] = self._at[slot], True
        s, e, t = self._at[slot]
        row.valid[slot] = True
        row.terminated[slot], row.truncated[slot] = self.rng.random(2) < self.ends / 2
        row.next_observations[slot] = self._at[slot] = s, e, t + 1
        self.steps[slot].append(
            Step(
                (s, e, t),
                int(row.actions[slot]),
                float(row.rewards[slot]),
                bool(row.terminated[slot]),
                bool(row.truncated[slot]),
            )
        )
        if row.terminated[slot] or row.truncated[slot]:
            self._break(slot, new=True)

    def _break(self, slot: int, *, new: bool) -> None:
        """What comes now does not follow what was; a new episode, or the same one some steps on."""
        s, e, t = self._at[slot]
        self._at[slot] = (s, e + 1, 0) if new else (s, e, t + 7)
        self.steps[slot].append(None)

    def kept(self, slot: int, length: int) -> list[list[Step]]:
        """The latest `length` transitions of a slot, in pieces that follow one another."""
        steps = self.steps[slot]
        numbers = [i for i, step in enumerate(steps) if step is not None][-length:]
        pieces: list[list[Step]] = [[]]
        for step in steps[numbers[0] :] if numbers else []:
            if step is None:
                pieces.append([])
            else:
                pieces[-1].append(step)
        return [piece for piece in pieces if piece]


@dataclass(frozen=True)
class Rows:
    """Rows one after another, as `ReplayBuffer.extend` takes them."""

    observations: Any
    actions: Any
    rewards: Any
    terminated: Any
    truncated: Any
    successors: Any
    valid: Any
    episode_start: Any
    extras: dict[str, Any]

    @classmethod
    def of(cls, rows: list[Row]) -> Rows:
        return cls(*(np.stack(column) for column in zip(*rows, strict=True)), {})

    def next_observations(self) -> Any:
        return self.successors


def expected(stream: Stream, length: int, n: int, gamma: float) -> dict[Place, tuple[Any, ...]]:
    """What a draw from each stored transition must be: action, reward, discount, steps, successor and flags."""
    found: dict[Place, tuple[Any, ...]] = {}
    for slot in range(stream.num_envs):
        for piece in stream.kept(slot, length):
            for i, step in enumerate(piece):
                used = piece[i : i + n]
                reward = sum(gamma**k * one.reward for k, one in enumerate(used))
                s, e, t = used[-1].place
                flags = (used[-1].terminated, used[-1].truncated)
                found[step.place] = (step.action, reward, gamma ** len(used), len(used), (s, e, t + 1), *flags)
    return found
