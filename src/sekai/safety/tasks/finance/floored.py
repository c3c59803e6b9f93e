"""Equity above a floor that trails its peak, or stays where it is: what the drawdown tasks have in common.

Equity is over its reference: its running peak (a trailing floor), or equity at the start (a fixed one). It is at most
C, which is 1 for the trailing floor, since a new peak is a new reference, and for the fixed one a ceiling above which
profits are paid out. Neither harms who is safe: where equity is cut off at C, no more of it was lost than could be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sekai.safety.systems.base import System


@dataclass(frozen=True, kw_only=True)
class FlooredEquity(System):
    """Base class: a state whose first number is equity over its reference, with g = W - (1 - D).

    Attributes:
        drawdown: D, the largest fall from the reference that is no failure, in (0, 1).
        trailing: whether the reference is the running peak; else it is equity at the start.
        ceiling: C of a fixed floor, above 1; a trailing one has no use for it.
    """

    drawdown: float = 0.2
    trailing: bool = True
    ceiling: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_positive("drawdown")
        if not self.drawdown < 1:
            raise ValueError(f"drawdown is {self.drawdown}; expected a share of the peak in (0, 1).")
        if not (math.isfinite(self.ceiling) and self.ceiling > 1):
            raise ValueError(f"ceiling is {self.ceiling}; expected a finite number above 1, equity over its start.")

    @property
    def floor(self) -> float:
        """F = 1 - D, the least equity over its reference that is no failure."""
        return 1.0 - self.drawdown

    @property
    def top(self) -> float:
        """C, the largest equity over its reference: 1, or the ceiling of a fixed floor."""
        return 1.0 if self.trailing else self.ceiling

    @property
    def g_max(self) -> float:
        """C - F, which is D at the peak."""
        return self.drawdown + (self.top - 1.0)

    def g(self, state: Any) -> Any:
        """W - (1 - D)."""
        return state[..., 0] - self.floor
