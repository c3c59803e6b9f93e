"""The mean-reverting log price. Tolerance: 4 standard errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sekai.finance import OrnsteinUhlenbeck
from tests.finance.models.samples import assert_mean, assert_not_mean

KAPPA, SIGMA, PATHS = 3.0, 0.4, 100_000
VARIANCE = SIGMA**2 / (2 * KAPPA)


def gaps(model: OrnsteinUhlenbeck, bars: int, dt: float) -> Any:
    """`x` after 0, 1, ... bars, `(PATHS, bars + 1)`."""
    state, rng, slots = model.new_state(PATHS), np.random.default_rng(3), np.arange(PATHS)
    model.begin(rng, state, slots, 0, dt)
    path = [state["gap"].copy()]
    for _ in range(bars):
        returns = model.advance(rng, state, slots, dt)
        path.append(path[-1] + returns[:, 0])
        assert path[-1] == pytest.approx(state["gap"], abs=1e-12)
    return np.stack(path, axis=1)


def test_the_long_run_stays_as_it_is() -> None:
    path = gaps(OrnsteinUhlenbeck(KAPPA, SIGMA, start=None), 4, 0.2)
    assert_mean(path, 0.0)
    assert_mean(path**2, VARIANCE)
    assert_not_mean(path**2, SIGMA**2 / KAPPA)
    for lag in (1, 2, 4):
        assert_mean(path[:, lag] * path[:, 0], VARIANCE * math.exp(-KAPPA * 0.2 * lag))
    assert_not_mean(path[:, 1] * path[:, 0], VARIANCE * (1 - KAPPA * 0.2))  # Euler's step
    assert_mean(path[:, 4] ** 4, 3 * VARIANCE**2)  # normal


def test_a_gap_closes() -> None:
    start = math.log(100 / 120)
    path = gaps(OrnsteinUhlenbeck(KAPPA, SIGMA, start=start), 3, math.log(2) / KAPPA)
    assert (path[:, 0] == start).all()
    for bar in (1, 2, 3):  # a half-life each
        assert_mean(path[:, bar], start * 0.5**bar)
        assert_mean((path[:, bar] - start * 0.5**bar) ** 2, VARIANCE * (1 - 0.25**bar))


def test_without_volatility_the_way_back_is_exact() -> None:
    model = OrnsteinUhlenbeck(KAPPA, 0.0, start=math.log(100 / 120))
    prices = model.sample_path(np.random.default_rng(0), 3, math.log(2) / KAPPA)[0, :, 0]
    # ln(100 / 120), a half, a quarter, an eighth of it
    assert prices == pytest.approx([120 * (100 / 120) ** (0.5**k) for k in range(4)])


def test_by_default_the_first_price_is_the_mean() -> None:
    state = OrnsteinUhlenbeck(1.0, 0.2).new_state(3)
    OrnsteinUhlenbeck(1.0, 0.2).begin(np.random.default_rng(0), state, np.arange(3), 0, 1.0)
    assert state["gap"].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("kappa", [1e-12, 1e6])
def test_slow_and_fast_returns_keep_their_digits(kappa: float) -> None:
    (step,) = OrnsteinUhlenbeck(kappa, 0.2).advance(np.random.default_rng(5), {"gap": np.zeros(1)}, np.array([0]), 0.25)
    # slow: Brownian motion, 0.2 * 0.5 z; fast: the long run, 0.2 / sqrt(2e6) z
    spread = 0.1 if kappa < 1 else 0.2 / math.sqrt(2e6)
    assert step[0] == pytest.approx(spread * np.random.default_rng(5).standard_normal(), rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"kappa": 0.0}, ValueError, "kappa is 0.0; expected a number above 0"),
        ({"kappa": None}, TypeError, "kappa is None"),
        ({"sigma": -0.1}, ValueError, "sigma is -0.1"),
        ({"start": np.inf}, ValueError, "start is inf"),
    ],
)
def test_crooked_arguments_are_refused(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        OrnsteinUhlenbeck(**{"kappa": 1.0, "sigma": 0.2, **arguments})
