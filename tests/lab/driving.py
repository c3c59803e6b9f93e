"""The lab's server as a process, and its page in a real Chromium."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.lab.broken import FOLDER

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome")

#: milliseconds; a shared machine may be slow, and nothing waits longer than it must
PATIENCE = 60_000

expect.set_options(timeout=PATIENCE)


def chromium() -> str:
    """Where Chromium is; the tests fail where there is none, since nothing else would check the page."""
    given = os.environ.get("SEKAI_CHROMIUM")
    found = given or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        pytest.fail("The browser tests need Chromium: apt-get install chromium, or name one in SEKAI_CHROMIUM.")
    return found


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, int]]:
    """`sekai lab` on a free port: its address and process id."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), FOLDER: str(folder)}
    env["BOKEH_RESOURCES"] = "cdn"  # which must not be obeyed
    command = [sys.executable, "-m", "sekai", "-m", "tests.lab.broken", "lab", "--port", "0", "--no-browser"]
    with (folder / "errors.txt").open("w+", encoding="utf-8") as errors:
        server = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert server.stdout is not None
            line = server.stdout.readline()  # ends at once where the process does
            found = re.search(r"http://127\.0\.0\.1:\d+/", line)
            errors.seek(0)
            assert found, f"the server said {line!r}, and {errors.read()!r}"
            yield found[0], server.pid
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                code = server.wait(60)
            finally:
                server.kill()
                server.wait()
                if server.stdout is not None:
                    server.stdout.close()
        errors.seek(0)
        said = errors.read()
        assert code == 0 and "Traceback" not in said, f"the server ended with {code}, and said {said!r}"


class Panel:
    """One of the two panels in a page."""

    def __init__(self, page: Page, name: str) -> None:
        self.page, self.name = page, name
        self.section = page.locator(f"section[data-panel={name}]")

    def button(self, name: str) -> Locator:
        """A button by its text."""
        return self.section.get_by_role("button", name=name, exact=True)

    def field(self, label: str) -> Locator:
        """A field or a choice by its label."""
        return self.section.get_by_label(label, exact=True)

    def fill(self, label: str, text: str) -> None:
        """Type into a field, and leave it."""
        self.field(label).fill(text)
        self.field(label).press("Enter")

    def choose(self, label: str, option: str) -> None:
        """Choose from a list."""
        self.field(label).select_option(label=option)

    def slider(self, number: int = 0) -> Locator:
        """A slider's handle."""
        return self.section.get_by_role("slider").nth(number)

    def value(self, id: str) -> Locator:
        """A number of a table by its id."""
        return self.section.locator(f"[data-value={id}]")

    def shows(self, **values: Any) -> None:
        """Wait until these numbers stand there."""
        for id, value in values.items():
            try:
                expect(self.value(id)).to_have_text(str(value))
            except AssertionError as error:
                said = self.section.locator("[role=alert], [role=status]").all_inner_texts()
                error.add_note(f"the page said {said}")
                raise

    @property
    def message(self) -> Locator:
        """The message, where there is one."""
        return self.section.get_by_role("alert")


class Rows(Panel):
    """The panel on the left."""

    def grid(self, number: int = 0) -> Locator:
        """The run's grid, or that of a mode: 1 to 3."""
        return self.section.get_by_role("grid").nth(number)

    def cell(self, time: int, slot: int, grid: int = 0) -> Locator:
        """A cell, both numbers from 0."""
        return self.grid(grid).locator(f"td[data-time='{time}'][data-slot='{slot}']")

    def letters(self, grid: int = 0) -> list[str]:
        """What a grid shows, a text per call."""
        script = "table => [...table.tBodies[0].rows].map(r => [...r.cells].slice(1).map(c => c.dataset.kind).join(''))"
        found: list[str] = self.grid(grid).evaluate(script)
        return found

    def step(self, times: int = 1) -> None:
        """Press Step, and wait for the rows."""
        before = int(self.value("calls").inner_text())
        for _ in range(times):
            self.button("Step").click()
        self.shows(calls=before + times)
        expect(self.grid().locator("tbody tr")).to_have_count(before + times)

    def new_run(self, slots: int) -> None:
        """Wait until a run of so many slots stands there that has made no call."""
        expect(self.grid().locator("thead th")).to_have_count(slots + 1)
        self.shows(calls=0)
        expect(self.section.get_by_role("status")).to_have_count(0)


class Tab:
    """A page of the lab, and what went wrong in it."""

    def __init__(self, window: BrowserContext, url: str) -> None:
        self.page, self.url = window.new_page(), url
        self.page.set_default_timeout(PATIENCE)
        self.requests: list[str] = []
        self.problems: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("websocket", lambda socket: self.requests.append(socket.url))
        self.page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("requestfailed", lambda request: self.problems.append(f"failed: {request.url}"))
        self.page.goto(url)
        self.rows, self.counts = Rows(self.page, "rows"), Panel(self.page, "counts")
        self.page.locator("[data-ready=keys]").wait_for(state="attached")
        self.rows.new_run(4)

    def close(self) -> None:
        """Close it; nothing may have gone wrong, and no request may have left this machine."""
        self.page.close()
        assert not self.problems and not self.outside(), f"problems {self.problems}, outside {self.outside()}"

    def outside(self) -> list[str]:
        """Requests that went elsewhere than to the server."""
        host = self.url.removeprefix("http://")
        own = (self.url, f"ws://{host}", f"blob:{self.url}", "data:")
        return [url for url in self.requests if not url.startswith(own)]


def window_of(browser: Browser, **context: Any) -> BrowserContext:
    """A window, 1280 wide unless said otherwise."""
    return browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})


@contextmanager
def opened(browser: Browser, url: str, **context: Any) -> Iterator[Tab]:
    """A tab in a window of its own."""
    with window_of(browser, **context) as window:
        tab = Tab(window, url)
        yield tab
        tab.close()
