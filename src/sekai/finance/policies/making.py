"""Baselines for `MarketMaking-v0`: distances of bid and ask from the mid, given the inventory and the time left.

For orders of `m` units the formulas hold in orders and their inventory, as `sekai.finance.making` says. A side that
a formula does not quote is quoted `max_offset` away; one quoted beyond the mid, at the mid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.finance.making import (
    avellaneda_stoikov_action,
    cartea_jaimungal_depths,
    fixed_spread_depths,
    glft_depths,
)
from sekai.finance.policies.base import Policy, parameter
from sekai.spaces.checks import whole_number


class _Quotes(Policy):
    """What the policies share: what they observe, in orders and in steps.

    Args:
        env: `MarketMaking-v0`.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._size: int = parameter(env, "order_size")
        self._bound: int = parameter(env, "max_inventory")
        self._steps: int = parameter(env, "n_steps")
        self._time: float = parameter(env, "total_time")
        self._largest: float = parameter(env, "max_offset")
        self._decay = parameter(env, "fill_decay") / self._size

    def _orders(self, observations: Any) -> NDArray[np.int64]:
        """Inventory in orders, `(N,)`."""
        return _whole(observations[:, 0].astype(np.float64) * self._bound / self._size)

    def _steps_left(self, observations: Any) -> NDArray[np.int64]:
        return _whole(observations[:, 1].astype(np.float64) * self._steps)

    def _actions(self, depths: NDArray[np.float64]) -> NDArray[np.float32]:
        """Depths of orders, `(N, 2)`, as actions."""
        return np.clip(depths / self._size, 0.0, self._largest).astype(np.float32)


class FixedSpread(_Quotes):
    """The same distance on both sides, whatever the inventory.

    Args:
        env: `MarketMaking-v0`.
        half_spread: the distance; by default `1 / fill_decay`, the best one for a trader without fear of inventory.
    """

    def __init__(self, env: Any, half_spread: float | None = None) -> None:
        super().__init__(env)
        self._half = 1.0 / self._decay / self._size if half_spread is None else half_spread
        self._quotes = fixed_spread_depths(np.zeros(()), half_spread=self._half)
        if self._half > self._largest:
            raise ValueError(f"half_spread is {self._half}; expected at most max_offset={self._largest}.")

    def act(self, observations: Any) -> NDArray[np.float32]:
        """Distances of bid and ask, float32 `(N, 2)`."""
        return np.tile(self._quotes.astype(np.float32), (len(observations), 1))


class AvellanedaStoikov(_Quotes):
    """Quotes around the reservation price (`avellaneda_stoikov_action`).

    Args:
        env: `MarketMaking-v0`.
        risk_aversion: of exponential utility, per unit of money; by default that of the environment's reward.
    """

    def __init__(self, env: Any, risk_aversion: float | None = None) -> None:
        super().__init__(env)
        self._gamma = parameter(env, "risk_aversion") if risk_aversion is None else risk_aversion
        self._sigma = parameter(env, "sigma") * self._size

    def act(self, observations: Any) -> NDArray[np.float32]:
        """Distances of bid and ask, float32 `(N, 2)`."""
        return self._actions(
            avellaneda_stoikov_action(
                self._orders(observations),
                self._time / self._steps * self._steps_left(observations),
                sigma=self._sigma,
                fill_decay=self._decay,
                risk_aversion=self._gamma,
                max_offset=self._largest * self._size,
            )
        )


class _Table(_Quotes):
    """Quotes looked up by steps left and inventory.

    Args:
        env: `MarketMaking-v0`.
        max_inventory: the trader's own limit, in units, at most that of the environment, which is the default.
    """

    def __init__(self, env: Any, max_inventory: int | None) -> None:
        super().__init__(env)
        limit = whole_number("max_inventory", self._bound if max_inventory is None else max_inventory, minimum=1)
        if not self._size <= limit <= self._bound:
            raise ValueError(
                f"max_inventory is {limit}; expected order_size={self._size} to {self._bound}, the environment's."
            )
        self._limit = limit // self._size
        self._market = {
            "max_inventory": self._limit,
            "fill_intensity": parameter(env, "fill_intensity"),
            "fill_decay": self._decay,
        }
        #: by steps left, from 0 on
        self._times = self._time / self._steps * np.arange(self._steps + 1)

    def _set_table(self, depths: NDArray[np.float64]) -> None:
        self._depths = self._actions(depths)

    def act(self, observations: Any) -> NDArray[np.float32]:
        """Distances of bid and ask, float32 `(N, 2)`."""
        orders = np.clip(self._orders(observations), -self._limit, self._limit)
        return self._depths[self._steps_left(observations), orders + self._limit]


class GLFT(_Table):
    """The optimal quotes of a trader with exponential utility (`glft_depths`).

    Args:
        env: `MarketMaking-v0`.
        risk_aversion: of exponential utility, per unit of money; by default that of the environment's reward.
        max_inventory: the trader's own limit, in units; by default that of the environment.
    """

    def __init__(self, env: Any, risk_aversion: float | None = None, *, max_inventory: int | None = None) -> None:
        super().__init__(env, max_inventory)
        gamma = parameter(env, "risk_aversion") if risk_aversion is None else risk_aversion
        sigma = parameter(env, "sigma") * self._size
        self._set_table(glft_depths(self._times, sigma=sigma, risk_aversion=gamma, **self._market))


class CarteaJaimungal(_Table):
    """The quotes with the largest mean of wealth less penalties (`cartea_jaimungal_depths`).

    With the default penalties that is the sum of the environment's rewards, but for the length of its steps.

    Args:
        env: `MarketMaking-v0`.
        running_penalty: money per squared unit and time; by default `0.5 * risk_aversion * sigma**2`.
        terminal_penalty: money per squared unit; by default that of the environment.
        max_inventory: the trader's own limit, in units; by default that of the environment.

    Raises:
        ValueError: the optimal quotes lie outside `[0, max_offset]` somewhere; a smaller `max_inventory` helps.
    """

    def __init__(
        self,
        env: Any,
        *,
        running_penalty: float | None = None,
        terminal_penalty: float | None = None,
        max_inventory: int | None = None,
    ) -> None:
        super().__init__(env, max_inventory)
        running = 0.5 * parameter(env, "risk_aversion") * parameter(env, "sigma") ** 2
        final = parameter(env, "terminal_penalty") if terminal_penalty is None else terminal_penalty
        self._set_table(
            cartea_jaimungal_depths(
                self._times,
                running_penalty=(running if running_penalty is None else running_penalty) * self._size**2,
                terminal_penalty=final * self._size**2,
                max_offset=self._largest * self._size,
                **self._market,
            )
        )


def _whole(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """The nearest whole numbers: observations are float32."""
    whole: NDArray[np.int64] = np.rint(numbers).astype(np.int64)
    return whole
