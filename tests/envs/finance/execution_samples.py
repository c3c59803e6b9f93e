"""Numbers and small helpers that the tests of OptimalExecution-v0 share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core import StepResult
from sekai.envs.finance import OptimalExecutionEnv

# the example of Almgren and Chriss (2000), section 3.4: a million shares at 50 over 5 days, one slice a day
PAPER: dict[str, Any] = {"n_steps": 5}
KAPPA = 0.6070761632470627  # arccosh(1 + kappa~^2 tau^2 / 2) / tau, kappa~^2 = lambda sigma^2 / (eta - gamma tau / 2)
LEFT = [541955.5543739223, 289854.2194099351, 147897.48782172316, 62141.801605766035, 0.0]
EXPECTED = 911226.9863037932  # E[IS], in money
VARIANCE = 364128572058.141  # Var[IS], in money squared
UTILITY = 1275355.558361934  # E + lambda V
VALUE = 5e7  # initial_inventory * s0


def paper_fractions() -> NDArray[np.float64]:
    """`a_k = 1 - sinh(kappa (T - t_{k+1})) / sinh(kappa (T - t_k))`."""
    return np.array([1 - math.sinh(KAPPA * (4 - k)) / math.sinh(KAPPA * (5 - k)) for k in range(5)])


def ready(**arguments: Any) -> OptimalExecutionEnv:
    """An environment at the start of an episode."""
    env = OptimalExecutionEnv(**arguments)
    env.reset(seed=0)
    return env


def run(env: OptimalExecutionEnv, fractions: Iterable[float]) -> list[StepResult]:
    """Results of these fractions, up to the end of the episode."""
    results = []
    for fraction in fractions:
        results.append(env.step(np.array([fraction], np.float32)))
        if results[-1].done:
            break
    return results
