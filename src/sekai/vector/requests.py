"""What `VecEnv.reset` was asked for, checked before anything moves."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.core.snapshot import snapshot
from sekai.seeding import Seed, slot_seeds

Options = dict[str, Any] | None


class ResetRequest(NamedTuple):
    """One reset.

    Attributes:
        mask: bool `(N,)`, the slots to reset.
        slots: their indices, ascending.
        seeds: one seed per slot, masked or not.
        options: one private copy of the options per slot, masked or not.
    """

    mask: NDArray[np.bool_]
    slots: list[int]
    seeds: list[Seed]
    options: list[Options]


def reset_request(seed: Any, options: Any, mask: Any, n: int) -> ResetRequest:
    """Check and spread the arguments of `reset` over `n` slots.

    Raises:
        TypeError, ValueError: a seed, options or a mask of the wrong type or length; the message names the entry.
    """
    checked = check_mask(mask, n)
    return ResetRequest(
        mask=checked,
        slots=np.flatnonzero(checked).tolist(),
        seeds=slot_seeds(seed, n),
        options=_slot_options(options, n),
    )


def check_mask(mask: Any, n: int) -> NDArray[np.bool_]:
    """`mask` as a private bool array `(n,)`; None means every slot."""
    if mask is None:
        return np.ones(n, bool)
    array = np.asarray(mask)
    if array.dtype != bool:
        raise TypeError(f"mask is {mask!r} (dtype {array.dtype}); expected {n} bools, True for slots to reset.")
    if array.shape != (n,):
        raise ValueError(f"mask has shape {array.shape}; expected {(n,)}, one bool per sub-env.")
    return array.copy()


def check_options(options: Any, what: str) -> Options:
    """A private copy of one slot's options.

    Raises:
        TypeError: neither a dict nor None.
        ValueError: a key that looks like gymnasium's reset mask, which would be ignored.
    """
    if options is None:
        return None
    if not isinstance(options, Mapping):
        raise TypeError(f"{what} is {options!r} ({type(options).__name__}); expected a dict or None.")
    for key, value in options.items():
        if isinstance(key, str) and _looks_like_a_mask(key, value):
            raise ValueError(f"{what} has the key {key!r}; to reset some slots only, call reset(mask=...).")
    copied: Options = snapshot(dict(options))
    return copied


def _slot_options(options: Any, n: int) -> list[Options]:
    if isinstance(options, (list, tuple)):
        if len(options) != n:
            raise ValueError(f"options has {len(options)} entries; expected {n}, one per sub-env.")
        return [check_options(entry, f"options[{i}]") for i, entry in enumerate(options)]
    return [check_options(options, "options") for _ in range(n)]


def _looks_like_a_mask(key: str, value: Any) -> bool:
    """Whether an entry of the options is gymnasium's `reset_mask`, or a misspelt one."""
    if key == "reset_mask":
        return True
    if isinstance(value, np.ndarray):
        bools = value.dtype == bool
    else:
        bools = isinstance(value, (list, tuple)) and all(isinstance(entry, (bool, np.bool_)) for entry in value)
    return bool(bools) and _close_to_reset_mask(key)


@lru_cache(maxsize=256)
def _close_to_reset_mask(key: str) -> bool:
    return bool(difflib.get_close_matches(key.lower(), ["reset_mask"], cutoff=0.8))
