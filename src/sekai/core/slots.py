"""What a call does to a slot: the one state machine behind every backend.

A slot is sub-environment `i` of a vector environment. Between calls it is in a `Phase`; a call to `step` turns
the phase into a `Call`, and the outcome of the call into the next phase and the `RowKind` of the returned row:

    phase      step() does   episode goes on   episode ends (same_step / next_step / disabled)
    NEW        REFUSE
    LIVE       STEP          LIVE              LIVE, after a reset in the same call / WAITING / FROZEN
    WAITING    RESET         LIVE
    FROZEN     HOLD          FROZEN

An explicit reset makes any slot LIVE; a reset that failed makes it NEW. A slot whose environment resets itself
stays LIVE in every mode. The tables below are that drawing; the scalar driver (sync, asyncio, workers) indexes
them with ints, the NumPy driver (native) with arrays.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray


class AutoresetMode(Enum):
    """When a slot whose episode has ended is reset.

    `SAME_STEP`: inside the call in which the episode ends. `NEXT_STEP`: by the next call to `step`, which ignores
    that slot's action. `DISABLED`: only by `reset`; until then the slot is frozen.
    """

    SAME_STEP = "same_step"
    NEXT_STEP = "next_step"
    DISABLED = "disabled"

    @classmethod
    def parse(cls, value: Any) -> AutoresetMode:
        """The mode meant by `True`, `False`, a string, this enum or gymnasium's.

        Raises:
            ValueError: anything else.
        """
        if value is True:
            return cls.SAME_STEP
        if value is False:
            return cls.DISABLED
        if isinstance(value, Enum) and value.name in cls.__members__:
            return cls[value.name]
        if isinstance(value, str) and value in cls._value2member_map_:
            return cls(value)
        raise ValueError(
            f"autoreset is {value!r}; expected True (same_step), False (disabled), "
            "'same_step', 'next_step' or 'disabled'."
        )


class RowKind(IntEnum):
    """What one row of a step's result is.

    `STEP`, `TERMINATED` and `TRUNCATED` are transitions: the action given was executed (`valid`). Termination
    wins where both flags are true. `RESET`: the row is the first observation of a new episode, no action was
    executed. `FROZEN`: the last row of an ended episode, repeated. `LOST`: the caller never saw the row before
    this one, so the row is no transition of what the policy saw.
    """

    STEP = 0
    TERMINATED = 1
    TRUNCATED = 2
    RESET = 3
    FROZEN = 4
    LOST = 5


class Phase(IntEnum):
    """State of a slot between calls."""

    NEW = 0
    LIVE = 1
    WAITING = 2
    FROZEN = 3


class Call(IntEnum):
    """What `step` does to a slot."""

    REFUSE = 0
    STEP = 1
    RESET = 2
    HOLD = 3


#: Call as a plain int, by phase; ints of an enum class are several times slower to compare and to store
CALL_OF_PHASE = tuple(int(call) for call in (Call.REFUSE, Call.STEP, Call.RESET, Call.HOLD))
#: Phase as a plain int, by mode
PHASE_AFTER_END = {
    AutoresetMode.SAME_STEP: int(Phase.LIVE),
    AutoresetMode.NEXT_STEP: int(Phase.WAITING),
    AutoresetMode.DISABLED: int(Phase.FROZEN),
}


def _kind(call: int, terminated: int, truncated: int, lost: int) -> RowKind:
    if lost:
        return RowKind.LOST
    if call == Call.RESET:
        return RowKind.RESET
    if call == Call.HOLD:
        return RowKind.FROZEN
    if terminated:
        return RowKind.TERMINATED
    return RowKind.TRUNCATED if truncated else RowKind.STEP


#: RowKind of a row as a plain int, by `[call][terminated][truncated][lost]`
KIND = [
    [[[int(_kind(call, te, tr, lost)) for lost in (0, 1)] for tr in (0, 1)] for te in (0, 1)]
    for call in (Call.REFUSE, Call.STEP, Call.RESET, Call.HOLD)
]
_CALL_OF_PHASE_ARRAY = np.array(CALL_OF_PHASE, np.int8)
_KIND_ARRAY = np.array(KIND, np.int8)
_KIND_OF_STEP_ARRAY = _KIND_ARRAY[int(Call.STEP), :, :, 0]


def calls_of(phases: NDArray[np.int8]) -> NDArray[np.int8]:
    """NumPy driver: what `step` does to each slot, `(N,)` of `Call`."""
    calls: NDArray[np.int8] = _CALL_OF_PHASE_ARRAY[phases]
    return calls


def kinds_of(
    calls: NDArray[np.int8],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    lost: NDArray[np.bool_],
) -> NDArray[np.int8]:
    """NumPy driver: the kind of each row, `(N,)` of `RowKind`."""
    kinds: NDArray[np.int8] = _KIND_ARRAY[calls, terminated.view(np.int8), truncated.view(np.int8), lost.view(np.int8)]
    return kinds


def kinds_of_steps(
    finished: NDArray[np.intp], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """NumPy driver: `kinds_of` where every slot was stepped, no row was lost, and only those of `finished` ended."""
    kinds = np.zeros(len(terminated), np.int8)  # RowKind.STEP
    kinds[finished] = _KIND_OF_STEP_ARRAY[terminated[finished].view(np.int8), truncated[finished].view(np.int8)]
    return kinds


def phases_after(calls: NDArray[np.int8], ended: NDArray[np.bool_], mode: AutoresetMode) -> NDArray[np.int8]:
    """NumPy driver: the phase of each slot after a call in which the slots of `ended` finished their episode."""
    phases = np.where(calls == Call.HOLD, np.int8(Phase.FROZEN), np.int8(Phase.LIVE))
    phases[ended] = PHASE_AFTER_END[mode]
    return phases


def phase_after(call: int, ended: bool, mode: AutoresetMode) -> int:
    """Scalar driver: the phase of one slot after a call."""
    if call == Call.HOLD:
        return int(Phase.FROZEN)
    return PHASE_AFTER_END[mode] if ended else int(Phase.LIVE)
