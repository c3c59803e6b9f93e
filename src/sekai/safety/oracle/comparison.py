"""How far a learned set is from an exact one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class SetComparison(NamedTuple):
    """Shares of areas.

    Attributes:
        iou: intersection over union, 1 where the sets are the same.
        false_safe: area wrongly called safe over the area of the exact set; it may be above 1.
        missed: area of the exact set that is not in the learned one, over the area of the exact set.
    """

    iou: float
    false_safe: float
    missed: float


def compare_sets(learned: Any, exact: Any, *, weights: NDArray[np.float64] | None = None) -> SetComparison:
    """Compare two sets on the same states.

    Args:
        learned: bool, any shape: membership of each state in the learned set, as `value >= 0` gives it.
        exact: bool, the same shape: membership in the exact set.
        weights: area that each state stands for, such as `Grid.cells`; by default every state counts the same.

    Raises:
        TypeError: no bools.
        ValueError: different shapes, or an exact set without a state, of which nothing is a share.
    """
    given, truth = np.asarray(learned), np.asarray(exact)
    for name, array in (("learned", given), ("exact", truth)):
        if array.dtype != np.bool_:
            raise TypeError(f"{name} is of dtype {array.dtype}; expected bools, such as value >= 0.")
    if given.shape != truth.shape:
        raise ValueError(f"learned has shape {given.shape} and exact {truth.shape}; expected the same.")
    area = np.ones(truth.shape) if weights is None else np.broadcast_to(weights, truth.shape)
    whole = float(area[truth].sum())
    if whole == 0:
        raise ValueError("The exact set has no state on this grid: nothing can be said as a share of it.")
    false_safe, missed = float(area[given & ~truth].sum()), float(area[truth & ~given].sum())
    return SetComparison((whole - missed) / (whole + false_safe), false_safe / whole, missed / whole)
