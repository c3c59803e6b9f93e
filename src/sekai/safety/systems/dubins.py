"""A car of constant speed with a bounded turn rate, in a disc with a target disc in its middle.

Source: Hsu et al., "Safety and Liveness Guarantees through Reach-Avoid Reinforcement Learning", RSS 2021, section V.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from sekai.safety.arrays import namespace
from sekai.safety.systems.base import System, as_state
from sekai.safety.systems.sets import BoxSet


@dataclass(frozen=True, kw_only=True)
class _Car(System):
    """The parameters of both descriptions of the car, see `DubinsCar`.

    Attributes:
        speed: v, m/s.
        turn_radius: R_t of the sharpest turn, m.
        radius: R of the disc to stay in, m.
        target_radius: r, m.
    """

    time_limit: int = 200
    speed: float = 0.5
    turn_radius: float = 0.6
    radius: float = 1.0
    target_radius: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_positive("speed", "turn_radius", "radius", "target_radius")

    @property
    def provides_l(self) -> bool:
        """True: the car has a target."""
        return True

    @property
    def control(self) -> BoxSet:
        """The turn rate, rad/s."""
        bound = self.speed / self.turn_radius
        return BoxSet((-bound,), (bound,))

    @property
    def g_max(self) -> float:
        """R, in the middle."""
        return self.radius

    def _drive(self, turn_rate: Any) -> tuple[Any, Any]:
        """The chord of one step's arc, m, and half of the angle it turns by, rad."""
        half = turn_rate * (self.dt / 2)
        return self.speed * self.dt * namespace(half).sinc(half / math.pi), half  # sinc(t) is sin(pi t) / (pi t)


@dataclass(frozen=True, kw_only=True)
class DubinsCar(_Car):
    """x' = v cos h, y' = v sin h, h' = u, |u| <= v / R_t; g = R - |(x, y)| and l = r - |(x, y)|.

    State `(x, y, h)` in m, m and rad, control `(u,)` in rad/s. One step is the exact arc. Observation: `(x, y, cos h,
    sin h)`. The defaults are the "high turn" case r >= 2 R_t - R, in which the car can turn within the disc;
    `DubinsCar.low_turn()` is the other one.

    Attributes:
        speed: v, m/s.
        turn_radius: R_t of the sharpest turn, m.
        radius: R of the disc to stay in, m.
        target_radius: r, m.
    """

    state_names: ClassVar[tuple[str, ...]] = ("x", "y", "h")
    angles: ClassVar[tuple[str, ...]] = ("h",)
    observation_size: ClassVar[int] = 4

    @classmethod
    def low_turn(cls, *, dt: float = 0.05, time_limit: int = 200) -> DubinsCar:
        """The car of R_t = 0.75 m with the target of r = 0.4 m."""
        return cls(dt=dt, time_limit=time_limit, turn_radius=0.75, target_radius=0.4)

    @property
    def reset_low(self) -> tuple[float, ...]:
        """Corner of the square around the disc; `start` stays within the disc."""
        return (-self.radius, -self.radius, -math.pi)

    @property
    def reset_high(self) -> tuple[float, ...]:
        """The opposite corner."""
        return (self.radius, self.radius, math.pi)

    def start(self, uniform: Any) -> Any:
        """States with positions spread evenly over the disc, made of numbers `(..., 3)` spread evenly over [0, 1)."""
        xp = namespace(uniform)
        rho = self.radius * xp.sqrt(uniform[..., 0])
        angle, heading = (math.pi * (2 * uniform[..., k] - 1) for k in (1, 2))
        return as_state(rho * xp.cos(angle), rho * xp.sin(angle), heading)

    def _advance(self, state: Any, control: Any, disturbance: Any) -> Any:
        xp = namespace(state)
        chord, half = self._drive(control[..., 0])
        middle = state[..., 2] + half
        return as_state(
            state[..., 0] + chord * xp.cos(middle),
            state[..., 1] + chord * xp.sin(middle),
            wrap(middle + half),
        )

    def g(self, state: Any) -> Any:
        """R - |(x, y)|."""
        return self.radius - namespace(state).hypot(state[..., 0], state[..., 1])

    def l(self, state: Any) -> Any:  # noqa: E743
        """r - |(x, y)|."""
        return self.target_radius - namespace(state).hypot(state[..., 0], state[..., 1])

    def observe(self, state: Any) -> Any:
        """The position, and cosine and sine of the heading."""
        xp = namespace(state)
        return as_state(state[..., 0], state[..., 1], xp.cos(state[..., 2]), xp.sin(state[..., 2]))

    def reduced(self) -> DubinsRadial:
        """The same car in two numbers, since nothing depends on the angle of the position."""
        return DubinsRadial(
            dt=self.dt,
            time_limit=self.time_limit,
            speed=self.speed,
            turn_radius=self.turn_radius,
            radius=self.radius,
            target_radius=self.target_radius,
        )


@dataclass(frozen=True, kw_only=True)
class DubinsRadial(_Car):
    """`DubinsCar` in two numbers: `(rho, psi)`, the distance from the middle and the heading relative to outwards.

    State in m and rad: psi = 0 drives straight out, psi = pi straight in. In the middle any psi will do.
    """

    state_names: ClassVar[tuple[str, ...]] = ("rho", "psi")
    angles: ClassVar[tuple[str, ...]] = ("psi",)
    observation_size: ClassVar[int] = 2

    @property
    def reset_low(self) -> tuple[float, ...]:
        """The middle, any heading."""
        return (0.0, -math.pi)

    @property
    def reset_high(self) -> tuple[float, ...]:
        """The rim, any heading."""
        return (self.radius, math.pi)

    @staticmethod
    def of(state: Any) -> Any:
        """The two numbers `(..., 2)` of states `(x, y, h)` of a `DubinsCar`."""
        xp = namespace(state)
        x, y, heading = state[..., 0], state[..., 1], state[..., 2]
        return as_state(xp.hypot(x, y), wrap(heading - xp.arctan2(y, x)))

    def _advance(self, state: Any, control: Any, disturbance: Any) -> Any:
        xp = namespace(state)
        chord, half = self._drive(control[..., 0])
        middle = state[..., 1] + half
        along, across = state[..., 0] + chord * xp.cos(middle), chord * xp.sin(middle)
        return as_state(xp.hypot(along, across), wrap(middle + half - xp.arctan2(across, along)))

    def g(self, state: Any) -> Any:
        """R - rho."""
        return self.radius - state[..., 0]

    def l(self, state: Any) -> Any:  # noqa: E743
        """r - rho."""
        return self.target_radius - state[..., 0]


def wrap(angle: Any) -> Any:
    """Angles in rad brought into [-pi, pi)."""
    return (angle + math.pi) % (2 * math.pi) - math.pi
