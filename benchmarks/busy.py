"""An environment whose step computes for 100 microseconds: `cd benchmarks; sekai bench busy:Busy-v0 --compare`."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import sekai

STEP = 100e-6  # seconds
FIRST = np.zeros(4, np.float32)


def _count(loops: int) -> float:
    value = 0.0
    for i in range(loops):
        value = value * 0.5 + i
    return value


def _loops() -> int:
    """Loops of `_count` that take as long as a step on this machine, when nothing else runs."""
    best = float("inf")
    for _ in range(50):
        start = time.perf_counter()
        _count(1000)
        best = min(best, time.perf_counter() - start)
    return round(1000 * STEP / best)


class Busy(sekai.Env[Any, Any]):
    """Counts, always as far: a step that is disturbed takes longer."""

    def __init__(self) -> None:
        self.observation_space = sekai.Box(-1.0, 1.0, (4,))
        self.action_space = sekai.Discrete(2)
        self.loops = _loops()

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        """Nothing to begin."""
        self._set_rng(seed)
        return sekai.ResetResult(FIRST, {})

    def step(self, action: Any) -> sekai.StepResult:
        """Compute for 100 microseconds."""
        _count(self.loops)
        return sekai.StepResult(FIRST, 0.0, False, False, {})


sekai.register("Busy-v0", Busy)
