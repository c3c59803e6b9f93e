"""Trading-v0, native: all slots at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.envs.finance.native import FinanceVecEnv
from sekai.envs.finance.trading import kernel as tk
from sekai.envs.finance.trading.env import Options, TradingEnv
from sekai.envs.finance.trading.slots import TradingSlots
from sekai.errors import InvalidAction
from sekai.finance.data import MarketData
from sekai.finance.models import PriceModel
from sekai.vector.base import AutoresetOptions


class TradingVecEnv(FinanceVecEnv):
    """`num_envs` copies of `TradingEnv`, stepped together by the same kernel.

    On one history the rows are those of `TradingEnv`, to the bit. In a simulated market each slot has a price of its
    own; all are drawn from one generator, so the rows are the same in distribution.

    Args:
        num_envs: number of slots, `N`.
        prices, data, episode_length, lookback, positions, transaction_cost, cost_model, mu, sigma, dt, s0, model,
            reward, sampler, capital, shock_clip, ruin_fraction, execution, rebalance, borrow_rate, margin_rate,
            cash_rate, render_mode: as for `TradingEnv`. Every slot gets `sampler.spawn()`.
        num_threads: threads that a call may use, an int of at least 1 or `"auto"` for the usable cores; see the
            attribute.
        max_episode_steps: truncate episodes after so many steps as well.
        autoreset, autoreset_options: as for `SyncVecEnv`.

    Attributes:
        template: a `TradingEnv` of the same arguments, whose parameters hold for all slots.
        equity, position, price: float64 `(N,)`.
        timestamp: int64 or `datetime64` `(N,)`.
        price_history: float64 `(N, lookback + 1)`.
    """

    metadata = TradingEnv.metadata

    def __init__(
        self,
        num_envs: int,
        prices: Any = None,
        *,
        data: MarketData | None = None,
        episode_length: int = 252,
        lookback: int = 30,
        positions: Any = (-1.0, 0.0, 1.0),
        transaction_cost: float | None = None,
        cost_model: Any = None,
        mu: float = 0.05,
        sigma: float = 0.2,
        dt: float | None = None,
        s0: float = 100.0,
        model: PriceModel | None = None,
        reward: Any = None,
        sampler: Any = "random",
        capital: float = 1e6,
        shock_clip: float | None = None,
        ruin_fraction: float = 0.0,
        execution: str = "close",
        rebalance: str = "always",
        borrow_rate: float = 0.0,
        margin_rate: float = 0.0,
        cash_rate: float = 0.0,
        render_mode: str | None = None,
        num_threads: int | str = 1,
        max_episode_steps: int | None = None,
        autoreset: Any = True,
        autoreset_options: AutoresetOptions | None = None,
    ) -> None:
        template = TradingEnv(
            prices,
            data=data,
            episode_length=episode_length,
            lookback=lookback,
            positions=positions,
            transaction_cost=transaction_cost,
            cost_model=cost_model,
            mu=mu,
            sigma=sigma,
            dt=dt,
            s0=s0,
            model=model,
            reward=reward,
            sampler=sampler,
            capital=capital,
            shock_clip=shock_clip,
            ruin_fraction=ruin_fraction,
            execution=execution,
            rebalance=rebalance,
            borrow_rate=borrow_rate,
            margin_rate=margin_rate,
            cash_rate=cash_rate,
            render_mode=render_mode,
        )
        super().__init__(
            num_envs,
            template,
            autoreset=autoreset,
            max_episode_steps=max_episode_steps,
            autoreset_options=autoreset_options,
        )
        self._slots: TradingSlots = TradingSlots(
            self.num_envs,
            template.data,
            template.model,
            template.execution,
            template.lookback,
            template.episode_length,
            template.reward,
        )
        self._shape = self.num_envs, template.lookback + 1
        self._ready: NDArray[np.float32] | None = None  # the observations of the current state, until they are taken
        self.num_threads = num_threads

    @property
    def template(self) -> TradingEnv:
        """The `TradingEnv` whose parameters hold for all slots."""
        template: TradingEnv = self._template
        return template

    @property
    def equity(self) -> NDArray[np.float64]:
        """Equity of each slot, 1 at the start of its episode."""
        return self._slots.column(tk.EQUITY)

    @property
    def position(self) -> NDArray[np.float64]:
        """Current exposure of each slot."""
        return self._slots.column(tk.EXPOSURE)

    @property
    def price(self) -> NDArray[np.float64]:
        """Price of each slot at its current row."""
        return self._slots.column(tk.PRICE)

    @property
    def price_history(self) -> NDArray[np.float64]:
        """The last `lookback + 1` prices of each slot, oldest first, the current one included."""
        return self._slots.price_history

    @property
    def timestamp(self) -> NDArray[Any]:
        """Row, or date, of the current state of each slot."""
        return self._slots.timestamp

    def _reset_envs(self, indices: NDArray[np.intp], options: list[Options]) -> None:
        self._ready = None
        template, slots = self.template, self._slots
        data = template.data
        if data is None:
            slots.start_simulated(indices, self.rng, template._block, ~self.frozen)
        else:
            slots.start(indices, self._start_rows(indices, options, data, template._num_windows))

    def _reset_infos(self, indices: NDArray[np.intp]) -> dict[str, Any]:
        return self._slots.infos(indices, self.template.dt)

    def _empty_observations(self) -> NDArray[np.float32]:
        return np.empty(self._shape, np.float32)

    def _observe(self) -> NDArray[np.float32]:
        observations, self._ready = self._ready, None
        if observations is None:
            observations = self._new_observations()
            self._slots.observe(self._slots.every, observations)
        return observations

    def _observe_rows(self, indices: NDArray[np.intp], out: NDArray[np.float32]) -> None:
        self._slots.observe(indices, out)

    def _check_actions(self, actions: NDArray[np.int64]) -> None:
        bad = tk.first_outside.compiled(actions, self.frozen, len(self._template._block) - tk.LEVELS)
        if bad >= 0:
            raise InvalidAction(
                f"The action of sub-env {bad} is {actions[bad]}; expected a member of {self.action_space}."
            )

    def _step(self, actions: NDArray[np.int64]) -> tuple[Any, Any, Any, dict[str, Any]]:
        slots, block, frozen, n = self._slots, self._template._block, self.frozen, self.num_envs
        shocks = slots.draw(self.rng, frozen, block)
        out = np.empty((tk.OUT_ROWS, slots.row_length))
        flags = np.empty((2, n), bool)
        observations = self._new_observations()
        before = None if slots.rewards.is_log else slots.before()
        slots.advance(actions, frozen, block, shocks, out, flags, observations)
        self._ready = observations
        rewards, equity, position, price, asset_return, cost, turnover, carry, dt = out[:, :n]
        terminated, truncated = flags
        if before is not None:
            rewards = slots.reward(before, out[:, :n], terminated, self._template._parameters)
        infos = {
            "timestamp": slots.timestamp,
            "dt": dt,
            "equity": equity,
            "position": position,
            "price": price,
            "asset_return": asset_return,
            "cost": cost,
            "turnover": turnover,
            "carry": carry,
        }
        return rewards, terminated, truncated, infos
