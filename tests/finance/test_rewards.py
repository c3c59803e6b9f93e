"""Rewards, one formula each, against numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.finance import (
    DifferentialSharpe,
    DrawdownPenalty,
    LogReward,
    MeanVarianceReward,
    Outcome,
    ProfitAndLoss,
    Reward,
    SimpleReward,
    max_drawdown,
)
from sekai.finance.rewards import REWARDS, as_reward


def outcome(before: Any, after: Any, *, capital: float = 1e6) -> Outcome:
    """One step of slots whose equity went from `before` to `after`."""
    e_t, e_tp1 = np.array(before, float), np.array(after, float)
    zeros = np.zeros(len(e_t))
    return Outcome(
        equity_before=e_t,
        equity=e_tp1,
        log_growth=np.log(np.maximum(e_tp1, 1e-8) / e_t),
        cost=zeros,
        turnover=zeros,
        weights=np.zeros((len(e_t), 2)),
        terminated=e_tp1 <= 1e-8,
        dt=1 / 252,
        capital=capital,
    )


def along(reward: Reward, equity: Any) -> list[float]:
    """Rewards of one slot whose equity runs through `equity`, from its start on."""
    state = reward.new_state(1)
    return [float(reward.compute(state, outcome([a], [b]))[0]) for a, b in pairwise(equity)]


curves = st.lists(st.floats(0.5, 2.0), min_size=1, max_size=30).map(lambda values: [1.0, *values])


# ---- without memory -------------------------------------------------------------------------------


def test_log_growth_is_taken_over_as_it_is() -> None:
    # 1 -> 1.1: ln 1.1; 0.5 -> -0.2: ln(1e-8 / 0.5), the floor
    rewards = LogReward().compute({}, outcome([1.0, 0.5], [1.1, -0.2]))
    assert rewards.tolist() == pytest.approx([math.log(1.1), math.log(2e-8)], rel=1e-15)


def test_simple_return_of_equity() -> None:
    # 1.1 / 1 - 1 = 0.1; 1.5 / 2 - 1 = -0.25; ruin below 0: -0.1 / 0.5 - 1 = -1.2
    rewards = SimpleReward().compute({}, outcome([1.0, 2.0, 0.5], [1.1, 1.5, -0.1]))
    assert rewards.tolist() == pytest.approx([0.1, -0.25, -1.2], abs=1e-15)
    assert rewards[1] != pytest.approx(-0.5), "the change is over the equity before, not over that at the start"


def test_profit_and_loss_in_money() -> None:
    # 1000 (1.1 - 1) = 100; 1000 (1.5 - 2) = -500
    rewards = ProfitAndLoss().compute({}, outcome([1.0, 2.0], [1.1, 1.5], capital=1000.0))
    assert rewards.tolist() == pytest.approx([100.0, -500.0])


def test_mean_variance_takes_half_the_risk_aversion_times_the_square() -> None:
    # R = 0.1: 0.1 - 2 / 2 * 0.01 = 0.09; R = -0.25: -0.25 - 0.0625 = -0.3125
    rewards = MeanVarianceReward(2.0).compute({}, outcome([1.0, 2.0], [1.1, 1.5]))
    assert rewards.tolist() == pytest.approx([0.09, -0.3125], abs=1e-15)
    assert rewards[0] != pytest.approx(0.1 - 2 * 0.01), "without the half"
    assert MeanVarianceReward(0.0).compute({}, outcome([1.0], [1.1])) == SimpleReward().compute({}, outcome([1], [1.1]))


@given(curves)
def test_profits_add_up_to_that_of_the_episode(equity: list[float]) -> None:
    assert sum(along(ProfitAndLoss(), equity)) == pytest.approx(1e6 * (equity[-1] - 1.0), abs=1e-6)


# ---- differential Sharpe --------------------------------------------------------------------------

# eta = 0.5 and R = 0.1, 0.3, -0.1
#   A = B = 0: no variance, D = 0; then A = 0.05, B = 0.005
#   dA = 0.25, dB = 0.09 - 0.005 = 0.085, variance 0.005 - 0.0025 = 0.0025, to the power 3/2 0.000125
#   D = (0.005 * 0.25 - 0.05 * 0.085 / 2) / 0.000125 = (0.00125 - 0.002125) / 0.000125 = -7; A = 0.175, B = 0.0475
#   dA = -0.275, dB = 0.01 - 0.0475 = -0.0375, variance 0.0475 - 0.030625 = 0.016875
#   D = (-0.0130625 + 0.00328125) / 0.016875^(3/2) = -4.461990
SHARPE_CURVE = [1.0, 1.1, 1.43, 1.287]


def test_differential_sharpe_is_that_of_moody_and_saffell() -> None:
    rewards = along(DifferentialSharpe(0.5), SHARPE_CURVE)
    assert rewards == pytest.approx([0.0, -7.0, -0.00978125 / 0.016875**1.5], rel=1e-11)
    assert rewards[2] == pytest.approx(-4.461990, abs=2e-6)


def test_differential_sharpe_with_the_averages_after_the_step_would_be_another_number() -> None:
    # A = 0.175, B = 0.0475: (0.0475 * 0.25 - 0.175 * 0.085 / 2) / 0.016875^(3/2) = +2.02
    after = (0.0475 * 0.25 - 0.175 * 0.085 / 2) / 0.016875**1.5
    assert after == pytest.approx(2.0243, abs=1e-4)
    assert abs(along(DifferentialSharpe(0.5), SHARPE_CURVE)[1] - after) > 9


@given(st.floats(-0.05, 0.05), st.floats(1e-4, 0.01), st.floats(-0.2, 0.2))
def test_differential_sharpe_is_the_slope_of_the_ratio(mean: float, variance: float, r: float) -> None:
    """`D = dS / d eta` at 0, where `S = A / sqrt(B - A^2)` with `A + eta dA` and `B + eta dB`: a central difference."""
    square, step = variance + mean * mean, 1e-6

    def ratio(eta: float) -> float:
        a, b = mean + eta * (r - mean), square + eta * (r * r - square)
        return a / math.sqrt(b - a * a)

    state = {"mean": np.array([mean]), "mean_square": np.array([square])}
    (value,) = DifferentialSharpe(0.1).compute(state, outcome([1.0], [1.0 + r]))
    assert value == pytest.approx((ratio(step) - ratio(-step)) / (2 * step), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("r", [0.0, 0.02, -1.2, 1e-200])
def test_differential_sharpe_of_the_first_step_is_0(r: float) -> None:
    with np.errstate(all="raise", under="ignore"):
        assert along(DifferentialSharpe(0.2), [1.0, 1.0 + r]) == [0.0]


def test_differential_sharpe_is_0_while_nothing_is_earned_and_finite_after_a_long_rest() -> None:
    # the averages halve every step: after 700 the variance is about 1e-215, and its power 3/2 would underflow
    rest = [1.0, 1.1, 1.0] + [1.0] * 700 + [1.01, 1.02]
    with np.errstate(all="raise", under="ignore"):
        rewards = along(DifferentialSharpe(0.5), rest)
        assert along(DifferentialSharpe(0.5), [1.0] * 5) == [0.0] * 4
    assert np.isfinite(rewards).all() and rewards[1] != 0.0 and rewards[702] == 0.0 and rewards[703] != 0.0


def test_differential_sharpe_takes_rounding_for_no_variance() -> None:
    # equal returns: of B (1 - eta)^n is left as the variance, in exact numbers; nothing of it in floats after n = 60
    equity = 1.25 ** np.arange(100.0)
    with np.errstate(all="raise"):
        rewards = along(DifferentialSharpe(0.5), equity)
    assert rewards[60:] == [0.0] * 39 and rewards[30] > 0.0


# ---- drawdown -------------------------------------------------------------------------------------

# equity 1, 0.9, 0.95, 1.2, 0.96, 0.84: drawdowns 0.1, 0.05, 0, 0.2, 0.3; the largest so far 0.1, 0.1, 0.1, 0.2, 0.3
DRAWDOWN_CURVE = [1.0, 0.9, 0.95, 1.2, 0.96, 0.84]
ADDED = [0.1, 0.0, 0.0, 0.1, 0.1]


def test_a_drawdown_is_paid_for_as_far_as_it_is_deeper_than_any_before() -> None:
    rewards = along(DrawdownPenalty(2.0), DRAWDOWN_CURVE)
    assert rewards == pytest.approx(np.diff(np.log(DRAWDOWN_CURVE)) - 2.0 * np.array(ADDED), abs=1e-15)
    # the plausible others: from the first value seen as the peak, 0; of every fall below the peak, 0.1 + 0.2 + 0.1
    assert rewards[0] != pytest.approx(math.log(0.9)), "the equity at the start is the first peak"
    assert sum(ADDED) != pytest.approx(0.4)


@given(curves, st.floats(0.0, 5.0))
def test_penalties_add_up_to_the_largest_drawdown(equity: list[float], weight: float) -> None:
    total = math.log(equity[-1]) - weight * max_drawdown(equity)
    assert sum(along(DrawdownPenalty(weight), equity)) == pytest.approx(total, abs=1e-12)


# ---- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("reward", [make() for make in REWARDS.values()], ids=list(REWARDS))
def test_slots_do_not_mix(reward: Reward) -> None:
    equity = np.exp(np.cumsum(np.random.default_rng(0).normal(0.0, 0.1, (20, 3)), axis=0))
    state, rewards = reward.new_state(3), []
    for before, after in pairwise(equity):
        rewards.append(reward.compute(state, outcome(before, after)))
    for slot in range(3):
        assert along(reward, equity[:, slot]) == [row[slot] for row in rewards]


@pytest.mark.parametrize(
    ("name", "reward"),
    [
        ("log", LogReward()),
        ("simple", SimpleReward()),
        ("pnl", ProfitAndLoss()),
        ("mean_variance", MeanVarianceReward(1.0)),
        ("differential_sharpe", DifferentialSharpe(0.01)),
        ("drawdown", DrawdownPenalty(1.0)),
    ],
)
def test_a_word_stands_for_the_class_with_its_defaults(name: str, reward: Reward) -> None:
    assert as_reward(name) == reward and as_reward(reward) is reward and hash(reward) is not None
    assert len(REWARDS) == 6


def test_nothing_given_is_log_growth() -> None:
    assert as_reward(None) == LogReward()


def test_a_reward_is_settled_when_it_is_made() -> None:
    with pytest.raises(FrozenInstanceError):
        DifferentialSharpe().eta = 0.5  # type: ignore[misc]  # what is refused
    assert repr(DifferentialSharpe(1 / 8)) == "DifferentialSharpe(eta=0.125)"


def test_a_subclass_has_no_state_unless_it_says_so_and_a_plain_name() -> None:
    class Turnover(Reward):
        def compute(self, state: Any, outcome: Outcome) -> Any:
            return -outcome.turnover

    assert Turnover().new_state(3) == {} and repr(Turnover()).endswith("Turnover()")

    @dataclass(frozen=True)
    class Weighted(Turnover):
        weight: float

    assert repr(Weighted(0.5)).endswith("Weighted(weight=0.5)")
    with pytest.raises(TypeError, match="abstract"):
        Reward()  # type: ignore[abstract]  # what is refused


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("sharpe", ValueError, r"reward is 'sharpe'; expected a Reward, or one of 'log', 'simple', 'pnl'"),
        (DrawdownPenalty, TypeError, r"reward is the class DrawdownPenalty; expected an object: write DrawdownPenalty"),
        (1.0, TypeError, r"reward is 1.0 \(float\); expected a Reward, .* implement compute\(state, outcome\)\."),
        (lambda state, outcome: outcome.equity, TypeError, r"expected a Reward"),
        (dict, TypeError, r"reward is <class 'dict'> \(type\)"),
    ],
)
def test_what_is_no_reward_is_refused(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        as_reward(given)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: DifferentialSharpe(0.0), ValueError, r"DifferentialSharpe eta is 0.0; expected a number in \(0, 1\)"),
        (lambda: DifferentialSharpe(1), ValueError, r"DifferentialSharpe eta is 1; .* remember 1 / eta steps"),
        (lambda: DifferentialSharpe("0.1"), TypeError, r"DifferentialSharpe eta is '0.1' \(str\)"),
        (lambda: DrawdownPenalty(-1), ValueError, r"DrawdownPenalty weight is -1; expected a number of at least 0"),
        (
            lambda: MeanVarianceReward(math.nan),
            ValueError,
            r"MeanVarianceReward risk_aversion is nan; expected a finit",
        ),
        (lambda: MeanVarianceReward(None), TypeError, r"MeanVarianceReward risk_aversion is None"),
    ],
)
def test_bad_parameters_are_named(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
