"""Calibrated certificates: of values that are known to be too bold, and of some that nothing can be made of."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from sekai.safety.assumptions import assumptions, errors, meaning
from sekai.safety.calibration import Plan, lowest_safe
from sekai.safety.certify import Certificate, certify
from sekai.safety.opponents import ConstantOpponent
from sekai.safety.oracle import after_step, sampled_value
from sekai.safety.starts import Starts
from sekai.safety.systems import DoubleIntegrator

SYSTEM = DoubleIntegrator()
TRUTH = after_step(partial(sampled_value, SYSTEM), SYSTEM)
FEW = Plan(rollouts=600, steps=60, cells=41)


class Brakes:
    """Brakes fully, and says what it is told to say of its value."""

    def __init__(self, value: Any = TRUTH) -> None:
        self.value = value

    def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
        assert deterministic
        return np.clip(-observation[:, 1:] / SYSTEM.dt, -1.0, 1.0), None

    def predict_value(self, observations: Any) -> Any:
        return self.value(np.asarray(observations, np.float64))


def found(value: Any, **options: Any) -> Certificate:
    return certify(Brakes(value), SYSTEM, **{"plan": FEW, **options})


def test_a_right_value_needs_no_threshold() -> None:
    certificate = found(lambda s: TRUTH(s) - 1e-3, truth=TRUTH)
    assert certificate.threshold == 0.0 and certificate.reason == ""
    assert certificate.whole is not None and certificate.whole.failed == {"nobody": 0}
    # 600 rollouts without a failure: 1 - .05^(1 / 600)
    assert certificate.whole.at_most == pytest.approx(1 - 0.05 ** (1 / 600), abs=1e-9)
    assert certificate.share == certificate.share_before
    # 16/3 of the 8 that states are drawn from
    assert certificate.share == pytest.approx(2 / 3, abs=0.04)
    assert certificate.sets is not None and certificate.sets.iou > 0.95


@pytest.mark.parametrize("bold", [0.1, 0.3])
def test_a_value_that_is_too_bold_by_a_constant_is_cut_by_about_that(bold: float) -> None:
    certificate = found(lambda s: TRUTH(s) + bold, truth=TRUTH)
    assert certificate.threshold is not None and certificate.edge is not None
    # of the edge, a tenth of the set, some four in a hundred may fail at a risk of 1 % that has to be shown
    assert bold - 0.01 < certificate.threshold < bold + 0.01
    assert certificate.edge.at_most <= 0.01
    assert certificate.sets_before is not None and certificate.sets is not None
    assert certificate.sets_before.false_safe > 0.05 and certificate.sets.false_safe < 0.01


def test_an_edge_that_is_rotten_raises_the_threshold_where_the_whole_would_do() -> None:
    # one or two in a hundred of all certified states fail: few enough of the whole for a risk of 10 %, but all of them
    # lie in the edge, where they are ten times as many
    options = {"risk": 0.1, "truth": TRUTH}
    whole = found(lambda s: TRUTH(s) + 0.02, plan=Plan(rollouts=600, steps=60, edge=1.0), **options)
    edged = found(lambda s: TRUTH(s) + 0.02, plan=Plan(rollouts=600, steps=60, edge=0.1), **options)
    assert whole.before is not None and 0.01 < whole.before.failed_at_worst / 600 < 0.05
    assert whole.threshold == 0.0 and edged.threshold is not None and 0.0 < edged.threshold < 0.02
    assert edged.edge is not None and edged.edge.at_most <= 0.1


class Lottery(DoubleIntegrator):
    """One state in 16 fails in the next step, whatever the policy does, and no value can know which."""

    def _advance(self, state: Any, control: Any, disturbance: Any) -> Any:
        lost = (state[..., 0] * 98_765.4321) % 1.0 < 1 / 16
        return np.stack([np.where(lost, 9.0, 0.0), np.zeros_like(lost, dtype=float)], -1)


@pytest.mark.parametrize(("risk", "least", "most"), [(0.05, 0, 3), (0.12, 15, 20)])
def test_a_certificate_that_does_not_hold_is_given_as_seldom_as_said(risk: float, least: int, most: int) -> None:
    # at a confidence of 80 % at most 4 of 20 are wrong on average; and where the risk is twice what is lost, nearly all
    # are given
    drawn = Brakes(lambda s: 2.0 - np.abs(s[..., 1]))
    plans = (Plan(rollouts=600, steps=1, seed=seed) for seed in range(20))
    given = [certify(drawn, Lottery(), risk=risk, confidence=0.8, plan=plan).threshold for plan in plans]
    assert least <= sum(threshold is not None for threshold in given) <= most


def test_outliers_are_allowed_for() -> None:
    # a failed state of the highest value is no reason to certify nothing
    values, fails = np.linspace(0.0, 1.0, 1001), np.zeros(1001, bool)
    fails[[1000, 3, 7]] = True
    assert lowest_safe(values, fails, 0.0, lambda failed, count: failed <= 1) == np.nextafter(0.007, 1.0)
    assert lowest_safe(values, fails, 0.0, lambda failed, count: failed <= 2) == np.nextafter(0.003, 1.0)
    assert lowest_safe(values, fails, 0.0, lambda failed, count: failed <= 3) == 0.0
    assert lowest_safe(values, fails, 0.0, lambda failed, count: failed == 0) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (lambda s: np.full(s.shape[:-1], -1.0), "only 0 of "),
        (lambda s: -TRUTH(s), "no threshold is found with a risk of 0.01: the promise is broken from "),
    ],
    ids=["empty", "mistaken"],
)
def test_where_nothing_can_be_certified_the_reason_is_told(value: Any, reason: str) -> None:
    certificate = found(value, truth=TRUTH)
    assert certificate.threshold is None and certificate.share == 0.0 and certificate.sets is None
    assert certificate.reason.startswith(reason)
    assert certificate.numbers()["reason"] == certificate.reason


def test_a_policy_that_fails_everywhere_has_no_certificate() -> None:
    class Speeds(Brakes):
        def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
            return np.ones((len(observation), 1)), None

    certificate = certify(Speeds(), SYSTEM, plan=Plan(rollouts=600))
    assert certificate.threshold is None and "is broken from 100.00% of the states" in certificate.reason
    assert certificate.before is not None and certificate.before.failed_at_worst == 600
    assert certificate.whole is None


def test_a_threshold_whose_check_does_not_hold_is_not_given() -> None:
    class TurnsBad(Brakes):
        calls = 0

        def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
            self.calls += 1
            actions, _ = super().predict(observation, deterministic=deterministic)
            # the set and its edge have chosen by then, 60 steps each
            return np.ones_like(actions) if self.calls > 120 else actions, None

    certificate = certify(TurnsBad(lambda s: TRUTH(s) - 1e-3), SYSTEM, plan=FEW)
    assert certificate.threshold is None and certificate.share == 0.0
    assert certificate.reason.startswith("the check of the set at V >= 0 failed: the promise was broken from ")
    assert certificate.before is not None and certificate.before.failed_at_worst == 0
    assert certificate.whole is not None and certificate.whole.at_most > 0.5


@pytest.mark.parametrize("rollouts", [1, 298])
def test_too_few_rollouts_are_refused_with_the_number_that_it_takes(rollouts: int) -> None:
    with pytest.raises(
        ValueError, match=rf"rollouts is {rollouts}; .* takes 299, .* give Plan\(rollouts=299\) or more"
    ):
        found(TRUTH, plan=Plan(rollouts=rollouts))


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_refused_with_its_state(number: float) -> None:
    with pytest.raises(ValueError, match=rf"The value of state \[.* is {number} \(\d+ of \d+ values"):
        found(lambda s: np.where(s[..., 0] > 0.9, number, 1.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edge": 0.0}, "edge is 0.0; expected a share above 0, at most 1."),
        ({"rollouts": 0}, "rollouts"),
        ({"steps": 0}, "steps"),
    ],
    ids=["edge", "rollouts", "steps"],
)
def test_a_plan_out_of_range_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Plan(**options)


def test_the_worst_opponent_decides_and_every_one_is_told() -> None:
    system = DoubleIntegrator(force_bound=0.5)
    met = {"none": ConstantOpponent([0.0]), "right": ConstantOpponent([0.5]), "left": ConstantOpponent([-0.5])}
    plan = Plan(rollouts=600, steps=40)
    certificate = certify(Brakes(), system, opponents=met, plan=plan)
    before = certificate.before
    assert before is not None and set(before.failed) == set(met)
    # those from which the right one breaks it are others than those of the left one: together they are more
    assert before.failed_at_worst > max(before.failed.values()) > before.failed["none"]
    alone = certify(Brakes(), system, opponents={"none": met["none"]}, plan=plan)
    assert alone.threshold is not None and certificate.threshold is not None
    assert certificate.threshold > alone.threshold + 0.05
    # three bounds that hold together are wider than one
    assert certificate.whole is not None and alone.whole is not None
    assert certificate.whole.intervals["none"].high > alone.whole.intervals["none"].high


def test_states_that_choose_do_not_check() -> None:
    starts = Starts(Brakes(), SYSTEM, np.random.default_rng(0))
    first, values = starts.within(0.0, 0.2, 300)
    second, _ = starts.within(0.0, 0.2, 300)
    assert ((values >= 0.0) & (values < 0.2)).all() and len(first) == len(second) == 300
    assert not {tuple(state) for state in first} & {tuple(state) for state in second}


def test_states_that_have_failed_already_are_not_asked_about() -> None:
    class Wide(DoubleIntegrator):
        @property
        def reset_high(self) -> tuple[float, ...]:
            return (2.0, 0.1)

    states, _ = Starts(Brakes(lambda s: np.ones(s.shape[:-1])), Wide(), np.random.default_rng(0)).within(0, 9, 500)
    assert states[:, 0].max() <= 1.0 < Wide().start(np.random.default_rng(0).random((500, 2)))[:, 0].max()


def test_the_same_seed_makes_the_same_certificate() -> None:
    first, second = (found(lambda s: TRUTH(s) + 0.1).numbers() for _ in range(2))
    assert first == second
    assert first != found(lambda s: TRUTH(s) + 0.1, plan=Plan(rollouts=600, steps=60, seed=1)).numbers()


def test_a_report_states_what_it_rests_on() -> None:
    system = DoubleIntegrator(force_bound=0.5)
    opponents = {"right": ConstantOpponent([0.5])}
    certificate = certify(Brakes(), system, opponents=opponents, best_response_steps=1000, plan=FEW)
    stated = assumptions(certificate)
    assert stated["opponents"] == ["right"] and stated["best_response_steps"] == 1000
    assert stated["seconds"] == pytest.approx(3.0) and stated["initial_states"]["low"] == [-1.0, -2.0]
    assert "whichever of these opponents it meets: right" in meaning(certificate)[0]
    told = {error["what"]: error["errs"] for error in errors(certificate)}
    assert told["rollouts end after 60 steps: a later failure is not seen"] == "bold"
    assert told["an opponent that is not named may be worse"] == "bold"
    assert any("trained for 1,000 steps to break" in what for what in told)

    alone = found(TRUTH)
    assert "no opponent was trained" not in str(errors(alone))
    reach = DoubleIntegrator(target="touch")
    touched = certify(Brakes(), reach, plan=FEW)
    assert errors(touched)[0]["errs"] == "careful"
    assert "reaches the target, without a failure before, within 60 steps" in meaning(touched)[0]
    assert "or of what happens after the target has been reached" in meaning(touched)[1]
    assert errors(touched)[1] == {
        "what": "a rollout that has reached the target is over: a failure after it is not seen",
        "errs": "bold",
    }


def test_the_keys_of_the_numbers_are_always_the_same() -> None:
    given, nothing = found(TRUTH, truth=TRUTH).numbers(), found(lambda s: np.full(s.shape[:-1], -1.0)).numbers()
    assert list(given) == list(nothing)
    assert given["whole"]["high"] is None and nothing["whole"] is None
