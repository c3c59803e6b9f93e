"""MarketMaking-v0, native: all slots at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.envs.finance.making import kernel as mk
from sekai.envs.finance.making.env import MarketMakingEnv, Options, outside_error
from sekai.envs.finance.making.slots import MarketMakingSlots
from sekai.envs.finance.native import FinanceVecEnv
from sekai.vector.base import AutoresetOptions


class MarketMakingVecEnv(FinanceVecEnv):
    """`num_envs` copies of `MarketMakingEnv`, stepped together by the same kernel.

    Each slot has a mid price and fills of its own; all are drawn from one generator, one shock and two uniforms a
    slot in every call. So the rows are those of `MarketMakingEnv` in distribution, and to the bit where nothing is
    left to chance.

    Args:
        num_envs: number of slots, `N`.
        s0, sigma, total_time, n_steps, fill_intensity, fill_decay, fill_model, risk_aversion, max_inventory,
            order_size, max_offset, terminal_penalty, shock_clip, render_mode: as for `MarketMakingEnv`.
        num_threads: threads that a call may use, an int of at least 1 or `"auto"` for the usable cores; see the
            attribute.
        max_episode_steps: truncate episodes after so many steps as well.
        autoreset, autoreset_options: as for `SyncVecEnv`.

    Attributes:
        template: a `MarketMakingEnv` of the same arguments, whose parameters hold for all slots.
        price, mid, inventory, cash, wealth, bid, ask, time_remaining: float64 `(N,)`.
        timestamp: int64 `(N,)`.
    """

    metadata = MarketMakingEnv.metadata

    def __init__(
        self,
        num_envs: int,
        *,
        s0: float = 100.0,
        sigma: float = 2.0,
        total_time: float = 1.0,
        n_steps: int = 200,
        fill_intensity: float = 140.0,
        fill_decay: float = 1.5,
        fill_model: str = "poisson",
        risk_aversion: float = 0.1,
        max_inventory: int = 50,
        order_size: int = 1,
        max_offset: float = 5.0,
        terminal_penalty: float = 0.0,
        shock_clip: float | None = None,
        render_mode: str | None = None,
        num_threads: int | str = 1,
        max_episode_steps: int | None = None,
        autoreset: Any = True,
        autoreset_options: AutoresetOptions | None = None,
    ) -> None:
        template = MarketMakingEnv(
            s0=s0,
            sigma=sigma,
            total_time=total_time,
            n_steps=n_steps,
            fill_intensity=fill_intensity,
            fill_decay=fill_decay,
            fill_model=fill_model,
            risk_aversion=risk_aversion,
            max_inventory=max_inventory,
            order_size=order_size,
            max_offset=max_offset,
            terminal_penalty=terminal_penalty,
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
        self._slots: MarketMakingSlots = MarketMakingSlots(self.num_envs)
        self._ready: NDArray[np.float32] | None = None  # the observations of the current state, until they are taken
        self.num_threads = num_threads

    @property
    def template(self) -> MarketMakingEnv:
        """The `MarketMakingEnv` whose parameters hold for all slots."""
        template: MarketMakingEnv = self._template
        return template

    @property
    def dt(self) -> float:
        """Length of a step."""
        return self.template.dt

    @property
    def mid(self) -> NDArray[np.float64]:
        """Mid price of each slot."""
        return self._slots.column(mk.MID)

    @property
    def price(self) -> NDArray[np.float64]:
        """Mid price of each slot."""
        return self.mid

    @property
    def inventory(self) -> NDArray[np.float64]:
        """Units held by each slot, negative when short."""
        return self._slots.column(mk.INVENTORY)

    @property
    def cash(self) -> NDArray[np.float64]:
        """What the fills of each slot have brought in, 0 at the start of its episode."""
        return self._slots.column(mk.CASH)

    @property
    def wealth(self) -> NDArray[np.float64]:
        """Cash of each slot, and its inventory at the mid price."""
        return self._slots.wealth

    @property
    def bid(self) -> NDArray[np.float64]:
        """Latest bid of each slot; the mid price before the first."""
        return self._slots.column(mk.BID)

    @property
    def ask(self) -> NDArray[np.float64]:
        """Latest ask of each slot; the mid price before the first."""
        return self._slots.column(mk.ASK)

    @property
    def timestamp(self) -> NDArray[np.int64]:
        """Steps taken by each slot in its current episode."""
        steps: NDArray[np.int64] = self._slots.clock.copy()
        return steps

    @property
    def time_remaining(self) -> NDArray[np.float64]:
        """Time left in the episode of each slot."""
        template = self.template
        left: NDArray[np.float64] = template.total_time * (template.n_steps - self._slots.clock) / template.n_steps
        return left

    def _reset_envs(self, indices: NDArray[np.intp], options: list[Options]) -> None:
        self._ready = None
        self._slots.start(indices, self.template._block)

    def _reset_infos(self, indices: NDArray[np.intp]) -> dict[str, Any]:
        count = len(indices)
        mid = self._slots.state[mk.MID, indices]
        return {
            "timestamp": self._slots.clock[indices],
            "dt": np.full(count, self.dt),
            "mid_price": mid,
            "inventory": np.zeros(count),
            "cash": np.zeros(count),
            "wealth": np.zeros(count),
            "bid": mid.copy(),
            "ask": mid.copy(),
            "bid_filled": np.zeros(count, bool),
            "ask_filled": np.zeros(count, bool),
            "spread_pnl": np.zeros(count),
            "inventory_pnl": np.zeros(count),
        }

    def _empty_observations(self) -> NDArray[np.float32]:
        return self._slots.new_observations()

    def _observe(self) -> NDArray[np.float32]:
        observations, self._ready = self._ready, None
        if observations is None:
            observations = self._new_observations()
            self._slots.observe(self._slots.every, self.template._block, observations)
        return observations

    def _observe_rows(self, indices: NDArray[np.intp], out: NDArray[np.float32]) -> None:
        self._slots.observe(indices, self.template._block, out)

    def _check_actions(self, actions: NDArray[np.float32]) -> None:
        template = self.template
        bad = mk.first_outside.compiled(actions, self.frozen, template._highest)
        if bad >= 0:
            raise outside_error(f"The action of sub-env {bad}", actions[bad], template)

    def _step(self, actions: NDArray[np.float32]) -> tuple[Any, Any, Any, dict[str, Any]]:
        slots = self._slots
        observations = self._new_observations()
        out, flags = slots.advance(actions, self.frozen, self.template._block, self.rng, observations)
        self._ready = observations
        rewards, mid, inventory, cash, wealth, bid, ask, spread, carried, dt = out
        terminated, truncated, bid_filled, ask_filled = flags
        infos = {
            "timestamp": slots.clock.copy(),
            "dt": dt,
            "mid_price": mid,
            "inventory": inventory,
            "cash": cash,
            "wealth": wealth,
            "bid": bid,
            "ask": ask,
            "bid_filled": bid_filled,
            "ask_filled": ask_filled,
            "spread_pnl": spread,
            "inventory_pnl": carried,
        }
        return rewards, terminated, truncated, infos
