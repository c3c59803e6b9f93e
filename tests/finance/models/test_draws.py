"""Choices and correlated returns out of standard normals."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.finance.models.draws import correlated_returns, normal_levels


def test_levels_by_hand() -> None:
    # Phi(-0.6744897501960817) = 1/4
    assert normal_levels(np.array([0.25, 0.5, 0.25])) == pytest.approx([-0.6744897501960817, 0.6744897501960817])
    assert normal_levels(np.array([0.5, 0.5])).tolist() == [0.0]
    assert normal_levels(np.array([1.0])).shape == (0,)
    # impossible outcomes, at either end and in the middle: 0, 2 and 4 are never chosen
    levels = normal_levels(np.array([0.0, 0.5, 0.0, 0.5, 0.0]))
    assert levels.tolist() == [-math.inf, 0.0, 0.0, math.inf]
    assert {int((z >= levels).sum()) for z in (-1e300, -1.0, -0.0, 0.0, 1.0, 1e300)} == {1, 3}


def test_rare_outcomes_keep_their_probability_at_both_ends() -> None:
    rare = 1e-18  # 1 - 1e-18 is 1: a level from the sum below would be infinite
    low, high = normal_levels(np.array([rare, 1.0, rare]))
    assert NormalDist().cdf(low) == pytest.approx(rare, rel=1e-9) and high == -low


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(any))
def test_levels_split_the_normal_in_proportion(weights: list[int]) -> None:
    probabilities = np.array(weights) / sum(weights)
    levels = normal_levels(probabilities)
    assert (levels[1:] >= levels[:-1]).all()
    cdf = [0.0, *(0.5 * math.erfc(-level / math.sqrt(2)) for level in levels), 1.0]
    assert np.diff(cdf) == pytest.approx(probabilities, abs=1e-12)


def test_returns_are_drift_and_loading_by_hand() -> None:
    # asset 0: 1 + 2 z0; asset 1: 10 + 3 z0 + 4 z1
    drift, loading = np.array([1.0, 10.0])[:, None, None], np.array([[2.0, 0.0], [3.0, 4.0]])[:, :, None, None]
    shocks = np.array([[[1.0, 100.0], [0.0, 1.0]]])
    assert correlated_returns(drift, loading, shocks).tolist() == [[[3.0, 413.0], [1.0, 14.0]]]
    # the other triangle: 2 z0 + 3 z1
    assert 1 + loading[:, :, 0, 0].T[0] @ shocks[0, 0] == 303.0


def test_returns_are_those_of_a_matrix_product() -> None:
    rng = np.random.default_rng(0)
    drift, loading = rng.normal(size=(5, 1, 1)), np.tril(rng.normal(size=(5, 5)))
    shocks = rng.normal(size=(7, 3, 5))
    expected = drift[:, 0, 0] + shocks @ loading.T
    assert correlated_returns(drift, loading[:, :, None, None], shocks) == pytest.approx(expected, abs=1e-13)
