"""Bounds from counts, and counts from bounds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.safety.binomial import chance_of_at_most, clopper_pearson, events_allowed, trials_needed, upper_bound


def test_an_upper_bound_by_hand() -> None:
    # none in 10: (1 - p)^10 = .05 at p = 1 - .05^.1 = .25887; one in 2: p^2 = .95 at .97468
    assert upper_bound(0, 10) == pytest.approx(1 - 0.05**0.1, abs=1e-9)
    assert upper_bound(1, 2) == pytest.approx(math.sqrt(0.95), abs=1e-9)
    assert upper_bound(2, 2) == 1.0 and upper_bound(0, 0) == 1.0
    # a two-sided one has half of what is left on either side
    assert upper_bound(7, 300, confidence=0.975) == pytest.approx(clopper_pearson(7, 300).high, abs=1e-9)


def test_how_many_it_takes() -> None:
    # .99^n <= .05 from n = 299 on: .99^298 = .05002
    assert trials_needed(0.01) == 299
    assert 0.99**299 <= 0.05 < 0.99**298
    assert events_allowed(299, 0.01) == 0 and events_allowed(298, 0.01) == -1
    with pytest.raises(ValueError, match=r"risk is 0 and confidence 0\.95; expected both between 0 and 1"):
        trials_needed(0)


@given(st.integers(1, 3000), st.floats(0.001, 0.5), st.floats(0.5, 0.999))
def test_so_many_are_allowed_and_not_one_more(trials: int, risk: float, confidence: float) -> None:
    allowed = events_allowed(trials, risk, confidence=confidence)
    if allowed >= 0:
        assert upper_bound(allowed, trials, confidence=confidence) <= risk * (1 + 1e-9)
    if allowed + 1 < trials:
        assert upper_bound(allowed + 1, trials, confidence=confidence) > risk * (1 - 1e-9)


def test_what_is_to_come_after_what_was_seen() -> None:
    # after one event in two, p has the density 6 p (1 - p), and none in one to come has the chance E(1 - p) = 1/2
    assert chance_of_at_most(0, 1, events=1, seen=2) == pytest.approx(0.5)
    # after none in none all numbers of events are as likely as one another: 4 of the 11 of ten trials are at most 3
    assert chance_of_at_most(3, 10, events=0, seen=0) == pytest.approx(4 / 11)
    assert chance_of_at_most(10, 10, events=2, seen=7) == pytest.approx(1.0)
    assert chance_of_at_most(-1, 10, events=0, seen=5) == 0.0
