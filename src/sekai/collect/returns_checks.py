"""Checks at the entry of returns and advantages, for NumPy arrays and tensors alike."""

from __future__ import annotations

import math
from typing import Any

from sekai.spaces.checks import whole_number


def check_rows(name: str, arrays: dict[str, Any], masks: dict[str, Any], xp: Any) -> None:
    """Raise unless all arrays have one shape `(T, N)` and the masks can be true together.

    Args:
        name: the function that was called.
        arrays: rewards and values by name, rewards first.
        masks: `bootstrap`, `trace` and `valid`, in this order.
        xp: the module that the arrays are of, `numpy` or `torch`.
    """
    shape = tuple(arrays["r_t"].shape)
    if len(shape) != 2 or not shape[0]:
        raise ValueError(
            f"{name}: r_t has shape {shape}; expected (T, N) with a row at least, time first. A single trajectory is "
            "r_t[:, None]."
        )
    for key, array in {**arrays, **masks}.items():
        if tuple(array.shape) != shape:
            raise ValueError(
                f"{name}: {key} has shape {tuple(array.shape)}, r_t {shape}; expected one shape (T, N) for all: each "
                "row has its own entry, and its own successor."
            )
    for key, mask in masks.items():
        if mask.dtype != xp.bool:
            raise TypeError(f"{name}: {key} is of dtype {mask.dtype}; expected bool: write {key} != 0 if it is a mask.")
    _check_masks(name, masks, xp)


def _check_masks(name: str, masks: dict[str, Any], xp: Any) -> None:
    bootstrap, trace, valid = masks.values()
    follows = trace[:-1] & ~valid[1:]
    if not bool(((trace & ~bootstrap) | (bootstrap & ~valid)).any()) and not bool(follows.any()):
        return
    for problem, reason in (
        (bootstrap & ~valid, "bootstrap is True and valid False: a row that is no transition has no successor"),
        (trace & ~bootstrap, "trace is True and bootstrap False: nothing follows a state without a value"),
        (follows, "trace is True and the next row is not valid: a recursion goes on into transitions only"),
    ):
        if bool(problem.any()):
            t, slot = xp.argwhere(problem)[0].tolist()
            raise ValueError(f"{name}: at row {t} of slot {slot} {reason}. Derive the masks in one place.")


def check_unit(name: str, key: str, value: Any) -> float:
    """`value` as a float in `[0, 1]`."""
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name}: {key} is {value!r}; expected a number in [0, 1].")
    return float(value)


def check_limit(name: str, key: str, value: Any) -> float:
    """`value` as a float above 0."""
    if math.isnan(value) or value <= 0.0:
        raise ValueError(f"{name}: {key} is {value!r}; expected a number above 0, math.inf for no limit.")
    return float(value)


def check_steps(name: str, value: Any) -> int:
    """`value` as a number of steps, at least 1."""
    return whole_number(f"{name}: n", value, minimum=1)
