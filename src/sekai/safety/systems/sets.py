"""Bounded sets of controls and disturbances: boxes and balls.

All numbers are Python floats, so that no call moves an array to the device of a tensor. Shape letter: `D` dimensions of
the set.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.safety.arrays import namespace


@dataclass(frozen=True)
class BoxSet:
    """All vectors between two corners, bounds included.

    Attributes:
        low: lower bound of each dimension.
        high: upper bound of each dimension.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        pairs = list(zip(self.low, self.high, strict=True))
        if not pairs or not all(math.isfinite(low) and math.isfinite(high) and low <= high for low, high in pairs):
            raise ValueError(f"The box has the bounds {self.low} and {self.high}; expected finite ones, low <= high.")

    @property
    def size(self) -> int:
        """Dimensions."""
        return len(self.low)

    def project(self, points: Any) -> Any:
        """The nearest points of the set; array or tensor `(..., D)`."""
        xp = namespace(points)
        if len({*zip(self.low, self.high, strict=True)}) == 1:  # all dimensions alike, at once
            return xp.clip(points, self.low[0], self.high[0])
        bounds = zip(self.low, self.high, strict=True)
        return xp.stack([xp.clip(points[..., k], *pair) for k, pair in enumerate(bounds)], -1)

    def sample(self, uniform: Any) -> Any:
        """Points spread evenly over the set, made of numbers `(..., D)` spread evenly over [0, 1)."""
        xp = namespace(uniform)
        bounds = zip(self.low, self.high, strict=True)
        return xp.stack([low + (high - low) * uniform[..., k] for k, (low, high) in enumerate(bounds)], -1)

    def extremes(self) -> NDArray[np.float64]:
        """The corners, float64 `(2**D, D)`: where a linear function of the points is smallest or largest."""
        return np.array(list(itertools.product(*zip(self.low, self.high, strict=True))))

    def points(self, count: int = 3) -> NDArray[np.float64]:
        """A grid of `count` points a side, corners included, float64 `(count**D, D)`: what a search looks at."""
        sides = [np.linspace(low, high, count) for low, high in zip(self.low, self.high, strict=True)]
        return np.array(list(itertools.product(*sides)))


@dataclass(frozen=True)
class BallSet:
    """All vectors of at most a certain Euclidean length.

    Attributes:
        radius: that length.
        size: dimensions, at most 3.
    """

    radius: float
    size: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.radius) and self.radius >= 0 and self.size in (1, 2, 3)):
            raise ValueError(
                f"The ball has radius {self.radius} and {self.size} dimensions; expected a finite radius of at least 0 "
                "and 1 to 3 dimensions."
            )

    @property
    def low(self) -> tuple[float, ...]:
        """Lower corner of the smallest box around it."""
        return (-self.radius,) * self.size

    @property
    def high(self) -> tuple[float, ...]:
        """Upper corner of the smallest box around it."""
        return (self.radius,) * self.size

    def project(self, points: Any) -> Any:
        """The nearest points of the set; array or tensor `(..., D)`."""
        xp = namespace(points)
        squares = (points * points).sum(-1)
        ones = xp.ones_like(squares)
        inside = xp.sqrt(squares) <= self.radius
        # a root of 0 has no slope: none is taken of what is inside
        scale = xp.where(inside, ones, self.radius / xp.sqrt(xp.where(inside, ones, squares)))
        return points * scale[..., None]

    def sample(self, uniform: Any) -> Any:
        """Points spread evenly over the set, made of numbers `(..., D)` spread evenly over [0, 1)."""
        xp = namespace(uniform)
        if self.size == 1:
            return self.radius * (2 * uniform - 1)
        length = self.radius * uniform[..., 0] ** (1 / self.size)
        angle = 2 * math.pi * uniform[..., 1]
        if self.size == 2:
            return xp.stack([length * xp.cos(angle), length * xp.sin(angle)], -1)
        height = 2 * uniform[..., 2] - 1  # Archimedes: the height of a point on a sphere is spread evenly
        flat = length * xp.sqrt(1 - height * height)
        return xp.stack([flat * xp.cos(angle), flat * xp.sin(angle), length * height], -1)

    def extremes(self) -> NDArray[np.float64]:
        """Points of the surface, towards the sides, edges and corners of a cube around it, float64 `(3**D - 1, D)`."""
        cube = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=self.size)))
        lengths = np.linalg.norm(cube, axis=1, keepdims=True)
        outer = lengths[:, 0] > 0
        directions: NDArray[np.float64] = cube[outer] / lengths[outer]
        return self.radius * directions

    def points(self) -> NDArray[np.float64]:
        """The extremes and the centre, float64 `(3**D, D)`."""
        return np.concatenate([self.extremes(), np.zeros((1, self.size))])


Bounded = BoxSet | BallSet
