"""Comparing sets: shares by hand, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from sekai.safety.oracle import compare_sets

EXACT = np.array([True, True, True, True, False, False])
LEARNED = np.array([True, True, True, False, True, True])


def test_shares_by_hand() -> None:
    # three in both, one missed of four, two false: 3 / (4 + 2), 2 / 4, 1 / 4
    assert compare_sets(LEARNED, EXACT) == (0.5, 0.5, 0.25)
    assert compare_sets(EXACT, EXACT) == (1.0, 0.0, 0.0)
    assert compare_sets(~EXACT, EXACT) == (0.0, 0.5, 1.0)


def test_states_may_stand_for_different_areas() -> None:
    # the missed state counts 3 of 6, one of the false ones 0: 3 / (6 + 1), 1 / 6, 3 / 6
    assert compare_sets(LEARNED, EXACT, weights=np.array([1.0, 1, 1, 3, 1, 0])) == (3 / 7, 1 / 6, 0.5)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(TypeError, match=r"learned is of dtype float64; expected bools, such as value >= 0."):
        compare_sets(LEARNED * 1.0, EXACT)
    with pytest.raises(ValueError, match=r"learned has shape \(5,\) and exact \(6,\); expected the same."):
        compare_sets(LEARNED[1:], EXACT)
    with pytest.raises(ValueError, match="nothing can be said as a share of it"):
        compare_sets(LEARNED, EXACT & False)
