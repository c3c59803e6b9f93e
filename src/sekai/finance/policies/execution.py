"""Baselines for `OptimalExecution-v0`: schedules, fractions of what is left that depend on the time alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.finance.checks import finite_array
from sekai.finance.execution import almgren_chriss_actions, almgren_chriss_kappa
from sekai.finance.policies.base import Policy, parameter


class Schedule(Policy):
    """Trades a fraction of what is left in each slice.

    Args:
        env: `OptimalExecution-v0`.
        fractions: in [0, 1], `(n_steps,)`; the environment trades the rest in the last slice.

    Attributes:
        fractions: float64 `(n_steps,)`, as given.
    """

    def __init__(self, env: Any, fractions: Any) -> None:
        super().__init__(env)
        self._steps: int = parameter(env, "n_steps")
        self.fractions = finite_array("fractions", fractions, 1)
        if len(self.fractions) != self._steps:
            raise ValueError(
                f"fractions has {len(self.fractions)} entries; expected one for each of {self._steps} slices."
            )
        if (self.fractions < 0).any() or (self.fractions > 1).any():
            raise ValueError(f"fractions are {self.fractions}; expected numbers in [0, 1].")
        self._by_steps_left = np.concatenate([[1.0], self.fractions[::-1]]).astype(np.float32)[:, None]

    def act(self, observations: Any) -> NDArray[np.float32]:
        """Fractions of what is left, float32 `(N, 1)`."""
        steps_left = np.rint(observations[:, 1].astype(np.float64) * self._steps).astype(np.int64)
        actions: NDArray[np.float32] = self._by_steps_left[steps_left]
        return actions


class AlmgrenChriss(Schedule):
    """The schedule that minimises mean plus risk aversion times variance of the shortfall (`almgren_chriss_actions`).

    Args:
        env: `OptimalExecution-v0`.
        risk_aversion: per unit of money; by default that of the environment's reward.

    Attributes:
        kappa: urgency of the schedule, per unit of time.

    Raises:
        ValueError: no schedule is optimal, see `almgren_chriss_kappa`.
    """

    def __init__(self, env: Any, risk_aversion: float | None = None) -> None:
        market = ("total_time", "n_steps", "sigma", "permanent_impact", "temporary_impact", "risk_aversion")
        known = {name: parameter(env, name) for name in market}
        if risk_aversion is not None:
            known["risk_aversion"] = risk_aversion
        self.kappa = almgren_chriss_kappa(**known)
        super().__init__(
            env, almgren_chriss_actions(self.kappa, total_time=known["total_time"], n_steps=known["n_steps"])
        )


class TWAP(Schedule):
    """Equal slices, the schedule with the least mean."""

    def __init__(self, env: Any) -> None:
        super().__init__(env, 1.0 / np.arange(parameter(env, "n_steps"), 0, -1))


class Immediate(Schedule):
    """Everything in the first slice."""

    def __init__(self, env: Any) -> None:
        super().__init__(env, np.ones(parameter(env, "n_steps")))
