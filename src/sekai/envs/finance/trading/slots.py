"""The state of `N` slots of Trading-v0, and the kernel calls that change it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.envs.finance.blocks import row_length
from sekai.envs.finance.market import Market
from sekai.envs.finance.rewarding import SlotRewards
from sekai.envs.finance.threads import Threads
from sekai.envs.finance.trading import kernel as tk
from sekai.envs.finance.windows import check_clock
from sekai.finance.data import MarketData
from sekai.finance.models import PriceModel
from sekai.finance.rewards import Reward

FEWEST = 8192  # slots a thread; see `threads`
NO_SHOCKS = np.empty(0)
NO_OPENS = np.empty(0)

#: columns of an `Outcome` in the report of the kernel
REPORTED = {"equity": tk.OUT_EQUITY, "log_growth": tk.REWARD, "cost": tk.COST, "turnover": tk.TURNOVER}
#: when a trade fills
EXECUTIONS = {"close": tk.CLOSE, "next_open": tk.NEXT_OPEN, "next_close": tk.NEXT_CLOSE}


def parameter_block(parameters: Mapping[str, Any], *, given: bool, execution: str) -> NDArray[np.float64]:
    """The parameters as the kernel reads them, `(LEVELS + A,)`; see `trading.kernel`.

    Args:
        parameters: by name.
        given: whether a price model draws the returns.
        execution: a key of `EXECUTIONS`.

    Raises:
        ValueError: the cost rate times the largest exposure is not below 1, so that no trade reaches the target.
    """
    positions, dt, sigma = parameters["positions"], parameters["dt"], parameters["sigma"]
    (rate,), (fee,), (impact,) = parameters["cost_model"].coefficients(1)
    largest = max(map(abs, positions))
    if not rate * largest < 1:
        raise ValueError(
            f"cost rate {rate} times the largest exposure {largest} in positions is {rate * largest}; expected less "
            "than 1, or no trade could pay its cost: lower one of them."
        )
    block = np.empty(tk.LEVELS + len(positions))
    block[tk.RATE], block[tk.FEE], block[tk.IMPACT] = rate, fee, impact
    block[tk.CASH_YIELD] = parameters["cash_rate"] * dt
    block[tk.MARGIN_YIELD] = parameters["margin_rate"] * dt
    block[tk.BORROW_YIELD] = parameters["borrow_rate"] * dt
    block[tk.RUIN] = max(parameters["ruin_fraction"], tk.FLOOR)
    block[tk.DRIFT] = (parameters["mu"] - 0.5 * sigma * sigma) * dt
    block[tk.VOLATILITY] = sigma * math.sqrt(dt)
    block[tk.CLIP] = math.inf if parameters["shock_clip"] is None else parameters["shock_clip"]
    block[tk.ON_CHANGE] = parameters["rebalance"] == "on_change"
    block[tk.DT] = dt
    block[tk.START_PRICE] = parameters["s0"]
    block[tk.GIVEN] = given
    block[tk.FILL] = EXECUTIONS[execution]
    block[tk.LEVELS :] = positions
    if not (math.isfinite(block[tk.DRIFT]) and math.isfinite(block[tk.VOLATILITY])):
        raise ValueError(f"mu={parameters['mu']}, sigma={sigma} and dt={dt} leave the range of floats; lower them.")
    return block


class TradingSlots:
    """State of `num_slots` slots, as arrays for the kernels.

    Args:
        num_slots: `N`.
        data: the history; None for a simulated market.
        model: the law of the simulated market; None for the one that the kernel knows.
        execution: a key of `EXECUTIONS`.
        lookback: returns in an observation.
        episode_length: steps of an episode.
        reward: what a step is worth.

    Attributes:
        every: int64 `(N,)`, the indices of all slots.
        state, clock, prices, opens, returns: see `trading.kernel`.
        row_length: see `blocks.row_length`.
        simulated: whether there is no history.
        threads: what a call runs on.
        rewards: the reward, and what it remembers.
    """

    def __init__(
        self,
        num_slots: int,
        data: MarketData | None,
        model: PriceModel | None,
        execution: str,
        lookback: int,
        episode_length: int,
        reward: Reward,
    ) -> None:
        self.lookback, self.episode_length = lookback, episode_length
        self.simulated = data is None
        self.rewards = SlotRewards(reward, num_slots, REPORTED)
        self._market = None if model is None else Market(model, num_slots)
        self._draws = np.empty(num_slots)  # of a step; overwritten by the next
        self.every = np.arange(num_slots)
        self.threads = Threads(num_slots, FEWEST)
        self.timestamps = None if data is None else data.timestamps
        self.row_length = row_length(num_slots)
        self.state = np.zeros((tk.STATE_ROWS, self.row_length))
        self.clock = np.zeros((tk.CLOCK_ROWS, self.row_length), np.int64)
        self.opens = NO_OPENS if data is None or execution != "next_open" else data.kernel_field("open")
        if data is None:
            self.prices = np.zeros(2 * lookback * num_slots)
            self.returns = np.zeros(num_slots * 2 * lookback, np.float32)
        else:
            self.prices, self.returns = data.kernel_arrays

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that make up the state, by name: the entries of the slots; a history is none of it."""
        n = len(self.every)
        rings: dict[str, NDArray[Any]] = {}
        if self.simulated:
            hidden = {} if self._market is None else self._market.arrays()
            rings = {"prices": self.prices, "returns": self.returns, **hidden}
        return {"state": self.state[:, :n], "clock": self.clock[:, :n], **rings, **self.rewards.arrays()}

    def check(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Raise for arrays like those of `arrays()` with which a kernel would read what is not there."""
        rows = None if self.simulated else len(self.prices)
        check_clock(*arrays["clock"], rows=rows, lookback=self.lookback)

    def start(self, indices: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Begin episodes on the history, at `rows`."""
        tk.begin.compiled(indices, rows, self.episode_length, self.prices, self.state, self.clock)
        self.rewards.begin(indices)

    def start_simulated(
        self,
        indices: NDArray[np.int64],
        rng: np.random.Generator,
        block: NDArray[np.float64],
        running: NDArray[np.bool_],
    ) -> None:
        """Begin episodes on simulated histories.

        Args:
            indices: `(K,)`, slots.
            rng: draws the `lookback` returns before the first decision.
            block: the parameters.
            running: bool `(N,)`, slots that took part in the latest step: the others fall into step with them.
        """
        if self._market is None:
            shocks = rng.standard_normal((len(indices), self.lookback))
        else:
            shocks = self._market.begin(rng, indices, self.lookback, float(block[tk.DT]))[:, :, 0]
        head = int(self.clock[tk.HEAD, running.argmax()]) if running.any() else 0
        bad = tk.begin_simulated.compiled(
            indices, shocks, head, self.episode_length, block, self.prices, self.returns, self.state, self.clock
        )
        if bad >= 0:
            raise self.refused(bad)
        self.rewards.begin(indices)

    def refused(self, slot: int) -> FloatingPointError:
        """The error for a simulated price that became 0 or infinite; what was drawn for it is taken back."""
        if self._market is not None:
            self._market.undo()
        return FloatingPointError(
            f"The simulated price of sub-env {slot} left the range of floats; lower mu, sigma or episode_length, or "
            "set shock_clip; or look at the parameters of the model."
        )

    def draw(
        self, rng: np.random.Generator, frozen: NDArray[np.bool_], block: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The shocks of a step, `(N,)`, see `trading.kernel.log_return`; none for a history."""
        if not self.simulated:
            return NO_SHOCKS
        if self._market is None:
            return rng.standard_normal(out=self._draws)
        return self._market.advance(rng, ~frozen, float(block[tk.DT]))[:, 0]

    def advance(
        self,
        actions: NDArray[np.int64],
        frozen: NDArray[np.bool_],
        block: NDArray[np.float64],
        shocks: NDArray[np.float64],
        out: NDArray[np.float64],
        flags: NDArray[np.bool_],
        observations: NDArray[np.float32],
    ) -> None:
        """Step all slots; see `trading.kernel.advance`.

        Raises:
            FloatingPointError: a simulated price became 0 or infinite; nothing has moved.
        """
        prices, state, clock, threads = self.prices, self.state, self.clock, self.threads
        arrays = self.every, actions, frozen, block, shocks, prices, self.opens, self.returns, state, clock, out, flags
        if len(threads.ranges) == 1:
            bad = tk.advance.compiled(*arrays, observations)
        else:
            bad = threads.first(tk.next_prices.compiled, frozen, block, shocks, prices, state, clock, out)
            if bad < 0:
                threads.run(tk.move.compiled, *arrays, observations)
        if bad >= 0:
            raise self.refused(bad)

    def before(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Equity and row of each slot, for `reward` after the step."""
        return self.column(tk.EQUITY), self.clock[tk.ROW, : len(self.every)].copy()

    def reward(
        self,
        before: tuple[NDArray[np.float64], NDArray[np.int64]],
        out: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        parameters: Mapping[str, Any],
    ) -> NDArray[np.float64]:
        """What the step just taken is worth, a new array `(N,)`.

        Args:
            before: what `before` returned before it.
            out: what the kernel reports, `(OUT_ROWS, N)`.
            terminated: likewise.
            parameters: by name.
        """
        equity, row = before
        exposure = out[tk.OUT_EXPOSURE]
        weights = np.array((exposure, 1.0 - exposure)).T
        moved = self.clock[tk.ROW, : len(row)] != row
        return self.rewards.compute(
            moved, out, parameters, equity_before=equity, weights=weights, terminated=terminated
        )

    def observe(self, indices: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Write the observations of the slots in `indices` into the batch `out`."""
        tk.observe.compiled(indices, self.returns, self.state, self.clock, self.simulated, out)

    def past_returns(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        """Log returns into the current row of some slots, oldest first, a new array `(K, lookback)`."""
        seen = np.empty((len(self.every), self.lookback + 1), np.float32)
        self.observe(indices, seen)
        past: NDArray[np.float32] = seen[indices, :-1]
        return past

    def column(self, row: int) -> NDArray[np.float64]:
        """One row of `state`, a new array `(N,)`."""
        values: NDArray[np.float64] = self.state[row, : len(self.every)].copy()
        return values

    @property
    def timestamp(self) -> NDArray[Any]:
        """Row or date of the current state of each slot, a new array `(N,)`."""
        rows: NDArray[np.int64] = self.clock[tk.ROW, : len(self.every)].copy()
        return rows if self.timestamps is None else self.timestamps[rows]

    @property
    def price_history(self) -> NDArray[np.float64]:
        """The last `lookback + 1` prices of each slot, oldest first, the current one included; `(N, lookback + 1)`."""
        n, back = len(self.every), np.arange(-self.lookback, 1)
        if self.simulated:
            places = (self.clock[tk.HEAD, :n, None] + back) % (2 * self.lookback)
            places = places * n + self.every[:, None]
        else:
            places = self.clock[tk.ROW, :n, None] + back
        prices: NDArray[np.float64] = self.prices[places]
        return prices

    def infos(self, indices: NDArray[np.int64], dt: float) -> dict[str, NDArray[Any]]:
        """Infos of slots whose episode has just begun."""
        equity, position, price = self.state[[tk.EQUITY, tk.EXPOSURE, tk.PRICE]][:, indices]
        nothing = np.zeros((4, len(indices)))
        return {
            "timestamp": self.timestamp[indices],
            "dt": np.full(len(indices), dt),
            "equity": equity,
            "position": position,
            "price": price,
            **dict(zip(("asset_return", "cost", "turnover", "carry"), nothing, strict=True)),
        }
