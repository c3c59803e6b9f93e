"""Trading under a drawdown floor, with an exposure that cannot be changed at once.

Letters, all without a unit: `W` equity over its reference, `a` exposure (value held over equity), `F = 1 - D` the
floor, `c` the largest shock, `m` the largest change of the exposure in a step, `r` the shock, a simple return. The
reference is the running peak of equity (a trailing floor), or equity at the start (a fixed one); W is at most C, which
is 1 for the trailing floor, since a new peak is a new reference, and for the fixed one a ceiling above which profits
are paid out.

What is exactly known. Every shock of a long position is worst at r = -c, and no policy holds less after k steps than
the one that sells as fast as it may. So what is left of W at worst, once all is sold, is W P(a) with

    P(a) = product over k = 1, 2, ... of (1 - c max(a - k m, 0))

    safe set   {W P(a) >= F}                  value   W P(a) - F

"=>": under r = -c every policy has a_k >= a - k m, so W falls to W P(a) or below. "<=": selling as fast as it may,
min(C, W (1 + a r)) >= W (1 - c a) for every shock, since W <= C. A new peak never hurts, nor does what is paid out.

Now an exposure a' of the next step is safe where what follows is: (1 - c a') P(a') = P(a' + m), so the bound is

    a' <= P^-1(F / W) - m

Where all can be sold at once (m at least the exposure) it is (W - F) / (W c): the bound of constant proportion
portfolio insurance, `sekai.finance.cppi_exposure`.

Sources: Black and Perold, "Theory of constant proportion portfolio insurance", 1992, for the bound without a limit on
trading; Grossman and Zhou, "Optimal investment strategies for controlling drawdowns", 1993, for a floor that follows
the peak. The product is the same argument, step by step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from sekai.safety.arrays import namespace
from sekai.safety.systems.base import as_state
from sekai.safety.systems.sets import BoxSet
from sekai.safety.tasks.finance.floored import FlooredEquity
from sekai.safety.tasks.finance.search import largest_that_holds


@dataclass(frozen=True, kw_only=True)
class DrawdownFloor(FlooredEquity):
    """Keep equity above a share of its running peak, or of its start, whatever the shocks, g = W - (1 - D); avoid.

    State `(equity, exposure)`: equity over the reference, at most C, and the exposure held, in [0, max_exposure].
    Control `(target,)`, the exposure wanted; disturbance `(shock,)`, the return of the asset. One step trades towards
    the target, at most by `max_change`, and then the price moves:

        a_next = a + clip(target - a, -m, m)
        W_next = min(W (1 + a_next r), C)          C = 1: a new peak

    The exposure is held through the step and brought back to where it was after it; cash earns nothing, trades cost
    nothing (add their rate to `shock` to be safe of it). A step has no length of its own: `dt` only says how learners
    count it on their horizons, so that 0.05 s makes a horizon of 5 s one of 100 steps.

    Attributes:
        drawdown, trailing, ceiling: D, the reference and C, see `FlooredEquity`.
        shock: c, the largest size of a return in a step; times `max_exposure` below 1.
        max_exposure: the largest exposure.
        max_change: m, by how much the exposure changes in a step at most.
    """

    shock: float = 0.02
    max_exposure: float = 3.0
    max_change: float = 0.25

    state_names: ClassVar[tuple[str, ...]] = ("equity", "exposure")
    observation_size: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_positive("shock", "max_exposure", "max_change")
        if not self.shock * self.max_exposure < 1:
            raise ValueError(
                f"shock is {self.shock} and max_exposure {self.max_exposure}; expected a product below 1: otherwise a "
                "single step may take all equity."
            )

    @property
    def steps_to_sell(self) -> int:
        """Steps that selling the largest exposure takes."""
        return math.ceil(self.max_exposure / self.max_change)

    @property
    def control(self) -> BoxSet:
        """The exposure wanted."""
        return BoxSet((0.0,), (self.max_exposure,))

    @property
    def disturbance(self) -> BoxSet:
        """The return of the asset."""
        return BoxSet((-self.shock,), (self.shock,))

    @property
    def worst_disturbance(self) -> tuple[float, ...]:
        """The largest fall: every exposure is long."""
        return (-self.shock,)

    @property
    def reset_low(self) -> tuple[float, ...]:
        """At the floor, nothing held."""
        return (self.floor, 0.0)

    @property
    def reset_high(self) -> tuple[float, ...]:
        """At the peak, or ceiling, with the largest exposure."""
        return (self.top, self.max_exposure)

    @property
    def failure_horizon_s(self) -> float:
        """The steps in which something is still held while all is sold: no doomed state fails later at the worst."""
        return max(self.steps_to_sell - 1, 1) * self.dt

    def _advance(self, state: Any, control: Any, disturbance: Any) -> Any:
        equity, exposure = state[..., 0], state[..., 1]
        change = (control[..., 0] - exposure).clip(-self.max_change, self.max_change)
        exposure = exposure + change
        if disturbance is not None:
            equity = equity * (1.0 + exposure * disturbance[..., 0])
        return as_state(equity.clip(None, self.top), exposure)


def unwound(system: DrawdownFloor, exposure: Any) -> Any:
    """P(a), the share of equity that is left at worst when an exposure is sold as fast as it may be.

    Args:
        system: the limits.
        exposure: `(...)`; above `max_exposure` counts as that.
    """
    xp = namespace(exposure)
    steps = xp.arange(1, system.steps_to_sell + 1, dtype=exposure.dtype, device=exposure.device)
    held = exposure.clip(None, system.max_exposure)[..., None] - system.max_change * steps
    return xp.prod(1.0 - system.shock * held.clip(0.0, None), -1)


def value(system: DrawdownFloor, state: Any) -> Any:
    """W P(a) - F, the largest margin that is kept for ever at worst, of states `(..., 2)`; exact for sampled time."""
    return state[..., 0] * unwound(system, state[..., 1]) - system.floor


def exposure_bound(system: DrawdownFloor, equity: Any) -> Any:
    """The largest exposure of the next step from which the floor still holds at worst, P^-1(F / W) - m.

    To target it, or less, is the least restrictive safe policy: from a safe state it is within reach, and every larger
    exposure leads out of the set at the next shock of -c.

    Args:
        system: the limits.
        equity: over its reference, `(...)`.

    Returns:
        `(...)`, in [0, max_exposure]; 0 below the floor, where none is safe.
    """

    def holds(exposure: Any) -> Any:
        loss = 1.0 - system.shock * exposure
        return equity * loss * unwound(system, exposure) >= system.floor

    return largest_that_holds(holds, namespace(equity).full_like(equity, system.max_exposure))
