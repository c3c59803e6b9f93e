"""Infos in gymnasium's form and back: masks, nesting, and entries that nobody filled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import VectorEnv
from hypothesis import example, given
from hypothesis import strategies as st

import sekai
from sekai.compat.vector_infos import to_columns, to_rows
from sekai.vector.infos import same_value

ALL = np.ones(3, bool)


class Poison:
    """Whoever copies, compares, prints or asks it is found out."""

    def refuse(self, *_: Any) -> Any:
        raise AssertionError("an unfilled entry was read")

    __copy__ = __deepcopy__ = __eq__ = __bool__ = __repr__ = __len__ = __iter__ = __float__ = __array__ = refuse
    __hash__ = None  # type: ignore[assignment]


def test_rows_become_arrays_with_masks() -> None:
    columns = to_columns([{"t": 1, "x": {"y": 3}}, {"t": 2}, {"t": 3, "name": None, "x": {"z": np.ones(2)}}])
    expected = {
        "t": np.array([1, 2, 3]),
        "_t": ALL,
        "x": {
            "y": np.array([3, 0, 0]),
            "_y": np.array([True, False, False]),
            "z": np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]),
            "_z": np.array([False, False, True]),
        },
        "_x": np.array([True, False, True]),
        "name": np.array([None, None, None], object),
        "_name": np.array([False, False, True]),
    }
    assert same_value(columns, expected)


def test_gymnasium_builds_the_same_from_the_same_rows() -> None:
    rows: list[dict[str, Any]] = [{"t": 1, "deep": {"r": 0.5}}, {"t": 2, "o": object}, {"t": 3, "deep": {"r": 1.5}}]
    theirs, env = {}, VectorEnv()
    env.num_envs = 3
    for slot, row in enumerate(rows):
        theirs = env._add_info(theirs, row, slot)
    assert same_value(to_columns(rows), theirs)
    assert to_rows(theirs, ALL) == rows


def test_a_number_that_turns_from_int_to_float_keeps_its_fraction() -> None:
    """Where gymnasium's array takes the type of the first one and cuts the others."""
    assert to_columns([{"x": 1}, {"x": 0.5}])["x"].tolist() == [1.0, 0.5]


def test_unfilled_entries_are_never_read() -> None:
    values = np.full(3, None, object)
    values[0], values[1], values[2] = Poison(), [1, 2], Poison()
    mask = np.array([False, True, False])
    columns = {"x": values, "_x": mask, "d": {"x": values, "n": np.array([np.nan, 5.0, np.nan])}, "_d": mask}
    assert to_rows(columns, ALL) == [{}, {"x": [1, 2], "d": {"x": [1, 2], "n": 5.0}}, {}]


def test_slots_outside_have_nothing_whatever_the_masks_say() -> None:
    columns = {"t": np.array([1, 2, 3]), "_t": ALL, "u": np.array([4, 5, 6])}
    assert to_rows(columns, np.array([False, True, False])) == [{}, {"t": 2, "u": 5}, {}]


def test_values_are_copies_and_python_scalars() -> None:
    columns = {"t": np.array([1, 2, 3]), "a": np.zeros((3, 2)), "s": ["x", "y", "z"], "all": {"k": [0.5]}, "one": 7}
    rows = to_rows(columns, ALL)
    assert type(rows[0]["t"]) is int
    rows[0]["a"][:] = 9.0
    assert columns["a"].sum() == 0.0  # type: ignore[attr-defined]
    assert [row["s"] for row in rows] == ["x", "y", "z"]
    assert [(row["one"], row["all"]) for row in rows] == [(7, {"k": [0.5]})] * 3


def test_a_key_that_only_begins_with_an_underscore_is_a_key() -> None:
    assert to_rows({"_t": np.array([1, 2, 3])}, ALL)[1] == {"_t": 2}
    assert to_rows({"t": np.array([1, 2, 3]), "_t": np.array([4, 5, 6])}, ALL)[1] == {"t": 2, "_t": 5}


def test_a_key_in_the_place_of_a_mask_is_refused() -> None:
    with pytest.raises(sekai.InvalidObservation) as refused:
        to_columns([{"t": 1, "_t": 2}])
    assert str(refused.value) == (
        "infos have the keys 't' and '_t', and in gymnasium's vector infos the second is the presence mask of the "
        "first: rename one of them."
    )


numbers = st.integers(-5, 5) | st.floats(-1, 1) | st.booleans() | st.text(max_size=3) | st.none()
infos = st.recursive(
    st.dictionaries(st.sampled_from("abc"), numbers, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abcde"), numbers | inner, max_size=3),
    max_leaves=6,
)


@example([{"a": "\x00"}])
@given(st.lists(infos, min_size=1, max_size=4))
def test_back_and_forth_is_the_identity(rows: list[dict[str, Any]]) -> None:
    assert to_rows(to_columns(rows), np.ones(len(rows), bool)) == rows
