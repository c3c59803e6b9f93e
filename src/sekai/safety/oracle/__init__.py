"""Ground truth: closed forms, value iteration on a grid, and how far a learned set is from an exact one."""

from sekai.safety.oracle.after import after_step
from sekai.safety.oracle.closed_forms import exact_area, exact_set, exact_value, sampled_value
from sekai.safety.oracle.comparison import SetComparison, compare_sets
from sekai.safety.oracle.grid import Axis, Grid
from sekai.safety.oracle.iteration import GridValue, solve

__all__ = [
    "Axis",
    "Grid",
    "GridValue",
    "SetComparison",
    "after_step",
    "compare_sets",
    "exact_area",
    "exact_set",
    "exact_value",
    "sampled_value",
    "solve",
]
