"""OptimalExecution-v0, native: all slots at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.envs.finance.execution import kernel as xk
from sekai.envs.finance.execution.env import OptimalExecutionEnv, Options
from sekai.envs.finance.execution.slots import ExecutionSlots, info_columns
from sekai.envs.finance.native import FinanceVecEnv
from sekai.errors import InvalidAction
from sekai.vector.base import AutoresetOptions


class OptimalExecutionVecEnv(FinanceVecEnv):
    """`num_envs` copies of `OptimalExecutionEnv`, stepped together by the same kernel.

    Each slot has a price of its own; all are drawn from one generator, so the rows are those of single environments in
    distribution, and to the bit where `sigma` is 0.

    Args:
        num_envs: number of slots, `N`.
        initial_inventory, s0, sigma, total_time, n_steps, permanent_impact, temporary_impact, fixed_cost,
            risk_aversion, side, max_participation, volume, shock_clip, render_mode: as for `OptimalExecutionEnv`.
        num_threads: threads that a call may use, an int of at least 1 or `"auto"` for the usable cores; see the
            attribute.
        max_episode_steps: truncate episodes after so many steps as well.
        autoreset, autoreset_options: as for `SyncVecEnv`.

    Attributes:
        template: an `OptimalExecutionEnv` of the same arguments, whose parameters hold for all slots.
        price, mid, inventory, shortfall, shortfall_bps, timestamp, time_remaining: float64 `(N,)`.
    """

    metadata = OptimalExecutionEnv.metadata

    def __init__(
        self,
        num_envs: int,
        *,
        initial_inventory: float = 1e6,
        s0: float = 50.0,
        sigma: float = 0.95,
        total_time: float = 5.0,
        n_steps: int = 25,
        permanent_impact: float = 2.5e-7,
        temporary_impact: float = 2.5e-6,
        fixed_cost: float = 0.0625,
        risk_aversion: float = 1e-6,
        side: str = "sell",
        max_participation: float | None = None,
        volume: Any = None,
        shock_clip: float | None = None,
        render_mode: str | None = None,
        num_threads: int | str = 1,
        max_episode_steps: int | None = None,
        autoreset: Any = True,
        autoreset_options: AutoresetOptions | None = None,
    ) -> None:
        template = OptimalExecutionEnv(
            initial_inventory=initial_inventory,
            s0=s0,
            sigma=sigma,
            total_time=total_time,
            n_steps=n_steps,
            permanent_impact=permanent_impact,
            temporary_impact=temporary_impact,
            fixed_cost=fixed_cost,
            risk_aversion=risk_aversion,
            side=side,
            max_participation=max_participation,
            volume=volume,
            shock_clip=shock_clip,
            render_mode=render_mode,
        )
        super().__init__(
            num_envs,
            template,
            autoreset=autoreset,
            max_episode_steps=max_episode_steps,
            autoreset_options=autoreset_options,
        )
        self._slots: ExecutionSlots = ExecutionSlots(self.num_envs, template._blocks)
        self._ready: NDArray[np.float32] | None = None  # the observations of the current state, until they are taken
        self.num_threads = num_threads

    @property
    def template(self) -> OptimalExecutionEnv:
        """The `OptimalExecutionEnv` whose parameters hold for all slots."""
        template: OptimalExecutionEnv = self._template
        return template

    @property
    def price(self) -> NDArray[np.float64]:
        """Mid price of each slot."""
        return self._slots.column(xk.MID)

    mid = price

    @property
    def inventory(self) -> NDArray[np.float64]:
        """Shares that each slot has still to trade."""
        return self._slots.column(xk.INVENTORY)

    @property
    def shortfall(self) -> NDArray[np.float64]:
        """Implementation shortfall of each slot so far, in money."""
        return self._slots.shortfall

    @property
    def shortfall_bps(self) -> NDArray[np.float64]:
        """Implementation shortfall of each slot so far, in basis points of the initial value."""
        return self._slots.shortfall_bps

    @property
    def dt(self) -> float:
        """Length of a slice, the same for all slots."""
        return self.template.dt

    @property
    def timestamp(self) -> NDArray[np.float64]:
        """Time since the start of the episode of each slot."""
        return self._slots.steps * np.float64(self.dt)

    @property
    def time_remaining(self) -> NDArray[np.float64]:
        """Time that each slot has left to trade in."""
        left: NDArray[np.int64] = np.maximum(self.template.n_steps - self._slots.steps, 0)
        return left * np.float64(self.dt)

    def _reset_envs(self, indices: NDArray[np.intp], options: list[Options]) -> None:
        self._ready = None
        self._slots.start(indices, self._template._blocks)

    def _reset_infos(self, indices: NDArray[np.intp]) -> dict[str, Any]:
        return self._slots.infos(indices, self.dt)

    def _empty_observations(self) -> NDArray[np.float32]:
        return np.empty((self.num_envs, 3), np.float32)

    def _observe(self) -> NDArray[np.float32]:
        observations, self._ready = self._ready, None
        if observations is None:
            observations = self._new_observations()
            self._slots.observe(self._slots.every, self._template._blocks, observations)
        return observations

    def _observe_rows(self, indices: NDArray[np.intp], out: NDArray[np.float32]) -> None:
        self._slots.observe(indices, self._template._blocks, out)

    def _check_actions(self, actions: NDArray[np.float32]) -> None:
        bad = xk.first_outside.compiled(actions, self.frozen)
        if bad >= 0:
            raise InvalidAction(
                f"The action of sub-env {bad} is {actions[bad]}; expected a member of {self.action_space}."
            )

    def _step(self, actions: NDArray[np.float32]) -> tuple[Any, Any, Any, dict[str, Any]]:
        slots, n = self._slots, self.num_envs
        shocks = self.rng.standard_normal(n)
        out = np.empty((xk.OUT_ROWS, slots.row_length))
        terminated = np.empty(n, bool)
        observations = self._new_observations()
        slots.advance(actions, self.frozen, self._template._blocks, shocks, out, terminated, observations)
        self._ready = observations
        return out[xk.REWARD, :n], terminated, np.zeros(n, bool), info_columns(out, n)
