"""Cutting batches into the shares of workers, and joining what they return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sekai.spaces import has_fixed_size


def share_bounds(num_envs: int, num_workers: int) -> list[tuple[int, int]]:
    """`[lo, hi)` of each worker's slots: contiguous, sizes that differ by at most one, the larger first.

    share_bounds(5, 2) -> [(0, 3), (3, 5)]
    """
    sizes = [len(part) for part in np.array_split(np.arange(num_envs), num_workers)]
    ends = np.cumsum(sizes).tolist()
    return [(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def cut(space: gymnasium.Space[Any], batch: Any, lo: int, hi: int) -> Any:
    """Rows `[lo, hi)` of a batch of samples of `space`, as views."""
    if isinstance(space, spaces.Dict):
        return {key: cut(part, batch[key], lo, hi) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(cut(part, rows, lo, hi) for part, rows in zip(space.spaces, batch, strict=True))
    return batch[lo:hi]


def join(space: gymnasium.Space[Any], batches: Sequence[Any]) -> Any:
    """One batch of samples of `space` from those of the workers, in new arrays."""
    if isinstance(space, spaces.Dict):
        return {key: join(part, [batch[key] for batch in batches]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(join(part, [batch[k] for batch in batches]) for k, part in enumerate(space.spaces))
    if has_fixed_size(space):
        return np.concatenate(batches)
    return tuple(sample for batch in batches for sample in batch)
