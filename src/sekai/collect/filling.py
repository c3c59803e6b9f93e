"""`Filler`: fills one fragment after another, in which episodes and the policy's memory of them go on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.collect.buffers import Pool
from sekai.collect.cells import Cells
from sekai.collect.counters import Counters
from sekai.collect.deciding import Decider
from sekai.collect.fragment import Fragment
from sekai.collect.recording import InfoLayout, Recording
from sekai.collect.rows import Source
from sekai.collect.states import copy, take
from sekai.spaces import finish_batch


class Keeping(NamedTuple):
    """What is kept.

    Attributes:
        length: rows of a fragment, `T`.
        stride: at which multiples of `step_index` the policy's state is kept; None: at none.
        infos: info columns.
    """

    length: int
    stride: int | None
    infos: dict[str, InfoLayout]


class Filler(ABC):
    """What does not depend on whether slots advance together; a subclass says how rows are got.

    Args:
        source: where rows come from.
        decider: the policy.
        counters: what is counted.
        keeping: what is kept.
    """

    def __init__(self, source: Source, decider: Decider, counters: Counters, keeping: Keeping) -> None:
        self._source, self._decider, self.counters = source, decider, counters
        self._length, self._stride, self._infos = keeping
        n = source.num_envs
        self._pool = Pool()
        self._every = np.arange(n)
        self._recording: Recording | None = None
        self._begun = False  # whether every slot is in an episode, and what follows is known of it
        # of the row to come of each slot: its observation, the policy state before it, whether it begins an episode,
        # its step_index, and the episodes begun so far, its own included
        self._observations: Any = None
        self._state: Any = None
        self._starts = np.zeros(n, bool)
        self._steps, self._episodes = np.zeros(n, np.int64), np.zeros(n, np.int64)

    def reset(self, seed: Any, options: Any) -> None:
        """Begin an episode in every slot; see `Collector.reset`."""
        begun = perf_counter()
        begun_before, self._begun = self._begun, False  # what an interrupt leaves half begun is begun anew
        try:
            observations = self._source.reset(seed, options)
        except Exception:
            self._begun = begun_before
            raise
        self.counters.environment_seconds += perf_counter() - begun
        recording = self._recording
        if recording is not None:
            recording.move_out(self._cells(), self._decider.valued(self._state))
        self._episodes += ~self._starts  # an episode in which nobody acted is not counted
        self._starts = np.ones(len(self._every), bool)
        self._steps_to_come()[:] = 0
        self._begin_with(observations, self._decider.fresh(len(self._every)))
        if recording is not None:
            self._begin_rows(recording)
        self._begun = True

    def collect(self) -> Fragment:
        """Go on until a fragment is full."""
        if not self._begun:
            self.reset(None, None)
        recording = self._recording
        if recording is None:
            # only now: whoever holds one fragment until it has the next then needs two sets of arrays, and not three
            recording = self._new_recording()
            self._begin_rows(recording)
            self._recording = recording  # last: what an interrupt leaves half begun is begun anew
        self._fill(recording)
        return self._finish(recording)

    @abstractmethod
    def _fill(self, recording: Recording) -> None:
        """Get rows until the fragment is full."""

    @abstractmethod
    def _cells(self) -> Cells:
        """Where the rows to come of all slots stand."""

    @abstractmethod
    def _to_first_row(self) -> None:
        """Let the rows to come be the first of a fragment."""

    @abstractmethod
    def _begin_with(self, observations: Any, state: Any) -> None:
        """Go on from first observations, and the state in which all slots begin."""

    def _steps_to_come(self) -> NDArray[np.int64]:
        """The step_index of each slot's row to come."""
        return self._steps

    def _begin_rows(self, recording: Recording) -> None:
        """Let the rows to come begin with what the slots show now."""
        cells = self._cells()
        recording.first(cells, self._observations, self._starts)
        if self._state is not None:
            times, slots = cells.before(self._length)
            recording.keep_state(times, slots, take(self._state, slots))

    def _keep_states(self, recording: Recording, cells: Cells, starts: NDArray[np.bool_]) -> None:
        """Keep the states before the rows to come in these cells, where somebody may ask for them.

        Args:
            recording: the fragment.
            cells: where the rows will stand.
            starts: which of them begin an episode.
        """
        if self._stride is not None:
            starts = starts | (self._steps_to_come()[cells.slots] % self._stride == 0)
        places = np.flatnonzero(starts)
        if len(places):
            time, slots = cells.some(places)
            recording.keep_state(time, slots, take(self._state, slots))

    def _new_recording(self) -> Recording:
        self._to_first_row()
        begun, steps = self._episodes - self._starts, self._steps_to_come().copy()
        return Recording(self._source, self._length, self._pool.lend(), self._infos, begun, steps)

    def _finish(self, recording: Recording) -> Fragment:
        """The full fragment."""
        values = self._decider.valued(self._state)
        tail_values = None
        if values is not None:
            tail_values = values(self._every, finish_batch(self._source.observation_space, self._observations))
        fragment = recording.fragment(tail_values, copy(self._state))
        self._recording = None
        self.counters.fragments += 1
        return fragment
