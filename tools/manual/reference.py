"""The reference as Markdown: a page for each package, with a table of its names and what each of them is.

Everything is described once, in the package it belongs to; where else it can be reached from, a table links to it.
"""

from __future__ import annotations

from collections.abc import Iterable

from names import Name, Place, group, homes, places

#: groups in the order of the pages, with their titles
TITLES = {
    "core": "Single environments",
    "errors": "Errors",
    "spaces": "Spaces",
    "stats": "Statistics",
    "wrappers": "Wrappers",
    "vector": "Vector environments",
    "registry": "Registry",
    "envs": "Environments",
    "finance": "Finance",
    "collect": "Collecting",
    "safety": "Safety",
    "compat": "Adapters",
    "testing": "Testing",
    "cli": "Command line",
}
#: mkdocstrings takes a name with underscores for a private one
VERSION = '<h3 id="sekai.__version__"><code>__version__</code></h3>\n\nThe version of the package, such as `0.1.0`.\n'


def pages() -> dict[str, str]:
    """All pages, `reference/index.md` first, by their place in the manual.

    Raises:
        ValueError: a package without a title.
    """
    grouped: dict[str, list[Place]] = {}
    for place in places():
        grouped.setdefault(group(place.path), []).append(place)
    (root,) = grouped.pop("sekai")
    if unknown := sorted(set(grouped) - set(TITLES)):
        raise ValueError(f"no title for the packages {unknown}; add them to TITLES in tools/manual/reference.py.")
    found = {"reference/index.md": index(root, {title: grouped[title] for title in TITLES})}
    for name, title in TITLES.items():
        sections = "\n".join(section(place) for place in grouped[name])
        found[f"reference/{name}.md"] = f"# {title}\n\n{sections}"
    return found


def index(root: Place, grouped: dict[str, list[Place]]) -> str:
    """The first page: what `import sekai` gives, and where everything else is."""
    lines = [
        "# Reference",
        "",
        "Every public name, in the package it belongs to. `import sekai` gives those of the second table; the others",
        "are imported from their own package, such as `from sekai.collect import Collector`.",
        "",
        "| package | |",
        "|---|---|",
    ]
    for name, found in grouped.items():
        lines += [f"| [`{place.path}`]({name}.md#{anchor(place.path)}) | {cell(place.summary)} |" for place in found]
    return "\n".join([*lines, "", "## sekai", "", *table(root.names), "", VERSION])


def section(place: Place) -> str:
    """A package: its table, then what has its home here."""
    own = [name for name in place.names if homes()[name.origin].path == name.path and not is_module(name)]
    blocks = (directive(name) for name in own)
    return "\n".join([f"## {place.path}", "", cell(place.summary), "", *table(place.names), "", *blocks])


def table(names: Iterable[Name]) -> list[str]:
    """One line a name, linked to where it is described."""
    return ["| name | |", "|---|---|", *(f"| [`{name.name}`]{target(name)} | {cell(name.summary)} |" for name in names)]


def target(name: Name) -> str:
    """The part of a link after its text: a place on a page, or a name that mkdocstrings knows the place of."""
    if is_module(name):
        return f"({group(name.origin)}.md#{anchor(name.origin)})"
    if name.name.startswith("_"):
        return f"(#{name.path})"
    return f"[{homes()[name.origin].path}]"


def is_module(name: Name) -> bool:
    """Whether a package exports one of its modules under this name."""
    return any(place.path == name.origin for place in places())


def directive(name: Name) -> str:
    """What mkdocstrings replaces with the description."""
    return f"::: {name.path}\n"


def anchor(heading: str) -> str:
    """The id of a heading: as the `toc` extension makes it."""
    return heading.replace(".", "")


def cell(text: str) -> str:
    return text.replace("|", "\\|")
