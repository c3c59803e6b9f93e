"""`Run`: a real vector environment under a collector, of which every cell is kept to be looked at.

Shapes: `T` calls so far, `N` slots. Masks are those of `sekai.collect`, of all calls so far as one fragment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.collect import Collector, Counters, Fragment, masks
from sekai.core.slots import RowKind
from sekai.lab.setups import Setup
from sekai.spaces import map_arrays, read_row
from sekai.vector import VecEnv, VecStepResult, VecWrapper

Mask = NDArray[np.bool_]

#: the letter of each `RowKind`: so that nobody needs the colours
LETTERS = {
    RowKind.STEP: "S",
    RowKind.TERMINATED: "T",
    RowKind.TRUNCATED: "U",
    RowKind.RESET: "R",
    RowKind.FROZEN: "F",
    RowKind.LOST: "L",
}
#: of a row in which both flags are true, whose kind is `TERMINATED`
BOTH = "B"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One row: what slot `slot` returned in call `call`, and what it is for.

    Attributes:
        call, slot: where it stands; calls count from 1, slots from 0.
        kind: what it is.
        action: what the policy decided; executed only where the row is `valid`.
        observation: what it was decided on.
        next_observation: the true successor of a transition: at an end the final observation.
        reward: as returned.
        terminated, truncated: the flags, as returned.
        info: as returned.
        episode_id, step_index: which transition it is; -1 where it is none.
        valid, bootstrap, trace, cut, episode_start: the masks.
        hidden: the policy's memory before this row.
    """

    call: int
    slot: int
    kind: RowKind
    action: Any
    observation: Any
    next_observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    episode_id: int
    step_index: int
    valid: bool
    bootstrap: bool
    trace: bool
    cut: bool
    episode_start: bool
    hidden: float


class _Watch(VecWrapper):
    """Keeps the infos of the last call, which a fragment has only columns of."""

    infos: list[dict[str, Any]]

    def after_step(self, result: VecStepResult) -> VecStepResult:
        self.infos = list(result.infos)
        return result


class Run:
    """A setup that is played call by call.

    Args:
        setup: what to play.

    Raises:
        Exception: what building or resetting the environment raised; nothing is left open then.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._vec = _Watch(setup.make())
        try:
            player = setup.player(self._vec)
            self._collector = Collector(self._vec, player, fragment_length=1, restart=setup.restart)
            self._collector.reset(seed=setup.seed)
        except BaseException:
            self._vec.close()
            raise
        self._fragments: list[Fragment] = []
        self._infos: list[list[dict[str, Any]]] = []
        self._columns: dict[str, NDArray[Any]] = {}  # of the calls so far

    @property
    def vec(self) -> VecEnv:
        """The vector environment."""
        return self._vec.venv

    @property
    def counters(self) -> Counters:
        """What the collector has counted."""
        return self._collector.counters

    @property
    def episodes(self) -> int:
        """Episodes that have ended."""
        return self.counters.terminated + self.counters.truncated

    @property
    def claim(self) -> int:
        """Transitions that a collector would claim which counts calls times slots."""
        return self.counters.calls * self.setup.slots

    def __len__(self) -> int:
        """Calls so far, those that failed left out."""
        return len(self._fragments)

    def step(self, calls: int = 1) -> None:
        """Make some calls.

        Raises:
            Exception: what the environment raised; the run can go on, and what follows is of kind LOST.
        """
        for _ in range(calls):
            fragment = self._collector.collect()
            self._fragments.append(fragment)
            self._infos.append(self._vec.infos)
            self._columns = {}

    def close(self) -> None:
        """Close the environment; what was recorded stays."""
        self._vec.close()

    @property
    def kind(self) -> NDArray[np.int8]:
        """`RowKind` of every cell, `(T, N)`."""
        return self._column("kind", np.int8)

    @property
    def both(self) -> Mask:
        """Cells in which both flags are true, `(T, N)`."""
        found: Mask = self._column("terminated", bool) & self._column("truncated", bool)
        return found

    @property
    def episode_id(self) -> NDArray[np.int64]:
        """Episode of every transition, `(T, N)`; -1 in other rows."""
        return self._column("episode_id", np.int64)

    @property
    def step_index(self) -> NDArray[np.int64]:
        """Steps of its episode before every transition, `(T, N)`; -1 in other rows."""
        return self._column("step_index", np.int64)

    @property
    def episode_start(self) -> Mask:
        """Cells whose observation is the first of an episode, `(T, N)`."""
        return self._column("episode_start", bool)

    @property
    def trace(self) -> Mask:
        """Cells from which a backward recursion goes on into the next call, `(T, N)`."""
        if "trace" not in self._columns:
            self._columns["trace"] = masks.trace(self.kind, self.starts)
        return self._columns["trace"]

    @property
    def cut(self) -> Mask:
        """Cells after which the collector stopped and no episode ended, `(T, N)`: the last call, and before LOST."""
        if "cut" not in self._columns:
            self._columns["cut"] = masks.cut(self.kind, self.starts)
        return self._columns["cut"]

    @property
    def hidden(self) -> NDArray[np.float64]:
        """The policy's memory before every row, and last before the row to come, `(T + 1, N)`."""
        before = [fragment.state for fragment in self._fragments]
        tail = self._fragments[-1].tail_state if self._fragments else np.zeros(self.setup.slots)
        return np.stack([*before, tail])

    @property
    def starts(self) -> Mask:
        """As `episode_start`, and last of the row to come, `(T + 1, N)`."""
        tail = self._fragments[-1].tail_start if self._fragments else np.ones(self.setup.slots, bool)
        return np.concatenate([self.episode_start, tail[None]])

    @property
    def valid_counts(self) -> NDArray[np.int64]:
        """Transitions in each call, `(T,)`."""
        found: NDArray[np.int64] = masks.valid(self.kind).sum(axis=1)
        return found

    @property
    def letters(self) -> list[str]:
        """One text per call, a letter per slot: that of its kind, and B where both flags are true."""
        kind, both = self.kind, self.both
        letter = np.array([LETTERS[each] for each in RowKind])
        return ["".join(row) for row in np.where(both & (kind == RowKind.TERMINATED), BOTH, letter[kind])]

    def transitions(self, slot: int) -> list[Cell]:
        """The transitions of a slot, in order."""
        return [self.cell(time, slot) for time in np.flatnonzero(masks.valid(self.kind)[:, slot]).tolist()]

    def cell(self, time: int, slot: int) -> Cell:
        """One cell; `time` counts from 0.

        Raises:
            IndexError: it has not been played.
        """
        if not (0 <= time < len(self) and 0 <= slot < self.setup.slots):
            raise IndexError(f"There is no cell of call {time + 1} and slot {slot}.")
        fragment = self._fragments[time]
        after = fragment.next_observations([0], [slot])
        space, actions = self._vec.observation_space, self._vec.action_space
        return Cell(
            call=time + 1,
            slot=slot,
            kind=RowKind(fragment.kind[0, slot]),
            action=_read(actions, fragment.actions, slot),
            observation=_read(space, fragment.observations, slot),
            next_observation=read_row(space, after, 0),
            reward=float(fragment.rewards[0, slot]),
            terminated=bool(fragment.terminated[0, slot]),
            truncated=bool(fragment.truncated[0, slot]),
            info=self._infos[time][slot],
            episode_id=int(fragment.episode_id[0, slot]),
            step_index=int(fragment.step_index[0, slot]),
            valid=bool(fragment.valid[0, slot]),
            bootstrap=bool(fragment.bootstrap[0, slot]),
            trace=bool(self.trace[time, slot]),
            cut=bool(self.cut[time, slot]),
            episode_start=bool(fragment.episode_start[0, slot]),
            hidden=float(fragment.state[slot]),
        )

    def _column(self, name: str, dtype: Any) -> NDArray[Any]:
        if name not in self._columns:
            rows = [getattr(fragment, name)[0] for fragment in self._fragments]
            self._columns[name] = np.array(rows, dtype).reshape(len(rows), self.setup.slots)
        return self._columns[name]


def _read(space: Any, rows: Any, slot: int) -> Any:
    """One slot's part of a batch `(1, N, ...)`."""
    return read_row(space, map_arrays(lambda column: column[0], rows), slot)
