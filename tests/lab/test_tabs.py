"""Keyboard, narrow screens, light and dark, and several tabs of one server."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.lab.driving import PATIENCE, Tab, opened

FOCUSED = """() => {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  return at.textContent.trim() || at.id;
}"""


def wait_until(true: Callable[[], bool], what: str) -> None:
    """Wait for something that no page shows."""
    end = time.monotonic() + PATIENCE / 1000
    while not true():
        assert time.monotonic() < end, f"still not: {what}"
        time.sleep(0.05)


def tab_to(page: Page, text: str) -> None:
    """Press Tab until the focus is on a button of this text."""
    for _ in range(60):
        if page.evaluate(FOCUSED) == text:
            return
        page.keyboard.press("Tab")
    pytest.fail(f"no Tab leads to {text!r}")


def test_everything_can_be_done_with_the_keyboard_alone(tab: Tab) -> None:
    page, rows, counts = tab.page, tab.rows, tab.counts
    page.keyboard.press("s")
    rows.shows(calls=1)
    page.keyboard.press("p")
    expect(rows.value("calls")).to_have_text(re.compile(r"^([3-9]|\d\d+)$"))
    page.keyboard.press("p")
    expect(rows.button("Play")).to_be_visible()
    page.keyboard.press("r")
    rows.new_run(4)
    tab_to(page, "Step")
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    rows.shows(calls=2)
    expect(rows.grid().locator("tbody tr")).to_have_count(2)
    tab_to(page, "S")  # into the grid, on its first cell
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    rows.shows(place="call 2, slot 1")
    page.keyboard.press("End")
    rows.shows(place="call 2, slot 3")
    tab_to(page, "Three modes side by side")
    page.keyboard.press("Enter")
    rows.shows(**{"disabled-calls": 2})
    tab_to(page, "Save as script")
    page.keyboard.press("Tab")  # the first field of the other panel
    page.keyboard.press("Control+A")
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    tab_to(page, "Counts of the real run")
    page.keyboard.press("s")  # a key goes to the panel in which the focus is
    counts.shows(outcome=0)
    page.keyboard.press("Enter")
    counts.shows(real_calls=2)
    rows.shows(calls=2)
    page.keyboard.press("p")
    counts.shows(outcome=3)


def test_keys_typed_into_a_field_are_text(tab: Tab) -> None:
    tab.counts.field("Your prediction of the mean").click()
    tab.page.keyboard.type("rs")
    tab.page.keyboard.press("Enter")
    expect(tab.counts.message).to_have_text("prediction: 'rs' is no number.")
    tab.counts.shows(outcome="before the first")
    tab.rows.shows(calls=0)


def test_a_narrow_screen_shows_one_panel_below_the_other_and_nothing_sticks_out(browser: Browser, url: str) -> None:
    with opened(browser, url, viewport={"width": 390, "height": 800}, has_touch=True) as tab:
        rows = tab.rows
        rows.slider().press("End")
        rows.new_run(32)
        rows.step(4)
        rows.button("Three modes side by side").click()
        rows.shows(**{"disabled-calls": 4})
        tab.counts.button("Counts of the real run").click()
        tab.counts.shows(real_calls=4)
        assert tab.page.evaluate("document.documentElement.scrollWidth") == 390
        top, bottom = (panel.section.bounding_box() or {} for panel in (tab.rows, tab.counts))
        assert bottom["y"] >= top["y"] + top["height"]
        for control in [*tab.page.get_by_role("button").all(), *tab.page.get_by_role("combobox").all()]:
            box = control.bounding_box()
            if box:  # the others are hidden
                assert box["x"] >= 0 and box["x"] + box["width"] <= 390
        rows.cell(3, 31).click()  # scrolled to in its own frame
        rows.shows(place="call 4, slot 31")


def test_a_wide_screen_shows_the_panels_beside_each_other(tab: Tab) -> None:
    left, right = (panel.section.bounding_box() or {} for panel in (tab.rows, tab.counts))
    assert left["y"] == right["y"] and left["x"] + left["width"] < right["x"]
    assert right["x"] + right["width"] <= 1280
    assert tab.page.evaluate("document.documentElement.scrollWidth") == 1280


def test_light_and_dark_follow_the_system_until_one_is_chosen(browser: Browser, url: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    field = "element => getComputedStyle(element).backgroundColor"
    with opened(browser, url, color_scheme="dark") as tab:
        assert tab.page.evaluate(ground) == "rgb(22, 26, 33)"
        assert tab.rows.field("Seed").evaluate(field) == "rgb(34, 40, 51)"
        tab.page.get_by_role("button", name="Light / dark").click()
        assert tab.page.evaluate(ground) == "rgb(255, 255, 255)"
        assert tab.rows.field("Seed").evaluate(field) == "rgb(255, 255, 255)"
        tab.page.reload()
        tab.rows.new_run(4)
        assert tab.page.evaluate(ground) == "rgb(255, 255, 255)"


def test_two_tabs_do_not_disturb_each_other(browser: Browser, url: str) -> None:
    with opened(browser, url) as one, opened(browser, url) as other:
        one.rows.choose("Autoreset", "same_step")
        one.rows.new_run(4)
        one.rows.step(6)
        one.counts.fill("Slots n", "7")
        other.rows.step(3)
        one.rows.shows(calls=6, claim=24, reset_only=0)
        other.rows.shows(calls=3, claim=12)
        expect(other.counts.field("Slots n")).to_have_value("20")
        other.rows.button("Reset").click()
        other.rows.new_run(4)
        one.rows.step()
        one.rows.shows(calls=7)


def test_a_step_that_hangs_in_one_tab_holds_up_no_other(browser: Browser, url: str, folder: Path) -> None:
    with opened(browser, url) as one, opened(browser, url) as other:
        one.rows.choose("Environment", "another id")
        one.rows.fill("Id", "LabWaits-v0")
        one.rows.new_run(4)
        one.rows.step()
        one.rows.button("Step").click()  # this one waits
        other.rows.step(5)
        one.rows.shows(calls=1)
        (folder / "go").touch()
        one.rows.shows(calls=2)


def test_closing_a_tab_closes_its_environments_and_ends_its_processes(
    browser: Browser, server: tuple[str, int], folder: Path
) -> None:
    url, process = server
    with opened(browser, url) as kept:
        kept.rows.step(2)
        with opened(browser, url) as tab:
            tab.rows.choose("Environment", "another id")
            tab.rows.fill("Id", "LabSigned-v0")
            tab.rows.new_run(4)
            tab.rows.button("Three modes side by side").click()
            tab.rows.shows(**{"disabled-calls": 0})
            assert len(list(folder.glob("open-*"))) == 4 + 3 * 4
            tab.rows.choose("Backend", "proc")
            wait_until(lambda: len(workers_of(process)) == 2, "two workers")
            tab.rows.new_run(4)
            tab.rows.step()
            assert len(list(folder.glob("open-*"))) == 4 + 3 * 4
        wait_until(lambda: not list(folder.glob("open-*")), "every environment closed")
        wait_until(lambda: not workers_of(process), "the workers ended")
        kept.rows.step()
        kept.rows.shows(calls=3)


def workers_of(process: int) -> set[int]:
    """Process ids of grandchildren, from /proc: the children are the servers that workers are forked from."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text(encoding="utf-8")
            except OSError:  # it has just ended
                continue
            state, parent = stat.rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(entry.name)] = int(parent)
    return {child for child, parent in parents.items() if parents.get(parent) == process}
