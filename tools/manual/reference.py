"""The reference as Markdown: a page for each package, with a table of its names and what each of them is.

Everything is described once, in the package it belongs to; where else it can be reached from, a table links to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from names import Name, Place, group, homes, places

INDEX = "reference/index.md"
#: mkdocstrings takes a name with underscores for a private one
VERSION = '<h2 id="sekai.__version__"><code>__version__</code></h2>\n\nThe version of the package, such as `0.1.0`.\n'


def pages() -> dict[str, str]:
    """All pages by their place in the manual."""
    root, *others = places()
    return {INDEX: index(root, others)} | {file(place.path): page(place) for place in others}


def nav() -> list[Any]:
    """The pages as a part of `nav`: a group of packages is a section where it has several."""
    sections: dict[str, list[str]] = {}
    for place in places()[1:]:
        sections.setdefault(group(place.path), []).append(place.path)
    entries = ([{short(path): file(path)} for path in paths] for paths in sections.values())
    return [INDEX, *(entry[0] if len(entry) == 1 else {name: entry} for name, entry in zip(sections, entries))]


def index(root: Place, others: list[Place]) -> str:
    """The first page: what `import sekai` gives, and where everything else is."""
    packages = (f"| [`{place.path}`]({short(place.path)}.md) | {cell(place.summary)} |" for place in others)
    lines = [
        "# Reference",
        "",
        "Every public name, in the package it belongs to. `import sekai` gives those of the second table; the others",
        "are imported from their own package, such as `from sekai.collect import Collector`.",
        "",
        "| package | |",
        "|---|---|",
        *packages,
        "",
        "| `sekai` | |",
        "|---|---|",
        *rows(root.names),
        "",
        VERSION,
    ]
    return "\n".join(lines)


def page(place: Place) -> str:
    """A package: its table, then what has its home here."""
    own = [name for name in place.names if homes()[name.origin].path == name.path and not is_module(name)]
    blocks = (f"::: {name.path}\n" for name in own)
    head = [f"# {place.path}", "", cell(place.summary), "", "| name | |", "|---|---|"]
    return "\n".join([*head, *rows(place.names), "", *blocks])


def rows(names: Iterable[Name]) -> Iterable[str]:
    """One line of a table for each name, linked to where it is described."""
    return (f"| [`{name.name}`]{target(name)} | {cell(name.summary)} |" for name in names)


def target(name: Name) -> str:
    """The part of a link after its text: a place on a page, or a name that mkdocstrings knows the place of."""
    if is_module(name):
        return f"({short(name.origin)}.md)"
    if name.name.startswith("_"):
        return f"(#{name.path})"
    return f"[{homes()[name.origin].path}]"


def is_module(name: Name) -> bool:
    """Whether a package exports one of its modules under this name."""
    return any(place.path == name.origin for place in places())


def file(path: str) -> str:
    return f"reference/{short(path)}.md"


def short(path: str) -> str:
    return path.removeprefix("sekai.")


def cell(text: str) -> str:
    return text.replace("|", "\\|")
