"""The tasks that come with sekai: its `safety/...` environments, and one of composed margins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sekai.safety.systems.base import System
from sekai.safety.systems.double_integrator import DoubleIntegrator
from sekai.safety.tasks.algebra import all_of
from sekai.safety.tasks.margined import with_margins
from sekai.safety.tasks.task import SafetyTask

WALLS = "safety/DoubleIntegrator-v0"


@dataclass(frozen=True)
class SpeedLimit:
    """The margin s - |v| of states `(..., 2)` of a `DoubleIntegrator`, m/s."""

    bound: float

    def __call__(self, state: Any) -> Any:
        """The margin `(...)`."""
        return self.bound - abs(state[..., 1])


def speed_limited(*, max_speed: float = 0.75, **parameters: Any) -> System:
    """A double integrator that must keep off the walls and below a speed.

    Args:
        max_speed: s, m/s.
        parameters: of `DoubleIntegrator`.
    """
    if not max_speed > 0:
        raise ValueError(f"max_speed is {max_speed}; expected a speed above 0, in m/s.")
    system = DoubleIntegrator(**parameters)
    return with_margins(system, g=all_of(system.g, SpeedLimit(max_speed)), g_max=min(system.g_max, max_speed))


def _own(id: str, description: str, *, reach: bool = False, **rest: Any) -> SafetyTask:
    """A registered environment, which has its margins, as a task of the same id."""
    return SafetyTask(id=id, make=id, g="own", l="own" if reach else None, description=description, **rest)


BUILTIN = (
    _own(WALLS, "Keep a mass between two walls."),
    _own("safety/DoubleIntegratorTouch-v0", "Touch a place between the walls, at any speed.", reach=True),
    _own("safety/DoubleIntegratorRest-v0", "Come nearly to rest at a place between the walls.", reach=True),
    _own("safety/DoubleIntegratorForce-v0", "The walls, against a bounded force.", supports_adversary=True),
    _own("safety/DoubleIntegratorDrift-v0", "The walls, against a bounded drift.", supports_adversary=True),
    SafetyTask(
        id="safety/DoubleIntegratorSpeed-v0",
        make=speed_limited,
        g="own",
        warmstart_from=WALLS,
        description="The walls and a speed limit: two margins, composed.",
    ),
    _own("safety/LinearPendulum-v0", "Keep a pendulum upright."),
    _own("safety/DubinsHighTurn-v0", "Drive a car into a disc without leaving a larger one.", reach=True),
    _own("safety/DubinsLowTurn-v0", "The same for a car that cannot turn within the disc.", reach=True),
    _own("safety/PointMass-v0", "Steer a drifting boat between boxes into another box.", reach=True),
    _own("safety/DrawdownFloor-v0", "Keep equity above a share of its peak.", supports_adversary=True),
    _own("safety/DrawdownFloorFixed-v0", "Keep equity above a share of its start.", supports_adversary=True),
    _own("safety/DrawdownPortfolio-v0", "Keep several assets above a share of their peak.", supports_adversary=True),
    _own(
        "safety/InventoryLimit-v0",
        "Make a market below a limit on inventory and above a floor.",
        supports_adversary=True,
    ),
    _own("safety/BudgetExecution-v0", "Fill an order before the deadline within a budget.", reach=True),
    _own(
        "safety/BudgetExecutionShock-v0",
        "The order with a budget, against bounded moves of the price.",
        reach=True,
        supports_adversary=True,
    ),
)
