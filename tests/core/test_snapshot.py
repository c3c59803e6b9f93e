"""A snapshot has the same values and shares nothing that can change."""

from __future__ import annotations

import copy
from collections import OrderedDict, namedtuple
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.core.snapshot import snapshot
from tests.core.envs import same

arrays = st.lists(st.integers(-9, 9), min_size=1, max_size=4).map(np.array)
atoms = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.floats(width=32).map(np.float32)
).filter(lambda value: value == value)
values = st.recursive(
    st.one_of(atoms, arrays),
    lambda part: st.one_of(
        st.lists(part, max_size=3),
        st.lists(part, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), part, max_size=3),
    ),
    max_leaves=10,
)


def containers(value: Any) -> list[Any]:
    """Every array, dict and list in `value`, itself included."""
    if isinstance(value, dict):
        return [value, *(found for entry in value.values() for found in containers(entry))]
    if isinstance(value, (list, tuple)):
        inside = [found for entry in value for found in containers(entry)]
        return [value, *inside] if isinstance(value, list) else inside
    return [value] if isinstance(value, np.ndarray) else []


def wreck(value: Any) -> None:
    """Change everything in `value` that can change."""
    for container in containers(value):
        if isinstance(container, np.ndarray):
            container += 1
        else:
            container.clear()


@given(values)
def test_equal_at_any_depth_and_nothing_shared(value: Any) -> None:
    before = copy.deepcopy(value)
    taken = snapshot(value)
    assert same(taken, value)
    assert not {id(found) for found in containers(value)} & {id(found) for found in containers(taken)}
    wreck(value)
    assert same(taken, before)


def test_a_shallow_copy_would_be_found_out() -> None:
    value = {"book": {"bids": np.zeros(2)}}
    shallow = dict(value)
    wreck(value)
    assert not same(shallow, {"book": {"bids": np.zeros(2)}})


def test_an_array_that_is_a_view_is_copied_too() -> None:
    rows = np.arange(6.0).reshape(2, 3)
    taken = snapshot({"row": rows[0]})
    rows += 10
    assert taken["row"].tolist() == [0, 1, 2]


def test_the_same_array_twice_comes_apart() -> None:
    array = np.zeros(2)
    taken = snapshot([array, array])
    assert taken[0] is not array
    assert taken[0] is not taken[1]


@pytest.mark.parametrize("value", [{1, 2}, frozenset({1, 2}), np.array(3.0), np.array([], np.int8), b"x", 2 + 1j])
def test_sets_and_empty_arrays_keep_their_kind(value: Any) -> None:
    taken = snapshot(value)
    assert type(taken) is type(value)
    assert np.array_equal(taken, value) if isinstance(value, np.ndarray) else taken == value
    assert taken is not value or isinstance(value, (bytes, complex))


def test_a_subclass_of_dict_becomes_a_dict() -> None:
    value = OrderedDict(b=np.zeros(1), a=1)
    taken = snapshot(value)
    assert type(taken) is dict
    assert list(taken) == ["b", "a"]
    assert taken["b"] is not value["b"]


Pair = namedtuple("Pair", "left right")


def test_a_named_tuple_keeps_its_class_and_is_copied() -> None:
    value = Pair(np.zeros(1), {"x": np.zeros(1)})
    taken = snapshot(value)
    value.left[0] = value.right["x"][0] = 5
    assert type(taken) is Pair
    assert same(taken, Pair(np.zeros(1), {"x": np.zeros(1)}))


def test_the_sample_of_a_graph_space_is_copied() -> None:
    space = gymnasium.spaces.Graph(gymnasium.spaces.Box(0, 1, (2,)), None, seed=0)
    value: Any = space.sample(num_nodes=3)
    taken = snapshot(value)
    before = value.nodes.copy()
    value.nodes[:] = 7
    assert np.array_equal(taken.nodes, before)
    assert taken in space


def test_arrays_inside_an_array_of_objects_are_copied() -> None:
    value = np.empty((2, 1), object)
    value[0, 0], value[1, 0] = np.zeros(2), {"x": [1]}
    taken = snapshot(value)
    value[0, 0][:] = 5
    value[1, 0]["x"].append(2)
    assert taken.shape == (2, 1)
    assert taken[0, 0].tolist() == [0, 0]
    assert taken[1, 0] == {"x": [1]}


def test_objects_of_other_classes_are_handed_on() -> None:
    class Order:
        pass

    order = Order()
    assert snapshot({"order": order})["order"] is order
