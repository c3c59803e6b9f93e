"""The text of each space, and what its constructor refuses."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from sekai import spaces

INF = np.inf
CARTPOLE = spaces.Box([-4.8, -INF, -0.41887903, -INF], [4.8, INF, 0.41887903, INF])


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (CARTPOLE, "Box([-4.8, -inf, -0.41887903, -inf], [4.8, inf, 0.41887903, inf], (4,), float32)"),
        (
            spaces.Box(np.tile(CARTPOLE.low, (4, 1)), np.tile(CARTPOLE.high, (4, 1))),
            "Box([-4.8, -inf, -0.41887903, ..., -inf, -0.41887903, -inf], "
            "[4.8, inf, 0.41887903, ..., inf, 0.41887903, inf], (4, 4), float32)",
        ),
        (spaces.Box(-1.0, 1.0, (3,)), "Box(-1.0, 1.0, (3,), float32)"),
        (spaces.Box(-1.0, 1.0), "Box(-1.0, 1.0, (1,), float32)"),
        (spaces.Box(0.1, 0.2, (), np.float64), "Box(0.1, 0.2, (), float64)"),
        (spaces.Box(0, [255, 7], dtype=np.uint8), "Box(0, [255, 7], (2,), uint8)"),
        (
            spaces.Box(np.arange(8.0), 9.0),
            "Box([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 9.0, (8,), float32)",
        ),
        (spaces.Box(np.arange(9.0), 9.0), "Box([0.0, 1.0, 2.0, ..., 6.0, 7.0, 8.0], 9.0, (9,), float32)"),
        (spaces.Discrete(2), "Discrete(2)"),
        (spaces.Discrete(3, start=-1), "Discrete(3, start=-1)"),
        (spaces.Discrete(3, dtype=np.int8), "Discrete(3, dtype=int8)"),
        (spaces.MultiDiscrete([2, 2, 2, 2]), "MultiDiscrete([2, 2, 2, 2])"),
        (spaces.MultiDiscrete([2, 3], start=[0, -1]), "MultiDiscrete([2, 3], start=[0, -1])"),
        (spaces.MultiDiscrete(np.arange(1, 10)), "MultiDiscrete([1, 2, 3, ..., 7, 8, 9])"),
        (spaces.MultiDiscrete([[2, 3], [4, 5]]), "MultiDiscrete([2, 3, 4, 5], shape=(2, 2))"),
        (spaces.MultiBinary(4), "MultiBinary(4)"),
        (spaces.MultiBinary([2, 3]), "MultiBinary((2, 3))"),
        (
            spaces.Dict(b=spaces.Discrete(2), a=CARTPOLE),
            f"Dict('b': Discrete(2), 'a': {CARTPOLE!r})",
        ),
        (
            spaces.Tuple([spaces.Discrete(2), spaces.Sequence(spaces.MultiBinary(3))]),
            "Tuple(Discrete(2), Sequence(MultiBinary(3)))",
        ),
        (spaces.Sequence(spaces.Discrete(2), stack=True), "Sequence(Discrete(2), stack=True)"),
        (spaces.MaskedBox(1.0, 2.0, (3,), 5), "MaskedBox(1.0, 2.0, (3,), max_size=5, float32)"),
        (
            spaces.MaskedBox([0, 1], [2, 3], (2,), 5, dtype=np.int8).batched(4),
            "MaskedBox([0, 1], [2, 3], (2,), max_size=5, int8, batch=(4,))",
        ),
    ],
    ids=str,
)
def test_a_space_reads_as_one_short_line(space: Any, text: str) -> None:
    assert repr(space) == text
    assert str(space) == text


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: spaces.Discrete(2.7), TypeError, "Discrete n is 2.7; expected an int"),
        (lambda: spaces.Discrete(True), TypeError, "Discrete n is True; expected an int"),
        (lambda: spaces.Discrete(0), ValueError, "Discrete n is 0; expected an int of at least 1."),
        (
            lambda: spaces.Discrete(2, start=0.5),
            TypeError,
            "Discrete start is 0.5; expected an int",
        ),
        (lambda: spaces.Discrete(2, dtype=float), TypeError, "Discrete dtype must be an integer dtype"),
        (lambda: spaces.Discrete(100, start=100, dtype=np.int8), ValueError, "does not fit dtype int8"),
        (
            lambda: spaces.MultiDiscrete([2.5, 3]),
            TypeError,
            "MultiDiscrete nvec must hold integers, got [2.5, 3]",
        ),
        (lambda: spaces.MultiDiscrete([True, True]), TypeError, "MultiDiscrete nvec must hold integers"),
        (lambda: spaces.MultiDiscrete([2, 0]), ValueError, "nvec must be at least 1 everywhere, got [2, 0]"),
        (lambda: spaces.MultiDiscrete(3), ValueError, "MultiDiscrete nvec must have at least one axis"),
        (lambda: spaces.MultiDiscrete([2], start=[1.5]), TypeError, "MultiDiscrete start must hold integers"),
        (
            lambda: spaces.MultiDiscrete([2, 2], start=[1]),
            ValueError,
            "start has shape (1,), but nvec has (2,)",
        ),
        (
            lambda: spaces.MultiDiscrete([9], start=[120], dtype=np.int8),
            ValueError,
            "does not fit dtype int8",
        ),
        (lambda: spaces.MultiBinary(2.5), TypeError, "MultiBinary n is 2.5; expected an int"),
        (lambda: spaces.MultiBinary([2, 0]), ValueError, "MultiBinary n[1] is 0; expected an int of at least 1."),
        (
            lambda: spaces.Box(0, 1, shape=(2.0,)),
            TypeError,
            "Box shape[0] is 2.0; expected an int",
        ),
        (lambda: spaces.Box(0, 1, shape=2), TypeError, "Box shape must be a tuple of integers, got 2 (int)."),
        (lambda: spaces.Box("a", 1), TypeError, "Box low must be a number or an array, got 'a' (str)."),
        (lambda: spaces.Box([[0], [0, 1]], 1), ValueError, "Box low must be a regular array"),
        (
            lambda: spaces.Box(0, np.array([1e300, 2.0])),
            ValueError,
            "Box high holds a value that float32 cannot",
        ),
        (lambda: spaces.Box(0.5, 2, (1,), int), ValueError, "Box low must be whole numbers for dtype int64"),
        (
            lambda: spaces.MaskedBox(0, 1, (2,), 2.0),
            TypeError,
            "MaskedBox max_size is 2.0; expected an int",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_argument_is_named_and_not_guessed_at(build: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        build()
    assert message in str(raised.value)


def test_start_dtype_and_seed_are_keyword_only() -> None:
    for build in (lambda: spaces.Discrete(2, 0), lambda: spaces.MultiDiscrete([2], np.int64)):  # type: ignore[misc]
        with pytest.raises(TypeError, match="positional argument"):
            build()


def test_float64_bounds_of_a_float32_box_give_no_warning_and_stay_untouched() -> None:
    low = np.array([-INF, 0.1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        box = spaces.Box(low, np.array([1.0, INF]))
    assert box.low.dtype == np.float32
    assert box.low.tolist() == [-INF, float(np.float32(0.1))]
    assert low.tolist() == [-INF, 0.1]


def test_bounds_of_an_integer_box_do_not_change_the_callers_array() -> None:
    low = np.array([-INF, 0.0])
    spaces.Box(low, 5, dtype=np.int32)
    assert low.tolist() == [-INF, 0.0]
