"""Flattening, by gymnasium's rules, with our spaces as results."""

from __future__ import annotations

from typing import Any

import gymnasium.spaces.utils as utils

from sekai.spaces.composite import AnySpace, readable


def flatten(space: AnySpace, x: Any) -> Any:
    """`x` as one array (discrete parts one-hot); as nested containers where `space` has no fixed size."""
    return utils.flatten(space, x)


def unflatten(space: AnySpace, x: Any) -> Any:
    """The element of `space` that `flatten` turned into `x`."""
    return utils.unflatten(space, x)


def flatten_space(space: AnySpace) -> AnySpace:
    """The space of `flatten(space, x)`: a `Box` where `space` has a fixed size."""
    return readable(utils.flatten_space(space))


def flatdim(space: AnySpace) -> int:
    """The length of `flatten(space, x)`.

    Raises:
        ValueError: `space` has no fixed size.
    """
    return int(utils.flatdim(space))
