"""Certificates that are known to be right, or wrong in a known way, and what is said of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.safety.binomial import clopper_pearson
from sekai.safety.certificates import evaluate_certificate, threshold_for
from sekai.safety.oracle import after_step, exact_value, sampled_value
from sekai.safety.picture import draw_certificate
from sekai.safety.promises import keeps_promise
from sekai.safety.systems import DoubleIntegrator
from sekai.safety.truth import truth_of

SYSTEM = DoubleIntegrator()
TRUTH = after_step(partial(sampled_value, SYSTEM), SYSTEM)


class Brakes:
    """Brakes fully, and says what it is told to say of its value."""

    def __init__(self, value: Any = TRUTH, force: float = 1.0) -> None:
        self.value, self.force = value, force

    def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
        assert deterministic
        return np.clip(-observation[:, 1:] / SYSTEM.dt, -self.force, self.force), None

    def predict_value(self, observations: Any) -> Any:
        return self.value(np.asarray(observations, np.float64))


def test_bounds_by_hand() -> None:
    # none in 10: (1 - p)^10 = .025 at p = 1 - .025^.1 = .30850; 5 in 10: 0.1871 to 0.8129 (Clopper and Pearson's table)
    assert clopper_pearson(0, 10) == pytest.approx((0.0, 0.3085), abs=1e-4)
    assert clopper_pearson(10, 10) == pytest.approx((0.6915, 1.0), abs=1e-4)
    assert clopper_pearson(5, 10) == pytest.approx((0.1871, 0.8129), abs=1e-4)
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match=r"events is 3, trials 2, confidence 0\.95"):
        clopper_pearson(3, 2)


@given(trials=st.integers(1, 3000), data=st.data())
def test_bounds_hold_the_share_and_are_mirror_images(trials: int, data: Any) -> None:
    events = data.draw(st.integers(0, trials))
    low, high = clopper_pearson(events, trials)
    assert low <= events / trials <= high
    assert clopper_pearson(trials - events, trials) == pytest.approx((1 - high, 1 - low), abs=1e-9)


def test_the_truth_is_a_perfect_certificate_of_a_perfect_policy() -> None:
    report = evaluate_certificate(Brakes(), SYSTEM, truth_of(SYSTEM), rollouts=1000)
    # but for states on the very edge, of which an observation in float32 says the other side
    assert report.sets == pytest.approx((1.0, 0.0, 0.0), abs=0.002)
    assert report.policy_keeps == 1.0 and report.fails_if_certified == 0.0
    # no failure in all certified rollouts: the upper bound is 1 - .025^(1 / n)
    assert report.fails_if_certified_bounds.high == pytest.approx(1 - 0.025 ** (1 / report.certified), abs=1e-9)


def test_a_certificate_of_everything_and_one_of_nothing() -> None:
    everything = evaluate_certificate(Brakes(lambda s: np.ones(s.shape[:-1])), SYSTEM, TRUTH, rollouts=1000)
    # |x| <= 1, |v| <= 2.4 less the set: (2 * 4.8 - 16 / 3) / (16 / 3) = .8, less a step of grid and time
    assert everything.sets.false_safe == pytest.approx(0.8, abs=0.06) and everything.sets.missed == 0.0
    # of the initial states 16/3 of 8 are safe: a third fails, all of it certified
    assert everything.fails_if_certified == pytest.approx(1 / 3, abs=0.06) and everything.certified_if_fails == 1.0
    nothing = evaluate_certificate(Brakes(lambda s: -np.ones(s.shape[:-1])), SYSTEM, TRUTH, rollouts=1000)
    assert nothing.sets == (0.0, 0.0, 1.0) and nothing.certified == 0 and nothing.policy_keeps == 1.0


def test_a_policy_that_is_too_weak_breaks_the_promise_of_a_right_set() -> None:
    report = evaluate_certificate(Brakes(force=0.5), SYSTEM, TRUTH, rollouts=1000)
    assert (
        report.sets.iou == pytest.approx(1.0, abs=0.002)
        and report.policy_keeps < 0.8
        and report.fails_if_certified > 0.2
    )
    assert sum(report.calibration.failures) / 20 == pytest.approx(
        (1000 - report.certified + report.fails_if_certified * report.certified) / 1000, abs=0.05
    )


def test_a_promise_of_reaching_is_kept_by_arriving_before_failing() -> None:
    class Right:
        def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
            return np.ones((len(observation), 1)), None

        def predict_value(self, observations: Any) -> Any:
            raise AssertionError

    system = DoubleIntegrator(target="touch")  # 0.5 +- 0.2
    states = np.array([[0.0, 0.0], [0.9, 0.0], [-0.5, -1.5]])
    # the first passes the target on its way to the wall; the second is beyond it; the third fails on the left first
    assert keeps_promise(Right(), system, states, steps=100).tolist() == [True, False, False]
    assert keeps_promise(Right(), system, states, steps=3).tolist() == [False, False, False]


def test_a_threshold_is_the_lowest_that_the_rollouts_vouch_for() -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, 20_000)
    fails = rng.random(20_000) < np.where(values < 0.2, 0.5, 0.001)
    threshold = threshold_for(values, fails, 0.01)
    assert threshold is not None and 0.18 < threshold < 0.25
    assert threshold_for(values, np.ones(20_000, bool), 0.01) is None


def test_the_picture_shows_both_sets_and_the_promise(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    report = evaluate_certificate(Brakes(lambda s: TRUTH(s) + 0.1), SYSTEM, TRUTH, rollouts=400, cells=41)
    draw_certificate(report, tmp_path / "set.svg", "A certificate that is too bold")
    text = (tmp_path / "set.svg").read_text(encoding="utf-8")
    assert text.count("<path") > 20
    numbers = report.numbers()
    assert list(numbers) == list(report.unmeasured())
    assert numbers["iou"] == report.sets.iou and len(numbers["calibration"]["failures"]) == 20


def test_few_rollouts_make_few_bins() -> None:
    report = evaluate_certificate(Brakes(), SYSTEM, TRUTH, rollouts=7, cells=21)
    assert len(report.calibration.values) == 7 and np.isfinite(report.calibration.values).all()


def test_a_promise_against_a_disturbance_is_measured_against_the_worst_answer() -> None:
    system = DoubleIntegrator(force_bound=0.25)
    truth = after_step(partial(exact_value, system), system)
    report = evaluate_certificate(Brakes(truth), system, truth, rollouts=400, steps=40, cells=41)
    # the truth of the system without a disturbance promises too much
    bold = evaluate_certificate(Brakes(TRUTH), system, truth, rollouts=400, steps=40, cells=41)
    assert bold.fails_if_certified > report.fails_if_certified + 0.05
    assert bold.opponents["zero"].fails_if_certified == 0.0
