"""Our spaces are gymnasium's: equal, convertible, picklable, and usable by gymnasium's own functions."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from typing import Any

import gymnasium
import gymnasium.spaces as theirs
import gymnasium.vector.utils as vector_utils
import numpy as np
import pytest

from sekai import spaces
from tests.spaces.strategies import equal

PAIRS: list[tuple[Any, Any]] = [
    (spaces.Box(-1.0, 1.0, (2,)), theirs.Box(-1.0, 1.0, (2,))),
    (spaces.Discrete(3, start=-1), theirs.Discrete(3, start=-1)),
    (spaces.MultiDiscrete([2, 3], start=[1, 2]), theirs.MultiDiscrete([2, 3], start=[1, 2])),
    (spaces.MultiBinary(3), theirs.MultiBinary(3)),
    (spaces.MultiBinary((2, 3)), theirs.MultiBinary((2, 3))),
    (spaces.Dict(a=spaces.Discrete(2)), theirs.Dict(a=theirs.Discrete(2))),
    (spaces.Tuple([spaces.Discrete(2)]), theirs.Tuple([theirs.Discrete(2)])),
    (spaces.Sequence(spaces.Discrete(2)), theirs.Sequence(theirs.Discrete(2))),
    (spaces.Sequence(spaces.MultiBinary(2), stack=True), theirs.Sequence(theirs.MultiBinary(2), stack=True)),
]
ours = pytest.mark.parametrize("ours", [pair[0] for pair in PAIRS], ids=str)
both = pytest.mark.parametrize(("ours", "other"), PAIRS, ids=lambda space: type(space).__module__[:5])


@both
def test_equal_to_gymnasiums_both_ways(ours: Any, other: Any) -> None:
    assert isinstance(ours, type(other))
    assert ours == other
    assert other == ours
    assert ours != theirs.Discrete(7)
    assert theirs.Discrete(7) != ours


@both
def test_readable_gives_our_class_and_the_same_space(ours: Any, other: Any) -> None:
    converted = spaces.readable(other)
    assert type(converted) is type(ours)
    assert converted == other
    assert repr(converted) == repr(ours)


@both
def test_the_same_seed_draws_what_gymnasium_draws(ours: Any, other: Any) -> None:
    ours.seed(3)
    other.seed(3)
    assert equal(ours.sample(), other.sample())


# The length of a Sequence is seeded apart, as `readable` says.
@pytest.mark.parametrize(("ours", "other"), PAIRS[:-2], ids=lambda space: type(space).__module__[:5])
def test_seeding_the_original_after_conversion_seeds_the_converted_one(ours: Any, other: Any) -> None:
    converted = spaces.readable(other)
    other.seed(5)
    first = converted.sample()
    other.seed(5)
    assert equal(first, other.sample())
    converted.seed(6)
    second = other.sample()
    converted.seed(6)
    assert equal(second, converted.sample())


def test_conversion_does_not_reset_a_stream() -> None:
    reference = theirs.Box(0, 1, (2,), seed=1)
    reference.sample()
    original = theirs.Box(0, 1, (2,), seed=1)
    original.sample()
    assert np.array_equal(spaces.readable(original).sample(), reference.sample())


@ours
def test_our_own_spaces_are_returned_as_they_are(ours: Any) -> None:
    assert spaces.readable(ours) is ours


def test_types_without_a_class_of_ours_are_returned_as_they_are() -> None:
    class Even(theirs.Discrete[Any]):
        pass

    for space in (theirs.Text(3), theirs.OneOf([theirs.Discrete(2)]), Even(4)):
        assert spaces.readable(space) is space


def test_nested_spaces_are_converted_throughout() -> None:
    nested = theirs.Dict(a=theirs.Tuple([theirs.Sequence(theirs.Dict(b=theirs.Box(0, 1, (1,))))]))
    assert repr(spaces.readable(nested)) == "Dict('a': Tuple(Sequence(Dict('b': Box(0.0, 1.0, (1,), float32)))))"
    given = spaces.Dict(x=theirs.Discrete(2))
    given["y"] = theirs.Discrete(3)
    assert [type(part) for part in given.spaces.values()] == [spaces.Discrete, spaces.Discrete]


@ours
def test_copies_are_equal_and_continue_the_same_stream_apart(ours: Any) -> None:
    ours.seed(4)
    for duplicate in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert type(duplicate) is type(ours)
        assert duplicate == ours
        drawn = duplicate.sample()
        assert equal(drawn, copy.deepcopy(ours).sample())


def test_a_generator_as_seed_reaches_the_parts_of_a_composite() -> None:
    def draw(seed: int) -> Any:
        part = spaces.Box(0, 1, (2,))
        return spaces.Dict({"a": part}, seed=np.random.default_rng(seed)).sample()

    assert equal(draw(1), draw(1))
    assert not equal(draw(1), draw(2))


def test_sampling_masks_follow_gymnasium() -> None:
    space = spaces.Dict(d=spaces.Discrete(3, start=1), m=spaces.MultiBinary(2), seed=0)
    mask = {"d": np.array([0, 1, 0], np.int8), "m": np.array([1, 0], np.int8)}
    assert {int(space.sample(mask=mask)["d"]) for _ in range(20)} == {2}
    assert all(space.sample(mask=mask)["m"].tolist() == [1, 0] for _ in range(20))
    probability = {"d": np.array([0.0, 0.0, 1.0]), "m": np.array([0.0, 1.0])}
    assert {int(space.sample(probability=probability)["d"]) for _ in range(20)} == {3}


def test_a_box_of_shape_empty_draws_arrays_and_takes_scalars_without_a_warning() -> None:
    box = spaces.Box(0, 3, (), np.int16, seed=0)
    assert isinstance(box.sample(), np.ndarray)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.int16(2) in box
        assert np.int16(4) not in box


def test_an_entry_of_a_multi_discrete_is_one_of_our_spaces() -> None:
    space = spaces.MultiDiscrete([2, 3, 4], start=[0, 1, 2])
    assert repr(space[1]) == "Discrete(3, start=1)"
    assert repr(space[:2]) == "MultiDiscrete([2, 3], start=[0, 1])"


def test_gymnasiums_vector_functions_iterate_our_tuples_by_row() -> None:
    space = spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 9, (2,))])
    batch = (np.array([1, 2]), np.array([[1, 1], [2, 2]], np.float32))
    rows = list(vector_utils.iterate(vector_utils.batch_space(space, 2), batch))
    assert [int(row[0]) for row in rows] == [1, 2]
    rows = list(vector_utils.iterate(spaces.batch_space(space, 2), batch))
    assert [row[1].tolist() for row in rows] == [[1, 1], [2, 2]]


def test_gymnasium_batches_a_masked_box_as_a_masked_box() -> None:
    space = spaces.MaskedBox(1, 2, (), 3)
    batch = vector_utils.batch_space(space, 2)
    assert isinstance(batch, spaces.MaskedBox)
    assert batch.batch_shape == (2,)


def test_the_import_is_light() -> None:
    script = (
        "import sys, {}\nprint(sorted({{'asyncio', 'cloudpickle', 'torch', 'numba', 'matplotlib'}} & set(sys.modules)))"
    )
    loaded = [
        subprocess.run(
            [sys.executable, "-c", script.format(name)],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for name in ("gymnasium", "sekai.spaces")
    ]
    assert loaded[1] == loaded[0], gymnasium.__version__


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("start", [0, 3])
def test_membership_in_a_discrete_space_is_gymnasiums(dtype: Any, start: int) -> None:
    ours = spaces.Discrete(4, start=start, dtype=dtype)
    other = gymnasium.spaces.Discrete(4, start=start, dtype=dtype)
    kinds = [np.int64, np.int32, np.int8, np.uint8, np.uint64, np.float64, np.bool_]
    values: list[Any] = [*range(-2, 9), 2**63, -(2**63), True, 1.0, "1", None, np.array(1), np.array([1])]
    values += [kind(value) for kind in kinds for value in (0, 1, 3, 6, 7, 100)] + [np.int64(-1), np.int64(2**63 - 1)]
    answers = [ours.contains(value) for value in values]
    assert answers == [other.contains(value) for value in values]
    assert True in answers and False in answers and {type(answer) for answer in answers} == {bool}
