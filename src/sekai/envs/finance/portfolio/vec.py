"""Portfolio-v0, native: all slots at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.envs.finance.native import FinanceVecEnv
from sekai.envs.finance.portfolio import kernel as pk
from sekai.envs.finance.portfolio.env import Options, PortfolioEnv
from sekai.envs.finance.portfolio.slots import PortfolioSlots
from sekai.errors import InvalidAction
from sekai.finance.data import MarketData
from sekai.finance.models import PriceModel
from sekai.vector.base import AutoresetOptions


class PortfolioVecEnv(FinanceVecEnv):
    """`num_envs` copies of `PortfolioEnv`, stepped together by the same kernel.

    On one history the rows are those of `PortfolioEnv`, to the bit. In a simulated market each slot has prices of its
    own; all are drawn from one generator, so the rows are the same in distribution.

    Args:
        num_envs: number of slots, `N`.
        prices, data, n_assets, episode_length, lookback, transaction_cost, cost_model, allow_short, mu, sigma, corr,
            dt, model, reward, sampler, capital, shock_clip, ruin_fraction, render_mode: as for `PortfolioEnv`. Every
            slot gets `sampler.spawn()`.
        num_threads: threads that a call may use, an int of at least 1 or `"auto"` for the usable cores; see the
            attribute.
        max_episode_steps: truncate episodes after so many steps as well.
        autoreset, autoreset_options: as for `SyncVecEnv`.

    Attributes:
        template: a `PortfolioEnv` of the same arguments, whose parameters hold for all slots.
        equity, portfolio_value: float64 `(N,)`.
        weights: float64 `(N, n_assets + 1)`.
        timestamp: int64 or `datetime64` `(N,)`.
    """

    metadata = PortfolioEnv.metadata

    def __init__(
        self,
        num_envs: int,
        prices: Any = None,
        *,
        data: MarketData | None = None,
        n_assets: int | None = None,
        episode_length: int = 252,
        lookback: int = 30,
        transaction_cost: Any = None,
        cost_model: Any = None,
        allow_short: bool = False,
        mu: Any = None,
        sigma: Any = None,
        corr: Any = None,
        dt: float | None = None,
        model: PriceModel | None = None,
        reward: Any = None,
        sampler: Any = "random",
        capital: float = 1e6,
        shock_clip: float | None = None,
        ruin_fraction: float = 0.0,
        render_mode: str | None = None,
        num_threads: int | str = 1,
        max_episode_steps: int | None = None,
        autoreset: Any = True,
        autoreset_options: AutoresetOptions | None = None,
    ) -> None:
        template = PortfolioEnv(
            prices,
            data=data,
            n_assets=n_assets,
            episode_length=episode_length,
            lookback=lookback,
            transaction_cost=transaction_cost,
            cost_model=cost_model,
            allow_short=allow_short,
            mu=mu,
            sigma=sigma,
            corr=corr,
            dt=dt,
            model=model,
            reward=reward,
            sampler=sampler,
            capital=capital,
            shock_clip=shock_clip,
            ruin_fraction=ruin_fraction,
            render_mode=render_mode,
        )
        super().__init__(
            num_envs,
            template,
            autoreset=autoreset,
            max_episode_steps=max_episode_steps,
            autoreset_options=autoreset_options,
        )
        self._slots: PortfolioSlots = PortfolioSlots(
            self.num_envs,
            template.data,
            template.model,
            template.n_assets,
            template.lookback,
            template.episode_length,
            template.reward,
        )
        self._ready: dict[str, NDArray[np.float32]] | None = None  # observations of the current state, until taken
        self.num_threads = num_threads

    @property
    def template(self) -> PortfolioEnv:
        """The `PortfolioEnv` whose parameters hold for all slots."""
        template: PortfolioEnv = self._template
        return template

    @property
    def equity(self) -> NDArray[np.float64]:
        """Equity of each slot, 1 at the start of its episode."""
        return self._slots.equity.copy()

    @property
    def portfolio_value(self) -> NDArray[np.float64]:
        """Value of the portfolio of each slot, `capital` at the start of its episode."""
        value: NDArray[np.float64] = self.template.capital * self._slots.equity
        return value

    @property
    def weights(self) -> NDArray[np.float64]:
        """Current weights of each slot, cash last."""
        return self._slots.weights.T.copy()

    @property
    def timestamp(self) -> NDArray[Any]:
        """Row, or date, of the current state of each slot."""
        return self._slots.timestamp

    def _reset_envs(self, indices: NDArray[np.intp], options: list[Options]) -> None:
        self._ready = None
        template, slots = self.template, self._slots
        data = template.data
        if data is None:
            slots.start_simulated(indices, self.rng, template._blocks, ~self.frozen)
        else:
            slots.start(indices, self._start_rows(indices, options, data, template._num_windows))

    def _reset_infos(self, indices: NDArray[np.intp]) -> dict[str, Any]:
        return self._slots.infos(indices, self.template.dt, self.template.capital)

    def _empty_observations(self) -> dict[str, NDArray[np.float32]]:
        return self._slots.new_observations()

    def _observe(self) -> dict[str, NDArray[np.float32]]:
        observations, self._ready = self._ready, None
        if observations is None:
            observations = self._new_observations()
            self._slots.observe(self._slots.every, observations)
        return observations

    def _observe_rows(self, indices: NDArray[np.intp], out: dict[str, NDArray[np.float32]]) -> None:
        self._slots.observe(indices, out)

    def _check_actions(self, actions: NDArray[np.float32]) -> None:
        bad = pk.first_outside.compiled(actions, self._template._low)
        if bad >= 0:
            raise InvalidAction(
                f"The action of sub-env {bad} is {actions[bad]}; expected a member of {self.action_space}."
            )

    def _step(self, actions: NDArray[np.float32]) -> tuple[Any, Any, Any, dict[str, Any]]:
        slots, template, n = self._slots, self._template, self.num_envs
        out = np.empty((pk.OUT_ROWS, n))
        flags = np.empty((2, n), bool)
        before = None if slots.rewards.is_log else slots.before()
        observations = self._new_observations()
        weights, asset_returns = slots.advance(
            actions, self.frozen, template._blocks, self.rng, out, flags, observations
        )
        self._ready = observations
        rewards, equity, value, turnover, cost, dt = out
        terminated, truncated = flags
        if before is not None:
            rewards = slots.reward(before, out, weights, terminated, template._parameters)
        infos = {
            "timestamp": slots.timestamp,
            "dt": dt,
            "equity": equity,
            "portfolio_value": value,
            "weights": weights,
            "turnover": turnover,
            "cost": cost,
            "asset_returns": asset_returns,
        }
        return rewards, terminated, truncated, infos
