"""Discounts in physical units, and the failure value that makes a discounted avoid value sound.

A discount per step means another thing at another step length; a horizon in seconds does not:

    gamma = 1 - dt / horizon_s           horizon_s = dt / (1 - gamma)

Avoid values are too high for gamma < 1: a state that is doomed to fail in k steps, and has margins up to gbar until
then, still has the value (1 - gamma^k) gbar + gamma^k * terminal. It stays below 0 when

    terminal <= -c,    c >= (gamma^-k - 1) * gbar

for the longest such k. The other way round, V(s) >= 0 then bounds the probability of failing by about
gbar / (gbar + c). A lower floor costs coverage where the policy is still noisy: take the smallest that does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

#: what a horizon is by default: gamma 0.99 per 0.05 s for avoid, 0.999 for reach-avoid, which errs to the safe side
DEFAULT_HORIZON_S = {"avoid": 5.0, "reach-avoid": 50.0}


#: changes of a discount that is annealed in steps
STAIRS = 10


class FailureValue(NamedTuple):
    """A failure value and what it rests on.

    Attributes:
        value: what a failed step is worth at most, below 0.
        risk: the probability of failing that V(s) >= 0 still allows, about `g_max / (g_max - value)`; None where no
            largest margin is known.
    """

    value: float
    risk: float | None


def gamma_of(horizon_s: float, dt: float) -> float:
    """The discount of a step of `dt` seconds whose horizon is `horizon_s` seconds.

    Raises:
        ValueError: a horizon that is not longer than a step, or a step that is not positive.
    """
    if not 0.0 < dt < horizon_s:
        raise ValueError(f"horizon_s is {horizon_s} and dt {dt} (seconds); expected 0 < dt < horizon_s.")
    return 1.0 - dt / horizon_s


def failure_value(gamma: float, *, steps: float, g_max: float) -> FailureValue:
    """The highest failure value with which no doomed state has a value of 0 or more.

    Args:
        gamma: discount of a step, in `(0, 1]`.
        steps: from a doomed state to failure at most.
        g_max: the largest margin on the way, above 0.

    Raises:
        ValueError: numbers out of range.
    """
    if not 0.0 < gamma <= 1.0:
        raise ValueError(f"gamma is {gamma}; expected a number above 0, at most 1.")
    if steps < 1 or not g_max > 0.0:
        raise ValueError(f"steps is {steps} and g_max {g_max}; expected at least one step and a margin above 0.")
    value = -max((gamma**-steps - 1.0) * g_max, 1e-6)  # below 0 also for gamma 1, where any number is
    return FailureValue(value, g_max / (g_max - value))


@dataclass(frozen=True)
class Annealing:
    """A discount that goes to 1 while a learner learns, by the absolute number of steps: a run that is resumed goes on.

    Args:
        start, end: discount of a step, in `(0, 1)`.
        steps: environment steps until the end is reached.
        kind: `"geometric"`: 1 - gamma shrinks by the same factor with every step; `"step"`: it does so in ten
            stairs of equal length.

    Raises:
        ValueError: numbers out of range, or another kind.
    """

    start: float
    end: float
    steps: int
    kind: str = "geometric"

    def __post_init__(self) -> None:
        if not (0.0 < self.start <= self.end < 1.0 and self.steps >= 1):
            raise ValueError(f"{self}: expected 0 < start <= end < 1 and at least one step.")
        if self.kind not in ("geometric", "step"):
            raise ValueError(f"kind is {self.kind!r}; expected 'geometric' or 'step'.")

    def __call__(self, steps: int) -> float:
        """The discount after so many environment steps."""
        done = min(steps / self.steps, 1.0)
        ratio = (1.0 - self.end) / (1.0 - self.start)
        if self.kind == "step":
            done = math.floor(done * STAIRS) / STAIRS
        return 1.0 - (1.0 - self.start) * math.pow(ratio, done)
