"""Closed forms by hand, by area, and against rollouts of the systems they are of."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sekai.safety.oracle import exact_area, exact_set, exact_value, sampled_value
from sekai.safety.systems import DoubleIntegrator, DubinsCar, DubinsRadial, LinearPendulum, PointMass

FORCE = DoubleIntegrator(force_bound=0.5)


def counted(system: DoubleIntegrator, half: float = 1.5, top: float = 3.0, count: int = 1001) -> float:
    """The area of the exact set, by counting."""
    axes = np.linspace(-half, half, count), np.linspace(-top, top, count)
    states = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
    return float(exact_set(system, states).sum() * (2 * half / (count - 1)) * (2 * top / (count - 1)))


def test_the_double_integrator_by_hand() -> None:
    states = np.array([[0.3, 1.0], [0.3, -1.0], [-0.9, 2.0], [0.0, 0.0]])
    # braking stops at x + v|v| / 2: 0.8, -0.2 (then |x| is larger), 1.1, 0
    assert exact_value(DoubleIntegrator(), states) == pytest.approx([0.2, 0.7, -0.1, 1.0])
    # against half of the force only half of the brake is left: x + v|v|: 1.3, -0.7, 3.1, 0
    assert exact_value(FORCE, states) == pytest.approx([-0.3, 0.3, -2.1, 1.0])
    assert exact_set(FORCE, states).tolist() == [False, True, False, True]


def test_a_target_to_touch_by_hand() -> None:
    system = DoubleIntegrator(target="touch", target_position=0.5, target_radius=0.2)
    # approaching: min(r, X - max(|x|, |x_t|)) = min(.2, .5); receding at -0.8: turns at -0.4 - 0.32 = -0.72, so .2;
    # receding at -1.2: turns at -1.12; inside the target at 1.4: there already, min(l, g) = 0.1 though it will fail
    states = np.array([[-0.4, 0.8], [-0.4, -0.8], [-0.4, -1.2], [0.6, 1.4]])
    assert exact_value(system, states) == pytest.approx([0.2, 0.2, -0.12, 0.1])
    assert exact_set(system, states).tolist() == [True, True, False, True]


def test_a_target_of_rest_is_reached_from_the_whole_safe_set() -> None:
    rest = DoubleIntegrator(target="rest")
    states = np.random.default_rng(0).uniform(-2, 2, (1000, 2))
    assert np.array_equal(exact_set(rest, states), exact_set(DoubleIntegrator(), states))


@pytest.mark.parametrize(
    ("parameters", "area"),
    [
        ({}, 16 / 3),  # 16/3 X sqrt(a X)
        ({"acceleration": 2.0, "half_width": 0.5}, 8 / 3),  # 16/3 * 0.5 * sqrt(2 * 0.5)
        ({"force_bound": 0.25}, 4.6188),  # 16/3 sqrt(0.75)
        ({"force_bound": 0.5}, 3.7712),  # 16/3 sqrt(0.5)
        ({"drift_bound": 0.25}, 13 / 3),  # 16/3 - 4 * 0.25
        ({"drift_bound": 0.75}, 7 / 3),  # 16/3 - 4 * 0.75
        ({"drift_bound": 1.05}, 0.0),  # 1.05² > a X
    ],
)
def test_areas(parameters: dict[str, float], area: float) -> None:
    system = DoubleIntegrator(**parameters)  # type: ignore[arg-type]  # all of them floats
    assert exact_area(system) == pytest.approx(area, abs=1e-4)
    assert counted(system) == pytest.approx(area, abs=6e-3)


@pytest.mark.parametrize("integrator", ["euler", "zoh", "semi-implicit"])
@pytest.mark.parametrize("dt", [0.05, 0.1])
def test_the_sampled_value_is_that_of_a_braking_rollout(integrator: str, dt: float) -> None:
    system = DoubleIntegrator(dt=dt, integrator=integrator)
    states = np.random.default_rng(0).uniform((-1, -2.5), (1, 2.5), (2000, 2))
    brake, now, peak = -np.sign(states[:, 1:]), states, np.abs(states[:, 0])
    turned = np.zeros(len(states), bool)
    for _ in range(60):
        then = system.step(now, brake)
        turned |= (then[:, 0] - now[:, 0]) * brake[:, 0] > 0
        peak = np.where(turned, peak, np.maximum(peak, np.abs(then[:, 0])))
        now = then
    assert turned.all()
    assert sampled_value(system, states) == pytest.approx(1 - peak, abs=1e-12)


@pytest.mark.parametrize(
    ("integrator", "low", "high", "area"),
    [
        ("zoh", 0.0, 0.05**2 / 8, 16 / 3),  # between two samples the turn is missed by up to a dt² / 8
        # a step moves by |v| dt / 2 more, or less: over the set, 2 * integral of v dt / 2 from 0 to 2, that is 0.1
        ("euler", -0.055, 0.0, 16 / 3 - 0.1),
        ("semi-implicit", 0.0, 0.055, 16 / 3 + 0.1),
    ],
)
def test_each_integrator_has_a_truth_of_its_own(integrator: str, low: float, high: float, area: float) -> None:
    system = DoubleIntegrator(integrator=integrator)
    states = np.stack(np.meshgrid(np.linspace(-1.3, 1.3, 801), np.linspace(-2.6, 2.6, 801), indexing="ij"), -1)
    sampled, exact = sampled_value(system, states), exact_value(system, states)
    gap = (sampled - exact)[exact > -0.2]
    assert low - 1e-9 <= gap.min() <= low + 0.002 and high - 0.002 <= gap.max() <= high + 1e-9
    assert (sampled >= 0).sum() * (2.6 / 800) * (5.2 / 800) == pytest.approx(area, abs=0.003)


def test_the_pendulum_by_hand() -> None:
    system = LinearPendulum()
    # (3 - sqrt(3² - 4 thd²)) / 4 from th = 0: thd = 0.9 gives (3 - 2.4) / 4 = 0.15, thd = 1.5 is the last that turns
    states = np.array([[0.0, 0.9], [0.0, -0.9], [0.0, 1.5], [0.0, 1.6], [0.4, 0.0]])
    assert exact_value(system, states) == pytest.approx([0.35, 0.35, -0.25, -math.inf, 0.1])
    # a / w² = 0.375: at 0.4 it falls, though 0.4 < TH; at -0.4 with 0.1 rad/s back it does not
    weak = LinearPendulum(acceleration=1.5)
    assert exact_set(weak, np.array([[0.4, 0.0], [-0.4, 0.1], [-0.4, 0.0]])).tolist() == [False, True, False]


def test_the_pendulums_turning_point_is_that_of_a_rollout() -> None:
    system = LinearPendulum(dt=0.001)
    states = np.array([[-0.3, 1.0], [0.1, 0.5], [0.0, 1.2]])
    now, peak = states, states[:, 0]
    for _ in range(1000):
        now = system.step(now, np.array([-3.0]))
        peak = np.maximum(peak, now[:, 0])
    assert exact_value(system, states) == pytest.approx(0.5 - np.maximum(peak, np.abs(states[:, 0])), abs=1e-5)


def test_the_car_by_hand() -> None:
    high, low = DubinsCar().reduced(), DubinsCar.low_turn().reduced()
    # rho, psi: in the target; towards the middle; outwards near the rim; outwards at .55, sideways at .8 and .9
    states = np.array([[0.3, 0.0], [0.9, math.pi], [0.95, 0.0], [0.55, 0.0], [0.8, math.pi / 2], [0.9, 1.6]])
    # high: outwards at .55 the turn centres are .814 away, more than R - R_t = .4; sideways at .8 one is .2 away
    assert exact_set(high, states).tolist() == [True, True, False, False, True, True]
    # low: sideways the car passes the target, whose middle is .05 and .15 from the turn centre, less than R_t - r = .35
    assert exact_set(low, states).tolist() == [True, True, False, False, False, False]
    there = np.array([0.0, -0.9, math.pi / 2])  # below the middle, heading for it
    assert exact_set(DubinsCar(), there) and DubinsRadial.of(there) == pytest.approx([0.9, -math.pi])


def test_the_boat_by_hand() -> None:
    # through the gap from 1.25 below it: |x| <= .5 + 1.25 / 2 = 1.125; below the middle box |x| + (5.25 - y) / 2 is .75
    # or more; past it the target: |x| <= .75 + (10 - y) / 2
    states = np.array([[1.12, 0.0], [1.13, 0.0], [0.0, 3.7], [0.0, 3.8], [1.2, 9.0], [1.3, 9.0], [0.0, 6.0]])
    assert exact_set(PointMass(), states).tolist() == [True, False, True, False, True, False, False]


def test_what_is_not_known_is_refused() -> None:
    states = np.zeros((1, 2))
    for system in (DoubleIntegrator(drift_bound=0.1), DoubleIntegrator(target="rest")):
        with pytest.raises(ValueError, match="Only the set of"):
            exact_value(system, states)
        with pytest.raises(ValueError, match="No sampled-time value is known"):
            sampled_value(system, states)
    with pytest.raises(ValueError, match="expected less than the acceleration"):
        exact_set(DoubleIntegrator(force_bound=1.0), states)
    with pytest.raises(ValueError, match="has a drift and a target"):
        exact_set(DoubleIntegrator(drift_bound=0.1, target="touch"), states)
    with pytest.raises(ValueError, match="expected one between the walls"):
        exact_set(DoubleIntegrator(target="rest", target_position=1.5), states)
    with pytest.raises(ValueError, match="only for the default arena"):
        exact_set(PointMass.show(), states)
    with pytest.raises(ValueError, match="No closed form of the value"):
        exact_value(PointMass(), states)
    for other in (PointMass(), DoubleIntegrator(target="touch")):
        with pytest.raises(ValueError, match="count the cells of exact_set"):
            exact_area(other)


def test_tensors_give_the_same_answers() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    cases = [DoubleIntegrator(), FORCE, DoubleIntegrator(target="touch"), DoubleIntegrator(drift_bound=0.3)]
    for system in (*cases, LinearPendulum(), DubinsCar(), DubinsCar.low_turn().reduced(), PointMass()):
        states = system.start(rng.random((500, system.state_size)))
        assert np.array_equal(exact_set(system, torch.from_numpy(states)).numpy(), exact_set(system, states))
    states = rng.uniform(-2, 2, (500, 2))
    for truth, system in ((exact_value, cases[0]), (exact_value, LinearPendulum()), (sampled_value, cases[0])):
        assert np.allclose(truth(system, torch.from_numpy(states)).numpy(), truth(system, states), atol=1e-12)
