"""The order with a budget by hand, against `OptimalExecution-v0`, by brute force, and by rollouts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.finance import twap_shortfall
from sekai.safety.certificates import evaluate_certificate
from sekai.safety.oracle import Axis, Grid, compare_sets, exact_set, solve
from sekai.safety.promises import keeps_promise
from sekai.safety.tasks.finance import BudgetExecution, even_pace, least_cost
from sekai.safety.tasks.finance.execution import slack
from sekai.safety.truth import truth_of

SYSTEM = BudgetExecution()
#: of OptimalExecution-v0, the same market without volatility
MARKET = {"n_steps": 10, "sigma": 0.0, "risk_aversion": 0.0}


def drawn(count: int) -> Any:
    """States that episodes start in, `(N, 3)`."""
    return SYSTEM.start(np.random.default_rng(0).random((count, 3)))


class Even:
    """Equal slices, and the truth as value; observations have the slices as a share of all."""

    def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
        return even_pace(SYSTEM, self.states(observation)), None

    def predict_value(self, observations: Any) -> Any:
        return truth_of(SYSTEM)(self.states(observations))

    def states(self, observations: Any) -> Any:
        found = np.asarray(observations, np.float64) * [1.0, 1.0, SYSTEM.n_steps]
        return np.concatenate([found[..., :2], np.round(found[..., 2:])], -1)


def test_a_step_by_hand() -> None:
    # of the budget, 200 bp of 50e6: eps X = 62,500 is .0625; eta / tau X^2 = 5e6 is 5; gamma X^2 = 250,000 is .25
    assert (SYSTEM.fixed, SYSTEM.temporary, SYSTEM.permanent) == pytest.approx((0.0625, 5.0, 0.25))
    # half of the largest slice, .2, is .1 of the order: .1 (.0625 + 5 * .1 + .25 * .5) = .06875
    after = SYSTEM.step(np.array([0.6, 0.2, 4.0]), np.array([0.5]))
    assert after == pytest.approx([0.5, 0.26875, 3.0])
    # min(1 - .26875, 3 / 10), and .1 - .5
    assert SYSTEM.g(after) == pytest.approx(0.3) and SYSTEM.l(after) == pytest.approx(-0.4)
    assert SYSTEM.observe(after) == pytest.approx([0.5, 0.26875, 0.3])
    # no more than is left: .1, which leaves nothing for permanent impact
    last = SYSTEM.step(np.array([0.1, 0.2, 0.0]), np.array([1.0]))
    assert last == pytest.approx([0.0, 0.2 + 0.1 * (0.0625 + 0.5), -1.0]) and SYSTEM.g(last) == pytest.approx(-0.1)


def test_the_set_by_hand() -> None:
    # y = .5 in 4 slices: .0625 * .5 + .125 (.36 - .01) + 4.875 * .25 / 4 = .03125 + .04375 + .3046875
    assert least_cost(SYSTEM, np.array(0.6), np.array(4.0)) == pytest.approx(0.3796875)
    states = np.array(
        [
            [0.6, 0.62, 4.0],  # .62 + .3796875 < 1
            [0.6, 0.621, 4.0],  # .621 + .3796875 > 1
            [0.51, 0.0, 2.0],  # .41 > 2 * .2: the cap
            [0.50, 0.0, 2.0],  # .4: just; costs .025 + .125 * .24 + 4.875 * .08 = .445
            [0.1, 1.0, 0.0],  # filled, with the budget spent at the deadline
            [0.2, 0.0, 0.0],  # too late
            [0.1, 1.1, 3.0],  # filled, too dear
        ]
    )
    assert exact_set(SYSTEM, states).tolist() == [True, False, False, True, True, False, False]


def test_costs_are_the_shortfall_of_optimal_execution() -> None:
    env, rng = sekai.make("OptimalExecution-v0", **MARKET), np.random.default_rng(0)
    system = BudgetExecution(max_slice=1.0)
    env.reset(seed=0)
    state = np.array([1.0, 0.0, 10.0])
    for _ in range(9):  # the tenth trades the rest, whatever the action
        fraction = np.float32(rng.uniform(0, 0.5))
        info = env.step(np.array([fraction])).info
        state = system.step(state, np.array([float(fraction) * state[0]]))
        assert state[1] == pytest.approx(info["shortfall_bps"] / 200.0, abs=1e-12)
        assert state[0] == pytest.approx(info["inventory"] / 1e6, abs=1e-12)


def test_the_least_cost_is_that_of_equal_slices_in_almgren_and_chriss() -> None:
    money = twap_shortfall(
        1e6,
        total_time=5.0,
        n_steps=10,
        sigma=0.0,
        permanent_impact=2.5e-7,
        temporary_impact=2.5e-6,
        fixed_cost=0.0625,
    ).mean
    whole = BudgetExecution(tolerance=1e-9)
    assert least_cost(whole, np.array(1.0), np.array(10.0)) == pytest.approx(money / (0.02 * 50e6), abs=1e-7)


def test_no_schedule_on_a_lattice_costs_less_and_the_even_one_costs_as_much() -> None:
    # all slices in twentieths of the order: .4 is to be sold in 1 to 5 slices of at most .2
    for count in range(1, 6):
        costs = []
        for slices in itertools.product(range(5), repeat=count):
            if sum(slices) != 8:
                continue
            state = np.array([0.5, 0.0, float(count)])
            for slice_ in slices:
                state = SYSTEM.step(state, np.array([slice_ / 4]))
            assert state[0] == pytest.approx(0.1)
            costs.append(state[1])
        least = float(least_cost(SYSTEM, np.array(0.5), np.array(float(count))))
        if count == 1:
            assert not costs  # the cap
        elif count in (2, 4):  # 8 twentieths are as many in each slice
            assert min(costs) == pytest.approx(least, abs=1e-12)
        else:
            assert least < min(costs) < least + 0.02


def test_value_iteration_finds_the_closed_form() -> None:
    grid = Grid((Axis(0.0, 1.0, 101), Axis(0.0, 1.1, 111), Axis(-1.0, 10.0, 12)))
    value = solve(SYSTEM, grid, controls=np.linspace(0, 1, 26)[:, None])
    found = compare_sets(value.safe, exact_set(SYSTEM, grid.states), weights=grid.cells)
    assert found.iou >= 0.98 and found.false_safe == 0.0  # measured .9848: the rim of a set that is stairs of nodes
    # the plausible wrong sets: without the cap, and with one slice too many
    for wrong in (BudgetExecution(max_slice=1.0), SYSTEM):
        shift = [0.0, 0.0, float(wrong is SYSTEM)]
        assert compare_sets(value.safe, exact_set(wrong, grid.states + shift), weights=grid.cells).iou < 0.96


def test_equal_slices_fill_the_order_from_every_state_of_the_set() -> None:
    states = drawn(20_000)
    inside = states[(slack(SYSTEM, states) >= 1e-4) & (states[:, 2] >= 1)]
    assert len(inside) > 5000
    assert keeps_promise(Even(), SYSTEM, inside, steps=11).all()

    # as fast as the cap allows is within the cap and not within the budget
    class Fast(Even):
        def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
            return np.ones((len(observation), 1)), None

    kept = keeps_promise(Fast(), SYSTEM, inside, steps=11)
    assert 0.2 < kept.mean() < 0.9


def test_a_state_just_outside_is_lost_whatever_is_done() -> None:
    states = drawn(20_000)
    room = slack(SYSTEM, states)
    outside = states[(room < 0) & (room > -0.01) & (states[:, 0] > SYSTEM.tolerance)][:60]
    assert len(outside) == 60
    rng, shape = np.random.default_rng(1), (60, 2000)
    states, filled, failed = np.repeat(outside[:, None], 2000, axis=1), np.zeros(shape, bool), np.zeros(shape, bool)
    speeds = rng.uniform(0.0, 2.0, (*shape, 1))  # of the even pace: the first exactly so, others near it or far away
    speeds[:, 0] = 1.0
    for _ in range(11):
        pace = even_pace(SYSTEM, states) * (speeds + 0.3 * rng.standard_normal(speeds.shape) * (speeds != 1.0))
        states = SYSTEM.step(states, pace)
        failed |= SYSTEM.g(states) < 0
        filled |= (SYSTEM.l(states) >= 0) & ~failed
    assert not filled.any() and failed.all()


def test_the_truth_of_a_learner_lies_one_step_later() -> None:
    states = drawn(4000)
    paces = np.linspace(0.0, 1.0, 401)
    leads = np.any([exact_set(SYSTEM, SYSTEM.step(states, np.array([pace]))) for pace in paces], axis=0)
    truth = truth_of(SYSTEM)(states)
    assert (truth[leads] >= 0).all() and leads[truth >= 0.01].all()
    # at the deadline it is too late for a step, also for an order that is filled
    done = np.array([0.05, 0.5, 0.0])
    assert exact_set(SYSTEM, done) and truth_of(SYSTEM)(done) < 0


def test_certificates_are_measured_at_whole_slices() -> None:
    grid = Grid.around(SYSTEM, 61, margin=0.1)
    assert grid.shape == (61, 61, 13) and np.array_equal(np.unique(grid.states[..., 2]), np.arange(-1.0, 12.0))
    report = evaluate_certificate(Even(), SYSTEM, truth_of(SYSTEM), cells=61, rollouts=500)
    assert report.sets.iou > 0.99 and report.policy_keeps > 0.99 and report.fails_if_certified < 0.01


def test_episodes_start_with_whole_slices() -> None:
    slices = drawn(4000)[:, 2]
    assert np.array_equal(np.unique(slices), np.arange(11.0))
    assert np.bincount(slices.astype(int)).min() > 300  # of 364 each


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_steps": 0}, "n_steps is 0; expected an int of at least 1."),
        ({"budget_bps": 0.0}, "budget_bps is 0.0; expected a finite number above 0."),
        (
            {"max_slice": 1.5},
            "max_slice is 1.5 and tolerance 0.1; expected shares of the order, in (0, 1] and in (0, 1).",
        ),
        (
            {"permanent_impact": 1e-5},
            "temporary_impact is 2.5e-06; expected more than permanent_impact * total_time / n_steps / 2: otherwise "
            "selling faster costs less, and equal slices are not the cheapest.",
        ),
    ],
)
def test_parameters_out_of_range_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        BudgetExecution(**parameters)
    assert str(caught.value) == message
