"""Both operators on numbers worked out by hand, and what plausible wrong ones would give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sekai.safety.backups import (
    AVOID,
    REACH_AVOID,
    avoid_target,
    backup_ends,
    check_mode,
    check_terminal_type,
    reach_avoid_target,
    target,
)

torch = pytest.importorskip("torch")
margins = arrays(np.float64, 6, elements=st.floats(-2, 2, width=32))


def a(*numbers: float) -> Any:
    return np.array(numbers)


def test_avoid_by_hand() -> None:
    # gamma 0.9
    #   g   v_next  goes on                                       ends
    #   1   2       .1 * 1 + .9 * min(1, 2)    = .1  + .9  = 1     1
    #   1   .5      .1 * 1 + .9 * .5           = .1  + .45 = .55   1
    #   .2  -1      .1 * .2 + .9 * -1          = .02 - .9  = -.88  .2
    #   -.1 3       .1 * -.1 + .9 * -.1        = -.1               -.1
    g, v = a(1, 1, 0.2, -0.1), a(2, 0.5, -1, 3)
    np.testing.assert_allclose(avoid_target(g, v, a(1, 1, 1, 1), 0.9), [1, 0.55, -0.88, -0.1])
    np.testing.assert_allclose(avoid_target(g, v, a(0, 0, 0, 0), 0.9), [1, 1, 0.2, -0.1])


def test_reach_avoid_by_hand() -> None:
    # gamma 0.9, min(l, g) is the anchor
    #   g   l    v_next  goes on                                                     ends "all"  "g"
    #   1   -.5  .4      .1 * -.5 + .9 * min(1, max(-.5, .4)) = -.05 + .36 = .31     -.5         1
    #   1   .3   -1      .1 * .3  + .9 * min(1, max(.3, -1))  = .03 + .27  = .3      .3          1
    #   .2  .6   .9      .1 * .2  + .9 * min(.2, .9)          = .02 + .18  = .2      .2          .2
    #   -.1 .5   .5      .1 * -.1 + .9 * min(-.1, .5)         = -.01 - .09 = -.1     -.1         -.1
    g, l, v = a(1, 1, 0.2, -0.1), a(-0.5, 0.3, 0.6, 0.5), a(0.4, -1, 0.9, 0.5)  # noqa: E741
    on, off = np.ones(4, bool), np.zeros(4, bool)
    np.testing.assert_allclose(reach_avoid_target(g, l, v, on, 0.9), [0.31, 0.3, 0.2, -0.1])
    np.testing.assert_allclose(reach_avoid_target(g, l, v, off, 0.9), [-0.5, 0.3, 0.2, -0.1])
    np.testing.assert_allclose(reach_avoid_target(g, l, v, off, 0.9, "g"), [1, 1, 0.2, -0.1])


def test_a_failure_is_worth_at_most_its_floor_and_nothing_else_is_touched() -> None:
    g, v = a(-0.1, -0.8, 0.2, -0.1), a(1, 1, 1, 1)
    ends = np.array([True, True, True, False])
    # failed with -.1: at most -.5; with -.8: that is less already; no failure: its g; goes on: -.1 as ever
    got = avoid_target(g, v, ~ends, 0.9, failure_value=-0.5)
    np.testing.assert_allclose(got, [-0.5, -0.8, 0.2, -0.1])
    l = a(0.3, 0.3, -0.7, 0.3)  # noqa: E741
    got = reach_avoid_target(g, l, v, ~ends, 0.9, failure_value=-0.5)
    np.testing.assert_allclose(got, [-0.5, -0.8, -0.7, -0.1])
    got = reach_avoid_target(g, l, v, ~ends, 0.9, "g", failure_value=-0.5)
    np.testing.assert_allclose(got, [-0.5, -0.8, 0.2, -0.1])


@pytest.mark.parametrize(("mode", "l", "ends_at"), [(AVOID, None, 0.4), (REACH_AVOID, 0.1, 0.1)])
def test_the_four_pairs_of_flags(mode: str, l: float | None, ends_at: float) -> None:  # noqa: E741
    terminated, truncated = np.array([False, False, True, True]), np.array([False, True, False, True])
    g, v = np.full(4, 0.4), np.full(4, 0.2)
    margin = None if l is None else np.full(4, l)
    # goes on: avoid .5 * .4 + .5 * min(.4, .2) = .3; reach-avoid .5 * .1 + .5 * min(.4, max(.1, .2)) = .15
    on = 0.3 if l is None else 0.15
    y = target(mode, g, v, ~backup_ends(terminated, truncated), 0.5, margin)
    np.testing.assert_allclose(y, [on, ends_at, ends_at, ends_at])
    ends = backup_ends(terminated, truncated, bootstrap_on_timeout=True)
    np.testing.assert_allclose(target(mode, g, v, ~ends, 0.5, margin), [on, on, ends_at, ends_at])


def fixed_point(mode: str, g: Any, l: Any, nexts: Any, gamma: float, start: float) -> Any:  # noqa: E741
    """Values of states whose best successor is among `nexts`, by sweeping the operator."""
    value = np.full(len(g), start)
    for _ in range(20_000):
        on = np.ones(len(g), bool)
        options = [
            target(mode, g[after], value[after], on, gamma, None if l is None else l[after])
            for after in np.array(nexts).T
        ]
        value, before = np.max(options, axis=0), value
        if np.abs(value - before).max() < 1e-12:
            break
    return value


def test_waiting_next_to_the_target_is_worth_less_than_going_there() -> None:
    # 0 is outside the target (l -.2) and may wait or go to 1, which is inside (l .5); g is 1 and .4
    g, l, nexts = a(1, 0.4), a(-0.2, 0.5), [(0, 1), (1, 1)]  # noqa: E741
    value = fixed_point(REACH_AVOID, g, l, nexts, 0.9, -1.0)
    # 1 -> 1: min(l, g) = .4 and min(g, max(l, V)) = .4: V = .4; and going there from 0 is worth the same
    np.testing.assert_allclose(value, [0.4, 0.4], atol=1e-9)
    # anchored at g, as an early release of others was, waiting is worth more than arriving: V = 1 * .1 + .9 * V' > .4
    wrong = np.full(2, -1.0)
    for _ in range(500):
        wrong = np.max([[0.1 * g[s] + 0.9 * min(g[s], max(l[s], wrong[s])) for s in after] for after in nexts], axis=1)
    assert wrong[0] > 0.9


def test_no_constant_l_makes_avoid_of_reach_avoid() -> None:
    # 0 -> 1 -> 2 -> 2 with g .8, .3, -.5: avoid knows that 0 is doomed
    g, nexts = a(0.8, 0.3, -0.5), [(1,), (2,), (2,)]
    assert (fixed_point(AVOID, g, None, nexts, 0.999, 1.0) < 0).all()
    nothing = fixed_point(REACH_AVOID, g, np.full(3, -10.0), nexts, 0.999, 1.0)
    assert (fixed_point(REACH_AVOID, a(1, 1, 1), np.full(3, -10.0), nexts, 0.999, 1.0) < -9).all()  # safe for ever
    assert (nothing < -9).all()
    always = fixed_point(REACH_AVOID, g, np.full(3, 10.0), nexts, 0.999, 1.0)
    np.testing.assert_allclose(always, g[[1, 2, 2]], atol=1e-9)  # the margin of the next state: no look ahead
    with pytest.raises(ValueError, match="l was given to an avoid backup, which has no target"):
        target(AVOID, g, g, np.ones(3, bool), 0.9, np.zeros(3))
    with pytest.raises(ValueError, match="needs the target margins l"):
        target(REACH_AVOID, g, g, np.ones(3, bool), 0.9)


def test_undiscounted_avoid_keeps_what_it_is_started_with_and_discounted_does_not() -> None:
    g, nexts = a(0.5, 0.5), [(0,), (1,)]
    np.testing.assert_allclose(fixed_point(AVOID, g, None, nexts, 1.0, -3.0), [-3, -3])  # any V <= g is a fixed point
    np.testing.assert_allclose(fixed_point(AVOID, g, None, nexts, 0.9, -3.0), [0.5, 0.5], atol=1e-9)


@given(g=margins, l=margins, v=margins, on=arrays(bool, 6), gamma=st.floats(0, 1), kind=st.sampled_from(["all", "g"]))
def test_torch_gives_the_same_numbers(g: Any, l: Any, v: Any, on: Any, gamma: float, kind: str) -> None:  # noqa: E741
    for floor in (None, -0.7):
        t = [torch.as_tensor(x) for x in (g, l, v, on)]
        wanted = avoid_target(g, v, on, gamma, failure_value=floor)
        np.testing.assert_array_equal(avoid_target(t[0], t[2], t[3], gamma, failure_value=floor).numpy(), wanted)
        wanted = reach_avoid_target(g, l, v, on, gamma, kind, failure_value=floor)
        got = reach_avoid_target(t[0], t[1], t[2], t[3], gamma, kind, failure_value=floor)
        np.testing.assert_array_equal(got.numpy(), wanted)


@given(g=margins, l=margins, v=margins, gamma=st.floats(0, 1))
def test_a_target_lies_between_what_it_is_made_of(g: Any, l: Any, v: Any, gamma: float) -> None:  # noqa: E741
    on = np.ones(6, bool)
    y = avoid_target(g, v, on, gamma)
    assert (y <= g + 1e-12).all() and (y >= np.minimum(g, v) - 1e-12).all()
    y = reach_avoid_target(g, l, v, on, gamma)
    assert (y <= g + 1e-12).all() and (y >= np.minimum(l, g) - 1e-12).all()


def test_unknown_words_are_refused() -> None:
    assert check_mode("avoid") == AVOID and check_terminal_type("g") == "g"
    with pytest.raises(ValueError, match=r"mode is 'reach'; expected one of \('avoid', 'reach-avoid'\)"):
        check_mode("reach")
    with pytest.raises(ValueError, match=r"terminal_type is 'l'; expected one of \('all', 'g'\)"):
        check_terminal_type("l")
    with pytest.raises(ValueError, match=r"failure_value is 0\.0; expected a number below 0"):
        avoid_target(a(1), a(1), a(1), 0.9, failure_value=0.0)
