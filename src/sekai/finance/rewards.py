"""What a step of Trading-v0 or Portfolio-v0 is worth, as a function of what it did to the account.

Letters: `K` slots that took the step, `n` risky assets. `E` is the equity before it and `E'` after it, costs and
interest inside, in units of the equity at the start of the episode, which is 1; `R = E' / E - 1`.

A reward is settled when it is made, remembers no episode and is shared by everybody. What it has to remember of the
episodes under way (averages, a peak) is the *state*: a plain dict of arrays with a leading axis of slots, which belongs
to the environment:

    state = reward.new_state(N)               N slots whose episode begins
    rewards = reward.compute(state, outcome)  one step of all of them

1. The rows of a slot depend on the rows of that slot alone; the state of its first step is a row of `new_state`.
2. `compute` sees only slots that took a step: no slot that waits or is frozen, so that `K` may change from step to
   step, and the state it is given has `K` rows as well. A frozen slot is paid 0, and its row stays as it is.
3. It writes into the arrays of the state, or puts new ones of the same shape under the same names. The arrays of the
   outcome are read-only.
4. If it raises, the state is as it was.
5. The state is part of `get_state()` of the environment: numbers, no objects.

A reward of your own:

    @dataclass(frozen=True)
    class TurnoverPenalty(Reward):
        weight: float = 0.1

        def compute(self, state, outcome):
            return outcome.log_growth - self.weight * outcome.turnover
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sekai.finance.checks import finite, not_negative

Array = NDArray[np.float64]
State = dict[str, NDArray[Any]]

_NO_VARIANCE = 1e-12  # of the mean square: less is nothing but rounding
_NO_DEVIATION = 1e-12  # of a return: less is nothing at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one step did, in `K` slots.

    Attributes:
        equity_before: float64 `(K,)`, equity before the trade, above 0.
        equity: float64 `(K,)`, equity after the move of the price; at ruin it may be 0 or less.
        log_growth: float64 `(K,)`, `ln(E' / E)`, with an `E'` below 1e-8 counted as 1e-8.
        cost: float64 `(K,)`, cost of the trade, a fraction of `equity_before`.
        turnover: float64 `(K,)`, sum of the absolute changes of the risky weights, likewise.
        weights: float64 `(K, n + 1)`, after the step, cash last; in Trading-v0 the exposure and the rest.
        terminated: bool `(K,)`, whether the step was ruin.
        dt: length of a bar, in years.
        capital: what an equity of 1 is worth, in money.
    """

    equity_before: Array
    equity: Array
    log_growth: Array
    cost: Array
    turnover: Array
    weights: Array
    terminated: NDArray[np.bool_]
    dt: float
    capital: float


class Reward(ABC):
    """Base class; the module says what its two methods promise.

    A subclass is best a frozen dataclass: a saved state knows the reward it belongs to by its `repr`.
    """

    def new_state(self, num_slots: int) -> State:
        """What is remembered of `num_slots` episodes that begin: arrays `(num_slots, ...)`, by default none."""
        return {}

    @abstractmethod
    def compute(self, state: State, outcome: Outcome) -> Any:
        """The reward of each slot for one step.

        Args:
            state: `(K, ...)`, what is remembered of these slots; updated.
            outcome: what the step did.

        Returns:
            float64 `(K,)`.
        """

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}()"


@final
@dataclass(frozen=True)
class LogReward(Reward):
    """Log growth of equity, `ln(E' / E)`, the default: rewards add up to the log growth of the episode.

    Its expectation is what Kelly's weights maximise. An equity below 1e-8 counts as 1e-8, so that ruin is paid once.
    """

    def compute(self, state: State, outcome: Outcome) -> Array:
        """`ln(max(E', 1e-8) / E)`."""
        return outcome.log_growth


@final
@dataclass(frozen=True)
class SimpleReward(Reward):
    """Simple return of equity, `R = E' / E - 1`."""

    def compute(self, state: State, outcome: Outcome) -> Array:
        """`E' / E - 1`."""
        return _returns(outcome)


@final
@dataclass(frozen=True)
class ProfitAndLoss(Reward):
    """Profit of the step in money, `capital (E' - E)`: rewards add up to the profit of the episode."""

    def compute(self, state: State, outcome: Outcome) -> Array:
        """`capital (E' - E)`."""
        return outcome.capital * (outcome.equity - outcome.equity_before)


@final
@dataclass(frozen=True)
class MeanVarianceReward(Reward):
    """Return less a penalty for its square, `R - risk_aversion / 2 R^2`.

    Added up over an episode of many short steps it is mean less `risk_aversion / 2` times variance, since the squared
    mean of one step is small beside its variance (Ritter 2017, "Machine learning for trading", with a mean of 0 in the
    square).

    Attributes:
        risk_aversion: at least 0; 1 is close to log growth, `ln(1 + R) = R - R^2 / 2 + ...`.
    """

    risk_aversion: float = 1.0

    def __post_init__(self) -> None:
        value = not_negative("MeanVarianceReward risk_aversion", self.risk_aversion)
        object.__setattr__(self, "risk_aversion", value)

    def compute(self, state: State, outcome: Outcome) -> Array:
        """`R - risk_aversion / 2 R^2`."""
        r_t = _returns(outcome)
        return r_t - 0.5 * self.risk_aversion * r_t * r_t


@final
@dataclass(frozen=True)
class DifferentialSharpe(Reward):
    """How much a return changes the Sharpe ratio of an exponential average, per unit of the rate `eta`.

    With the averages `A` of `R` and `B` of `R^2` *before* the step, both 0 at the start of an episode (Moody, Wu, Liao
    and Saffell 1998; Moody and Saffell 2001):

        D = (B dA - A dB / 2) / (B - A^2)^(3/2),  dA = R - A,  dB = R^2 - B
        A += eta dA,  B += eta dB

    Where the variance `B - A^2` is 0, or nothing but rounding (at most 1e-12 of `B`, or a deviation of at most 1e-12),
    there is no ratio to change, and `D = 0`: on the first step, and as long as all returns were 0. The steps after a
    small first return, and returns that hardly vary, have large rewards: a `ClipReward` around the environment helps.

    Attributes:
        eta: rate of the averages, in (0, 1); `1 / eta` steps are remembered.
    """

    eta: float = 0.01

    def __post_init__(self) -> None:
        eta = finite("DifferentialSharpe eta", self.eta)
        if not 0 < eta < 1:
            raise ValueError(
                f"DifferentialSharpe eta is {self.eta!r}; expected a number in (0, 1), such as 0.01: the averages "
                "remember 1 / eta steps."
            )
        object.__setattr__(self, "eta", eta)

    def new_state(self, num_slots: int) -> State:
        """The averages, 0."""
        return {"mean": np.zeros(num_slots), "mean_square": np.zeros(num_slots)}

    def compute(self, state: State, outcome: Outcome) -> Array:
        """`D`, with the averages before the step."""
        r_t, a_tm1, b_tm1 = _returns(outcome), state["mean"], state["mean_square"]
        gain, gain_square = r_t - a_tm1, r_t * r_t - b_tm1
        variance = b_tm1 - a_tm1 * a_tm1
        varied = (variance > _NO_VARIANCE * b_tm1) & (variance > _NO_DEVIATION**2)
        safe = np.where(varied, variance, 1.0)
        ratio = (b_tm1 * gain - 0.5 * a_tm1 * gain_square) / (safe * np.sqrt(safe))
        state["mean"] = a_tm1 + self.eta * gain
        state["mean_square"] = b_tm1 + self.eta * gain_square
        return np.where(varied, ratio, 0.0)


@final
@dataclass(frozen=True)
class DrawdownPenalty(Reward):
    """Log growth less what the step adds to the largest drawdown of the episode, times `weight`.

    The drawdown is `1 - E' / peak`, and the equity at the start is the first peak. Rewards add up to the log growth of
    the episode less `weight` times its `max_drawdown`; a drawdown no deeper than an earlier one costs nothing more.

    Attributes:
        weight: at least 0.
    """

    weight: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", not_negative("DrawdownPenalty weight", self.weight))

    def new_state(self, num_slots: int) -> State:
        """The peak, 1, and the largest drawdown, 0."""
        return {"peak": np.ones(num_slots), "drawdown": np.zeros(num_slots)}

    def compute(self, state: State, outcome: Outcome) -> Array:
        """`ln(E' / E) - weight (largest drawdown - largest drawdown before)`."""
        peak = np.maximum(state["peak"], outcome.equity)
        largest = np.maximum(state["drawdown"], 1.0 - outcome.equity / peak)
        added = largest - state["drawdown"]
        state["peak"], state["drawdown"] = peak, largest
        return outcome.log_growth - self.weight * added


#: shorthands, each with the defaults of its class
REWARDS: Final[dict[str, type[Reward]]] = {
    "log": LogReward,
    "simple": SimpleReward,
    "pnl": ProfitAndLoss,
    "mean_variance": MeanVarianceReward,
    "differential_sharpe": DifferentialSharpe,
    "drawdown": DrawdownPenalty,
}


def as_reward(value: Any) -> Reward:
    """A reward from what a user gave: a `Reward`, a key of `REWARDS`, or None for a `LogReward`.

    Raises:
        TypeError, ValueError: anything else.
    """
    if value is None:
        return LogReward()
    if isinstance(value, Reward):
        return value
    names = ", ".join(map(repr, REWARDS))
    if isinstance(value, str):
        if value not in REWARDS:
            raise ValueError(f"reward is {value!r}; expected a Reward, or one of {names}.")
        return REWARDS[value]()
    if isinstance(value, type) and issubclass(value, Reward):
        raise TypeError(f"reward is the class {value.__name__}; expected an object: write {value.__name__}(...).")
    raise TypeError(
        f"reward is {value!r} ({type(value).__name__}); expected a Reward, or one of {names}. For a formula of your "
        "own, derive a class from sekai.finance.Reward and implement compute(state, outcome)."
    )


def _returns(outcome: Outcome) -> Array:
    return outcome.equity / outcome.equity_before - 1.0
