"""`LockStep`: all slots advance together, by one call after another."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.collect.buffers import read_only
from sekai.collect.cells import Cells
from sekai.collect.counters import Counters
from sekai.collect.deciding import Decider, Plan
from sekai.collect.filling import Filler, Keeping
from sekai.collect.fragment import Fragment
from sekai.collect.recording import Recording
from sekai.collect.rows import Rows, Source
from sekai.collect.states import put
from sekai.spaces import copy_batch


class LockStep(Filler):
    """Fills fragments row by row, each row by one call of `step`.

    Args:
        source, decider, counters, keeping: as for `Filler`.
        shares: whether the policy acts on the rows of the fragment themselves, into which the environment may write.
    """

    def __init__(
        self, source: Source, decider: Decider, counters: Counters, keeping: Keeping, *, shares: bool = False
    ) -> None:
        super().__init__(source, decider, counters, keeping)
        self._shares = shares
        self._rows = [Cells(t, self._every) for t in range(self._length + 1)]
        self._t = 0
        self._nobody_starts = np.zeros(len(self._every), bool)
        self._uncounted = 0  # plain calls that `_steps` lacks

    def _cells(self) -> Cells:
        return self._rows[self._t]

    def _to_first_row(self) -> None:
        self._t = 0

    def _begin_with(self, observations: Any, state: Any) -> None:
        self._observations, self._state = observations, state

    def _begin_rows(self, recording: Recording) -> None:
        super()._begin_rows(recording)
        if self._shares:
            self._observations = read_only(recording.row(self._t))

    def _finish(self, recording: Recording) -> Fragment:
        if self._shares:  # or its memory would not serve another fragment as soon as nobody holds this one
            self._observations = read_only(copy_batch(self._source.observation_space, self._observations))
        return super()._finish(recording)

    def _steps_to_come(self) -> NDArray[np.int64]:
        if self._uncounted:
            self._steps += self._uncounted
            self._uncounted = 0
        return self._steps

    def _fill(self, recording: Recording) -> None:
        while self._t < self._length:
            self._call(recording, self._rows[self._t])

    def _call(self, recording: Recording, cells: Cells) -> None:
        """One call of the environment."""
        counters, begun = self.counters, perf_counter()
        try:
            plan = self._decider.decide(self._observations, self._state, self._starts)
        except ValueError as error:
            if self._shares and "read-only" in str(error):  # NumPy's words
                error.add_note("The policy acts on the rows of the fragment: copy them, or share_observations=False.")
            raise
        recording.decided(cells, plan)
        decided = perf_counter()
        counters.policy_seconds += decided - begun
        rows: Rows | None = None
        into = recording.row(self._t + 1) if self._shares else None
        try:
            try:
                rows = self._source.step(plan.env_actions, into)
            finally:
                counters.environment_seconds += perf_counter() - decided
            self._take(recording, cells, plan, rows, into)
        except BaseException as error:
            counters.count_failed(len(self._every))
            if rows is not None or not isinstance(error, Exception):  # an interrupt may have met rows on their way here
                self._source.lose(rows)
            raise
        counters.count(rows.kind, rows.plain)

    def _take(self, recording: Recording, cells: Cells, plan: Plan, rows: Rows, into: Any) -> None:
        """Keep the rows of a call and go on from them. What can raise comes before what changes anything."""
        recording.keep(cells, rows, into)
        observations = read_only(into) if self._shares else rows.observations
        state = plan.state
        if rows.plain:
            starts = self._nobody_starts
            self._t += 1
            self._uncounted += 1
        else:
            assert rows.starts is not None
            finals, values = recording.final_rows(cells, rows), self._decider.final_values(state, rows, cells)
            starts, slots = rows.starts, np.flatnonzero(rows.starts)
            if state is not None and len(slots):
                state = put(state, slots, self._decider.fresh(len(slots)))
            steps = self._steps_to_come()
            recording.commit(finals, values)
            # no call from here on, in which an interrupt could come between changes that belong together
            self._t += 1
            steps += 1
            steps[slots] = 0
            self._episodes[slots] += 1
        self._observations, self._state, self._starts = observations, state, starts
        if state is not None and self._t < self._length:
            self._keep_states(recording, self._rows[self._t], starts)
