"""The state of `N` slots of MarketMaking-v0, and the kernel calls that change it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.envs.finance.blocks import row_length
from sekai.envs.finance.making import kernel as mk
from sekai.envs.finance.threads import Threads

FEWEST = 16384  # slots a thread; see `threads`
LARGEST_SHOCK = 64.0  # standard deviations: no generator draws a normal number that large
LARGEST = 1e300  # of money: sums of a few such numbers are still finite


def parameter_block(
    parameters: Mapping[str, Any], *, n_steps: int, max_inventory: int, max_offset: float
) -> NDArray[np.float64]:
    """The parameters as the kernel reads them, `(PARAMS,)`; see `making.kernel`.

    Raises:
        ValueError: no order could be filled, or an episode could leave the range of floats.
    """
    s0, sigma, order_size = parameters["s0"], parameters["sigma"], parameters["order_size"]
    if order_size > max_inventory:
        raise ValueError(
            f"order_size is {order_size}; expected at most max_inventory, {max_inventory}, or no order could ever be "
            "filled."
        )
    dt = parameters["total_time"] / n_steps
    block = np.empty(mk.PARAMS)
    block[mk.VOLATILITY] = sigma * math.sqrt(dt)
    block[mk.CLIP] = math.inf if parameters["shock_clip"] is None else parameters["shock_clip"]
    block[mk.ARRIVALS] = parameters["fill_intensity"] * dt
    block[mk.DECAY] = parameters["fill_decay"]
    block[mk.BERNOULLI] = parameters["fill_model"] == "bernoulli"
    block[mk.RISK] = 0.5 * parameters["risk_aversion"] * sigma * sigma * dt
    block[mk.TERMINAL] = parameters["terminal_penalty"]
    block[mk.ORDER] = order_size
    block[mk.BOUND] = max_inventory
    block[mk.STEPS] = n_steps
    block[mk.DT] = dt
    block[mk.START_PRICE] = s0
    furthest = s0 + max_offset + LARGEST_SHOCK * n_steps * block[mk.VOLATILITY]
    traded = furthest * order_size * n_steps
    penalty = (block[mk.RISK] + block[mk.TERMINAL]) * float(max_inventory) ** 2
    if not max(traded, penalty) < LARGEST:
        raise ValueError(
            f"Up to {traded} in cash, from s0={s0}, sigma={sigma}, order_size={order_size}, n_steps={n_steps} and "
            f"max_offset={max_offset}, or a penalty of up to {penalty}, from risk_aversion and terminal_penalty, could "
            "leave the range of floats; lower some of them."
        )
    return block


class MarketMakingSlots:
    """State of `num_slots` slots, as arrays for the kernels.

    Attributes:
        every: int64 `(N,)`, the indices of all slots.
        state, clock: see `making.kernel`.
        shocks, uniforms: the draws of a call, see `making.kernel`.
        threads: what a call runs on.
    """

    def __init__(self, num_slots: int) -> None:
        self.every = np.arange(num_slots)
        self.threads = Threads(num_slots, FEWEST)
        self.state = np.zeros((mk.STATE_ROWS, row_length(num_slots)))
        self.clock = np.zeros(num_slots, np.int64)
        self.shocks = np.empty(num_slots)
        self.uniforms = np.empty((num_slots, 2))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that make up the state, by name."""
        return {"state": self.state[:, : len(self.every)], "clock": self.clock}

    def check(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Raise for arrays like those of `arrays()` that no episode can have."""
        if (arrays["clock"] < 0).any():
            raise ValueError(f"state['env.slots.clock'] is {arrays['clock'].tolist()}; expected steps taken.")

    def start(self, indices: NDArray[np.int64], block: NDArray[np.float64]) -> None:
        """Begin episodes in the slots of `indices`."""
        mk.begin.compiled(indices, block, self.state, self.clock)

    def observe(self, indices: NDArray[np.int64], block: NDArray[np.float64], out: NDArray[np.float32]) -> None:
        """Write the observations of the slots in `indices` into the batch `out`."""
        mk.observe.compiled(indices, block, self.state, self.clock, out)

    def advance(
        self,
        offsets: NDArray[np.float32],
        frozen: NDArray[np.bool_],
        block: NDArray[np.float64],
        rng: np.random.Generator,
        observations: NDArray[np.float32],
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Step the slots that are not frozen; all draws come first, one shock and two uniforms for every slot.

        Returns:
            new arrays `out` and `flags`; see `making.kernel`.
        """
        num_slots = len(self.every)
        out = np.empty((mk.OUT_ROWS, self.state.shape[1]))
        flags = np.empty((mk.FLAG_ROWS, num_slots), bool)
        rng.standard_normal(out=self.shocks)
        rng.random(out=self.uniforms)
        arrays = offsets, frozen, block, self.shocks, self.uniforms, self.state, self.clock, out, flags, observations
        self.threads.run(mk.advance.compiled, *arrays)
        return out[:, :num_slots], flags

    def new_observations(self) -> NDArray[np.float32]:
        """Memory for the observations of all slots."""
        return np.empty((len(self.every), 2), np.float32)

    def column(self, row: int) -> NDArray[np.float64]:
        """One row of `state`, a new array `(N,)`."""
        values: NDArray[np.float64] = self.state[row, : len(self.every)].copy()
        return values

    @property
    def wealth(self) -> NDArray[np.float64]:
        """Cash, and the inventory at the mid price, `(N,)`."""
        return self.column(mk.CASH) + self.column(mk.INVENTORY) * self.column(mk.MID)
