"""Regular grids of states, and multilinear interpolation on them. Shape letter: `S` axes, 2 or 3."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.safety.arrays import namespace
from sekai.safety.systems.base import System
from sekai.spaces.checks import whole_number


@dataclass(frozen=True)
class Axis:
    """Evenly spaced nodes, both ends included.

    Attributes:
        low: the first node.
        high: the last node.
        count: number of nodes, at least 2.
        periodic: whether the last node is the same state as the first, as with angles.
    """

    low: float
    high: float
    count: int
    periodic: bool = False

    def __post_init__(self) -> None:
        whole_number("count", self.count, minimum=2)
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"The axis goes from {self.low} to {self.high}; expected finite numbers, low < high.")

    @property
    def spacing(self) -> float:
        """Distance of neighbouring nodes."""
        return (self.high - self.low) / (self.count - 1)

    def place(self, values: Any) -> Any:
        """Places in units of the spacing, within `[0, count - 1]`: beyond an end is at that end."""
        if self.periodic:
            return ((values - self.low) % (self.high - self.low)) / self.spacing
        return ((values - self.low) / self.spacing).clip(0.0, self.count - 1)


@dataclass(frozen=True)
class Grid:
    """The product of two or three axes.

    Attributes:
        axes: one for each number of a state.
    """

    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        if len(self.axes) not in (2, 3):
            raise ValueError(f"The grid has {len(self.axes)} axes; expected 2 or 3.")

    @classmethod
    def around(cls, system: System, counts: int | Sequence[int], *, margin: float = 0.15) -> Grid:
        """A grid around the states that episodes of a system start in.

        Args:
            system: of 2 or 3 state numbers.
            counts: nodes of each axis, or of all; of whole numbers each is a node, whatever is asked for.
            margin: by what share of its width an axis that is no angle is longer at both ends, so that failed states
                have nodes too.
        """
        each = [counts] * system.state_size if isinstance(counts, int) else list(counts)
        axes = []
        for name, low, high, count in zip(system.state_names, system.reset_low, system.reset_high, each, strict=True):
            if name in system.angles:
                axes.append(Axis(-math.pi, math.pi, count, periodic=True))
            elif name in system.whole:
                beyond = math.ceil(margin * (high - low))
                axes.append(Axis(low - beyond, high + beyond, round(high - low) + 2 * beyond + 1))
            else:
                extra = margin * (high - low)
                axes.append(Axis(low - extra, high + extra, count))
        return cls(tuple(axes))

    @property
    def shape(self) -> tuple[int, ...]:
        """Nodes of each axis."""
        return tuple(axis.count for axis in self.axes)

    @cached_property
    def states(self) -> NDArray[np.float64]:
        """The states of all nodes, float64 `(*shape, S)`."""
        lines = [np.linspace(axis.low, axis.high, axis.count) for axis in self.axes]
        return np.stack(np.meshgrid(*lines, indexing="ij"), -1)

    @cached_property
    def cells(self) -> NDArray[np.float64]:
        """The area, or volume, that each node stands for, `(*shape)`: half a cell at the ends of an axis."""
        total = np.ones(self.shape)
        for k, axis in enumerate(self.axes):
            widths = np.full(axis.count, axis.spacing)
            widths[[0, -1]] /= 2
            total *= widths.reshape([-1 if j == k else 1 for j in range(len(self.axes))])
        return total

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """By how much the flat index of a node grows along each axis."""
        return tuple(math.prod(self.shape[k + 1 :]) for k in range(len(self.axes)))

    def locate(self, states: Any) -> tuple[Any, Any]:
        """The cells that states lie in.

        Args:
            states: array or tensor `(..., S)`; those outside the grid are taken to its edge.

        Returns:
            The flat index of each cell's lowest node, int64 `(...)`, and where in the cell the state is along each
            axis, in [0, 1], `(..., S)`.
        """
        xp = namespace(states)
        corner, fractions = 0, []
        for k, (axis, stride) in enumerate(zip(self.axes, self.strides, strict=True)):
            place = axis.place(states[..., k])
            node = xp.floor(place).clip(None, axis.count - 2)
            corner = corner + xp.asarray(node, dtype=xp.int64) * stride
            fractions.append(place - node)
        return corner, xp.stack(fractions, -1)

    def interpolate(self, values: Any, states: Any) -> Any:
        """Multilinear interpolation.

        Args:
            values: at the nodes, flat, array or tensor as `states`.
            states: `(..., S)`.

        Returns:
            `(...)`, of the dtype that values and states have together.
        """
        corner, fractions = self.locate(states)
        return _blend(values, corner, fractions, self.strides)


def _blend(values: Any, corner: Any, fractions: Any, strides: tuple[int, ...]) -> Any:
    if not strides:
        return values[corner]
    share = fractions[..., -1]
    low = _blend(values, corner, fractions[..., :-1], strides[:-1])
    high = _blend(values, corner + strides[-1], fractions[..., :-1], strides[:-1])
    return (1 - share) * low + share * high
