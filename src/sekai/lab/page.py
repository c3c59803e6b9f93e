"""The page of one tab: two panels, and what ends with it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Any

import panel as pn
from panel.io.resources import LOCAL_DIST

from sekai.lab.counts_view import CountsPanel
from sekai.lab.jobs import Jobs
from sekai.lab.parts import WEB, Browser
from sekai.lab.rows_view import RowsPanel

#: tabs whose environments are open
OPEN: weakref.WeakSet[Page] = weakref.WeakSet()


class Page:
    """What one tab shows. It has its own run, its own thread and its own environments.

    Args:
        call_soon: has a function called in the server's thread; itself it may be called in any.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], Any]) -> None:
        self._call_soon = call_soon
        self._closed = False
        self._document: Any = pn.state.curdoc
        # Panel asks its own host for styles in a session that no request for the page has begun: where a tab comes back
        # after it was forgotten, or was slow to load
        self._document.template_variables["dist_url"] = LOCAL_DIST
        self._jobs = Jobs(self._on_page)
        self._browser = Browser(self._pressed)
        self._counts = CountsPanel()
        self._rows = RowsPanel(self._jobs, self._browser, self._counts.follow)
        OPEN.add(self)

    @property
    def template(self) -> Any:
        """The page as a template with its parts."""
        template = pn.Template((WEB / "page.html").read_text(encoding="utf-8"))
        template.add_panel("rows", self._rows.layout)
        template.add_panel("counts", self._counts.layout)
        template.add_panel("browser", self._browser)
        return template

    def close(self) -> None:
        """Close the environments, as soon as a call that is under way has ended."""
        self._closed = True
        OPEN.discard(self)
        self._jobs.close(self._rows.stage.close)

    def join(self, timeout: float) -> None:
        """Wait until they are closed, so many seconds at most."""
        self._jobs.join(timeout)

    def _on_page(self, change: Callable[[], None]) -> None:
        """Have the page changed; called in the thread of the jobs."""

        def enter() -> None:
            # Not in the thread of the jobs: what it adds while Panel holds the document's events may get lost.
            if not self._closed:
                self._document.add_next_tick_callback(change)

        self._call_soon(enter)

    def _pressed(self, panel: str, key: str) -> None:
        playing = {"rows": self._rows.playing, "counts": self._counts.playing}[panel]
        playing.key(key)


def new_page() -> Any:
    """The page of a new tab, which is closed with it."""
    page = Page(asyncio.get_running_loop().call_soon_threadsafe)
    pn.state.on_session_destroyed(lambda context: page.close())
    return page.template
