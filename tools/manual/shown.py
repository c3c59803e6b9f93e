"""Files beside `docs/` that the manual shows as pages of its own."""

from __future__ import annotations

import posixpath
import re

import tables
from names import ROOT

#: the file, and the page that shows it
SHOWN = {
    "benchmarks/README.md": "benchmarks.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/recurrent_ppo.py": "examples/recurrent_ppo.md",
}
LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")


def pages() -> dict[str, str]:
    """The pages as Markdown, by their place in the manual."""
    return {page: content(source) for source, page in SHOWN.items()}


def content(source: str) -> str:
    """A file of the repository as a page."""
    text = (ROOT / source).read_text(encoding="utf-8")
    if source.endswith(".py"):
        return f"# {posixpath.basename(source)}\n\n```python\n{text}```\n"
    return tables.page(text)


def lead(markdown: str, page: str) -> str:
    """The Markdown of a page, with links to these files, which go out of `docs/`, led to the pages that show them."""
    folder = posixpath.dirname(page)

    def led(link: re.Match[str]) -> str:
        meant = posixpath.normpath(posixpath.join("docs", folder, link[1]))
        if meant not in SHOWN:
            return link[0]
        return f"]({posixpath.relpath(SHOWN[meant], folder or '.')}{link[2] or ''})"

    return LINK.sub(led, markdown)
