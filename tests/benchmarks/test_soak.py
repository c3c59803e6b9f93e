"""A few seconds of the mixed soak of worker processes, and what it does not let pass."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.soak_reference import BOOM, Call, Coded, Mismatch, Share, reference
from sekai import RowKind

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"
STEP = Call(np.array([1, 2]))
RESET = Call(None, [3, 4], [None, None], np.ones(2, bool))


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads /proc")
def test_twenty_seconds_of_everything_leave_nothing_and_mix_up_nothing() -> None:
    words = [sys.executable, str(SOAK), "--minutes", "0.33", "--seed", "7"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^ *([\d,]+)  (.+)$", done.stdout, re.M)
    counts = {name: int(number.replace(",", "")) for number, name in found}
    assert counts["rows compared"] > 100 and counts["built"] == counts["closed"] > 0
    assert done.stdout.rstrip().endswith("with seed 7")


def vec() -> Any:
    return reference([partial(Coded, slot, 3, "terminated", 4) for slot in range(2)], "same_step", None)


def started() -> tuple[Share, Any]:
    """A share, and another environment that got the same reset."""
    share, other = Share(0, 2, vec()), vec()
    share.returned(RESET, RESET.on(other))
    return share, other


def doctored(result: Any, name: str, value: Any) -> Any:
    """A result that is wrong in the second slot."""
    wrong = getattr(result, name).copy()
    wrong[1] = value
    return result.replace(**{name: wrong})


def test_the_same_calls_give_the_same_rows() -> None:
    share, other = started()
    for _ in range(7):
        share.returned(STEP, STEP.on(other))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rewards", 11.0),
        ("observations", 0.0),
        ("terminated", True),
        ("truncated", True),
        ("kind", RowKind.LOST),
        ("ended", True),
    ],
)
def test_a_wrong_row_is_found(name: str, value: Any) -> None:
    share, other = started()
    with pytest.raises(Mismatch, match=name):
        share.returned(STEP, doctored(STEP.on(other), name, value))


def test_a_wrong_info_is_found() -> None:
    share, other = started()
    result = STEP.on(other)
    result.infos[1]["t"] = 7
    with pytest.raises(Mismatch, match="infos"):
        share.returned(STEP, result)


def lost(other: Any) -> None:
    """Nobody sees the rows of a step."""
    other.step(STEP.actions)
    other.lose_rows(np.ones(2, bool))


def forgotten(other: Any) -> None:
    """A step of which nobody was told anything."""
    other.step(STEP.actions)


def twice(other: Any) -> None:
    """A step that was executed twice."""
    lost(other)
    lost(other)


@pytest.mark.parametrize(("what", "right"), [(lost, True), (forgotten, False), (twice, False)])
def test_after_an_interrupt_rows_are_lost_or_nothing_has_happened(what: Callable[[Any], None], right: bool) -> None:
    share, other = started()
    share.unseen(STEP, np.zeros(2, bool), executed=None)
    assert len(share.possible) == 2
    what(other)
    if right:
        share.returned(STEP, STEP.on(other))
        assert len(share.possible) == 1
    else:
        with pytest.raises(Mismatch):
            share.returned(STEP, STEP.on(other))


def test_an_error_of_an_environment_is_that_of_its_slot() -> None:
    share, _ = started()
    with pytest.raises(Mismatch, match="slot 1 went boom"):
        share.raised(Call(np.array([0, BOOM])), 0, "Sub-env 0 raised ValueError: slot 0 went boom")
    share, _ = started()
    share.raised(Call(np.array([0, BOOM])), 1, "Sub-env 1 raised ValueError: slot 1 went boom")
