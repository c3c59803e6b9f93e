"""Regimes: the chain, and the returns in each of its states. Tolerance: 4 standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.finance import GeometricBrownianMotion, RegimeSwitching
from tests.finance.models.samples import CORRELATIONS, assert_mean, assert_not_mean

P = np.array([[0.9, 0.1], [0.4, 0.6]])
MU, SIGMA, DT = np.array([0.3, -0.9]), np.array([0.2, 0.7]), 0.25
PI = np.array([0.8, 0.2])  # pi_1 = (1 - 0.6) / (2 - 0.9 - 0.6)
CALM_OR_NOT = RegimeSwitching(MU, SIGMA, transition=P)
PATHS = 100_000


def paths(model: RegimeSwitching, bars: int, slots: int = PATHS) -> tuple[Any, Any]:
    """Regimes `(slots, bars + 1)` and returns `(slots, bars, n_assets)`."""
    state, rng, every = model.new_state(slots), np.random.default_rng(4), np.arange(slots)
    model.begin(rng, state, every, 0, DT)
    regimes, returns = [state["regime"].copy()], []
    for _ in range(bars):
        returns.append(model.advance(rng, state, every, DT))
        regimes.append(state["regime"].copy())
    return np.stack(regimes, axis=1), np.stack(returns, axis=1)


def test_the_stationary_distribution_by_hand() -> None:
    assert CALM_OR_NOT.stationary == pytest.approx(PI, abs=1e-15)
    assert np.allclose(PI @ P, PI, rtol=0, atol=1e-15)
    # a cycle with waiting: time in each in proportion to its mean stay, 2 : 4 : 1
    cycle = [[0.5, 0.5, 0.0], [0.0, 0.75, 0.25], [1.0, 0.0, 0.0]]
    assert RegimeSwitching([0.0] * 3, [0.1] * 3, transition=cycle).stationary == pytest.approx(np.array([2, 4, 1]) / 7)
    # a period of two has one as well
    assert RegimeSwitching([0.0] * 2, [0.1] * 2, transition=[[0, 1], [1, 0]]).stationary.tolist() == [0.5, 0.5]
    # and a regime that is left for good is in it with probability 0, exactly
    assert RegimeSwitching([0.0] * 2, [0.1] * 2, transition=[[0.5, 0.5], [0, 1]]).stationary.tolist() == [0.0, 1.0]


def test_the_chain_is_stationary_and_moves_by_its_rows() -> None:
    regimes, _ = paths(CALM_OR_NOT, 6)
    assert_mean(regimes == 1, PI[1])  # at every bar, the start included
    for k in (0, 1):
        assert_mean(regimes[regimes[:, 3] == k, 4] == 1, P[k, 1])
        assert_mean(regimes[regimes[:, 3] == k, 6] == 1, (P @ P @ P)[k, 1])
    assert_not_mean(regimes[regimes[:, 3] == 0, 4] == 1, P[1, 0])  # columns instead of rows


def test_mean_durations() -> None:
    regimes, _ = paths(CALM_OR_NOT, 2000, slots=50)
    for k, duration in ((0, 10.0), (1, 2.5)):  # 1 / 0.1, 1 / 0.4
        stays = []
        for path in (regimes == k).astype(int):
            begin, end = np.flatnonzero(np.diff(path) == 1), np.flatnonzero(np.diff(path) == -1)
            stays += (end[end > begin[0]] - begin[: len(end[end > begin[0]])]).tolist()
        assert_mean(stays, duration)


def test_moments_of_returns() -> None:
    regimes, returns = paths(CALM_OR_NOT, 2)
    m, s = (MU - SIGMA**2 / 2) * DT, SIGMA * np.sqrt(DT)
    mean = PI @ m
    variance = PI @ (s**2 + m**2) - mean**2
    assert_mean(returns[..., 0], mean)
    assert_mean((returns[..., 0] - mean) ** 2, variance)
    assert_not_mean((returns[..., 0] - mean) ** 2, PI @ s**2)  # forgetting that the means differ
    # next to each other: sum over i, j of pi_i m_i P_ij m_j, less the mean squared
    assert_mean((returns[:, 0, 0] - mean) * (returns[:, 1, 0] - mean), (PI * m) @ P @ m - mean**2)
    for k in (0, 1):  # the regime after the bar is the one that made its return
        own, before = returns[regimes[:, 1] == k, 0, 0], returns[regimes[:, 0] == k, 0, 0]
        assert_mean(own, m[k])
        assert_mean((own - m[k]) ** 2, s[k] ** 2)
        assert_not_mean(before, m[k])
        assert_mean(np.exp(own), np.exp(MU[k] * DT))


def test_each_regime_has_its_correlations() -> None:
    model = RegimeSwitching([0.0, 0.1], [[0.2, 0.3, 0.4], [0.5, 0.6, 0.7]], transition=P, corr=[0.25, CORRELATIONS])
    regimes, returns = paths(model, 1)
    for k, corr in ((0, np.full((3, 3), 0.25) + 0.75 * np.eye(3)), (1, CORRELATIONS)):
        sigma = np.array(model.sigma)[k]
        own = returns[regimes[:, 1] == k, 0] - (0.1 * k - sigma**2 / 2) * DT
        assert_mean(own[:, :, None] * own[:, None], sigma[:, None] * sigma * corr * DT)


def test_one_regime_is_a_geometric_brownian_motion() -> None:
    model = RegimeSwitching([[0.05, 0.1]], [[0.2, 0.3]], transition=[[1.0]], corr=0.5)
    plain = GeometricBrownianMotion([0.05, 0.1], [0.2, 0.3], corr=0.5)
    shocks = np.random.default_rng(8).standard_normal((4, 3))

    class Given(np.random.Generator):
        def standard_normal(self, shape: Any) -> Any:
            return shocks[:, : shape[1]].reshape(shape)

    state = model.new_state(4)
    regimes = model.advance(Given(np.random.PCG64()), state, np.arange(4), DT)
    shocks = shocks[:, 1:]  # the first one moved the chain
    assert np.array_equal(regimes, plain.advance(Given(np.random.PCG64()), {}, np.arange(4), DT))
    assert state["regime"].tolist() == [0, 0, 0, 0]


def test_a_matrix_written_as_a_list_holds_for_all_regimes() -> None:
    both = {"mu": np.zeros((2, 2)), "sigma": np.full((2, 2), 0.2), "transition": P}
    one, each = RegimeSwitching(**both, corr=[[1, 0.5], [0.5, 1]]), RegimeSwitching(**both, corr=[0.5, 0.5])
    array = RegimeSwitching(**both, corr=np.array([[[1, 0.5], [0.5, 1]]] * 2))
    assert np.array_equal(one._loading, each._loading) and np.array_equal(one._loading, array._loading)
    assert one._loading[1, 0] == pytest.approx(0.1)  # 0.2 * 0.5 in both


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"transition": [[0.9, 0.2], [0.4, 0.6]]}, ValueError, r"transition\[0\] adds up to 1.1"),
        ({"transition": [[1.1, -0.1], [0.4, 0.6]]}, ValueError, "transition has -0.1"),
        ({"transition": [[0.9, 0.1]]}, ValueError, r"transition has shape \(1, 2\); expected \(R, R\)"),
        ({"transition": np.eye(2)}, ValueError, "more than one stationary distribution"),
        ({"transition": [[np.nan, 1], [0.4, 0.6]]}, ValueError, r"transition\[0, 0\] is nan"),
        ({"mu": [0.1, 0.2, 0.3]}, ValueError, r"mu has shape \(3,\); expected \(2,\) or \(2, n_assets\)"),
        ({"mu": 0.1}, ValueError, r"mu has shape \(\)"),
        ({"sigma": [0.1, -0.2]}, ValueError, "sigma has -0.2"),
        ({"mu": np.zeros((2, 2)), "sigma": np.ones((2, 3))}, ValueError, "mu has 2 assets and sigma 3"),
        ({"corr": [0.1, 0.2, 0.3]}, ValueError, "corr has 3 entries; expected 2, one for each regime"),
        ({"corr": [0.1, 2.0]}, ValueError, r"corr\[1\] is 2.0"),
        ({"corr": np.eye(3)}, ValueError, r"corr has shape \(3, 3\); expected \(1, 1\)"),
    ],
)
def test_crooked_arguments_are_refused(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        RegimeSwitching(**{"mu": MU, "sigma": SIGMA, "transition": P, **arguments})
