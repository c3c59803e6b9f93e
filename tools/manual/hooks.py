"""What mkdocs calls while it builds the manual: it has pages that are made from the source and from other files."""

from __future__ import annotations

from typing import Any

import reference
import shown
from mkdocs.structure.files import File, Files


def on_config(config: Any) -> None:
    """Put the pages of the reference where `nav` has the first of them."""
    for entry in config.nav:
        if entry.get("Reference") == reference.INDEX:
            entry["Reference"] = reference.nav()


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    for place, text in {**reference.pages(), **shown.pages()}.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links to files beside `docs/` to the pages that show them."""
    return shown.lead(markdown, page.file.src_uri)
