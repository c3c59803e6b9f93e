"""Observation wrappers around a `VecEnv`, without and with memory.

What a row of a step's result is decides how it is shown:

    row                                  without memory           with memory
    an observation to act on             `observation`            remembered, then shown
    first observation of an episode      `observation`            memory begins anew, then shown
    last observation, in the row or      `final_observation`      remembered, then shown; under same_step before the
      (same_step) in the info                                     memory begins anew with the row
    frozen: an earlier row, repeated     as it was shown          as it was shown
    after a lost row                     as the above             memory begins anew with what is there now
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import RowKind
from sekai.errors import SpaceMismatch
from sekai.spaces import (
    concatenate,
    copy_batch,
    empty_batch,
    finish_batch,
    iterate,
    put_rows,
    take_rows,
    write_row,
)
from sekai.vector.base import VecEnv
from sekai.vector.infos import Infos, Part
from sekai.vector.outputs import check_batch
from sekai.vector.results import VecResetResult, VecStepResult
from sekai.vector.wrapper import VecWrapper
from sekai.wrappers.frames import ALL, Slots

Indices = NDArray[np.intp]


def acted_on(result: VecStepResult) -> NDArray[np.bool_] | None:
    """Slots whose row is an observation that a policy acts on: neither the last of an episode nor frozen; None: all."""
    return None if result.plain else ~result.dones | result.begun


def finals_of(result: VecStepResult) -> Part:
    """The last observations that stand in the infos, of the slots in which an episode ended and the next one began."""
    return result.infos.part("final_observation", np.flatnonzero(result.begun))


class VecObservationWrapper(VecWrapper):
    """Base class of wrappers that transform batches of observations: implement `observation`.

    A subclass that changes the space calls `set_observation_space` in its constructor.
    """

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self._held: Any = None  # transformed rows of slots that wait for a reset, in a batch
        self._holds = np.zeros(self.num_envs, bool)
        self._waits = False  # some slot is held
        self._checked = False

    def observation(self, batch: Any) -> Any:
        """The transformed batch, in new arrays."""
        raise NotImplementedError(f"{type(self).__name__} must implement observation(batch).")

    def final_observation(self, obs: Any) -> Any:
        """The transformed last observation of an episode, one sample; by default `observation` of a batch of one.

        Override it when `observation` has side effects or only makes sense on a full batch.
        """
        inner = self.venv.observation_space
        one = empty_batch(inner, 1)
        write_row(inner, one, 0, obs)
        return next(iterate(self.observation_space, self.observation(finish_batch(inner, one))))

    def _final_batch(self, rows: Any) -> Any:
        """The transformed last observations of some episodes; a transform of each row by itself needs no loop."""
        finals = [self.final_observation(row) for row in iterate(self.venv.observation_space, rows)]
        return concatenate(self.observation_space, finals)

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """Transform the batch, and the terminal rows on their own."""
        if result.plain:
            self._release()
            batch = self._transformed(result.observations, self.num_envs)
            return result.replace(observations=batch, space=self.observation_space)
        return self._show(result, np.arange(self.num_envs))

    def after_recv(self, result: VecStepResult, slots: Indices) -> VecStepResult:
        """Transform the rows, and the terminal ones on their own."""
        return self._show(result, slots)

    def _show(self, result: VecStepResult, slots: Indices) -> VecStepResult:
        """The transformed rows of these slots."""
        in_rows = np.flatnonzero(result.ended & ~result.begun)
        # ended and not in this call: frozen, also where the call that froze it was lost
        batch = self._with_ends(result.observations, in_rows, np.flatnonzero(result.dones & ~result.ended), slots)
        finals = finals_of(result)
        if len(finals.slots):
            rows = as_batch(self.venv.observation_space, finals.values)
            put_finals(result.infos, finals.slots, self.observation_space, self._final_batch(rows))
        return result.replace(observations=batch, space=self.observation_space)

    def after_reset(self, result: VecResetResult, mask: NDArray[np.bool_]) -> VecResetResult:
        """Transform the batch; slots outside the mask that are frozen keep their transformed row."""
        nobody, every = np.zeros(0, np.intp), np.arange(self.num_envs)
        batch = self._with_ends(result.observations, nobody, np.flatnonzero(result.dones), every)
        return result.replace(observations=batch)

    def reset_failed(self, mask: NDArray[np.bool_]) -> None:
        """Forget the frozen rows of these slots."""
        self._holds &= ~mask

    def _with_ends(self, observations: Any, ended: Indices, waiting: Indices, slots: Indices) -> Any:
        """The transformed batch, in which some rows are the transformed last row of their episode.

        Args:
            observations: the batch as it came.
            ended: rows that are the last of an episode that ended in this call.
            waiting: rows that are those of an earlier call; they have been transformed then, unless nobody saw it.
            slots: the slot of each row.
        """
        new = np.concatenate([ended, waiting[~self._holds[slots[waiting]]]])
        # read before the batch is transformed: a transform may work in place
        raw = take_rows(self.venv.observation_space, observations, new) if len(new) else None
        batch = self._transformed(observations, len(slots))
        finals = self._final_batch(raw) if len(new) else None
        self._holds[slots] = False
        if not (len(new) or len(waiting)):
            return batch
        if self._held is None:
            self._held = empty_batch(self.observation_space, self.num_envs)
        if len(new):
            put_rows(self._held, slots[new], finals)
        held = np.concatenate([ended, waiting])
        self._holds[slots[held]] = self._waits = True
        batch = copy_batch(self.observation_space, batch)  # the transform may have handed on what it was given
        put_rows(batch, held, take_rows(self.observation_space, self._held, slots[held]))
        return finish_batch(self.observation_space, batch)

    def _release(self) -> None:
        """Hold no rows: no slot waits for a reset."""
        if self._waits:
            self._holds[:] = self._waits = False

    def _transformed(self, observations: Any, n: int) -> Any:
        batch = self.observation(observations)
        if not self._checked:
            try:
                check_batch(self.observation_space, batch, n, f"{type(self).__name__}.observation()")
            except ValueError as error:
                raise SpaceMismatch(
                    f"{error} Declare the transformed space (new_observation_space, or set_observation_space)."
                ) from error
            self._checked = True
        return batch


class VecMemoryWrapper(VecWrapper):
    """Base class of wrappers whose observations depend on earlier ones of the same episode.

    A subclass keeps a memory per slot and implements `begin`, `remember` and `shown`; each is given the slots and
    their observations, `(k, ...)`.
    """

    def begin(self, slots: Slots, rows: Any) -> None:
        """These slots begin an episode with these observations."""
        raise NotImplementedError

    def remember(self, slots: Slots, rows: Any) -> None:
        """These slots go on with these observations."""
        raise NotImplementedError

    def resume(self, slots: Indices, rows: Any, infos: list[dict[str, Any]]) -> None:
        """A row of these slots was lost; by default what they show now is all that is remembered.

        Args:
            slots, rows: as for `begin`.
            infos: one per slot of `slots`.
        """
        self.begin(slots, rows)

    def shown(self, slots: Slots, rows: Any) -> Any:
        """What is shown of these slots whose latest observations these are, in new arrays."""
        raise NotImplementedError

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """Remember each row as what it is; see the module."""
        observations = result.observations
        if result.plain:
            self.remember(ALL, observations)
        else:
            self._sort(result, np.arange(self.num_envs))
        return result.replace(observations=self.shown(ALL, observations), space=self.observation_space)

    def after_recv(self, result: VecStepResult, slots: Indices) -> VecStepResult:
        """Remember each row as what it is; see the module."""
        self._sort(result, slots)
        return result.replace(observations=self.shown(slots, result.observations), space=self.observation_space)

    def _sort(self, result: VecStepResult, of: Indices) -> None:
        """Remember the rows of a result, whose slots are `of`."""
        inner, infos = self.venv.observation_space, result.infos
        lost = result.kind == RowKind.LOST
        finals, begun = finals_of(result), result.begun
        if len(finals.slots):
            rows = as_batch(inner, finals.values)
            self._go_on(finals.slots, rows, lost, infos, of)
            put_finals(infos, finals.slots, self.observation_space, self.shown(of[finals.slots], rows))
        begins = np.flatnonzero(begun | (result.kind == RowKind.RESET))
        if len(begins):
            self.begin(of[begins], take_rows(inner, result.observations, begins))
        goes_on = np.flatnonzero(~begun & (result.kind != RowKind.RESET) & (result.kind != RowKind.FROZEN))
        if len(goes_on):
            self._go_on(goes_on, take_rows(inner, result.observations, goes_on), lost, infos, of)

    def _go_on(self, places: Indices, rows: Any, lost: NDArray[np.bool_], infos: Infos, of: Indices) -> None:
        slots, gone = of[places], lost[places]
        if not gone.any():
            self.remember(slots, rows)
            return
        inner = self.venv.observation_space
        self.remember(slots[~gone], take_rows(inner, rows, np.flatnonzero(~gone)))
        rows = take_rows(inner, rows, np.flatnonzero(gone))
        self.resume(slots[gone], rows, [infos[place] for place in places[gone].tolist()])

    def after_reset(self, result: VecResetResult, mask: NDArray[np.bool_]) -> VecResetResult:
        """Begin anew where an episode began, and where a row was lost; the other slots show what they did."""
        slots = np.flatnonzero(mask | self.venv.lost_rows)
        if len(slots):
            self.begin(slots, take_rows(self.venv.observation_space, result.observations, slots))
        return result.replace(observations=self.shown(ALL, result.observations))


def as_batch(space: gymnasium.Space[Any], values: Any) -> Any:
    """The values of a `Part`, samples of `space`, as a batch."""
    if isinstance(values, np.ndarray) and values.ndim > 1:
        return values
    return concatenate(space, list(values))


def put_finals(infos: Infos, slots: Indices, space: gymnasium.Space[Any], rows: Any) -> None:
    """Set `final_observation` of some slots to the rows of a batch of samples of `space`."""
    values = rows if isinstance(rows, np.ndarray) and rows.ndim > 1 else list(iterate(space, rows))
    infos.put(Part("final_observation", values, slots))
