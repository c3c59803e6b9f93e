"""The state of `N` slots of Portfolio-v0, and the kernel calls that change it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.envs.finance.market import Market
from sekai.envs.finance.portfolio import kernel as pk
from sekai.envs.finance.rewarding import SlotRewards
from sekai.envs.finance.threads import Threads
from sekai.envs.finance.windows import check_clock
from sekai.finance.assets import factor, spread
from sekai.finance.data import MarketData
from sekai.finance.models import PriceModel
from sekai.finance.rewards import Reward

FEWEST = 2048  # slots a thread; see `threads`

#: columns of an `Outcome` in the report of the kernel
REPORTED = {"equity": pk.OUT_EQUITY, "log_growth": pk.REWARD, "cost": pk.COST, "turnover": pk.TURNOVER}
#: params and assets, see `portfolio.kernel`
Blocks = tuple[NDArray[np.float64], NDArray[np.float64]]


def parameter_blocks(parameters: Mapping[str, Any], n_assets: int, allow_short: bool, *, given: bool) -> Blocks:
    """The parameters as the kernel reads them, `(PARAMS,)` and `(FACTOR + n, n)`; see `portfolio.kernel`.

    Args:
        parameters: by name.
        n_assets, allow_short: of the environment.
        given: whether a price model draws the returns.

    Raises:
        ValueError: numbers of another count than there are assets, a cost rate of 1 or more (no trade could pay it),
            correlations that no assets have, or a drift or volatility out of range.
    """
    dt = parameters["dt"]
    mu, sigma = (spread(name, parameters[name], n_assets) for name in ("mu", "sigma"))
    rates, fees, impacts = parameters["cost_model"].coefficients(n_assets)
    if not rates.max() < 1:
        raise ValueError(
            f"cost_model has the rate {rates.max()}; expected less than 1, or no trade could pay its cost."
        )
    params = np.empty(pk.PARAMS)
    params[pk.RUIN] = max(parameters["ruin_fraction"], pk.FLOOR)
    params[pk.CLIP] = math.inf if parameters["shock_clip"] is None else parameters["shock_clip"]
    params[pk.DT] = dt
    params[pk.CAPITAL] = parameters["capital"]
    params[pk.SHORT] = allow_short
    params[pk.GIVEN] = given
    params[pk.PROPORTIONAL] = not (fees.any() or impacts.any())
    assets = np.empty((pk.FACTOR + n_assets, n_assets))
    assets[pk.RATE], assets[pk.FEE], assets[pk.IMPACT] = rates, fees, impacts
    with np.errstate(over="ignore", invalid="ignore"):
        assets[pk.DRIFT] = (mu - 0.5 * sigma * sigma) * dt
        assets[pk.VOLATILITY] = sigma * math.sqrt(dt)
    assets[pk.FACTOR :] = factor("corr", parameters["corr"], n_assets)
    if not np.isfinite(assets[[pk.DRIFT, pk.VOLATILITY]]).all():
        raise ValueError(f"mu={mu}, sigma={sigma} and dt={dt} leave the range of floats; lower them.")
    return params, assets


class PortfolioSlots:
    """State of `num_slots` slots, as arrays for the kernels.

    Args:
        num_slots: `N`.
        data: the history; None for a simulated market.
        model: the law of the simulated market; None for the one that the kernel knows.
        n_assets: risky assets, `n`.
        lookback: rows of returns in an observation, `L`.
        episode_length: steps of an episode.
        reward: what a step is worth.

    Attributes:
        every: int64 `(N,)`, the indices of all slots.
        equity, weights, clock, prices, returns: see `portfolio.kernel`.
        simulated: whether there is no history.
        threads: what a call runs on.
        shape: `(L, n)`.
        rewards: the reward, and what it remembers.
    """

    def __init__(
        self,
        num_slots: int,
        data: MarketData | None,
        model: PriceModel | None,
        n_assets: int,
        lookback: int,
        episode_length: int,
        reward: Reward,
    ) -> None:
        self.episode_length = episode_length
        self.simulated = data is None
        self.shape = lookback, n_assets
        self.every = np.arange(num_slots)
        self.threads = Threads(num_slots, FEWEST)
        self.timestamps = None if data is None else data.timestamps
        self.equity = np.zeros(num_slots)
        self.weights = np.zeros((n_assets + 1, num_slots))
        self.clock = np.zeros((pk.CLOCK_ROWS, num_slots), np.int64)
        self.rewards = SlotRewards(reward, num_slots, REPORTED)
        self._market = None if model is None else Market(model, num_slots)
        # shocks of a step and the growth of the prices, overwritten by the next
        self._draws, self._factors = np.empty((2, num_slots if data is None else 0, n_assets))
        if data is None:
            self.prices = np.empty(0)
            self.returns = np.zeros(num_slots * 2 * lookback * n_assets, np.float32)
        else:
            self.prices, self.returns = data.kernel_arrays

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that make up the state, by name; a history is none of it."""
        rings = {"returns": self.returns} if self.simulated else {}
        if self._market is not None:
            rings.update(self._market.arrays())
        own = {"equity": self.equity, "weights": self.weights, "clock": self.clock}
        return {**own, **rings, **self.rewards.arrays()}

    def check(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Raise for arrays like those of `arrays()` with which a kernel would read what is not there."""
        lookback, n_assets = self.shape
        rows = None if self.simulated else len(self.prices) // n_assets
        check_clock(*arrays["clock"], rows=rows, lookback=lookback)

    def start(self, indices: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Begin episodes on the history, at `rows`."""
        pk.begin.compiled(indices, rows, self.episode_length, self.equity, self.weights, self.clock)
        self.rewards.begin(indices)

    def start_simulated(
        self, indices: NDArray[np.int64], rng: np.random.Generator, blocks: Blocks, running: NDArray[np.bool_]
    ) -> None:
        """Begin episodes on simulated histories.

        Args:
            indices: `(K,)`, slots.
            rng: draws the `L` rows of returns before the first decision.
            blocks: the parameters.
            running: bool `(N,)`, slots that took part in the latest step: the others fall into step with them.
        """
        if self._market is None:
            shocks = rng.standard_normal((len(indices), *self.shape))
        else:
            shocks = self._market.begin(rng, indices, self.shape[0], float(blocks[0][pk.DT]))
            steep = (np.abs(shocks) > pk.STEEPEST).any(axis=(1, 2))
            if steep.any():
                raise self.refused(indices[steep.argmax()])
        head = int(self.clock[pk.HEAD, running.argmax()]) if running.any() else 0
        pk.begin_simulated.compiled(
            indices, shocks, head, self.episode_length, *blocks, self.returns, self.equity, self.weights, self.clock
        )
        self.rewards.begin(indices)

    def refused(self, slot: int) -> FloatingPointError:
        """The error for a simulated price that became 0 or infinite; what was drawn for it is taken back."""
        if self._market is not None:
            self._market.undo()
        return FloatingPointError(
            f"A simulated price of sub-env {slot} left the range of floats in one step; lower mu or sigma, or set "
            "shock_clip; or look at the parameters of the model."
        )

    def new_observations(self) -> dict[str, NDArray[np.float32]]:
        """Memory for the observations of all slots."""
        n = len(self.every)
        return {
            "returns": np.empty((n, *self.shape), np.float32),
            "weights": np.empty((n, self.shape[1] + 1), np.float32),
        }

    def observe(self, indices: NDArray[np.int64], out: dict[str, NDArray[np.float32]]) -> None:
        """Write the observations of the slots in `indices` into the batch `out`."""
        pk.observe.compiled(
            indices, self.returns, self.weights, self.clock, self.simulated, out["returns"], out["weights"]
        )

    def past_returns(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        """Log returns into the current row of some slots, oldest first, a new array `(K, lookback, n)`."""
        seen = self.new_observations()
        self.observe(indices, seen)
        past: NDArray[np.float32] = seen["returns"][indices]
        return past

    def advance(
        self,
        actions: NDArray[np.float32],
        frozen: NDArray[np.bool_],
        blocks: Blocks,
        rng: np.random.Generator,
        out: NDArray[np.float64],
        flags: NDArray[np.bool_],
        seen: dict[str, NDArray[np.float32]],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Step all slots; see `portfolio.kernel.advance`.

        Args:
            actions, frozen, blocks, out, flags: see there.
            rng: draws the shocks, before anything moves; not used with a history.
            seen: where the observations go.

        Returns:
            Weights `(N, n + 1)` and returns of the assets `(N, n)`, new arrays.

        Raises:
            FloatingPointError: a simulated price became 0 or infinite; nothing has moved.
        """
        n, n_assets = len(self.every), self.shape[1]
        weights, asset_returns = np.empty((n_assets + 1, n)), np.empty((n_assets, n))
        log_returns = self._draws
        if self.simulated:
            if self._market is None:
                rng.standard_normal(out=log_returns)
            else:
                log_returns = self._market.advance(rng, ~frozen, float(blocks[0][pk.DT]))
            bad = self._simulate(log_returns, frozen, blocks)
            if bad >= 0:
                raise self.refused(bad)
        arguments = (
            self.every,
            actions,
            frozen,
            *blocks,
            log_returns,
            self._factors,
            self.prices,
            self.returns,
            self.equity,
            self.weights,
            self.clock,
            out,
            weights,
            asset_returns,
            flags,
            seen["returns"],
            seen["weights"],
        )
        if len(self.threads.ranges) == 1:  # without the detour, which costs a single slot a twentieth of its step
            pk.advance.compiled(0, n, *arguments)
        else:
            self.threads.run(pk.advance.compiled, *arguments)
        return weights.T, asset_returns.T

    def _simulate(self, shocks: NDArray[np.float64], frozen: NDArray[np.bool_], blocks: Blocks) -> int:
        """`portfolio.kernel.simulate`, and the exponentials of the log returns where no slot is refused.

        They are here, since they run in wide words, and those of a kernel do not.
        """
        clock, factors = self.clock, self._factors
        if len(self.threads.ranges) == 1:  # what the next lines do, in half the time of a single slot
            bad: int = pk.simulate.compiled(0, len(shocks), shocks, frozen, clock, *blocks)
            if bad < 0:
                np.exp(shocks, factors)
            return bad

        def simulate(lo: int, hi: int) -> int:
            bad: int = pk.simulate.compiled(lo, hi, shocks, frozen, clock, *blocks)
            if bad < 0:
                np.exp(shocks[lo:hi], factors[lo:hi])
            return bad

        return self.threads.first(simulate)

    def before(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Equity and row of each slot, for `reward` after the step."""
        return self.equity.copy(), self.clock[pk.ROW].copy()

    def reward(
        self,
        before: tuple[NDArray[np.float64], NDArray[np.int64]],
        out: NDArray[np.float64],
        weights: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        parameters: Mapping[str, Any],
    ) -> NDArray[np.float64]:
        """What the step just taken is worth, a new array `(N,)`.

        Args:
            before: what `before` returned before it.
            out: what the kernel reports, `(OUT_ROWS, N)`.
            weights, terminated: likewise.
            parameters: by name.
        """
        equity, row = before
        moved = self.clock[pk.ROW] != row
        return self.rewards.compute(
            moved, out, parameters, equity_before=equity, weights=weights, terminated=terminated
        )

    @property
    def timestamp(self) -> NDArray[Any]:
        """Row or date of the current state of each slot, a new array `(N,)`."""
        rows: NDArray[np.int64] = self.clock[pk.ROW].copy()
        return rows if self.timestamps is None else self.timestamps[rows]

    def infos(self, indices: NDArray[np.int64], dt: float, capital: float) -> dict[str, NDArray[Any]]:
        """Infos of slots whose episode has just begun."""
        k = len(indices)
        equity = self.equity[indices]
        return {
            "timestamp": self.timestamp[indices],
            "dt": np.full(k, dt),
            "equity": equity,
            "portfolio_value": capital * equity,
            "weights": self.weights.T[indices],
            "turnover": np.zeros(k),
            "cost": np.zeros(k),
            "asset_returns": np.zeros((k, self.shape[1])),
        }
