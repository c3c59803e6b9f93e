"""`Dict`, `Tuple`, `Sequence`, and `readable`, which turns gymnasium's spaces into ours.

The parts of a composite space are always our spaces where we have one. Seeding a composite with an integer or
a generator gives each part a seed of its own, so the parts draw independently.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium.spaces
import numpy as np

from sekai.spaces.box import Box
from sekai.spaces.discrete import Discrete, MultiBinary, MultiDiscrete
from sekai.spaces.sharing import share

AnySpace = gymnasium.spaces.Space[Any]


class Dict(gymnasium.spaces.Dict[Any]):
    """Dicts with fixed keys and a space for each.

    Args:
        spaces: mapping or list of `(key, space)` pairs.
        seed: an integer or generator from which each part gets its own seed, or a dict of seeds.
        sort_keys: sort the keys of a plain mapping, as gymnasium does; pairs and `OrderedDict` keep theirs.
        **spaces_kwargs: further parts by name.
    """

    def __init__(
        self,
        spaces: Any = None,
        *,
        seed: int | dict[str, Any] | np.random.Generator | None = None,
        sort_keys: bool = True,
        **spaces_kwargs: AnySpace,
    ) -> None:
        super().__init__(spaces, None, sort_keys=sort_keys, **spaces_kwargs)
        self.spaces = {key: readable(part) for key, part in self.spaces.items()}
        _seed(self, seed)

    def __setitem__(self, key: str, value: AnySpace) -> None:
        super().__setitem__(key, readable(value))

    def __repr__(self) -> str:
        return "Dict(" + ", ".join(f"{key!r}: {part!r}" for key, part in self.spaces.items()) + ")"


class Tuple(gymnasium.spaces.Tuple[Any]):
    """Tuples of a fixed length with a space for each place.

    Args:
        spaces: the space of each place.
        seed: an integer or generator from which each part gets its own seed, or a list of seeds.
    """

    def __init__(
        self,
        spaces: Iterable[AnySpace],
        *,
        seed: int | tuple[Any, ...] | list[Any] | np.random.Generator | None = None,
    ) -> None:
        super().__init__(spaces)
        self.spaces = tuple(readable(part) for part in self.spaces)
        _seed(self, seed)

    def __repr__(self) -> str:
        return "Tuple(" + ", ".join(repr(part) for part in self.spaces) + ")"


class Sequence(gymnasium.spaces.Sequence):
    """Sequences of any length whose items belong to one space.

    Args:
        space: the space of the items.
        seed: an integer or generator for the length and the items, or a pair of seeds.
        stack: whether a sequence is one batch of the items (an array for a `Box`) instead of a tuple.
    """

    def __init__(
        self,
        space: AnySpace,
        *,
        seed: int | tuple[int, int] | np.random.Generator | None = None,
        stack: bool = False,
    ) -> None:
        super().__init__(space, stack=stack)
        self.feature_space = readable(self.feature_space)
        if stack:
            self.stacked_feature_space = readable(self.stacked_feature_space)
        _seed(self, seed)

    def __repr__(self) -> str:
        return f"Sequence({self.feature_space!r}{', stack=True' if self.stack else ''})"


def readable(space: AnySpace) -> AnySpace:
    """`space` as one of our classes, whose text shows every bound on one line.

    Nested spaces are converted throughout. The result draws from the same random stream as `space`: sampling
    or seeding one is sampling or seeding the other. Only the length of a `Sequence` is seeded apart, if its
    seed is set after the conversion.

    Args:
        space: any gymnasium space.

    Returns:
        A space equal to `space`. Our own spaces, and types we have no class for (`Text`, `Graph`, `OneOf`,
        subclasses written by users), are returned as they are.
    """
    # Exact types: a subclass may override `sample` or `contains`, and would lose that.
    kind = type(space)
    for theirs, ours in _LEAVES:
        if kind is theirs:
            return share(ours, space)
    if kind is gymnasium.spaces.Dict:
        parts: Any = {key: readable(part) for key, part in space.spaces.items()}  # type: ignore[attr-defined]  # kind is Dict
        return _twin(Dict, space, spaces=parts)
    if kind is gymnasium.spaces.Tuple:
        parts = tuple(readable(part) for part in space.spaces)  # type: ignore[attr-defined]  # kind is Tuple
        return _twin(Tuple, space, spaces=parts)
    if kind is gymnasium.spaces.Sequence:
        names = ("feature_space", "stacked_feature_space")
        parts = {name: readable(part) for name, part in vars(space).items() if name in names}
        return _twin(Sequence, space, **parts)
    return space


_LEAVES: tuple[tuple[type[AnySpace], type[AnySpace]], ...] = (
    (gymnasium.spaces.Box, Box),
    (gymnasium.spaces.Discrete, Discrete),
    (gymnasium.spaces.MultiDiscrete, MultiDiscrete),
    (gymnasium.spaces.MultiBinary, MultiBinary),
)


def _twin(cls: type[AnySpace], space: AnySpace, **changes: Any) -> AnySpace:
    """A `cls` with the attributes of `space`, its generator object included, except for `changes`."""
    twin = cls.__new__(cls)
    twin.__dict__.update(vars(space))
    twin.__dict__.update(changes)
    return twin


def _seed(space: AnySpace, seed: Any) -> None:
    if seed is None:
        return
    if isinstance(seed, np.random.Generator):
        # gymnasium would keep the generator and give the parts nothing from it.
        seed = int(seed.integers(np.iinfo(np.int64).max))
    space.seed(seed)
