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
from tests.spaces.strategies import all_spaces, equal, fixed_spaces

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


INDICES = st.lists(st.integers(0, 3), max_size=5)


def batch_of(space: Any, n: int) -> tuple[list[Any], Any]:
    space.seed(1)
    samples = [space.sample() for _ in range(n)]
    return samples, spaces.concatenate(space, samples)


def leaves_of(batch: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(batch, dict):
        return [leaf for part in batch.values() for leaf in leaves_of(part)]
    if isinstance(batch, (tuple, list)):
        return [leaf for part in batch for leaf in leaves_of(part)]
    return [batch]


@settings(max_examples=80, deadline=None)
@given(all_spaces, INDICES)
def test_rows_taken_are_the_batch_of_their_samples(space: Any, indices: list[int]) -> None:
    samples, batch = batch_of(space, 4)
    kept = spaces.finish_batch(space, spaces.copy_batch(space, batch))
    taken = spaces.take_rows(space, batch, np.array(indices, np.intp))
    # in the order of the indices, repeated where they repeat
    assert equal(taken, spaces.concatenate(space, [samples[i] for i in indices]))
    for leaf in leaves_of(taken):
        if isinstance(leaf, np.ndarray):  # a single number of a sequence is none
            leaf[...] = 0
    assert equal(batch, kept), "no memory is shared"


@settings(max_examples=80, deadline=None)
@given(all_spaces, st.permutations(range(4)), st.integers(0, 4))
def test_rows_put_stand_in_their_places_and_the_others_stay(space: Any, order: list[int], k: int) -> None:
    samples, batch = batch_of(space, 4)
    target, places = spaces.copy_batch(space, batch), order[:k]
    news = [space.sample() for _ in places]
    spaces.put_rows(target, np.array(places, np.intp), spaces.concatenate(space, news))
    expected = list(samples)
    for place, new in zip(places, news, strict=True):
        expected[place] = new
    assert equal(spaces.finish_batch(space, target), spaces.concatenate(space, expected))


@settings(max_examples=40, deadline=None)
@given(all_spaces, st.permutations(range(4)))
def test_rows_taken_apart_and_put_together_are_the_batch(space: Any, order: list[int]) -> None:
    _, batch = batch_of(space, 4)
    target = spaces.empty_batch(space, 4)
    for part in (order[:1], order[1:]):
        indices = np.array(part, np.intp)
        spaces.put_rows(target, indices, spaces.take_rows(space, batch, indices))
    assert equal(spaces.finish_batch(space, target), batch)


def test_rows_are_put_in_the_order_given_and_not_at_their_own_indices() -> None:
    space = spaces.Dict(x=BOX, w=theirs.Text(3))
    target = spaces.empty_batch(space, 4)
    rows = spaces.concatenate(space, [{"x": [1, 10], "w": "one"}, {"x": [2, 20], "w": "two"}])
    spaces.put_rows(target, np.array([3, 1]), rows)
    # copy_rows would read rows 3 and 1 of the source
    assert target["x"].tolist() == [[0, 0], [2, 20], [0, 0], [1, 10]]
    assert target["w"] == [None, "two", None, "one"]


def test_too_few_rows_are_not_put() -> None:
    for space in (BOX, theirs.Text(3)):
        target = spaces.empty_batch(space, 3)
        rows = spaces.take_rows(space, spaces.finish_batch(space, target), np.array([0, 1]))
        with pytest.raises(ValueError):
            spaces.put_rows(target, np.array([0, 1, 2]), rows)


def test_samples_taken_from_lists_are_copies() -> None:
    item = np.array([1, 2], np.float32)
    space = spaces.Sequence(BOX)
    (taken,) = spaces.take_rows(space, ((item,), ()), np.array([0]))
    taken[0][:] = 5
    assert item.tolist() == [1, 2]


@settings(max_examples=60, deadline=None)
@given(fixed_spaces, st.integers(1, 3))
def test_a_function_of_the_arrays_is_taken_place_by_place(space: Any, n: int) -> None:
    _, batch = batch_of(space, n)
    kept = spaces.copy_batch(space, batch)
    seen: list[Any] = []

    def note(array: Any) -> Any:
        seen.append(array)
        return array.copy()

    assert equal(spaces.map_arrays(note, batch), batch)
    assert len(seen) == len(leaves_of(batch)) and all(a is b for a, b in zip(seen, leaves_of(batch), strict=True))
    _, other = batch_of(space, n)
    doubled = spaces.map_arrays(lambda a, b: np.stack([a, b], axis=1), batch, other)
    for first, second in ((batch, 0), (other, 1)):
        assert equal(spaces.map_arrays(lambda array, at=second: array[:, at].copy(), doubled), first)
    assert equal(batch, kept)


def test_a_function_of_two_nested_batches() -> None:
    a = {"z": np.array([1, 2]), "a": (np.array([[3.0], [4.0]]), {"b": np.array([5, 6])})}
    b = {"a": (np.array([[30.0], [40.0]]), {"b": np.array([50, 60])}), "z": np.array([10, 20])}
    added = spaces.map_arrays(np.add, a, b)
    # by key, whatever the order of the keys, which is that of the first
    assert list(added) == ["z", "a"] and isinstance(added["a"], tuple)
    assert added["z"].tolist() == [11, 22]
    assert added["a"][0].tolist() == [[33.0], [44.0]] and added["a"][1]["b"].tolist() == [55, 66]
    assert repr(spaces.map_arrays(len, a)) == "{'z': 2, 'a': (2, {'b': 2})}", "what it gives is taken as it is"


def test_batches_of_different_structure_have_no_common_function() -> None:
    with pytest.raises(ValueError):
        spaces.map_arrays(np.add, (np.zeros(1), np.zeros(1)), (np.zeros(1),))
    with pytest.raises(KeyError):
        spaces.map_arrays(np.add, {"a": np.zeros(1)}, {"b": np.zeros(1)})
