"""One step of the double integrator by hand, for each integrator and disturbance."""

from __future__ import annotations

import numpy as np
import pytest

from sekai.safety.systems import DoubleIntegrator

STATE = np.array([0.2, 0.5])


@pytest.mark.parametrize(
    ("integrator", "x"),
    [
        ("euler", 0.25),  # 0.2 + 0.5 * 0.1: the old speed
        ("zoh", 0.246),  # 0.2 + 0.5 * 0.1 - 0.8 * 0.1² / 2
        ("semi-implicit", 0.242),  # 0.2 + (0.5 - 0.8 * 0.1) * 0.1: the new speed
    ],
)
def test_a_step_of_each_integrator(integrator: str, x: float) -> None:
    system = DoubleIntegrator(dt=0.1, integrator=integrator)
    after = system.step(STATE, np.array([-0.8]))
    assert after == pytest.approx([x, 0.42])  # v = 0.5 - 0.8 * 0.1
    assert system.g(after) == pytest.approx(1 - x)


def test_a_force_adds_to_the_control_and_a_drift_to_the_speed() -> None:
    force, drift = DoubleIntegrator(dt=0.1, force_bound=0.3), DoubleIntegrator(dt=0.1, drift_bound=0.3)
    # v = 0.5 + (-0.8 + 0.3) * 0.1 = 0.45, x = 0.2 + 0.05 - 0.5 * 0.01 / 2
    assert force.step(STATE, np.array([-0.8]), np.array([0.3])) == pytest.approx([0.2475, 0.45])
    # v = 0.42 as without; x = 0.246 + 0.3 * 0.1
    assert drift.step(STATE, np.array([-0.8]), np.array([0.3])) == pytest.approx([0.276, 0.42])


def test_controls_and_disturbances_are_projected_into_their_sets() -> None:
    system = DoubleIntegrator(force_bound=0.3)
    beyond = system.step(STATE, np.array([7.0]), np.array([-7.0]))
    assert np.array_equal(beyond, system.step(STATE, np.array([1.0]), np.array([-0.3])))


def test_targets_of_touch_and_rest() -> None:
    touch, rest = (
        DoubleIntegrator(target=name, target_position=0.5, target_radius=0.2, target_speed=0.1)
        for name in ("touch", "rest")
    )
    states = np.array([[0.6, 0.05], [0.6, -0.3], [0.0, 0.0]])
    # r - |x - x_t|: 0.2 - 0.1, 0.2 - 0.1, 0.2 - 0.5
    assert touch.l(states) == pytest.approx([0.1, 0.1, -0.3])
    # and at most s - |v|: 0.1 - 0.05, 0.1 - 0.3, 0.1
    assert rest.l(states) == pytest.approx([0.05, -0.2, -0.3])
    assert touch.provides_l and rest.provides_l


def test_an_avoid_system_has_no_l() -> None:
    system = DoubleIntegrator()
    assert not system.provides_l
    with pytest.raises(ValueError, match="it has no target, and no l"):
        system.l(STATE)


def test_a_disturbance_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="was given a disturbance and has none"):
        DoubleIntegrator().step(STATE, np.array([0.0]), np.array([0.0]))


def test_top_speed_and_failure_horizon_are_those_of_braking_from_wall_to_wall() -> None:
    system = DoubleIntegrator(acceleration=2.0, half_width=0.5)
    # v² = 2 * 2 * (2 * 0.5) = 4; v / a = 2 / 2 = 1 s
    assert system.top_speed == pytest.approx(2.0) and system.failure_horizon_s == pytest.approx(1.0)
    # against a force of 0.5 braking has 1.5: sqrt(2 * 1.5 * 1) / 1.5 = 1.1547 s
    pushed = DoubleIntegrator(acceleration=2.0, half_width=0.5, force_bound=0.5)
    assert pushed.failure_horizon_s == pytest.approx(1.1547, abs=1e-4)
    assert DoubleIntegrator(drift_bound=0.1).failure_horizon_s is None


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"dt": 0.0}, "dt is 0.0; expected a finite number above 0."),
        ({"dt": np.inf}, "dt is inf; expected a finite number above 0."),
        ({"time_limit": 0}, "time_limit is 0; expected an int of at least 1."),
        ({"integrator": "rk4"}, "integrator is 'rk4'; expected one of 'euler', 'zoh', 'semi-implicit'."),
        ({"target": "hit"}, "target is 'hit'; expected one of None, 'touch', 'rest'."),
        ({"force_bound": -0.1}, "force_bound is -0.1; expected a finite number, at least 0."),
        (
            {"force_bound": 0.1, "drift_bound": 0.2},
            "force_bound is 0.1 and drift_bound 0.2; expected one of them to be 0.",
        ),
    ],
)
def test_parameters_out_of_range_are_refused(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        DoubleIntegrator(**parameters)  # type: ignore[arg-type]  # wrong on purpose
    assert str(caught.value) == message
