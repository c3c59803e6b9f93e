"""The state machine of a slot: the whole table, by hand, through both drivers."""

from __future__ import annotations

import enum
import itertools
import re
from typing import Any

import gymnasium
import numpy as np
import pytest

import sekai
from sekai.core import slots
from sekai.core.slots import KIND, Call, Phase, calls_of, kinds_of, kinds_of_steps, phase_after, phases_after
from sekai.testing import CodedEnv

SAME, NEXT, DISABLED = sekai.AutoresetMode
NEW, LIVE, WAITING, FROZEN = Phase
REFUSE, STEP, RESET, HOLD = Call

# phase -> what step() does, phase where the episode goes on, phases where it ends (same_step, next_step, disabled);
# () where no episode can end
TABLE: dict[Phase, tuple[Call, Phase | None, tuple[Phase, ...]]] = {
    NEW: (REFUSE, None, ()),
    LIVE: (STEP, LIVE, (LIVE, WAITING, FROZEN)),
    WAITING: (RESET, LIVE, ()),
    FROZEN: (HOLD, FROZEN, ()),
}
# (terminated, truncated) -> kind of a row that was stepped
STEPPED = {
    (False, False): sekai.RowKind.STEP,
    (True, False): sekai.RowKind.TERMINATED,
    (False, True): sekai.RowKind.TRUNCATED,
    (True, True): sekai.RowKind.TERMINATED,
}


def cells() -> list[tuple[Call, bool, sekai.AutoresetMode, Phase]]:
    """Every cell of the table: call, whether the episode ends, mode, phase afterwards."""
    found = []
    for call, goes_on, ends in TABLE.values():
        for place, mode in enumerate((SAME, NEXT, DISABLED)):
            if goes_on is not None:
                found.append((call, False, mode, goes_on))
            if ends:
                found.append((call, True, mode, ends[place]))
    return found


def kind_of(call: Call, terminated: bool, truncated: bool, lost: bool) -> sekai.RowKind:
    """The kind of a row as `RowKind` describes it."""
    if lost:
        return sekai.RowKind.LOST
    return {STEP: STEPPED[terminated, truncated], RESET: sekai.RowKind.RESET, HOLD: sekai.RowKind.FROZEN}[call]


def test_the_whole_table_through_both_drivers() -> None:
    for phase, (call, _, _) in TABLE.items():
        assert slots.CALL_OF_PHASE[phase] == call
    assert calls_of(np.array(list(TABLE), np.int8)).tolist() == [call for call, _, _ in TABLE.values()]

    assert len(cells()) == 12  # three modes: LIVE goes on or ends, WAITING and FROZEN go on
    for call, ended, mode, expected in cells():
        assert phase_after(int(call), ended, mode) == expected, (call, ended, mode)
    for mode in (SAME, NEXT, DISABLED):
        row = [cell for cell in cells() if cell[2] is mode]
        calls = np.array([call for call, *_ in row], np.int8)
        after = phases_after(calls, np.array([ended for _, ended, *_ in row]), mode)
        assert after.tolist() == [expected for *_, expected in row], mode
        assert after.dtype == np.int8


def test_the_kind_of_every_row_through_both_drivers() -> None:
    rows: list[Any] = list(itertools.product((STEP, RESET, HOLD), *[(False, True)] * 3))
    expected = [kind_of(*row) for row in rows]
    assert [KIND[call][te][tr][lost] for call, te, tr, lost in rows] == expected
    columns = list(zip(*rows, strict=True))
    kinds = kinds_of(np.array(columns[0], np.int8), *(np.array(column) for column in columns[1:]))
    assert kinds.tolist() == expected
    assert kinds.dtype == np.int8


def test_the_short_way_for_steps_gives_the_kinds_of_the_table() -> None:
    flags = np.array(list(STEPPED) * 2)
    terminated, truncated = flags[:, 0], flags[:, 1]
    kinds = kinds_of_steps(np.flatnonzero(flags.any(axis=1)), terminated, truncated)
    assert kinds.tolist() == list(STEPPED.values()) * 2 and kinds.dtype == np.int8
    steps = np.full(len(flags), STEP, np.int8)
    assert np.array_equal(kinds, kinds_of(steps, terminated, truncated, np.zeros(len(flags), bool)))


def test_the_table_is_the_one_drawn_in_the_module() -> None:
    lines = [line.strip() for line in (slots.__doc__ or "").splitlines() if line.startswith("    ")]
    drawn = [re.split(r" {2,}", line) for line in lines[1:]]
    written = []
    for phase, (call, goes_on, ends) in TABLE.items():
        line = [phase.name, call.name]
        line += [goes_on.name] if goes_on is not None else []
        line += [" / ".join(end.name for end in ends)] if ends else []
        written.append(line)
    assert [[part.replace(", after a reset in the same call", "") for part in line] for line in drawn] == written


def test_termination_wins_and_the_flags_stay_readable() -> None:
    result = sekai.TimeLimit(CodedEnv(length=2), 2)
    result.reset()
    result.step(0)
    end = result.step(0)
    assert (end.terminated, end.truncated) == (True, True)
    assert KIND[STEP][end.terminated][end.truncated][False] == sekai.RowKind.TERMINATED


def test_the_numbers_of_kinds_and_phases_are_what_arrays_hold() -> None:
    names = ["STEP", "TERMINATED", "TRUNCATED", "RESET", "FROZEN", "LOST"]
    assert [sekai.RowKind(number).name for number in range(6)] == names
    assert [phase.value for phase in Phase] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        (True, SAME),
        (False, DISABLED),
        *((mode.value, mode) for mode in sekai.AutoresetMode),
        *((mode, mode) for mode in sekai.AutoresetMode),
        (gymnasium.vector.AutoresetMode.SAME_STEP, SAME),
        (gymnasium.vector.AutoresetMode.NEXT_STEP, NEXT),
        (gymnasium.vector.AutoresetMode.DISABLED, DISABLED),
    ],
)
def test_every_spelling_of_a_mode(given: Any, mode: sekai.AutoresetMode) -> None:
    assert sekai.AutoresetMode.parse(given) is mode


class Other(enum.Enum):
    SOMETIMES = "same_step"


@pytest.mark.parametrize("given", ["sometimes", "SAME_STEP", "", None, 1, 0, ["same_step"], Other.SOMETIMES])
def test_anything_else_is_refused_with_the_choices(given: Any) -> None:
    text = (
        f"autoreset is {given!r}; expected True (same_step), False (disabled), 'same_step', 'next_step' or 'disabled'."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        sekai.AutoresetMode.parse(given)
