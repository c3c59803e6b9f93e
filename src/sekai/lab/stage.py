"""`Stage`: the run that a tab shows, the same in three modes where asked for, and what there is to be drawn of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.lab.comparison import Agreement, Comparison
from sekai.lab.exports import to_csv, to_script
from sekai.lab.rows import Cell, Run
from sekai.lab.setups import Setup

#: a page that grows for ever helps nobody
MOST_CALLS = 500
#: which grid: the run's own, or a mode of the comparison
Where: TypeAlias = str
OWN: Where = "run"


@dataclass(frozen=True)
class Sheet:
    """What is drawn of one run.

    Attributes:
        rows: one text per call, a letter per slot.
        labels: one text per call, `episode.step` of each slot's transition, or a dash.
        numbers: id and value of each counter, the claim of calls times slots among them.
    """

    rows: list[str]
    labels: list[str]
    numbers: dict[str, int]


@dataclass(frozen=True)
class Picture:
    """What is drawn of a stage.

    Attributes:
        number: of the run, counted up with every new one.
        setup: what is run.
        own: the run.
        hidden: memory of every slot before every row, and before the row to come, `T + 1` lists of `N`.
        starts: likewise, a text of 0 and 1 each: which slots begin an episode.
        valid_counts: transitions in each call, `(T,)`.
        modes: the comparison's runs by mode; empty where there is none.
        agreement: what comparing them came to.
    """

    number: int
    setup: Setup
    own: Sheet
    hidden: list[list[float]]
    starts: list[str]
    valid_counts: NDArray[np.int64]
    modes: dict[str, Sheet] = field(default_factory=dict)
    agreement: Agreement | None = None


class Stage:
    """What one tab plays. Only one thread may use it at a time."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._comparison: Comparison | None = None
        self._number = 0

    def begin(self, setup: Setup, compare: bool) -> None:
        """Begin a new run; the one before is closed once the new one stands, and stays where that fails.

        Raises:
            Exception: what building or resetting the environment raised.
        """
        run = Run(setup)
        try:
            comparison = Comparison(setup) if compare else None
        except BaseException:
            run.close()
            raise
        self.close()
        self._run, self._comparison = run, comparison
        self._number += 1

    def compare(self, wanted: bool) -> None:
        """Put the comparison beside the run, as far as that has come, or take it away.

        Raises:
            Exception: what an environment raised.
        """
        if self._comparison is not None:
            self._comparison.close()
            self._comparison = None
        if wanted:
            run = self._there()
            comparison = Comparison(run.setup)
            try:
                comparison.advance(len(run))
            except BaseException:
                comparison.close()
                raise
            self._comparison = comparison

    def step(self) -> None:
        """One call.

        Raises:
            ValueError: there is no run, or it is as long as can be shown.
            Exception: what the environment raised.
        """
        run = self._there()
        if len(run) >= MOST_CALLS:
            raise ValueError(f"{MOST_CALLS} calls are shown, and no more fit; press Reset to begin anew.")
        run.step()
        if self._comparison is not None:
            self._comparison.advance(len(run))

    def close(self) -> None:
        """Close the environments."""
        try:
            if self._run is not None:
                self._run.close()
        finally:
            self._run, comparison, self._comparison = None, self._comparison, None
            if comparison is not None:
                comparison.close()

    def export(self, kind: Literal["csv", "script"]) -> str:
        """The run as a text.

        Raises:
            ValueError: there is nothing to export.
        """
        return to_csv(self._there()) if kind == "csv" else to_script(self._there())

    def cell(self, where: Where, time: int, slot: int) -> tuple[Cell, dict[Where, tuple[int, int]]]:
        """A cell of one of the grids, and where the same transition stands in each of them.

        Raises:
            IndexError: there is no such cell.
        """
        run = self._there()
        chosen = run if where == OWN or self._comparison is None else self._comparison.runs[where]
        cell = chosen.cell(time, slot)
        places: dict[Where, tuple[int, int]] = {}
        if self._comparison is not None and cell.valid:
            places = self._comparison.places(cell.episode_id, cell.step_index)
            if run.setup.autoreset in places:
                places[OWN] = places[run.setup.autoreset]
        return cell, places

    def picture(self) -> Picture:
        """What is drawn.

        Raises:
            ValueError: there is no run.
        """
        run, comparison = self._there(), self._comparison
        return Picture(
            number=self._number,
            setup=run.setup,
            own=_sheet(run),
            hidden=run.hidden.tolist(),
            starts=["".join("1" if start else "0" for start in row) for row in run.starts],
            valid_counts=run.valid_counts,
            modes={} if comparison is None else {mode: _sheet(each) for mode, each in comparison.runs.items()},
            agreement=None if comparison is None else comparison.agreement(),
        )

    def _there(self) -> Run:
        if self._run is None:
            raise ValueError("There is no run; press Reset.")
        return self._run


def _sheet(run: Run) -> Sheet:
    episodes, steps, slots = run.episode_id, run.step_index, run.setup.slots
    labels = [
        " ".join("-" if e < 0 else f"{e // slots}.{t}" for e, t in zip(ids, indices, strict=True))
        for ids, indices in zip(episodes.tolist(), steps.tolist(), strict=True)
    ]
    return Sheet(run.letters, labels, numbers_of(run))


def numbers_of(run: Run) -> dict[str, Any]:
    """The counters of a run by id, and what counting calls times slots would claim."""
    counters = run.counters
    return {
        "calls": counters.calls,
        "valid": counters.valid,
        "reset_only": counters.reset_only,
        "frozen": counters.frozen,
        "lost": counters.lost,
        "episodes": run.episodes,
        "claim": run.claim,
    }
