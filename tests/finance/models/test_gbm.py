"""Geometric Brownian motion: its moments, and arguments of several assets. Tolerance: 4 standard errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sekai.finance import GeometricBrownianMotion
from tests.finance.models.samples import CORRELATIONS, DAY, assert_mean, assert_not_mean

MU, SIGMA = np.array([0.05, 0.3, -0.1]), np.array([0.2, 0.5, 0.8])


def test_moments_of_correlated_assets() -> None:
    model, dt, bars = GeometricBrownianMotion(MU, SIGMA, corr=CORRELATIONS), 0.25, 2
    returns = model.begin(np.random.default_rng(1), {}, np.arange(200_000), bars, dt)
    total, years = returns.sum(axis=1), dt * bars
    assert_mean(np.exp(total), np.exp(MU * years))  # E[S_T] = S_0 e^(mu T)
    assert_mean(total, (MU - SIGMA**2 / 2) * years)
    assert_not_mean(total, MU * years)  # forgetting -sigma^2 / 2
    products = (total[:, :, None] - total.mean(axis=0)[:, None]) * (total - total.mean(axis=0))[:, None]
    assert_mean(products, SIGMA[:, None] * SIGMA * CORRELATIONS * years)
    wrong = np.linalg.cholesky(CORRELATIONS)
    assert_not_mean(products, SIGMA[:, None] * SIGMA * (wrong.T @ wrong) * years)  # the other triangle
    assert_mean(returns[:, 0] * returns[:, 1], ((MU - SIGMA**2 / 2) * dt) ** 2)  # bars are independent


def test_without_volatility_returns_are_the_drift() -> None:
    returns = GeometricBrownianMotion([0.05, 0.1], 0.0).begin(np.random.default_rng(0), {}, np.arange(3), 2, DAY)
    assert (returns == np.array([0.05, 0.1]) * DAY).all()


def test_one_asset_by_hand() -> None:
    shock = np.random.default_rng(5).standard_normal()
    (step,) = GeometricBrownianMotion(0.08, 0.2).advance(np.random.default_rng(5), {}, np.array([0]), 0.25)
    # (0.08 - 0.02) / 4 + 0.2 * 0.5 z
    assert step[0] == pytest.approx(0.015 + 0.1 * shock, abs=1e-16)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_assets_can_move_as_one(sign: float) -> None:
    model = GeometricBrownianMotion(0.02, 0.2, corr=[[1.0, sign], [sign, 1.0]])
    returns = model.begin(np.random.default_rng(0), {}, np.arange(50), 2, DAY)
    assert returns[..., 1] == pytest.approx(sign * returns[..., 0], abs=1e-15)  # 0.02 - 0.2^2 / 2 = 0


def test_the_number_of_assets_is_that_of_any_argument() -> None:
    assert GeometricBrownianMotion(0.1, 0.2).n_assets == 1
    assert GeometricBrownianMotion([0.1, 0.2], 0.2).n_assets == 2
    assert GeometricBrownianMotion(0.1, (0.2, 0.3, 0.4)).n_assets == 3
    assert GeometricBrownianMotion(0.1, 0.2, corr=np.eye(4)).n_assets == 4
    assert GeometricBrownianMotion(np.array([0.1]), 0.2, corr=0.5).n_assets == 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.nan, 0.2), ValueError, "mu is nan"),
        (("5%", 0.2), TypeError, "mu is '5%'"),
        ((0.1, -0.2), ValueError, "sigma is -0.2; expected a number of at least 0"),
        ((0.1, [0.2, -1.0]), ValueError, r"sigma\[1\] is -1.0"),
        ((0.1, True), TypeError, "sigma is True"),
        (([0.1] * 2, [0.2] * 3), ValueError, "different numbers of assets: mu 2 and sigma 3"),
        (([0.1] * 2, 0.2, np.eye(3)), ValueError, "mu 2 and corr 3"),
        ((0.1, 0.2, 1.5), ValueError, "corr is 1.5"),
        ((0.1, 0.2, [[1.0, 0.5], [0.4, 1.0]]), ValueError, "corr is not symmetric"),
        ((0.1, 0.2, [[2.0, 0.5], [0.5, 2.0]]), ValueError, r"corr\[0, 0\] is 2.0"),
        (([0.1] * 3, 0.2, -0.9), ValueError, "corr has the eigenvalue -0.8"),  # 1 + 2 * -0.9
    ],
)
def test_crooked_arguments_are_refused(arguments: Any, error: Any, message: str) -> None:
    mu, sigma, corr = (*arguments, None)[:3]
    with pytest.raises(error, match=message):
        GeometricBrownianMotion(mu, sigma, corr=corr)


def test_halving_the_bar_changes_nothing_in_law() -> None:
    model = GeometricBrownianMotion(0.1, 0.4)
    fine = model.begin(np.random.default_rng(2), {}, np.arange(100_000), 4, 0.25).sum(axis=1)
    for power in (1, 2, 4):
        normal = {1: 0.0, 2: 1.0, 4: 3.0}[power]
        assert_mean(((fine - (0.1 - 0.08)) / 0.4) ** power, normal)
    assert math.isclose(GeometricBrownianMotion(0.1, 0.4)._drift[0, 0, 0], 0.02)
