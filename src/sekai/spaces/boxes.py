"""Transforms of the `Box` parts of a space, wherever they stand, and the rows that they hold.

A transform works on a sample and on a batch alike: it acts on the last axes of every `Box` part, whatever axes stand
before them, and hands every other part on as it is. Of a `MaskedBox` it transforms the elements; padding stays zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import gymnasium.spaces
import numpy as np
from numpy.typing import NDArray

from sekai.spaces.box import Box
from sekai.spaces.composite import AnySpace, Dict, Tuple
from sekai.spaces.masked_box import MaskedBox

ArrayMap: TypeAlias = Callable[[NDArray[Any]], NDArray[Any]]
Change: TypeAlias = Callable[[gymnasium.spaces.Box[Any], str], tuple[Box, ArrayMap]]


def map_boxes(space: AnySpace, change: Change) -> tuple[AnySpace, Callable[[Any], Any]]:
    """Change every `Box` part of a space.

    Args:
        space: any space, nested as you like.
        change: given a box (of a `MaskedBox` the box of one element) and its place, e.g. `"['joints'][0]"`, returns
            the changed box, of the same shape, and a function of arrays `(..., *shape)` that gives new arrays.

    Returns:
        The changed space, and the function of its samples and batches.

    Raises:
        TypeError: there is no `Box` part.
    """
    if not any(True for _ in boxes_of(space)):
        raise TypeError(f"There is nothing to transform: {space} has no Box part.")
    return _map(space, change, "")


def boxes_of(space: AnySpace, place: str = "") -> Iterator[tuple[str, gymnasium.spaces.Box[Any]]]:
    """The `Box` parts of a space with their places; of a `MaskedBox` the box of one element."""
    if isinstance(space, MaskedBox):
        yield place, space.element_space
    elif isinstance(space, gymnasium.spaces.Box):
        yield place, space
    else:
        for step, part in _parts(space):
            yield from boxes_of(part, place + step)


def box_rows(space: AnySpace, batch: Any, slots: NDArray[np.bool_] | None = None) -> Iterator[NDArray[Any]]:
    """The rows `(k, *shape)` that each part of `boxes_of` has in a batch.

    Args:
        space: the single space.
        batch: a batch of its samples.
        slots: bool `(n,)`, the samples to look at, None for all.

    Yields:
        For a `Box` a row per sample, for a `MaskedBox` a row per occupied place, sample by sample.
    """
    if isinstance(space, MaskedBox):
        occupied = np.asarray(batch["mask"]) == 1
        if slots is not None:
            occupied &= slots.reshape(-1, *[1] * (occupied.ndim - 1))
        yield batch["elements"][occupied]
    elif isinstance(space, gymnasium.spaces.Box):
        yield batch if slots is None else batch[slots]
    elif isinstance(space, gymnasium.spaces.Dict):
        for key, part in space.spaces.items():
            yield from box_rows(part, batch[key], slots)
    elif isinstance(space, gymnasium.spaces.Tuple):
        for part, rows in zip(space.spaces, batch, strict=True):
            yield from box_rows(part, rows, slots)


def _parts(space: AnySpace) -> list[tuple[str, AnySpace]]:
    if isinstance(space, gymnasium.spaces.Dict):
        return [(f"[{key!r}]", part) for key, part in space.spaces.items()]
    if isinstance(space, gymnasium.spaces.Tuple):
        return [(f"[{k}]", part) for k, part in enumerate(space.spaces)]
    return []


def _map(space: AnySpace, change: Change, place: str) -> tuple[AnySpace, Callable[[Any], Any]]:
    # Functions of the module and partial objects, no closures: they can be pickled and copied.
    if isinstance(space, MaskedBox):
        element, function = change(space.element_space, place)
        changed = MaskedBox.of(element, space.max_size)
        for n in reversed(space.batch_shape):
            changed = changed.batched(n)
        return changed, partial(_apply_masked, function)
    if isinstance(space, gymnasium.spaces.Box):
        return change(space, place)
    if not isinstance(space, (gymnasium.spaces.Dict, gymnasium.spaces.Tuple)):
        return space, _same
    mapped = [_map(part, change, place + step) for step, part in _parts(space)]
    if isinstance(space, gymnasium.spaces.Dict):
        named = list(zip(space.spaces, mapped, strict=True))
        functions = {key: function for key, (_, function) in named}
        parts = Dict([(key, part) for key, (part, _) in named], sort_keys=space.sort_keys)
        return parts, partial(_apply_dict, functions)
    return Tuple(part for part, _ in mapped), partial(_apply_tuple, [function for _, function in mapped])


def _same(value: Any) -> Any:
    return value


def _apply_dict(functions: dict[str, Callable[[Any], Any]], value: Any) -> dict[str, Any]:
    return {key: function(value[key]) for key, function in functions.items()}


def _apply_tuple(functions: list[Callable[[Any], Any]], value: Any) -> tuple[Any, ...]:
    return tuple(function(part) for function, part in zip(functions, value, strict=True))


def _apply_masked(function: ArrayMap, value: Any) -> dict[str, NDArray[Any]]:
    elements = function(value["elements"])
    elements[np.asarray(value["mask"]) != 1] = 0
    return {"elements": elements, "mask": value["mask"]}
