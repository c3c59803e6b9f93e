"""The double integrator with its exact value, as filters and environments that tests are about."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.safety.envs import SafetyVecEnv
from sekai.safety.filters import BestOf, FilteredEnv, NextValue, Shield
from sekai.safety.oracle import sampled_value
from sekai.safety.systems import DoubleIntegrator
from sekai.spaces import Box

SPACE = Box(-1.0, 1.0, (1,), np.float32)
#: float64 loses some 1e-16 in every step along the edge of the set
ROUNDING = 1e-9


def exact_shield(system: DoubleIntegrator, value: Any = None, **options: Any) -> Shield:
    """A shield by the exact value of the sampled-time system, or by another value."""
    monitor = NextValue(system, partial(sampled_value, system) if value is None else value)
    return Shield(monitor, BestOf(monitor, system.control.points()), SPACE, **{"threshold": ROUNDING, **options})


def safe_starts(system: DoubleIntegrator, count: int = 4000) -> NDArray[np.float64]:
    """States of the safe set, spread evenly."""
    drawn = system.start(np.random.default_rng(7).random((3 * count, 2)))
    kept: NDArray[np.float64] = drawn[np.asarray(sampled_value(system, drawn)) >= 1e-6][:count]
    return kept


def filtered(
    system: DoubleIntegrator,
    shield: Shield | Callable[[SafetyVecEnv], Shield],
    slots: int,
    **options: Any,
) -> tuple[FilteredEnv, SafetyVecEnv]:
    """A filtered environment whose episodes begin in safe states, reset, and the environment inside."""
    starts = safe_starts(system).tolist()

    def start(slot: int, episode: int) -> dict[str, Any]:
        return {"state": starts[(131 * slot + 17 * episode) % len(starts)]}

    vec = SafetyVecEnv(slots, system, autoreset_options=start, **options)
    env = FilteredEnv(vec, shield if isinstance(shield, Shield) else shield(vec), states=lambda: vec.states)
    env.reset(seed=0, options=[start(slot, 0) for slot in range(slots)])
    return env, vec


def violations(env: FilteredEnv, steps: int) -> int:
    """Failures while random actions, and full speed to the right, are asked for by turns."""
    rng, failed = np.random.default_rng(1), 0
    for step in range(steps):
        asked = rng.uniform(-1, 1, (env.num_envs, 1)) if step % 2 else np.ones((env.num_envs, 1))
        failed += int((env.step(asked).rewards < 0).sum())
    return failed
