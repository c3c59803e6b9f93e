"""The reference as Markdown: a page for each package, with a table of its names and what each of them is.

Everything is described once, in the package it belongs to; where else it can be reached from, a table links to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from names import Name, Place, group, homes, places

INDEX = "reference/index.md"
#: a search finds the pages that explain before those that list
HEAD = "---\nsearch: {boost: 0.5}\n---\n"
#: mkdocstrings takes a name with underscores for a private one
VERSION = '<h2 id="sekai.__version__"><code>__version__</code></h2>\n\nThe version of the package, such as `0.1.0`.\n'


def pages() -> dict[str, str]:
    """All pages by their place in the manual."""
    root, *others = places()
    made = {INDEX: index(root, others)} | {file(place.path): page(place) for place in others}
    return {at: HEAD + text for at, text in made.items()}


def nav() -> list[Any]:
    """The pages as a part of `nav`: a group of packages is a section where it has several."""
    sections: dict[str, list[Any]] = {}
    for place in places()[1:]:
        sections.setdefault(group(place.path), []).append({short(place.path): file(place.path)})
    return [INDEX, *(pages[0] if len(pages) == 1 else {name: pages} for name, pages in sections.items())]


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
    """A package: its table, then what has its home here, module by module, each with what its module says first."""
    lines = [f"# {place.path}", "", about(place.path), "| name | |", "|---|---|", *rows(place.names), ""]
    for module, names in by_module(place).items():
        own = module == place.path
        if not own:
            lines += [f"## {module.rpartition('.')[2]}", "", about(module)]
        lines += [f"::: {name.path}\n    options: {{heading_level: {2 if own else 3}}}\n" for name in names]
    return "\n".join(lines)


def by_module(place: Place) -> dict[str, list[Name]]:
    """The names that have their home in a place, by the module that defines them."""
    found: dict[str, list[Name]] = {}
    for name in sorted(place.names, key=lambda name: name.origin):
        if homes()[name.origin].path == name.path and not is_module(name):
            found.setdefault(name.origin.rpartition(".")[0], []).append(name)
    return found


def about(module: str) -> str:
    """What a module says of itself; its names stand elsewhere on the page.

    Where a package exports a function of the module's name, that is what the path leads to, and nothing is said.
    """
    if any(name.path == module and not is_module(name) for place in places() for name in place.names):
        return ""
    return f"::: {module}\n    options: {{members: false, show_root_heading: false, show_root_toc_entry: false}}\n"


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
