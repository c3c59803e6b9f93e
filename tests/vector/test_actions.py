"""Action batches are checked once; every refusal names what was given, what was expected and the slot (U62)."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai
from sekai.vector.actions import check_actions

DISCRETE = sekai.Discrete(5)
BOX = sekai.Box(-1.0, 1.0, (2,))
BYTES = sekai.Box(0, 255, (2,), np.uint8)
BITS = sekai.MultiBinary(2)
GRID = sekai.MultiDiscrete([3, 4])
DICT = sekai.Dict({"go": DISCRETE, "by": BOX})
PAIR = sekai.Tuple((DISCRETE, BOX))
NAN, INF = np.nan, np.inf


def refusal(space: Any, actions: Any, n: int = 3) -> str:
    with pytest.raises(sekai.InvalidAction) as caught:
        check_actions(space, actions, n)
    return str(caught.value)


@pytest.mark.parametrize(
    ("space", "actions", "text"),
    [
        (
            BOX,
            np.zeros((2, 3)),
            "The action batch has shape (2, 3); expected (3, 2), one row for each of 3 sub-envs with "
            "Box(-1.0, 1.0, (2,), float32).",
        ),
        (BOX, np.zeros(6), "The action batch has shape (6,); expected (3, 2), one row for each of 3 sub-envs"),
        (BOX, np.zeros((3, 2, 1)), "The action batch has shape (3, 2, 1); expected (3, 2)"),
        (
            DISCRETE,
            np.zeros((3, 1), int),
            "The action batch has shape (3, 1); expected (3,), one row for each of 3 sub-envs with Discrete(5).",
        ),
        (
            DISCRETE,
            np.int64(1),
            "The action batch must be an array of shape (3,) or a list of actions, one for each of 3 "
            "sub-envs with Discrete(5).",
        ),
        (DISCRETE, None, "The action batch must be an array of shape (3,) or a list of actions"),
        (DISCRETE, [0, 1], "The action batch has 2 entries; expected 3, one per sub-env."),
        (DISCRETE, [], "The action batch has 0 entries; expected 3, one per sub-env."),
        (BOX, [[0, 0, 0], [0, 0, 0]], "The action batch has 2 entries; expected 3, one per sub-env."),
        (
            DISCRETE,
            np.zeros(3),
            "The action batch has dtype float64: Discrete(5) takes integers; convert the actions to "
            "int64 (sub-env 0 is the first bad one).",
        ),
        (DISCRETE, np.zeros(3, bool), "The action batch has dtype bool: Discrete(5) takes integers"),
        (
            DISCRETE,
            [0, 1.0, 2],
            "The action of sub-env 1 is 1.0 (float64): Discrete(5) takes integers; convert the actions to int64.",
        ),
        (DISCRETE, [0, 1, True], "The action of sub-env 2 is True (bool): Discrete(5) takes integers"),
        (DISCRETE, [0, "1", 2], "The action of sub-env 1 is '1'; expected a member of Discrete(5)."),
        (DISCRETE, [0, None, 2], "The action of sub-env 1 is None; expected a member of Discrete(5)."),
        (DISCRETE, [0, [1], 2], "The action of sub-env 1 is [1]; expected a member of Discrete(5)."),
        (DISCRETE, [0, 1, 2**64], f"The action of sub-env 2 is {2**64}; expected a member of Discrete(5)."),
        (DISCRETE, [0, 1, 2**63], f"The action of sub-env 2 is {2**63}, which int64 cannot hold."),
        (DISCRETE, np.array([0, 2**63, 1], np.uint64), f"The action of sub-env 1 is {2**63}, which int64 cannot hold."),
        (BYTES, np.array([[1, 2], [3, 300], [4, 5]]), "The action of sub-env 1 is [  3 300], which uint8 cannot hold."),
        (BYTES, np.array([[1, 2], [3, 4], [-1, 5]]), "The action of sub-env 2 is [-1  5], which uint8 cannot hold."),
        (BYTES, np.zeros((3, 2)), "The action batch has dtype float64: Box(0, 255, (2,), uint8) takes integers"),
        (BOX, np.array([[0, 0], [0, NAN], [NAN, 0]]), "The action of sub-env 1 is [ 0. nan]; expected finite numbers."),
        (BOX, [[0, 0], [0, 0], [INF, 0]], "The action of sub-env 2 is [inf  0.]; expected finite numbers."),
        (BOX, np.array([[0, 0], [0, 1e300], [0, 0]]), "The action of sub-env 1 is [0.e+000 1.e+300]; expected finite"),
        (
            BOX,
            np.zeros((3, 2), bool),
            "The action batch has dtype bool: Box(-1.0, 1.0, (2,), float32) takes floats or ints",
        ),
        (BOX, np.zeros((3, 2), complex), "The action batch has dtype complex128"),
        (
            BOX,
            [[0, 0], [0], [0, 0]],
            "The action of sub-env 1 is [0]; expected a member of Box(-1.0, 1.0, (2,), float32).",
        ),
        (BOX, [[0, 0], [[0], [0, 1]], [0, 0]], "The action of sub-env 1 is [[0], [0, 1]]; expected a member of Box"),
        (BOX, [0.0, 0.0, 0.0], "The action of sub-env 0 is 0.0; expected a member of Box"),
        (GRID, np.zeros((3, 2)), "The action batch has dtype float64: MultiDiscrete([3, 4]) takes integers"),
        (GRID, np.zeros((2, 3), int), "The action batch has shape (2, 3); expected (3, 2)"),
        (BITS, np.zeros((3, 2)), "The action batch has dtype float64: MultiBinary(2) takes integers"),
        (DICT, {"go": [0, 1, 2]}, "The keys of the action batch do not fit Dict("),
        (DICT, {"go": [0] * 3, "by": np.zeros((3, 2)), "up": 1}, "missing [], unknown ['up']."),
        (DICT, {"go": [0] * 3, "by": np.zeros((2, 3))}, "The action batch has shape (2, 3); expected (3, 2)"),
        (DICT, [{"go": 0, "by": [0, 0]}] * 2, "The action batch has 2 entries; expected 3, one per sub-env."),
        (DICT, [{"go": 0, "by": [0, 0]}] * 2 + [{"go": 0}], "The keys of the action of sub-env 2 do not fit Dict("),
        (DICT, [{"go": 0, "by": [0, 0]}, 5, 5], "The action of sub-env 1 is 5; expected a dict, a member of Dict("),
        (DICT, [{"go": 0, "by": [0, 0]}] * 2 + [{"go": 0.5, "by": [0, 0]}], "The action of sub-env 2 is 0.5 (float64)"),
        (DICT, None, "The action batch must be a dict of arrays or a list of dicts, one for each of 3 sub-envs"),
        (PAIR, ([0, 1, 2],), "The action batch has 1 parts; expected 2."),
        (
            PAIR,
            [(0, [0, 0])] * 2 + [(0,)],
            "The action of sub-env 2 is (0,); expected a member of Tuple(Discrete(5), Box",
        ),
        (PAIR, [(0, [0, 0])] * 2 + [(0, [0, NAN])], "The action of sub-env 2 is [ 0. nan]; expected finite numbers."),
    ],
)
def test_every_refusal_says_what_was_given_and_expected(space: Any, actions: Any, text: str) -> None:
    assert text in refusal(space, actions)


@pytest.mark.parametrize(
    ("space", "actions", "expected"),
    [
        (DISCRETE, [0, 1, 2], [0, 1, 2]),
        (DISCRETE, (0, np.int8(1), np.array(2)), [0, 1, 2]),
        (DISCRETE, np.array([0, 1, 2], np.uint8), [0, 1, 2]),
        (DISCRETE, [0, np.uint64(1), 2], [0, 1, 2]),
        (DISCRETE, range(3), [0, 1, 2]),
        (DISCRETE, [7, -7, 99], [7, -7, 99]),  # bounds are the environment's business
        (BOX, np.full((3, 2), 5), [[5.0, 5.0]] * 3),
        (BOX, np.zeros((3, 2), np.float64), [[0.0, 0.0]] * 3),
        (BOX, [[1, 2], (3, 4), np.array([5.0, 6.0])], [[1, 2], [3, 4], [5, 6]]),
        (BITS, np.array([[True, False]] * 3), [[1, 0]] * 3),
        (BITS, [[1, 0], [True, True], [0, 0]], [[1, 0], [1, 1], [0, 0]]),
        (GRID, [[2, 3]] * 3, [[2, 3]] * 3),
        (BYTES, [[255, 0]] * 3, [[255, 0]] * 3),
        (sekai.Box(-1.0, 1.0, ()), [0.5, 0, np.float32(1)], [0.5, 0.0, 1.0]),
    ],
)
def test_what_fits_comes_back_in_the_dtype_of_the_space(space: Any, actions: Any, expected: Any) -> None:
    batch = check_actions(space, actions, 3)
    assert batch.dtype == space.dtype and batch.shape == (3, *space.shape) and batch.tolist() == expected


def test_dict_and_tuple_batches_mean_the_same_both_ways() -> None:
    by = np.arange(6.0).reshape(3, 2)
    as_batch = check_actions(DICT, {"by": by, "go": [0, 1, 2]}, 3)
    as_list = check_actions(DICT, [{"go": i, "by": by[i]} for i in range(3)], 3)
    for batch in (as_batch, as_list):
        assert batch["go"].tolist() == [0, 1, 2] and np.array_equal(batch["by"], by) and batch["by"].dtype == np.float32
    as_pair = check_actions(PAIR, ([0, 1, 2], by), 3)
    as_pairs = check_actions(PAIR, [(i, by[i]) for i in range(3)], 3)
    for pair in (as_pair, as_pairs):
        assert isinstance(pair, tuple) and pair[0].tolist() == [0, 1, 2] and np.array_equal(pair[1], by)


def test_nothing_given_is_modified_or_shared() -> None:
    given_arrays: list[Any] = [np.zeros((3, 2), np.float32), np.zeros((3, 4), np.float32)[:, ::2], np.zeros((3, 2))]
    given_arrays.append(np.asfortranarray(np.zeros((3, 2), np.float32)))
    for array in given_arrays:
        array.flags.writeable = False
        batch = check_actions(BOX, array, 3)
        assert batch.flags.writeable and not np.shares_memory(batch, array)
        batch[:] = 9
        assert (array == 0).all()
    rows = [np.zeros(2, np.float32) for _ in range(3)]
    check_actions(BOX, rows, 3)[:] = 9
    assert all((row == 0).all() for row in rows)
    parts = {"go": np.zeros(3, np.int64), "by": np.zeros((3, 2), np.float32)}
    check_actions(DICT, parts, 3)["by"][:] = 9
    assert (parts["by"] == 0).all() and list(parts) == ["go", "by"]


def test_actions_of_spaces_without_a_fixed_size_are_copies_in_a_list() -> None:
    space = sekai.Sequence(BOX)
    actions = [(np.zeros(2, np.float32),), (), (np.ones(2, np.float32),) * 2]
    batch = check_actions(space, actions, 3)
    assert type(batch) is list and [len(action) for action in batch] == [1, 0, 2]
    batch[0][0][:] = 9
    assert actions[0][0].tolist() == [0, 0]
    assert check_actions(gymnasium.spaces.Text(3), ("a", "b", "c"), 3) == ["a", "b", "c"]
    assert "has 2 entries; expected 3" in refusal(space, actions[:2])


class Foreign:
    """An array of another library: it only knows how to become NumPy's."""

    def __init__(self, values: Any) -> None:
        self.values = np.array(values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values if dtype is None else self.values.astype(dtype)


def test_arrays_of_other_libraries_are_taken() -> None:
    assert check_actions(DISCRETE, Foreign([0, 1, 2]), 3).tolist() == [0, 1, 2]
    assert check_actions(BOX, Foreign([[0.5, 1], [2, 3], [4, 5]]), 3).tolist() == [[0.5, 1], [2, 3], [4, 5]]
    assert "has 2 entries" in refusal(DISCRETE, Foreign([0, 1]))


@given(st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=5))
def test_integers_arrive_unchanged_or_not_at_all(values: list[int]) -> None:
    low, high = -(2**63), 2**63 - 1
    if all(low <= value <= high for value in values):
        assert check_actions(DISCRETE, values, len(values)).tolist() == values
    else:
        bad = next(i for i, value in enumerate(values) if not low <= value <= high)
        assert re.match(rf"The action of sub-env {bad} is {values[bad]}\b", refusal(DISCRETE, values, len(values)))


def test_a_masked_action_is_no_action() -> None:
    masked = np.ma.masked_array([0, 1], [False, True])
    with pytest.raises(sekai.InvalidAction, match="masked entries"):
        check_actions(sekai.Discrete(2), masked, 2)
    assert check_actions(sekai.Discrete(2), np.ma.masked_array([0, 1]), 2).tolist() == [0, 1]
