"""Models to test, and comparison of a sample with what theory says of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.finance.models import (
    GeometricBrownianMotion,
    Heston,
    MertonJumps,
    OrnsteinUhlenbeck,
    PriceModel,
    RegimeSwitching,
    StationaryBootstrap,
)

DAY = 1 / 252
CORRELATIONS = np.array([[1.0, 0.8, -0.5], [0.8, 1.0, -0.2], [-0.5, -0.2, 1.0]])
# 37 returns of two assets; the return of row k from its prices alone
HISTORY = np.exp(np.cumsum(np.random.default_rng(0).normal(0.0, 0.01, (38, 2)), axis=0))

MODELS: dict[str, PriceModel] = {
    "gbm": GeometricBrownianMotion(0.05, 0.2),
    "gbm of three": GeometricBrownianMotion([0.05, 0.1, 0.0], [0.2, 0.3, 0.1], corr=CORRELATIONS),
    "regimes": RegimeSwitching([0.1, -0.2], [0.1, 0.4], transition=[[0.8, 0.2], [0.3, 0.7]]),
    "regimes of three": RegimeSwitching(
        [0.1, 0.0, -0.2], np.full((3, 3), 0.2), transition=np.full((3, 3), 1 / 3), corr=[None, CORRELATIONS, 0.5]
    ),
    "jumps": MertonJumps(0.05, 0.2, intensity=100.0, jump_mean=-0.05, jump_std=0.1),
    "heston": Heston(0.05, 0.04, kappa=2.0, xi=0.6, rho=-0.7),
    "ou": OrnsteinUhlenbeck(3.0, 0.3, start=None),
    "bootstrap": StationaryBootstrap(HISTORY[:, 0], 5.0),
    "bootstrap of two": StationaryBootstrap(HISTORY, 5.0),
}


def standard_errors(values: Any, expected: Any) -> Any:
    """How many standard errors the mean down the first axis is away from what is expected."""
    array = np.asarray(values, np.float64)
    return (array.mean(axis=0) - expected) / (array.std(axis=0, ddof=1) / np.sqrt(len(array)))


def assert_mean(values: Any, expected: Any) -> None:
    """The mean down the first axis, within 4 standard errors."""
    away = standard_errors(values, expected)
    assert (np.abs(away) < 4).all(), away


def assert_not_mean(values: Any, wrong: Any) -> None:
    """Negative control: the sample is large enough to tell, more than 8 standard errors, in one entry at least."""
    assert (np.abs(standard_errors(values, wrong)) > 8).any()
