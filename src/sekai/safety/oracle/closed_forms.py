"""Ground truth in closed form: of every system its set, and its value and area where they are known.

These are truths of continuous time (of steps for the tasks of finance, which know no time between them); values
include the margin of the state itself. What a learner learns is the truth of sampled time, one step later: see
`after_step`.
"""

from __future__ import annotations

from typing import Any

from sekai.safety.oracle import double_integrator, dubins, pendulum, point_mass
from sekai.safety.oracle.double_integrator import sampled_value
from sekai.safety.systems import DoubleIntegrator, DubinsCar, DubinsRadial, LinearPendulum, PointMass, System
from sekai.safety.tasks.finance import (
    BudgetExecution,
    DrawdownFloor,
    DrawdownPortfolio,
    InventoryLimit,
    drawdown,
    execution,
    inventory,
    portfolio,
)

__all__ = ["exact_area", "exact_set", "exact_value", "sampled_value"]


def exact_value(system: System, state: Any) -> Any:
    """The value `(...)` of states `(..., S)` in continuous time, undiscounted.

    Raises:
        ValueError: none is known for this system.
    """
    if isinstance(system, DoubleIntegrator):
        return double_integrator.value(system, state)
    if isinstance(system, LinearPendulum):
        return pendulum.value(system, state)
    if isinstance(system, DrawdownFloor):
        return drawdown.value(system, state)
    if isinstance(system, DrawdownPortfolio):
        return portfolio.value(system, state)
    if isinstance(system, InventoryLimit):
        return inventory.value(system, state)
    raise ValueError(f"No closed form of the value is known for {system}: use exact_set or solve.")


def exact_set(system: System, state: Any) -> Any:
    """Whether states `(..., S)` are safe forever, or reach the target without failing before; bool `(...)`.

    Raises:
        ValueError: no closed form is known for this system.
    """
    if isinstance(system, DoubleIntegrator):
        return double_integrator.contains(system, state)
    if isinstance(system, LinearPendulum):
        return pendulum.contains(system, state)
    if isinstance(system, (DubinsCar, DubinsRadial)):
        return dubins.contains(system, state)
    if isinstance(system, PointMass):
        return point_mass.contains(system, state)
    if isinstance(system, DrawdownFloor):
        return drawdown.value(system, state) >= 0
    if isinstance(system, DrawdownPortfolio):
        return portfolio.value(system, state) >= 0
    if isinstance(system, InventoryLimit):
        return inventory.value(system, state) >= 0
    if isinstance(system, BudgetExecution):
        return execution.contains(system, state)
    raise ValueError(f"No closed form is known for {system}: use solve.")


def exact_area(system: System) -> float:
    """The area of `exact_set`, in the units of the state.

    Raises:
        ValueError: none is known for this system.
    """
    if isinstance(system, DoubleIntegrator):
        return double_integrator.area(system)
    raise ValueError(f"No closed form of the area is known for {system}: count the cells of exact_set.")
