"""The pendulum, the car and the boat against their differential equations and by hand; names of systems."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sekai.safety.systems import DubinsCar, DubinsRadial, LinearPendulum, PointMass
from sekai.safety.systems.named import SYSTEMS, as_system


def test_the_pendulum_follows_its_equation() -> None:
    system = LinearPendulum(dt=0.1, rate=2.0)
    th, thd, steps = 0.2, -0.3, 20_000
    for _ in range(steps):  # midpoint rule, dt / steps each
        h = 0.1 / steps
        middle = th + h / 2 * thd, thd + h / 2 * (4 * th + 1.5)
        th, thd = th + h * middle[1], thd + h * (4 * middle[0] + 1.5)
    assert system.step(np.array([0.2, -0.3]), np.array([1.5])) == pytest.approx([th, thd], abs=1e-9)


def test_full_torque_holds_the_pendulum_at_its_balance_point() -> None:
    system = LinearPendulum()
    assert system.balance == 0.75  # 3 / 2²
    held = system.step(np.array([0.75, 0.0]), np.array([-3.0]))
    assert held == pytest.approx([0.75, 0.0])


def test_top_speed_and_failure_horizon_of_the_pendulum() -> None:
    system = LinearPendulum()
    # w sqrt(1.25² - 0.25²) = 2 sqrt(1.5); acosh(1.25 / 0.25) / 2
    assert system.top_speed == pytest.approx(2 * math.sqrt(1.5))
    assert system.failure_horizon_s == pytest.approx(math.acosh(5.0) / 2)
    # the full brake indeed takes it from limit to limit, in 100 equal steps
    state, fine = np.array([-0.5, system.top_speed]), LinearPendulum(dt=math.acosh(5.0) / 200)
    for _ in range(100):
        state = fine.step(state, np.array([-3.0]))
    assert state == pytest.approx([0.5, 0.0], abs=1e-9)
    # a / w² = 0.375 < 0.5: gravity wins before the limit, and the top speed leads to the balance point, 2 * 0.875
    weak = LinearPendulum(acceleration=1.5)
    assert weak.failure_horizon_s is None and weak.top_speed == pytest.approx(1.75)


def test_the_car_drives_an_exact_arc() -> None:
    system = DubinsCar(dt=math.pi / 2, speed=1.0, turn_radius=1.0)
    # a quarter of the unit circle from (0, 0) heading along x: to (1, 1) heading along y
    assert system.step(np.zeros(3), np.array([1.0])) == pytest.approx([1.0, 1.0, math.pi / 2])
    assert system.step(np.zeros(3), np.array([0.0])) == pytest.approx([math.pi / 2, 0.0, 0.0])
    # headings stay in [-pi, pi): 3 + pi / 2 - 2 pi
    assert system.step(np.array([0.0, 0.0, 3.0]), np.array([1.0]))[2] == pytest.approx(3 - 1.5 * math.pi)


def test_margins_and_observation_of_the_car() -> None:
    system = DubinsCar(radius=1.0, target_radius=0.5)
    state = np.array([0.3, -0.4, math.pi / 3])
    assert system.g(state) == pytest.approx(0.5) and system.l(state) == pytest.approx(0.0)
    assert system.observe(state) == pytest.approx([0.3, -0.4, 0.5, math.sqrt(0.75)])


def test_the_car_in_two_numbers_is_the_car_in_three() -> None:
    car, rng = DubinsCar.low_turn(), np.random.default_rng(0)
    radial, states, controls = car.reduced(), car.start(rng.random((200, 3))), rng.normal(size=(200, 1))
    there, here = DubinsRadial.of(car.step(states, controls)), radial.step(DubinsRadial.of(states), controls)
    assert here[:, 0] == pytest.approx(there[:, 0])
    assert np.cos(here[:, 1] - there[:, 1]) == pytest.approx(1.0)
    assert radial.g(here) == pytest.approx(car.g(car.step(states, controls)))
    assert (radial.turn_radius, radial.target_radius) == (0.75, 0.4)


def test_the_car_starts_anywhere_in_the_disc_and_nowhere_else() -> None:
    car = DubinsCar()
    states = car.start(np.random.default_rng(0).random((20_000, 3)))
    assert car.g(states).min() >= 0
    assert np.mean(car.g(states) >= 0.5) == pytest.approx(0.25, abs=0.015)  # half of the radius, a quarter of the area


def test_margins_of_the_boat() -> None:
    system = PointMass()
    states = np.array([[0.0, 0.0], [1.25, 2.0], [0.0, 9.0], [-1.9, 4.0], [0.0, 4.0]])
    # to the box edge at (.5, 1.25): max(.5, 1.25); the middle of a box; the edge 1 above; the wall; the box above
    assert system.g(states) == pytest.approx([1.25, -0.75, 1.0, 0.1, 1.25])
    # 0.75 - max(|x|, |y - 9.25|)
    assert system.l(states) == pytest.approx([-8.5, -6.5, 0.5, -4.5, -4.5])
    assert system.step(states[0], np.array([-3.0])) == pytest.approx([-0.05, 0.1])


def test_names_make_systems() -> None:
    assert as_system("DubinsLowTurn", {"dt": 0.1}) == DubinsCar.low_turn(dt=0.1)
    assert as_system("PointMassShow", {}).g_max == 3.0
    assert all(isinstance(build().state_size, int) for build in SYSTEMS.values())
    with pytest.raises(ValueError, match="system is 'Cartpole'; expected one of DoubleIntegrator, LinearPendulum"):
        as_system("Cartpole", {})
    with pytest.raises(TypeError, match=r"was given together with \['dt'\]; make it with these instead"):
        as_system(LinearPendulum(), {"dt": 0.1})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"boxes": ()}, "boxes is empty"),
        ({"arena": (0.0, 0.0, 1.0, 0.0)}, r"The rectangle \(0.0, 0.0, 1.0, 0.0\) is none"),
    ],
)
def test_rectangles_that_are_none_are_refused(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PointMass(**parameters)  # type: ignore[arg-type]  # wrong on purpose
