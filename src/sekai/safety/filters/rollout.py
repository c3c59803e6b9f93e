"""`RolloutMonitor`: an action is safe if the fallback is known to save what follows it.

Imagined: the action asked for, then the fallback, until it has entered a declared invariant set:

    state ──asked──> s1 ──fallback──> s2 ──fallback──> ... ──> sk in the invariant set
                     g >= 0           g >= 0                   g >= 0

A rollout that has not entered the set within its steps proves nothing, however well it looks: it is not safe. Where
the model is right, nothing fails: after a safe action the fallback is known to lead into the set, and from there it
is known not to fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.safety.filters.answers import Flags, Floats, actions_of, flags_of, name_of
from sekai.safety.filters.fallbacks import Fallback
from sekai.safety.filters.models import Model
from sekai.safety.filters.monitors import Monitor
from sekai.spaces.checks import whole_number


class RolloutMonitor(Monitor):
    """The smallest g on the way into the invariant set, in the worst of the model's scenarios; -inf for no way.

    Args:
        model: what is imagined.
        fallback: that of the filter; it is given the rows of the model.
        invariant: rows of the model -> bool `(N,)`, a set from which the fallback never fails, such as one that it
            never leaves. Nothing checks that it is: this is what the caller declares.
        steps: of a rollout at most, the one that was asked for among them.
    """

    def __init__(self, model: Model, fallback: Fallback, invariant: Callable[[Any], Any], *, steps: int) -> None:
        self.model, self.fallback, self.invariant = model, fallback, invariant
        self.steps = whole_number("steps", steps, minimum=1)

    def begin(self, slots: Flags) -> None:
        """Tell the model."""
        self.model.begin(slots)

    def margins(self, rows: Any, actions: NDArray[Any]) -> Floats:
        """Of the worst scenario."""
        worst = np.full(len(actions), np.inf)
        for scenario in range(self.model.scenarios):
            worst = np.minimum(worst, self._margins_in(scenario, rows, actions))
        return worst

    def _margins_in(self, scenario: int, rows: Any, actions: NDArray[Any]) -> Floats:
        n, size = actions.shape
        who = f"The fallback {name_of(self.fallback)}"
        self.model.start(rows, scenario, self.steps)
        smallest, margins, undecided = np.full(n, np.inf), np.full(n, -np.inf), np.ones(n, bool)
        for step in range(self.steps):
            if step:
                actions = actions_of(self.fallback(rows), n, size, who).astype(actions.dtype)
            rows, g, over = self.model.step(actions)
            smallest = np.minimum(smallest, g)
            goes_on = undecided & (g >= 0) & ~over
            inside = flags_of(self.invariant(rows), n, f"The invariant set {name_of(self.invariant)}")
            margins = np.where(goes_on & inside, smallest, margins)
            undecided = goes_on & ~inside
            if not undecided.any():
                break
        return margins
