"""Pages: one HTML file each that needs nothing else, pictures included, in light and dark, and on a phone."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from string import Template
from typing import NamedTuple

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
:root { color-scheme: light dark; --ground: #ffffff; --panel: #f4f4f8; --ink: #22223b; --soft: #55556f;
  --line: #d5d5e0; --good: #0b6e69; --bad: #a8401f; }
@media (prefers-color-scheme: dark) { :root { --ground: #16161f; --panel: #22222f; --ink: #ececf4; --soft: #b4b4c8;
  --line: #3d3d50; --good: #6fd0c6; --bad: #f0a184; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1.25rem 3rem; }
h1 { font-size: 1.55rem; line-height: 1.25; margin: 0 0 .75rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; }
p, li, dd { max-width: 46rem; }
.verdict { border-left: .35rem solid var(--line); background: var(--panel); padding: .8rem 1rem; margin: 0 0 1rem;
  max-width: none; }
.verdict.good { border-color: var(--good); } .verdict.bad { border-color: var(--bad); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 1.25rem; }
figure { margin: 0; max-width: 42rem; }
figure img { width: 100%; height: auto; display: block; background: #ffffff; border-radius: .4rem;
  border: 1px solid var(--line); }
figcaption { color: var(--soft); font-size: .9rem; margin-top: .35rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; } th { font-weight: 600; }
.texts th, .texts td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.texts td:first-child { color: var(--soft); min-width: 9rem; }
footer { color: var(--soft); font-size: .9rem; margin-top: 2.5rem; }
</style>
</head>
<body>
<main>
<h1>$title</h1>
$lead
$sections
<footer>$footer</footer>
</main>
</body>
</html>
""")


class Section(NamedTuple):
    """A part of a page.

    Attributes:
        heading: plain text.
        html: what stands below it.
    """

    heading: str
    html: str


def page(title: str, lead: str, sections: Sequence[Section], footer: str) -> str:
    """A whole page.

    Args:
        title: plain text.
        lead: HTML below it.
        sections: in their order.
        footer: plain text.
    """
    parts = "\n".join(f"<section>\n<h2>{escape(part.heading)}</h2>\n{part.html}\n</section>" for part in sections)
    return _PAGE.substitute(title=escape(title), lead=lead, sections=parts, footer=escape(footer))


def verdict(text: str, *, good: bool) -> str:
    """What the page comes to, in a box; the text says it without the colour."""
    return f'<p class="verdict {"good" if good else "bad"}">{escape(text)}</p>'


def paragraphs(*texts: str) -> str:
    """Paragraphs of plain text."""
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def items(texts: Sequence[str]) -> str:
    """A list of plain texts."""
    return "<ul>\n" + "\n".join(f"<li>{escape(text)}</li>" for text in texts) + "\n</ul>"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, texts: bool = False) -> str:
    """A table of plain text that scrolls by itself where it is too wide.

    Args:
        columns: their titles.
        rows: a cell for each column; the first names the row.
        texts: whether the cells are texts, aligned to the left and broken, and not numbers.
    """
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    kind = ' class="texts"' if texts else ""
    return f'<div class="wide"><table{kind}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


class Picture(NamedTuple):
    """A picture of a page.

    Attributes:
        svg: the file.
        alt: what it shows, for who cannot see it.
        caption: below it.
    """

    svg: bytes
    alt: str
    caption: str


def pictures(*shown: Picture) -> str:
    """Pictures side by side, below each other where there is no room."""
    figures = "\n".join(
        f'<figure><img src="data:image/svg+xml;base64,{base64.b64encode(one.svg).decode()}" alt="{escape(one.alt)}">'
        f"<figcaption>{escape(one.caption)}</figcaption></figure>"
        for one in shown
    )
    return f'<div class="figures">\n{figures}\n</div>'
