"""The QP of one condition in a box: hand-worked solutions, and none nearer on a grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.safety.filters import AffineMonitor, AffineQp, Shield, box_qp
from tests.safety.filters.braking import SPACE

LOW, HIGH = (-1.0, -1.0), (1.0, 1.0)


@pytest.mark.parametrize(
    ("wanted", "a", "b", "solution", "feasible"),
    [
        ((0.2, 0.3), (1.0, 0.0), 0.1, (0.2, 0.3), True),  # met already: 0.2 >= 0.1
        ((0.0, 0.0), (1.0, 1.0), 1.0, (0.5, 0.5), True),  # along (1, 1) to u1 + u2 = 1
        ((0.0, 0.0), (3.0, 4.0), 5.0, (0.6, 0.8), True),  # t = 5 / 25 = .2
        # along (1, .5): u1 stops at 1 for t = 1, 1 + .25 = 1.25 so far; u2 goes on until 1 + .5 u2 = 1.4, u2 = .8
        ((0.0, 0.0), (1.0, 0.5), 1.4, (1.0, 0.8), True),
        # from outside of the box: (2, 0) is held to (1, 0), and 1 - u2 >= 1.5 asks for u2 = -.5
        ((2.0, 0.0), (1.0, -1.0), 1.5, (1.0, -0.5), True),
        ((0.0, 0.0), (1.0, 1.0), 2.0, (1.0, 1.0), True),  # the corner just meets it
        ((0.0, 0.5), (1.0, 0.0), 1.5, (1.0, 0.5), False),  # 1 is all that u1 can give
        ((0.3, 0.4), (0.0, 0.0), 0.0, (0.3, 0.4), True),
        ((0.3, 0.4), (0.0, 0.0), 0.1, (0.3, 0.4), False),
    ],
)
def test_solutions_by_hand(wanted: Any, a: Any, b: float, solution: Any, feasible: bool) -> None:
    found, met = box_qp([wanted], [a], [b], LOW, HIGH)
    assert found[0] == pytest.approx(solution)
    assert met.tolist() == [feasible]


SIDE = np.linspace(-1, 1, 81)
POINTS = np.stack(np.meshgrid(SIDE, SIDE), -1).reshape(-1, 2)
number = st.floats(-2, 2).map(lambda x: round(x, 3))


@settings(max_examples=300, deadline=None)
@given(wanted=st.tuples(number, number), a=st.tuples(number, number), b=number)
def test_no_point_that_meets_the_condition_is_nearer(wanted: Any, a: Any, b: float) -> None:
    (found,), (feasible,) = box_qp([wanted], [a], [b], LOW, HIGH)
    assert (abs(found) <= 1).all()
    assert feasible == (abs(a[0]) + abs(a[1]) >= b - 1e-12) or abs(abs(a[0]) + abs(a[1]) - b) < 1e-9
    meets = POINTS @ np.array(a) >= b
    if not feasible:
        assert np.dot(a, found) == pytest.approx(abs(a[0]) + abs(a[1]))  # the most that can be done
        return
    assert np.dot(a, found) >= b - 1e-9
    if meets.any():
        nearest = np.linalg.norm(POINTS[meets] - wanted, axis=1).min()
        assert np.linalg.norm(found - wanted) <= nearest + 1e-9


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_slots_do_not_depend_on_each_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    wanted, a, b = rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), rng.normal(size=5)
    low, high = -np.ones(3), np.array([0.5, 1.0, 2.0])
    together, met = box_qp(wanted, a, b, low, high)
    for slot in range(5):
        alone, alone_met = box_qp(wanted[[slot]], a[[slot]], b[[slot]], low, high)
        assert (alone[0] == together[slot]).all() and alone_met[0] == met[slot]


def braking_condition(rows: Any) -> tuple[Any, Any]:
    """h = 1 - x - v² / 2 may fall at a rate of 2 at most, for a mass that moves to the right: -v - v u >= -2 h."""
    x, v = rows[:, 0], rows[:, 1]
    return -v[:, None], v - 2 * (1 - x - v**2 / 2)


def test_the_filter_of_a_barrier_function_by_hand() -> None:
    # (.5, .8): h = 1 - .5 - .32 = .18, so -.8 - .8 u >= -.36, u <= -.55
    rows = np.array([[0.5, 0.8]])
    shield = Shield(
        AffineMonitor(braking_condition),
        lambda rows: -np.ones((1, 1)),
        SPACE,
        intervention=AffineQp(braking_condition),
    )
    decision = shield.decide(rows, [[1.0]], [False])
    assert decision.margins == pytest.approx([-0.8 * 1.55])  # -.8 u - (.8 - .36) at u = 1
    assert decision.actions == pytest.approx(np.array([[-0.55]]), abs=1e-5)
    assert shield.decide(rows, [[-0.6]], [False]).actions == pytest.approx(np.array([[-0.6]]))


def test_a_condition_of_wrong_shape_or_nan_is_refused() -> None:
    wrong = AffineMonitor(lambda rows: (np.ones((2, 2)), np.zeros(2)))
    with pytest.raises(ValueError, match=r"shape \(2, 2\) and \(2,\); expected \(2, 1\) and \(2,\)"):
        wrong.margins(np.zeros((2, 2)), np.zeros((2, 1)))
    missing = AffineMonitor(lambda rows: (np.ones((2, 1)), np.array([0.0, np.nan])))
    with pytest.raises(ValueError, match="for slot 1; expected finite"):
        missing.margins(np.zeros((2, 2)), np.zeros((2, 1)))
    with pytest.raises(ValueError, match="reserve is -1"):
        AffineQp(braking_condition, reserve=-1)
