"""What a shield executes: hand-worked decisions, properties for any state and action, and what happens without them."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.safety.filters import (
    ActionValue,
    AffineQp,
    BestOf,
    Blend,
    Intervention,
    NextValue,
    Project,
    Replace,
    Shield,
    StateValue,
)
from sekai.safety.oracle import exact_value, sampled_value
from sekai.safety.systems import DoubleIntegrator
from sekai.spaces import Box
from tests.safety.filters.braking import SPACE, exact_shield, filtered, safe_starts, violations

SYSTEM = DoubleIntegrator(dt=0.1)
NEXT = NextValue(SYSTEM, partial(sampled_value, SYSTEM))
INTERVENTIONS = [
    Replace(),
    Blend(),
    Project(np.linspace(-1, 1, 5)[:, None]),
    # v - 0.5 <= -u: a condition that has little to do with the monitor, whose proposals may be refused
    AffineQp(lambda rows: (-np.ones((len(rows), 1)), rows[:, 1] - 0.5)),
]


def test_the_value_of_the_next_state_by_hand() -> None:
    # At (.9, .4), a dt = .1 a step, asking for +1: x' = .9 + .04 + .005 = .945, v' = .5. Full braking takes
    # n = ceil(5 - .5) = 5 steps and .1 (5 .5 - .1 (10 + 2.5)) = .125 m: 1 - 1.07 = -.07.
    # Asking for -1: x' = .9 + .04 - .005 = .935, v' = .3, n = 3, .1 (.9 - .1 (3 + 1.5)) = .045 m: 1 - .98 = .02.
    rows = np.array([[0.9, 0.4], [0.9, 0.4]])
    assert NEXT.margins(rows, np.array([[1.0], [-1.0]])) == pytest.approx([-0.07, 0.02])


def test_the_next_value_looks_at_g_of_the_next_state_too() -> None:
    # x' = .99 + .02 = 1.01 whatever V says, so g = -.01
    blind = NextValue(SYSTEM, lambda states: np.ones(len(states)))
    assert blind.margins(np.array([[0.99, 0.2]]), np.array([[0.0]])) == pytest.approx([-0.01])


def test_the_next_value_is_that_of_the_worst_disturbance() -> None:
    # (0, 0), u = 0, d of up to .2: v' = +-.02, x' = +-.001; the net braking is .8 a step of .1 and V counts with it
    pushed = DoubleIntegrator(dt=0.1, force_bound=0.2)
    seen: list[Any] = []

    def value(states: Any) -> Any:
        seen.append(states[:, 1].tolist())
        return 1 - abs(states[:, 1])

    margins = NextValue(pushed, value).margins(np.zeros((1, 2)), np.zeros((1, 1)))
    assert sorted(round(v, 12) for (v,) in seen) == [-0.02, 0.0, 0.02]
    assert margins == pytest.approx([0.98])


def test_only_the_unsafe_action_is_replaced_by_the_best_candidate() -> None:
    # as above: +1 has -.07; -1 has .02, 0 would have x' = .94, v' = .4, .08 m, 1 - 1.02 = -.02
    rows = np.array([[0.9, 0.4], [0.0, 0.0]])
    shield = Shield(NEXT, BestOf(NEXT, SYSTEM.control.points()), SPACE)
    decision = shield.decide(rows, np.array([[1.0], [1.0]]), np.zeros(2, bool))
    assert decision.actions.tolist() == [[-1.0], [1.0]]
    assert decision.intervened.tolist() == [True, False]
    assert decision.latched.tolist() == [True, False]
    # of the second: x' = .005, v' = .1, one step of braking moves by .1 (.1 - .1 .5) = .005: 1 - .01
    assert decision.margins == pytest.approx([-0.07, 0.99])


def steep(rows: Any, actions: Any) -> Any:
    """Q = .5 - u: safe up to .5."""
    return 0.5 - actions[:, 0]


@pytest.mark.parametrize(
    ("intervention", "executed"),
    [
        # halves of the way from -1 to 1: 0 is safe; .5 is safe; .75, .625, .5625 are not
        (Replace(), -1.0),
        (Blend(1), 0.0),
        (Blend(2), 0.5),
        (Blend(5), 0.5),
        # of -1, -.2, .4, .9 the nearest safe one is .4; on the way to 1 .7 and .55 are unsafe, .475 is safe
        (Project([[-1.0], [-0.2], [0.4], [0.9]], halvings=1), 0.4),
        (Project([[-1.0], [-0.2], [0.4], [0.9]], halvings=3), 0.475),
        (Project([[0.4], [-0.2], [0.9], [-1.0]], halvings=1), 0.4),  # in whatever order they stand
        # -u >= -.5 with a reserve of .25: u = .25
        (AffineQp(lambda rows: (-np.ones((len(rows), 1)), np.full(len(rows), -0.5)), reserve=0.25), 0.25),
        # -u >= .9: u = -.9
        (AffineQp(lambda rows: (-np.ones((len(rows), 1)), np.full(len(rows), 0.9))), -0.9),
    ],
)
def test_what_is_executed_instead_by_hand(intervention: Intervention, executed: float) -> None:
    shield = Shield(ActionValue(steep), lambda rows: -np.ones((len(rows), 1)), SPACE, intervention=intervention)
    decision = shield.decide(np.zeros((1, 2)), [[1.0]], [False])
    assert decision.actions == pytest.approx(np.array([[executed]]), abs=1e-6)


def test_a_proposal_that_the_monitor_refuses_gives_way_to_the_fallback() -> None:
    wrong = AffineQp(lambda rows: (-np.ones((len(rows), 1)), np.full(len(rows), -0.8)))  # would allow .8
    shield = Shield(ActionValue(steep), lambda rows: -np.ones((len(rows), 1)), SPACE, intervention=wrong)
    assert shield.decide(np.zeros((1, 2)), [[1.0]], [False]).actions.tolist() == [[-1.0]]


def test_of_a_condition_that_cannot_be_met_nothing_is_proposed() -> None:
    # -u >= 2: -1 comes closest, and Q would allow it
    impossible = AffineQp(lambda rows: (-np.ones((len(rows), 1)), np.full(len(rows), 2.0)))
    shield = Shield(ActionValue(steep), lambda rows: np.full((1, 1), -0.25), SPACE, intervention=impossible)
    assert shield.decide(np.zeros((1, 2)), [[1.0]], [False]).actions.tolist() == [[-0.25]]


def test_where_nothing_is_safe_the_fallback_is_executed() -> None:
    never = ActionValue(lambda rows, actions: np.full(len(rows), -1.0))
    for intervention in INTERVENTIONS:
        shield = Shield(never, lambda rows: np.full((len(rows), 1), 0.3), SPACE, intervention=intervention)
        assert shield.decide(np.zeros((1, 2)), [[1.0]], [False]).actions == pytest.approx(np.array([[0.3]]))


def test_the_fallback_is_the_last_word_also_when_it_is_asked_for() -> None:
    # safe from -.3 to 0 only; the fallback, -1, is not. Of 1 the QP with u >= -.2 makes 1, which is refused; of -1 it
    # would make -.2, which is safe: filtering what was executed would then execute something else
    narrow = ActionValue(lambda rows, actions: 0.15 - abs(actions[:, 0] + 0.15))
    at_least = AffineQp(lambda rows: (np.ones((len(rows), 1)), np.full(len(rows), -0.2)))
    shield = Shield(narrow, lambda rows: -np.ones((len(rows), 1)), SPACE, intervention=at_least)
    first = shield.decide(np.zeros((1, 2)), [[1.0]], [False])
    second = shield.decide(np.zeros((1, 2)), first.actions, [False])
    assert first.actions.tolist() == second.actions.tolist() == [[-1.0]]
    assert first.intervened.tolist() == [True] and second.intervened.tolist() == [False]


states = st.tuples(st.floats(-1.2, 1.2), st.floats(-2.2, 2.2))


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(states, min_size=1, max_size=6),
    data=st.data(),
    intervention=st.sampled_from(INTERVENTIONS),
    hysteresis=st.sampled_from([0.0, 0.1]),
)
def test_properties_of_a_decision(rows: Any, data: Any, intervention: Intervention, hysteresis: float) -> None:
    n = len(rows)
    asked = np.array(data.draw(st.lists(st.floats(-3, 3), min_size=n, max_size=n)))[:, None]
    latched = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    fallback = BestOf(NEXT, SYSTEM.control.points())
    shield = Shield(NEXT, fallback, SPACE, intervention=intervention, hysteresis=hysteresis)
    states = np.array(rows)
    first = shield.decide(states, asked, latched)
    held = np.clip(asked, -1, 1).astype(np.float32)
    levels = np.where(latched, hysteresis, 0.0)
    safe = NEXT.margins(states, held) >= levels
    # never modifies a safe action
    assert (first.actions[safe] == held[safe]).all() and not first.intervened[safe].any()
    # inside the box, as the box stores it
    assert first.actions.dtype == np.float32 and (abs(first.actions) <= 1).all()
    # what is executed is safe, or the fallback
    meets = NEXT.margins(states, first.actions) >= levels
    assert (meets | (first.actions == fallback(states)).all(axis=1)).all()
    # filtering twice is filtering once
    second = shield.decide(states, first.actions, latched)
    assert (second.actions == first.actions).all() and not second.intervened.any()
    assert (first.latched == ~safe).all()


@pytest.mark.parametrize(
    ("integrator", "intervention", "steps"),
    [
        ("zoh", None, 1000),
        ("euler", None, 200),
        ("semi-implicit", None, 200),
        ("zoh", Blend(), 100),
        ("euler", Project(np.linspace(-1, 1, 9)[:, None]), 100),
    ],
)
def test_nothing_fails_with_the_exact_value(integrator: str, intervention: Any, steps: int) -> None:
    system = DoubleIntegrator(integrator=integrator)
    env, _ = filtered(system, exact_shield(system, intervention=intervention), 1000)  # the first: a million steps
    assert violations(env, steps) == 0


def test_the_value_of_continuous_time_fails_on_the_euler_integrator() -> None:
    # Euler moves by v dt before it brakes, v dt / 2 further than in continuous time
    system = DoubleIntegrator(integrator="euler")
    env, _ = filtered(system, exact_shield(system, partial(exact_value, system)), 100)
    assert violations(env, 100) > 10


def test_without_a_filter_the_same_actions_fail() -> None:
    system = DoubleIntegrator()
    anything = Shield(StateValue(lambda rows: np.ones(len(rows))), lambda rows: rows[:, :1], SPACE)
    env, _ = filtered(system, anything, 100)
    assert violations(env, 100) > 10


def switches(hysteresis: float, steps: int = 200) -> int:
    """How often a filter lets go or takes hold, of a mass that is pushed to the wall again and again."""
    system = DoubleIntegrator()
    monitor = StateValue(partial(sampled_value, system))
    brake = BestOf(NextValue(system, partial(sampled_value, system)), system.control.points())
    shield = Shield(monitor, brake, SPACE, threshold=0.2, hysteresis=hysteresis)
    shield.begin(np.ones(1, bool))
    state, held = np.array([[0.0, 0.0]]), []
    for _ in range(steps):
        decision = shield.filter(state, [[1.0]])
        held.append(bool(decision.intervened[0]))
        state = system.step(state, decision.actions)
        assert system.g(state)[0] > 0
    return int(np.count_nonzero(np.diff(held)))


def test_without_hysteresis_the_filter_chatters() -> None:
    assert switches(0.0) > 20
    assert switches(0.15) < 10


def test_the_latch_by_its_table() -> None:
    margin = np.array([0.0])
    shield = Shield(
        ActionValue(lambda rows, actions: margin), lambda rows: -np.ones((1, 1)), SPACE, threshold=0.5, hysteresis=0.2
    )
    shield.begin(np.ones(1, bool))
    seen = []
    for margin[0] in (0.6, 0.4, 0.6, 0.7, 0.6):
        decision = shield.filter(np.zeros((1, 1)), [[1.0]])
        seen.append((bool(decision.intervened[0]), bool(decision.latched[0])))
    # .6: free; .4 < .5: taken; .6 < .5 + .2: still; .7: let go; .6: free again
    assert seen == [(False, False), (True, True), (True, True), (False, False), (False, False)]


def test_an_episode_begins_unlatched_in_its_slot_only() -> None:
    shield = Shield(ActionValue(lambda rows, actions: np.full(3, -1.0)), lambda rows: np.zeros((3, 1)), SPACE)
    shield.begin(np.ones(3, bool))
    shield.filter(np.zeros((3, 1)), np.ones((3, 1)))
    assert shield.latched is not None and shield.latched.tolist() == [True, True, True]
    shield.begin(np.array([False, True, False]))
    assert shield.latched.tolist() == [True, False, True]


def test_the_monitor_hears_of_new_episodes() -> None:
    class Hears(ActionValue):
        heard: ClassVar[list[Any]] = []

        def begin(self, slots: Any) -> None:
            self.heard.append(slots.tolist())

    shield = Shield(Hears(steep), lambda rows: rows, SPACE)
    shield.begin(np.array([True, True]))
    shield.begin(np.array([False, True]))
    assert Hears.heard == [[True, True], [False, True]]


def test_slots_that_wait_are_left_alone() -> None:
    shield = Shield(ActionValue(lambda rows, actions: np.full(2, -1.0)), lambda rows: np.zeros((2, 1)), SPACE)
    decision = shield.decide(np.zeros((2, 1)), np.ones((2, 1)), [False, True], [True, False])
    assert decision.actions.tolist() == [[0.0], [1.0]]
    assert decision.intervened.tolist() == [True, False]
    assert decision.latched.tolist() == [True, True]


def constant(answer: Any) -> Any:
    return lambda *given: np.array(answer)


@pytest.mark.parametrize(
    ("monitor", "fallback", "asked", "error"),
    [
        (ActionValue(constant([0.0, np.nan])), constant([[0.0]] * 2), [[0.0]] * 2, "gave NaN for slot 1"),
        (ActionValue(constant([0.0])), constant([[0.0]] * 2), [[0.0]] * 2, r"shape \(1,\); expected \(2,\)"),
        (ActionValue(constant([-1.0, -1.0])), constant([[0.0]]), [[0.0]] * 2, r"fallback .* shape \(1, 1\)"),
        (ActionValue(constant([-1.0, -1.0])), constant([[0.0], [np.inf]]), [[0.0]] * 2, r"fallback .* slot 1"),
        (ActionValue(constant([0.0, 0.0])), constant([[0.0]] * 2), [[np.nan], [0.0]], r"The policy gave .* slot 0"),
        (ActionValue(constant([0.0, 0.0])), constant([[0.0]] * 2), [0.0, 0.0], r"The policy gave .* \(2, 1\)"),
    ],
)
def test_wrong_answers_are_refused_by_slot(monitor: Any, fallback: Any, asked: Any, error: str) -> None:
    shield = Shield(monitor, fallback, SPACE)
    with pytest.raises(ValueError, match=error):
        shield.decide(np.zeros((2, 1)), asked, np.zeros(2, bool))


def test_what_a_shield_cannot_work_with() -> None:
    def make(space: Any, **options: Any) -> Shield:
        return Shield(ActionValue(steep), lambda rows: rows, space, **options)

    with pytest.raises(TypeError, match="a filter takes a Box"):
        make(gymnasium.spaces.Discrete(3))
    with pytest.raises(ValueError, match="with finite bounds"):
        make(Box(-np.inf, np.inf, (1,), np.float32))
    with pytest.raises(ValueError, match="hysteresis -1"):
        make(SPACE, hysteresis=-1)
    with pytest.raises(ValueError, match="No episode has begun"):
        make(SPACE).filter(np.zeros((1, 1)), [[0.0]])
    shield = make(SPACE)
    shield.begin(np.ones(2, bool))
    with pytest.raises(ValueError, match=r"given 3 slots; this filter is at work on 2"):
        shield.begin(np.ones(3, bool))
    with pytest.raises(ValueError, match=r"expected \(2, 2\), the states of"):
        NEXT.margins(np.zeros((2, 3)), np.zeros((2, 1)))
    with pytest.raises(ValueError, match="has none: leave them out"):
        NextValue(SYSTEM, steep, disturbances=[[0.1]])


def test_safe_starts_are_many_and_safe() -> None:
    starts = safe_starts(SYSTEM)
    assert len(starts) == 4000 and (np.asarray(sampled_value(SYSTEM, starts)) > 0).all()
