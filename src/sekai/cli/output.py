"""Records on stdout: a table on a terminal, else one plain line per record with the id first."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Called as work is done."""

    def __call__(self, amount: int) -> None:
        """`amount` more units are done."""


def on_terminal() -> bool:
    """Whether stdout is a terminal; it may also be closed."""
    return sys.stdout is not None and sys.stdout.isatty()


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = False) -> None:
    """Draw a table; with `right`, all columns but the first are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title, "bold"), title_justify="left", box=SIMPLE_HEAD, header_style="bold cyan")
    if right:
        table.padding = (0, 0, 0, 1)  # columns of numbers stand apart anyway
    for place, column in enumerate(columns):
        # the first column names the record: it is read and copied, so it is never broken
        table.add_column(column, justify="right" if right and place else "left", overflow="fold", no_wrap=place == 0)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # no markup: "[native vec]" is text
    Console().print(table)


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
