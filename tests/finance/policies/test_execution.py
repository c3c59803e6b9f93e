"""Baselines of OptimalExecution-v0: closed forms, played on the native environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.envs.finance import OptimalExecutionEnv, OptimalExecutionVecEnv
from sekai.finance import (
    VecRecordPerformance,
    almgren_chriss_shortfall,
    expected_shortfall,
    immediate_shortfall,
    policies,
    trajectory_of,
    twap_shortfall,
)

PAPER: dict[str, Any] = {"n_steps": 5}  # the example of Almgren and Chriss; what else it needs is the default
COSTS: dict[str, Any] = {
    "total_time": 5.0,
    "permanent_impact": 2.5e-7,
    "temporary_impact": 2.5e-6,
    "fixed_cost": 0.0625,
}


def shortfalls(make: Any, slots: int, **arguments: Any) -> np.ndarray:
    """Shortfall in money of one episode a slot."""
    vec = VecRecordPerformance(OptimalExecutionVecEnv(slots, autoreset="disabled", **PAPER, **arguments))
    policy = make(vec)
    result: Any = vec.reset(seed=11)
    while not result.dones.all():
        result = vec.step(policy.act(result.observations))
        ended = np.flatnonzero(result.ended)
        if len(ended):
            assert len(ended) == slots
            found = [result.infos[i]["performance"].metrics["implementation_shortfall"] for i in ended.tolist()]
    return np.array(found)


def within_three_errors(values: np.ndarray, mean: float, variance: float) -> bool:
    n = len(values)
    close_mean = abs(values.mean() - mean) < 3 * np.sqrt(variance / n)
    return bool(close_mean and abs(values.var(ddof=1) - variance) < 3 * variance * np.sqrt(2 / (n - 1)))


def test_the_golden_fractions() -> None:
    policy = policies.AlmgrenChriss(OptimalExecutionEnv(**PAPER))
    assert policy.kappa == pytest.approx(0.6070761632, rel=1e-10)
    golden = [0.4580444456260777, 0.46516975964056617, 0.4897521653374496, 0.5798319327731092, 1.0]
    assert policy.fractions.tolist() == pytest.approx(golden, rel=1e-12)
    rows = np.array([[1, 1 - k / 5, 0] for k in range(5)], np.float32)
    assert policy.act(rows).tolist() == np.float32(golden)[:, None].tolist()


def test_almgren_chriss_costs_what_the_closed_form_says() -> None:
    found = shortfalls(policies.AlmgrenChriss, 20_000)
    closed = almgren_chriss_shortfall(1e6, 0.6070761632470627, n_steps=5, sigma=0.95, **COSTS)
    assert closed == pytest.approx((911226.9863037932, 364128572058.141), rel=1e-12)
    assert within_three_errors(found, *closed)
    twap = twap_shortfall(1e6, n_steps=5, sigma=0.95, **COSTS)
    assert not within_three_errors(found, *twap), "another schedule costs something else"
    assert within_three_errors(shortfalls(policies.TWAP, 20_000), *twap)


def test_without_noise_every_schedule_costs_its_mean_to_rounding() -> None:
    for make, mean in (
        (policies.TWAP, 662500.0),
        (policies.Immediate, 2562500.0),
        (lambda env: policies.Schedule(env, [0.5, 0.5, 0.0, 0.25, 1.0]), None),
    ):
        if mean is None:
            mean = expected_shortfall(trajectory_of([0.5, 0.5, 0.0, 0.25, 1.0], 1e6), **COSTS)
        # actions are float32: a fraction is off by up to 6e-8
        assert shortfalls(make, 2, sigma=0.0).tolist() == pytest.approx([mean] * 2, rel=1e-6)
    assert (
        immediate_shortfall(1e6, total_time=5.0, n_steps=5, temporary_impact=2.5e-6, fixed_cost=0.0625).mean == 2562500
    )


def test_a_buyer_pays_the_same_and_another_risk_aversion_another_price() -> None:
    sold = shortfalls(policies.AlmgrenChriss, 2, sigma=0.0, side="sell")
    assert shortfalls(policies.AlmgrenChriss, 2, sigma=0.0, side="buy").tolist() == pytest.approx(sold.tolist())
    env = OptimalExecutionEnv(**PAPER)
    hurried, patient = policies.AlmgrenChriss(env, 1e-5), policies.AlmgrenChriss(env, 0.0)
    assert hurried.fractions[0] > 0.75 and patient.fractions.tolist() == pytest.approx([0.2, 0.25, 1 / 3, 0.5, 1.0])
    assert policies.TWAP(env).fractions.tolist() == [0.2, 0.25, 1 / 3, 0.5, 1.0]
