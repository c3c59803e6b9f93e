"""The panel of counts in a real browser: every control, and numbers that are scipy's."""

from __future__ import annotations

import re

import numpy as np
from playwright.sync_api import expect
from scipy.stats import binom

from sekai.lab import Dispersion, Run, Setup
from tests.lab.driving import Panel, Tab

PAIRS = [(n, p) for n in (1, 4, 20, 63, 200) for p in (0.03, 0.5, 0.75, 0.998)]


def take(panel: Panel, n: int, p: float) -> None:
    """Type n and p, and wait until the panel shows them."""
    panel.fill("Slots n", str(n))
    panel.fill("Probability p", str(p))
    title = f"binomial probabilities of 0 to {n} slots at p = {p:.6g}"
    expect(panel.section.get_by_role("img", name=title, exact=True)).to_be_visible()


def outcomes(panel: Panel) -> np.ndarray:
    """The table of all outcomes: k, P(K = k), P(K <= k)."""
    rows = panel.section.locator("details tbody")
    found = rows.evaluate("body => [...body.rows].map(row => [...row.cells].map(cell => cell.textContent))")
    return np.array(found, np.float64)


def test_the_numbers_are_scipys_for_twenty_pairs(tab: Tab) -> None:
    counts = tab.counts
    counts.section.get_by_text("All outcomes as numbers").click()
    assert len(PAIRS) == 20
    for n, p in PAIRS:
        take(counts, n, p)
        k, probabilities, sums = outcomes(counts).T
        np.testing.assert_array_equal(k, np.arange(n + 1))
        np.testing.assert_allclose(probabilities, binom.pmf(k, n, p), rtol=0, atol=1e-12)
        np.testing.assert_allclose(sums, binom.cdf(k, n, p), rtol=0, atol=1e-12)
        counts.fill("Your prediction of the mean", "0")
        counts.shows(mean=f"{n * p:.10g}", deviation=f"{binom.std(n, p):.6g}")


def test_a_prediction_is_held_against_the_mean_and_reset_restores_the_defaults(tab: Tab) -> None:
    counts = tab.counts
    counts.shows(mean="predict it, then press Step or Play")
    counts.fill("Your prediction of the mean", "14")
    counts.shows(predicted="14: 1 too low", mean=15, deviation="1.93649")  # sqrt(20 * 0.75 * 0.25)
    counts.fill("Probability p", "0.5")
    counts.shows(predicted="14: 4 too high", mean=10, deviation="2.23607")  # sqrt(20 * 0.5 * 0.5)
    counts.fill("Your prediction of the mean", "10")
    counts.shows(predicted="10: exactly the mean")
    counts.button("Reset").click()
    counts.shows(mean="predict it, then press Step or Play", outcome="before the first")
    expect(counts.value("predicted")).to_have_count(0)
    expect(counts.field("Slots n")).to_have_value("20")
    expect(counts.field("Probability p")).to_have_value("0.75")
    expect(counts.field("Your prediction of the mean")).to_have_value("")


def test_step_walks_through_the_outcomes_with_their_probability_and_the_running_sum(tab: Tab) -> None:
    counts = tab.counts
    take(counts, 3, 0.3)
    here = counts.section.locator(".chart .current")
    expect(here).to_have_count(0)
    for k, (probability, running) in enumerate([(0.343, 0.343), (0.441, 0.784), (0.189, 0.973), (0.027, 1)]):
        counts.button("Step").click()
        counts.shows(outcome=k, probability=probability, running=running, mean=0.9)
        expect(here).to_have_attribute("title", re.compile(f"^P\\(K = k\\), k = {k}: {probability:g}"))
    counts.button("Step").click()  # there is no further outcome
    counts.shows(outcome=3)


def test_play_walks_to_the_last_outcome_and_stops_there(tab: Tab) -> None:
    counts = tab.counts
    take(counts, 6, 0.5)
    counts.choose("Speed", "10 a second")
    counts.button("Play").click()
    counts.shows(outcome=6, running=1)
    expect(counts.button("Play")).to_be_visible()
    counts.button("Reset").click()
    counts.choose("Speed", "1 a second")
    counts.button("Play").click()
    counts.button("Pause").click()
    expect(counts.button("Play")).to_be_visible()


def test_sliders_and_fields_follow_each_other(tab: Tab) -> None:
    counts = tab.counts
    counts.slider(0).press("ArrowRight")
    expect(counts.field("Slots n")).to_have_value("21")
    counts.slider(1).press("ArrowLeft")
    expect(counts.field("Probability p")).to_have_value("0.74")
    counts.fill("Slots n", "50")
    expect(counts.slider(0)).to_have_attribute("aria-valuenow", "50.0")
    counts.fill("Probability p", "0.123")  # which lies between two steps of the slider
    counts.button("Step").click()
    counts.shows(mean=6.15)
    expect(counts.field("Probability p")).to_have_value("0.123")


def test_bad_input_gets_a_message_and_leaves_the_page_usable(tab: Tab) -> None:
    counts = tab.counts
    for label, text, says in (
        ("Slots n", "0", "n is 0; expected an int of at least 1."),
        ("Slots n", "201", "n is 201; expected 1 to 200."),
        ("Slots n", "many", "n: 'many' is no whole number."),
    ):
        counts.fill(label, text)
        expect(counts.message).to_have_text(f"{says} What is shown is n = 20, p = 0.75.")
    counts.fill("Slots n", "20")
    for text, says in (("1.3", "p is 1.3; expected a probability, from 0 to 1."), ("half", "p: 'half' is no number.")):
        counts.fill("Probability p", text)
        expect(counts.message).to_have_text(f"{says} What is shown is n = 20, p = 0.75.")
        counts.button("Step").click()  # what is shown goes on
    counts.shows(outcome=1)
    counts.fill("Probability p", "0.5")
    expect(counts.message).to_have_count(0)
    counts.fill("Your prediction of the mean", "ten")
    expect(counts.message).to_have_text("prediction: 'ten' is no number.")
    counts.fill("Your prediction of the mean", "10")
    counts.shows(predicted="10: exactly the mean")


def test_the_real_run_stands_beside_the_model_with_its_measured_dispersion(tab: Tab) -> None:
    counts = tab.counts
    counts.button("Counts of the real run").click()
    expect(counts.section).to_contain_text("The run has no calls yet; step it.")
    tab.rows.step(12)
    run = Run(Setup())
    run.step(12)
    run.close()
    real = Dispersion.of(run.valid_counts, 4)
    counts.shows(real_calls=12, real_mean=f"{real.mean:.6g} of 4", real_deviation=f"{real.deviation:.6g}")
    counts.shows(binomial_deviation=f"{real.binomial_deviation:.6g}", real_ratio=f"{real.ratio:.6g}")
    expect(counts.section).to_contain_text("the slots are not independent identical trials")
    expect(counts.section.get_by_role("img", name=re.compile("in 12 calls of the run"))).to_be_visible()
    tab.rows.step()
    counts.shows(real_calls=13)
    counts.button("Counts of the real run").click()
    expect(counts.value("real_calls")).to_have_count(0)
