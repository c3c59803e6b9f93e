"""Checks the built manual: every link and anchor leads somewhere, nothing is fetched, no public name is missing.

    .venv/bin/python tools/manual/links.py site

Problems go to standard error, one a line; the exit code is 0 where there are none. Addresses outside the manual are not
asked: a page is right or wrong on its own, with or without a network.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from names import places

#: what a browser fetches by itself, by tag: an address outside the manual would need a network
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
#: relations of <link> that no browser fetches
NOT_FETCHED = {"canonical", "next", "prev"}
#: schemes of links that leave the manual
OUTSIDE = {"http", "https", "mailto"}


class Page(HTMLParser):
    """The ids of one page, its links, and what it makes a browser fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif found.get("rel") not in NOT_FETCHED and found.get(FETCHED.get(tag, "")):
            self.fetched.append(found[FETCHED[tag]])


def read(site: Path) -> dict[Path, Page]:
    """Every page of a site by its place. The page that a server shows for wrong addresses has links of its own kind."""
    files = (path for path in sorted(site.rglob("*.html")) if path.name != "404.html")
    return {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in files}


def broken(pages: dict[Path, Page], site: Path) -> Iterator[str]:
    """Links and fetched files that lead nowhere, and fetched ones that lead out of the site."""
    for path, page in pages.items():
        where = path.relative_to(site.resolve())
        for address in page.fetched:
            if urlsplit(address).scheme or address.startswith("//"):
                if not address.startswith("data:"):
                    yield f"{where}: fetches {address}, which is not part of the manual"
            elif not target(path, address)[0].is_file():
                yield f"{where}: {address} does not exist"
        for address in page.links:
            if urlsplit(address).scheme in OUTSIDE:
                continue
            file, fragment = target(path, address)
            if not file.is_file():
                yield f"{where}: links to {address}, which does not exist"
            elif fragment and file in pages and fragment not in pages[file].ids:
                yield f"{where}: links to {address}, and there is no such place on that page"


def target(page: Path, address: str) -> tuple[Path, str]:
    """The file and the place in it that a relative address means on a page."""
    parts = urlsplit(address)
    file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    return file, unquote(parts.fragment)


def unnamed(pages: dict[Path, Page], site: Path) -> Iterator[str]:
    """Public names that no table of the reference links to a description."""
    folder = (site / "reference").resolve()
    described = {place for page in pages.values() for place in page.ids}
    linked: set[str] = set()
    for path, page in pages.items():
        if path.parent == folder:
            for file, fragment in (target(path, address) for address in page.links):
                linked.add(fragment if fragment in described else f"sekai.{file.stem}")
    by_origin: dict[str, set[str]] = {}
    for name in (name for place in places() for name in place.names):
        by_origin.setdefault(name.origin, {name.origin}).add(name.path)
    for name in (name for place in places() for name in place.names):
        if not linked & by_origin[name.origin]:
            yield f"reference: {name.path} is public and not described"


def problems(site: Path) -> list[str]:
    """All of them. Raises ValueError where there is no site."""
    pages = read(site)
    if not pages:
        raise ValueError(f"{site} holds no pages; build the manual there first, with `make docs`.")
    return [*broken(pages, site), *unnamed(pages, site)]


if __name__ == "__main__":
    found = problems(Path(sys.argv[1]))
    sys.stderr.write("".join(f"{problem}\n" for problem in found))
    sys.exit(bool(found))
