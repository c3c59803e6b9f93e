"""What discounting and the end of an episode do to sets: sizes that are known, and directions that always hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sekai.safety.oracle import Axis, Grid, SetComparison, compare_sets, exact_set, solve
from sekai.safety.systems import DoubleIntegrator, DubinsCar, PointMass
from tests.safety.oracle.sets import FINE_PLANE, disc

#: speeds up to those that nobody can brake
FAST = Grid((Axis(-1.3, 1.3, 301), Axis(-3.9, 3.9, 301)))


@dataclass(frozen=True, kw_only=True)
class Braking(DoubleIntegrator):
    """Nothing to choose: the force that brings the speed to 0, or as near as it can."""

    def step(self, state: Any, control: Any, disturbance: Any = None) -> Any:
        return super().step(state, -state[..., 1:] / self.dt)


def between_the_walls(system: DoubleIntegrator, grid: Grid, **arguments: Any) -> SetComparison:
    inside = np.abs(grid.states[..., 0]) <= 1
    return compare_sets(solve(system, grid, **arguments).safe & inside, exact_set(system, grid.states))


@pytest.mark.parametrize(
    ("gamma", "false_safe"), [(0.9999, 0.0001), (0.999, 0.0041), (0.995, 0.0216), (0.99, 0.0454), (0.95, 0.482)]
)
def test_discounted_avoid_sets_are_too_large(gamma: float, false_safe: float) -> None:
    found = between_the_walls(DoubleIntegrator(), FINE_PLANE, gamma=gamma)
    assert found.false_safe == pytest.approx(false_safe, abs=0.002) and found.missed <= 2e-4


@pytest.mark.parametrize(("gamma", "missed"), [(0.9999, 0.0003), (0.999, 0.004), (0.99, 0.140), (0.95, 0.437)])
def test_discounted_reach_avoid_sets_are_too_small(gamma: float, missed: float) -> None:
    found = between_the_walls(DoubleIntegrator(target="touch"), FINE_PLANE, gamma=gamma)
    assert found.missed == pytest.approx(missed, abs=0.002) and found.false_safe == 0


@pytest.mark.parametrize(
    ("dt", "gamma", "floor", "false_safe"),
    [
        (0.05, 0.95, None, 1.52),
        (0.05, 0.99, None, 0.80),
        (0.05, 0.9999, None, 0.01),
        (0.02, 0.99, None, 1.51),
        (0.05, 0.99, -0.1, 0.18),
        (0.05, 0.995, -0.1, 0.0),
        (0.02, 0.99, -0.1, 0.96),
        (0.02, 0.995, -0.1, 0.33),
        (0.05, 0.99, -1.0, 0.0),
    ],
)
def test_episodes_that_end_at_failures_call_braking_safe(
    dt: float, gamma: float, floor: float | None, false_safe: float
) -> None:
    """The value of full braking, under which a failure is only |v| dt deep."""
    found = between_the_walls(
        Braking(dt=dt), FAST, gamma=gamma, end_criterion="failure", failure_value=floor, controls=np.zeros((1, 1))
    )
    assert found.false_safe == pytest.approx(false_safe, abs=0.06)  # the grid blurs by about a cell


def test_the_best_control_makes_failures_shallower_still() -> None:
    """A doomed episode can choose where it ends: its value is above that of braking, and only the floor helps."""
    arguments: dict[str, Any] = {"end_criterion": "failure"}
    for gamma, least in ((0.9, 1.6), (0.99, 1.2), (0.999, 0.6)):  # braking: 1.67, .81, .13
        assert between_the_walls(DoubleIntegrator(), FAST, gamma=gamma, **arguments).false_safe > least
    arguments["gamma"] = 0.99
    floors = [between_the_walls(DoubleIntegrator(), FAST, failure_value=floor, **arguments) for floor in (-0.1, -0.5)]
    assert floors[0].false_safe == pytest.approx(0.19, abs=0.02)
    # -c with c >= (gamma ** -T - 1) g_max and T = 40 steps: .99 ** -40 - 1 = .495
    assert floors[1].false_safe == 0 and floors[1].missed < 0.03


@pytest.mark.parametrize(
    ("system", "shares"),
    [(DubinsCar(), (0.9906, 0.8057, 0.4455)), (DubinsCar.low_turn(), (0.9947, 0.9302, 0.4598))],
    ids=["high turn", "low turn"],
)
def test_the_car_by_discount(system: DubinsCar, shares: tuple[float, ...]) -> None:
    """Shares of the undiscounted volume for gamma .999, .99, .9; positions at rho have an area in proportion to rho."""
    car, grid = system.reduced(), disc(161, 181)
    weights = grid.cells * grid.states[..., 0]
    whole = weights[exact_set(car, grid.states)].sum()
    for gamma, share in zip((0.999, 0.99, 0.9), shares, strict=True):
        found = weights[solve(car, grid, gamma=gamma, tolerance=1e-5).safe].sum() / whole
        assert found == pytest.approx(share, abs=0.006)


def test_the_boat_by_discount() -> None:
    """Shares of the undiscounted area at dt = .05, on a grid whose steps lead from node to node."""
    system, gammas = PointMass(), (1.0, 0.9999, 0.999, 0.995, 0.99, 0.95, 0.9)
    grid = Grid.around(system, (81, 121), margin=0.0)
    areas = [(solve(system, grid, gamma=gamma).values > 1e-6).sum() for gamma in gammas]
    shares = [float(area / areas[0]) for area in areas[1:]]
    assert shares == pytest.approx([1.0, 0.856, 0.506, 0.389, 0.185, 0.131], abs=0.001)
