"""Baselines of Portfolio-v0: closed forms, played on the native environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.envs.finance import PortfolioEnv, PortfolioVecEnv
from sekai.finance import VecRecordPerformance, growth_rate, minimum_variance_weights, no_trade_half_width, policies

MU, SIGMA, RHO = np.array([0.04, 0.05]), np.array([0.3, 0.4]), 0.25
COVARIANCE = np.array([[0.09, 0.03], [0.03, 0.16]])  # 0.25 * 0.3 * 0.4 = 0.03
MARKET: dict[str, Any] = {"n_assets": 2, "mu": MU, "sigma": SIGMA, "corr": RHO, "lookback": 1, "transaction_cost": 0.0}


def play(make: Any, slots: int, **arguments: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Log growth of one episode a slot, and its metrics."""
    vec = VecRecordPerformance(PortfolioVecEnv(slots, autoreset="disabled", **arguments))
    policy = make(vec)
    result: Any = vec.reset(seed=3)
    while not result.dones.all():
        result = vec.step(policy.act(result.observations))
    found = [info["performance"] for info in result.infos]
    metrics = {name: np.array([each.metrics[name] for each in found]) for name in found[0].metrics}
    return np.array([np.log(each.ledger["equity"][-1]) for each in found]), metrics


def test_kelly_weights_grow_as_fast_as_the_closed_form_says() -> None:
    # Sigma^-1 mu = (0.04 * 0.16 - 0.05 * 0.03, 0.05 * 0.09 - 0.04 * 0.03) / (0.09 * 0.16 - 0.03^2)
    optimum = np.array([0.0049, 0.0033]) / 0.0135
    assert policies.Kelly(PortfolioEnv(**MARKET)).weights.tolist() == pytest.approx(optimum.tolist())
    growth, _ = play(policies.Kelly, 4000, episode_length=252, **MARKET)
    error = growth.std(ddof=1) / np.sqrt(len(growth))
    assert abs(growth.mean() - growth_rate(optimum, MU, COVARIANCE)) < 3 * error
    assert growth.std(ddof=1) == pytest.approx(np.sqrt(optimum @ COVARIANCE @ optimum), rel=0.05)
    # the same shocks: half of it, and half as much again, grow less
    for times in (0.5, 1.5):
        other, _ = play(
            lambda env, k=times: policies.FixedWeights(env, k * optimum), 4000, episode_length=252, **MARKET
        )
        lost = growth - other
        closed = growth_rate(optimum, MU, COVARIANCE) - growth_rate(times * optimum, MU, COVARIANCE)
        assert abs(lost.mean() - closed) < 3 * lost.std(ddof=1) / np.sqrt(len(lost)), times


def test_kelly_weights_that_need_borrowed_cash_are_scaled_down_and_short_ones_need_short_sales() -> None:
    rich = PortfolioEnv(n_assets=2, mu=0.3, sigma=[0.3, 0.6])  # 0.3 / 0.09 = 3.33 and 0.3 / 0.36 = 0.83
    assert policies.Kelly(rich).weights.tolist() == pytest.approx([0.8, 0.2])
    assert policies.Kelly(rich, risk_aversion=5.0).weights.tolist() == pytest.approx([2 / 3, 1 / 6])
    falling: dict[str, Any] = {"n_assets": 2, "mu": [0.03, -0.03], "sigma": 0.5}
    with pytest.raises(ValueError, match="without short sales"):
        policies.Kelly(PortfolioEnv(**falling))
    short = policies.Kelly(PortfolioEnv(allow_short=True, **falling))
    assert short.weights.tolist() == pytest.approx([0.12, -0.12])
    action = short.act({"weights": np.array([[0, 0, 1]], np.float32)})
    assert action.shape == (1, 2) and action.dtype == np.float32


def test_minimum_variance_is_calmer_than_equal_weights() -> None:
    policy = policies.MinimumVariance(PortfolioEnv(**MARKET))
    assert policy.weights.tolist() == pytest.approx(minimum_variance_weights(COVARIANCE).tolist())
    _, measured = play(policies.MinimumVariance, 200, episode_length=252, **MARKET)
    expected = np.sqrt(policy.weights @ COVARIANCE @ policy.weights)
    assert measured["volatility"].mean() == pytest.approx(expected, rel=0.02)
    _, equal = play(policies.EqualWeight, 200, episode_length=252, **MARKET)
    assert (measured["volatility"] < equal["volatility"]).mean() > 0.95


ONE: dict[str, Any] = {"n_assets": 1, "mu": 0.08, "sigma": 0.4, "lookback": 1, "transaction_cost": 0.01}


def test_a_no_trade_band_beats_daily_rebalancing_at_a_cost_of_one_percent() -> None:
    # Kelly: 0.08 / 0.16 = 0.5; half width (1.5 * 0.25 * 0.25 * 0.01)^(1/3) = 0.0979
    assert policies.NoTradeBand(PortfolioEnv(**ONE), [0.5]).half_width.tolist() == pytest.approx([0.0978716])
    band, in_band = play(lambda env: policies.NoTradeBand(env, [0.5]), 400, episode_length=504, **ONE)
    daily, rebalanced = play(lambda env: policies.FixedWeights(env, [0.5]), 400, episode_length=504, **ONE)
    gained = band - daily
    assert gained.mean() > 3 * gained.std(ddof=1) / np.sqrt(len(gained)) > 0
    assert in_band["annual_turnover"].mean() < 0.2 * rebalanced["annual_turnover"].mean()
    # twice and half the width do no better, on the same shocks
    width = no_trade_half_width(0.5, 0.01)
    for times in (0.1, 4.0):
        other, _ = play(
            lambda env, k=times: policies.NoTradeBand(env, [0.5], k * width), 400, episode_length=504, **ONE
        )
        assert other.mean() < band.mean(), times


def test_the_band_trades_to_its_edge_and_not_at_all_inside() -> None:
    env = PortfolioEnv(n_assets=2, lookback=1)
    policy = policies.NoTradeBand(env, [0.3, 0.4], [0.05, 0.1])
    held = np.array([[0.26, 0.49, 0.25], [0.2, 0.49, 0.31], [0.26, 0.7, 0.04]], np.float32)
    actions = policy.act({"weights": held})
    assert actions[0].tolist() == held[0].tolist(), "inside: what is held, to the bit"
    assert actions[1].tolist() == pytest.approx([0.25, 0.49, 0.26]) and actions[2].tolist() == pytest.approx(
        [0.26, 0.5, 0.24]
    )


def test_short_positions_that_drifted_beyond_the_cap_are_held_in_proportion() -> None:
    policy = policies.BuyAndHoldWeights(PortfolioEnv(n_assets=2, allow_short=True), [0.5, -0.5])
    drifted = {"weights": np.array([[1.2, -0.6, 0.4], [0.5, -0.25, 0.75]], np.float32)}
    assert policy.act(drifted) == pytest.approx(np.array([[2 / 3, -1 / 3], [0.5, -0.25]]))


def test_buy_and_hold_trades_once() -> None:
    # half each, x 1.5 and x 0.5, then x 2 and x 1: 0.5 * 3 + 0.5 * 0.5 = 1.75
    env = PortfolioEnv(
        [[1.0, 1.0], [1.0, 1.0], [1.5, 0.5], [3.0, 0.5]], lookback=1, episode_length=2, transaction_cost=0.0
    )
    result: Any = env.reset(seed=0)
    policy = policies.BuyAndHoldWeights(env)
    turnover = []
    while not result.done:
        result = env.step(policy.act_one(result.observation))
        turnover.append(result.info["turnover"])
    assert env.equity == pytest.approx(1.75, rel=1e-7)
    assert turnover == pytest.approx([1.0, 0.0], abs=1e-7)
