"""A boat that drifts upwards between boxes and can only choose how it moves sideways.

Source: the "Zermelo" example of Hsu et al., "Safety and Liveness Guarantees through Reach-Avoid Reinforcement
Learning", RSS 2021, section V.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sekai.safety.systems.base import System, as_state, largest, smallest
from sekai.safety.systems.sets import BoxSet

Rectangle = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class PointMass(System):
    """y' = up, x' = u, |u| <= sideways, in a rectangle with boxes in the way and a box to reach.

    State `(x, y)` in m, control `(u,)` in m/s; one step is exact. Margins are signed distances in the maximum norm, in
    m: g to the nearest box or to the edge of the arena, l into the target. A rectangle is `(x, y, width, height)`,
    with its centre first.

    Attributes:
        up: speed in y, m/s.
        sideways: largest speed in x, m/s.
        arena: the rectangle to stay in.
        boxes: rectangles to stay out of, at least one.
        target_box: the rectangle to reach.
    """

    time_limit: int = 150
    up: float = 2.0
    sideways: float = 1.0
    arena: Rectangle = (0.0, 4.0, 4.0, 12.0)
    boxes: tuple[Rectangle, ...] = ((-1.25, 2.0, 1.5, 1.5), (1.25, 2.0, 1.5, 1.5), (0.0, 6.0, 1.5, 1.5))
    target_box: Rectangle = (0.0, 9.25, 1.5, 1.5)

    state_names: ClassVar[tuple[str, ...]] = ("x", "y")
    observation_size: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_positive("up", "sideways")
        if not self.boxes:
            raise ValueError("boxes is empty; expected at least one rectangle (x, y, width, height).")
        for rectangle in (self.arena, self.target_box, *self.boxes):
            if len(rectangle) != 4 or min(rectangle[2:]) <= 0:
                raise ValueError(f"The rectangle {rectangle} is none; expected (x, y, width, height), both above 0.")

    @classmethod
    def show(cls, *, dt: float = 0.05, time_limit: int = 300) -> PointMass:
        """The smaller arena of the same paper's code, with two bars and a slower drift."""
        return cls(
            dt=dt,
            time_limit=time_limit,
            up=0.5,
            arena=(0.0, 3.0, 6.0, 6.0),
            boxes=((0.0, 1.5, 4.0, 0.1), (0.0, 4.0, 4.0, 0.1)),
            target_box=(0.0, 5.5, 1.0, 1.0),
        )

    @property
    def provides_l(self) -> bool:
        """True: there is a target."""
        return True

    @property
    def control(self) -> BoxSet:
        """The speed sideways."""
        return BoxSet((-self.sideways,), (self.sideways,))

    @property
    def reset_low(self) -> tuple[float, ...]:
        """The lower left corner of the arena. A start inside a box fails at its first step, unless that leads out."""
        x, y, width, height = self.arena
        return (x - width / 2, y - height / 2)

    @property
    def reset_high(self) -> tuple[float, ...]:
        """The upper right corner of the arena."""
        x, y, width, height = self.arena
        return (x + width / 2, y + height / 2)

    @property
    def g_max(self) -> float:
        """Half of the shorter side of the arena."""
        return min(self.arena[2:]) / 2

    @property
    def failure_horizon_s(self) -> float | None:
        """The time from the lower edge to the upper one: the drift fails every episode there, if not before."""
        return self.arena[3] / self.up

    def _advance(self, state: Any, control: Any, disturbance: Any) -> Any:
        return as_state(state[..., 0] + control[..., 0] * self.dt, state[..., 1] + self.up * self.dt)

    def g(self, state: Any) -> Any:
        """Distance from the nearest box or edge, negative inside a box and outside the arena."""
        return smallest(depth(state, self.arena), *(-depth(state, box) for box in self.boxes))

    def l(self, state: Any) -> Any:  # noqa: E743
        """Depth inside the target, negative outside."""
        return depth(state, self.target_box)


def depth(state: Any, rectangle: Rectangle) -> Any:
    """How far inside a rectangle positions `(..., 2)` are, in the maximum norm: negative outside."""
    x, y, width, height = rectangle
    return -largest(abs(state[..., 0] - x) - width / 2, abs(state[..., 1] - y) - height / 2)
