"""Flattening, by gymnasium's rules, with our spaces as results."""

from __future__ import annotations

from typing import Any

import gymnasium.spaces
import gymnasium.spaces.utils as utils
import numpy as np
from numpy.typing import NDArray

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


def flatten_batch(space: AnySpace, batch: Any) -> NDArray[Any]:
    """`flatten` of every row of a batch at once: `(n, flatdim(space))`.

    Args:
        space: the single space, of a fixed size.
        batch: a batch of its samples.
    """
    if isinstance(space, gymnasium.spaces.Dict):
        return np.concatenate([flatten_batch(part, batch[key]) for key, part in space.spaces.items()], axis=1)
    if isinstance(space, gymnasium.spaces.Tuple):
        parts = zip(space.spaces, batch, strict=True)
        return np.concatenate([flatten_batch(part, rows) for part, rows in parts], axis=1)
    rows = np.asarray(batch)
    if isinstance(space, gymnasium.spaces.Discrete):
        return _one_hot(rows[:, None] - space.start, np.array([space.n]), space.dtype)
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return _one_hot((rows - space.start).reshape(len(rows), -1), space.nvec.reshape(-1), space.dtype)
    return rows.astype(space.dtype, copy=True).reshape(len(rows), -1)


def _one_hot(values: NDArray[Any], sizes: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Columns `(n, k)` of values below `sizes (k,)`, each as so many zeros and a one: `(n, sum(sizes))`."""
    ends = np.cumsum(sizes)
    hot = np.zeros((len(values), int(ends[-1])), dtype)
    hot[np.arange(len(values))[:, None], ends - sizes + values] = 1
    return hot
