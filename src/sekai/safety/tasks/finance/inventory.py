"""Making a market with a limit on inventory and a floor under equity, against bounded fills and moves of the price.

Letters: `p` inventory, units; `y` equity above the floor, money; `Q` the limit; `z` the largest order that is filled in
a step, `x` the largest that is traded in the market; `s` what a fill earns, `k` what a trade in the market costs, `r`
the largest move of the price, all three in money per unit, with s <= k; `C` what equity above the floor is at most.

By symmetry only the size of the inventory matters. A quote is on the side whose fills make it larger or on the one
whose fills make it smaller, and a move of the price is for the position or against it.

What is exactly known. Who must get rid of p trades as fast as the market takes it, since every unit that waits loses r
a step at worst and pays k all the same. So the way out costs

    P(p) = k p + r sum over j = 1, 2, ... of max(p - j x, 0)

    safe set   {p <= Q, y >= P(p)}          value   min(1 - p / Q, (y - P(p)) / C)

"<=": whoever quotes nothing and trades as fast as it may pays P(p) at worst, and p only falls. "=>": let the price move
against the position, fill all that makes it larger and nothing else. Fills earn s <= k, which is less than a unit more
costs to be got rid of, and what is traded later costs more: y - P(p) never rises.

A quote on the larger side is safe as long as what follows is, for which its fill in full and the largest move decide:

    y - k sold + s a - r (p1 + a) >= P(p1 + a)  and  p1 + a <= Q          p1 = p - sold, a = the quote

Sources: the accounting is that of `MarketMaking-v0`; the argument is that of `DrawdownFloor`, step by step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from sekai.safety.arrays import namespace
from sekai.safety.systems.base import System, as_state, smallest
from sekai.safety.systems.sets import BoxSet
from sekai.safety.tasks.finance.search import largest_that_holds


@dataclass(frozen=True, kw_only=True)
class InventoryLimit(System):
    """Keep an inventory below its limit and equity above its floor, g = min(1 - p / Q, y / C); avoid.

    State `(inventory, equity)`: size of the position, units, and equity above the floor, money. Control
    `(larger, smaller, hedge)`, each in [0, 1]: what is quoted on the side whose fills make the position larger, and on
    the other, as shares of z, and what of it is traded away in the market, as a share of x. Disturbance
    `(larger, smaller, move)`: the shares of the two quotes that are filled, and the move of the price, above 0 where it
    is for the position. One step trades, is filled, and then the price moves:

        sold = min(hedge x, p)         a = z larger fill        b = min(z smaller fill, p - sold)
        p_next = p - sold + a - b      y_next = min(y - k sold + s (a + b) + p_next move, C)

    No fill turns the position round; equity above C is paid out. Without a disturbance nothing is filled and the price
    stands still. A step has no length of its own: `dt` only says how learners count it on their horizons.

    Attributes:
        limit: Q, units.
        order_size: z, units.
        hedge_size: x, units.
        spread: s, money per unit, at most `hedge_cost`.
        hedge_cost: k, money per unit.
        shock: r, money per unit.
        cushion: C, money.
    """

    limit: float = 10.0
    order_size: float = 2.0
    hedge_size: float = 2.5
    spread: float = 0.02
    hedge_cost: float = 0.03
    shock: float = 0.05
    cushion: float = 2.0

    state_names: ClassVar[tuple[str, ...]] = ("inventory", "equity")
    observation_size: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_positive("limit", "order_size", "hedge_size", "shock", "cushion")
        self._check_not_negative("spread", "hedge_cost")
        if not self.spread <= self.hedge_cost:
            raise ValueError(
                f"spread is {self.spread} and hedge_cost {self.hedge_cost}; expected at most that: otherwise to be "
                "filled and to trade it away is a gain, and no fill the worst."
            )

    @property
    def steps_to_sell(self) -> int:
        """Steps that trading the largest inventory away takes."""
        return math.ceil(self.limit / self.hedge_size)

    @property
    def control(self) -> BoxSet:
        """Quotes on both sides, and the trade in the market, as shares of the largest."""
        return BoxSet((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))

    @property
    def disturbance(self) -> BoxSet:
        """Fills of both quotes, as shares, and the move of the price."""
        return BoxSet((0.0, 0.0, -self.shock), (1.0, 1.0, self.shock))

    @property
    def worst_disturbance(self) -> tuple[float, ...]:
        """All of the quote that makes the position larger, nothing of the other, and the largest move against it."""
        return (1.0, 0.0, -self.shock)

    @property
    def reset_low(self) -> tuple[float, ...]:
        """Nothing held, at the floor."""
        return (0.0, 0.0)

    @property
    def reset_high(self) -> tuple[float, ...]:
        """The inventory at its limit, and as much equity as there may be."""
        return (self.limit, self.cushion)

    @property
    def g_max(self) -> float:
        """1, with nothing held and all the equity there may be."""
        return 1.0

    @property
    def failure_horizon_s(self) -> float:
        """The steps until all is traded away: no doomed state fails later at the worst."""
        return self.steps_to_sell * self.dt

    def _advance(self, state: Any, control: Any, disturbance: Any) -> Any:
        held, equity = state[..., 0], state[..., 1]
        sold = smallest(control[..., 2] * self.hedge_size, held)
        held, equity = held - sold, equity - self.hedge_cost * sold
        if disturbance is not None:
            more = self.order_size * control[..., 0] * disturbance[..., 0]
            less = smallest(self.order_size * control[..., 1] * disturbance[..., 1], held)
            held = held + more - less
            equity = equity + self.spread * (more + less) + held * disturbance[..., 2]
        return as_state(held, equity.clip(None, self.cushion))

    def g(self, state: Any) -> Any:
        """min(1 - p / Q, y / C)."""
        return smallest(1.0 - state[..., 0] / self.limit, state[..., 1] / self.cushion)


def way_out(system: InventoryLimit, inventory: Any) -> Any:
    """P(p), what getting rid of an inventory `(...)` costs at worst, money; above the limit it counts as that."""
    xp = namespace(inventory)
    steps = xp.arange(1, system.steps_to_sell + 1, dtype=inventory.dtype, device=inventory.device)
    held = inventory.clip(None, system.limit)
    waiting = (held[..., None] - system.hedge_size * steps).clip(0.0, None).sum(-1)
    return system.hedge_cost * held + system.shock * waiting


def value(system: InventoryLimit, state: Any) -> Any:
    """min(1 - p / Q, (y - P(p)) / C), the largest margin that is kept for ever at worst, of states `(..., 2)`."""
    return smallest(1.0 - state[..., 0] / system.limit, _room(system, state))


def after_step(system: InventoryLimit, state: Any) -> Any:
    """The value a step later, `(...)`: as much as may be of the inventory is traded away, and the room is the same."""
    held = (state[..., 0] - system.hedge_size).clip(0.0, None)
    return smallest(1.0 - held / system.limit, _room(system, state))


def quote_bound(system: InventoryLimit, state: Any, hedge: float = 0.0) -> Any:
    """The largest share `(...)` of an order that may be quoted on the side that makes the position larger.

    To quote it, or less, is the least restrictive safe policy, together with that trade in the market: from a safe
    state with a full one nothing at all always holds.

    Args:
        system: the limits.
        state: `(..., 2)`.
        hedge: share of the largest trade in the market, in [0, 1].

    Returns:
        In [0, 1]; 0 where none is safe.
    """
    sold = (state[..., 0]).clip(None, hedge * system.hedge_size)
    held, equity = state[..., 0] - sold, state[..., 1] - system.hedge_cost * sold

    def holds(share: Any) -> Any:
        more = system.order_size * share
        after = as_state(held + more, equity + system.spread * more - system.shock * (held + more))
        return value(system, after) >= 0

    return largest_that_holds(holds, namespace(state).ones_like(held))


def _room(system: InventoryLimit, state: Any) -> Any:
    """Equity above what the way out costs, over the cushion."""
    return (state[..., 1] - way_out(system, state[..., 0])) / system.cushion
