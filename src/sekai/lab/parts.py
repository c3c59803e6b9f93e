"""The parts of the page that Panel has no widget for: what they draw stands in `web/`, and no other host is asked."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import panel as pn
import param
from panel.custom import JSComponent
from panel.theme import Native

from sekai.core.slots import RowKind
from sekai.lab.rows import BOTH, LETTERS

WEB = Path(__file__).parent / "web"
STYLE = (WEB / "parts.css").read_text(encoding="utf-8")


class LabDesign(Native):  # type: ignore[misc]  # panel is read as Any
    """Panel's plain design, with the colours of the page."""

    modifiers = {  # noqa: RUF012  # as Panel declares it
        **Native.modifiers,
        pn.viewable.Viewable: {"stylesheets": [*Native.modifiers[pn.viewable.Viewable]["stylesheets"], STYLE]},
    }


class Grid(JSComponent):  # type: ignore[misc]  # panel is read as Any
    """Cells by time and slot, each with the letter of its kind."""

    data = param.Dict(default={"run": 0, "title": "", "slots": 0, "rows": [], "labels": []})
    marks = param.List(default=[], doc="Cells to be marked, as [time, slot].")
    selected = param.List(default=[], doc="[time, slot] of the cell that was chosen.")
    pointed = param.List(default=[], doc="[time, slot] of the cell under the pointer.")
    _esm = (WEB / "grid.js").read_text(encoding="utf-8")


class Strip(JSComponent):  # type: ignore[misc]  # panel is read as Any
    """The memory of each slot over time."""

    data = param.Dict(default={"hidden": [], "starts": [], "most": 2.0})
    _esm = (WEB / "strip.js").read_text(encoding="utf-8")


class Bars(JSComponent):  # type: ignore[misc]  # panel is read as Any
    """Probabilities over outcomes, and the same as a table."""

    data = param.Dict(default={"series": [{"name": "", "values": [1.0]}], "title": "", "current": -1, "table": False})
    _esm = (WEB / "bars.js").read_text(encoding="utf-8")


class Browser(JSComponent):  # type: ignore[misc]  # panel is read as Any
    """Keys that were pressed outside of fields, and files to be saved.

    Args:
        pressed: called with the name of the panel and the key.
    """

    _esm = (WEB / "browser.js").read_text(encoding="utf-8")

    def __init__(self, pressed: Any, **params: Any) -> None:
        super().__init__(**params)
        self._pressed = pressed

    def save(self, name: str, text: str) -> None:
        """Let the browser save a text as a file."""
        self._send_msg({"name": name, "text": text})

    def _handle_msg(self, data: Any) -> None:
        self._pressed(str(data.get("panel")), str(data.get("key")))


def legend() -> str:
    """The letters and what they stand for, as HTML."""
    kinds = [(LETTERS[kind], kind.name) for kind in RowKind]
    kinds.insert(2, (BOTH, "TERMINATED, both flags true"))
    return "".join(
        f'<span class="key"><span class="kind {letter}">{"T" if letter == BOTH else letter}</span>{name}</span>'
        for letter, name in kinds
    )


def message(text: str) -> str:
    """A message as HTML, which screen readers say at once; nothing for no text."""
    return f'<div class="message" role="alert">{escape(text)}</div>' if text else ""


def table(rows: list[tuple[str, str, str]], style: str) -> str:
    """Rows of id, name and value as an HTML table; the value can be found by its id."""
    lines = ""
    for id, name, value in rows:
        style_of_row = ' class="claim"' if id.endswith("claim") else ""
        cells = f'<th>{escape(name)}</th><td data-value="{id}">{escape(value)}</td>'
        lines += f"<tr{style_of_row}>{cells}</tr>"
    return f'<table class="{style}">{lines}</table>'
