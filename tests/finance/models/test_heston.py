"""Heston: the variance is exact, the price but for the trapezoid. Tolerance: 4 standard errors."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest

from sekai.finance import Heston
from tests.finance.models.samples import assert_mean, assert_not_mean

PATHS = 100_000
THETA, KAPPA, XI, RHO, V0 = 0.04, 1.5, 0.6, -0.7, 0.09  # 2 kappa theta < xi^2: the variance touches 0


def growth_error(kappa: float, xi: float, rho: float, v0: float, dt: float, theta: float = THETA) -> float:
    """Relative error of `E[S_1]`, without simulation.

    Given `v` and `v'` the return is normal, so one bar multiplies `E` by `exp(const + b v + a v')`; the noncentral
    chi-square turns `exp(s v')` into `(1 - 2 c s)^(-d / 2) exp(s v e^(-kappa dt) / (1 - 2 c s))`. Backwards from the
    last bar that is a recursion of the exponent `const + u v`. Without error it would end at `mu`.
    """
    c, d, kept = xi**2 * -math.expm1(-kappa * dt) / (4 * kappa), 4 * kappa * theta / xi**2, math.exp(-kappa * dt)
    a = rho / xi * (1 + kappa * dt / 2) - rho**2 * dt / 4  # -dt / 4 + (1 - rho^2) dt / 4 = -rho^2 dt / 4
    b = rho / xi * (-1 + kappa * dt / 2) - rho**2 * dt / 4
    const = u = 0.0
    for _ in range(round(1 / dt)):
        s = a + u
        const += -rho * kappa * theta * dt / xi - d / 2 * math.log(1 - 2 * c * s)
        u = b + s * kept / (1 - 2 * c * s)
    return math.expm1(const + u * v0)


def test_the_table_of_errors_is_that_of_the_docstring() -> None:
    lines = (inspect.getdoc(Heston) or "").splitlines()
    top = next(number for number, line in enumerate(lines) if line.split()[:1] == ["kappa"])
    rows = [list(map(float, line.split())) for line in lines[top + 1 : top + 9]]
    for kappa, xi, rho, v0, *errors in rows:
        exact = [growth_error(kappa, xi, rho, v0, dt) for dt in (1 / 252, 1 / 52, 1 / 12, 1 / 4)]
        assert errors == [float(f"{error:.0e}") for error in exact]
    # second order: a third of the bar is a ninth of the error
    assert growth_error(1.5, 0.6, -0.7, V0, 1 / 36) == pytest.approx(
        growth_error(1.5, 0.6, -0.7, V0, 1 / 12) / 9, rel=0.05
    )


def start(model: Heston, bars: int, dt: float, seed: int = 9) -> tuple[Any, Any]:
    state = model.new_state(PATHS)
    returns = model.begin(np.random.default_rng(seed), state, np.arange(PATHS), bars, dt)
    return state["variance"], returns[..., 0]


@pytest.mark.parametrize("bars", [1, 6])
def test_moments_of_the_variance_at_any_length_of_a_bar(bars: int) -> None:
    t = 0.5
    variance, _ = start(Heston(0.08, THETA, kappa=KAPPA, xi=XI, rho=RHO, v0=V0), bars, t / bars)
    kept = math.exp(-KAPPA * t)
    mean = THETA + (V0 - THETA) * kept
    square = V0 * XI**2 / KAPPA * (kept - kept**2) + THETA * XI**2 / (2 * KAPPA) * (1 - kept) ** 2
    assert (variance >= 0).all()
    assert_mean(variance, mean)
    assert_mean((variance - mean) ** 2, square)
    assert_not_mean(variance, THETA + (V0 - THETA) * (1 - KAPPA * t))  # Euler's mean
    # noise of the size at theta throughout
    assert_not_mean((variance - mean) ** 2, THETA * XI**2 / (2 * KAPPA) * (1 - kept**2))


def test_by_default_the_variance_is_stationary() -> None:
    model = Heston(0.08, THETA, kappa=KAPPA, xi=XI, rho=RHO)
    long_run = THETA * XI**2 / (2 * KAPPA)
    for bars in (0, 1, 3):
        variance, _ = start(model, bars, 0.3)
        assert_mean(variance, THETA)
        assert_mean((variance - THETA) ** 2, long_run)
        # gamma: skewness 2 / sqrt(shape), shape = theta^2 / variance
        assert_mean((variance - THETA) ** 3, 2 * long_run**2 / THETA)


@pytest.mark.parametrize("rho", [-0.7, 0.0, 1.0])
def test_the_price_grows_at_mu(rho: float) -> None:
    model = Heston(0.08, THETA, kappa=KAPPA, xi=XI, rho=rho, v0=V0)
    variance, returns = start(model, 52, 1 / 52)
    total = returns.sum(axis=1)
    assert abs(growth_error(KAPPA, XI, rho, V0, 1 / 52)) < 1e-4  # far below what the sample can tell
    assert_mean(np.exp(total), math.exp(0.08))
    mean_variance = THETA + (V0 - THETA) * -math.expm1(-KAPPA) / KAPPA
    assert_mean(total, 0.08 - mean_variance / 2)
    assert_not_mean(total, 0.08 - V0 / 2)
    # covariance of a return with the variance after it, from v0 over a short bar: rho xi v0 dt
    first, short = start(model, 1, 1e-3)
    assert_mean((short[:, 0] - (0.08 - V0 / 2) * 1e-3) * (first - V0) / 1e-3, rho * XI * V0)
    assert variance.shape == (PATHS,)


def test_the_error_of_a_long_bar_is_the_one_computed() -> None:
    # one bar of a year, from v0 = 0.09 with a fast return: -10 % by the recursion, and by simulation
    error = growth_error(5.0, 0.5, -0.7, V0, 1.0)
    assert error == pytest.approx(-0.105, abs=5e-4)
    _, returns = start(Heston(0.0, THETA, kappa=5.0, xi=0.5, rho=-0.7, v0=V0), 1, 1.0)
    assert_mean(np.exp(returns[:, 0]), 1 + error)
    assert_not_mean(np.exp(returns[:, 0]), 1.0)


def test_a_calm_variance_is_a_geometric_brownian_motion() -> None:
    model = Heston(0.08, THETA, kappa=1.0, xi=1e-6, rho=-0.7, v0=THETA)
    variance, returns = start(model, 4, 0.25)
    assert variance == pytest.approx(THETA, rel=1e-4)
    assert_mean(returns, (0.08 - 0.02) / 4)
    assert_mean((returns - 0.015) ** 2, 0.01)


def test_a_variance_of_zero_moves_on() -> None:
    # xi large: the variance is almost always 0 to the last bit, and comes back
    model = Heston(0.0, THETA, kappa=0.5, xi=20.0, rho=-0.5, v0=0.0)
    variance, returns = start(model, 30, 1 / 252)
    assert np.isfinite(returns).all() and (variance >= 0).all() and (variance < 1e-300).any() and (variance > 0).any()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"mu": np.nan}, ValueError, "mu is nan"),
        ({"theta": 0.0}, ValueError, "theta is 0.0; expected a number above 0"),
        ({"kappa": -1.0}, ValueError, "kappa is -1.0"),
        ({"xi": 0.0}, ValueError, "xi is 0.0"),
        ({"xi": 1e-200}, ValueError, "xi is 1e-200; expected at least 1e-6 of 2 sqrt"),
        ({"rho": -1.01}, ValueError, r"rho is -1.01; expected a correlation in \[-1, 1\]"),
        ({"v0": -0.01}, ValueError, "v0 is -0.01"),
    ],
)
def test_crooked_arguments_are_refused(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        Heston(**{"mu": 0.1, "theta": 0.04, "kappa": 1.0, "xi": 0.3, "rho": -0.5, **arguments})
