"""Batches of samples: written, read, copied and iterated one sub-environment at a time."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import gymnasium.spaces as theirs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai import spaces
from sekai.errors import InvalidAction, InvalidObservation
from tests.spaces.strategies import all_spaces, equal

BOX = spaces.Box(-9, 9, (2,))


@settings(max_examples=80, deadline=None)
@given(all_spaces, st.integers(1, 3))
def test_writing_then_reading_gives_the_samples_back(space: Any, n: int) -> None:
    space.seed(1)
    samples = [space.sample() for _ in range(n)]
    batch = spaces.concatenate(space, samples)
    assert batch in spaces.batch_space(space, n)
    assert all(equal(spaces.read_row(space, batch, i), samples[i]) for i in range(n))
    assert all(map(equal, spaces.iterate(space, batch), samples))
    assert equal(spaces.finish_batch(space, spaces.copy_batch(space, batch)), batch)


def test_containers_follow_the_space() -> None:
    part = spaces.Tuple([spaces.Discrete(2, dtype=np.int8), theirs.Text(3)])
    space = spaces.Dict([("z", BOX), ("a", part)])
    batch = spaces.empty_batch(space, 2)
    assert list(batch) == ["z", "a"]
    assert (batch["z"].shape, batch["z"].dtype) == ((2, 2), np.float32)
    assert (batch["a"][0].shape, batch["a"][0].dtype) == ((2,), np.int8)
    assert batch["a"][1] == [None, None]
    for i, word in enumerate(["no", "yes"]):
        spaces.write_row(space, batch, i, OrderedDict(a=(i, word), z=[10 * i, 10 * i + 1]))
    finished = spaces.finish_batch(space, batch)
    assert finished["a"][1] == ("no", "yes")
    assert finished["z"] is batch["z"]
    assert finished["z"].tolist() == [[0, 1], [10, 11]]
    row = spaces.read_row(space, finished, 1)
    assert list(row) == ["z", "a"]
    assert isinstance(row["a"], tuple)
    assert isinstance(row["a"][0], np.int8)


def test_a_row_is_written_in_its_place_and_only_there() -> None:
    batch = spaces.empty_batch(BOX, 3)
    spaces.write_row(BOX, batch, 1, np.array([4, 5], np.float32))
    assert batch.tolist() == [[0, 0], [4, 5], [0, 0]]


@pytest.mark.parametrize(
    ("space", "value", "stored"),
    [
        (BOX, np.array([1, 2], np.float64), [1, 2]),
        (BOX, [1, 2.5], [1, 2.5]),
        (BOX, (True, False), [1, 0]),
        (BOX, [np.nan, np.inf], [np.nan, np.inf]),
        (BOX, np.array([100, 200]), [100, 200]),
        (spaces.Box(0, 1, ()), 0.5, 0.5),
        (spaces.Box(0, 1, ()), np.array(0.5), 0.5),
        (spaces.Box(0, 255, (2,), np.uint8), [0, 255], [0, 255]),
        (spaces.Box(0, 255, (2,), np.uint8), np.array([0, 255], np.uint16), [0, 255]),
        (spaces.Discrete(3), 2, 2),
        (spaces.Discrete(3), True, 1),
        (spaces.Discrete(3), np.int8(2), 2),
        (spaces.Discrete(3, dtype=np.int8), np.array(2), 2),
        (spaces.MultiBinary(2), [1, 0], [1, 0]),
    ],
    ids=str,
)
def test_what_casts_by_same_kind_is_stored_in_the_dtype_of_the_space(space: Any, value: Any, stored: Any) -> None:
    batch = spaces.empty_batch(space, 2)
    spaces.write_row(space, batch, 1, value)
    assert batch.dtype == space.dtype
    np.testing.assert_array_equal(batch[1], stored)


@pytest.mark.parametrize(
    ("space", "value", "message"),
    [
        (
            BOX,
            np.zeros(3),
            "sub-env 1: observation must have shape (2,) and a dtype that casts to float32, "
            "got shape (3,) and dtype float64.",
        ),
        (BOX, np.zeros(1, np.float32), "got shape (1,) and dtype float32."),
        (BOX, np.zeros((1, 2), np.float32), "got shape (1, 2) and dtype float32."),
        (BOX, 1.0, "got shape () and dtype float64."),
        (BOX, None, "got shape () and dtype object."),
        (BOX, [[1], [2, 3]], "which is no regular array."),
        (BOX, ["a", "b"], "got shape (2,) and dtype <U1."),
        (BOX, np.zeros(2, complex), "got shape (2,) and dtype complex128."),
        (
            spaces.Box(0, 9, (1,), np.int64),
            np.array([1.5]),
            "casts to int64, got shape (1,) and dtype float64.",
        ),
        (spaces.Box(0, 9, (1,), np.uint8), np.array([1]), "casts to uint8, got shape (1,) and dtype int64."),
        (spaces.Box(0, 9, (1,), np.uint8), [-1], "must hold integers from 0 to 255 (uint8), got -1."),
        (spaces.Box(0, 9, (2,), np.int8), np.array([0, 300]), "integers from -128 to 127 (int8), got 300."),
        (spaces.Discrete(3), 1.0, "must have shape () and a dtype that casts to int64"),
        (spaces.Discrete(3), np.array([1]), "got shape (1,) and dtype int64."),
        (spaces.Discrete(3, dtype=np.int8), 300, "integers from -128 to 127 (int8), got 300."),
        (spaces.Discrete(3), 2**70, "got shape () and dtype object."),
        (
            spaces.Dict(a=BOX, b=BOX),
            {"a": [1, 2], "c": [1, 2]},
            "sub-env 1: observation must have the keys ['a', 'b'], got missing ['b'], extra ['c'].",
        ),
        (spaces.Dict(a=BOX), [1, 2], "must be a dict with the keys ['a'], got [1, 2] (list)."),
        (
            spaces.Dict(a=spaces.Tuple([BOX])),
            {"a": [[1]]},
            "sub-env 1: observation['a'][0] must have shape (2,)",
        ),
        (spaces.Tuple([BOX, BOX]), ([1, 2],), "must be a tuple of length 2, got length 1."),
        (spaces.Tuple([BOX, BOX]), np.zeros((2, 2)), "must be a tuple of length 2, got array"),
        (spaces.Sequence(BOX), 3, "sub-env 1: observation must be a tuple, got 3 (int)."),
        (spaces.Sequence(BOX), ([1, 2], [1]), "sub-env 1: observation[1] must have shape (2,)"),
        (
            spaces.Dict(s=spaces.Sequence(spaces.Dict(x=BOX))),
            {"s": ({"x": [1, 2]}, {"x": [1]})},
            "sub-env 1: observation['s'][1]['x'] must have shape (2,)",
        ),
    ],
    ids=str,
)
def test_anything_else_is_refused_by_name_and_never_broadcast(space: Any, value: Any, message: str) -> None:
    batch = spaces.empty_batch(space, 2)
    with pytest.raises(InvalidObservation) as raised:
        spaces.write_row(space, batch, 1, value)
    assert message in str(raised.value)


def test_a_refused_array_leaves_the_row_as_it_was() -> None:
    batch = np.full((2, 2), 7, np.float32)
    with pytest.raises(InvalidObservation):
        spaces.write_row(BOX, batch, 0, np.zeros(1))
    assert (batch == 7).all()


def test_a_refused_action_is_called_one() -> None:
    with pytest.raises(InvalidAction, match=r"sub-env 1: action must have shape \(\)"):
        spaces.concatenate(spaces.Discrete(2), [0, 0.5], what="action")


def test_a_row_writer_serves_all_rows() -> None:
    write = spaces.row_writer(BOX)
    batch = spaces.empty_batch(BOX, 3)
    for i in range(3):
        write(batch, i, np.array([i, 10 * i], np.float32))
    assert batch.tolist() == [[0, 0], [1, 10], [2, 20]]


def test_no_memory_is_shared_with_what_was_written_or_read() -> None:
    space = spaces.Dict(x=BOX, s=spaces.Sequence(BOX), o=theirs.OneOf([BOX]))
    given_x, item, chosen = (np.array([1, 2], np.float32) for _ in range(3))
    batch = spaces.concatenate(space, [{"x": given_x, "s": (item,), "o": (0, chosen)}])
    copied = spaces.copy_batch(space, batch)
    row = spaces.read_row(space, batch, 0)
    given_x[:], item[:], chosen[:] = 5, 5, 5
    for holder in (copied["x"][0], copied["s"][0][0], copied["o"][0][1], row["x"], row["s"][0], row["o"][1]):
        assert holder.tolist() == [1, 2]
        holder[:] = 6
    assert batch["x"].tolist() == [[1, 2]]
    assert batch["s"][0][0].tolist() == [1, 2]
    assert batch["o"][0][1].tolist() == [1, 2]


def test_iteration_gives_views() -> None:
    for space, value in ((BOX, [1, 2]), (spaces.Box(0, 9, ()), 3)):
        batch = spaces.concatenate(space, [value, value])
        rows = list(spaces.iterate(space, batch))
        assert all(np.shares_memory(row, batch) for row in rows)
        assert [row in space for row in rows] == [True, True]


def test_items_of_a_sequence_take_the_dtype_of_their_space() -> None:
    (row,) = spaces.concatenate(spaces.Sequence(BOX), [[[1, 2], np.zeros(2, np.float64)]])
    assert isinstance(row, tuple)
    assert [item.dtype for item in row] == [np.float32, np.float32]
    (stacked,) = spaces.concatenate(spaces.Sequence(BOX, stack=True), [np.zeros((3, 2))])
    assert (stacked.dtype, stacked.shape) == (np.float32, (3, 2))
