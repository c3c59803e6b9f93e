"""`RowsPanel`: a run as a grid, its counters, the three modes side by side, the memory, and files of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel as pn

from sekai.lab.comparison import Agreement
from sekai.lab.jobs import Jobs
from sekai.lab.parts import Browser, Grid, Strip, legend, message, table
from sekai.lab.playing import Playing
from sekai.lab.rows import Cell
from sekai.lab.settings import Settings
from sekai.lab.setups import MODES
from sekai.lab.stage import OWN, Picture, Sheet, Stage, Where
from sekai.lab.texts import NUMBERS, details, problem

HINT = '<p class="hint">Point at a cell, click it, or walk over the grid with the arrow keys.</p>'
MEMORY = (
    '<p class="hint">Memory of the policy, h → h / 2 + 1 with every observation: carried along an episode, begun anew '
    "at 0 where the next one starts (thick edge), and in that slot only.</p>"
)
MODES_HINT = (
    '<p class="hint">The same episodes and actions in the three modes, on the backend sync, where each slot has a '
    "random stream of its own. Small numbers are episode.step of a transition; a cell that you select is marked in "
    "every mode.</p>"
)


class RowsPanel:
    """The panel on the left.

    Args:
        jobs: where the run is played.
        browser: saves files.
        on_picture: told what is drawn, whenever it changes.
    """

    def __init__(self, jobs: Jobs, browser: Browser, on_picture: Callable[[Picture], None]) -> None:
        self.stage = Stage()  # only touched in jobs
        self._jobs, self._browser, self._on_picture = jobs, browser, on_picture
        self._drawn = 0
        self._building = 0
        self.settings = Settings(self.begin)
        self.playing = Playing(self.begin, self._step, lambda: self._jobs.idle)
        self._message = pn.pane.HTML(sizing_mode="stretch_width", margin=(4, 6))
        self._numbers = pn.pane.HTML(margin=(0, 6))
        self._cell = pn.pane.HTML(HINT, margin=(0, 6), styles={"flex": "1 1 300px", "min-width": "280px"})
        self._mode_cell = pn.pane.HTML(sizing_mode="stretch_width", margin=(0, 6))
        self._strip = Strip(sizing_mode="stretch_width", margin=(0, 6))
        self.compare = pn.widgets.Toggle(label="Three modes side by side", width=220, margin=(8, 6))
        self._agreement = pn.pane.HTML(margin=(0, 6), sizing_mode="stretch_width")
        self._grids = {where: self._grid(where) for where in (OWN, *MODES)}
        self._mode_numbers = {mode: pn.pane.HTML(margin=(0, 6)) for mode in MODES}
        self._modes = self._mode_columns()
        self.csv = pn.widgets.Button(label="Save as CSV", width=130, margin=(4, 4))
        self.script = pn.widgets.Button(label="Save as script", width=130, margin=(4, 4))
        self.csv.on_click(lambda event: self._export("csv", "sekai-lab-run.csv"))
        self.script.on_click(lambda event: self._export("script", "sekai_lab_run.py"))
        self.compare.param.watch(self._on_compare, "value")
        self.begin()

    @property
    def layout(self) -> Any:
        """All of it."""
        return pn.Column(
            self.settings.layout,
            self.playing.layout,
            self._message,
            pn.FlexBox(
                self._grids[OWN], self._numbers, self._cell, align_items="flex-start", sizing_mode="stretch_width"
            ),
            pn.pane.HTML(legend(), sizing_mode="stretch_width", margin=(4, 6)),
            pn.pane.HTML(MEMORY, sizing_mode="stretch_width", margin=(8, 6, 0, 6)),
            self._strip,
            self.compare,
            self._modes,
            pn.FlexBox(self.csv, self.script),
            sizing_mode="stretch_width",
        )

    def begin(self) -> None:
        """Begin a new run of what the settings say."""
        self.playing.stop()
        try:
            setup = self.settings.setup()
        except (ValueError, TypeError) as error:
            self._say(f"{error} The run shown is the one before.")
            return
        compare = bool(self.compare.value)
        self._message.object = '<div class="hint" role="status">building the environments …</div>'

        def work() -> Picture:
            self.stage.begin(setup, compare)
            return self.stage.picture()

        self._jobs.submit(work, self._draw, lambda error: self._say(f"{problem(error)} {self._what_is_shown()}"))

    def _what_is_shown(self) -> str:
        return "The run shown is the one before." if self._drawn else "There is no run yet."

    def _step(self) -> None:
        def work() -> Picture:
            self.stage.step()
            return self.stage.picture()

        self._jobs.submit(work, self._draw, self._failed)

    def _failed(self, error: BaseException) -> None:
        """Say what went wrong, and draw what there is all the same: another run may have moved."""
        self.playing.stop()
        text = problem(error)

        def draw(picture: Picture) -> None:
            self._draw(picture)
            self._say(text)

        self._jobs.submit(self.stage.picture, draw, lambda nothing: self._say(text))

    def _on_compare(self, event: Any) -> None:
        wanted = bool(event.new)

        def work() -> Picture:
            self.stage.compare(wanted)
            return self.stage.picture()

        self._jobs.submit(work, self._draw, self._failed)

    def _export(self, kind: Any, name: str) -> None:
        self._jobs.submit(lambda: self.stage.export(kind), lambda text: self._browser.save(name, text), self._failed)

    def _say(self, text: str) -> None:
        self._message.object = message(text)

    def _draw(self, picture: Picture) -> None:
        self._message.object = ""
        if picture.number != self._drawn:
            self._drawn = picture.number
            self._cell.object, self._mode_cell.object = HINT, ""
            for grid in self._grids.values():
                grid.param.update(selected=[], marks=[], pointed=[])
        self._grids[OWN].data = _grid_data(picture, picture.own, f"run in {picture.setup.autoreset}", labels=False)
        self._numbers.object = _numbers(picture.own, "")
        self._strip.data = {"hidden": picture.hidden, "starts": picture.starts, "most": 2.0}
        self._modes.visible = bool(picture.modes)
        for mode, sheet in picture.modes.items():
            self._grids[mode].data = _grid_data(picture, sheet, mode, labels=True)
            self._mode_numbers[mode].object = _numbers(sheet, f"{mode}-")
        if picture.agreement is not None:
            self._agreement.object = _agreement(picture.agreement)
        self._on_picture(picture)

    def _grid(self, where: Where) -> Grid:
        grid = Grid(margin=(0, 6))
        grid.param.watch(lambda event: self._look(where, event.new, chosen=True), "selected")
        grid.param.watch(lambda event: self._look(where, event.new, chosen=False), "pointed")
        return grid

    def _look(self, where: Where, place: list[int], *, chosen: bool) -> None:
        """Show a cell; one that was only pointed at gives way to the chosen one when the pointer has left."""
        if not place:
            place = self._grids[where].selected
            if chosen or not place:
                return
        time, slot = place
        self._jobs.submit(
            lambda: self.stage.cell(where, time, slot), lambda found: self._show(where, chosen, *found), self._gone
        )

    def _show(self, where: Where, chosen: bool, cell: Cell, places: dict[Where, tuple[int, int]]) -> None:
        pane = self._cell if where == OWN else self._mode_cell
        pane.object = table(details(cell), "cell")
        if chosen:
            for where, grid in self._grids.items():
                grid.marks = [list(places[where])] if where in places else []

    def _gone(self, error: BaseException) -> None:
        """A cell of a run that was replaced meanwhile."""
        if not isinstance(error, (IndexError, KeyError)):
            self._failed(error)

    def _mode_columns(self) -> Any:
        columns = [
            pn.Column(
                pn.pane.HTML(f"<strong>{mode}</strong>", margin=(4, 6)),
                self._grids[mode],
                self._mode_numbers[mode],
                css_classes=[f"mode-{mode}"],
            )
            for mode in MODES
        ]
        hint = pn.pane.HTML(MODES_HINT, sizing_mode="stretch_width", margin=(0, 6))
        flex = pn.FlexBox(*columns, align_items="flex-start", sizing_mode="stretch_width")
        parts = (hint, flex, self._mode_cell, self._agreement)
        return pn.Column(*parts, css_classes=["modes"], visible=False, sizing_mode="stretch_width")


def _grid_data(picture: Picture, sheet: Sheet, title: str, *, labels: bool) -> dict[str, Any]:
    return {
        "run": picture.number,
        "title": title,
        "slots": picture.setup.slots,
        "rows": sheet.rows,
        "labels": sheet.labels if labels else [],
    }


def _numbers(sheet: Sheet, prefix: str) -> str:
    rows = [(f"{prefix}{id}", name, str(sheet.numbers[id])) for id, name in NUMBERS]
    return table(rows, "numbers")


def _agreement(agreement: Agreement) -> str:
    compared, different = agreement
    if not compared:
        return ""
    verdict = "all are the same, in different rows" if not different else f"{different} differ"
    return f'<p data-value="agreement">{compared} pairs of transitions compared: {verdict}.</p>'
