"""Merton's jumps: cumulants and counts. Tolerance: 4 standard errors."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from sekai.finance import GeometricBrownianMotion, MertonJumps
from sekai.finance.models.jumps import poisson_levels
from tests.finance.models.samples import assert_mean, assert_not_mean

MU, SIGMA, RATE, M, DELTA = 0.08, 0.2, 3.0, -0.1, 0.15
MODEL = MertonJumps(MU, SIGMA, intensity=RATE, jump_mean=M, jump_std=DELTA)


@pytest.mark.parametrize(("bars", "dt"), [(1, 1.0), (8, 0.125)])
def test_growth_and_cumulants(bars: int, dt: float) -> None:
    total = MODEL.begin(np.random.default_rng(6), {}, np.arange(400_000), bars, dt).sum(axis=(1, 2))
    relative = math.exp(M + DELTA**2 / 2) - 1
    mean = MU - SIGMA**2 / 2 - RATE * relative + RATE * M
    assert_mean(np.exp(total), math.exp(MU))
    assert_not_mean(np.exp(total), math.exp(MU + RATE * relative))  # forgetting kbar
    assert_mean(total, mean)
    variance = SIGMA**2 + RATE * (M**2 + DELTA**2)
    assert_mean((total - mean) ** 2, variance)
    assert_not_mean((total - mean) ** 2, SIGMA**2 + RATE * DELTA**2)  # forgetting that the number of jumps varies
    assert_mean((total - mean) ** 3, RATE * (M**3 + 3 * M * DELTA**2))
    assert_mean((total - mean) ** 4 - 3 * variance**2, RATE * (M**4 + 6 * M**2 * DELTA**2 + 3 * DELTA**4))


def test_without_jumps_it_is_a_geometric_brownian_motion() -> None:
    calm = MertonJumps(MU, SIGMA, intensity=0.0, jump_mean=5.0, jump_std=3.0)
    returns = calm.begin(np.random.default_rng(1), {}, np.arange(50), 3, 0.25)[..., 0]
    shocks = np.random.default_rng(1).standard_normal((50, 3, 2))[..., 1]  # the first of each two counts jumps
    assert returns == pytest.approx((MU - SIGMA**2 / 2) * 0.25 + SIGMA * 0.5 * shocks, abs=1e-15)
    assert GeometricBrownianMotion(MU, SIGMA)._drift[0, 0, 0] == calm._drift


def test_pure_jumps_of_one_size_count_them() -> None:
    model = MertonJumps(0.0, 0.0, intensity=2.0, jump_mean=0.5, jump_std=0.0)
    returns = model.begin(np.random.default_rng(2), {}, np.arange(100_000), 1, 1.0).ravel()
    counts = (returns + 2.0 * math.expm1(0.5)) / 0.5  # the compensation taken back
    assert counts == pytest.approx(np.rint(counts), abs=1e-9)
    for k in range(8):
        assert_mean(np.rint(counts) == k, math.exp(-2.0) * 2.0**k / math.factorial(k))


@pytest.mark.parametrize("mean", [1e-9, 0.01, 0.5, 3.0, 40.0, 3000.0])
def test_levels_split_the_normal_into_poisson_probabilities(mean: float) -> None:
    fewest, levels = poisson_levels(mean)
    assert fewest == max(0, math.floor(mean - 12 * math.sqrt(mean) - 40))
    below, standard, total = 0.0, NormalDist(), 0.0
    for k, level in enumerate([*levels.tolist(), math.inf], start=fewest):
        upto = standard.cdf(level)
        mass = math.exp(k * math.log(mean) - mean - math.lgamma(k + 1))
        assert upto - below == pytest.approx(mass, abs=1e-11)
        total, below = total + k * mass, upto
    assert total == pytest.approx(mean, rel=1e-9)
    # the tail is that of the survival function, not what rounding leaves of 1 - cdf: P(N > 2) for a mean of 1e-9
    if mean == 1e-9:
        assert standard.cdf(-levels[2]) == pytest.approx(mean**3 / 6, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"mu": math.inf}, ValueError, "mu is inf"),
        ({"sigma": -1}, ValueError, "sigma is -1"),
        ({"intensity": -1.0}, ValueError, "intensity is -1.0"),
        ({"jump_mean": None}, TypeError, "jump_mean is None"),
        ({"jump_std": -0.1}, ValueError, "jump_std is -0.1"),
        ({"jump_mean": 1000.0}, ValueError, "jump_mean=1000.0 and jump_std=0.1 make a mean jump beyond"),
    ],
)
def test_crooked_arguments_are_refused(arguments: Any, error: Any, message: str) -> None:
    given: dict[str, Any] = {"mu": 0.1, "sigma": 0.2, "intensity": 1.0, "jump_mean": 0.0, "jump_std": 0.1, **arguments}
    with pytest.raises(error, match=message):
        MertonJumps(**given)


def test_counts_of_thousands_begin_where_they_matter() -> None:
    model = MertonJumps(0.0, 0.0, intensity=4000.0, jump_mean=1e-3, jump_std=0.0)
    returns = model.begin(np.random.default_rng(2), {}, np.arange(10_000), 1, 1.0).ravel()
    counts = (returns + 4000 * math.expm1(1e-3)) / 1e-3
    assert_mean(counts, 4000.0)
    assert_mean((counts - 4000.0) ** 2, 4000.0)


def test_too_many_jumps_in_a_bar_are_refused_before_anything_is_drawn() -> None:
    rng = np.random.default_rng(0)
    model = MertonJumps(0.1, 0.2, intensity=20_001.0, jump_mean=0.0, jump_std=0.1)
    assert np.isfinite(model.advance(rng, {}, np.array([0]), 0.25)).all()
    left = rng.bit_generator.state
    with pytest.raises(ValueError, match=r"makes 10000.5 jumps in a bar of dt=0.5; expected at most 10000"):
        model.advance(rng, {}, np.array([0]), 0.5)
    assert rng.bit_generator.state == left
