"""`RecordPerformance` and `VecRecordPerformance`: ledger and metrics of every finished episode.

Both read nothing but infos, so that they stand around any environment of this package and around whatever wraps one
and hands on its infos.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.core.results import ResetResult, StepResult
from sekai.core.slots import RowKind
from sekai.core.wrapper import Wrapper
from sekai.finance.ledgers import Account, Columns, Episodes, Performance, account_of
from sekai.vector.base import VecEnv
from sekai.vector.infos import Infos, Part, TakenInfos
from sekai.vector.results import VecResetResult, VecStepResult
from sekai.vector.wrapper import VecWrapper


class RecordPerformance(Wrapper):
    """Leave a `Performance` in `info["performance"]` of the step that ends an episode.

    Inside `AutoReset` it is also in `info["final_info"]`; outside, it is put there too.

    Args:
        env: the environment to wrap, one whose infos report an `equity`, a `wealth` or an `implementation_shortfall`;
            also one that resets itself.

    Raises:
        ValueError: at the first reset, if the infos have none of them.
    """

    counts_rows = True
    vector_version = "VecRecordPerformance"

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._account: Account | None = None
        self._names: tuple[str, ...] = ()
        self._first: tuple[Any, ...] = ()
        self._rows: list[tuple[Any, ...]] = []

    def after_step(self, result: StepResult) -> StepResult:
        """Keep the row, and report the episode when it has ended."""
        if self._account is None:
            return result  # the beginning of this episode was not seen
        info = result.info
        self._rows.append(tuple([info[name] for name in self._names]))
        if not result.done:
            return result
        performance = self._finished(self._account)
        self._account = None
        info = {**info, "performance": performance}
        if "reset_info" in info:
            info["final_info"] = {**info["final_info"], "performance": performance}
            self._begin(info["reset_info"])
        return result._replace(info=info)

    def after_reset(self, result: ResetResult) -> ResetResult:
        """Forget an unfinished episode."""
        self._begin(result.info)
        return result

    def _begin(self, info: dict[str, Any]) -> None:
        account = account_of(info, self.env)
        levels, flows = account.reported(info)
        self._account, self._names = account, (*levels, *flows)
        self._first = tuple(info[name] for name in levels)
        self._rows = []

    def _finished(self, account: Account) -> Performance:
        columns: Columns = {}
        starts = [[value] for value in self._first] + [[]] * (len(self._names) - len(self._first))
        for name, start, values in zip(self._names, starts, zip(*self._rows, strict=True), strict=True):
            columns[name] = _as_column(name, [*start, *values])[..., None]
        return Performance(Episodes(account, columns), 0)


class VecRecordPerformance(VecWrapper):
    """Leave a `Performance` in `infos[i]["performance"]` when sub-environment `i` finishes an episode.

    It is in `result.final_info(i)` as well, in every autoreset mode. An episode of which a row was lost, or whose
    beginning was not seen, is not reported.

    A plain step writes one row a column and nothing per slot. The memory grows with the longest unfinished episode:
    about 60 bytes (`Trading-v0`) to 100 bytes a step and slot.

    Args:
        venv: the vector environment to wrap, whose infos report an `equity`, a `wealth` or an
            `implementation_shortfall`.

    Raises:
        ValueError: at the first reset, if the infos have none of them.
    """

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        n = self.num_envs
        self._account: Account | None = None
        self._levels: tuple[str, ...] = ()
        self._flows: tuple[str, ...] = ()
        self._firsts: Columns = {}  # (..., N), levels at the start of each slot's episode
        self._rings: Columns = {}  # (capacity, ..., N); row r holds the calls r, r + capacity, ...
        self._capacity = 64
        self._calls = 0  # how many rows have been written
        self._full_at = 64  # at this call the rings may be full
        self._starts = np.zeros(n, np.int64)  # the first call of each slot's episode
        self._whole = np.zeros(n, bool)  # slots in an episode of which everything was seen

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """Keep the rows, and report the episodes that ended."""
        if self._account is None:
            return result  # no reset was seen
        if result.plain:  # plain steps only
            self._keep(result.infos, None)
            return result
        self._whole &= result.kind != RowKind.LOST
        valid = np.flatnonzero(result.valid)
        if len(valid):
            self._keep(result.infos, None if len(valid) == self.num_envs else valid)
        finished = self._finished(np.flatnonzero(result.ended & self._whole))
        self._whole &= ~result.ended
        begun = np.flatnonzero(result.begun)
        self._begin(np.flatnonzero(result.kind == RowKind.RESET), result.infos)
        if len(begun):
            self._begin(begun, result.infos.part("reset_info", begun).values)
        if finished:
            _put(result, begun, finished)
        return result

    def after_reset(self, result: VecResetResult, mask: NDArray[np.bool_]) -> VecResetResult:
        """Forget the unfinished episodes of the slots that were reset."""
        self._begin(np.flatnonzero(mask), result.infos)
        return result

    def _begin(self, slots: NDArray[np.intp], infos: Any) -> None:
        """Begin episodes; `infos` has one entry for every slot, or one for each of `slots`."""
        if not len(slots):
            return
        of_all = isinstance(infos, Infos) and len(infos) == self.num_envs
        places = slots if of_all else np.arange(len(slots))
        if self._account is None:
            names = infos[int(places[0])]
            self._account = account_of(names, self.venv)
            self._levels, self._flows = self._account.reported(names)
        for name in self._levels:
            values = _read(infos, name, places)
            if name not in self._firsts:
                self._firsts[name] = np.zeros((*values.shape[:-1], self.num_envs), values.dtype)
            self._firsts[name][..., slots] = values
        self._starts[slots] = self._calls
        self._whole[slots] = True

    def _keep(self, infos: Infos, slots: NDArray[np.intp] | None) -> None:
        """Write a row for each of `slots`, None for all."""
        if self._calls >= self._full_at:
            self._make_room()
        row = self._calls % self._capacity
        columns = infos.stacked if slots is None else None
        for name in (*self._levels, *self._flows):
            if columns is not None:
                values = columns[name].T
            else:
                values = _read(infos, name, np.arange(self.num_envs) if slots is None else slots)
            ring = self._rings.get(name)
            if ring is None:
                dtype = values.dtype if name == "timestamp" else np.dtype(np.float64)
                ring = np.zeros((self._capacity, *values.shape[:-1], self.num_envs), dtype)
                self._rings[name] = ring
            if slots is None:
                ring[row] = values
            else:
                ring[row][..., slots] = values
        self._calls += 1

    def _make_room(self) -> None:
        """Double the rings if the oldest row is still needed."""
        starts = self._starts[self._whole]
        oldest = int(starts.min()) if len(starts) else self._calls
        if self._calls - oldest >= self._capacity:
            calls = np.arange(oldest, self._calls)
            for name, ring in self._rings.items():
                larger = np.zeros((2 * self._capacity, *ring.shape[1:]), ring.dtype)
                larger[calls % len(larger)] = ring[calls % self._capacity]
                self._rings[name] = larger
            self._capacity *= 2
        self._full_at = oldest + self._capacity

    def _finished(self, slots: NDArray[np.intp]) -> dict[int, Performance]:
        """The episodes that ended in these slots, in ascending order."""
        found: dict[int, Performance] = {}
        if self._account is None or not len(slots):
            return found
        starts = self._starts[slots]
        for start in np.unique(starts).tolist():
            members = slots[starts == start]
            episodes = Episodes(self._account, self._ledgers(members, start))
            found.update((slot, Performance(episodes, place)) for place, slot in enumerate(members.tolist()))
        return dict(sorted(found.items()))

    def _ledgers(self, slots: NDArray[np.intp], start: int) -> Columns:
        """The columns of slots whose episode had its first step in call `start` and its last in the latest."""
        first, after = start % self._capacity, (self._calls - 1) % self._capacity + 1
        pieces = [slice(first, after)] if first < after else [slice(first, None), slice(0, after)]
        columns = {}
        for name, ring in self._rings.items():
            before = [self._firsts[name][None]] if name in self._levels else []
            columns[name] = _gathered([*before, *(ring[piece] for piece in pieces)], slots)
        return columns


def _gathered(pieces: list[NDArray[Any]], slots: NDArray[np.intp]) -> NDArray[Any]:
    """The pieces one after the other, of some slots only; `np.concatenate` of them would copy twice."""
    length = sum(map(len, pieces))
    gathered = np.empty((length, *pieces[-1].shape[1:-1], len(slots)), pieces[-1].dtype)
    at = 0
    for piece in pieces:
        place = gathered[at : at + len(piece)]
        if len(slots) == piece.shape[-1]:
            place[...] = piece
        else:
            np.take(piece, slots, axis=-1, out=place, mode="clip")  # the other modes fill a buffer first
        at += len(piece)
    return gathered


def _put(result: VecStepResult, begun: NDArray[np.intp], finished: dict[int, Performance]) -> None:
    """Put the performances where `infos[i]` and `final_info(i)` show them."""
    result.infos.put(Part("performance", list(finished.values()), np.array(list(finished), np.intp)))
    if not len(begun):
        return  # then the final info is the info
    final = result.infos.part("final_info", begun)
    here = [slot for slot in final.slots.tolist() if slot in finished]
    part = Part("performance", [finished[slot] for slot in here], np.array(here, np.intp))
    if isinstance(final.values, TakenInfos):
        final.values.put(part)
    else:
        for slot in here:
            final.values[final.place(slot)]["performance"] = finished[slot]


def _read(infos: Any, name: str, places: NDArray[np.intp]) -> NDArray[Any]:
    """The values of a key, `(..., len(places))`."""
    values = infos.part(name, places).values if isinstance(infos, Infos) else [infos[int(k)][name] for k in places]
    return _as_column(name, values).T


def _as_column(name: str, values: Any) -> NDArray[Any]:
    """Time stamps as they are, everything else in float64."""
    return np.asarray(values) if name == "timestamp" else np.asarray(values, np.float64)
