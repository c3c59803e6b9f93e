"""Cutting batches for workers and joining them again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai
from sekai.vector.shares import cut, join, share_bounds

SPACES: list[Any] = [
    sekai.Box(-1.0, 1.0, (2,)),
    sekai.Discrete(5),
    sekai.Dict({"a": sekai.MultiBinary(2), "b": sekai.Tuple((sekai.Discrete(3), sekai.Box(0, 9, (), np.int64)))}),
    sekai.Sequence(sekai.Discrete(3)),
]


@pytest.mark.parametrize(
    ("slots", "workers", "bounds"),
    [
        (5, 2, [(0, 3), (3, 5)]),
        (4, 4, [(0, 1), (1, 2), (2, 3), (3, 4)]),
        (3, 1, [(0, 3)]),
        (7, 3, [(0, 3), (3, 5), (5, 7)]),
    ],
)
def test_shares_are_contiguous_the_larger_first(slots: int, workers: int, bounds: Any) -> None:
    assert share_bounds(slots, workers) == bounds


@given(st.integers(1, 200), st.data())
def test_shares_cover_every_slot_once_and_differ_by_at_most_one(slots: int, data: st.DataObject) -> None:
    bounds = share_bounds(slots, data.draw(st.integers(1, slots)))
    assert [slot for lo, hi in bounds for slot in range(lo, hi)] == list(range(slots))
    sizes = [hi - lo for lo, hi in bounds]
    assert max(sizes) - min(sizes) <= 1 and sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_joining_undoes_cutting(space: Any) -> None:
    space.seed(0)
    samples = [space.sample() for _ in range(5)]
    batch = sekai.spaces.concatenate(space, samples)
    again = join(space, [cut(space, batch, lo, hi) for lo, hi in share_bounds(5, 2)])
    rows = list(sekai.spaces.iterate(space, again))
    assert type(again) is type(batch) and len(rows) == 5
    assert all(repr(row) == repr(other) for row, other in zip(rows, sekai.spaces.iterate(space, batch), strict=True))


def test_joined_batches_are_new_arrays() -> None:
    space = sekai.Box(-1.0, 1.0, (2,))
    parts = [np.zeros((2, 2), np.float32), np.ones((1, 2), np.float32)]
    joined = join(space, parts)
    assert joined.tolist() == [[0, 0], [0, 0], [1, 1]] and not any(np.shares_memory(joined, part) for part in parts)
    assert not np.shares_memory(join(space, parts[:1]), parts[0])
