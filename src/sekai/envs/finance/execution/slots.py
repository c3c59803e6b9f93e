"""The state of `N` slots of OptimalExecution-v0, and the parameters as the kernel reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.envs.finance.blocks import row_length
from sekai.envs.finance.execution import kernel as xk
from sekai.envs.finance.threads import Threads

FEWEST = 16384  # slots a thread; see `threads`

#: keys of the infos; their values are the rows of `out` after the reward, in this order
INFO_KEYS = (
    "timestamp",
    "dt",
    "shares_sold",
    "execution_price",
    "mid_price",
    "inventory",
    "implementation_shortfall",
    "shortfall_bps",
    "spread_bps",
    "temporary_bps",
    "permanent_bps",
    "timing_bps",
)


class ParameterBlocks:
    """The parameters as the kernel and the start of an episode read them.

    Attributes:
        params, caps: see `execution.kernel`.
        first: float64 `(STATE_ROWS,)`, the state in which an episode starts.

    Raises:
        ValueError: values that do not go together, or that leave the range of floats.
    """

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        steps, sigma, dt = parameters["n_steps"], parameters["sigma"], parameters["total_time"] / parameters["n_steps"]
        params = np.empty(xk.PARAMS)
        params[xk.DT] = dt
        params[xk.VOLATILITY] = sigma * math.sqrt(dt)
        params[xk.PERMANENT] = parameters["permanent_impact"]
        params[xk.TEMPORARY] = parameters["temporary_impact"] / dt if dt > 0 else math.inf
        params[xk.FIXED] = parameters["fixed_cost"]
        params[xk.RISK] = parameters["risk_aversion"] * sigma * sigma * dt
        params[xk.CLIP] = math.inf if parameters["shock_clip"] is None else parameters["shock_clip"]
        first = np.zeros(xk.STATE_ROWS)
        first[xk.MID] = first[xk.ARRIVAL] = parameters["s0"]
        first[xk.INVENTORY] = first[xk.INITIAL] = parameters["initial_inventory"]
        first[xk.SIDE] = 1.0 if parameters["side"] == "sell" else -1.0
        _check_range(params, first)
        self.params, self.first = params, first
        self.caps = _caps(parameters["max_participation"], parameters["volume"], steps)


def _check_range(params: NDArray[np.float64], first: NDArray[np.float64]) -> None:
    """Refuse parameters under which the largest slice or the risk of holding it overflows."""
    shares, price = float(first[xk.INITIAL]), float(first[xk.ARRIVAL])
    square = shares * shares
    rates = [float(params[row]) for row in (xk.PERMANENT, xk.TEMPORARY, xk.RISK)]
    money = [shares * price, shares * float(params[xk.FIXED]), shares * float(params[xk.VOLATILITY])]
    if not (params[xk.DT] > 0 and all(map(math.isfinite, [*money, *(rate * square for rate in rates)]))):
        raise ValueError(
            f"initial_inventory={shares} at s0={price} with these impacts, sigma and total_time / n_steps leaves the "
            "range of floats; choose other units of shares, money or time."
        )


def _caps(max_participation: float | None, volume: Any, steps: int) -> NDArray[np.float64]:
    if isinstance(volume, np.ndarray) and len(volume) != steps:
        raise ValueError(f"volume has {len(volume)} entries and n_steps is {steps}; expected one for each step.")
    if max_participation is None:
        return np.full(steps, math.inf)
    if volume is None:
        raise ValueError(
            f"max_participation is {max_participation} and volume is None; expected the shares that the market trades "
            "in each step, one number or one for each step: give volume as well."
        )
    return np.ascontiguousarray(np.broadcast_to(max_participation * np.asarray(volume), (steps,)))


def info_columns(out: NDArray[np.float64], num_slots: int) -> dict[str, NDArray[np.float64]]:
    """The infos as columns, views into `out`."""
    return dict(zip(INFO_KEYS, out[xk.TIMESTAMP :, :num_slots], strict=True))


class ExecutionSlots:
    """State of `num_slots` slots, as arrays for the kernels.

    Attributes:
        every: int64 `(N,)`, the indices of all slots.
        state, clock: see `execution.kernel`.
        row_length: see `blocks.row_length`.
        threads: what a call runs on.
    """

    def __init__(self, num_slots: int, blocks: ParameterBlocks) -> None:
        self.every = np.arange(num_slots)
        self.threads = Threads(num_slots, FEWEST)
        self.row_length = row_length(num_slots)
        self.state = np.repeat(blocks.first[:, None], self.row_length, axis=1)
        self.clock = np.zeros((xk.CLOCK_ROWS, self.row_length), np.int64)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that make up the state, by name: the entries of the slots, without those in between."""
        n = len(self.every)
        return {"state": self.state[:, :n], "clock": self.clock[:, :n]}

    def check(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Raise for arrays like those of `arrays()` that no episode can have."""
        if (arrays["clock"] < 0).any():
            raise ValueError(f"state['env.slots.clock'] is {arrays['clock'].tolist()}; expected slices traded.")

    def start(self, indices: NDArray[np.int64], blocks: ParameterBlocks) -> None:
        """Begin episodes."""
        self.state[:, indices] = blocks.first[:, None]
        self.clock[:, indices] = 0

    def observe(self, indices: NDArray[np.int64], blocks: ParameterBlocks, out: NDArray[np.float32]) -> None:
        """Write the observations of the slots in `indices` into the batch `out`."""
        xk.observe.compiled(indices, blocks.caps, self.state, self.clock, out)

    def advance(
        self,
        actions: NDArray[np.float32],
        frozen: NDArray[np.bool_],
        blocks: ParameterBlocks,
        shocks: NDArray[np.float64],
        out: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        observations: NDArray[np.float32],
    ) -> None:
        """Trade one slice in every slot that is not frozen; see `execution.kernel.advance`."""
        arrays = (
            actions,
            frozen,
            blocks.params,
            blocks.caps,
            shocks,
            self.state,
            self.clock,
            out,
            terminated,
            observations,
        )
        self.threads.run(xk.advance.compiled, *arrays)

    def column(self, row: int) -> NDArray[np.float64]:
        """One row of `state`, a new array `(N,)`."""
        values: NDArray[np.float64] = self.state[row, : len(self.every)].copy()
        return values

    @property
    def steps(self) -> NDArray[np.int64]:
        """Slices traded in each slot, `(N,)`, a view."""
        return self.clock[xk.STEP, : len(self.every)]

    @property
    def shortfall(self) -> NDArray[np.float64]:
        """Implementation shortfall of each slot so far, in money; a new array `(N,)`."""
        total: NDArray[np.float64] = self.state[xk.SPREAD_PART : xk.TIMING_PART + 1, : len(self.every)].sum(axis=0)
        return total

    @property
    def shortfall_bps(self) -> NDArray[np.float64]:
        """The same in basis points of the initial value; a new array `(N,)`."""
        bps: NDArray[np.float64] = self.shortfall * (1e4 / (self.column(xk.INITIAL) * self.column(xk.ARRIVAL)))
        return bps

    def infos(self, indices: NDArray[np.int64], dt: float) -> dict[str, NDArray[Any]]:
        """Infos of slots whose episode has just begun."""
        out = np.zeros((xk.OUT_ROWS, len(indices)))
        out[xk.OUT_DT] = dt
        out[xk.EXECUTION_PRICE] = out[xk.OUT_MID] = self.state[xk.MID, indices]
        out[xk.OUT_INVENTORY] = self.state[xk.INVENTORY, indices]
        return info_columns(out, len(indices))
