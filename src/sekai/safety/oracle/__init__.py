"""Ground truth: closed forms, value iteration on a grid, and how far a learned set is from an exact one."""

from sekai.safety.oracle.closed_forms import exact_area, exact_set, exact_value, sampled_value

__all__ = ["exact_area", "exact_set", "exact_value", "sampled_value"]
