"""The binomial model against exact fractions, and the dispersion of a run by hand."""

from __future__ import annotations

from fractions import Fraction
from math import comb, sqrt

import numpy as np
import pytest

from sekai.lab import Binomial, Dispersion

PAIRS = [(n, p) for n in (1, 4, 20, 63, 200) for p in (0.03, 0.5, 0.75, 0.998)]


@pytest.mark.parametrize(("n", "p"), PAIRS)
def test_probabilities_and_running_sums_are_exact(n: int, p: float) -> None:
    model, q = Binomial(n, p), Fraction(p)
    exact = [comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(n + 1)]
    np.testing.assert_allclose(model.probabilities, [float(each) for each in exact], rtol=0, atol=1e-12)
    sums = np.cumsum(np.array(exact, object))
    np.testing.assert_allclose(model.running, [float(each) for each in sums], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("p", "mean", "variance"), [(0.75, 15, 3.75), (0.5, 10, 5)])
def test_twenty_slots_have_the_mean_n_p(p: float, mean: float, variance: float) -> None:
    model = Binomial(20, p)
    assert model.mean == mean
    assert model.deviation == pytest.approx(sqrt(variance), abs=1e-12)  # n p (1 - p)


def test_three_slots_by_hand() -> None:
    model = Binomial(3, 0.3)  # 0.7^3, 3 * 0.3 * 0.49, 3 * 0.09 * 0.7, 0.3^3
    assert model.probabilities == pytest.approx([0.343, 0.441, 0.189, 0.027], abs=1e-12)
    assert model.running == pytest.approx([0.343, 0.784, 0.973, 1.0], abs=1e-12)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_a_certain_outcome_has_no_deviation(p: float) -> None:
    model = Binomial(5, p)
    assert model.probabilities[round(5 * p)] == 1.0
    assert model.deviation == 0.0


@pytest.mark.parametrize(
    ("n", "p", "message"),
    [
        (0, 0.5, "n is 0; expected an int of at least 1."),
        (201, 0.5, "n is 201; expected 1 to 200."),
        (20, 1.3, "p is 1.3; expected a probability, from 0 to 1."),
        (20, -0.1, "p is -0.1; expected a probability, from 0 to 1."),
        (20, float("nan"), "p is nan; expected a probability, from 0 to 1."),
    ],
)
def test_numbers_out_of_range_are_refused(n: int, p: float, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Binomial(n, p)
    assert str(caught.value) == message


def test_the_dispersion_of_five_calls_by_hand() -> None:
    found = Dispersion.of(np.array([2, 2, 1, 1, 2]), 2)
    assert found.counts.tolist() == [0, 2, 3]
    assert found.mean == 1.6  # 8 / 5
    assert found.deviation**2 == pytest.approx(0.24)  # (3 * 0.4^2 + 2 * 0.6^2) / 5
    assert found.share == 0.8
    assert found.binomial_deviation**2 == pytest.approx(0.32)  # 2 * 0.8 * 0.2
    assert found.ratio == pytest.approx(0.75)


def test_a_run_in_which_every_row_is_a_transition_has_nothing_to_compare() -> None:
    found = Dispersion.of(np.array([3, 3]), 3)
    assert (found.share, found.binomial_deviation, found.ratio) == (1.0, 0.0, None)


def test_no_calls_have_no_dispersion() -> None:
    with pytest.raises(ValueError, match="There are no calls to count yet; step the run first"):
        Dispersion.of(np.zeros(0, np.int64), 4)
