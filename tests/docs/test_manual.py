"""What the manual is made with: drawings, tables, links, and the list of public names."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.runner import blocks

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools" / "manual"
PAGES = sorted((ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    """The tools import each other by their plain names, as they do where mkdocs loads them."""
    sys.path.insert(0, str(TOOLS))
    try:
        for path in TOOLS.glob("*.py"):
            if path.stem not in ("hooks", "docstrings"):  # these two need mkdocs
                importlib.import_module(path.stem)
    finally:
        sys.path.remove(str(TOOLS))


def tool(name: str) -> ModuleType:
    return sys.modules[name]


def test_the_drawn_timelines_are_those_of_a_run_today() -> None:
    drawn = tool("timelines").pictures()
    kept = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "assets").glob("timeline-*.svg")}
    assert drawn == kept, "draw them anew: .venv/bin/python tools/manual/timelines.py"


@pytest.mark.parametrize(
    ("mode", "slot_0", "slot_1"),
    [
        # what is lettered S, T and C is a transition; after = is the observation, after > the final one
        ("same_step", "S=1 T=0>2 S=1 T=0>2 S=1 T=0>2", "S=1 S=2 U=0>3 S=1 S=2 U=0>3"),
        ("next_step", "S=1 T=2 R=0 S=1 T=2 R=0", "S=1 S=2 U=3 R=0 S=1 S=2"),
        ("disabled", "S=1 T=2 F=2 F=2 F=2 F=2", "S=1 S=2 U=3 F=3 F=3 F=3"),
    ],
)
def test_a_timeline_shows_what_the_page_says_of_its_mode(mode: str, slot_0: str, slot_1: str) -> None:
    letters = tool("timelines").LETTERS
    shown = [
        [f"{letters[c.kind]}={c.observation}" + ("" if c.final is None else f">{c.final}") for c in cells]
        for cells in tool("timelines").run(mode)
    ]
    assert [" ".join(column) for column in zip(*shown, strict=True)] == [slot_0, slot_1]


PRINTED = """\
Before.

```
$ a command \\
      --that goes on

workload                 ours       peer   ratio
cartpole               10,100     10,000    1.01
a / b                      12     not run   2.00

label  seed  IoU false-safe
one       0   0.9       0.1
```

```
what is typed by hand  stays  so
as it                  is     here
```
"""


def test_what_a_program_printed_becomes_a_table_where_it_is_one() -> None:
    page = tool("tables").page(PRINTED)
    assert "```\n$ a command \\\n      --that goes on\n```" in page
    assert (
        "| workload | ours | peer | ratio |\n| --- | ---: | ---: | ---: |\n"
        "| cartpole | 10,100 | 10,000 | 1.01 |\n| a / b | 12 | not run | 2.00 |"
    ) in page


def test_what_does_not_split_into_equal_rows_stays_a_block() -> None:
    page = tool("tables").page(PRINTED)
    assert "```\nlabel  seed  IoU false-safe\none       0   0.9       0.1\n```" in page
    assert "```\nwhat is typed by hand  stays  so\nas it                  is     here\n```" in page


@pytest.mark.parametrize(
    ("page", "link", "led"),
    [
        ("index.md", "[b](../benchmarks/README.md#safety)", "[b](benchmarks.md#safety)"),
        ("how-to/margins.md", "[b](../../benchmarks/README.md)", "[b](../benchmarks.md)"),
        ("memory.md", "[e](../examples/recurrent_ppo.py)", "[e](examples/recurrent_ppo.md)"),
        ("memory.md", "[w](wrappers.md#episodes)", "[w](wrappers.md#episodes)"),
        ("memory.md", "[g](https://gymnasium.farama.org)", "[g](https://gymnasium.farama.org)"),
    ],
)
def test_links_out_of_the_folder_lead_to_the_pages_that_show_those_files(page: str, link: str, led: str) -> None:
    assert tool("shown").lead(f"See {link}.", page) == f"See {led}."


SITE = {
    "index.html": '<a href="more/two.html#place">t</a><a href="#top">u</a><a href="https://example.org/gone">o</a>'
    '<h1 id="top">T</h1><script src="s.js"></script><img src="data:image/png;base64,A">',
    "more/two.html": '<a href="../index.html">b</a><h2 id="place">P</h2><link rel="canonical" href="https://a.org">',
    "s.js": "",
}


@pytest.mark.parametrize(
    ("page", "old", "new", "problem"),
    [
        ("index.html", "two.html#", "too.html#", "index.html: links to more/too.html#place, which does not exist"),
        ("index.html", "#place", "#plaice", "index.html: links to more/two.html#plaice, and there is no such place"),
        ("index.html", '"#top"', '"#bottom"', "index.html: links to #bottom, and there is no such place on that page"),
        ("more/two.html", "../index", "index", "more/two.html: links to index.html, which does not exist"),
        ("index.html", "s.js", "t.js", "index.html: t.js does not exist"),
        ("index.html", "s.js", "//a.org/s.js", "index.html: fetches //a.org/s.js, which is not part of the manual"),
        ("index.html", "data:image/png;base64,A", "https://a.org/i.png", "index.html: fetches https://a.org/i.png"),
        ("more/two.html", "canonical", "stylesheet", "more/two.html: fetches https://a.org, which is not part"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(page: str, old: str, new: str, problem: str, tmp_path: Path) -> None:
    links = tool("links")
    write(tmp_path, SITE)
    assert list(links.broken(links.read(tmp_path), tmp_path)) == []
    assert old in SITE[page]
    write(tmp_path, SITE | {page: SITE[page].replace(old, new)})
    (found,) = links.broken(links.read(tmp_path), tmp_path)
    assert found.startswith(problem)


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def test_a_folder_without_pages_is_no_site(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no pages; build the manual there first"):
        tool("links").problems(tmp_path)


def test_a_public_name_that_no_page_describes_is_found(tmp_path: Path) -> None:
    links, names = tool("links"), tool("names")
    homes = {name.path for name in names.homes().values() if name.origin not in names.modules()}
    modules = [place.path.removeprefix("sekai.") for place in names.places()[1:]]
    described = "".join(f'<a href="#{path}">x</a><h2 id="{path}">x</h2>' for path in sorted(homes))
    tables = "".join(f'<a href="{module}.html">x</a>' for module in modules)
    write(tmp_path, {"reference/all.html": described + tables})
    assert list(links.unnamed(links.read(tmp_path), tmp_path)) == []
    write(tmp_path, {"reference/all.html": (described + tables).replace('id="sekai.collect.gae"', "")})
    found = list(links.unnamed(links.read(tmp_path), tmp_path))
    assert found == ["reference: sekai.collect.gae is public and not described"]


def test_the_reference_lists_what_each_package_exports() -> None:
    listed = {place.path: [name.name for name in place.names] for place in tool("names").places()}
    for path, names in listed.items():
        exported = getattr(importlib.import_module(path), "__all__", None)
        assert exported is None or names == list(exported), path
    assert {"sekai", "sekai.collect", "sekai.finance", "sekai.safety.filters", "sekai.spaces"} <= set(listed)


def test_every_public_name_has_one_home_and_is_in_the_table_of_its_package() -> None:
    pages, names = tool("reference").pages(), tool("names")
    everything = "\n".join(pages.values())
    for name in names.homes().values():
        directive = f"::: {name.path}\n    options: {{heading_level: "
        expected = 0 if name.origin in names.modules() or name.name.startswith("_") else 1
        assert everything.count(directive) == expected, name.path
    # the function is described, and not the module of the same name, which it hides
    assert pages["reference/compat.md"].count("::: sekai.compat.from_pettingzoo\n") == 1
    assert "::: sekai.safety.backups\n    options: {members: false" in pages["reference/safety.backups.md"]
    # of several places the shortest outside of the root: not `sekai.vector.wrappers`, which has it too
    assert "::: sekai.vector.VecClipReward\n" in pages["reference/vector.md"]
    assert "| [`Box`][sekai.spaces.Box] | " in pages["reference/index.md"]
    assert "::: sekai.spaces.Box\n    options: {heading_level: 3}" in pages["reference/spaces.md"]


def imported(code: str) -> set[str]:
    """What the code imports from sekai, as dotted names."""
    found = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom))
    return {f"{node.module}.{alias.name}" for node in found for alias in node.names if (node.module or "") > "sekai."}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_imports_is_in_the_reference(page: Path) -> None:
    known = {name.path for place in tool("names").places() for name in place.names}
    known |= {place.path for place in tool("names").places()}
    used = set().union(*(imported(b.code) for b in blocks(page.read_text(encoding="utf-8")) if b.language == "python"))
    assert {name for name in used if name.startswith("sekai.")} <= known
