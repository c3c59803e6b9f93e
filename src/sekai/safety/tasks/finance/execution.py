"""Filling an order before a deadline and within a budget, at zero volatility or against a bounded move of the price.

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

Against an adversary the price moves after each slice by at most `d` (a share of the budget for the whole order), which
is paid on all that must still be filled then. A budget that is spent is worth nothing, so the worst move is d each
time, and slice i = 1, 2, ... costs (i - 1) d v_i more for having waited. What is least now is

    (h - p / 2) sum v_i^2 + d sum (i - 1) v_i      at  v_i = min(max(u - (i - 1) t, 0), b),  t = d / (2 h - p)

with the u for which they sum to y: slices that fall by t from one to the next, some at the cap first, some not needed
at last. There are so few ways how many of each there may be that the least of all is looked for.

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
ROUNDING = 1e-12  # of the order: what slices may be beyond their bounds


@dataclass(frozen=True, kw_only=True)
class BudgetExecution(System):
    """Reach an order all but filled before the deadline, without spending more than a budget.

    State `(left, spent, slices)`: share of the order that is left, share of the budget that is spent, and slices that
    are left, a whole number. Control `(pace,)`, the slice as a share of the largest one. One step:

        v = min(pace b, left)    left_next = left - v    slices_next = slices - 1
        spent_next = spent + v (e + h v + p left_next) + move max(left_next - tolerance, 0)

    The move is the disturbance, as a share of the budget for the whole order and above 0 where it is against the
    trader; without a `price_shock` there is none.

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
        price_shock: the largest move of the price after a slice, money per share.
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
    price_shock: float = 0.0

    state_names: ClassVar[tuple[str, ...]] = ("left", "spent", "slices")
    whole: ClassVar[tuple[str, ...]] = ("slices",)
    observation_size: ClassVar[int] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("n_steps", self.n_steps, minimum=1)
        self._check_positive("initial_inventory", "s0", "total_time", "temporary_impact", "budget_bps")
        self._check_positive("max_slice", "tolerance")
        self._check_not_negative("permanent_impact", "fixed_cost", "price_shock")
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
    def move(self) -> float:
        """d, share of the budget that the largest move of the price takes on the whole order."""
        return self.price_shock * self._scale

    @property
    def curvature(self) -> float:
        """h - p / 2, share of the budget for each slice squared."""
        return self.temporary - self.permanent / 2

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
    def disturbance(self) -> BoxSet | None:
        """The move of the price, as a share of the budget; None without a price shock."""
        return BoxSet((-self.move,), (self.move,)) if self.price_shock else None

    @property
    def worst_disturbance(self) -> tuple[float, ...] | None:
        """The largest move against the trader."""
        return (self.move,) if self.price_shock else None

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
        if disturbance is not None:
            cost = cost + disturbance[..., 0] * _wanted(self, after)
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
    """The least share of the budget that filling an order takes at worst, `(...)`; whether the cap allows it apart.

    Args:
        system: the market.
        left: share of the order that is left, `(...)`.
        slices: slices to do it in, `(...)`; below 1 counts as 1.
    """
    wanted = _wanted(system, left)
    before = (left * left - system.tolerance**2).clip(0.0, None)
    known = system.fixed * wanted + system.permanent / 2 * before
    if not system.price_shock:
        return known + system.curvature * wanted * wanted / slices.clip(1.0, None)
    return known + _front_loaded(system, wanted, slices)[0]


def cheapest_pace(system: BudgetExecution, state: Any) -> Any:
    """The control `(..., 1)` of the first of the cheapest slices until the deadline; `even_pace` without shocks.

    It aims `BEYOND` the tolerance, as that does.
    """
    if not system.price_shock:
        return even_pace(system, state)
    first = _front_loaded(system, _wanted(system, state[..., 0] + BEYOND), state[..., 2])[1]
    return (first / system.max_slice)[..., None]


def even_pace(system: BudgetExecution, state: Any) -> Any:
    """The control `(..., 1)` that fills the order in equal slices until the deadline, without shocks the cheapest way.

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

    That is the set itself, less the states at the deadline: the first of the cheapest slices stays in it, and an order
    that is filled stays so.
    """
    return smallest(slack(system, state), (state[..., 2] - 1.0) / system.n_steps)


def _wanted(system: BudgetExecution, left: Any) -> Any:
    """Share of the order that must still be traded."""
    return (left - system.tolerance).clip(0.0, None)


def _front_loaded(system: BudgetExecution, wanted: Any, slices: Any) -> tuple[Any, Any]:
    """The least (h - p / 2) sum v^2 + d sum (i - 1) v_i, and its first slice, `(...)` both; see the module.

    What does not fit under the cap is left out. `used` slices are above 0, the first `capped` of them at the cap.
    """
    xp, cap = namespace(wanted, slices), system.max_slice
    step, slices = system.move / (2 * system.curvature), slices.clip(1.0, None)
    wanted = smallest(wanted, slices * cap)
    least, first = xp.full_like(wanted, float("inf")), xp.zeros_like(wanted)
    for used in range(1, system.n_steps + 1):
        for capped in range(used):
            free = used - capped
            ones, squares = free * (free - 1) / 2, free * (free - 1) * (2 * free - 1) / 6  # sums of 0, ..., free - 1
            last = (wanted - capped * cap - step * ones) / free
            largest = last + (free - 1) * step
            fits = (slices >= used) & (last >= -ROUNDING) & (largest <= cap + ROUNDING)
            squared = capped * cap**2 + free * last * last + 2 * step * ones * last + step**2 * squares
            waiting = capped * (capped - 1) / 2 * cap + ((used - 1) * free - ones) * last
            cost = system.curvature * squared + system.move * (waiting + step * ((used - 1) * ones - squares))
            better = fits & (cost < least)
            least = xp.where(better, cost, least)
            first = xp.where(better, xp.full_like(largest, cap) if capped else largest, first)
    return least, first.clip(0.0, cap)
