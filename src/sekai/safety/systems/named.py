"""Systems by name, for registry entries and command lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sekai.safety.systems.base import System
from sekai.safety.systems.double_integrator import DoubleIntegrator
from sekai.safety.systems.dubins import DubinsCar
from sekai.safety.systems.pendulum import LinearPendulum
from sekai.safety.systems.point_mass import PointMass
from sekai.safety.tasks.finance import BudgetExecution, DrawdownFloor, DrawdownPortfolio, InventoryLimit

SYSTEMS: dict[str, Callable[..., System]] = {
    "DoubleIntegrator": DoubleIntegrator,
    "LinearPendulum": LinearPendulum,
    "DubinsHighTurn": DubinsCar,
    "DubinsLowTurn": DubinsCar.low_turn,
    "PointMass": PointMass,
    "PointMassShow": PointMass.show,
    "DrawdownFloor": DrawdownFloor,
    "DrawdownPortfolio": DrawdownPortfolio,
    "InventoryLimit": InventoryLimit,
    "BudgetExecution": BudgetExecution,
}


def as_system(system: System | str, parameters: dict[str, Any]) -> System:
    """A system as it was given, or made of a name in `SYSTEMS` and parameters.

    Raises:
        TypeError: neither a system nor a name; a system together with parameters; a parameter that it does not have.
        ValueError: an unknown name, or a value out of range.
    """
    if isinstance(system, System):
        if parameters:
            raise TypeError(f"{system} was given together with {sorted(parameters)}; make it with these instead.")
        return system
    if not isinstance(system, str):
        raise TypeError(f"system is {system!r}; expected a System, or one of {', '.join(SYSTEMS)}.")
    if system not in SYSTEMS:
        raise ValueError(f"system is {system!r}; expected one of {', '.join(SYSTEMS)}.")
    return SYSTEMS[system](**parameters)
