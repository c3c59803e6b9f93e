"""`Shield`: one monitor, one fallback, one intervention, and a latch for every slot.

Whether a slot is latched is all that is remembered:

    latched  the level is               the action asked for      executed            next
    no       threshold                  meets the level           as it was asked     not latched
    no       threshold                  does not                  proposal, fallback  latched
    yes      threshold + hysteresis     meets the level           as it was asked     not latched
    yes      threshold + hysteresis     does not                  proposal, fallback  latched

A proposal has to meet the same level. With a hysteresis the filter lets go only when there is room again: it does not
chatter. An episode begins unlatched.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.safety.filters.answers import Flags, Floats, actions_of, flags_of, margins_of, name_of
from sekai.safety.filters.fallbacks import Fallback
from sekai.safety.filters.interventions import Intervention, Question, Replace
from sekai.safety.filters.monitors import Monitor


class Decision(NamedTuple):
    """What a filter does.

    Attributes:
        actions: to execute, `(N, U)` of the box's dtype, within the box.
        intervened: whether that is another action than the one asked for, bool `(N,)`.
        latched: whether the slot is latched from now on, bool `(N,)`.
        margins: of the actions asked for, float64 `(N,)`.
    """

    actions: NDArray[Any]
    intervened: Flags
    latched: Flags
    margins: Floats


class Shield:
    """A filter of actions.

    Args:
        monitor: how safe an action is.
        fallback: rows -> actions `(N, U)`.
        space: the bounded `Box` of one action, `(U,)`. What is asked for outside is first brought to its bounds.
        intervention: what is tried before the fallback; by default nothing.
        threshold: the margin that an action needs. Exact values in float64 lose some 1e-15 a step, so ask for 1e-9;
            for learned ones it is that of a certificate, see `sekai.safety.certify`.
        hysteresis: how much more it needs while the slot is latched, at least 0.

    Attributes:
        latched: bool `(N,)`; None until the first episode begins.

    Raises:
        TypeError: no `Box`.
        ValueError: a box without bounds, or of another number of axes; a threshold or hysteresis out of range.
    """

    def __init__(
        self,
        monitor: Monitor,
        fallback: Fallback,
        space: gymnasium.Space[Any],
        *,
        intervention: Intervention | None = None,
        threshold: float = 0.0,
        hysteresis: float = 0.0,
    ) -> None:
        if not isinstance(space, gymnasium.spaces.Box):
            raise TypeError(f"The action space is {space}; a filter takes a Box.")
        if len(space.shape) != 1 or not space.is_bounded("both"):
            raise ValueError(f"The action space is {space}; expected a Box of shape (U,) with finite bounds.")
        if not math.isfinite(threshold) or not (math.isfinite(hysteresis) and hysteresis >= 0):
            raise ValueError(
                f"threshold is {threshold!r} and hysteresis {hysteresis!r}; expected finite numbers, the second at "
                "least 0."
            )
        self.monitor, self.fallback, self.space = monitor, fallback, space
        self.intervention = Replace() if intervention is None else intervention
        self.threshold, self.hysteresis = float(threshold), float(hysteresis)
        self.latched: Flags | None = None

    def begin(self, slots: Any) -> None:
        """Episodes begin in these slots, bool `(N,)`: they are not latched, the others stay as they are."""
        slots = flags_of(slots, len(np.asarray(slots)), "begin()")
        kept = np.zeros(len(slots), bool) if self.latched is None else self.latched
        if len(kept) != len(slots):
            raise ValueError(f"begin() was given {len(slots)} slots; this filter is at work on {len(kept)}.")
        self.latched = kept & ~slots
        self.monitor.begin(slots)

    def filter(self, rows: Any, actions: Any, active: Any = None) -> Decision:
        """`decide` with the latches as they are, which then are those of the decision."""
        if self.latched is None:
            raise ValueError("No episode has begun: call begin(np.ones(N, bool)) first.")
        decision = self.decide(rows, actions, self.latched, active)
        self.latched = decision.latched
        return decision

    def decide(self, rows: Any, actions: Any, latched: Any, active: Any = None) -> Decision:
        """What to execute; nothing is remembered.

        Args:
            rows: of all slots, `(N, ...)`.
            actions: asked for, `(N, U)`.
            latched: bool `(N,)`.
            active: bool `(N,)`, slots in which an action will be executed; the others are left alone. By default all.

        Raises:
            ValueError: something of another shape, or NaN; the message names the first bad slot.
        """
        n = len(np.asarray(latched))
        asked = self._held(actions_of(actions, n, self.space.shape[0], "The policy"))
        latched = flags_of(latched, n, "latched")
        active = np.ones(n, bool) if active is None else flags_of(active, n, "active")
        levels = self.threshold + self.hysteresis * latched
        margins = self._margins(rows, asked)
        unsafe = active & (margins < levels)
        executed = self._instead(rows, asked, levels, unsafe) if unsafe.any() else asked
        intervened = (executed != asked).any(axis=1)
        return Decision(executed, intervened, np.where(active, unsafe, latched), margins)

    def _instead(self, rows: Any, asked: NDArray[Any], levels: Floats, unsafe: Flags) -> NDArray[Any]:
        """What is executed where what was asked for is unsafe: a proposal that is safe, else the fallback."""
        n, size = asked.shape
        backup = self._held(actions_of(self.fallback(rows), n, size, f"The fallback {name_of(self.fallback)}"))

        def is_safe(actions: NDArray[Any]) -> Flags:
            safe: Flags = self._margins(rows, self._held(actions)) >= levels
            return safe

        low, high = self.space.low.astype(np.float64), self.space.high.astype(np.float64)
        question = Question(rows, asked.astype(np.float64), backup.astype(np.float64), is_safe, low, high)
        proposed = actions_of(
            self.intervention.propose(question), n, size, f"The intervention {name_of(self.intervention)}"
        )
        proposals = self._held(proposed)
        differ = unsafe & (proposals != backup).any(axis=1)
        # who asks for the fallback's own action is given it, whatever else could be proposed: filtering twice is
        # filtering once
        differ &= (asked != backup).any(axis=1)
        if differ.any():
            differ &= is_safe(proposals)
        instead = np.where(differ[:, None], proposals, backup)
        executed: NDArray[Any] = np.where(unsafe[:, None], instead, asked)
        return executed

    def _held(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Actions as the box stores them, within it."""
        held: NDArray[Any] = np.clip(actions.astype(self.space.dtype), self.space.low, self.space.high)
        return held

    def _margins(self, rows: Any, actions: NDArray[Any]) -> Floats:
        return margins_of(self.monitor.margins(rows, actions), len(actions), f"The monitor {name_of(self.monitor)}")
