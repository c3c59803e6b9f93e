"""Tables of what programs printed, for `benchmarks/README.md` as a page of the manual.

A block that begins with `$ command` keeps its commands as a block; what follows becomes a table where it is one: every
line of a paragraph splits, at two spaces or more, into as many cells as the first. Anything else stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

BLOCK = re.compile(r"^```\n(\$ .*?)^```\n", re.DOTALL | re.MULTILINE)
GAP = re.compile(r" {2,}")
SEVERAL = 3


def page(text: str) -> str:
    """The Markdown of a file, its printed tables made tables."""
    return BLOCK.sub(lambda found: "\n\n".join(parts(found[1])) + "\n", text)


def parts(block: str) -> Iterator[str]:
    """A block's commands and results, each as Markdown."""
    for paragraph in re.split(r"\n{2,}", block.strip("\n")):
        rows = table(paragraph)
        yield markdown(rows) if rows else f"```\n{paragraph}\n```"


def table(paragraph: str) -> list[list[str]] | None:
    """The cells of a paragraph, a line each, the header first; None where it is no table."""
    rows = [GAP.split(line.strip()) for line in paragraph.splitlines()]
    width = len(rows[0])
    is_table = len(rows) > 1 and width >= SEVERAL and all(len(row) == width for row in rows)
    return rows if is_table and not paragraph.startswith("$") else None


def markdown(rows: list[list[str]]) -> str:
    """A table, with numbers to the right."""
    rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    rule = ["---", *("---:" if number(rows[1][column]) else "---" for column in range(1, len(rows[0])))]
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]])


def number(cell: str) -> bool:
    return cell.replace(",", "").replace(".", "").lstrip("-").isdigit()
