"""Stateless transforms: hand numbers, every kind of space, batches as rows, and what is refused."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai
from sekai import spaces
from sekai.wrappers.transforms import cast, clipped, filtered, rescaled, unscaled
from tests.spaces.strategies import equal, fixed_spaces, nest


class Shows(sekai.Env[Any, Any]):
    """Shows what stands in `observations`, in turn; remembers the actions it is given."""

    def __init__(self, space: Any, observations: list[Any] | None = None, *, actions: Any = None) -> None:
        self.observation_space = space
        self.action_space = sekai.Discrete(2) if actions is None else actions
        self.observations = observations or []
        self.executed: list[Any] = []

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        self.t = 0
        return sekai.ResetResult(self.observations[0], {})

    def step(self, action: Any) -> sekai.StepResult:
        self.executed.append(action)
        self.t += 1
        last = self.t == len(self.observations) - 1
        return sekai.StepResult(self.observations[self.t], 0.0, last, False, {})


def shown(env: Any, steps: int) -> list[Any]:
    """The observations of a reset and so many steps."""
    return [env.reset().observation] + [env.step(0).observation for _ in range(steps)]


TWO = sekai.Box([0.0, -4.0], [10.0, 4.0], dtype=np.float64)


# RescaleObservation


def test_every_observation_is_brought_to_the_new_bounds() -> None:
    given = [np.array(pair) for pair in ([0.0, -4.0], [10.0, 4.0], [2.5, 1.0])]
    env = sekai.RescaleObservation(Shows(TWO, given), -1.0, 1.0)
    # o / 10 * 2 - 1 and (o + 4) / 8 * 2 - 1: 2.5 -> -0.5, 1 -> 0.25; the last one is that of the end
    assert [one.tolist() for one in shown(env, 2)] == [[-1.0, -1.0], [1.0, 1.0], [-0.5, 0.25]]
    assert env.observation_space == sekai.Box(-1.0, 1.0, (2,), np.float64)
    assert given[2].tolist() == [2.5, 1.0], "the environment's own array stays as it is"


def test_new_bounds_may_differ_from_entry_to_entry() -> None:
    env = sekai.RescaleObservation(Shows(TWO), [0.0, 100.0], np.array([1.0, 300.0]))
    # 5 of 0..10 is a half of 0..1; 0 of -4..4 is the middle of 100..300
    assert env.observation(np.array([5.0, 0.0])).tolist() == [0.5, 200.0]
    assert env.observation_space == sekai.Box([0.0, 100.0], [1.0, 300.0], dtype=np.float64)


def test_integers_become_float32() -> None:
    env = sekai.RescaleObservation(Shows(sekai.Box(0, 255, (3,), np.uint8)), 0.0, 1.0)
    image = env.observation(np.array([0, 51, 255], np.uint8))
    assert env.observation_space == sekai.Box(0.0, 1.0, (3,), np.float32)
    assert image.dtype == np.float32
    assert image.tolist() == [0.0, np.float32(0.2), 1.0]  # 51 / 255
    # the plausible wrong one stays in uint8, where 51 - 255 is 52
    assert np.array([51], np.uint8) - np.array([255], np.uint8) == 52
    signed = sekai.RescaleObservation(Shows(sekai.Box(-128, 127, (2,), np.int8)), 0.0, 255.0)
    assert signed.observation(np.array([-128, 127], np.int8)).tolist() == [0.0, 255.0], "a width that int8 cannot hold"


def test_a_box_of_no_axes_is_scaled_like_any_other() -> None:
    env = sekai.RescaleObservation(Shows(sekai.Box(0.0, 4.0, (), np.float64)), 0.0, 1.0)
    assert env.observation(np.array(3.0)) == 0.75
    assert env.observation(np.array(3.0)) in env.observation_space


@given(
    st.integers(-100, 100), st.integers(1, 300), st.integers(-100, 100), st.integers(1, 300),
    st.sampled_from([np.float32, np.float64]),
)  # fmt: skip
def test_bounds_become_bounds(start: int, width: int, low: int, span: int, dtype: Any) -> None:
    box = sekai.Box(float(start), float(start + width), (1,), dtype)
    env = sekai.RescaleObservation(Shows(box), low, low + span)
    assert env.observation(box.low) == low
    top = env.observation(box.high)[0]
    assert top == low + span, "in float32 the line alone would be 1e-5 away"


def test_an_observation_out_of_bounds_is_held_to_the_new_ones() -> None:
    env = sekai.RescaleObservation(Shows(TWO), 0.0, 1.0)
    assert env.observation(np.array([-3.0, 9.0])).tolist() == [0.0, 1.0]
    assert np.isnan(env.observation(np.array([np.nan, 0.0]))[0])


bounded_boxes = st.builds(
    lambda shape, dtype, low, width: spaces.Box(low, low + width, shape, dtype),
    st.lists(st.integers(1, 3), max_size=2).map(tuple),
    st.sampled_from([np.float32, np.float64, np.uint8]),
    st.integers(0, 9),
    st.integers(1, 200),
)
bounded_sets = st.builds(
    lambda low, size: spaces.MaskedBox(low, low + 3.0, (2,), size), st.floats(-5, 5, width=32), st.integers(1, 4)
)
others = st.builds(spaces.Discrete, st.integers(1, 5))
bounded_spaces = st.recursive(st.one_of(bounded_boxes, bounded_sets, others), nest, max_leaves=5).filter(
    lambda space: any(True for _ in spaces.boxes_of(space))
)


def close(space: Any, a: Any, b: Any) -> bool:
    """Whether two samples of `space` agree: `Box` parts to rounding, everything else exactly."""
    if isinstance(space, sekai.Dict):
        return all(close(space[key], a[key], b[key]) for key in space.spaces)
    if isinstance(space, sekai.Tuple):
        return all(close(part, x, y) for part, x, y in zip(space.spaces, a, b, strict=True))
    if isinstance(space, sekai.Box):
        return np.asarray(a).dtype == space.dtype and np.allclose(a, b, rtol=0, atol=1e-3)
    return bool(np.all(np.asarray(a) == np.asarray(b)))


@given(bounded_spaces, st.integers(0, 2**31))
def test_scaling_there_and_back_gives_the_sample_back(space: Any, seed: int) -> None:
    space.seed(seed)
    there, back = rescaled(space, -1.0, 2.0, name="x"), unscaled(space, -1.0, 2.0, name="x")
    assert there.space == back.space
    for _ in range(3):
        sample = space.sample()
        scaled = there.apply(sample)
        assert scaled in there.space
        assert close(space, back.apply(scaled), sample)


@given(bounded_spaces, st.integers(0, 2**31), st.integers(1, 4))
def test_a_batch_is_scaled_as_its_rows_one_by_one(space: Any, seed: int, n: int) -> None:
    space.seed(seed)
    samples = [space.sample() for _ in range(n)]
    for transform in (rescaled(space, -1.0, 2.0, name="x"), clipped(space), cast(space, np.float32)):
        batch = transform.apply(spaces.concatenate(space, samples))
        rows = spaces.concatenate(transform.space, map(transform.apply, samples))
        assert equal(batch, rows)


@given(bounded_sets, st.integers(0, 2**31), st.sampled_from(["rescaled", "cast", "clipped"]))
def test_the_padding_of_a_masked_box_stays_zero_and_its_mask_as_it_is(space: Any, seed: int, which: str) -> None:
    space.seed(seed)
    sample = space.sample(mask={"elements": None, "mask": np.full(space.max_size, 2, np.int8)})  # with gaps
    transform = {
        "rescaled": rescaled(space, 5.0, 6.0, name="x"), "cast": cast(space, np.float16), "clipped": clipped(space),
    }[which]  # fmt: skip
    result = transform.apply(sample)
    assert isinstance(transform.space, sekai.MaskedBox)
    assert result in transform.space
    assert np.array_equal(result["mask"], sample["mask"])
    assert not result["elements"][sample["mask"] == 0].any(), "a zero of the padding is no element at 5..6"


def test_a_masked_box_is_scaled_by_the_bounds_of_an_element() -> None:
    space = sekai.MaskedBox([2.0, 0.0], [4.0, 8.0], (2,), 3, dtype=np.float64)
    env = sekai.RescaleObservation(Shows(space), 0.0, 1.0)
    result = env.observation(space.pack([[3.0, 8.0], [2.0, 2.0]]))
    # (3 - 2) / 2, 8 / 8; (2 - 2) / 2, 2 / 8. Scaled by the bounds widened for the padding, 3 of 0..4 were 0.75.
    assert result["elements"].tolist() == [[0.5, 1.0], [0.0, 0.25], [0.0, 0.0]]
    assert result["mask"].tolist() == [1, 1, 0]
    assert env.observation_space == sekai.MaskedBox(0.0, 1.0, (2,), 3, dtype=np.float64)


def refused(kind: type[Exception], text: str, make: Any) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        make()


UNBOUNDED = sekai.Box(0.0, np.inf, (1,))
FLAT = sekai.Box([0.0, 3.0], [1.0, 3.0])
LOW = sekai.Box(0.0, 1.0, (2,))


@pytest.mark.parametrize(
    ("space", "bounds", "text"),
    [
        (UNBOUNDED, (0, 1), f"{{}} needs bounds to scale from; the space is {UNBOUNDED}."),
        (sekai.Dict({"a": UNBOUNDED}), (0, 1), f"{{}} needs bounds to scale from; ['a'] is {UNBOUNDED}."),
        (
            sekai.Box(-np.inf, np.inf, (1,), np.int32),
            (0, 1),
            f"{{}} needs bounds to scale from; the space is {sekai.Box(-np.inf, np.inf, (1,), np.int32)}.",
        ),
        (FLAT, (0, 1), f"{{}} cannot scale an interval of length zero; the space is {FLAT}."),
        (LOW, (1.0, 1.0), "{}: bounds 1.0 and 1.0; expected finite numbers, the lower below the higher."),
        (LOW, (2.0, 1.0), "{}: bounds 2.0 and 1.0; expected finite numbers, the lower below the higher."),
        (LOW, (0.0, np.inf), "{}: bounds 0.0 and inf; expected finite numbers, the lower below the higher."),
        (LOW, (np.nan, 1.0), "{}: bounds nan and 1.0; expected finite numbers, the lower below the higher."),
        (LOW, ([0.0, 0.0, 0.0], 1.0), f"{{}}: bounds of shape (3,) and () do not fit the space, {LOW}."),
    ],
)
def test_bounds_that_cannot_be_scaled_are_refused(space: Any, bounds: Any, text: str) -> None:
    refused(ValueError, text.format("RescaleObservation"), lambda: sekai.RescaleObservation(Shows(space), *bounds))
    env = Shows(LOW, actions=space)
    refused(ValueError, text.format("RescaleAction"), lambda: sekai.RescaleAction(env, *bounds))


@pytest.mark.parametrize(
    "make",
    [
        lambda env: sekai.RescaleObservation(env, 0, 1), lambda env: sekai.DtypeObservation(env, np.float32),
        lambda env: sekai.RescaleAction(env, 0, 1), sekai.ClipAction,
    ],
)  # fmt: skip
def test_where_there_is_no_box_there_is_nothing_to_transform(make: Any) -> None:
    space = sekai.Dict({"a": sekai.Discrete(3)})
    text = f"There is nothing to transform: {space} has no Box part."
    refused(TypeError, text, lambda: make(Shows(space, actions=space)))


# DtypeObservation


def test_a_dtype_is_cast_with_its_bounds() -> None:
    space = sekai.Dict({"image": sekai.Box(0, 255, (2,), np.uint8), "gear": sekai.Discrete(5)})
    env = sekai.DtypeObservation(Shows(space), np.float32)
    expected = {"image": sekai.Box(0.0, 255.0, (2,), np.float32), "gear": sekai.Discrete(5)}
    assert env.observation_space == sekai.Dict(expected)
    result = env.observation({"image": np.array([0, 255], np.uint8), "gear": np.int64(3)})
    assert result["image"].dtype == np.float32
    assert result["image"].tolist() == [0.0, 255.0]
    assert result["gear"] == 3


def test_the_new_dtype_may_be_an_integer_that_holds_the_bounds() -> None:
    env = sekai.DtypeObservation(Shows(sekai.Box(-3, 100, (1,), np.int64)), "int8")
    assert env.observation_space == sekai.Box(-3, 100, (1,), np.int8)
    assert env.observation(np.array([-3])).dtype == np.int8
    booleans = sekai.DtypeObservation(Shows(sekai.Box(0, 1, (2,), np.bool_)), np.uint8)
    assert booleans.observation(np.array([True, False])).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("space", "dtype", "kind", "text"),
    [
        (TWO, np.int64, ValueError, "DtypeObservation: observation is float64, and int64 would cut its fractions."),
        (
            sekai.Tuple([sekai.Discrete(2), TWO]),
            np.int8,
            ValueError,
            "DtypeObservation: observation[1] is float64, and int8 would cut its fractions.",
        ),
        (
            sekai.Box(0, 255, (1,), np.uint8),
            np.int8,
            ValueError,
            "DtypeObservation: int8 does not hold the bounds of observation, Box(0, 255, (1,), uint8).",
        ),
        (
            sekai.Box(-1, 5, (1,), np.int64),
            np.uint64,
            ValueError,
            "DtypeObservation: uint64 does not hold the bounds of observation, Box(-1, 5, (1,), int64).",
        ),
        (TWO, bool, TypeError, "DtypeObservation: dtype is bool; expected an integer or a floating dtype."),
        (TWO, str, TypeError, "DtypeObservation: dtype is <U0; expected an integer or a floating dtype."),
    ],
)
def test_a_dtype_that_would_lose_something_is_refused(space: Any, dtype: Any, kind: Any, text: str) -> None:
    refused(kind, text, lambda: sekai.DtypeObservation(Shows(space), dtype))


def test_a_float_dtype_too_small_for_the_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Box high holds a value that float16 cannot represent: \[1000000\.\]\."):
        sekai.DtypeObservation(Shows(sekai.Box(0.0, 1e6, (1,), np.float64)), np.float16)


# FilterObservation


PARTS = sekai.Dict({"alpha": sekai.Discrete(2), "beta": sekai.Box(0.0, 1.0, (1,)), "gamma": sekai.Discrete(3)})


def test_some_keys_are_kept_in_the_order_given() -> None:
    observation = {"alpha": 1, "beta": np.zeros(1, np.float32), "gamma": 2}
    env = sekai.FilterObservation(Shows(PARTS, [observation]), ["gamma", "alpha"])
    assert list(env.reset().observation.items()) == [("gamma", 2), ("alpha", 1)]
    assert list(env.observation_space.spaces) == ["gamma", "alpha"]
    assert env.observation_space == sekai.Dict({"alpha": sekai.Discrete(2), "gamma": sekai.Discrete(3)})
    assert list(observation) == ["alpha", "beta", "gamma"]


def test_some_places_of_a_tuple_are_kept_in_the_order_given() -> None:
    space = sekai.Tuple([sekai.Discrete(2), sekai.Discrete(3), sekai.Discrete(4)])
    env = sekai.FilterObservation(Shows(space, [(0, 1, 2)]), iter([2, 0]))
    assert env.reset().observation == (2, 0)
    assert env.observation_space == sekai.Tuple([sekai.Discrete(4), sekai.Discrete(2)])


@given(st.permutations(["alpha", "beta", "gamma"]), st.integers(1, 3), st.integers(1, 3))
def test_a_filtered_batch_is_the_batch_of_the_filtered(order: list[str], kept: int, n: int) -> None:
    space, apply = filtered(PARTS, order[:kept])
    samples = [PARTS.sample() for _ in range(n)]
    assert equal(apply(spaces.concatenate(PARTS, samples)), spaces.concatenate(space, map(apply, samples)))


ALL_KEYS = "['alpha', 'beta', 'gamma']"


@pytest.mark.parametrize(
    ("keys", "kind", "text"),
    [
        (["beat"], ValueError, f"the observation has no 'beat'; it has {ALL_KEYS}. Did you mean 'beta'?"),
        (["alpha", "xyz"], ValueError, f"the observation has no 'xyz'; it has {ALL_KEYS}."),
        ([0], ValueError, f"the observation has no 0; it has {ALL_KEYS}."),
        ([], ValueError, f"keys is []; expected at least one of {ALL_KEYS}, each once."),
        (
            ["beta", "beta"],
            ValueError,
            f"keys is ['beta', 'beta']; expected at least one of {ALL_KEYS}, each once.",
        ),
        ("beta", TypeError, "keys is 'beta'; expected a list of keys, such as ['beta']."),
    ],
)
def test_keys_that_are_wrong_are_refused(keys: Any, kind: Any, text: str) -> None:
    refused(kind, f"FilterObservation: {text}", lambda: sekai.FilterObservation(Shows(PARTS), keys))


def test_a_place_counted_from_the_end_is_refused() -> None:
    space = sekai.Tuple([sekai.Discrete(2), sekai.Discrete(3)])
    text = "FilterObservation: the observation has no -1; it has [0, 1]."
    refused(ValueError, text, lambda: sekai.FilterObservation(Shows(space), [-1]))


def test_an_observation_without_parts_is_not_filtered() -> None:
    text = f"FilterObservation needs a Dict or Tuple observation; given {TWO}."
    refused(TypeError, text, lambda: sekai.FilterObservation(Shows(TWO), [0]))


# FlattenObservation


def test_all_parts_become_one_array() -> None:
    space = sekai.Dict({"beta": sekai.Box(0.0, 1.0, (2, 2)), "alpha": sekai.Discrete(3, start=5)})
    env = sekai.FlattenObservation(Shows(space))
    result = env.observation({"alpha": 6, "beta": np.array([[0.0, 0.25], [0.5, 1.0]], np.float32)})
    # a Dict is in the order of its keys: alpha as [5, 6, 7] one-hot, then beta row by row
    assert result.tolist() == [0.0, 1.0, 0.0, 0.0, 0.25, 0.5, 1.0]
    assert env.observation_space.shape == (7,)


@given(fixed_spaces)
def test_a_flattened_sample_lies_in_the_flat_space_and_can_be_unflattened(space: Any) -> None:
    env = sekai.FlattenObservation(Shows(space))
    sample = space.sample()
    flat = env.observation(sample)
    assert type(flat) is np.ndarray
    assert flat in env.observation_space
    assert close(space, spaces.unflatten(space, flat), sample)


def test_what_has_no_fixed_size_is_not_flattened() -> None:
    space = sekai.Sequence(sekai.Discrete(2))
    text = f"FlattenObservation needs samples of one size; given {space}. PadSequenceObservation makes them so."
    refused(TypeError, text, lambda: sekai.FlattenObservation(Shows(space)))


# TransformObservation


def test_a_function_is_applied_to_every_observation() -> None:
    given = [np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([5.0, 0.0])]
    env = sekai.TransformObservation(Shows(TWO, given), lambda o: o[::-1] / 2)
    assert [one.tolist() for one in shown(env, 2)] == [[1.0, 0.5], [2.0, 1.5], [0.0, 2.5]]
    assert env.observation_space == TWO


def test_the_new_space_is_declared_by_the_caller() -> None:
    new = sekai.Dict({"sum": sekai.Box(-4.0, 14.0, (), np.float64)})
    env = sekai.TransformObservation(Shows(TWO, [np.array([1.0, 2.0])]), lambda o: {"sum": o.sum()}, new)
    assert env.reset().observation == {"sum": 3.0}
    assert env.observation_space == new


@pytest.mark.parametrize(
    ("func", "given"),
    [(lambda o: o[:1], "shape (1,) and dtype float64"), (lambda o: o + 1j, "shape (2,) and dtype complex128")],
)
def test_a_result_that_does_not_fit_is_refused_at_the_first_observation(func: Any, given: str) -> None:
    env = sekai.TransformObservation(Shows(TWO, [np.array([1.0, 2.0])]), func)
    text = (
        "TransformObservation: sub-env 0: observation must have shape (2,) and a dtype that casts to float64, got "
        f"{given}. Declare the space: new_observation_space=..."
    )
    for _ in range(2):
        refused(sekai.SpaceMismatch, text, env.reset)


# ClipAction and RescaleAction


def executed(wrap: Any, space: Any, action: Any) -> Any:
    """What reaches the environment."""
    base = Shows(TWO, [np.zeros(2)] * 3, actions=space)
    env = wrap(base)
    env.reset()
    env.step(action)
    return base.executed[0]


def test_an_action_out_of_bounds_is_held_to_them() -> None:
    action = np.array([-1.0, 9.0])
    assert executed(sekai.ClipAction, TWO, action).tolist() == [0.0, 4.0]
    assert action.tolist() == [-1.0, 9.0], "the caller's array stays as it is"
    inside = np.array([3.0, -2.0])
    assert executed(sekai.ClipAction, TWO, inside).tolist() == [3.0, -2.0]
    assert np.isnan(executed(sekai.ClipAction, TWO, np.array([np.nan, 9.0]))).tolist() == [True, False]
    assert executed(sekai.ClipAction, sekai.Box(0, 255, (2,), np.uint8), np.array([-5, 300])).tolist() == [0, 255]


def test_only_the_box_parts_of_an_action_are_held() -> None:
    space = sekai.Dict({"turn": sekai.Box(-1.0, 1.0, (1,), np.float64), "gear": sekai.Discrete(3)})
    result = executed(sekai.ClipAction, space, {"turn": np.array([7.0]), "gear": 2})
    assert result["turn"].tolist() == [1.0]
    assert result["gear"] == 2
    assert sekai.ClipAction(Shows(TWO, actions=space)).action_space == space


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ([-1.0, -1.0], [0.0, -4.0]),  # the lower bounds, exactly
        ([1.0, 1.0], [10.0, 4.0]),  # the upper ones
        ([-0.5, 0.25], [2.5, 1.0]),  # (a + 1) / 2 * 10 and (a + 1) / 2 * 8 - 4
        ([-3.0, 3.0], [0.0, 4.0]),  # held
    ],
)
def test_an_action_is_brought_to_the_environments_bounds(action: list[float], expected: list[float]) -> None:
    def wrap(env: Any) -> Any:
        return sekai.RescaleAction(env, -1.0, 1.0)

    assert executed(wrap, TWO, np.array(action)).tolist() == expected
    env = wrap(Shows(TWO, actions=TWO))
    assert env.action_space == sekai.Box(-1.0, 1.0, (2,), np.float64)
    assert env.reverse_action(np.array(expected)).tolist() == np.clip(action, -1.0, 1.0).tolist()


def test_an_integer_action_is_rounded_to_the_nearest() -> None:
    space = sekai.Box(0, 10, (3,), np.int64)
    result = executed(lambda env: sekai.RescaleAction(env, 0.0, 1.0), space, np.array([0.26, 0.74, 1.0], np.float32))
    assert result.dtype == np.int64
    assert result.tolist() == [3, 7, 10]  # 2.6 and 7.4; cut off they were 2 and 7
    env = sekai.RescaleAction(Shows(TWO, actions=space), 0.0, 1.0)
    assert env.action_space == sekai.Box(0.0, 1.0, (3,), np.float32)
    assert env.reverse_action(np.array([0, 5, 10])).tolist() == [0.0, 0.5, 1.0]


@given(bounded_spaces, st.integers(0, 2**31))
def test_an_action_comes_back_from_the_environments_bounds(space: Any, seed: int) -> None:
    env = sekai.RescaleAction(Shows(TWO, actions=space), -1.0, 1.0)
    space.seed(seed)
    action = space.sample()
    reverse = env.reverse_action(action)
    assert reverse in env.action_space
    assert env.action(reverse) in space
    assert close(space, env.action(reverse), action)


def test_bounds_change_precision_without_a_word() -> None:
    env = sekai.DtypeObservation(Shows(sekai.Box(0.0, 0.1, (1,), np.float32)), np.float64)
    assert env.observation_space == sekai.Box(0.0, np.float64(np.float32(0.1)), (1,), np.float64)


def test_an_unbounded_integer_box_is_unbounded_as_floats() -> None:
    low, high = np.array([-np.inf, 0.0]), np.array([np.inf, 5.0])
    space = sekai.DtypeObservation(Shows(sekai.Box(low, high, dtype=np.int32)), np.float32).observation_space
    assert isinstance(space, sekai.Box)
    assert (space.low.tolist(), space.high.tolist()) == ([-np.inf, 0.0], [np.inf, 5.0])


def test_intervals_that_cannot_be_told_apart_or_measured_are_refused() -> None:
    unit, wide = sekai.Box(0.0, 1.0, (1,)), sekai.Box(-1.7e308, 1.7e308, (1,), np.float64)
    with pytest.raises(ValueError, match=r"bounds 1\.0 and 1\.000000001 are the same number in float32"):
        rescaled(unit, 1.0, 1.0 + 1e-9, name="It")
    with pytest.raises(ValueError, match="It cannot scale an interval that long"):
        rescaled(wide, 0.0, 1.0, name="It")


def test_a_bool_box_is_rounded_to() -> None:
    back = unscaled(sekai.Box(0, 1, (1,), np.bool_), -1.0, 1.0, name="It").apply
    # -0.9 lies at 0.05 of the way, 0.9 at 0.95: a cast alone would make both True
    assert back(np.array([-0.9])).tolist() == [False] and back(np.array([0.9])).tolist() == [True]


@pytest.mark.parametrize(
    ("keys", "kind"), [([True], ValueError), ([1.0], ValueError), (None, TypeError), (5, TypeError)]
)
def test_odd_keys_are_refused(keys: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^FilterObservation: "):
        sekai.FilterObservation(Shows(sekai.Tuple([sekai.Discrete(2), sekai.Discrete(3)])), keys)


def test_integers_beyond_the_floats_are_refused() -> None:
    with pytest.raises(ValueError, match="It cannot scale an interval that long"):
        unscaled(sekai.Box(0, 2**63 - 1, (1,), np.int64), -1.0, 1.0, name="It")


def test_wrappers_made_of_formulas_can_be_pickled() -> None:
    space = sekai.Dict(a=sekai.Box(0.0, 4.0, (2,)), b=sekai.Discrete(3))
    for wrap in (
        sekai.FlattenObservation,
        lambda env: sekai.RescaleObservation(env, 0.0, 1.0),
        lambda env: sekai.FilterObservation(env, ["a"]),
        lambda env: sekai.DtypeObservation(env, np.float64),
        sekai.NormalizeObservation,
    ):
        env = wrap(Shows(space))
        twin = pickle.loads(pickle.dumps(env))
        sample = {"a": np.array([1.0, 2.0], np.float32), "b": np.int64(1)}
        assert str(twin.observation(sample)) == str(env.observation(sample))
