"""Interventions: what is tried, where the action asked for is not safe, before the fallback is.

    Replace   nothing: the fallback at once
    Blend     the way from the fallback towards the action asked for, as far as it is known to be safe
    Project   the nearest safe one of some candidates, then towards the action asked for likewise
    AffineQp  the nearest action that meets a linear condition

Whatever is proposed is judged again by the filter, and the fallback stands in where it is found wanting; no proposal
can do harm that the monitor sees.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.safety.filters.answers import Flags, Floats, candidates_of
from sekai.safety.filters.monitors import Constraint, constraint_of
from sekai.safety.filters.qp import box_qp
from sekai.spaces.checks import whole_number


class Question(NamedTuple):
    """What an intervention has to answer.

    Attributes:
        rows: of all slots, `(N, ...)`.
        asked: actions asked for, float64 `(N, U)`, within the box.
        backup: what the fallback would do, likewise.
        is_safe: actions `(N, U)` -> bool `(N,)`, whether the monitor finds them safe.
        low, high: bounds of the box, float64 `(U,)`.
    """

    rows: Any
    asked: Floats
    backup: Floats
    is_safe: Callable[[NDArray[Any]], Flags]
    low: Floats
    high: Floats


class Intervention(ABC):
    """Base class: implement `propose`."""

    @abstractmethod
    def propose(self, question: Question) -> Floats:
        """Actions to execute instead, `(N, U)`; those of slots that asked for a safe one are not looked at."""


class Replace(Intervention):
    """The fallback, at once."""

    def propose(self, question: Question) -> Floats:
        """The fallback's actions."""
        return question.backup


class Blend(Intervention):
    """On the way from the fallback to the action asked for, as far as every look finds it safe.

    The way is halved again and again; the end that is kept is one that was judged safe, or the fallback itself. So each
    halving comes closer to what was asked for, and none gives up what is known.

    Args:
        halvings: of the way; what is left of it is 2^-halvings.
    """

    def __init__(self, halvings: int = 10) -> None:
        self.halvings = whole_number("halvings", halvings, minimum=1)

    def propose(self, question: Question) -> Floats:
        """The furthest points."""
        return self.approach(question, question.backup)

    def approach(self, question: Question, start: Floats) -> Floats:
        """From other points `(N, U)`, which are taken to be safe, towards what was asked for."""
        n = len(start)
        near, far = np.ones((n, 1)), np.zeros((n, 1))  # share of the way back; at `near` it is safe
        for _ in range(self.halvings):
            middle = (near + far) / 2
            safe = question.is_safe(question.asked + middle * (start - question.asked))[:, None]
            near, far = np.where(safe, middle, near), np.where(safe, far, middle)
        return question.asked + near * (start - question.asked)


class Project(Intervention):
    """The safe candidate that is nearest to what was asked for, and from there towards it; else the fallback.

    For values that are no formula, such as critics. Where the safe actions are convex and the candidates dense, that is
    the projection; in one dimension with both bounds among the candidates it is, up to the halvings.

    Args:
        candidates: actions, `(K, U)`, such as `system.control.points(9)`.
        halvings: as for `Blend`.
    """

    def __init__(self, candidates: Any, *, halvings: int = 10) -> None:
        self.candidates, self._blend = candidates_of(candidates), Blend(halvings)

    def propose(self, question: Question) -> Floats:
        """The nearest safe points that were found."""
        best, least = question.backup, np.full(len(question.backup), np.inf)
        for candidate in self.candidates:
            points = np.broadcast_to(candidate, best.shape)
            distance = np.linalg.norm(points - question.asked, axis=1)
            nearer = (distance < least) & question.is_safe(points)
            best, least = np.where(nearer[:, None], points, best), np.where(nearer, distance, least)
        return self._blend.approach(question, best)


class AffineQp(Intervention):
    """The nearest action that meets a(s) · u >= b(s), which `box_qp` finds exactly.

    Args:
        constraint: rows -> `a (N, U), b (N,)`; see `AffineMonitor`.
        reserve: added to b, so that the condition still holds for numbers as the box rounds them.
    """

    def __init__(self, constraint: Constraint, *, reserve: float = 1e-6) -> None:
        if not reserve >= 0:
            raise ValueError(f"reserve is {reserve!r}; expected a number of at least 0.")
        self.constraint, self.reserve = constraint, reserve

    def propose(self, question: Question) -> Floats:
        """The solutions, and the fallback where there is none."""
        a, b = constraint_of(self.constraint, question.rows, question.asked.shape)
        points, feasible = box_qp(question.asked, a, b + self.reserve, question.low, question.high)
        return np.where(feasible[:, None], points, question.backup)
