"""The nearest point of a box under one linear condition, exactly, for many slots at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sekai.safety.filters.answers import Flags, Floats


def box_qp(wanted: ArrayLike, a: ArrayLike, b: ArrayLike, low: ArrayLike, high: ArrayLike) -> tuple[Floats, Flags]:
    """Minimise |u - wanted|² subject to a · u >= b and low <= u <= high.

    By the conditions of Karush, Kuhn and Tucker the solution is u(t) = clip(wanted + t a, low, high) with the least
    t >= 0 at which a · u(t) >= b. That is a rising, piecewise linear function of t, with a bend where a coordinate
    enters or leaves its bounds: it is looked at in all 2 U bends, and solved between two of them.

    Args:
        wanted: `(N, U)`; it may lie outside the box.
        a: `(N, U)`.
        b: `(N,)`.
        low, high: `(U,)`, finite.

    Returns:
        The solutions, float64 `(N, U)`, and whether the condition can be met in the box, bool `(N,)`; where it cannot,
        the point is the nearest of those that come closest to meeting it.
    """
    wanted, a, b = (np.asarray(part, np.float64) for part in (wanted, a, b))
    low, high = (np.broadcast_to(np.asarray(bound, np.float64), wanted.shape) for bound in (low, high))
    with np.errstate(divide="ignore", invalid="ignore"):
        bends = np.concatenate([(low - wanted) / a, (high - wanted) / a], axis=1)
    bends = np.where(np.isfinite(bends) & (bends > 0), bends, 0.0)
    bends = np.sort(np.concatenate([np.zeros((len(b), 1)), bends], axis=1), axis=1)  # (N, 2U + 1), from t = 0 on
    points = np.clip(wanted[:, None] + bends[..., None] * a[:, None], low[:, None], high[:, None])
    reached = (points * a[:, None]).sum(axis=2)
    met = reached >= b[:, None]
    feasible = met[:, -1]  # beyond the last bend nothing changes
    slots, end = np.arange(len(b)), np.where(feasible, met.argmax(axis=1), bends.shape[1] - 1)
    start = np.maximum(end - 1, 0)
    rise = reached[slots, end] - reached[slots, start]
    share = np.where(rise > 0, (b - reached[slots, start]) / np.where(rise > 0, rise, 1.0), 0.0)
    share = np.where(feasible & (end > 0), np.clip(share, 0.0, 1.0), 1.0)[:, None]
    solutions = (1 - share) * points[slots, start] + share * points[slots, end]
    return solutions, feasible
