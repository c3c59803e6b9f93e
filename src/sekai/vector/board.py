"""`Board`: what a `ProcVecEnv` and its workers write for each other in shared memory.

One row per slot, one control line per worker. Caller and workers lay out the same board in the same block; each
worker sees and writes its own rows. Who writes what, and when:

    caller    actions, then the number of the request, its command and the place for observations
    worker    the rows, phases and episodes of its slots, then the number of the request that it has answered

so rows belong to the worker from the one number to the other, and to the caller otherwise.

Small observations are copied out of the board. Large ones are handed out as they stand in it, in one of three places
in turn: a place is used again when nobody holds an array in it any more, and as long as there is just one such place
left, its rows are copied as well.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.spaces import copy_batch, has_fixed_size, map_arrays
from sekai.vector.block import Carver, SharedBlock, carved
from sekai.vector.spin import cores

Space = gymnasium.Space[Any]

LARGE = 1 << 16  # bytes of a batch of observations; below, a copy costs less than to find out who holds what
INFO_BYTES = 512  # for the infos of one slot
TRAY_BYTES = 1 << 16  # for the pickled part of the answer of one worker
_LINE = 16  # int64 of a control line: two lines of the cache, since they are fetched in pairs
# what stands in a control line
ASKED, COMMAND, PLACE, ANSWERED, MESSAGE = range(5)
# what `MESSAGE` says besides the length of a message in the tray
NO_MESSAGE, IN_PIPE = 0, -1
# commands
IN_MESSAGE, STEP = 0, 1


class Board:
    """Arrays in shared memory, with `N` slots and `W` workers.

    Args:
        observation_space: of one slot; of fixed size.
        action_space: of one slot; where its size is not fixed, `actions` is None.
        num_envs: N.
        num_workers: W.
        block: the caller's, in a worker; by default a new one.

    Attributes:
        action_space: of one slot.
        sizes: the arguments, with which a worker makes its own.
        control: W lines of int64, as one flat memoryview; see `at`.
        actions: batch of actions.
        observations: the places for batches of observations.
        rewards, terminated, truncated, ended, kind, phase, episode: arrays `(N,)`.
        infos: uint8 `(N, INFO_BYTES)`, see `info_columns`.
        spins: whether it pays to look before sleeping: there is a core for each worker.
        trays: one memoryview of TRAY_BYTES per worker, where it leaves what it has pickled, if there is room.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        num_envs: int,
        num_workers: int,
        block: SharedBlock | None = None,
    ) -> None:
        self.action_space = action_space
        self.sizes = observation_space, action_space, num_envs, num_workers
        self.block = carved(self._lay_out) if block is None else block
        self._lay_out(Carver(self.block))
        self.spins = num_workers <= cores()
        self._idle = [self._holders(place) for place in range(len(self.observations))]
        self.place = 0

    def _lay_out(self, carver: Carver) -> None:
        observation_space, action_space, n, w = self.sizes
        self.control = carver.array((w * _LINE,), np.int64).data
        self.actions: Any = _carve(action_space, n, carver) if has_fixed_size(action_space) else None
        start = carver.size
        self.observations = [_carve(observation_space, n, carver)]
        self.large = carver.size - start >= LARGE
        if self.large:
            self.observations += [_carve(observation_space, n, carver) for _ in range(2)]
        self.rewards: NDArray[np.float64] = carver.array((n,), np.float64)
        self.terminated: NDArray[np.bool_] = carver.array((n,), np.bool_)
        self.truncated: NDArray[np.bool_] = carver.array((n,), np.bool_)
        self.ended: NDArray[np.bool_] = carver.array((n,), np.bool_)
        self.kind: NDArray[np.int8] = carver.array((n,), np.int8)
        self.phase: NDArray[np.int8] = carver.array((n,), np.int8)
        self.episode: NDArray[np.int64] = carver.array((n,), np.int64)
        self.infos: NDArray[np.uint8] = carver.array((n, INFO_BYTES), np.uint8)
        self.trays = [carver.array((TRAY_BYTES,), np.uint8).data for _ in range(w)]

    @staticmethod
    def at(worker: int, field: int) -> int:
        """Where `control` holds a field of a worker."""
        return worker * _LINE + field

    def next_place(self) -> int:
        """The place for the observations of the next call: the first that nobody holds."""
        if self.large:
            self.place = next(p for p, idle in enumerate(self._idle) if self._holders(p) == idle)
        return self.place

    def take_observations(self) -> Any:
        """The batch in the place of this call, as arrays of the caller's own."""
        batch = self.observations[self.place]
        if self.large and sum(self._holders(p) == idle for p, idle in enumerate(self._idle)) > 1:
            return map_arrays(lambda rows: rows[:], batch)
        return copy_batch(self.sizes[0], batch)

    def _holders(self, place: int) -> list[int]:
        """References to the memory of each array of a place; NumPy lets every view of an array refer to its base."""
        counts: list[int] = []
        map_arrays(lambda rows: counts.append(sys.getrefcount(rows.base)), self.observations[place])
        return counts


def _carve(space: Space, n: int, carver: Carver) -> Any:
    """A batch of `n` rows, as `empty_batch` makes it."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: _carve(part, n, carver) for key, part in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(_carve(part, n, carver) for part in space.spaces)
    return carver.array((n, *(space.shape or ())), space.dtype)
