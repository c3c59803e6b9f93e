"""Flattening, and naming the difference between two spaces."""

from __future__ import annotations

from typing import Any

import gymnasium.spaces as theirs
import numpy as np
import pytest
from hypothesis import given, settings

from sekai import spaces
from tests.spaces.strategies import all_spaces, equal, fixed_spaces


@settings(max_examples=100, deadline=None)
@given(fixed_spaces)
def test_unflatten_inverts_flatten(space: Any) -> None:
    space.seed(2)
    sample = space.sample()
    flat = spaces.flatten(space, sample)
    assert flat.shape == (spaces.flatdim(space),)
    assert flat in spaces.flatten_space(space)
    assert equal(spaces.unflatten(space, flat), sample)


def test_discrete_parts_become_one_hot_in_the_order_of_the_space() -> None:
    space = spaces.Dict([("z", spaces.Discrete(3, start=1)), ("a", spaces.Box(0, 9, (2,)))])
    # start 1: the value 2 is the second of three
    assert spaces.flatten(space, {"z": 2, "a": np.array([7, 8], np.float32)}).tolist() == [0, 1, 0, 7, 8]
    assert repr(spaces.flatten_space(space)) == "Box(0.0, [1.0, 1.0, 1.0, 9.0, 9.0], (5,), float64)"


def test_a_space_without_a_fixed_size_flattens_item_by_item() -> None:
    space = spaces.Sequence(spaces.Discrete(2))
    assert [x.tolist() for x in spaces.flatten(space, (0, 1))] == [[1, 0], [0, 1]]
    assert repr(spaces.flatten_space(space)) == "Sequence(Box(0, 1, (2,), int64))"
    with pytest.raises(ValueError, match="cannot be flattened"):
        spaces.flatdim(space)


LONG = np.arange(12.0)
BENT = np.where(LONG == 5, 5.5, LONG)


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (spaces.Box(0, 1), spaces.Discrete(2), "type Box and Discrete"),
        (spaces.Box(0, 1), theirs.Box(0, 2), "high 1.0 and 2.0"),
        (spaces.Box(0, 1, (2,)), spaces.Box(0, 1, (3,)), "shape (2,) and (3,)"),
        (spaces.Box(0, 1), spaces.Box(0, 1, dtype=np.float64), "dtype float32 and float64"),
        (spaces.Box(LONG, 20), spaces.Box(BENT, 20), "low[5] 5.0 and 5.5"),
        (spaces.Discrete(2), spaces.Discrete(3), "n 2 and 3"),
        (spaces.Discrete(2), spaces.Discrete(2, start=1), "start 0 and 1"),
        (spaces.MultiDiscrete([2, 3]), spaces.MultiDiscrete([2, 4]), "nvec [2, 3] and [2, 4]"),
        (spaces.MultiBinary(2), spaces.MultiBinary(3), "shape (2,) and (3,)"),
        (spaces.Dict(a=spaces.Discrete(2)), spaces.Dict(b=spaces.Discrete(2)), "keys ['a'] and ['b']"),
        (
            spaces.Dict(a=spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)])),
            spaces.Dict(a=spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])),
            "at ['a'][1]: n 2 and 3",
        ),
        (spaces.Tuple([spaces.Discrete(2)]), spaces.Tuple([]), "length 1 and 0"),
        (
            spaces.Sequence(spaces.Discrete(2)),
            spaces.Sequence(spaces.Discrete(2), stack=True),
            "stack False and True",
        ),
        (spaces.Sequence(spaces.Discrete(2)), spaces.Sequence(spaces.Discrete(3)), "at items: n 2 and 3"),
        (spaces.MaskedBox(1, 2, (), 3), spaces.MaskedBox(1, 2, (), 4), "max_size 3 and 4"),
        (spaces.MaskedBox(1, 2, (), 3), spaces.MaskedBox(0, 2, (), 3), "at elements: low 1.0 and 0.0"),
        (theirs.Text(3), theirs.Text(4), f"{theirs.Text(3)!r} and {theirs.Text(4)!r}"),
    ],
    ids=str,
)
def test_the_first_difference_is_named(a: Any, b: Any, text: str) -> None:
    assert spaces.describe_mismatch(a, b) == text
    assert "\n" not in text


@settings(max_examples=60, deadline=None)
@given(all_spaces, all_spaces)
def test_there_is_a_difference_exactly_where_spaces_are_unequal(a: Any, b: Any) -> None:
    assert (spaces.describe_mismatch(a, b) is None) is bool(a == b)
    assert spaces.describe_mismatch(a, a) is None
