"""Policy states: nestings of arrays whose first axis is the slot, NumPy's or another library's.

Of a leaf nothing is asked but what NumPy arrays and torch tensors share: a shape, indexing by an array of slots, and
assignment to it. So torch is never imported here. Nothing is written to a state that a policy handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]


def map_state(function: Callable[..., Any], *states: Any) -> Any:
    """`function` of the leaves at the same place of states of one structure, in that structure."""
    first = states[0]
    if first is None:
        return None
    if isinstance(first, dict):
        return {key: map_state(function, *(state[key] for state in states)) for key in first}
    if isinstance(first, (list, tuple)):
        parts = [map_state(function, *inner) for inner in zip(*states, strict=True)]
        if hasattr(first, "_fields"):  # a named tuple
            return type(first)(*parts)
        return tuple(parts) if isinstance(first, tuple) else parts
    return function(*states)


def leaves(state: Any, place: str = "state") -> Iterator[tuple[str, Any]]:
    """The arrays of a state, each with the place it stands at."""
    if isinstance(state, dict):
        for key, part in state.items():
            yield from leaves(part, f"{place}[{key!r}]")
    elif isinstance(state, (list, tuple)):
        for i, part in enumerate(state):
            yield from leaves(part, f"{place}[{i}]")
    elif state is not None:
        yield place, state


def check_state(state: Any, num_slots: int, source: str) -> None:
    """Raise `ValueError` unless every array of the state has `num_slots` rows."""
    for place, leaf in leaves(state):
        shape = tuple(getattr(leaf, "shape", ()))
        if not shape or shape[0] != num_slots:
            raise ValueError(
                f"{source} returned a {place} of shape {shape}; expected arrays whose first axis is the {num_slots} "
                "slots (a torch LSTM's (layers, slots, size) wants a transpose)."
            )


def take(state: Any, slots: Indices) -> Any:
    """The state of some slots, in arrays of its own, cut off from whatever computed it."""
    return map_state(lambda leaf: _detached(leaf)[slots], state)


def put(state: Any, slots: Indices, rows: Any) -> Any:
    """A state with the rows of some slots replaced; the arrays given stay as they are."""

    def one(leaf: Any, new: Any) -> Any:
        leaf = copy_leaf(leaf)
        leaf[slots] = new if isinstance(leaf, np.ndarray) else new.to(leaf)  # torch converts neither dtype nor device
        return leaf

    return map_state(one, state, rows)


def written(state: Any, slots: Indices, rows: Any) -> Any:
    """The state that `state`, which is nobody else's, becomes where the rows of some slots are written to it.

    Where the rows have another dtype, or lie on another device, the others follow them: an initial state may be
    narrower than what a policy makes of it.
    """

    def one(leaf: Any, new: Any) -> Any:
        new = _detached(new)
        leaf = leaf.astype(new.dtype, copy=False) if isinstance(leaf, np.ndarray) else leaf.to(new)
        leaf[slots] = new
        return leaf

    return map_state(one, state, rows)


def join(states: list[Any]) -> Any:
    """States of some slots each, one after another along the first axis."""

    def one(*parts: Any) -> Any:
        if isinstance(parts[0], np.ndarray):
            return np.concatenate(parts)
        # an initial state may be narrower than what follows; a sum of tensors has the dtype that holds them all
        one_each = {part.dtype: part.new_empty(0, device="cpu") for part in parts}
        dtype = reduce(add, one_each.values()).dtype
        whole = parts[-1].new_empty((sum(len(part) for part in parts), *parts[0].shape[1:]), dtype=dtype)
        at = 0
        for part in parts:
            whole[at : at + len(part)] = part
            at += len(part)
        return whole

    return map_state(one, *states)


def copy(state: Any) -> Any:
    """A copy that shares no memory, cut off from whatever computed it."""
    return map_state(lambda leaf: copy_leaf(_detached(leaf)), state)


def copy_leaf(leaf: Any) -> Any:
    """A copy of one array."""
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf.clone()


def as_array(value: Any) -> NDArray[Any]:
    """An array of any library as NumPy's, without a copy where none is needed."""
    if type(value) is np.ndarray:
        return value
    if hasattr(value, "detach"):  # a tensor, which may carry a gradient or lie on another device
        value = value.detach().cpu()
    return np.asarray(value)


def _detached(leaf: Any) -> Any:
    return leaf if isinstance(leaf, np.ndarray) else leaf.detach()
