"""The order with a budget against moves of the price: by hand, by brute force, by value iteration, and by rollouts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from sekai.safety.oracle import Axis, Grid, compare_sets, exact_set, solve
from sekai.safety.tasks.finance import BudgetExecution, cheapest_pace, even_pace, least_cost
from sekai.safety.tasks.finance.execution import slack
from sekai.safety.truth import truth_of

SYSTEM = BudgetExecution(price_shock=0.05)  # of 50: 10 bp of the order, where the budget is 200
CALM = BudgetExecution()
MOVE = np.array([0.05])


def drawn(count: int) -> Any:
    return SYSTEM.start(np.random.default_rng(0).random((count, 3)))


def run(pace: Any, states: Any, moves: Any, *, system: BudgetExecution = SYSTEM) -> Any:
    """Whether orders are filled within the budget before the deadline, bool `(N,)`."""
    filled = (system.l(states) >= 0) & (system.g(states) >= 0)
    failed = system.g(states) < 0
    for _ in range(11):
        states = system.step(states, pace(states), moves(states))
        failed |= (system.g(states) < 0) & ~filled
        filled |= (system.l(states) >= 0) & ~failed
    return filled


def worst(states: Any) -> Any:
    return np.broadcast_to(MOVE, (*states.shape[:-1], 1))


def test_a_step_by_hand() -> None:
    # .05 per share of 1e6 is 50,000 of a budget of 1e6
    assert (SYSTEM.move, SYSTEM.worst_disturbance) == (pytest.approx(0.05), pytest.approx((0.05,)))
    # as without a shock .26875 is spent; .5 - .1 must still be filled: .05 * .4 = .02 more, or less
    for move, spent in ((MOVE, 0.28875), (-MOVE, 0.24875), (0 * MOVE, 0.26875), (np.array([9.0]), 0.28875)):
        after = SYSTEM.step(np.array([0.6, 0.2, 4.0]), np.array([0.5]), move)
        assert after == pytest.approx([0.5, spent, 3.0])
    # an order that is filled has nothing to fear of the price
    done = np.array([0.1, 0.9, 3.0])
    assert SYSTEM.step(done, np.array([0.0]), MOVE) == pytest.approx([0.1, 0.9, 2.0])


def test_the_cheapest_slices_by_hand() -> None:
    # y = .3 in 2 slices: they differ by t = .05 / (2 * 4.875), so .15 -+ t / 2
    step = 0.05 / 9.75
    first, second = 0.15 + step / 2, 0.15 - step / 2
    cost = 0.0625 * 0.3 + 0.125 * (0.16 - 0.01) + 4.875 * (first**2 + second**2) + 0.05 * second
    assert least_cost(SYSTEM, np.array(0.4), np.array(2.0)) == pytest.approx(cost, abs=1e-12)
    assert cheapest_pace(SYSTEM, np.array([0.4, 0.0, 2.0])) == pytest.approx([first / 0.2], abs=1e-5)
    # the plausible wrong cost, of equal slices, is more
    even = 0.0625 * 0.3 + 0.125 * (0.16 - 0.01) + 4.875 * 0.045 + 0.05 * 0.15
    assert even > cost + 1e-5
    # a large move: the first slice is at the cap of .2, and of three slices the last is not needed
    rough = BudgetExecution(price_shock=2.0)
    assert cheapest_pace(rough, np.array([0.4, 0.0, 3.0])) == pytest.approx([1.0])
    cost = 0.0625 * 0.3 + 0.125 * 0.15 + 4.875 * (0.04 + 0.01) + 2.0 * 0.1
    assert least_cost(rough, np.array(0.4), np.array(3.0)) == pytest.approx(cost, abs=1e-12)


def test_no_schedule_on_a_lattice_costs_less() -> None:
    for price_shock in (0.05, 0.4, 2.0):
        system = BudgetExecution(price_shock=price_shock)
        for count in range(2, 6):
            costs = []
            for slices in itertools.product(range(5), repeat=count):
                if sum(slices) == 8:
                    state = np.array([0.5, 0.0, float(count)])
                    for slice_ in slices:
                        state = system.step(state, np.array([slice_ / 4]), np.array([9.0]))
                    costs.append(state[1])
            least = float(least_cost(system, np.array(0.5), np.array(float(count))))
            assert least - 1e-12 <= min(costs) < least + 0.02


def test_without_a_shock_nothing_has_changed() -> None:
    states = drawn(500)
    # a shock of next to nothing goes the other way through the code
    tiny = BudgetExecution(price_shock=1e-9)
    whole = np.maximum(states[:, 2], 1.0)
    reachable = states[:, 0] - 0.1 <= whole * 0.2
    some = states[reachable]
    assert least_cost(tiny, some[:, 0], some[:, 2]) == pytest.approx(least_cost(CALM, some[:, 0], some[:, 2]), abs=1e-6)
    assert cheapest_pace(tiny, some) == pytest.approx(even_pace(CALM, some), abs=1e-6)
    assert CALM.disturbance is None and CALM.worst_disturbance is None
    with pytest.raises(ValueError, match="was given a disturbance and has none"):
        CALM.step(states, np.zeros((500, 1)), np.zeros((500, 1)))


def test_value_iteration_finds_the_closed_form() -> None:
    grid = Grid((Axis(0.0, 1.0, 101), Axis(0.0, 1.1, 111), Axis(-1.0, 10.0, 12)))
    # finer paces than this change nothing in the set; of the moves the extremes decide
    controls, moves = np.linspace(0, 1, 11)[:, None], np.array([[-0.05], [0.05]])
    value = solve(SYSTEM, grid, controls=controls, disturbances=moves)
    found = compare_sets(value.safe, exact_set(SYSTEM, grid.states), weights=grid.cells)
    assert found.iou >= 0.98 and found.false_safe == 0.0  # measured .988: the rim of a set that is stairs of nodes
    for wrong in (CALM, BudgetExecution(price_shock=0.025), BudgetExecution(price_shock=0.1)):
        assert compare_sets(value.safe, exact_set(wrong, grid.states), weights=grid.cells).iou < 0.97


def test_the_cheapest_slices_fill_the_order_against_every_move() -> None:
    states = drawn(20_000)
    inside = states[(slack(SYSTEM, states) >= 1e-4) & (states[:, 2] >= 1)]
    assert len(inside) > 3000
    rng = np.random.default_rng(1)

    def pace(states: Any) -> Any:
        return cheapest_pace(SYSTEM, states)

    assert run(pace, inside, worst).all()
    assert run(pace, inside, lambda states: rng.uniform(-0.05, 0.05, (len(states), 1))).all()
    # who believes that the price stands still is late where it matters
    close = inside[slack(SYSTEM, inside) < 0.002]
    assert len(close) > 30 and 0.0 < run(lambda states: even_pace(SYSTEM, states), close, worst).mean() < 1.0


def test_a_state_just_outside_is_lost_whatever_is_done() -> None:
    states = drawn(20_000)
    room = slack(SYSTEM, states)
    outside = states[(room < 0) & (room > -0.01) & (states[:, 0] > SYSTEM.tolerance)][:40]
    assert len(outside) == 40
    rng, speeds = np.random.default_rng(1), np.random.default_rng(2).uniform(0.0, 2.0, (40, 1000, 1))
    speeds[:, 0] = 1.0

    def near_the_cheapest(states: Any) -> Any:
        noise = 0.3 * rng.standard_normal(speeds.shape) * (speeds != 1.0)
        return cheapest_pace(SYSTEM, states) * (speeds + noise)

    assert not run(near_the_cheapest, np.repeat(outside[:, None], 1000, axis=1), worst).any()
    # without moves of the price some are not
    assert run(near_the_cheapest, np.repeat(outside[:, None], 1000, axis=1), lambda s: 0 * worst(s)).any(1).mean() > 0.5


def test_the_truth_of_a_learner_lies_one_step_later() -> None:
    states = drawn(2000)
    paces = np.linspace(0.0, 1.0, 201)
    leads = np.any([exact_set(SYSTEM, SYSTEM.step(states, np.array([pace]), MOVE)) for pace in paces], axis=0)
    truth = truth_of(SYSTEM)(states)
    assert (truth[leads] >= 0).all() and leads[truth >= 0.01].all()


def test_a_shock_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^price_shock is -0\.1; expected a finite number, at least 0\.$"):
        BudgetExecution(price_shock=-0.1)
