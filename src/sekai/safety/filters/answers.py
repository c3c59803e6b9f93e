"""What functions given by the user answer, held to their shapes: errors name the function and the first bad slot."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def margins_of(answer: Any, n: int, who: str) -> Floats:
    """Margins, float64 `(n,)`; infinite ones are margins too.

    Raises:
        ValueError: another shape, or NaN.
    """
    margins = np.asarray(answer, np.float64)
    if margins.shape != (n,):
        raise ValueError(f"{who} gave an array of shape {margins.shape}; expected ({n},), one number for each slot.")
    bad = np.flatnonzero(np.isnan(margins))
    if len(bad):
        raise ValueError(f"{who} gave NaN for slot {bad[0]} ({len(bad)} of {n} slots); expected numbers.")
    return margins


def actions_of(answer: Any, n: int, size: int, who: str) -> Floats:
    """Actions, float64 `(n, size)`.

    Raises:
        ValueError: another shape, or numbers that are not finite.
    """
    actions = np.asarray(answer, np.float64)
    if actions.shape != (n, size):
        raise ValueError(
            f"{who} gave an array of shape {actions.shape}; expected ({n}, {size}), one action for each slot."
        )
    bad = np.flatnonzero(~np.isfinite(actions).all(axis=1))
    if len(bad):
        raise ValueError(f"{who} gave {actions[bad[0]]} for slot {bad[0]}; expected finite numbers.")
    return actions


def flags_of(answer: Any, n: int, who: str) -> Flags:
    """Flags, bool `(n,)`.

    Raises:
        ValueError: another shape or dtype.
    """
    flags = np.asarray(answer)
    if flags.shape != (n,) or flags.dtype != np.bool_:
        raise ValueError(f"{who} gave {flags.dtype} of shape {flags.shape}; expected bool ({n},), one for each slot.")
    return flags


def candidates_of(points: Any) -> Floats:
    """Actions to choose from, float64 `(K, U)`.

    Raises:
        ValueError: another number of axes, none at all, or numbers that are not finite.
    """
    candidates = np.array(points, np.float64)
    if candidates.ndim != 2 or not candidates.size or not np.isfinite(candidates).all():
        raise ValueError(f"candidates has shape {candidates.shape}; expected (K, U), at least one finite action.")
    return candidates


def name_of(function: Any) -> str:
    """How a function is called in a message."""
    return getattr(function, "__name__", None) or type(function).__name__
