"""Fallbacks: what is executed where nothing better is known. Any function of rows that gives actions `(N, U)` is one.

A filter is only as good as its fallback: nothing judges what it does. `policy_of` makes one of a learner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sekai.safety.filters.answers import Floats, candidates_of
from sekai.safety.filters.monitors import Monitor

Fallback = Callable[[Any], Any]


class BestOf:
    """The candidate with the largest margin, the first of several.

    With `NextValue` of an exact value and candidates among which the best control always is (for the systems of sekai
    the corners of the box and its centre), it keeps whatever can be kept.

    Args:
        monitor: what is maximised.
        candidates: actions, `(K, U)`, such as `system.control.points()`.
    """

    def __init__(self, monitor: Monitor, candidates: Any) -> None:
        self.monitor, self.candidates = monitor, candidates_of(candidates)

    def __call__(self, rows: Any) -> Floats:
        """The best candidate of each slot, `(N, U)`."""
        n = len(rows)
        margins = [
            self.monitor.margins(rows, np.broadcast_to(candidate, (n, len(candidate)))) for candidate in self.candidates
        ]
        best: Floats = self.candidates[np.argmax(margins, axis=0)]
        return best
