"""What mkdocs calls while it builds the manual: pages made from other files, and links to those files."""

from __future__ import annotations

import posixpath
import re
from typing import Any

import reference
import tables
from mkdocs.structure.files import File, Files
from names import ROOT

#: what lies beside `docs/`, and the page of the manual that shows it
SHOWN = {
    "benchmarks/README.md": "benchmarks.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/recurrent_ppo.py": "examples/recurrent_ppo.md",
}
LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made: the reference, and those of `SHOWN`."""
    made = reference.pages() | {page: shown(source) for source, page in SHOWN.items()}
    for place, text in made.items():
        files.append(File.generated(config, place, content=text))
    return files


def shown(source: str) -> str:
    """A file of the repository as a page."""
    text = (ROOT / source).read_text(encoding="utf-8")
    if source.endswith(".py"):
        return f"# {posixpath.basename(source)}\n\n```python\n{text}```\n"
    return tables.page(text)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links that go out of `docs/`, as they must in the repository, to the pages that show those files."""
    return lead(markdown, page.file.src_uri)


def lead(markdown: str, page: str) -> str:
    """The Markdown of a page, its links to the files of `SHOWN` replaced."""
    folder = posixpath.dirname(page)

    def led(link: re.Match[str]) -> str:
        meant = posixpath.normpath(posixpath.join("docs", folder, link[1]))
        if meant not in SHOWN:
            return link[0]
        return f"]({posixpath.relpath(SHOWN[meant], folder or '.')}{link[2] or ''})"

    return LINK.sub(led, markdown)
