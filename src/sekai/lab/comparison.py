"""`Comparison`: one run in the three autoreset modes, whose transitions are the same and stand in different rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sekai.lab.rows import Cell, Run
from sekai.lab.setups import MODES, Setup


class Agreement(NamedTuple):
    """What a comparison of transitions came to.

    Attributes:
        compared: pairs of transitions that were compared: of each slot as many as the mode with the fewest has, of
            the two other modes each.
        different: how many of these pairs differ in anything but the call in which they stand.
    """

    compared: int
    different: int


class Comparison:
    """A setup in the three modes, on the backend sync: there each slot has a random stream of its own, so what an
    environment draws does not depend on when other slots are reset.

    Args:
        setup: what is run; its backend and its mode are left out of account.

    Raises:
        Exception: what building or resetting an environment raised; nothing is left open then.
    """

    def __init__(self, setup: Setup) -> None:
        with ExitStack() as stack:
            self.runs: dict[str, Run] = {}
            for mode in MODES:
                self.runs[mode] = Run(replace(setup, autoreset=mode, backend="sync"))
                stack.callback(self.runs[mode].close)
            self._open = stack.pop_all()

    def advance(self, calls: int) -> None:
        """Play every mode until it has made so many calls; those that have stay as they are.

        Raises:
            Exception: what an environment raised.
        """
        for run in self.runs.values():
            run.step(max(0, calls - len(run)))

    def close(self) -> None:
        """Close the environments."""
        self._open.close()

    def agreement(self) -> Agreement:
        """Compare the transitions of every slot with those of the first mode, in order."""
        slots = next(iter(self.runs.values())).setup.slots
        pairs = [pair for slot in range(slots) for pair in self._pairs(slot)]
        return Agreement(len(pairs), sum(not _same(*pair) for pair in pairs))

    def places(self, episode_id: int, step_index: int) -> dict[str, tuple[int, int]]:
        """Where a transition stands in each mode that has it: row, counted from 0, and slot."""
        found = {}
        for mode, run in self.runs.items():
            rows = np.argwhere((run.episode_id == episode_id) & (run.step_index == step_index) & (episode_id >= 0))
            if len(rows):
                found[mode] = int(rows[0][0]), int(rows[0][1])
        return found

    def _pairs(self, slot: int) -> Iterator[tuple[Cell, Cell]]:
        first, *others = (run.transitions(slot) for run in self.runs.values())
        fewest = min(map(len, (first, *others)))
        for other in others:
            yield from zip(first[:fewest], other[:fewest], strict=True)


_COMPARED = ("kind", "action", "observation", "next_observation", "reward", "terminated", "truncated", "episode_id",
             "step_index", "bootstrap", "episode_start", "hidden")  # fmt: skip


def _same(one: Cell, other: Cell) -> bool:
    return all(_equal(getattr(one, name), getattr(other, name)) for name in _COMPARED)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(np.array_equal(one, other))
