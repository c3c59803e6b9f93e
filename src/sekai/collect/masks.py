"""The masks of a fragment, each with its own meaning. They are derived here and nowhere else.

    row              0      1      2      3      4      5      6      7      one slot, same_step, T = 8
    kind            STEP   STEP   TRUNC  STEP   LOST   STEP   TERM   STEP
    episode_start    1      0      0      1      0      1      0      1
    valid            1      1      1      1      0      1      1      1
    bootstrap        1      1      1      1      0      1      0      1
    trace            1      1      0      0      0      1      0      0
    cut              0      0      0      1      0      0      0      1      before what is lost, and at the edge

No one of them can stand in for another. At a truncation the value of what followed counts (`bootstrap`), and yet the
recursion stops (`trace`) and the memory is fresh afterwards (`episode_start`). At the edge of a fragment the value
counts and the recursion stops, and the memory goes on.

Shapes: `kind` is int8 `(T, N)` of `RowKind`; `starts` is bool `(T + 1, N)`, the last row of which belongs to the tail.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import RowKind

Mask = NDArray[np.bool_]
Kinds = NDArray[np.int8]


def valid(kind: Kinds) -> Mask:
    """Rows that are transitions: the action of the row was executed and its outcome is known."""
    mask: Mask = kind <= RowKind.TRUNCATED
    return mask


def bootstrap(kind: Kinds) -> Mask:
    """Rows whose successor's value counts: transitions that did not terminate (truncations and cuts among them)."""
    mask: Mask = (kind == RowKind.STEP) | (kind == RowKind.TRUNCATED)
    return mask


def trace(kind: Kinds, starts: Mask) -> Mask:
    """Rows from which a backward recursion continues into the next row: the same episode, both transitions."""
    goes_on = np.zeros(kind.shape, bool)
    np.logical_and(kind[:-1] == RowKind.STEP, valid(kind[1:]) & ~starts[1:-1], out=goes_on[:-1])
    return goes_on


def cut(kind: Kinds, starts: Mask) -> Mask:
    """Rows after which the collector, and not the environment, stopped: the fragment's edge, and before a lost row."""
    mask: Mask = (kind == RowKind.STEP) & ~trace(kind, starts)
    return mask


def episode_ids(kind: Kinds, starts: Mask, begun: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which episode each row belongs to, unique over slots and time; -1 for rows that are no transition.

    Args:
        begun: int64 `(N,)`, how many episodes each slot had begun before the first row.
    """
    num_slots = kind.shape[1]
    number = begun + np.cumsum(starts[:-1], axis=0) - 1
    return np.where(valid(kind), number * num_slots + np.arange(num_slots), -1)


def step_indices(kind: Kinds, starts: Mask, taken: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many steps of its episode came before each row; -1 for rows that are no transition.

    Args:
        taken: int64 `(N,)`, steps that each slot's episode had taken before the first row.
    """
    row = np.arange(len(kind))[:, None]
    latest = np.maximum.accumulate(np.where(starts[:-1], row, -1), axis=0)
    return np.where(valid(kind), np.where(latest < 0, row + taken, row - latest), -1)
