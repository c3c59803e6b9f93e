"""Transforms of the `Box` parts of a space, and the rows that they hold in a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium.spaces as theirs
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sekai import spaces
from tests.spaces.strategies import all_spaces, equal, fixed_spaces

CAMERA = spaces.Box(0, 255, (2, 3), np.uint8)
ARM = spaces.Box(-1, 1, (2,))
CARDS = spaces.MaskedBox(1.0, 9.0, (2,), 3)


def nested() -> spaces.Dict:
    """A box at the top, in a tuple and in a set; between them parts that are none."""
    return spaces.Dict(
        [
            ("joints", spaces.Tuple([ARM, spaces.Discrete(3), spaces.Dict({"it's": spaces.Box(0, 9, ())})])),
            ("camera", CAMERA),
            ("cards", CARDS),
            ("word", theirs.Text(3)),
            ("list", spaces.Sequence(ARM)),
            ("bits", spaces.MultiBinary(2)),
        ]
    )


PLACES = ["['joints'][0]", "['joints'][2][\"it's\"]", "['camera']", "['cards']"]


def shifted(box: Any, place: str) -> tuple[spaces.Box, Callable[[NDArray[Any]], NDArray[Any]]]:
    """`10 + x / 2` as float64: another dtype, and no padding of zero would stay zero."""

    def half(x: Any) -> NDArray[Any]:
        return np.asarray(10.0 + np.asarray(x, np.float64) / 2)

    return spaces.Box(half(box.low), half(box.high), box.shape, np.float64), half


def with_boxes(space: Any) -> bool:
    return bool(list(spaces.boxes_of(space)))


def samples_of(space: Any, n: int) -> list[Any]:
    space.seed(1)
    return [space.sample() for _ in range(n)]


def test_the_boxes_of_a_space_come_with_their_places_in_its_order() -> None:
    found = list(spaces.boxes_of(nested()))
    assert [place for place, _ in found] == PLACES
    assert [box for _, box in found] == [ARM, spaces.Box(0, 9, ()), CAMERA, CARDS.element_space]
    assert list(spaces.boxes_of(ARM)) == [("", ARM)]
    assert list(spaces.boxes_of(spaces.Tuple([ARM]), "observation")) == [("observation[0]", ARM)]


def test_each_part_is_changed_once_with_its_place() -> None:
    seen: list[tuple[str, Any]] = []

    def change(box: Any, place: str) -> Any:
        seen.append((place, box))
        return shifted(box, place)

    space, _ = spaces.map_boxes(nested(), change)
    assert seen == list(spaces.boxes_of(nested()))
    assert [(place, box) for place, box in spaces.boxes_of(space)] == [(p, shifted(b, p)[0]) for p, b in seen]
    assert list(space.spaces) == ["joints", "camera", "cards", "word", "list", "bits"]  # type: ignore[attr-defined]


def test_a_sample_of_a_nested_space_part_by_part() -> None:
    arm, frame, drawn = np.array([-1, 1], np.float32), np.full((2, 3), 255, np.uint8), CARDS.pack([[2, 4]])
    bits, item = np.array([0, 1], np.int8), np.array([1, 0], np.float32)
    sample = {
        "joints": (arm, np.int64(2), {"it's": np.array(3, np.float32)}),
        "camera": frame,
        "cards": drawn,
        "word": "abc",
        "list": (item,),
        "bits": bits,
    }
    space, function = spaces.map_boxes(nested(), shifted)
    mapped = function(sample)
    assert list(mapped) == list(sample)
    # 10 - 1/2, 10 + 1/2; 10 + 3/2; 10 + 255/2; 10 + 2/2, 10 + 4/2, and zero where no card is
    assert mapped["joints"][0].tolist() == [9.5, 10.5]
    assert mapped["joints"][2]["it's"].tolist() == 11.5
    assert mapped["camera"].tolist() == [[137.5] * 3] * 2
    assert mapped["cards"]["elements"].tolist() == [[11.0, 12.0], [0.0, 0.0], [0.0, 0.0]]
    assert mapped["cards"]["mask"].tolist() == [1, 0, 0]
    # the rest is handed on, boxes inside a sequence included
    assert mapped["word"] == "abc" and mapped["list"][0] is item and mapped["bits"] is bits
    assert mapped["joints"][1] == 2
    assert mapped in space
    # and what was given has not changed
    assert arm.tolist() == [-1, 1] and drawn["elements"].tolist() == [[2, 4], [0, 0], [0, 0]]


def test_a_box_alone_is_changed_to_what_the_change_gives() -> None:
    space, function = spaces.map_boxes(ARM, shifted)
    assert repr(space) == "Box(9.5, 10.5, (2,), float64)"
    assert function(np.array([[0, 1], [1, 0]], np.float32)).tolist() == [[10.0, 10.5], [10.5, 10.0]]


def test_a_masked_box_stays_one_with_gaps_and_padding() -> None:
    space, function = spaces.map_boxes(CARDS, shifted)
    assert repr(space) == "MaskedBox(10.5, 14.5, (2,), max_size=3, float64)"
    elements = np.array([[2, 2], [0, 0], [4, 6]], np.float32)
    mask = np.array([1, 0, 1], np.int8)
    mapped = function({"elements": elements, "mask": mask})
    # 10 + 2/2, 10 + 4/2, 10 + 6/2; the row between is padding, not 10
    assert mapped["elements"].tolist() == [[11.0, 11.0], [0.0, 0.0], [12.0, 13.0]]
    assert mapped["mask"] is mask and mapped in space
    assert function(CARDS.empty())["elements"].tolist() == [[0.0, 0.0]] * 3


@pytest.mark.parametrize("sizes", [(4,), (4, 2)])
def test_a_space_that_is_a_batch_of_sets_becomes_a_batch_of_changed_sets(sizes: tuple[int, ...]) -> None:
    batched: Any = CARDS
    for n in sizes:
        batched = spaces.batch_space(batched, n)
    space, function = spaces.map_boxes(batched, shifted)
    expected: Any = spaces.map_boxes(CARDS, shifted)[0]
    for n in sizes:
        expected = spaces.batch_space(expected, n)
    assert space == expected and space.batch_shape == sizes[::-1]  # type: ignore[attr-defined]
    (sample,) = samples_of(batched, 1)
    assert function(sample) in space


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(2),
        spaces.Sequence(ARM),
        spaces.Tuple([]),
        spaces.Dict(a=spaces.MultiBinary(2), b=spaces.Tuple([theirs.Text(3)])),
    ],
    ids=str,
)
def test_a_space_without_a_box_is_refused(space: Any) -> None:
    with pytest.raises(TypeError) as raised:
        spaces.map_boxes(space, shifted)
    assert str(raised.value) == f"There is nothing to transform: {space} has no Box part."
    assert list(spaces.boxes_of(space)) == []


@pytest.mark.parametrize("sort_keys", [True, False])
def test_a_changed_dict_keeps_its_order_and_its_rule_of_sorting(sort_keys: bool) -> None:
    space, function = spaces.map_boxes(spaces.Dict({"z": ARM, "a": ARM}, sort_keys=sort_keys), shifted)
    assert isinstance(space, spaces.Dict) and space.sort_keys is sort_keys
    order = ["a", "z"] if sort_keys else ["z", "a"]
    assert list(space.spaces) == order and list(function({"z": np.zeros(2), "a": np.zeros(2)})) == order


def test_spaces_of_gymnasium_are_changed_too() -> None:
    space, function = spaces.map_boxes(theirs.Dict(a=theirs.Box(0, 2, (1,)), b=theirs.Discrete(2)), shifted)
    assert repr(space) == "Dict('a': Box(10.0, 11.0, (1,), float64), 'b': Discrete(2))"
    # 10 + 2/2
    assert function({"a": np.array([2.0]), "b": 1})["a"].tolist() == [11.0]


@settings(max_examples=80, deadline=None)
@given(all_spaces.filter(with_boxes), st.integers(1, 3))
def test_samples_are_changed_into_samples_and_batches_as_their_samples(space: Any, n: int) -> None:
    mapped, function = spaces.map_boxes(space, shifted)
    samples = samples_of(space, n)
    changed = [function(sample) for sample in samples]
    assert all(sample in mapped for sample in changed)
    batch = spaces.concatenate(space, samples)
    kept = spaces.finish_batch(space, spaces.copy_batch(space, batch))
    together = function(batch)
    assert together in spaces.batch_space(mapped, n)
    for i, sample in enumerate(changed):
        assert equal(spaces.read_row(mapped, together, i), sample)
    assert equal(batch, kept), "what is given is not written to"


@settings(max_examples=60, deadline=None)
@given(all_spaces.filter(with_boxes))
def test_places_and_parts_of_the_changed_space_are_those_of_the_space(space: Any) -> None:
    mapped, _ = spaces.map_boxes(space, shifted)
    found = list(spaces.boxes_of(space))
    assert list(spaces.boxes_of(mapped)) == [(place, shifted(box, place)[0]) for place, box in found]
    same, function = spaces.map_boxes(space, lambda box, place: (box, lambda values: values.copy()))
    assert same == space
    (sample,) = samples_of(space, 1)
    assert equal(function(sample), sample)


# Rows


def coded(n: int) -> dict[str, Any]:
    """A batch of `nested()` in which every number says its slot: `slot`, and `100 slot + place` for cards."""
    slots = np.arange(n)
    occupied = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]], np.int8)[slots]
    cards = np.zeros((n, 3, 2), np.float32)
    cards[...] = (100 * slots[:, None] + np.arange(3))[:, :, None]
    return {
        "joints": (np.stack([slots, slots + 0.5], 1), slots % 3, {"it's": 1000.0 + slots}),
        "camera": np.broadcast_to(slots[:, None, None], (n, 2, 3)).astype(np.uint8),
        "cards": {"elements": cards, "mask": occupied},
        "word": ("w",) * n,
        "list": ((),) * n,
        "bits": np.zeros((n, 2), np.int8),
    }


def test_a_box_has_a_row_per_slot_and_a_set_one_per_occupied_place() -> None:
    arm, number, camera, cards = spaces.box_rows(nested(), coded(4))
    assert arm.tolist() == [[0, 0.5], [1, 1.5], [2, 2.5], [3, 3.5]]
    assert number.tolist() == [1000, 1001, 1002, 1003]
    assert camera.shape == (4, 2, 3) and camera[:, 0, 0].tolist() == [0, 1, 2, 3]
    # slot 0: places 0 and 2; slot 1: none; slot 2: all; slot 3: place 1
    assert cards.tolist() == [[code, code] for code in (0, 2, 200, 201, 202, 301)]


@pytest.mark.parametrize(
    ("chosen", "cards"),
    [
        ([True, False, False, True], [0, 2, 301]),
        ([False, True, True, False], [200, 201, 202]),
        ([False, True, False, False], []),
        ([False, False, False, False], []),
        ([True, True, True, True], [0, 2, 200, 201, 202, 301]),
    ],
)
def test_of_chosen_slots_there_are_exactly_their_rows(chosen: list[bool], cards: list[int]) -> None:
    slots, batch = np.array(chosen), coded(4)
    arm, number, camera, drawn = spaces.box_rows(nested(), batch, slots)
    picked = [i for i in range(4) if chosen[i]]
    assert arm.tolist() == [[i, i + 0.5] for i in picked]
    assert number.tolist() == [1000 + i for i in picked]
    assert camera.shape == (len(picked), 2, 3) and camera[:, 1, 2].tolist() == picked
    assert drawn.tolist() == [[code, code] for code in cards] and drawn.shape == (len(cards), 2)
    assert batch["cards"]["mask"].tolist() == [[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]], "and it is only read"
    assert slots.tolist() == chosen


def test_sets_of_a_batched_space_are_read_sample_by_sample() -> None:
    pairs = CARDS.batched(2)  # a sample is two sets
    codes = np.arange(12, dtype=np.float32).reshape(2, 2, 3)  # slot, set, place
    elements = np.repeat(codes[..., None], 2, axis=-1)
    mask = np.array([[[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 0]]], np.int8)
    batch = {"elements": elements, "mask": mask}
    (rows,) = spaces.box_rows(pairs, batch)
    # slot 0: 0 of its first set, 4 of its second; slot 1: 6 + 2
    assert rows[:, 0].tolist() == [0, 4, 8]
    (rows,) = spaces.box_rows(pairs, batch, np.array([False, True]))
    assert rows[:, 0].tolist() == [8]


def test_a_space_without_a_box_has_no_rows() -> None:
    space = spaces.Dict(a=spaces.Discrete(2), b=spaces.Sequence(ARM))
    assert list(spaces.box_rows(space, {"a": np.zeros(2, int), "b": ((), ())})) == []


@settings(max_examples=80, deadline=None)
@given(fixed_spaces, st.lists(st.booleans(), min_size=1, max_size=4))
def test_rows_of_a_batch_are_those_of_its_samples_one_after_the_other(space: Any, chosen: list[bool]) -> None:
    boxes = [box for _, box in spaces.boxes_of(space)]
    assume(boxes)
    samples, slots = samples_of(space, len(chosen)), np.array(chosen)
    batch = spaces.concatenate(space, samples)
    found = list(spaces.box_rows(space, batch, slots))
    alone = [
        list(spaces.box_rows(space, spaces.concatenate(space, [sample])))
        for sample, wanted in zip(samples, chosen, strict=True)
        if wanted
    ]
    assert len(found) == len(boxes)
    for k, (rows, box) in enumerate(zip(found, boxes, strict=True)):
        assert rows.shape[1:] == box.shape and rows.dtype == box.dtype
        assert rows.tolist() == [row for parts in alone for row in parts[k].tolist()]
        assert all(np.asarray(row) in box for row in rows)
    everywhere = list(spaces.box_rows(space, batch, np.ones(len(chosen), bool)))
    assert all(map(equal, everywhere, spaces.box_rows(space, batch)))
