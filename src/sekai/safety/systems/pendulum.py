"""An inverted pendulum, linearised: the drift pushes away from where the margin is largest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from sekai.safety.systems.base import System, as_state
from sekai.safety.systems.sets import BoxSet


@dataclass(frozen=True, kw_only=True)
class LinearPendulum(System):
    """th'' = w² th + u, |u| <= a, with the margin g = TH - |th|; avoid.

    State `(th, thd)` in rad and rad/s, th = 0 upright; control `(u,)` in rad/s². One step is the exact solution with
    held u: with z = th + u / w², the distance from the point where gravity and u balance,

        z_next   = z cosh(w dt) + thd / w sinh(w dt)
        thd_next = z w sinh(w dt) + thd cosh(w dt)

    Attributes:
        rate: w, 1/s, the rate at which a deviation grows.
        acceleration: a, rad/s².
        half_angle: TH, rad.
    """

    rate: float = 2.0
    acceleration: float = 3.0
    half_angle: float = 0.5

    state_names: ClassVar[tuple[str, ...]] = ("th", "thd")
    observation_size: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_positive("rate", "acceleration", "half_angle")

    @property
    def control(self) -> BoxSet:
        """The torque per inertia."""
        return BoxSet((-self.acceleration,), (self.acceleration,))

    @property
    def balance(self) -> float:
        """a / w², the largest angle that full torque holds against gravity, rad."""
        return self.acceleration / self.rate**2

    @property
    def top_speed(self) -> float:
        """The largest speed of a safe state, rad/s.

        From th = -TH full braking comes to rest at the other side, or at the balance point where that comes first.
        The energy of z = th - a / w² does not change on the way: thd² = w² (z² - z_end²).
        """
        end = min(self.half_angle, self.balance)
        return self.rate * math.sqrt((self.half_angle + self.balance) ** 2 - (self.balance - end) ** 2)

    @property
    def reset_low(self) -> tuple[float, ...]:
        """The left limit, at the top speed."""
        return (-self.half_angle, -self.top_speed)

    @property
    def reset_high(self) -> tuple[float, ...]:
        """The right limit, at the top speed."""
        return (self.half_angle, self.top_speed)

    @property
    def g_max(self) -> float:
        """TH, upright."""
        return self.half_angle

    @property
    def failure_horizon_s(self) -> float | None:
        """The time that full braking from limit to limit takes; None where gravity wins before the limit.

        Backwards from rest at TH, z = -(a / w² - TH) cosh(w t) reaches -(a / w² + TH).
        """
        if self.balance <= self.half_angle:
            return None
        return math.acosh((self.balance + self.half_angle) / (self.balance - self.half_angle)) / self.rate

    def _advance(self, state: Any, control: Any, disturbance: Any) -> Any:
        grow, mix = math.cosh(self.rate * self.dt), math.sinh(self.rate * self.dt)
        shift = control[..., 0] / self.rate**2
        z, speed = state[..., 0] + shift, state[..., 1]
        return as_state(
            z * grow + speed * (mix / self.rate) - shift,
            z * (self.rate * mix) + speed * grow,
        )

    def g(self, state: Any) -> Any:
        """TH - |th|."""
        return self.half_angle - abs(state[..., 0])
