"""`Overlapped`: each slot advances on its own, so that a slow one does not hold up the others.

    slot 0   a0 --- row 0 | a1 --- row 1 | a2 --- row 2 | full, waits                      T = 3
    slot 1   a0 ----------------- row 0 | a1 ---------------- row 1 | a2 -------- row 2 |
             send                  recv: whatever has come; the policy acts on just that; send

A slot that was sent an action is *outstanding*; what was decided for it is written down before it is sent. Which slots
are outstanding is asked of the vector environment and nobody else: so whatever cuts a call short, a slot either has its
row still to come, or has lost it, or is sent its action again.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.collect.cells import Cells
from sekai.collect.counters import Counters
from sekai.collect.deciding import Decider
from sekai.collect.filling import Filler, Keeping
from sekai.collect.recording import Recording
from sekai.collect.rows import Rows, SekaiSource
from sekai.collect.states import Indices, copy, put, take, written
from sekai.spaces import copy_batch, put_rows, take_rows

Mask = NDArray[np.bool_]


class Overlapped(Filler):
    """Fills fragments by `send` and `recv`.

    Args:
        source, decider, counters, keeping: as for `Filler`.
        min_slots: how many rows to wait for, where so many are outstanding.
    """

    def __init__(
        self, source: SekaiSource, decider: Decider, counters: Counters, keeping: Keeping, *, min_slots: int
    ) -> None:
        super().__init__(source, decider, counters, keeping)
        self._slots: SekaiSource = source
        self._min_slots = min_slots
        self._t = np.zeros(source.num_envs, np.intp)  # the row to come of each slot
        self._decided: Any = None  # the policy state after what was decided for each slot

    def reset(self, seed: Any, options: Any) -> None:
        """Begin an episode in every slot, once all steps that are under way have come to their end."""
        self._drop_outstanding()
        super().reset(seed, options)

    def _drop_outstanding(self) -> None:
        """Receive what is under way, and keep nothing of it: its episodes end here, or go on with lost rows."""
        while (asked := self._slots.outstanding).any():
            begun = perf_counter()
            try:
                self._slots.recv(int(asked.sum()))
            finally:
                gone = asked & ~self._slots.outstanding
                self._slots.lose_slots(gone)  # until they are reset
                self.counters.environment_seconds += perf_counter() - begun
                self.counters.count_failed(int(gone.sum()))

    def _cells(self) -> Cells:
        return Cells(self._t.copy(), self._every)

    def _to_first_row(self) -> None:
        self._t[:] = 0

    def _begin_with(self, observations: Any, state: Any) -> None:
        self._observations = copy_batch(self._source.observation_space, observations)
        self._state, self._decided = copy(state), copy(state)

    def _fill(self, recording: Recording) -> None:
        while (lacking := self._t < self._length).any():
            idle = np.flatnonzero(lacking & ~self._slots.outstanding)
            if len(idle):
                self._send(recording, idle)
            self._receive(recording)

    def _send(self, recording: Recording, slots: Indices) -> None:
        """Let the policy act on these slots, and send them what it decided."""
        counters, begun = self.counters, perf_counter()
        observations = take_rows(self._source.observation_space, self._observations, slots)
        plan = self._decider.decide(observations, take(self._state, slots), self._starts[slots], slots.tolist())
        recording.decided(Cells(self._t[slots], slots), plan)
        if self._state is not None:
            self._decided = written(self._decided, slots, plan.state)
        decided = perf_counter()
        counters.policy_seconds += decided - begun
        try:
            self._slots.send(plan.env_actions, slots)
        except BaseException:  # those that are outstanding were sent; the others were not, or have lost their row
            counters.count_failed(len(slots) - int(self._slots.outstanding[slots].sum()))
            raise
        finally:
            counters.environment_seconds += perf_counter() - decided

    def _receive(self, recording: Recording) -> None:
        """Take the rows that have come back, at least so many as are asked for."""
        counters, asked = self.counters, self._slots.outstanding
        some_wait = bool((self._t == self._length).any())
        begun = perf_counter()
        try:
            try:
                rows = self._slots.recv(min(self._min_slots, int(asked.sum())))
            finally:
                seconds = perf_counter() - begun
                if some_wait:
                    counters.waiting_seconds += seconds
                else:
                    counters.environment_seconds += seconds
            self._take(recording, rows)
        except BaseException:
            gone = asked & ~self._slots.outstanding
            self._slots.lose_slots(gone)
            counters.count_failed(int(gone.sum()))
            raise
        counters.count(rows.kind, rows.plain)

    def _take(self, recording: Recording, rows: Rows) -> None:
        """Keep the rows of some slots, which go on from them. What can raise comes before what changes anything."""
        slots = rows.slots
        assert slots is not None
        times = self._t[slots]
        cells, state = Cells(times, slots), take(self._decided, slots)
        recording.keep(cells, rows)
        finals, values = recording.final_rows(cells, rows), self._decider.final_values(state, rows, cells)
        starts = np.zeros(len(slots), bool) if rows.starts is None else rows.starts
        begins = np.flatnonzero(starts)
        if state is not None and len(begins):
            state = put(state, begins, self._decider.fresh(len(begins)))
        recording.commit(finals, values)
        put_rows(self._observations, slots, rows.observations)
        if state is not None:
            self._state = written(self._state, slots, state)
        self._starts[slots] = starts
        self._steps[slots] = np.where(starts, 0, self._steps[slots] + 1)
        self._episodes[slots] += starts
        self._t[slots] = times + 1
        if state is not None:
            inside = np.flatnonzero(times + 1 < self._length)
            self._keep_states(recording, Cells(times[inside] + 1, slots[inside]), starts[inside])
