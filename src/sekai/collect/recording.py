"""`Recording`: the fragment under way, written row by row.

Row `t` is written whole before it counts (`commit`), so that a call which fails half way leaves nothing behind: the
next call writes the same row again.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.collect.buffers import Loan, as_rows, columns_like, write
from sekai.collect.fragment import Fragment
from sekai.collect.masks import bootstrap, valid
from sekai.collect.rows import Rows, Source
from sekai.collect.sidetable import SideTable
from sekai.collect.states import Indices
from sekai.spaces import map_arrays

#: shape of one value, and dtype; None until one was seen
InfoLayout: TypeAlias = tuple[tuple[int, ...], np.dtype[Any]] | None


class Plan(NamedTuple):
    """What a policy decided before a call, as arrays.

    Attributes:
        actions: as the policy gave them.
        env_actions: as the environment gets them; the same object where the policy named no others.
        state: the state after the decision.
        extras: columns to be kept, arrays `(N, ...)`.
        values: of the observations, `(N, ...)`, or None.
    """

    actions: Any
    env_actions: Any
    state: Any
    extras: dict[str, NDArray[Any]]
    values: NDArray[Any] | None


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
        t: rows that count so far.
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
        self.length, self.t = length, 0
        self._begun, self._taken = begun, taken
        self._source, self._loan, self._layouts = source, loan, infos
        n = source.num_envs
        shape = length, n
        self._slots = np.arange(n)
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
        self._finals: list[tuple[int, Indices, Any]] = []
        self._final_values: list[tuple[int, Indices, Any]] = []
        self._states: list[tuple[int, Indices, Any]] = []

    def first(self, observations: Any, starts: NDArray[np.bool_]) -> None:
        """Write the observations of the row to come, and who begins an episode with them."""
        if self._observations is None:
            space, rows = self._source.observation_space, self.length + 1
            self._observations = columns_like(self._loan, "observations", space, observations, rows)
        write(self._observations, self.t, observations, "observations")
        self.starts[self.t] = starts
        self._states = [entry for entry in self._states if entry[0] != self.t]  # of what these take the place of

    def decided(self, plan: Plan) -> None:
        """Write what was decided in the row to come, before the call: what does not fit is refused while nothing has
        moved, and the arrays are still in the processor's cache.
        """
        t = self.t
        if self._actions is None:
            self._lay_out(plan)
        write(self._actions, t, plan.actions, "actions")
        if (plan.env_actions is plan.actions) != (self._env_actions is self._actions):
            raise ValueError("The policy gave env_actions in some calls of a fragment only; expected all or none.")
        if self._env_actions is not self._actions:
            write(self._env_actions, t, plan.env_actions, "env_actions")
        for name, values in plan.extras.items():
            write(self._extras[name], t, values, name)
        if self._values is not None and plan.values is not None:
            write(self._values, t, plan.values, "values")

    def keep(self, rows: Rows) -> None:
        """Write what one call gave, all but what `commit` takes."""
        t = self.t
        self._rewards[t] = rows.rewards
        write(self._observations, t + 1, rows.observations, "observations")
        if not rows.plain:
            self.kind[t], self._terminated[t], self._truncated[t] = rows.kind, rows.terminated, rows.truncated
            self.starts[t + 1] = rows.starts
        for name in self._layouts:
            self._keep_info(name, t, rows)

    def commit(self, finals: list[tuple[int, Indices, Any]], final_values: list[tuple[int, Indices, Any]]) -> None:
        """Let the row count, together with the observations and values that stand beside the rows."""
        self._finals += finals
        self._final_values += final_values
        self.t += 1

    def move_out(self, values: Any) -> None:
        """Before `first` replaces the observations of this row: they stay the successors of the row before it.

        Args:
            values: a function of slots and observations, or None where none are wanted.
        """
        t = self.t
        if t == 0:
            return
        slots = np.flatnonzero(valid(self.kind[t - 1]) & ~self.starts[t])
        if len(slots):
            rows = map_arrays(lambda column: column[t, slots], self._observations)
            self._finals.append((t - 1, slots, rows))
            if values is not None:
                self._final_values.append((t - 1, slots, values(slots, rows)))

    def keep_state(self, slots: Indices, state: Any) -> None:
        """Keep the policy state before the row to come, of some slots."""
        if self.t < self.length:
            self._states.append((self.t, slots, state))

    def _lay_out(self, plan: Plan) -> None:
        space, loan, length = self._source.action_space, self._loan, self.length
        self._env_actions = self._actions = columns_like(loan, "actions", space, plan.actions, length)
        if plan.env_actions is not plan.actions:
            self._env_actions = columns_like(loan, "env_actions", space, plan.env_actions, length)
        self._extras = {
            name: loan.array(f"extras[{name!r}]", (length, *values.shape), values.dtype)
            for name, values in plan.extras.items()
        }
        if plan.values is not None:
            self._values = loan.array("values", (length, *plan.values.shape), plan.values.dtype)

    def _keep_info(self, name: str, t: int, rows: Rows) -> None:
        slots = self._slots if rows.plain else np.flatnonzero(valid(rows.kind))
        if not len(slots):
            if name in self._infos:
                self._infos[name][t] = _nothing(self._infos[name])
            return
        values = rows.info(name, slots)
        if name not in self._infos:
            self._layouts[name] = self._layouts[name] or (values.shape[1:], values.dtype)
            self._lay_out_info(name)
        column = self._infos[name]
        if not np.can_cast(values.dtype, column.dtype, "same_kind"):  # numbers that were whole so far
            column = self._infos[name] = column.astype(np.result_type(values, column))
            self._layouts[name] = column.shape[2:], column.dtype
        if len(slots) == len(self._slots):
            column[t] = values
        else:
            column[t, slots] = values

    def _lay_out_info(self, name: str) -> None:
        shape, dtype = self._layouts[name] or ((), np.dtype(np.float64))
        column = self._loan.array(f"infos[{name!r}]", (self.length, len(self._slots), *shape), dtype)
        column[:] = _nothing(column)
        self._infos[name] = column

    def fragment(self, tail_values: NDArray[Any] | None, tail_state: Any) -> Fragment:
        """The fragment of all rows.

        Args:
            tail_values: of the observations after the last row, `(N, ...)`.
            tail_state: the state in which the policy goes on.
        """
        n, length = len(self._slots), self.length
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

    def final_rows(self, rows: Rows) -> list[tuple[int, Indices, Any]]:
        """The final observations of a call as entries of the side table."""
        space = self._source.observation_space
        return [(self.t, slots, as_rows(space, batch)) for slots, batch in rows.finals if len(slots)]


def _nothing(column: NDArray[Any]) -> NDArray[Any]:
    """What stands where a column means nothing: zero of its dtype, since a plain 0 is no date."""
    return np.zeros((), column.dtype)
