"""Bookkeeping of overlapped steps: which slots have been sent an action, and which of them have come back.

A slot is *asked* from `send` until its row is in the caller's hands. Every change that a caller could see half of, were
it interrupted, is one assignment; so an interrupt leaves a slot asked or not, and its row where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from sekai.core.slots import RowKind
from sekai.spaces import concatenate, read_row
from sekai.vector.infos import Infos
from sekai.vector.results import VecStepResult


class Row(NamedTuple):
    """What a step made of one slot; the fields are those of `VecStepResult`."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    kind: int
    ended: bool

    @classmethod
    def of(cls, result: VecStepResult) -> Row:
        """The only row of a result."""
        return cls(
            read_row(result.space, result.observations, 0),
            float(result.rewards[0]),
            bool(result.terminated[0]),
            bool(result.truncated[0]),
            result.infos[0],
            int(result.kind[0]),
            bool(result.ended[0]),
        )


def first_row(observation: Any, info: dict[str, Any]) -> Row:
    """The first row of an episode that began because the one before was lost."""
    return Row(observation, 0.0, False, False, info, int(RowKind.LOST), False)


class Request:
    """An action on its way.

    Attributes:
        action: it, checked.
        packed: it and what goes with it, pickled; None where nothing is.
        taken_by: who works on it; None: nobody yet.
    """

    __slots__ = ("action", "packed", "taken_by")

    def __init__(self, action: Any, packed: bytes | None = None) -> None:
        self.action, self.packed = action, packed
        self.taken_by: object = None


class Outstanding:
    """Slots that have been sent an action whose row the caller does not have.

    Attributes:
        asked: the requests by slot; the rows that the caller takes leave it in one assignment.
        finished: by slot, in order of completion, its row or what it raised. An entry of a slot that is not asked is
            of an earlier request and means nothing. Written by whoever steps the slot, also in another thread.
    """

    def __init__(self) -> None:
        self.asked: dict[int, Request] = {}
        self.finished: dict[int, Row | BaseException] = {}

    def ask(self, requests: dict[int, Request]) -> None:
        """Slots that are not asked are from now on."""
        for slot in requests:
            self.finished.pop(slot, None)
        self.asked.update(requests)

    def ready(self) -> dict[int, Row | BaseException]:
        """What has come back, in order of completion."""
        return {slot: outcome for slot, outcome in self.finished.copy().items() if slot in self.asked}

    def under_way(self) -> dict[int, Request]:
        """What has not come back."""
        return {slot: request for slot, request in self.asked.copy().items() if slot not in self.finished}

    def without(self, slots: Iterable[int]) -> dict[int, Request]:
        """What `asked` is once the rows of these slots have been taken."""
        taken = set(slots)
        return {slot: request for slot, request in self.asked.items() if slot not in taken}


def stack_rows(space: gymnasium.Space[Any], rows: Sequence[Row]) -> VecStepResult:
    """The result that consists of these rows.

    Args:
        space: observation space of one slot.
        rows: at least one.
    """
    observations, rewards, terminated, truncated, infos, kinds, ended = zip(*rows, strict=True)
    return VecStepResult(
        concatenate(space, observations),
        np.array(rewards, np.float64),
        np.array(terminated, bool),
        np.array(truncated, bool),
        Infos.of(infos),
        kind=np.array(kinds, np.int8),
        ended=np.array(ended, bool),
        space=space,
    )


def check_slots(slots: Any, num_envs: int) -> list[int]:
    """Indices of slots, each given once.

    Raises:
        TypeError: no list of ints.
        ValueError: one that does not exist, or is given twice; the message names it.
    """
    array = np.asarray(slots)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise TypeError(f"slots is {slots!r}; expected a list of ints from 0 to {num_envs - 1}, or an int array.")
    chosen: list[int] = array.astype(np.intp).tolist()
    unknown = [slot for slot in chosen if not 0 <= slot < num_envs]
    if unknown:
        raise ValueError(f"There are no sub-envs {unknown}; expected slots from 0 to {num_envs - 1}.")
    twice = sorted({slot for slot in chosen if chosen.count(slot) > 1}) if len(set(chosen)) < len(chosen) else []
    if twice:
        raise ValueError(f"slots has sub-envs {twice} twice; a sub-env takes one action at a time.")
    return chosen
