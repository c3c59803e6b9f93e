"""`MaskedBox`: padded sets that keep their meaning when sampled, batched, packed and flattened."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium.spaces as theirs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sekai import spaces
from sekai.errors import InvalidObservation
from tests.spaces.strategies import equal, masked_boxes

ORDERS = spaces.MaskedBox([1, 10], [2, 20], (2,), 4)  # price 1..2, size 10..20: zero is outside


def test_a_set_is_a_dict_of_padded_elements_and_a_mask() -> None:
    assert isinstance(ORDERS, theirs.Dict)
    assert list(ORDERS.spaces) == ["elements", "mask"]
    assert ORDERS["elements"].shape == (4, 2)
    assert ORDERS["elements"].low.tolist() == [[0, 0]] * 4
    assert ORDERS["elements"].high.tolist() == [[2, 20]] * 4
    assert ORDERS["mask"] == theirs.MultiBinary(4)


def test_packing_fills_the_first_rows() -> None:
    packed = ORDERS.pack([[1, 10], [2, 15]])
    assert packed["elements"].tolist() == [[1, 10], [2, 15], [0, 0], [0, 0]]
    assert packed["mask"].tolist() == [1, 1, 0, 0]
    assert (packed["elements"].dtype, packed["mask"].dtype) == (np.float32, np.int8)
    assert packed in ORDERS
    assert equal(ORDERS.pack([]), ORDERS.empty())
    assert ORDERS.empty() in ORDERS


def test_unpacking_takes_the_occupied_rows_of_a_mask_with_gaps() -> None:
    x = {"elements": np.array([[1, 10], [0, 0], [2, 20], [0, 0]], np.float32), "mask": np.array([1, 0, 1, 0])}
    assert x in ORDERS
    rows = ORDERS.unpack(x)
    assert rows.tolist() == [[1, 10], [2, 20]]
    assert not np.shares_memory(rows, x["elements"])


@settings(max_examples=50, deadline=None)
@given(masked_boxes, st.data())
def test_unpack_inverts_pack(space: spaces.MaskedBox, data: Any) -> None:
    element = space.element_space
    k = data.draw(st.integers(0, space.max_size))
    low, high = float(element.low.min()), float(element.high.max())
    values = st.floats(low, high, width=32)
    rows = data.draw(arrays.arrays(np.float32, (k, *element.shape), elements=values))
    packed = space.pack(rows)
    assert packed in space
    assert equal(space.unpack(packed), rows)


@settings(max_examples=50, deadline=None)
@given(masked_boxes, st.integers(1, 3), st.integers(0, 99))
def test_samples_are_in_the_space_and_rows_of_a_batch_in_the_single_space(
    space: spaces.MaskedBox, n: int, seed: int
) -> None:
    space.seed(seed)
    assert space.sample() in space
    batched = spaces.batch_space(space, n)
    batch = batched.sample()
    assert batch in batched
    assert all(row in space for row in spaces.iterate(space, batch))
    twice = spaces.batch_space(batched, 2)
    assert twice["mask"].shape == (2, n, space.max_size)
    assert twice.sample() in twice


def test_all_sizes_are_drawn_and_elements_fill_their_bounds() -> None:
    ORDERS.seed(0)
    samples = [ORDERS.sample() for _ in range(500)]
    sizes = [int(x["mask"].sum()) for x in samples]
    # uniform on 0..4: 100 of each expected, standard deviation sqrt(500 * .2 * .8) = 9
    assert all(60 < sizes.count(size) < 140 for size in range(5))
    assert all((np.diff(x["mask"]) <= 0).all() for x in samples)
    rows = np.concatenate([ORDERS.unpack(x) for x in samples])
    assert rows.min(axis=0) == pytest.approx([1, 10], abs=0.2)
    assert rows.max(axis=0) == pytest.approx([2, 20], abs=0.2)


@pytest.mark.parametrize(
    "change",
    [
        {"elements": np.array([[0, 0], [2, 15], [0, 0], [0, 0]], np.float32)},  # occupied row below low
        {"elements": np.array([[1, 21], [2, 15], [0, 0], [0, 0]], np.float32)},  # occupied row above high
        {"elements": np.array([[1, np.nan], [2, 15], [0, 0], [0, 0]], np.float32)},
        {"elements": np.array([[1, 10], [2, 15], [1, 10], [0, 0]], np.float32)},  # padding not zero
        {"elements": np.array([[1, 10], [2, 15], [0, np.nan], [0, 0]], np.float32)},
        {"elements": np.array([[1, 10], [2, 15], [0, 0]], np.float32)},
        {"elements": np.array([[1, 10], [2, 15], [0, 0], [0, 0]], np.float64)},
        {"mask": np.array([1, 2, 0, 0], np.int8)},
        {"mask": np.array([1, 1, 0], np.int8)},
        {"extra": 0},
    ],
)
def test_a_broken_set_is_not_in_the_space(change: dict[str, Any]) -> None:
    whole = ORDERS.pack([[1, 10], [2, 15]])
    assert whole in ORDERS
    assert whole | change not in ORDERS
    batch = {key: np.stack([value, value]) for key, value in whole.items()}
    batched = spaces.batch_space(ORDERS, 2)
    assert batch in batched
    if "extra" not in change:
        ((key, value),) = change.items()
        if value.shape == whole[key].shape and value.dtype == whole[key].dtype:
            batch[key][1] = value
            assert batch not in batched


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 10]] * 5, "MaskedBox holds at most 4 elements, got 5; raise max_size."),
        ([[1, 10, 1]], "MaskedBox elements must have shape (2,), got rows of shape (3,)."),
        ([1, 2], "MaskedBox elements must have shape (2,), got rows of shape ()."),
        ([[1, 10], [1]], "MaskedBox elements must all have shape (2,), the rows given differ in shape."),
        ([[1, 10], [3, 10]], "MaskedBox element 1 is outside"),
        ([[1, np.nan]], "MaskedBox element 0 is outside"),
        ([["a", "b"]], "MaskedBox elements are float32, which <U1 does not cast to."),
    ],
    ids=str,
)
def test_rows_that_do_not_fit_are_refused(rows: Any, message: str) -> None:
    with pytest.raises(InvalidObservation) as raised:
        ORDERS.pack(rows)
    assert message in str(raised.value)


def test_an_integer_too_large_for_the_dtype_does_not_wrap_into_the_bounds() -> None:
    space = spaces.MaskedBox(0, 10, (), 2, dtype=np.int8)
    with pytest.raises(InvalidObservation, match="element 0 is outside"):
        space.pack([256 + 5])
    assert space.pack([5])["elements"].tolist() == [5, 0]


def test_float64_rows_at_a_rounded_bound_are_inside() -> None:
    space = spaces.MaskedBox(0.0, 0.1, (), 1)  # float32(0.1) is above the float64 0.1
    below = spaces.MaskedBox(0.0, 0.7, (), 1)  # float32(0.7) is below the float64 0.7
    assert space.pack([0.1])["elements"][0] == np.float32(0.1)
    assert below.pack([0.7])["elements"][0] == np.float32(0.7)


def test_packing_into_a_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="pack works on one set"):
        spaces.batch_space(ORDERS, 2).pack([])


def test_sampling_masks_say_which_rows_are_occupied() -> None:
    mask = {"elements": None, "mask": np.array([0, 1, 0, 1], np.int8)}
    x = ORDERS.sample(mask=mask)
    assert x["mask"].tolist() == [0, 1, 0, 1]
    assert x in ORDERS
    sure = {"elements": None, "mask": np.array([0.0, 0.0, 1.0, 0.0])}
    assert ORDERS.sample(probability=sure)["mask"].tolist() == [0, 0, 1, 0]
    with pytest.raises(ValueError, match="not both"):
        ORDERS.sample(mask=mask, probability=sure)
    with pytest.raises(ValueError, match=r"takes \{'elements': None"):
        ORDERS.sample(mask={"mask": mask["mask"]})


def test_copies_and_equality() -> None:
    for duplicate in (copy.deepcopy(ORDERS), pickle.loads(pickle.dumps(ORDERS))):
        assert duplicate == ORDERS
        assert equal(duplicate.sample(), copy.deepcopy(ORDERS).sample())
    # the same padded spaces, another meaning
    assert spaces.MaskedBox(1, 2, (), 3) != spaces.MaskedBox(0, 2, (), 3)
    assert spaces.MaskedBox(1, 2, (), 3)["elements"] == spaces.MaskedBox(0, 2, (), 3)["elements"]
    plain = theirs.Dict(elements=ORDERS["elements"], mask=ORDERS["mask"])
    assert plain.__eq__(ORDERS)
    assert ORDERS.__eq__(plain)
    assert spaces.readable(ORDERS) is ORDERS


def test_flattening_keeps_the_set() -> None:
    x = ORDERS.pack([[1, 10]])
    assert spaces.flatdim(ORDERS) == 4 * 2 + 4
    flat = spaces.flatten(ORDERS, x)
    assert flat.tolist() == [1, 10, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert flat in spaces.flatten_space(ORDERS)
    assert equal(spaces.unflatten(ORDERS, flat), x)
