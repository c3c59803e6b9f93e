"""`Recording`: the fragment under way, written cell by cell.

How far each slot has come is not known here but said by the `Cells` of a batch. A cell is written whole before it
counts (`commit`), so that a call which fails half way leaves nothing behind: the next call writes the same cells again.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.collect.buffers import Loan, as_rows, columns_like, write
from sekai.collect.cells import Cells
from sekai.collect.deciding import Plan
from sekai.collect.fragment import Fragment
from sekai.collect.masks import bootstrap, valid
from sekai.collect.rows import Rows, Source
from sekai.collect.sidetable import Entries, SideTable
from sekai.collect.states import Indices, take
from sekai.spaces import map_arrays

#: shape of one value, and dtype; None until one was seen
InfoLayout: TypeAlias = tuple[tuple[int, ...], np.dtype[Any]] | None


class Recording:
    """Rows of one fragment.

    Args:
        source: where the rows come from.
        length: rows of a whole fragment, `T`.
        loan: its memory.
        infos: the info columns to keep, by name; their layout is noted here when it is first seen.
        begun, taken: as in `Fragment`.

    Attributes:
        length: rows of a whole fragment, `T`.
        starts: bool `(T + 1, N)`, slots that begin an episode with the observation of a row.
        kind: int8 `(T, N)`.
    """

    def __init__(
        self,
        source: Source,
        length: int,
        loan: Loan,
        infos: dict[str, InfoLayout],
        begun: NDArray[np.int64],
        taken: NDArray[np.int64],
    ) -> None:
        self.length = length
        self._begun, self._taken = begun, taken
        self._source, self._loan, self._layouts = source, loan, infos
        n = source.num_envs
        shape = length, n
        self._num_slots, self._every = n, np.arange(n)
        self._rewards = loan.array("rewards", shape, np.float64)
        self._terminated = loan.array("terminated", shape, bool)
        self._truncated = loan.array("truncated", shape, bool)
        self.kind = loan.array("kind", shape, np.int8)
        self.starts = loan.array("starts", (length + 1, n), bool)
        for column in (self._terminated, self._truncated, self.kind, self.starts):
            column[:] = 0  # what a call of plain steps leaves as it is
        self._observations: Any = None
        self._actions: Any = None
        self._env_actions: Any = None
        self._extras: dict[str, NDArray[Any]] = {}
        self._infos: dict[str, NDArray[Any]] = {}
        self._values: NDArray[Any] | None = None
        self._finals: Entries = []
        self._final_values: Entries = []
        self._states: Entries = []

    def first(self, cells: Cells, observations: Any, starts: NDArray[np.bool_]) -> None:
        """Write the observations of the cells to come, of all slots, and who begins an episode with them.

        What a call that failed has left in these cells, or is known of them from before a reset, is gone.
        """
        if self._observations is None:
            space, shape = self._source.observation_space, (self.length + 1, self._num_slots)
            self._observations = columns_like(self._loan, "observations", space, observations, shape)
        times = cells.times()
        self._finals, self._final_values, self._states = (
            _without(entries, times) for entries in (self._finals, self._final_values, self._states)
        )
        times, slots = cells.before(self.length)
        for column in (self._terminated, self._truncated, self.kind):
            column[times, slots] = 0
        self.starts[times + 1, slots] = False
        self.starts[cells.here] = starts  # first, so that `move_out` does not take the new ones after an interrupt
        write(self._observations, cells.here, observations, "observations")

    def decided(self, cells: Cells, plan: Plan) -> None:
        """Write what was decided in the cells to come, before the call: what does not fit is refused while nothing has
        moved, and the arrays are still in the processor's cache.
        """
        here = cells.here
        if self._actions is None:
            self._lay_out(plan)
        write(self._actions, here, plan.actions, "actions")
        if (plan.env_actions is plan.actions) != (self._env_actions is self._actions):
            raise ValueError("The policy gave env_actions in some calls of a fragment only; expected all or none.")
        if self._env_actions is not self._actions:
            write(self._env_actions, here, plan.env_actions, "env_actions")
        for name, values in plan.extras.items():
            write(self._extras[name], here, values, name)
        if self._values is not None and plan.values is not None:
            write(self._values, here, plan.values, "values")

    def row(self, time: int) -> Any:
        """The observations of a row, the one after the last included: a batch that is the fragment's own memory."""
        return map_arrays(itemgetter(time), self._observations)

    def keep(self, cells: Cells, rows: Rows, into: Any = None) -> None:
        """Write what one call gave, all but what `commit` takes.

        Args:
            cells: where it stands.
            rows: what it gave.
            into: the row of the observations where the environment may have written them itself, see `Source.step`.
        """
        here, after = cells.here, cells.after
        self._rewards[here] = rows.rewards
        if rows.observations is not into:
            write(self._observations, after, rows.observations, "observations")
        if not rows.plain:
            self.kind[here], self._terminated[here], self._truncated[here] = rows.kind, rows.terminated, rows.truncated
            self.starts[after] = rows.starts
        for name in self._layouts:
            self._keep_info(name, cells, rows)

    def commit(self, finals: Entries, final_values: Entries) -> None:
        """Take the observations and values that stand beside the cells of a call."""
        self._finals += finals
        self._final_values += final_values

    def move_out(self, cells: Cells, values: Any) -> None:
        """Before `first` replaces the observations of these cells: they stay the successors of the rows before.

        Args:
            cells: of all slots.
            values: a function of slots and observations, or None where none are wanted.
        """
        times = cells.times()
        slots = np.flatnonzero(times > 0)
        times = times[slots]
        left = valid(self.kind[times - 1, slots]) & ~self.starts[times, slots]
        times, slots = times[left], slots[left]
        if len(slots):
            rows = map_arrays(lambda column: column[times, slots], self._observations)
            before = np.full(self._num_slots, -1)
            before[slots] = times - 1
            # what an interrupt has left of an earlier try is replaced
            finals = [*_without(self._finals, before), (times - 1, slots, rows)]
            valued = _without(self._final_values, before)
            if values is not None:
                valued = [*valued, (times - 1, slots, values(slots, rows))]
            self._finals, self._final_values = finals, valued

    def keep_state(self, time: int | Indices, slots: Indices, state: Any) -> None:
        """Keep the policy state before some cells."""
        self._states.append((time, slots, state))

    def _lay_out(self, plan: Plan) -> None:
        space, loan, shape = self._source.action_space, self._loan, (self.length, self._num_slots)
        self._env_actions = self._actions = columns_like(loan, "actions", space, plan.actions, shape)
        if plan.env_actions is not plan.actions:
            self._env_actions = columns_like(loan, "env_actions", space, plan.env_actions, shape)
        self._extras = {
            name: loan.array(f"extras[{name!r}]", (*shape, *values.shape[1:]), values.dtype)
            for name, values in plan.extras.items()
        }
        if plan.values is not None:
            self._values = loan.array("values", (*shape, *plan.values.shape[1:]), plan.values.dtype)

    def _keep_info(self, name: str, cells: Cells, rows: Rows) -> None:
        places = self._every[: len(rows.kind)] if rows.plain else np.flatnonzero(valid(rows.kind))
        whole = len(places) == len(rows.kind)
        if not whole and name in self._infos:
            self._infos[name][cells.here] = _nothing(self._infos[name])
        if not len(places):
            return
        values = rows.info(name, places)
        if name not in self._infos:
            self._layouts[name] = self._layouts[name] or (values.shape[1:], values.dtype)
            self._lay_out_info(name)
        column = self._infos[name]
        if not np.can_cast(values.dtype, column.dtype, "same_kind"):  # numbers that were whole so far
            column = self._infos[name] = column.astype(np.result_type(values, column))
            self._layouts[name] = column.shape[2:], column.dtype
        column[cells.here if whole else cells.some(places)] = values

    def _lay_out_info(self, name: str) -> None:
        shape, dtype = self._layouts[name] or ((), np.dtype(np.float64))
        column = self._loan.array(f"infos[{name!r}]", (self.length, self._num_slots, *shape), dtype)
        column[:] = _nothing(column)
        self._infos[name] = column

    def fragment(self, tail_values: NDArray[Any] | None, tail_state: Any) -> Fragment:
        """The fragment of all rows.

        Args:
            tail_values: of the observations after the last row, `(N, ...)`.
            tail_state: the state in which the policy goes on.
        """
        n, length = self._num_slots, self.length
        for name in self._layouts.keys() - self._infos.keys():  # no row was valid
            self._lay_out_info(name)
        return Fragment(
            observations=map_arrays(lambda column: column[:length], self._observations),
            tail_observations=map_arrays(lambda column: column[length], self._observations),
            actions=self._actions,
            env_actions=self._env_actions,
            rewards=self._rewards,
            terminated=self._terminated,
            truncated=self._truncated,
            kind=self.kind,
            episode_start=self.starts[:length],
            tail_start=self.starts[length],
            extras=self._extras,
            infos=self._infos,
            values=self._values,
            next_values=None if tail_values is None else self._next_values(tail_values),
            tail_state=tail_state,
            finals=SideTable.of(n, self._finals),
            states=SideTable.of(n, self._states),
            begun=self._begun,
            taken=self._taken,
        )

    def _next_values(self, tail_values: NDArray[Any]) -> NDArray[Any]:
        assert self._values is not None
        after = self._loan.array("next_values", self._values.shape, self._values.dtype)
        after[:-1] = self._values[1:]
        after[-1] = tail_values
        for t, slots, values in self._final_values:
            after[t, slots] = values
        after[~bootstrap(self.kind)] = 0
        return after

    def final_rows(self, cells: Cells, rows: Rows) -> Entries:
        """The final observations of a call as entries of the side table."""
        space = self._source.observation_space
        return [(*cells.some(places), as_rows(space, batch)) for places, batch in rows.finals if len(places)]


def _without(entries: Entries, times: Indices) -> Entries:
    """The entries, less those of row `times[slot]` of each slot."""
    kept = []
    for time, slots, rows in entries:
        others = np.flatnonzero(times[slots] != time)
        if len(others) == len(slots):
            kept.append((time, slots, rows))
        elif len(others):
            kept.append((time if isinstance(time, int) else time[others], slots[others], take(rows, others)))
    return kept


def _nothing(column: NDArray[Any]) -> NDArray[Any]:
    """What stands where a column means nothing: zero of its dtype, since a plain 0 is no date."""
    return np.zeros((), column.dtype)
