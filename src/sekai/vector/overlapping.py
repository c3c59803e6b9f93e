"""`OverlappingVecEnv`: `send` and `recv`, for backends whose slots can be stepped one by one.

A backend says how a slot is stepped (`_launch`) and how to wait until something has come back (`_progress`).
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import Phase, RowKind
from sekai.errors import ResetRequired, VecEnvBusy
from sekai.spaces import iterate
from sekai.spaces.checks import whole_number
from sekai.vector.actions import check_actions
from sekai.vector.base import SlotVecEnv
from sekai.vector.exclusive import exclusive
from sekai.vector.outstanding import Outstanding, Request, Row, check_slots, stack_rows
from sekai.vector.results import VecStepResult

Indices = NDArray[np.intp]


class OverlappingVecEnv(SlotVecEnv):
    """Slots that can be stepped one by one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._outstanding = Outstanding()

    @property
    def outstanding(self) -> NDArray[np.bool_]:
        """Slots that were sent an action whose row has not been received, bool `(num_envs,)`."""
        return self._marked(self._outstanding.asked)

    @exclusive
    def send(self, actions: Any, slots: Any) -> None:
        """Begin to step some slots; see `VecEnv.send`."""
        self._require_open()
        chosen = check_slots(slots, self.num_envs)
        self._require_received(chosen)
        self._catch_up()
        new = [slot for slot in chosen if self.phase[slot] == Phase.NEW]
        if new:
            raise ResetRequired(f"sub-envs {new} need a reset: call reset() before send().")
        if self._unasked:
            self._ask_options()
        if chosen:
            batch = iterate(self.action_space, check_actions(self.action_space, actions, chosen))
            self._note_unfinished()
            self._launch(dict(zip(chosen, map(Request, batch), strict=True)))

    def recv(self, min_slots: int = 1, timeout: float | None = None) -> tuple[Indices, VecStepResult]:
        """The rows that have come back; see `VecEnv.recv`."""
        slots, result, asked, lost = self._receive(min_slots, timeout)
        # last: from here on no interrupt can come before the caller has the rows
        self._outstanding.asked, self._lost = asked, lost
        return slots, result

    @exclusive
    def _receive(self, min_slots: int, timeout: float | None) -> tuple[Indices, VecStepResult, Any, NDArray[np.bool_]]:
        """The rows, and what `asked` and the lost slots are once the caller has them."""
        self._require_open()
        wanted = self._check_wanted(min_slots)
        deadline = deadline_of(None if timeout is None else check_seconds("timeout", timeout))
        while self._progress(0.0):  # what has come back since, all of it
            pass
        while len(ready := self._ready_rows()) < wanted:
            if not self._progress(deadline):
                raise TimeoutError(
                    f"{len(ready)} of {wanted} sub-envs were ready after {timeout} seconds; {self._named_under_way()} "
                    "are under way. Nothing is lost: call recv() again."
                )
            self._require_open()
        if self._unasked:
            self._ask_options()
        slots = list(ready)
        lost, left = self._losses(slots)
        result = stack_rows(self.observation_space, list(ready.values()))
        result.kind[lost] = RowKind.LOST
        left = left if left.any() else self._none_lost
        return np.array(slots, np.intp), result, self._outstanding.without(slots), left

    def _check_wanted(self, min_slots: int) -> int:
        wanted, asked = whole_number("min_slots", min_slots, minimum=1), sorted(self._outstanding.asked)
        if wanted > len(asked):
            raise ValueError(f"min_slots is {wanted}, and {len(asked)} sub-envs were sent an action: {asked}.")
        return wanted

    def _ready_rows(self) -> dict[int, Row]:
        """The rows that have come back, in order of completion; the first error that has is raised."""
        rows: dict[int, Row] = {}
        for slot, outcome in self._outstanding.ready().items():
            if isinstance(outcome, BaseException):
                self._give_up(outcome)
            rows[slot] = outcome
        return rows

    def _give_up(self, error: BaseException) -> NoReturn:
        """Raise what some slots came to; their next rows are lost."""
        slots = [slot for slot, outcome in self._outstanding.ready().items() if outcome is error]
        lost, asked = self._lost | self._marked(slots), self._outstanding.without(slots)
        self._outstanding.asked, self._lost = asked, lost
        raise error

    def _losses(self, slots: list[int]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which of the rows of these slots come after one that was lost, and the slots lost once these are received."""
        return self._lost[slots], self._lost & ~self._marked(slots)

    def _marked(self, slots: Iterable[int]) -> NDArray[np.bool_]:
        mask = np.zeros(self.num_envs, bool)
        mask[list(slots)] = True
        return mask

    def _named_under_way(self) -> str:
        return f"sub-envs {sorted(self._outstanding.under_way())}"

    def _require_received(self, slots: Iterable[int] | None = None) -> None:
        """Refuse a call that would touch slots (by default any) whose row has not been received."""
        asked = self._outstanding.asked
        busy = sorted(asked if slots is None else (slot for slot in slots if slot in asked))
        if busy:
            raise VecEnvBusy(f"sub-envs {busy} were sent an action whose row was not received: call recv() first.")

    def _finish_all(self) -> None:
        """Wait until nothing is under way any more; the rows stay to be received."""
        while self._outstanding.under_way():
            self._progress(None)
            self._require_open()

    def _catch_up(self) -> None:
        """Learn in which phase and episode the slots are; nothing to be done where they are in this process."""

    @abstractmethod
    def _launch(self, requests: dict[int, Request]) -> None:
        """Begin to step these slots, which are not busy and do not need a reset."""

    @abstractmethod
    def _progress(self, deadline: float | None) -> bool:
        """Wait until something has come back; False when nothing had by the deadline (of `time.monotonic`)."""


def deadline_of(seconds: float | None) -> float | None:
    """When so many seconds will have passed, of `time.monotonic`; None: never."""
    return None if seconds is None else time.monotonic() + seconds


def check_seconds(name: str, value: Any) -> float:
    """A number of seconds.

    Raises:
        ValueError: no number, or a negative one.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise ValueError(f"{name} is {value!r}; expected seconds, at least 0.")
    return float(value)
