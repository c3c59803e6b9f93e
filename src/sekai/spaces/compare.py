"""How two spaces differ, in one line."""

from __future__ import annotations

from typing import Any

import gymnasium.spaces as theirs
import numpy as np
from numpy.typing import NDArray

from sekai.spaces.composite import AnySpace
from sekai.spaces.masked_box import MaskedBox
from sekai.spaces.text import bound_text

_NUMBERS: tuple[tuple[type[AnySpace], tuple[str, ...]], ...] = (
    (theirs.Box, ("shape", "dtype", "low", "high")),
    (theirs.Discrete, ("n", "start", "dtype")),
    (theirs.MultiDiscrete, ("shape", "dtype", "nvec", "start")),
    (theirs.MultiBinary, ("shape",)),
    (MaskedBox, ("max_size", "batch_shape")),
)


def describe_mismatch(a: AnySpace, b: AnySpace) -> str | None:
    """One line naming the first difference between two spaces, with its place; None where `a == b`.

    Example:
        >>> describe_mismatch(Dict(x=Discrete(2)), Dict(x=Discrete(3)))
        "at ['x']: n 2 and 3"
    """
    return None if a == b else _difference(a, b, "")


def _difference(a: Any, b: Any, place: str) -> str:
    where = f"at {place}: " if place else ""
    if _kind(a) is not _kind(b):
        return f"{where}type {type(a).__name__} and {type(b).__name__}"
    if isinstance(a, theirs.Dict) and not isinstance(a, MaskedBox):
        if a.spaces.keys() != b.spaces.keys():
            return f"{where}keys {list(a.spaces)} and {list(b.spaces)}"
        parts = [(a[key], b[key], f"[{key!r}]") for key in a.spaces]
    elif isinstance(a, theirs.Tuple):
        if len(a.spaces) != len(b.spaces):
            return f"{where}length {len(a.spaces)} and {len(b.spaces)}"
        parts = [(x, y, f"[{k}]") for k, (x, y) in enumerate(zip(a.spaces, b.spaces, strict=True))]
    else:
        parts = []
        for name in next((names for kind, names in _NUMBERS if isinstance(a, kind)), ()):
            left, right = getattr(a, name), getattr(b, name)
            if isinstance(left, np.ndarray):
                # Equality of boxes allows for rounding.
                unequal = ~np.isclose(left, right) if isinstance(a, theirs.Box) else left != right
                if np.any(unequal):
                    return f"{where}{name}{_arrays_text(left, right, unequal)}"
            elif left != right:
                return f"{where}{name} {left} and {right}"
        if isinstance(a, MaskedBox):
            parts = [(a.element_space, b.element_space, " elements")]
        elif isinstance(a, theirs.Sequence):
            if a.stack != b.stack:
                return f"{where}stack {a.stack} and {b.stack}"
            parts = [(a.feature_space, b.feature_space, " items")]
    for left, right, step in parts:
        if left != right:
            return _difference(left, right, (place + step).strip())
    return f"{where}{a!r} and {b!r}"


def _kind(space: Any) -> type[Any]:
    """The class that decides how a space is compared: ours and gymnasium's count as one."""
    known = (MaskedBox, theirs.Box, theirs.Discrete, theirs.MultiDiscrete, theirs.MultiBinary)
    nested = (theirs.Dict, theirs.Tuple, theirs.Sequence)
    return next((kind for kind in (*known, *nested) if isinstance(space, kind)), type(space))


def _arrays_text(left: NDArray[Any], right: NDArray[Any], unequal: NDArray[np.bool_]) -> str:
    texts = bound_text(left), bound_text(right)
    if texts[0] != texts[1]:
        return f" {texts[0]} and {texts[1]}"
    index = tuple(int(k) for k in np.argwhere(unequal)[0])  # a long array whose ends are equal
    return f"{list(index)} {left[index]} and {right[index]}"
