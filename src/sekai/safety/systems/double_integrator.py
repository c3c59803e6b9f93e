"""A mass between two walls, pushed by a bounded force."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from sekai.safety.systems.base import System, as_state, smallest
from sekai.safety.systems.sets import BoxSet

#: integrator -> share of the step's change of velocity that the position already moves by
INTEGRATORS = {"euler": 0.0, "zoh": 0.5, "semi-implicit": 1.0}
TARGETS = (None, "touch", "rest")


@dataclass(frozen=True, kw_only=True)
class DoubleIntegrator(System):
    """x' = v + d_x, v' = u + d_v, |u| <= a, with the margin g = X - |x|.

    State `(x, v)` in m and m/s, control `(u,)` in m/s². One step of `dt` with held u and d, where c is 0 for the
    explicit Euler method ("euler": the position moves first), 1 for the semi-implicit one (the velocity moves first)
    and 1/2 for the exact solution ("zoh", zero-order hold):

        x_next = x + (v + d_x) dt + c (u + d_v) dt²
        v_next = v + (u + d_v) dt

    Targets: None (avoid), "touch" with l = r - |x - x_t|, and "rest" with l = min(r - |x - x_t|, s - |v|).

    Attributes:
        acceleration: a, the largest force per mass, m/s².
        half_width: X, distance of the walls from 0, m.
        integrator: "zoh", "euler" or "semi-implicit". Each has its own sampled-time truth.
        target: None, "touch" or "rest".
        target_position: x_t, m.
        target_radius: r, m.
        target_speed: s, m/s; of "rest" only.
        force_bound: largest |d_v|, m/s²; 0 for none.
        drift_bound: largest |d_x|, m/s; 0 for none. Only one of the two may be above 0.
    """

    acceleration: float = 1.0
    half_width: float = 1.0
    integrator: str = "zoh"
    target: str | None = None
    target_position: float = 0.5
    target_radius: float = 0.2
    target_speed: float = 0.2
    force_bound: float = 0.0
    drift_bound: float = 0.0

    state_names: ClassVar[tuple[str, ...]] = ("x", "v")
    observation_size: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_positive("acceleration", "half_width", "target_radius", "target_speed")
        self._check_not_negative("force_bound", "drift_bound")
        if self.integrator not in INTEGRATORS:
            raise ValueError(f"integrator is {self.integrator!r}; expected one of {', '.join(map(repr, INTEGRATORS))}.")
        if self.target not in TARGETS:
            raise ValueError(f"target is {self.target!r}; expected one of {', '.join(map(repr, TARGETS))}.")
        if self.force_bound > 0 and self.drift_bound > 0:
            raise ValueError(
                f"force_bound is {self.force_bound} and drift_bound {self.drift_bound}; expected one of them to be 0."
            )

    @property
    def provides_l(self) -> bool:
        """Whether there is a target."""
        return self.target is not None

    @property
    def control(self) -> BoxSet:
        """The force per mass."""
        return BoxSet((-self.acceleration,), (self.acceleration,))

    @property
    def disturbance(self) -> BoxSet | None:
        """The disturbing force per mass, or the drift; None for neither."""
        bound = max(self.force_bound, self.drift_bound)
        return BoxSet((-bound,), (bound,)) if bound > 0 else None

    @property
    def reset_low(self) -> tuple[float, ...]:
        """The left wall, at the speed that can just be braked on the whole way to it."""
        return (-self.half_width, -self.top_speed)

    @property
    def reset_high(self) -> tuple[float, ...]:
        """The right wall, at the speed that can just be braked on the whole way to it."""
        return (self.half_width, self.top_speed)

    @property
    def top_speed(self) -> float:
        """The largest speed of a safe state, 2 sqrt(a X), in m/s: that of full braking from wall to wall."""
        return 2 * math.sqrt(self.acceleration * self.half_width)

    @property
    def g_max(self) -> float:
        """X, at x = 0."""
        return self.half_width

    @property
    def failure_horizon_s(self) -> float | None:
        """The time that braking from wall to wall takes, 2 sqrt(X / a), against the worst force; None with a drift."""
        net = self.acceleration - self.force_bound
        if self.drift_bound > 0 or net <= 0:
            return None
        return 2 * math.sqrt(self.half_width / net)

    def _advance(self, state: Any, control: Any, disturbance: Any) -> Any:
        x, v, change = state[..., 0], state[..., 1], control[..., 0] * self.dt
        drifting = v
        if disturbance is not None:
            if self.force_bound > 0:
                change = change + disturbance[..., 0] * self.dt
            else:
                drifting = v + disturbance[..., 0]
        x_next = x + (drifting + INTEGRATORS[self.integrator] * change) * self.dt
        v_next = v + change
        return as_state(x_next, v_next)

    def g(self, state: Any) -> Any:
        """X - |x|."""
        return self.half_width - abs(state[..., 0])

    def l(self, state: Any) -> Any:  # noqa: E743
        """r - |x - x_t|, for a target of rest at most s - |v|."""
        if self.target is None:
            return super().l(state)
        near = self.target_radius - abs(state[..., 0] - self.target_position)
        return near if self.target == "touch" else smallest(near, self.target_speed - abs(state[..., 1]))
