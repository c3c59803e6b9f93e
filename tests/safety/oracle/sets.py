"""Grids of the tests, and comparisons with closed forms."""

from __future__ import annotations

import math

from sekai.safety.oracle import Axis, Grid, GridValue, SetComparison, compare_sets, exact_set
from sekai.safety.systems import DoubleIntegrator, System

#: [-1.3, 1.3] x [-2.6, 2.6]
PLANE = Grid.around(DoubleIntegrator(), 101)
FINE_PLANE = Grid.around(DoubleIntegrator(), 201)


def disc(distances: int, headings: int) -> Grid:
    """Distances and headings of the car, a little beyond the rim."""
    return Grid((Axis(0.0, 1.15, distances), Axis(-math.pi, math.pi, headings, periodic=True)))


def against_truth(value: GridValue, system: System, *, level: float | None = None) -> SetComparison:
    """The set of a grid value against the closed form: `value >= 0`, or `value > level`."""
    learned = value.safe if level is None else value.values > level
    return compare_sets(learned, exact_set(system, value.grid.states))
