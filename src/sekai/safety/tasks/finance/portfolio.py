"""A portfolio under a drawdown floor: several assets, a bounded shock of each, and costs of trading.

Letters as in `sekai.safety.tasks.finance.liquidation`; `W` is equity over its reference, `F = 1 - D` the floor, `C` the
most that W can be, `x` the largest weights. The reference is the running peak of equity (a trailing floor, C = 1) or
equity at the start (a fixed one, C a ceiling above which profits are paid out), as for `DrawdownFloor`.

What is exactly known. Selling everything at once leaves W L(h), and no shock touches cash, so

    safe set   {W L(h) >= F}                  value   W L(h) - F

"<=": what is left in cash stays. "=>": let the largest falls go on. Whatever is traded, the equity E after selling all
falls in each step by at least b (1 - c) of what is held, and it never comes to 0, since k . w < 1. So what is held goes
to 0, and equity comes down to E, which was W L(h) at most from the first. A new peak does no harm as long as selling
from it keeps the floor, which is what the bound on `cost` is for; nor does what is paid out.

So weights w are safe to want where the next state is safe at worst, the scalar condition

    W m(h, w) (1 - k . w) >= F          k . w: the exposure, each weight by what it may lose

which is one of a convex set of weights: with S = (1 - k . w) W / F it says S - sum c |w - S h| >= 1, and S is linear in
w. (m is the root of an increasing function of 1 / m, which is at most S where that function is at least 1 at S.)

Source: Grossman and Zhou 1993, Black and Perold 1992, for one asset without costs, k = b: `finance.cppi_exposure`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sekai.safety.arrays import namespace
from sekai.safety.systems.base import as_state
from sekai.safety.systems.sets import BoxSet
from sekai.safety.tasks.finance.floored import FlooredEquity
from sekai.safety.tasks.finance.liquidation import remaining, sold, worst_sold


@dataclass(frozen=True, kw_only=True)
class DrawdownPortfolio(FlooredEquity):
    """Keep the equity of a portfolio above a share of its peak, or of its start, with g = W - (1 - D); avoid.

    State `(equity, weight_0, weight_1, ...)`: equity over its reference and the weights held, drifted since they were
    traded. Control: the weights wanted, of equity after the cost, each in [0, max_weights]; disturbance: the returns of
    the assets, each within its shock. One step:

        m = 1 - sum c |m w - h|          the cost of the trade
        R = 1 + sum w r                  W_next = min(W m R, C)          h_next = w (1 + r) / R

    Cash is what the weights leave, and may be below 0 where max_weights sum to more than 1. It earns nothing. A step
    has no length of its own: `dt` only says how learners count it on their horizons.

    Attributes:
        drawdown, trailing, ceiling: D, the reference and C, see `FlooredEquity`.
        shocks: b, the largest size of a return of each asset in a step, in (0, 1).
        max_weights: x, the largest weight of each asset; what all of them may lose at worst is below 1.
        cost: c, of the value traded, the same for all assets; sum c x (1 + b) is at most D.
    """

    drawdown: float = 0.1
    shocks: tuple[float, ...] = (0.03, 0.06)
    max_weights: tuple[float, ...] = (0.5, 0.5)
    cost: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_not_negative("cost")
        shocks, largest = np.array(self.shocks, float), np.array(self.max_weights, float)
        if shocks.shape != (len(largest),) or not (shocks.size and ((shocks > 0) & (shocks < 1)).all()):
            raise ValueError(
                f"shocks is {self.shocks} and max_weights {self.max_weights}; expected as many of both, and shocks in "
                "(0, 1)."
            )
        if not ((largest > 0).all() and self.cost < 1 and ((shocks + self.cost) * largest).sum() < 1):
            raise ValueError(
                f"max_weights is {self.max_weights}; expected weights above 0 of which shocks and costs together take "
                "less than 1: otherwise a single step may take all equity."
            )
        most = self.drawdown / float(((1 + shocks) * largest).sum())
        if self.cost > most:
            raise ValueError(
                f"cost is {self.cost}; expected at most {most:.3g}: otherwise to sell from a new peak may take more "
                "than the drawdown."
            )
        object.__setattr__(self, "state_names", ("equity", *(f"weight_{k}" for k in range(len(shocks)))))
        object.__setattr__(self, "observation_size", 1 + len(shocks))

    @property
    def control(self) -> BoxSet:
        """The weights wanted."""
        return BoxSet((0.0,) * len(self.max_weights), tuple(self.max_weights))

    @property
    def disturbance(self) -> BoxSet:
        """The returns of the assets."""
        return BoxSet(tuple(-shock for shock in self.shocks), tuple(self.shocks))

    @property
    def worst_disturbance(self) -> tuple[float, ...]:
        """The largest falls: every weight is long."""
        return self.disturbance.low

    @property
    def reset_low(self) -> tuple[float, ...]:
        """At the floor, nothing held."""
        return (self.floor, *self.control.low)

    @property
    def reset_high(self) -> tuple[float, ...]:
        """At the peak, or ceiling, with the largest weights."""
        return (self.top, *self.control.high)

    @property
    def failure_horizon_s(self) -> float:
        """A step: what is doomed fails at the latest when all is sold."""
        return self.dt

    def _advance(self, state: Any, control: Any, disturbance: Any) -> Any:
        equity, held = state[..., 0], state[..., 1:]
        left = remaining(held, control, self.cost)
        grown = control if disturbance is None else control * (1.0 + disturbance)
        growth = 1.0 + (grown - control).sum(-1)
        after = (equity * left * growth).clip(None, self.top)
        weights = grown / growth[..., None]
        return as_state(after, *(weights[..., k] for k in range(len(self.shocks))))


def value(system: DrawdownPortfolio, state: Any) -> Any:
    """W L(h) - F, the largest margin that is kept for ever at worst, of states `(..., 1 + n)`; exact for sampled time.

    A step later it is the same: selling everything, the best that can be done, keeps it.
    """
    return state[..., 0] * sold(state[..., 1:], system.cost) - system.floor


def weights_hold(system: DrawdownPortfolio, state: Any, weights: Any) -> Any:
    """W m(h, w) (1 - k . w) - F of weights `(..., n)` wanted in states `(..., 1 + n)`; at least 0 where they are safe.

    It is the value of the next state after the worst shock, so to want no other weights is the least restrictive safe
    policy.
    """
    xp = namespace(state)
    falls = xp.asarray(system.shocks, dtype=state.dtype, device=state.device)
    wanted = system.control.project(weights)
    return state[..., 0] * worst_sold(state[..., 1:], wanted, system.cost, falls) - system.floor
