"""Trading-v0 in a simulated market against the closed forms of a geometric Brownian motion."""

from __future__ import annotations

import math

import numpy as np

from sekai.envs.finance import TradingVecEnv

MU, SIGMA, DT = 0.1, 0.3, 1 / 252
N, STEPS = 2000, 40


def growth(exposure: float, seed: int = 0) -> np.ndarray:
    """Log growth of equity over `STEPS` steps at a constant exposure without costs, `(N,)`."""
    vec = TradingVecEnv(N, mu=MU, sigma=SIGMA, positions=(exposure,), transaction_cost=0.0, episode_length=1000)
    vec.reset(seed=seed)
    return np.sum([vec.step(np.zeros(N, int)).rewards for _ in range(STEPS)], axis=0)


def test_growth_at_a_constant_exposure_has_the_mean_and_variance_of_the_closed_form() -> None:
    # one step at exposure a: ln(1 - a + a exp(r)), r normal; to second order in dt the mean is a mu - a^2 sigma^2 / 2
    for exposure in (-1.0, 0.5, 1.0, 2.0):
        total = growth(exposure)
        mean = (exposure * MU - 0.5 * exposure**2 * SIGMA**2) * STEPS * DT
        deviation = abs(exposure) * SIGMA * math.sqrt(STEPS * DT)
        assert abs(total.mean() - mean) < 4 * deviation / math.sqrt(N), exposure
        assert abs(total.std(ddof=1) / deviation - 1) < 4 / math.sqrt(2 * N) + 0.01, exposure


def test_without_the_variance_term_the_mean_would_be_off() -> None:
    deviation = 2 * SIGMA * math.sqrt(STEPS * DT)
    wrong = 2 * MU * STEPS * DT
    assert abs(growth(2.0).mean() - wrong) > 2 * deviation / math.sqrt(N)


def test_the_expected_price_grows_at_mu_and_its_log_moves_by_sigma() -> None:
    vec = TradingVecEnv(N, mu=MU, sigma=SIGMA, episode_length=1000)
    vec.reset(seed=1)
    before = vec.price
    for _ in range(STEPS):
        vec.step(np.ones(N, int))
    ratio = vec.price / before
    deviation = SIGMA * math.sqrt(STEPS * DT)
    assert abs(ratio.mean() - math.exp(MU * STEPS * DT)) < 4 * deviation / math.sqrt(N)
    assert abs(np.log(ratio).std(ddof=1) / deviation - 1) < 4 / math.sqrt(2 * N)


def test_on_a_martingale_no_rule_earns_more_than_its_costs() -> None:
    # the agent follows the last return; simple return of each step plus its cost has mean 0 within 4 standard errors
    vec = TradingVecEnv(N, mu=0.0, sigma=SIGMA, episode_length=1000)
    seen = vec.reset(seed=2).observations
    sums = np.zeros(N)
    for _ in range(STEPS):
        result = vec.step(np.where(seen[:, -2] > 0, 2, 0))
        columns = result.infos.columns
        sums += np.expm1(result.rewards) + columns["cost"][0]
        seen = result.observations
    assert abs(sums.mean()) < 4 * sums.std(ddof=1) / math.sqrt(N)
    assert sums.std() > 0.05  # and it did trade
