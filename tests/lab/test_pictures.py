"""Pictures of each panel, for the manual: `make screenshots` writes them to docs/images."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Locator

from tests.lab.driving import ROOT, Tab

NAMES = ("lab-rows.png", "lab-modes.png", "lab-counts.png")


@pytest.fixture
def pictures(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where pictures go."""
    given = request.config.getoption("--screenshots")
    folder = ROOT / given if given else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def draw(what: Locator, place: Path) -> None:
    """Save a picture of a part of the page, in few colours: it holds little else."""
    what.screenshot(path=place, animations="disabled")
    with Image.open(place) as image:
        # letters in six colours, ink, page and lines at least; a blank or broken page has fewer
        assert len(image.convert("RGB").getcolors(1 << 24) or ()) > 30
        assert image.width >= 400 and image.height >= 400
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(place, optimize=True)


def test_each_panel_has_its_picture(tab: Tab, pictures: Path) -> None:
    rows, counts = tab.rows, tab.counts
    rows.step(14)
    rows.cell(5, 1).click()
    rows.shows(place="call 6, slot 1", kind="RESET")
    draw(rows.section, pictures / "lab-rows.png")
    rows.button("Three modes side by side").click()
    rows.shows(**{"disabled-calls": 14})
    rows.cell(6, 1, grid=2).click()
    rows.grid(3).locator(".marked").wait_for()
    draw(rows.section.locator(".modes"), pictures / "lab-modes.png")
    counts.fill("Your prediction of the mean", "14")
    for _ in range(15):
        counts.button("Step").click()
    counts.shows(outcome=14)
    counts.button("Counts of the real run").click()
    counts.shows(real_calls=14)
    draw(counts.section, pictures / "lab-counts.png")
    assert sorted(place.name for place in pictures.glob("lab-*.png")) == sorted(NAMES)


def test_the_manual_shows_these_pictures() -> None:
    page = (ROOT / "docs" / "lab.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\(images/([^)]+)\)", page)) == sorted(NAMES)
    for name in NAMES:
        with Image.open(ROOT / "docs" / "images" / name) as image:
            image.verify()
