"""`truth_of`: what the value of a learner is measured against, for every system that ships with sekai."""

from __future__ import annotations

from functools import partial

from sekai.safety.oracle import Grid, after_step, sampled_value, solve
from sekai.safety.oracle.after import Value
from sekai.safety.systems import DoubleIntegrator, System
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

#: nodes of each axis of a grid, by the number of axes
CELLS = {2: 241, 3: 81}


def comparable(system: System) -> bool:
    """Whether sets of a system can be compared on a grid: it has two or three state numbers."""
    return system.state_size in CELLS


def truth_of(system: System, *, cells: int | None = None) -> Value:
    """The exact value of the sampled-time system, one step later; a closed form where there is one, else from a grid.

    Of `BudgetExecution` only the sign is exact: it is that of the set.

    Args:
        system: of two or three state numbers.
        cells: nodes of each axis of the grid; by default 241 for two axes and 81 for three.

    Raises:
        ValueError: a system of more numbers without a closed form: no grid is fine enough.
    """
    if isinstance(system, DoubleIntegrator) and system.target is None and system.disturbance is None:
        return after_step(partial(sampled_value, system), system)
    if isinstance(system, DrawdownFloor):
        return after_step(partial(drawdown.value, system), system)
    if isinstance(system, DrawdownPortfolio):
        return partial(portfolio.value, system)
    if isinstance(system, InventoryLimit):
        return partial(inventory.after_step, system)
    if isinstance(system, BudgetExecution):
        return partial(execution.after_step, system)
    if not comparable(system):
        raise ValueError(
            f"No exact set is known of {type(system).__name__}, and its {system.state_size} state numbers are too many "
            "or too few for a grid: certify(learner, system) needs none."
        )
    count = cells or CELLS[system.state_size]
    return solve(system, Grid.around(system, count)).after_step(system)
