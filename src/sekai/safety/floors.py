"""`FailureFloor`: which failure value a learner uses: as given, from what the task declares, or from what it has seen.

Where a task declares nothing, it is estimated from failed episodes: the longest fall of g into a failure, in steps, and
the highest margin from which g fell. A state may have been doomed before g began to fall, so this is a lower bound.
"""

from __future__ import annotations

from typing import Any

import torch

from sekai.safety.arrays import Tensor
from sekai.safety.backups import AVOID, Mode
from sekai.safety.discount import FailureValue, failure_value


class FailureFloor:
    """What a failed step is worth at most.

    Args:
        given: `"auto"`, a number below 0, or None for the margin itself. In reach-avoid `"auto"` is None: the anchor
            min(l, g) makes discounted values too low already.
        mode: of the learner.
        steps: from a doomed state to failure at most; None where the task does not declare it.
        g_max: the largest margin; None where the task does not declare it.

    Raises:
        ValueError: another value.
    """

    def __init__(self, given: Any, mode: Mode, *, steps: float | None = None, g_max: float | None = None) -> None:
        if given is not None and given != "auto" and not (isinstance(given, (int, float)) and given < 0):
            raise ValueError(f"failure_value is {given!r}; expected 'auto', a number below 0, or None.")
        self._given = None if given == "auto" and mode != AVOID else given
        self.declare(steps=steps, g_max=g_max)
        self._fall: _Falls | None = None

    def declare(self, *, steps: float | None, g_max: float | None) -> None:
        """Take over what a task declares, as for the constructor; what has been seen stays."""
        self._steps, self._g_max = steps, g_max

    def begin(self) -> None:
        """Every slot begins a new episode, there may be another number of them; what has been seen stays."""
        if self._fall is not None:
            self._fall.begin()

    @property
    def estimated(self) -> bool:
        """Whether it rests on failed episodes."""
        return self._given == "auto" and (self._steps is None or self._g_max is None)

    def see(self, g: Tensor, terminated: Tensor, ended: Tensor) -> None:
        """Look at the margins of one step; nothing is read from the device."""
        if self.estimated:
            self._fall = self._fall or _Falls(g)
            self._fall.see(g, terminated, ended)

    def value(self, gamma: float) -> FailureValue | None:
        """The failure value for a discount; None for the margin itself, and while no failure has been seen."""
        if self._given is None:
            return None
        steps, g_max = self._steps, self._g_max
        if self._fall is not None:
            seen_steps, seen_top = self._fall.read()
            steps = seen_steps if steps is None else steps
            g_max = seen_top if g_max is None else g_max
        if self._given != "auto":
            value = float(self._given)
            return FailureValue(value, None if g_max is None else g_max / (g_max - value))
        if not steps or g_max is None or g_max <= 0:
            return None
        return failure_value(gamma, steps=steps, g_max=g_max)


class _Falls:
    """The falls of g that ended in failures; the running ones are `(N,)`, and single numbers before the first step."""

    def __init__(self, g: Tensor) -> None:
        self._longest, self._highest = torch.zeros_like(g), torch.zeros_like(g)  # of each slot
        self.begin()

    def begin(self) -> None:
        self._longest, self._highest = self._longest.max(), self._highest.max()
        self._last = torch.full_like(self._longest, -torch.inf)
        self._top = self._steps = torch.zeros_like(self._longest)

    def __getstate__(self) -> dict[str, Any]:
        return {name: tensor.cpu() for name, tensor in vars(self).items()}  # a file is bound to no device

    def see(self, g: Tensor, terminated: Tensor, ended: Tensor) -> None:
        if self._last.device != g.device:
            vars(self).update({name: tensor.to(g.device) for name, tensor in vars(self).items()})
        falls = g < self._last
        self._steps = torch.where(falls, self._steps + 1, 1.0)
        self._top = torch.where(falls, self._top, g)
        failed = terminated & (g < 0)
        self._longest = torch.where(failed, torch.maximum(self._longest, self._steps), self._longest)
        self._highest = torch.where(failed, torch.maximum(self._highest, self._top), self._highest)
        self._last = torch.where(ended, -torch.inf, g)

    def read(self) -> tuple[float, float]:
        return float(self._longest.max()), float(self._highest.max())
