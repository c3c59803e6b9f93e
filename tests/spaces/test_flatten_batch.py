"""A batch flattened at once is its rows flattened one by one."""

from __future__ import annotations

from typing import Any

import gymnasium.spaces as theirs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai import spaces
from tests.spaces.strategies import equal, fixed_spaces


def check_rows(space: Any, n: int) -> None:
    """Hold `flatten_batch` of `n` samples to gymnasium's `flatten` of each."""
    space.seed(3)
    samples = [space.sample() for _ in range(n)]
    batch = spaces.concatenate(space, samples)
    kept = spaces.finish_batch(space, spaces.copy_batch(space, batch))
    flat = spaces.flatten_batch(space, batch)
    assert flat.shape == (n, theirs.utils.flatdim(space))
    for row, sample in zip(flat, samples, strict=True):
        expected = theirs.utils.flatten(space, sample)
        assert row.dtype == expected.dtype
        np.testing.assert_array_equal(row, expected)
    assert flat in spaces.batch_space(spaces.flatten_space(space), n)
    # it is new: writing to it leaves the batch as it was
    flat[...] = 1 - flat
    assert equal(batch, kept)


@settings(max_examples=150, deadline=None)
@given(fixed_spaces, st.integers(1, 4))
def test_a_batch_is_flattened_as_gymnasium_flattens_each_row(space: Any, n: int) -> None:
    check_rows(space, n)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(5, dtype=np.uint8),
        spaces.Discrete(100, start=-60, dtype=np.int8),
        spaces.MultiDiscrete([3, 250], dtype=np.uint8),
        spaces.MultiDiscrete([3, 100, 100], start=[-2, -60, -70], dtype=np.int8),  # 203 columns are no int8
        spaces.MultiDiscrete([[3, 4], [2, 2]]),
        theirs.MultiDiscrete([3, 2], start=[1, -1]),
        spaces.MultiBinary((2, 3)),
        spaces.Box(0, 1, (2, 2), bool),
        spaces.Box(0, 1, (2,), np.float16),
        spaces.Box(0, 1, (0,)),
        spaces.Dict(a=spaces.Box(0, 3, (), np.uint8), b=spaces.Discrete(3, dtype=np.int8)),
        spaces.Dict([("z", spaces.Discrete(2)), ("a", spaces.Tuple([spaces.MaskedBox(1, 2, (2,), 3)]))]),
        theirs.Dict(b=theirs.Discrete(3, start=2), a=theirs.Box(0, 1, (2,))),
    ],
    ids=str,
)
def test_spaces_at_the_edges_are_flattened_as_gymnasium_does(space: Any) -> None:
    check_rows(space, 5)


def test_two_rows_of_a_nested_space() -> None:
    space = spaces.Dict(
        [
            ("z", spaces.Discrete(3, start=1)),
            ("a", spaces.Tuple([spaces.Box(0, 9, (2,)), spaces.MultiDiscrete([2, 3])])),
        ]
    )
    batch = {
        "z": np.array([2, 1]),
        "a": (np.array([[7, 8], [5, 6]], np.float32), np.array([[1, 0], [0, 2]])),
    }
    # z in the order of the space, start 1: 2 is the second of three and 1 the first; then 2 + 3 columns one-hot
    assert spaces.flatten_batch(space, batch).tolist() == [
        [0, 1, 0, 7, 8, 0, 1, 1, 0, 0],
        [1, 0, 0, 5, 6, 1, 0, 0, 0, 1],
    ]


def test_axes_of_a_part_are_joined_and_those_of_the_batch_are_not() -> None:
    batch = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    flat = spaces.flatten_batch(spaces.Box(0, 99, (2, 3)), batch)
    assert flat.tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    assert not np.shares_memory(flat, batch)


def test_what_comes_in_another_dtype_is_flattened_in_that_of_the_space() -> None:
    flat = spaces.flatten_batch(spaces.Box(0, 9, (2,)), np.array([[1, 2], [3, 4]]))
    assert flat.dtype == np.float32 and flat.tolist() == [[1, 2], [3, 4]]


def test_a_space_that_is_a_set_shows_its_padding_and_its_mask() -> None:
    space = spaces.MaskedBox(1, 9, (), 3)
    batch = spaces.concatenate(space, [space.pack([4, 5]), space.empty()])
    # elements, then the mask
    assert spaces.flatten_batch(space, batch).tolist() == [[4, 5, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0]]
