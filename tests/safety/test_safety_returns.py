"""Returns of margins by hand, their range, and their two ends: one step and Monte Carlo."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.safety.backups import target
from sekai.safety.discount import failure_value, gamma_of
from sekai.safety.returns import safety_returns

torch = pytest.importorskip("torch")


def column(*numbers: float) -> Any:
    return np.array(numbers, float)[:, None]


def test_four_steps_by_hand() -> None:
    # gamma .9, lambda .5; the third step fails with g -.2 (floor -.5), the fourth is cut
    #   t=3  cut:  B(.6, v .4)  = .1 * .6 + .9 * .4                               = .42
    #   t=2  ends: -.5
    #   t=1  v = .5 * .8 + .5 * -.5 = .15;  .1 * .5 + .9 * min(.5, .15)           = .05 + .135 = .185
    #   t=0  v = .5 * .3 + .5 * .185 = .2425; .1 * 1 + .9 * .2425                 = .1 + .21825 = .31825
    g, v = column(1, 0.5, -0.2, 0.6), column(0.3, 0.8, 9, 0.4)
    on, trace = column(1, 1, 0, 1) != 0, column(1, 1, 0, 1) != 0
    got = safety_returns("avoid", g, v, not_done=on, trace=trace, gamma=0.9, lambda_=0.5, failure_value=-0.5)
    np.testing.assert_allclose(got[:, 0], [0.31825, 0.185, -0.5, 0.42])
    # reach-avoid, l -1, .2, -1, .7: t=3 min(l,g)=.6: .06 + .9 * min(.6, max(.7, .4)) = .06 + .54 = .6
    #   t=1 v .15: .1 * .2 + .9 * min(.5, max(.2, .15)) = .02 + .18 = .2
    #   t=0 v = .5 * .3 + .5 * .2 = .25: .1 * -1 + .9 * min(1, max(-1, .25)) = -.1 + .225 = .125
    l = column(-1, 0.2, -1, 0.7)  # noqa: E741
    more = {"not_done": on, "trace": trace, "gamma": 0.9, "lambda_": 0.5, "failure_value": -0.5}
    got = safety_returns("reach-avoid", g, v, l_t=l, **more)
    np.testing.assert_allclose(got[:, 0], [0.125, 0.2, -1.0, 0.6])  # the failure: min(l, g) = -1 is below the floor


rows = st.integers(0, 2**32 - 1)


def drawn(seed: int) -> tuple[Any, ...]:
    """Margins, values and flags of 12 rows and 3 slots, with ends and cuts."""
    rng = np.random.default_rng(seed)
    g, l, v = rng.normal(size=(3, 12, 3))  # noqa: E741
    done = rng.random((12, 3)) < 0.15
    trace = ~done & (rng.random((12, 3)) > 0.15)  # a timeout that is bootstrapped ends the recursion too
    return g, l, v, ~done, trace


@given(seed=rows, gamma=st.floats(0, 1), lambda_=st.floats(0, 1))
def test_avoid_returns_stay_between_the_least_they_are_made_of_and_g(seed: int, gamma: float, lambda_: float) -> None:
    g, _, v, on, trace = drawn(seed)
    got = safety_returns("avoid", g, v, not_done=on, trace=trace, gamma=gamma, lambda_=lambda_)
    assert (got <= g + 1e-12).all()
    assert (got >= min(g.min(), v.min()) - 1e-12).all()


def test_sums_outside_the_operator_leave_that_range() -> None:
    g, _, v, on, trace = drawn(0)
    deltas = target("avoid", g, v, on, 0.99) - v
    summed = deltas.copy()
    for t in range(10, -1, -1):
        summed[t] += np.where(trace[t], 0.99 * 0.95 * summed[t + 1], 0.0)
    assert (summed + v > g + 0.1).any() and (summed + v < min(g.min(), v.min()) - 0.1).any()


@given(seed=rows, gamma=st.floats(0, 1), mode=st.sampled_from(["avoid", "reach-avoid"]))
def test_lambda_0_is_the_one_step_target(seed: int, gamma: float, mode: str) -> None:
    g, l, v, on, trace = drawn(seed)  # noqa: E741
    margin = None if mode == "avoid" else l
    got = safety_returns(mode, g, v, not_done=on, trace=trace, gamma=gamma, lambda_=0.0, l_t=margin)
    np.testing.assert_array_equal(got, target(mode, g, v, on, gamma, margin))


@given(seed=rows)
def test_lambda_1_without_discount_is_what_was_met(seed: int) -> None:
    g, l, v, on, trace = drawn(seed)  # noqa: E741
    avoid = safety_returns("avoid", g, v, not_done=on, trace=trace, gamma=1.0, lambda_=1.0)
    reach = safety_returns("reach-avoid", g, v, not_done=on, trace=trace, gamma=1.0, lambda_=1.0, l_t=l)
    for slot in range(3):
        for t in range(12):
            end = t
            while end < 11 and trace[end, slot]:
                end += 1
            last = [v[end, slot]] if on[end, slot] else []
            assert avoid[t, slot] == min([*g[t : end + 1, slot], *last])
            # the best of: the target margin met at k, or the value at the cut, with the least g until then
            best = [min(l[k, slot], g[t : k + 1, slot].min()) for k in range(t, end + 1)]
            best += [min(value, g[t : end + 1, slot].min()) for value in last]
            assert reach[t, slot] == max(best)


@given(seed=rows, mode=st.sampled_from(["avoid", "reach-avoid"]))
def test_torch_gives_the_same_numbers(seed: int, mode: str) -> None:
    g, l, v, on, trace = drawn(seed)  # noqa: E741
    t = torch.as_tensor
    margins = (None, None) if mode == "avoid" else (l, t(l))
    wanted = safety_returns(mode, g, v, not_done=on, trace=trace, gamma=0.97, lambda_=0.9, l_t=margins[0])
    got = safety_returns(mode, t(g), t(v), not_done=t(on), trace=t(trace), gamma=0.97, lambda_=0.9, l_t=margins[1])
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12, atol=1e-12)


def test_values_where_the_backup_ends_are_not_read() -> None:
    g, v = column(1, 0.5), column(0.3, np.nan)
    got = safety_returns("avoid", g, v, not_done=column(1, 0) != 0, trace=column(1, 1) != 0, gamma=1.0, lambda_=1.0)
    np.testing.assert_allclose(got[:, 0], [0.5, 0.5])


def test_what_does_not_fit_is_refused() -> None:
    g, on = column(1, 1), column(1, 1) != 0
    with pytest.raises(ValueError, match=r"v_tp1 has shape \(1, 1\), and g_t \(2, 1\)"):
        safety_returns("avoid", g, g[:1], not_done=on, trace=on, gamma=0.9, lambda_=0.5)
    with pytest.raises(ValueError, match=r"lambda_ is 1.5; expected a number from 0 to 1"):
        safety_returns("avoid", g, g, not_done=on, trace=on, gamma=0.9, lambda_=1.5)


def test_the_failure_value_follows_its_rule() -> None:
    # DI at dt .05: 40 steps from a doomed state to the wall, margins up to 1: .99^-40 - 1 = .495, .999^-40 - 1 = .0408
    floor = failure_value(0.99, steps=40, g_max=1.0)
    assert floor.value == pytest.approx(-0.4948, abs=1e-4) and floor.risk == pytest.approx(1 / 1.4948, abs=1e-4)
    assert failure_value(0.999, steps=40, g_max=1.0).value == pytest.approx(-0.0408, abs=1e-4)
    # a doomed state 40 steps from failure, with g = g_max until then, has the value 0 exactly
    value = floor.value
    for _ in range(40):
        value = target("avoid", np.array([1.0]), np.array([value]), np.array([True]), 0.99)[0]
    assert value == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(ValueError, match="steps is 0"):
        failure_value(0.99, steps=0, g_max=1.0)


def test_a_horizon_is_the_same_at_every_step_length() -> None:
    assert gamma_of(5.0, 0.05) == pytest.approx(0.99) and gamma_of(5.0, 0.02) == pytest.approx(0.996)
    with pytest.raises(ValueError, match=r"horizon_s is 0.01 and dt 0.05 \(seconds\)"):
        gamma_of(0.01, 0.05)
