"""Returns of a history, drawn again in blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sekai.finance.checks import finite, finite_array
from sekai.finance.data import MarketData
from sekai.finance.models.base import Array, ShockModel, State, settle


@dataclass(frozen=True, eq=False)
class StationaryBootstrap(ShockModel):
    """The returns of a history in blocks of random length (Politis and Romano 1994), of one asset or several.

    Each bar goes on with the next row of the history, or with probability `1 / mean_block` with a row drawn uniformly,
    which begins a new block. Blocks run from the last row on to the first, so every row is as likely as any other: the
    returns have the distribution of the history, and of one bar to the next its dependence but at the seams. Assets
    are drawn together, so their dependence is kept. Hidden: `place`, the row of the latest return.

    A bar is a bar of the history: `dt` changes nothing here.

    Attributes:
        prices: `(T,)` or `(T, n_assets)`, finite and above 0, `T` at least 2; or a `MarketData`. Kept as a read-only
            array.
        mean_block: mean length of a block in bars, at least 1; 1 draws every return on its own.

    Raises:
        TypeError, ValueError: anything else; the message names the argument, and the row.
    """

    prices: Any = field(repr=False)
    mean_block: float
    _returns: Array = field(init=False, repr=False)  # (T - 1, n_assets)

    start_shocks = 1
    bar_shocks = 1

    def __post_init__(self) -> None:
        prices = _history(self.prices)
        block = finite("mean_block", self.mean_block)
        if block < 1:
            raise ValueError(f"mean_block is {self.mean_block!r}; expected at least 1, in bars.")
        settle(self, prices=prices, mean_block=block)
        settle(self, _returns=np.diff(np.log(prices), axis=0).reshape(len(prices) - 1, -1))

    @property
    def n_assets(self) -> int:
        """How many prices move together."""
        return int(self._returns.shape[1])

    def new_state(self, num_slots: int) -> State:
        """`place`, int64 `(N,)`, in `[0, T - 1)`: the latest return is that from row `place` to `place + 1`."""
        return {"place": np.zeros(num_slots, np.int64)}

    def _draw(self, rng: np.random.Generator, count: int, size: int) -> Array:
        return rng.random((count, size))  # nothing here is normal

    def _start(self, shocks: Array) -> State:
        return {"place": self._spread(shocks[:, 0])}

    def _move(self, hidden: State, shocks: Array, dt: float) -> Array:
        rows, place = len(self._returns), hidden["place"]
        path = np.empty(shocks.shape[:2], np.int64)
        # a number below 1 / mean_block, scaled up to [0, 1), says where the new block begins
        scaled = shocks[..., 0] * self.mean_block
        for bar in range(shocks.shape[1]):
            choice = scaled[:, bar]
            place = np.where(choice < 1.0, self._spread(choice), (place + 1) % rows)
            path[:, bar] = place
        hidden["place"] = place
        return self._returns[path]

    def _spread(self, uniform: Array) -> Any:
        """Rows from numbers in [0, 1), each as likely; for numbers above, which begin no block, any row."""
        rows = len(self._returns)
        return np.minimum(uniform * rows, rows - 1).astype(np.int64)


def _history(value: Any) -> Array:
    prices = finite_array("prices", value.prices if isinstance(value, MarketData) else value)
    if prices.ndim not in (1, 2) or len(prices) < 2 or 0 in prices.shape:
        raise ValueError(f"prices has shape {prices.shape}; expected (T,) or (T, n_assets) with T of at least 2.")
    if (prices <= 0).any():
        place = np.argwhere(prices <= 0)[0].tolist()
        raise ValueError(f"prices{place} is {prices[*place]}; expected prices above 0.")
    prices.flags.writeable = False
    return prices
