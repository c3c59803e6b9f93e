"""The bootstrap interval covers what it says, and is repeatable."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sekai.collect import bootstrap_interval


def test_two_values_by_hand() -> None:
    # samples of two out of {0, 1}: the mean is 0 with probability 1/4, 1/2 with 1/2, 1 with 1/4
    assert bootstrap_interval([0.0, 1.0], confidence=0.6) == (0.0, 1.0)  # 20 % and 80 % lie in the outer quarters
    assert bootstrap_interval([0.0, 1.0], confidence=0.4) == (0.5, 0.5)  # 30 % and 70 % in the middle


def test_it_covers_the_true_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(400):
        low, high = bootstrap_interval(rng.normal(3.0, 2.0, 40), confidence=0.8, resamples=400, seed=trial)
        covered += low <= 3.0 <= high
    # four standard errors of 400 trials are 0.08; the percentile interval is a little narrow
    assert 0.70 < covered / 400 < 0.88


def test_many_values_are_drawn_in_pieces_with_the_same_width() -> None:
    values = np.random.default_rng(1).normal(0.0, 1.0, 300_000)
    low, high = bootstrap_interval(values, resamples=50)
    assert 0.5 * 3.92 < (high - low) * np.sqrt(300_000) < 1.3 * 3.92  # 1.96 standard errors to each side


def test_a_seed_decides_the_draws() -> None:
    values = np.arange(10.0)
    assert bootstrap_interval(values, seed=1) == bootstrap_interval(values, seed=1)
    assert bootstrap_interval(values, resamples=20, seed=1) != bootstrap_interval(values, resamples=20, seed=2)


def test_one_value_has_no_interval_and_none_is_an_error() -> None:
    assert np.isnan(bootstrap_interval([2.0])).all()
    for bad, shape in (([], "(0,)"), ([[1.0]], "(1, 1)")):
        with pytest.raises(ValueError, match=re.escape(f"values has shape {shape}; expected (E,)")):
            bootstrap_interval(bad)
