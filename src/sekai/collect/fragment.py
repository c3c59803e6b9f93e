"""`Fragment`: rows of all slots over some calls, and what follows from them.

Shapes: `T` rows, `N` slots. Everything is time-major, `(T, N, ...)`; the picture is one slot, in same_step mode.

    row               0      1      2      3      4      tail
    observations      o0     o1     o2     p0     p1     p2          p: the next episode
    actions           a0     a1     a2     b0     b1
    rewards           r1     r2     r3     q1     q2
    next_observations o1     o2     o3     p1     p2                 o3 stands in `finals`
    kind              STEP   STEP   TERM   STEP   STEP
    episode_start     1      0      0      1      0      0
    step_index        0      1      2      0      1
    cut               0      0      0      0      1                  here the fragment stops, and no episode

In next_step mode a row of kind RESET stands between the two episodes: its observation is o3, its successor p0, and it
is no transition (`valid` is False). What rows that are not valid hold beside their observation and their kind means
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sekai.collect import masks
from sekai.collect.sidetable import SideTable
from sekai.collect.states import map_state
from sekai.spaces import map_arrays, put_rows

if TYPE_CHECKING:
    from sekai.collect.sequences import Sequences

Mask = NDArray[np.bool_]
_NO_COLUMNS: Mapping[str, Any] = {}


@dataclass(eq=False, repr=False, kw_only=True)
class Fragment:
    """What a collector returns: `T` rows of `N` slots, in arrays of its own that nobody writes to any more.

    Attributes:
        observations: what the policy acted on, `(T, N, ...)`, in the structure of the observation space.
        tail_observations: what it acts on next, `(N, ...)`.
        actions: as the policy gave them, `(T, N, ...)`.
        env_actions: as the environment was given them; the same array where the policy named no others.
        rewards: float64 `(T, N)`.
        terminated, truncated: bool `(T, N)`, the flags of the environment, never touched.
        kind: int8 `(T, N)` of `RowKind`.
        episode_start: bool `(T, N)`, rows whose observation is the first of an episode: recurrent state is fresh.
        tail_start: bool `(N,)`, the same of `tail_observations`.
        extras: further columns of the policy, `(T, N, ...)`.
        infos: info columns that were asked for, `(T, N, ...)`; 0 in rows that are not valid.
        values: of the observations, `(T, N, ...)`, where values were asked for.
        next_values: of the true successors, each valued with the state of its own episode; 0 where `bootstrap` is
            False.
        tail_state: the policy state in which collecting goes on, slots that begin an episode having a fresh one.
        finals: successors that are the observation of no row, see `next_observations`.
        states: policy states before some rows, see `state_at`.
        begun, taken: int64 `(N,)`, episodes that each slot had begun before the first row, and steps taken in the
            one under way.
    """

    observations: Any
    tail_observations: Any
    actions: Any
    env_actions: Any
    rewards: NDArray[np.float64]
    terminated: Mask
    truncated: Mask
    kind: NDArray[np.int8]
    episode_start: Mask
    tail_start: Mask
    extras: dict[str, NDArray[Any]]
    infos: dict[str, NDArray[Any]]
    values: NDArray[Any] | None
    next_values: NDArray[Any] | None
    tail_state: Any
    finals: SideTable
    states: SideTable
    begun: NDArray[np.int64]
    taken: NDArray[np.int64]

    @property
    def num_slots(self) -> int:
        """Number of slots, `N`."""
        return int(self.kind.shape[1])

    def __len__(self) -> int:
        return len(self.kind)

    def __repr__(self) -> str:
        if not vars(self):
            return "Fragment(released)"
        return f"Fragment({len(self)} x {self.num_slots}, {int(self.valid.sum())} transitions)"

    @cached_property
    def valid(self) -> Mask:
        """Rows that are transitions, bool `(T, N)`: the action was executed and its outcome is known."""
        return masks.valid(self.kind)

    @cached_property
    def bootstrap(self) -> Mask:
        """Rows whose successor's value counts, bool `(T, N)`: transitions that did not terminate."""
        return masks.bootstrap(self.kind)

    @cached_property
    def trace(self) -> Mask:
        """Rows from which a backward recursion goes on into the next row, bool `(T, N)`."""
        return masks.trace(self.kind, self._starts)

    @cached_property
    def cut(self) -> Mask:
        """Rows after which the collector stopped and no episode ended, bool `(T, N)`: the last row, and the row before
        one that was lost or a reset in between."""
        return masks.cut(self.kind, self._starts)

    @cached_property
    def episode_id(self) -> NDArray[np.int64]:
        """Which episode a row belongs to, `(T, N)`, unique over slots and time; -1 in rows that are not valid."""
        return masks.episode_ids(self.kind, self._starts, self.begun)

    @cached_property
    def step_index(self) -> NDArray[np.int64]:
        """Steps of the episode before a row, `(T, N)`; -1 in rows that are not valid."""
        return masks.step_indices(self.kind, self._starts, self.taken)

    @property
    def _starts(self) -> Mask:
        return np.concatenate([self.episode_start, self.tail_start[None]])

    @property
    def state(self) -> Any:
        """The policy state before the first row, `(N, ...)`; None for a policy without memory."""
        slots = np.arange(self.num_slots)
        return self.state_at(np.zeros_like(slots), slots)

    def state_at(self, time: Any, slots: Any) -> Any:
        """The policy state before some rows, as it was used when they were collected.

        It is kept for the first row, for each row that begins an episode, and where `step_index` is a multiple of the
        collector's `state_stride`.

        Args:
            time, slots: int `(k,)`, the rows.

        Returns:
            The states in new arrays, `(k, ...)`; None for a policy without memory.

        Raises:
            LookupError: it was not kept for some row; the message names it.
        """
        if self.states.rows is None:
            return None
        time, slots = np.asarray(time), np.asarray(slots)
        place = self.states.find(time, slots)
        if len(place) and place.min() < 0:
            k = int(np.argmin(place))
            raise LookupError(
                f"The policy state before row {int(time[k])} of slot {int(slots[k])} was not kept: give the collector "
                "a state_stride that divides the step_index of every row at which a sequence begins."
            )
        return map_state(lambda leaf: leaf[place], self.states.rows)

    def next_observations(self, time: Any = None, slots: Any = None) -> Any:
        """The true successors: at an end the final observation, at the cut the tail, elsewhere the next row.

        They are put together anew by every call, since most of them are rows already.

        Args:
            time, slots: int `(k,)`, the rows that are wanted; all by default.

        Returns:
            New arrays, `(k, ...)`, or `(T, N, ...)`.
        """
        length = len(self)
        if time is None:
            found = map_arrays(
                lambda column, tail: np.concatenate([column[1:], tail[None]]), self.observations, self.tail_observations
            )
            if len(self.finals):
                put_rows(found, (self.finals.time, self.finals.slots), self.finals.rows)  # type: ignore[arg-type]  # arrays take any index
            return found
        time, slots = np.asarray(time), np.asarray(slots)
        last, place = time + 1 == length, self.finals.find(time, slots)
        has = np.flatnonzero(place >= 0)

        def one(column: NDArray[Any], tail: NDArray[Any]) -> NDArray[Any]:
            rows: NDArray[Any] = column[np.where(last, 0, time + 1), slots]
            rows[last] = tail[slots[last]]
            return rows

        found = map_arrays(one, self.observations, self.tail_observations)
        if len(has):
            put_rows(found, has, map_arrays(lambda rows: rows[place[has]], self.finals.rows))
        return found

    def sequences(
        self,
        length: int | None = None,
        burn_in: int = 0,
        *,
        successors: bool = False,
        columns: Mapping[str, Any] = _NO_COLUMNS,
    ) -> Sequences:
        """The transitions as padded sequences, each of one episode; see the module `sekai.collect.sequences`.

        Args:
            length: rows of a whole sequence; an episode is cut where its `step_index` is a multiple of it. By default
                episodes are only cut by the fragment. Where a sequence begins, the policy state must have been kept.
            burn_in: rows put in front of a sequence, where its episode has them in this fragment.
            successors: whether the sequences have `next_observations`.
            columns: further columns to cut likewise, arrays `(T, N, ...)`: advantages, targets.

        Raises:
            ValueError: an argument out of range, or a column of another shape.
            LookupError: a state was not kept; the message names the slot.
        """
        from sekai.collect.sequences import sequences_of

        return sequences_of(self, length, burn_in, successors=successors, columns=columns)

    def release(self) -> None:
        """Let go of all arrays; their memory serves the next fragment, unless some array of this one is still held."""
        vars(self).clear()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or name not in type(self).__dataclass_fields__:
            raise AttributeError(f"Fragment has no {name!r}.")
        raise RuntimeError(f"The fragment was released, and its {name} with it; copy what is needed afterwards.")
