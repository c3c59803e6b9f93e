"""Margins made of margins: minimum is AND, maximum is OR, and no sign is ever lost."""

from __future__ import annotations

import math
import pickle
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.safety.margins import MarginState, MarginWrapper
from sekai.safety.tasks import all_of, any_of, clamped, compose, scaled

#: no product below is so small that it would be 0
numbers = st.one_of(st.just(0.0), st.floats(1e-30, 1e30), st.floats(-1e30, -1e-30))
states = st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=5).map(np.array)


def first(state: Any) -> Any:
    return state[..., 0]


def second(state: Any) -> Any:
    return state[..., 1]


def third(state: Any) -> Any:
    return state[..., 2]


def as_torch(state: Any) -> Any:
    return pytest.importorskip("torch").tensor(state)


@given(states)
def test_the_sign_of_all_of_is_and_and_that_of_any_of_is_or(state: Any) -> None:
    signs = state >= 0
    np.testing.assert_array_equal(all_of(first, second, third)(state) >= 0, signs.all(-1))
    np.testing.assert_array_equal(any_of(first, second, third)(state) >= 0, signs.any(-1))


@given(states)
def test_they_are_the_minimum_and_the_maximum(state: Any) -> None:
    np.testing.assert_array_equal(all_of(first, second, third)(state), state.min(-1))
    np.testing.assert_array_equal(any_of(first, second, third)(state), state.max(-1))


@given(states)
def test_no_margin_fails_where_its_opposite_is_not_above_zero(state: Any) -> None:
    # De Morgan: NOT (a AND b) = (NOT a) OR (NOT b), where NOT is the sign turned round
    one = all_of(first, second)(state)
    other = any_of(lambda s: -first(s), lambda s: -second(s))(state)
    np.testing.assert_array_equal(one, -other)


@given(states, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_clamping_and_scaling_keep_signs(state: Any, below: float, above: float) -> None:
    bounded = clamped(first, -below, above)(state)
    np.testing.assert_array_equal(bounded >= 0, first(state) >= 0)
    assert (bounded >= -below).all() and (bounded <= above).all()
    np.testing.assert_array_equal(scaled(first, above)(state) >= 0, first(state) >= 0)


@given(states)
def test_tensors_give_what_arrays_give(state: Any) -> None:
    tensors = as_torch(state)
    for margin in (
        all_of(first, any_of(second, third)),
        clamped(first, -0.5, 2.0),
        scaled(second, 3.0),
        compose(second, lambda s: 2.0 * s),
    ):
        value = margin(tensors)
        assert type(value) is type(tensors) and value.dtype == tensors.dtype
        np.testing.assert_array_equal(value.numpy(), margin(state))


def test_numbers_by_hand() -> None:
    # walls: 1 - |x|; speed: .5 - |v|; state (.25, -.75): min(.75, -.25) = -.25, max = .75
    walls = compose(lambda x: 1.0 - abs(x), first)
    speed = compose(lambda v: 0.5 - abs(v), second)
    state = np.array([0.25, -0.75])
    assert (all_of(walls, speed)(state), any_of(walls, speed)(state)) == (-0.25, 0.75)
    assert scaled(all_of(walls, speed), 4.0)(state) == -1.0
    assert clamped(scaled(all_of(walls, speed), 4.0), -0.5, 0.1)(state) == -0.5
    assert clamped(walls, -0.5, 0.1)(state) == 0.1


def test_what_is_no_number_stays_none() -> None:
    state = np.array([np.nan, 1.0, -1.0])
    for margin in (all_of(first, second), any_of(first, third), clamped(first, -1, 1), scaled(first, 2)):
        assert np.isnan(margin(state))


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (-1.0, 0.0), (0.5, 1.0), (-1.0, -0.5), (1.0, -1.0), (math.nan, 1), (-1, math.nan)]
)
def test_bounds_that_are_not_around_zero_are_refused(low: float, high: float) -> None:
    message = f"The bounds are {low} and {high}; expected low < 0 < high, so that the sign of g stays."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        clamped(first, low, high)


@pytest.mark.parametrize("factor", [0.0, -1.0, math.inf, math.nan])
def test_factors_that_would_change_signs_are_refused(factor: float) -> None:
    message = f"The factor is {factor}; expected a finite number above 0, so that the sign of g stays."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        scaled(first, factor)


def test_one_bound_may_be_left_open() -> None:
    state = np.array([[5.0], [-5.0]])
    assert clamped(first, -math.inf, 1.0)(state).tolist() == [1.0, -5.0]
    assert clamped(first, -1.0, math.inf)(state).tolist() == [5.0, -1.0]


def test_what_is_no_function_is_refused() -> None:
    for build in (all_of, any_of):
        with pytest.raises(
            ValueError, match=rf"^{build.__name__}\(\) was given nothing; expected at least one function"
        ):
            build()
        with pytest.raises(TypeError, match=f"^{build.__name__} was given 0.5; expected a function of states.$"):
            build(first, 0.5)  # type: ignore[arg-type]  # what is refused
    for refused in (lambda: clamped(1.0, -1, 1), lambda: scaled(None, 2), lambda: compose(first, 3)):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="expected a function of states"):
            refused()


def test_they_print_as_written_compare_by_parts_and_are_sent() -> None:
    here = f"{__name__}."
    margin = all_of(any_of(first, second), clamped(scaled(first, 2.0), -1.0, 1.0), compose(first, second))
    assert repr(margin) == (
        f"all_of(any_of({here}first, {here}second), clamped(scaled({here}first, 2.0), -1.0, 1.0), "
        f"compose({here}first, {here}second))"
    )
    assert all_of(first, second) == all_of(first, second) != all_of(second, first)
    assert all_of(first, second) != any_of(first, second)


def test_a_margin_of_named_functions_can_be_pickled() -> None:
    margin = clamped(all_of(abs, scaled(math.sin, 2.0)), -1.0, 1.0)
    sent = pickle.loads(pickle.dumps(margin))
    assert sent == margin and sent(3.0) == margin(3.0) == 2.0 * math.sin(3.0)


def test_margins_of_one_state_are_numbers_for_the_wrapper() -> None:
    import gymnasium

    def upright(state: MarginState) -> float:
        return 0.2 - abs(float(state.env.state[2]))

    def on_track(state: MarginState) -> float:
        return 2.4 - abs(float(state.env.state[0]))

    env = MarginWrapper(gymnasium.make("CartPole-v1"), g=clamped(all_of(upright, on_track), -1.0, 0.15))
    env.reset(seed=0)
    assert env.step(1).reward == 0.15
