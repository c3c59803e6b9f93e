"""Spaces of batches: `n` elements of a space along a new first axis.

    Box (*shape)            -> Box (n, *shape)
    Discrete                -> MultiDiscrete (n,)
    MultiDiscrete (*shape)  -> Box (n, *shape), integer
    MultiBinary (*shape)    -> Box (n, *shape), int8
    MaskedBox               -> MaskedBox with one more leading axis
    Dict, Tuple             -> Dict, Tuple of the batched parts
    anything else           -> Tuple of n copies

Random streams: a leaf of the batched space gets a generator made from the state of the single leaf's
generator and the leaf's place in the space. So an equal seed gives equal batches, the single space's
stream is neither advanced nor repeated, and leaves that happen to share a seed draw independently. A
space that was never seeded stays so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import gymnasium.spaces
import numpy as np

from sekai.seeding import derived_generator
from sekai.spaces.box import Box, tile_box
from sekai.spaces.checks import whole_number
from sekai.spaces.composite import AnySpace, Dict, Tuple
from sekai.spaces.discrete import MultiDiscrete
from sekai.spaces.masked_box import MaskedBox

Place = tuple[int, ...]


def batch_space(space: AnySpace, n: int) -> AnySpace:
    """The space of `n` elements of `space`; see the module for the table and the random streams.

    Args:
        space: any gymnasium space, nested as you like.
        n: number of elements, at least 1.
    """
    return _batch(space, whole_number("batch_space n", n, minimum=1), ())


def has_fixed_size(space: AnySpace) -> bool:
    """Whether all elements take the same memory: the leaves are Box, Discrete, MultiDiscrete, MultiBinary."""
    if isinstance(space, gymnasium.spaces.Dict):
        return all(has_fixed_size(part) for part in space.spaces.values())
    if isinstance(space, gymnasium.spaces.Tuple):
        return all(has_fixed_size(part) for part in space.spaces)
    return isinstance(space, FIXED_SIZE)


FIXED_SIZE = (
    gymnasium.spaces.Box,
    gymnasium.spaces.Discrete,
    gymnasium.spaces.MultiDiscrete,
    gymnasium.spaces.MultiBinary,
)


def _batch(space: AnySpace, n: int, place: Place) -> AnySpace:
    if isinstance(space, MaskedBox):
        batch = space.batched(n)
        for k, key in enumerate(batch.spaces):
            batch.spaces[key]._np_random = _derived(space.spaces[key]._np_random, (*place, k))
        return batch
    if isinstance(space, gymnasium.spaces.Dict):
        parts = [(key, _batch(part, n, (*place, k))) for k, (key, part) in enumerate(space.spaces.items())]
        return Dict(parts, sort_keys=space.sort_keys)
    if isinstance(space, gymnasium.spaces.Tuple):
        return Tuple(_batch(part, n, (*place, k)) for k, part in enumerate(space.spaces))
    if isinstance(space, FIXED_SIZE):
        leaf = _batch_leaf(space, n)
        leaf._np_random = _derived(space._np_random, place)
        return leaf
    copies = [deepcopy(space) for _ in range(n)]
    for k, copy in enumerate(copies):
        _separate(copy, (*place, k))
    return Tuple(copies)


def _batch_leaf(space: Any, n: int) -> AnySpace:
    if isinstance(space, gymnasium.spaces.Box):
        return tile_box(space, (n,))
    if isinstance(space, gymnasium.spaces.Discrete):
        counts, firsts = np.full(n, space.n, space.dtype), np.full(n, space.start, space.dtype)
        return MultiDiscrete(counts, start=firsts, dtype=space.dtype)
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return tile_box(Box(space.start, space.start + (space.nvec - 1), dtype=space.dtype), (n,))
    return Box(0, 1, (n, *space.shape), space.dtype)


def _derived(source: Any, place: Place) -> Any:
    """A generator determined by the state of `source` and by `place`; None for a space without generator."""
    return None if source is None else derived_generator(source, place)


def _separate(space: AnySpace, place: Place) -> None:
    """Give every generator inside `space`, whatever its type, one of its own."""
    space._np_random = _derived(space._np_random, place)
    for k, part in enumerate(_parts(space)):
        _separate(part, (*place, k))


def _parts(space: AnySpace) -> Iterator[AnySpace]:
    for value in vars(space).values():
        if isinstance(value, gymnasium.spaces.Space):
            yield value
        elif isinstance(value, Mapping):
            yield from (part for part in value.values() if isinstance(part, gymnasium.spaces.Space))
        elif isinstance(value, (tuple, list)):
            yield from (part for part in value if isinstance(part, gymnasium.spaces.Space))
