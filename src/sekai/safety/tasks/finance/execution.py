"""Filling an order before a deadline and within a budget, at zero volatility.

The market is that of `OptimalExecution-v0` with `sigma = 0`: a slice of `v` shares, with `x'` left after it, adds

    eps v + (eta / tau) v^2 + gamma x' v

to the implementation shortfall: half the spread, temporary impact, permanent impact on what is left. Quantities here
are shares of the whole: `x` of the order left, `C` of the budget spent; `e`, `h`, `p` are the three coefficients in
these units, `n` the slices left, `b` the largest slice, `tol` what may stay unfilled.

What is exactly known. To sell y = x - tol in n slices costs

    e y + h sum v^2 + p sum x' v,      sum x' v = (x^2 - tol^2 - sum v^2) / 2

which for h > p / 2 is least where sum v^2 is: in equal slices, y / n each. Costs only grow, so the budget is kept all
the way where it is kept at the end, and to stop short of tol, or to go on, helps neither. The order is filled within
the budget from exactly those states with

    y <= n b      and      C + e y + (p / 2) (x^2 - tol^2) + (h - p / 2) y^2 / n <= 1       (y > 0)

Sources: Almgren and Chriss, "Optimal execution of portfolio transactions", 2000, section 2 (least expected cost is in
equal slices); Hsu et al., RSS 2021, for the reach-avoid recursion that value iteration confirms it by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sekai.safety.arrays import namespace
from sekai.safety.systems.base import System, as_state, smallest
from sekai.safety.systems.sets import BoxSet
from sekai.spaces.checks import whole_number

BEYOND = 1e-6  # of the order


@dataclass(frozen=True, kw_only=True)
class BudgetExecution(System):
    """Reach an order all but filled before the deadline, without spending more than a budget.

    State `(left, spent, slices)`: share of the order that is left, share of the budget that is spent, and slices that
    are left, a whole number. Control `(pace,)`, the slice as a share of the largest one. One step:

        v = min(pace b, left)    left_next = left - v    spent_next = spent + v (e + h v + p left_next)
        slices_next = slices - 1

    Margins: g = min(1 - spent, slices / n_steps), so that the step after the deadline fails, and l = tolerance - left.
    Observed are `(left, spent, slices / n_steps)`. A step has no length of its own for learners: `dt` only says how
    they count it on their horizons.

    Attributes:
        initial_inventory: X, shares of the order.
        s0: arrival price, money per share.
        total_time: T, time to trade in, in the unit of `temporary_impact`.
        n_steps: N, slices, each of tau = T / N.
        permanent_impact: gamma, money per share for each share.
        temporary_impact: eta, money per share for each share per unit of time; above gamma tau / 2.
        fixed_cost: eps, money per share.
        budget_bps: largest shortfall, in basis points of X S_0.
        max_slice: b, the largest slice, as a share of the order: a cap on participation.
        tolerance: tol, share of the order that may stay unfilled, in (0, 1).
    """

    initial_inventory: float = 1e6
    s0: float = 50.0
    total_time: float = 5.0
    n_steps: int = 10
    permanent_impact: float = 2.5e-7
    temporary_impact: float = 2.5e-6
    fixed_cost: float = 0.0625
    budget_bps: float = 200.0
    max_slice: float = 0.2
    tolerance: float = 0.1

    state_names: ClassVar[tuple[str, ...]] = ("left", "spent", "slices")
    whole: ClassVar[tuple[str, ...]] = ("slices",)
    observation_size: ClassVar[int] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("n_steps", self.n_steps, minimum=1)
        self._check_positive("initial_inventory", "s0", "total_time", "temporary_impact", "budget_bps")
        self._check_positive("max_slice", "tolerance")
        self._check_not_negative("permanent_impact", "fixed_cost")
        if not (self.max_slice <= 1 and self.tolerance < 1):
            raise ValueError(
                f"max_slice is {self.max_slice} and tolerance {self.tolerance}; expected shares of the order, in "
                "(0, 1] and in (0, 1)."
            )
        if not 2 * self.temporary > self.permanent:
            raise ValueError(
                f"temporary_impact is {self.temporary_impact}; expected more than permanent_impact * total_time / "
                f"n_steps / 2: otherwise selling faster costs less, and equal slices are not the cheapest."
            )

    @property
    def fixed(self) -> float:
        """e, share of the budget that half the spread on the whole order takes."""
        return self.fixed_cost * self._scale

    @property
    def temporary(self) -> float:
        """h, share of the budget that the temporary impact of the whole order in one slice takes."""
        return self.temporary_impact * self.n_steps / self.total_time * self.initial_inventory * self._scale

    @property
    def permanent(self) -> float:
        """p, share of the budget that a permanent impact of the whole order on as much again takes."""
        return self.permanent_impact * self.initial_inventory * self._scale

    @property
    def _scale(self) -> float:
        """Shares of the budget that a price worse by one unit of money takes on the whole order."""
        return 1e4 / (self.s0 * self.budget_bps)

    @property
    def provides_l(self) -> bool:
        """True: the order is to be filled."""
        return True

    @property
    def control(self) -> BoxSet:
        """The slice as a share of the largest one."""
        return BoxSet((0.0,), (1.0,))

    @property
    def reset_low(self) -> tuple[float, ...]:
        """Nothing left, nothing spent, no time."""
        return (0.0, 0.0, 0.0)

    @property
    def reset_high(self) -> tuple[float, ...]:
        """The whole order, the whole budget spent, the whole time."""
        return (1.0, 1.0, float(self.n_steps))

    @property
    def g_max(self) -> float:
        """1, with nothing spent and the whole time left."""
        return 1.0

    @property
    def failure_horizon_s(self) -> float:
        """The time to the step after the deadline."""
        return (self.n_steps + 1) * self.dt

    def _advance(self, state: Any, control: Any, disturbance: Any) -> Any:
        left, spent = state[..., 0], state[..., 1]
        traded = smallest(control[..., 0] * self.max_slice, left.clip(0.0, None))
        after = left - traded
        cost = traded * (self.fixed + self.temporary * traded + self.permanent * after)
        return as_state(after, spent + cost, state[..., 2] - 1.0)

    def g(self, state: Any) -> Any:
        """min(1 - spent, slices / n_steps)."""
        return smallest(1.0 - state[..., 1], state[..., 2] / self.n_steps)

    def l(self, state: Any) -> Any:  # noqa: E743
        """tolerance - left."""
        return self.tolerance - state[..., 0]

    def observe(self, state: Any) -> Any:
        """The slices left as a share of all; the rest as it is."""
        return as_state(state[..., 0], state[..., 1], state[..., 2] / self.n_steps)

    def start(self, uniform: Any) -> Any:
        """Shares of order and budget spread evenly over [0, 1), and each number of slices as likely."""
        slices = namespace(uniform).floor(uniform[..., 2] * (self.n_steps + 1))
        return as_state(uniform[..., 0], uniform[..., 1], slices)


def least_cost(system: BudgetExecution, left: Any, slices: Any) -> Any:
    """The least share of the budget that filling an order takes, `(...)`; whether its slices are allowed apart.

    Args:
        system: the market.
        left: share of the order that is left, `(...)`.
        slices: slices to do it in, `(...)`; below 1 counts as 1.
    """
    wanted = _wanted(system, left)
    before = (left * left - system.tolerance**2).clip(0.0, None)
    squares = wanted * wanted / slices.clip(1.0, None)
    return system.fixed * wanted + system.permanent / 2 * before + (system.temporary - system.permanent / 2) * squares


def even_pace(system: BudgetExecution, state: Any) -> Any:
    """The control `(..., 1)` that fills the order in equal slices until the deadline, the cheapest way there is.

    It aims `BEYOND` the tolerance, since what is left, observed as float32, must not leave the last slice short of it.
    """
    each = _wanted(system, state[..., 0] + BEYOND) / state[..., 2].clip(1.0, None)
    return (each / system.max_slice).clip(None, 1.0)[..., None]


def slack(system: BudgetExecution, state: Any) -> Any:
    """What would be over, `(...)`, of the budget and of the cap, whichever is less; at least 0 where both suffice.

    It leaves out the deadline, and is no value: only its sign has a meaning.
    """
    left, spent, slices = state[..., 0], state[..., 1], state[..., 2]
    capacity = slices.clip(0.0, None) * system.max_slice
    return smallest(1.0 - spent - least_cost(system, left, slices), capacity - _wanted(system, left))


def contains(system: BudgetExecution, state: Any) -> Any:
    """Whether the order is filled within the budget from states `(..., 3)`, or is so already; bool `(...)`."""
    return (system.g(state) >= 0) & (slack(system, state) >= 0)


def after_step(system: BudgetExecution, state: Any) -> Any:
    """A function of states `(..., 3)` that is at least 0 where some step leads into the set.

    That is the set itself, less the states at the deadline: the first of the equal slices stays in it, and an order
    that is filled stays so.
    """
    return smallest(slack(system, state), (state[..., 2] - 1.0) / system.n_steps)


def _wanted(system: BudgetExecution, left: Any) -> Any:
    """Share of the order that must still be traded."""
    return (left - system.tolerance).clip(0.0, None)
