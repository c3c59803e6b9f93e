"""Batched spaces: their shape, and the independence of their random streams."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium.spaces as theirs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai import spaces
from tests.spaces.strategies import all_spaces, equal

EXAMPLES: list[Any] = [
    spaces.Box([-1.0, -np.inf], [1.0, 2.0]),
    spaces.Box(-np.inf, np.inf, (2,), np.int32),
    spaces.Discrete(3, start=-1, dtype=np.int8),
    spaces.MultiDiscrete([[2, 3]], start=[[1, -2]]),
    spaces.MultiBinary((2, 2)),
    spaces.MaskedBox(1, 2, (2,), 3),
    spaces.Dict(b=spaces.Discrete(2), a=spaces.Tuple([spaces.MultiBinary(2), spaces.Box(0, 1)])),
    spaces.Sequence(spaces.Box(0, 1, (2,))),
    theirs.Text(4),
    spaces.Tuple([theirs.OneOf([theirs.Discrete(2), theirs.Box(0, 1)]), spaces.Discrete(2)]),
]
examples = pytest.mark.parametrize("space", EXAMPLES, ids=lambda space: type(space).__name__)


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (spaces.Box([-1.0, 0.0], 2.0), "Box([-1.0, 0.0, -1.0, 0.0], 2.0, (2, 2), float32)"),
        (spaces.Discrete(3, start=-1), "MultiDiscrete([3, 3], start=[-1, -1])"),
        (spaces.Discrete(3, dtype=np.int8), "MultiDiscrete([3, 3], dtype=int8)"),
        # entries start..start+nvec-1: 1..2 and -2..0
        (spaces.MultiDiscrete([2, 3], start=[1, -2]), "Box([1, -2, 1, -2], [2, 0, 2, 0], (2, 2), int64)"),
        (spaces.MultiBinary(3), "Box(0, 1, (2, 3), int8)"),
        (spaces.MaskedBox(1, 2, (3,), 4), "MaskedBox(1.0, 2.0, (3,), max_size=4, float32, batch=(2,))"),
        (
            spaces.Dict([("z", spaces.Discrete(2)), ("a", spaces.Tuple([spaces.MultiBinary(1)]))]),
            "Dict('z': MultiDiscrete([2, 2]), 'a': Tuple(Box(0, 1, (2, 1), int8)))",
        ),
        (spaces.Sequence(spaces.Discrete(2)), "Tuple(Sequence(Discrete(2)), Sequence(Discrete(2)))"),
        (theirs.Box(0, 1, (1,)), "Box(0.0, 1.0, (2, 1), float32)"),
    ],
    ids=str,
)
def test_batching_adds_a_first_axis(space: Any, text: str) -> None:
    assert repr(spaces.batch_space(space, 2)) == text


@pytest.mark.parametrize("n", [0, 2.0, True])
def test_a_wrong_number_is_refused(n: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="batch_space n"):
        spaces.batch_space(spaces.Discrete(2), n)


@settings(max_examples=60, deadline=None)
@given(all_spaces, st.integers(1, 3))
def test_samples_of_the_batch_are_in_it_and_their_rows_in_the_single_space(space: Any, n: int) -> None:
    batch_space = spaces.batch_space(space, n)
    batch_space.seed(0)
    batch = batch_space.sample()
    assert batch in batch_space
    rows = list(spaces.iterate(space, batch))
    assert len(rows) == n
    assert all(row in space for row in rows)


@examples
def test_a_seeded_batched_space_repeats_its_samples(space: Any) -> None:
    batched = spaces.batch_space(space, 3)
    draws = []
    for seed in (0, 0, 1):
        batched.seed(seed)
        draws.append([batched.sample() for _ in range(4)])
    assert repr(draws[0]) == repr(draws[1])
    assert repr(draws[0]) != repr(draws[2])


@examples
def test_the_seed_of_the_single_space_decides_the_batches_and_its_stream_goes_on(space: Any) -> None:
    drawn = []
    for seed in (0, 0, 1):
        single = copy.deepcopy(space)
        single.seed(seed)
        untouched = copy.deepcopy(single)
        batched = spaces.batch_space(single, 3)
        drawn.append(repr([batched.sample() for _ in range(4)]))
        assert repr([single.sample() for _ in range(4)]) == repr([untouched.sample() for _ in range(4)])
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_a_batch_does_not_repeat_the_stream_of_the_single_space() -> None:
    space = spaces.Box(0, 1, (1,), np.float64, seed=0)
    first_row = spaces.batch_space(space, 2).sample()[0]
    assert not np.isclose(first_row, space.sample())
    # the control: gymnasium copies the generator, so its first row is the single sample
    copied = theirs.Box(0, 1, (2, 1), np.float64, seed=0).sample()[0]
    assert np.isclose(copied, spaces.Box(0, 1, (1,), np.float64, seed=0).sample())


def test_a_space_never_seeded_gives_fresh_batches_and_stays_unseeded() -> None:
    space = spaces.Dict(x=spaces.Box(0, 1, (4,)), s=spaces.Sequence(spaces.Box(0, 1)))
    first, second = (spaces.batch_space(space, 2).sample() for _ in range(2))
    assert not equal(first["x"], second["x"])
    assert space["x"]._np_random is None


def correlations(columns: list[np.ndarray]) -> np.ndarray:
    """Absolute correlations of all pairs; sampling noise of 4,000 draws is 1/sqrt(4000) = 0.016."""
    matrix = np.abs(np.corrcoef(columns))
    return matrix[np.triu_indices(len(columns), 1)]


def nested(seed: int | None) -> spaces.Dict:
    def leaf() -> spaces.Box:
        return spaces.Box(0, 1, (1,), np.float64, seed=seed)

    inner = spaces.Dict(p=leaf(), q=spaces.Tuple([leaf(), leaf()]))
    return spaces.Dict(a=leaf(), b=spaces.Tuple([leaf(), inner]), s=spaces.MaskedBox(0, 1, (), 1, seed=seed))


def columns(space: Any, draws: int) -> list[np.ndarray]:
    def leaves(sample: Any) -> list[float]:
        if isinstance(sample, dict):
            return [x for part in sample.values() for x in leaves(part)]
        if isinstance(sample, tuple):
            return [x for part in sample for x in leaves(part)]
        return [float(x) for x in np.ravel(sample)]

    # The last two columns are the element and the mask of a set: an empty one has element 0 by design.
    return list(np.array([leaves(space.sample()) for _ in range(draws)]).T[:-1])


def test_leaves_with_one_seed_draw_independently_once_batched() -> None:
    batched = spaces.batch_space(nested(seed=0), 4)
    drawn = np.array([np.concatenate([np.ravel(leaf) for leaf in flat(batched.sample())]) for _ in range(4000)])
    assert correlations(list(drawn.T)).max() < 0.08


def test_leaves_of_a_seeded_composite_draw_independently() -> None:
    space = nested(seed=0)
    space.seed(0)
    assert correlations(columns(space, 4000)).max() < 0.08


def test_equal_seeds_of_the_leaves_would_be_seen() -> None:
    # the control: never seeded as a whole, the leaves repeat one another, as their common seed asks
    assert correlations(columns(nested(seed=0), 200)[:5]).min() > 0.99


def test_copies_of_a_sequence_draw_independently() -> None:
    firsts = []
    for seed in range(1000):
        batched = spaces.batch_space(spaces.Sequence(spaces.Box(0, 1, (1,), np.float64), seed=seed), 2)
        firsts.append([float(row[0][0]) for row in batched.sample()])
    # sampling noise of 1,000 draws: 0.03; copies of the items' generator would give 1
    assert correlations(list(np.array(firsts).T)).max() < 0.15


def test_an_unbounded_integer_box_stays_unbounded() -> None:
    # unbounded entries are drawn from a normal distribution, bounded ones would spread over all of int32
    batched = spaces.batch_space(spaces.Box(-np.inf, np.inf, (2,), np.int32, seed=0), 50)
    assert np.abs(batched.sample()).max() < 10


def test_the_order_of_keys_is_kept() -> None:
    space = spaces.Dict({"z": spaces.Discrete(2), "a": spaces.Discrete(2)}, sort_keys=False)
    batched = spaces.batch_space(space, 2)
    assert list(batched.spaces) == ["z", "a"]
    assert batched.sort_keys is False


def flat(sample: Any) -> list[np.ndarray]:
    """The Box leaves of one batched sample of `nested`, the mask of the set left out."""
    inner = sample["b"][1]
    return [sample["a"], sample["b"][0], inner["p"], *inner["q"]]


def test_seeding_a_batch_leaves_the_single_space_alone() -> None:
    space = nested(seed=1)
    control = copy.deepcopy(space)
    spaces.batch_space(space, 3).seed(9)
    assert equal(space.sample(), control.sample())


@pytest.mark.parametrize(
    ("space", "fixed"),
    [
        (spaces.Dict(a=spaces.Tuple([spaces.Box(0, 1), spaces.Discrete(2), spaces.MultiBinary(1)])), True),
        (spaces.MaskedBox(0, 1, (2,), 3), True),
        (spaces.MultiDiscrete([2]), True),
        (spaces.Sequence(spaces.Discrete(2)), False),
        (spaces.Dict(a=spaces.Discrete(2), b=theirs.Text(3)), False),
        (spaces.Tuple([spaces.Discrete(2), spaces.Dict(b=spaces.Sequence(spaces.Discrete(2)))]), False),
    ],
    ids=str,
)
def test_only_arrays_have_a_fixed_size(space: Any, fixed: bool) -> None:
    assert spaces.has_fixed_size(space) is fixed
