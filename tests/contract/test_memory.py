"""Memory stays flat: resident memory after a warm-up grows by less than a stated number of megabytes."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai

LIBC = ctypes.CDLL(None)
ACTIONS, SPACE = sekai.Discrete(2), sekai.Box(-1.0, 1.0, (2,))


class Cheap(sekai.Env):
    """As little work as a step can be; episodes of 50 steps, an info with a nested dict."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = SPACE, ACTIONS
        self._zeros = np.zeros(2, np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self.t = 0
        return sekai.ResetResult(self._zeros, {"t": 0})

    def step(self, action: Any) -> sekai.StepResult:
        self.t += 1
        return sekai.StepResult(self._zeros, 1.0, self.t == 50, False, {"t": self.t})


class CheapVec(sekai.NativeVecEnv):
    """The same for all slots at once."""

    def __init__(self, num_envs: int, **kwargs: Any) -> None:
        super().__init__(num_envs, SPACE, ACTIONS, **kwargs)
        self.t = np.zeros(num_envs, int)

    def _reset_envs(self, indices: Any, options: Any) -> None:
        self.t[indices] = 0

    def _observe(self) -> Any:
        return np.zeros((self.num_envs, 2), np.float32)

    def _step(self, actions: Any) -> Any:
        self.t += 1
        return np.ones(self.num_envs), self.t == 50, np.zeros(self.num_envs, bool), {"t": self.t.copy()}


def resident_mb() -> float:
    """Resident memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def growth_mb(vec: sekai.VecEnv, steps: int, keep: list[Any] | None = None) -> float:
    """Growth of resident memory over `steps` steps after a warm-up of a fifth of them.

    The slope of a line through 21 samples, times the number of intervals: one late page fault does not count as a leak.
    """
    actions = np.zeros(vec.num_envs, int)
    gc.collect()
    if hasattr(LIBC, "malloc_trim"):
        LIBC.malloc_trim(0)  # what earlier tests have freed would be used first, and nothing would seem to grow
    vec.reset(seed=0)
    for _ in range(steps // 5):
        vec.step(actions)
    gc.collect()
    samples = [resident_mb()]
    for _ in range(20):
        for _ in range(steps // 20):
            result = vec.step(actions)
            if keep is not None:
                keep.append(result)
        samples.append(resident_mb())
    slope = np.polyfit(np.arange(21), samples, 1)[0]
    return float(slope * 20)


pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc, which Linux has")


def test_the_measure_sees_results_that_are_kept() -> None:
    # 200 results of 4,096 slots: 4,096 x 8 bytes of rewards alone are 32 kB each, 6.5 MB together
    with CheapVec(4096) as vec:
        assert growth_mb(vec, 200, keep=[]) > 6.5


@pytest.mark.parametrize("cls", ["native", "sync"])
def test_eight_slots_for_a_hundred_thousand_steps_grow_less_than_four_megabytes(cls: str) -> None:
    # 100,000 steps of 8 slots that kept one reference of 8 bytes per row would grow by 6.4 MB
    with CheapVec(8) if cls == "native" else sekai.SyncVecEnv([Cheap] * 8) as vec:
        assert growth_mb(vec, 100_000) < 4.0


@pytest.mark.parametrize("cls", ["native", "sync"])
def test_four_thousand_slots_for_two_hundred_steps_grow_less_than_six_megabytes(cls: str) -> None:
    with CheapVec(4096) if cls == "native" else sekai.SyncVecEnv([Cheap] * 4096) as vec:
        assert growth_mb(vec, 200) < 6.0
