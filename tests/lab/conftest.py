"""A server and a browser for the tests of one file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.lab.driving import Tab, chromium, serving, window_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where environments of the server leave their signs."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[tuple[str, int]]:
    """The address of the lab, and its process id."""
    with serving(folder) as server:
        yield server


@pytest.fixture(scope="module")
def url(server: tuple[str, int]) -> str:
    """The address of the lab."""
    return server[0]


# Not for the whole session: as long as it is there, no event loop of its own can be run in this thread.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--disable-background-networking"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[BrowserContext]:
    """A window for the tabs of one file: what it has loaded once it need not load again."""
    with window_of(browser) as window:
        yield window


@pytest.fixture
def tab(window: BrowserContext, url: str) -> Iterator[Tab]:
    """A new tab, 1280 wide."""
    tab = Tab(window, url)
    yield tab
    tab.close()
