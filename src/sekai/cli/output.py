"""Records on stdout: a table on a terminal, else one plain line per record with the id first."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol


class Advance(Protocol):
    """Called as work is done."""

    def __call__(self, amount: int) -> None:
        """`amount` more units are done."""


def on_terminal() -> bool:
    """Whether stdout is a terminal; it may also be closed."""
    return sys.stdout is not None and sys.stdout.isatty()


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = False) -> None:
    """Draw a table.

    Args:
        title: above it.
        columns: their titles.
        rows: a cell for each column.
        right: whether all columns but the first hold numbers: those are aligned to the right, and where the terminal
            is too narrow for all of them, they stand in several tables, the first column in each.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console()
    console.print(Text(title, "bold"))
    for places in _parts(columns, rows, console) if right else [range(len(columns))]:
        console.print(_table(columns, rows, places, right))


def _parts(columns: Sequence[str], rows: Sequence[Sequence[str]], console: Any) -> list[list[int]]:
    """The columns of as few tables as the width of a console allows, the first column in each."""
    unlimited = console.options.update(width=sys.maxsize)
    numbers = range(1, len(columns))
    parts = [[0]]
    for size in range(len(numbers), 0, -1):
        parts = [[0, *numbers[first : first + size]] for first in range(0, len(numbers), size)]
        tables = (_table(columns, rows, part, right=True) for part in parts)
        if all(console.measure(table, options=unlimited).maximum <= console.width for table in tables):
            break
    return parts


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], places: Sequence[int], right: bool) -> Any:
    """A table of some of the columns."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, header_style="bold cyan")
    if right:
        table.padding = (0, 0, 0, 1)  # columns of numbers stand apart anyway
    for place in places:
        # the first column names the record: it is read and copied, so it is never broken
        justify: Any = "right" if right and place else "left"
        table.add_column(columns[place], justify=justify, overflow="fold", no_wrap=place == 0)
    for row in rows:
        table.add_row(*(Text(row[place]) for place in places))  # no markup: "[native vec]" is text
    return table


@contextmanager
def progress(title: str, total: int) -> Iterator[Advance]:
    """A progress bar on stderr where that is a terminal.

    It draws only when work is reported, so that a measurement between two reports is not disturbed, and at
    most ten times a second.
    """
    if not sys.stderr.isatty():
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True) as bar:
        task = bar.add_task(title, total=total)
        bar.refresh()

        drawn = time.monotonic()

        def advance(amount: int) -> None:
            nonlocal drawn
            bar.update(task, advance=amount)
            if time.monotonic() - drawn >= 0.1:
                bar.refresh()
                drawn = time.monotonic()

        yield advance
