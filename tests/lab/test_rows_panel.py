"""The panel of rows in a real browser: every control, and numbers that are the collector's."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from sekai.collect import Collector, Counters
from sekai.lab import Run, Setup
from tests.lab.driving import Rows, Tab

MODES = ("same_step", "next_step", "disabled")
#: of the collector, by the id on the page
NUMBERS = ("calls", "valid", "reset_only", "frozen", "lost")


def counted(setup: Setup, calls: int) -> dict[str, int]:
    """What a collector counts that has nothing to do with the lab's own."""
    with setup.make() as vec:
        collector = Collector(vec, setup.player(vec), fragment_length=calls, restart=setup.restart)
        collector.reset(seed=setup.seed)
        collector.collect()
    counters: Counters = collector.counters
    found = {name: getattr(counters, name) for name in NUMBERS}
    return {**found, "episodes": counters.terminated + counters.truncated, "claim": counters.calls * setup.slots}


def played(setup: Setup, calls: int) -> Run:
    run = Run(setup)
    run.step(calls)
    run.close()
    return run


def save(rows: Rows, button: str, folder: Path) -> Path:
    with rows.page.expect_download() as download:
        rows.button(button).click()
    place = folder / download.value.suggested_filename
    download.value.save_as(place)
    return place


def test_every_call_is_a_row_of_letters_and_the_counters_are_the_collectors(tab: Tab) -> None:
    tab.rows.step(9)
    # lengths 3, 5, 4, 3 in next_step: the slots reset in the call after their end, in calls 4, 6, 5, 4 first
    assert tab.rows.letters() == ["SSSS", "SSSS", "TSST", "RSBR", "SURS", "SRSS", "TSST", "RSSR", "SSBS"]
    tab.rows.shows(calls=9, valid=30, reset_only=6, frozen=0, lost=0, episodes=7, claim=36)
    tab.rows.shows(**counted(Setup(), 9))


def test_the_three_modes_show_the_same_transitions_and_the_collectors_own_counts(tab: Tab) -> None:
    rows = tab.rows
    rows.step(11)
    rows.button("Three modes side by side").click()
    for number, mode in enumerate(MODES, start=1):
        setup = replace(Setup(), autoreset=mode, backend="sync")
        rows.shows(**{f"{mode}-{id}": value for id, value in counted(setup, 11).items()})
        assert rows.letters(number) == played(setup, 11).letters
    assert rows.letters(0) == rows.letters(2)
    expect(rows.value("agreement")).to_have_text(re.compile("compared: all are the same, in different rows"))
    # the first step of slot 0's second episode: call 4, but where a row went by to reset it, call 5
    rows.cell(3, 0, grid=1).click()
    for grid, time in ((0, 4), (1, 3), (2, 4), (3, 5)):
        expect(rows.cell(time, 0, grid)).to_have_class(re.compile(r"\bmarked\b"))
        expect(rows.grid(grid).locator(".marked")).to_have_count(1)
    rows.step()  # they go on together
    rows.shows(**{"same_step-calls": 12, "disabled-calls": 12})
    rows.button("Three modes side by side").click()
    expect(rows.grid(1)).not_to_be_visible()


def test_a_cell_that_is_pointed_at_or_chosen_shows_all_there_is(tab: Tab) -> None:
    rows = tab.rows
    rows.choose("Actions", "constant")
    rows.fill("Action", "7")
    rows.new_run(4)
    rows.step(5)
    rows.cell(3, 2).hover()  # call 4 of slot 2, the end of its first episode, of length 4: both flags
    rows.shows(place="call 4, slot 2", kind="TERMINATED, both flags true", action=7, reward=47)  # 10 * 4 + 7
    rows.shows(observation="[2., 0., 3.]", next_observation="[2., 0., 4.]", terminated="yes", truncated="yes")
    rows.shows(episode_id="2, step 3", bootstrap="no", trace="no", episode_start="no", hidden="h = 1.75", info="{t: 4}")
    rows.cell(0, 1).click()
    rows.shows(place="call 1, slot 1", kind="STEP", bootstrap="yes", trace="yes", episode_start="yes", hidden="h = 0")
    rows.cell(4, 2).hover()
    rows.shows(place="call 5, slot 2", kind="RESET", episode_id="none: no transition", bootstrap="no")
    tab.counts.button("Step").hover()  # the pointer has left: back to what was chosen
    rows.shows(place="call 1, slot 1")


def test_the_memory_is_carried_and_begun_anew_slot_by_slot(tab: Tab) -> None:
    tab.rows.step(5)
    run = played(Setup(), 5)
    bars = tab.rows.section.locator("[data-hidden]")
    expect(bars).to_have_count(4 * 6)
    for bar in bars.all():
        time, slot = int(bar.get_attribute("data-time") or -1), int(bar.get_attribute("data-slot") or -1)
        assert float(bar.get_attribute("data-hidden") or -1) == run.hidden[time, slot]
        assert ("fresh" in (bar.get_attribute("class") or "")) == run.starts[time, slot]
    # slot 0, of length 3: h = 0, 1, 1.5, then 1.75 in the row of the reset, then 0 again and 1
    assert run.hidden[:, 0].tolist() == [0.0, 1.0, 1.5, 1.75, 0.0, 1.0]


def test_every_choice_is_what_is_run(tab: Tab) -> None:
    rows = tab.rows
    choices: list[tuple[str, str, dict[str, Any]]] = [
        ("Episodes end", "truncated", {"endings": ("truncated",)}),
        ("Episodes end", "both flags", {"endings": ("both",)}),
        ("Autoreset", "same_step", {"autoreset": "same_step"}),
        ("Autoreset", "disabled", {"autoreset": "disabled"}),
        ("Backend", "async", {"backend": "async"}),
        ("Backend", "proc", {"backend": "proc"}),
        ("Backend", "native", {"backend": "native"}),
        ("Environment", "OptimalExecution-v0", {"environment": "OptimalExecution-v0"}),
        ("Environment", "Trading-v0 (S&P 500)", {"environment": "Trading-v0"}),
        ("Backend", "sync", {"backend": "sync"}),
        ("Environment", "CartPole-v1", {"environment": "CartPole-v1"}),
    ]
    wanted = Setup()
    for label, option, change in choices:
        rows.choose(label, option)
        rows.new_run(4)
        rows.step(6)
        wanted = replace(wanted, **change)
        assert rows.letters() == played(wanted, 6).letters, option
        rows.shows(**counted(wanted, 6))


def test_typed_settings_and_the_slider_are_what_is_run(tab: Tab) -> None:
    rows = tab.rows
    rows.slider().press("ArrowRight")
    rows.new_run(5)
    rows.fill("Episode lengths", "2, 6")
    rows.fill("Seed", "11")
    rows.step(4)
    assert rows.letters() == played(Setup(slots=5, lengths=(2, 6), seed=11), 4).letters
    rows.choose("Environment", "another id")
    rows.fill("Id", "Acrobot-v1")
    rows.new_run(5)
    rows.step()
    rows.cell(0, 0).click()
    run = played(Setup(environment="Acrobot-v1", slots=5, seed=11), 1)
    rows.shows(action=run.cell(0, 0).action, reward=-1)


def test_reset_begins_anew_and_play_goes_on_until_it_is_paused(tab: Tab) -> None:
    rows = tab.rows
    rows.step(2)
    rows.button("Reset").click()
    rows.new_run(4)
    rows.choose("Speed", "1 a second")
    rows.button("Play").click()
    rows.choose("Speed", "10 a second")
    expect(rows.value("calls")).to_have_text(re.compile(r"^([4-9]|\d\d+)$"))
    rows.button("Pause").click()
    expect(rows.button("Play")).to_be_visible()
    rows.cell(0, 0).click()
    rows.shows(place="call 1, slot 0")  # asked for after the last call was: that one has come back
    calls = rows.value("calls").inner_text()
    for slot in (1, 2, 3):
        rows.cell(0, slot).click()
        rows.shows(place=f"call 1, slot {slot}", calls=calls)


def test_the_shown_run_is_saved_as_a_table_and_as_a_script_that_makes_it_again(tab: Tab, tmp_path: Path) -> None:
    rows = tab.rows
    rows.choose("Autoreset", "disabled")
    rows.new_run(4)
    rows.step(6)
    with save(rows, "Save as CSV", tmp_path).open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["call"], line["slot"]) for line in lines] == [(str(t), str(n)) for t in range(1, 7) for n in range(4)]
    run = played(Setup(autoreset="disabled"), 6)
    assert [line["kind"] for line in lines] == [run.cell(t, n).kind.name for t in range(6) for n in range(4)]
    script = save(rows, "Save as script", tmp_path)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    numbers = counted(run.setup, 6)
    assert told[:5] == [f"{id} {numbers[id]}" for id in ("calls", "valid", "reset_only", "frozen", "episodes")]
    assert told[6:] == [row.replace("B", "T") for row in run.letters]


@pytest.mark.parametrize(
    ("label", "text", "says"),
    [
        ("Episode lengths", "3, x", "episode lengths: 'x' is no whole number."),
        ("Episode lengths", "0", "length is 0; expected an int of at least 1."),
        ("Seed", "-1", "seed is -1; expected an int >= 0, None or a numpy.random.Generator."),
    ],
)
def test_bad_input_gets_a_message_and_leaves_the_page_usable(tab: Tab, label: str, text: str, says: str) -> None:
    rows = tab.rows
    rows.step(2)
    good = rows.field(label).input_value()
    rows.fill(label, text)
    expect(rows.message).to_have_text(f"{says} The run shown is the one before.")
    rows.step()  # the run before goes on
    rows.fill(label, good)
    rows.new_run(4)
    expect(rows.message).to_have_count(0)


def test_an_action_that_the_environment_does_not_have_gets_a_message(tab: Tab) -> None:
    rows = tab.rows
    rows.choose("Actions", "constant")
    rows.fill("Action", "10")
    expect(rows.message).to_contain_text("action is 10; expected one of Discrete(10).")
    rows.fill("Action", "many")
    expect(rows.message).to_contain_text("action: 'many' is neither a number nor a list")
    rows.fill("Action", "9")
    expect(rows.message).to_have_count(0)


@pytest.mark.parametrize(
    ("id", "says"),
    [
        ("NoSuch-v0", "NoSuch"),
        ("LabUnbuildable-v0", "RuntimeError: no such licence"),
    ],
)
def test_an_environment_that_cannot_be_made_gets_a_message(tab: Tab, id: str, says: str) -> None:
    rows = tab.rows
    rows.step()
    rows.choose("Environment", "another id")
    rows.fill("Id", id)
    expect(rows.message).to_contain_text(says)
    expect(rows.message).to_contain_text("The run shown is the one before.")
    rows.step()
    rows.choose("Environment", "CartPole-v1")
    rows.new_run(4)


def test_a_backend_that_an_environment_lacks_gets_a_message(tab: Tab) -> None:
    tab.rows.choose("Environment", "CartPole-v1")
    tab.rows.new_run(4)
    tab.rows.choose("Backend", "native")
    expect(tab.rows.message).to_contain_text("CartPole-v1 has no native vector environment")


def test_a_step_that_fails_gets_a_message_and_the_next_row_is_lost(tab: Tab) -> None:
    rows = tab.rows
    rows.choose("Environment", "another id")
    rows.fill("Id", "LabFails-v0")
    expect(rows.value("calls")).to_have_text("0")
    rows.step(2)
    rows.button("Play").click()
    expect(rows.message).to_have_text("RuntimeError: the third step <b>fails</b>")  # and no bold text
    expect(rows.button("Play")).to_be_visible()
    rows.step()
    assert rows.letters() == ["SSSS", "SSSS", "LLLL"]
    rows.shows(calls=3, valid=8, lost=4)
    rows.cell(0, 0).click()
    rows.shows(info="{text: <b>bold</b>}")


def test_letters_are_readable_on_their_colours(tab: Tab) -> None:
    script = """element => { const style = getComputedStyle(element); return [style.color, style.backgroundColor]; }"""
    for letter in "STBURL":  # F is hatched in two greys that lie between S and L
        ink, ground = tab.rows.section.locator(f".key .{letter}").evaluate(script)
        assert contrast(ink, ground) > 4.5, letter  # what WCAG 2.2 asks of text


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours `rgb(r, g, b)`; source: WCAG 2.2, relative luminance."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
