"""Value iteration on a grid of states: the value of any system of two or three state numbers.

With f the step of the system, anchors and backups as in `sekai.safety.backups`, and the margin of the state itself
included, the value is the limit of

    avoid        V <- (1 - gamma) g         + gamma min(g, max_u min_d V(f(s, u, d)))           from V = g
    reach-avoid  V <- (1 - gamma) min(l, g) + gamma min(g, max(l, max_u min_d V(f(s, u, d))))   from V = min(l, g)

where d answers u, and V between nodes is multilinear (a semi-Lagrangian scheme). From these starts the values only
fall (avoid) or rise (reach-avoid), so they may be renewed in place, and an order that runs along the motion saves
passes: passes go forwards and backwards in turn. Interpolation diffuses, the more so the less a step moves in cells:
keep |v| dt at half a cell or above.

Sources: Fisac et al., ICRA 2019, equation 7; Hsu et al., RSS 2021, equation 15.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.safety.arrays import namespace
from sekai.safety.oracle import kernels
from sekai.safety.oracle.after import Value, after_step, players
from sekai.safety.oracle.grid import Grid
from sekai.safety.systems.base import System

Floats = NDArray[np.float64]

MODES = ("avoid", "reach-avoid")
#: passes over the nodes that still change, after each over all
PASSES_BETWEEN = 8
END_CRITERIA = ("timeout", "failure", "reach-avoid")


@dataclass(frozen=True, eq=False)
class GridValue:
    """A value on a grid, as a function of states.

    Attributes:
        grid: the grid.
        values: at its nodes, float64 `(*grid.shape)`.
        sweeps: passes over all nodes that it took.
        change: the largest change in the last of them.
    """

    grid: Grid
    values: Floats
    sweeps: int
    change: float

    def __call__(self, states: Any) -> Any:
        """The value at states `(..., S)`, interpolated; those outside the grid count as at its edge.

        Args:
            states: array, or tensor, which gives a tensor of its dtype on its device.
        """
        xp, flat = namespace(states), self.values.ravel()
        if xp is not np:
            flat = xp.as_tensor(flat, dtype=states.dtype, device=states.device)
        return self.grid.interpolate(flat, states)

    @property
    def safe(self) -> NDArray[np.bool_]:
        """Whether the value of each node is at least 0, bool `(*grid.shape)`."""
        return self.values >= 0

    @property
    def area(self) -> float:
        """The area, or volume, of the nodes with a value of at least 0, in the units of the state."""
        return float(self.grid.cells[self.safe].sum())

    def after_step(self, system: System, **points: Any) -> Value:
        """The truth for a learner, one step later; see `after_step`."""
        return after_step(self, system, **points)


def solve(
    system: System,
    grid: Grid,
    *,
    mode: str | None = None,
    gamma: float = 1.0,
    end_criterion: str = "timeout",
    failure_value: float | None = None,
    ceiling: float | None = None,
    controls: Floats | None = None,
    disturbances: Floats | None = None,
    tolerance: float = 1e-6,
    max_sweeps: int = 20_000,
) -> GridValue:
    """The value of a system on a grid, by value iteration; see the module.

    Args:
        system: two or three state numbers; with a disturbance it is a game.
        grid: the states to compute it for; large enough to hold what failed states do next.
        mode: "avoid" or "reach-avoid"; by default reach-avoid where the system has a target.
        gamma: discount of a step, in (0, 1]. Below 1 avoid sets come out too large, and reach-avoid sets too small.
        end_criterion: "timeout": the motion goes on after failures. "failure": the episode ends where g < 0, as the
            contract of environments has it, and that state is worth its margin. "reach-avoid": it also ends inside the
            target, worth min(l, g).
        failure_value: what a failure that ends the episode is worth at most, below 0; None: its margin.
        ceiling: margins above it count as it, and so do values; below it they stay as they are, but for interpolation
            in the cells around it. Undiscounted only. What takes a game long is often the height of a plateau inside
            the set, and not the set.
        controls: those to choose from, `(K, U)`; by default 3 points a side over the system's set, in games 5.
        disturbances: those that answer, `(K, D)`; by default 3 points a side.
        tolerance: stop when no value changes by more than this in a pass.
        max_sweeps: passes over all nodes after which to give up.

    Returns:
        The value, each state's own margin included: shift it by `after_step` to compare a learner's.

    Raises:
        ValueError: arguments that do not go together.
        RuntimeError: values still change after `max_sweeps` passes.
    """
    mode = _check(system, mode, gamma, end_criterion, failure_value)
    if ceiling is not None and not (ceiling > 0 and gamma == 1):
        raise ValueError(f"ceiling is {ceiling} with gamma {gamma}; expected a number above 0, and gamma 1.")
    rules = _Rules(system, mode == "reach-avoid", end_criterion, failure_value, ceiling)
    states = grid.states.reshape(-1, len(grid.axes))
    g, target = rules.margins(states)
    anchor = np.minimum(g, target) if rules.reach else g
    ended, worth = rules.ends(states)
    values = np.where(ended, worth, anchor)
    motion = _successors(rules, grid, states, *players(system, controls, disturbances))
    operator = (anchor, g, target, float(gamma), ended)
    sweeps, change = _settle(values, operator, motion, np.array(grid.strides), not rules.reach, tolerance, max_sweeps)
    return GridValue(grid, values.reshape(grid.shape), sweeps, change)


class _Rules(NamedTuple):
    """What states are worth: margins, and where an episode ends."""

    system: System
    reach: bool
    end_criterion: str
    failure_value: float | None
    ceiling: float | None

    def margins(self, states: Floats) -> tuple[Floats, Floats]:
        """g, at most the ceiling, and l, -inf for avoid."""
        g = np.minimum(self.system.g(states), math.inf if self.ceiling is None else self.ceiling)
        return g, self.system.l(states) if self.reach else np.full_like(g, -math.inf)

    def ends(self, states: Floats) -> tuple[NDArray[np.bool_], Floats]:
        """Whether an episode ends in states, and what that is worth."""
        g, target = self.margins(states)
        worth = np.minimum(g, target) if self.reach else g
        if self.end_criterion == "timeout":
            return np.zeros(g.shape, bool), worth
        failed = g < 0
        if self.failure_value is not None:
            worth = np.where(failed, np.minimum(worth, self.failure_value), worth)
        return (failed | (target >= 0)) if self.end_criterion == "reach-avoid" else failed, worth


def _settle(
    values: Floats,
    operator: tuple[Any, ...],
    motion: tuple[NDArray[np.int32], Floats],
    strides: NDArray[np.int64],
    falling: bool,
    tolerance: float,
    max_sweeps: int,
) -> tuple[int, float]:
    """Sweep until a pass over all nodes changes none of them by more than the tolerance: number of passes, change.

    After each come a few passes over those nodes only that it still changed: mostly a small share.
    """
    everything, first = np.arange(len(values)), np.zeros(len(values), np.int64)
    restless = np.zeros(len(values), bool)

    def renew(nodes: NDArray[np.int64], backwards: bool) -> float:
        change: float = kernels.sweep.compiled(
            values, *operator, *motion, strides, falling, first, nodes, tolerance, restless, backwards
        )
        return change

    change = math.inf
    for sweep in range(max_sweeps):
        change = renew(everything, sweep % 2 == 1)
        if change <= tolerance:
            return sweep + 1, change
        nodes = np.flatnonzero(restless)
        for between in range(PASSES_BETWEEN):
            renew(nodes, (sweep + between) % 2 == 0)
    raise RuntimeError(
        f"After {max_sweeps} sweeps values still change by {change}; expected at most {tolerance}: give more sweeps, a "
        "larger tolerance, or a ceiling."
    )


def _check(system: System, mode: str | None, gamma: float, end_criterion: str, failure_value: float | None) -> str:
    if mode is None:
        mode = "reach-avoid" if system.provides_l else "avoid"
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; expected one of {', '.join(map(repr, MODES))}.")
    if mode == "reach-avoid" and not system.provides_l:
        raise ValueError(f"mode is 'reach-avoid', and {system} has no target: use 'avoid'.")
    if not 0 < gamma <= 1:
        raise ValueError(f"gamma is {gamma}; expected a number in (0, 1].")
    if end_criterion not in END_CRITERIA or (mode == "avoid" and end_criterion == "reach-avoid"):
        expected = END_CRITERIA[:2] if mode == "avoid" else END_CRITERIA
        raise ValueError(f"end_criterion is {end_criterion!r}; expected one of {', '.join(map(repr, expected))}.")
    if failure_value is not None and (end_criterion == "timeout" or not failure_value < 0):
        raise ValueError(
            f"failure_value is {failure_value} with end_criterion {end_criterion!r}; expected a number below 0, and an "
            "episode that ends at failures."
        )
    return mode


def _successors(
    rules: _Rules,
    grid: Grid,
    states: Floats,
    controls: Floats,
    disturbances: Floats | None,
) -> tuple[NDArray[np.int32], Floats]:
    """Where every control and disturbance lead from every node: cells `(M, U, D)` and places in them `(M, U, D, S)`.

    A state in which the episode ends is worth what it is worth; interpolation would carry values of states beyond the
    end into it, and the depth of a failure is all that a discounted avoid value has to see.
    """
    answers = [None] if disturbances is None else list(disturbances)
    shape = (len(states), len(controls), len(answers))
    corner, fractions = np.empty(shape, np.int32), np.empty((*shape, len(grid.axes)))
    for u, control in enumerate(controls):
        for d, answer in enumerate(answers):
            after = rules.system.step(states, control, answer)
            corner[:, u, d], fractions[:, u, d] = grid.locate(after)
            ended, worth = rules.ends(after)
            corner[ended, u, d], fractions[ended, u, d, 0] = -1, worth[ended]
    return corner, fractions
