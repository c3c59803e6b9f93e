"""Opponents: what they choose, and that rollouts meet it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.safety.certificates import evaluate_certificate
from sekai.safety.opponents import (
    ConstantOpponent,
    GreedyOpponent,
    RandomOpponent,
    named_opponents,
    opponents_for,
)
from sekai.safety.oracle import after_step, exact_value
from sekai.safety.promises import NOBODY, fails_at_worst, fails_by_opponent, keeps_promise
from sekai.safety.systems import DoubleIntegrator
from sekai.safety.systems.sets import BoxSet
from sekai.safety.tasks.finance import DrawdownFloor
from sekai.safety.truth import truth_of

PUSHED = DoubleIntegrator(force_bound=0.5)
VALUE = partial(exact_value, PUSHED)


class Brakes:
    """Brakes fully, and calls everything safe."""

    def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
        return np.clip(-observation[:, 1:] / PUSHED.dt, -1, 1), None

    def predict_value(self, observations: Any) -> Any:
        return np.ones(np.shape(observations)[:-1])


class PlaysTheGame(Brakes):
    """Takes the control whose worst answer leaves the most."""

    def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
        states = np.asarray(observation, np.float64)
        left = [min_over_answers(states, control) for control in CONTROLS]
        return CONTROLS[np.argmax(left, axis=0)], None


CONTROLS = np.array([[-1.0], [-0.5], [0.0], [0.5], [1.0]])


def min_over_answers(states: Any, control: Any) -> Any:
    return np.min([VALUE(PUSHED.step(states, control, np.array([push]))) for push in (-0.5, 0.0, 0.5)], axis=0)


def test_the_greedy_one_pushes_towards_the_wall_that_is_nearer() -> None:
    states = np.array([[0.5, 0.5], [-0.5, -0.5], [0.9, -0.1]])
    greedy = GreedyOpponent(VALUE, PUSHED)
    # of the third, V = 1 - |x| = 0.1 now; pushed back to the right it stays closest to the wall
    assert greedy(states, np.zeros((3, 1))).tolist() == [[0.5], [-0.5], [0.5]]
    # an opponent who mistook the sign of the value would push to the middle
    assert GreedyOpponent(lambda s: -VALUE(s) - 10, PUSHED)(states[:1], np.zeros((1, 1))).tolist() == [[-0.5]]


def test_the_greedy_one_sees_a_failure_that_the_value_leaves_out() -> None:
    # where the value says nothing, g of the next state decides: x = 0.999, and a step moves it beyond the wall or not
    greedy = GreedyOpponent(lambda s: np.full(s.shape[:-1], 5.0), PUSHED)
    assert greedy(np.array([[0.999, 0.0]]), np.zeros((1, 1))).tolist() == [[0.5]]


def test_the_greedy_one_of_a_reach_avoid_value_knows_that_arriving_ends_it() -> None:
    system = DoubleIntegrator(target="touch", target_position=0.5, target_radius=0.1, drift_bound=0.5)
    # V = -1 everywhere; one step with no speed moves the mass by at most 0.025 m: from 0.59 to 0.565..0.615, so that
    # l after it is 0.035, 0.01 or -0.015, and only the last keeps the controller from having arrived
    greedy = GreedyOpponent(lambda s: np.full(s.shape[:-1], -1.0), system)
    assert greedy(np.array([[0.59, 0.0]]), np.zeros((1, 1))).tolist() == [[0.5]]


def test_the_random_one_begins_anew_with_every_set_of_rollouts() -> None:
    random = RandomOpponent(BoxSet((-0.5,), (0.5,)), seed=3)
    states = np.tile([0.7, 0.76], (400, 1))
    first = keeps_promise(Brakes(), PUSHED, states, steps=40, opponent=random)
    again = keeps_promise(Brakes(), PUSHED, states, steps=40, opponent=random)
    assert (first == again).all() and 0 < first.sum() < 400
    other = RandomOpponent(BoxSet((-0.5,), (0.5,)), seed=4)
    assert (first != keeps_promise(Brakes(), PUSHED, states, steps=40, opponent=other)).any()


def test_the_greedy_one_breaks_exactly_what_the_game_says_is_lost() -> None:
    states = PUSHED.start(np.random.default_rng(0).random((500, 2)))
    met = {**named_opponents(PUSHED), "greedy": GreedyOpponent(VALUE, PUSHED)}
    fails = fails_by_opponent(PlaysTheGame(), PUSHED, states, met, steps=100)
    lost = VALUE(states) < 0
    # the closed form is that of continuous time: a step of 0.05 s at up to 2 m/s shifts its edge
    sure = abs(VALUE(states)) > 0.1
    assert (fails["greedy"] == lost)[sure].all()
    assert max(fails["zero"].mean(), fails["random"].mean()) < fails["greedy"].mean() - 0.05
    assert fails_at_worst({"a": np.array([True, False, False]), "b": np.array([False, False, True])}).tolist() == [
        True,
        False,
        True,
    ]


def test_a_system_that_declares_its_worst_disturbance_meets_it_alone() -> None:
    floor = DrawdownFloor()
    assert set(named_opponents(floor)) == {"zero", "random", "worst"}
    assert set(opponents_for(Brakes(), floor, VALUE)) == {"worst"}
    assert set(opponents_for(Brakes(), PUSHED, VALUE)) == {"zero", "random", "greedy"}
    assert opponents_for(Brakes(), DoubleIntegrator(), VALUE) == {}


def test_opponents_of_a_learner_are_met_too() -> None:
    class Played(Brakes):
        def opponents(self, system: Any) -> dict[str, Any]:
            return {"past 1": ConstantOpponent([system.force_bound])}

    assert set(opponents_for(Played(), PUSHED, VALUE)) == {"zero", "random", "greedy", "past 1"}
    assert set(opponents_for(Played(), PUSHED, VALUE, opponents={"mine": ConstantOpponent([0.0])})) == {"mine"}


def test_nobody_plays_without_a_disturbance() -> None:
    states = np.array([[0.0, 0.0], [0.9, 2.0]])
    fails = fails_by_opponent(Brakes(), DoubleIntegrator(), states, {}, steps=50)
    assert list(fails) == [NOBODY] and fails[NOBODY].tolist() == [False, True]


@pytest.mark.parametrize(
    ("opponent", "message"),
    [
        (
            lambda s, u: np.zeros(len(s)),
            r"An opponent gave disturbances of shape \(2,\); expected finite ones of ",
        ),
        (lambda s, u: np.full((len(s), 1), np.nan), "An opponent gave disturbances of numbers that are not finite"),
    ],
    ids=["shape", "nan"],
)
def test_an_answer_that_is_no_disturbance_is_refused(opponent: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        keeps_promise(Brakes(), PUSHED, np.zeros((2, 2)), steps=3, opponent=opponent)


def test_a_policy_without_an_action_does_not_count_as_safe() -> None:
    class Lost(Brakes):
        def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
            return np.where(observation[:, :1] > 0, np.nan, 0.0), None

    with pytest.raises(ValueError, match=r"The policy gave \[nan\] for state 1 of a rollout; expected finite actions"):
        keeps_promise(Lost(), PUSHED, np.array([[0.0, 0.0], [0.1, 0.0]]), steps=3)


def test_opponents_are_told_that_there_is_nothing_to_choose() -> None:
    with pytest.raises(ValueError, match="has no disturbance, so there is nothing for an opponent to choose"):
        opponents_for(Brakes(), DoubleIntegrator(), VALUE, opponents={"mine": ConstantOpponent([0.0])})
    with pytest.raises(ValueError, match="opponents is empty; expected at least one by name"):
        opponents_for(Brakes(), PUSHED, VALUE, opponents={})


def test_an_evaluation_tells_the_opponents_apart_and_counts_the_worst() -> None:
    report = evaluate_certificate(Brakes(), PUSHED, after_step(VALUE, PUSHED), rollouts=600, steps=100, cells=41)
    shares = {name: against.fails_if_certified for name, against in report.opponents.items()}
    # everything is called safe, so that all states that are lost are broken promises
    assert set(shares) == {"zero", "random", "greedy"} and max(shares.values()) == shares["greedy"]
    assert report.fails_if_certified >= shares["greedy"] > shares["zero"] + 0.1
    # three bounds at 95 % together are each wider than the one of all of them
    greedy = report.opponents["greedy"].bounds
    whole = report.fails_if_certified_bounds
    assert greedy.high - greedy.low > whole.high - whole.low
    assert report.numbers()["opponents"]["greedy"]["bounds"] == list(greedy)


def test_an_environment_is_no_system() -> None:
    env = sekai.make("safety/DoubleIntegrator-v0")
    with pytest.raises(TypeError, match="expected a System, dynamics as a function of states: an environment alone"):
        opponents_for(object(), env, lambda states: states[..., 0])  # type: ignore[arg-type]  # on purpose


def test_a_system_of_too_many_numbers_has_no_truth_on_a_grid() -> None:
    class Wide(DoubleIntegrator):
        state_names = ("x", "v", "a", "b")

    with pytest.raises(ValueError, match="its 4 state numbers are too many or too few for a grid"):
        truth_of(Wide(target="touch"))
