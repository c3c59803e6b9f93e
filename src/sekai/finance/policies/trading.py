"""Baselines for `Trading-v0`. They choose the nearest of its levels of exposure, `positions`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.finance.allocation import cppi_exposure
from sekai.finance.checks import finite, positive
from sekai.finance.policies.base import Policy, parameter, slot_values
from sekai.spaces.checks import whole_number


class ConstantExposure(Policy):
    """The same exposure at every step.

    Args:
        env: `Trading-v0`.
        exposure: target, one of `positions`: 0 is flat, 1 long, -1 short.

    Raises:
        ValueError: `exposure` is none of `positions`.
    """

    def __init__(self, env: Any, exposure: float) -> None:
        super().__init__(env)
        positions = parameter(env, "positions")
        if exposure not in positions:
            raise ValueError(
                f"exposure is {exposure!r}; expected one of the positions of the environment, {positions}."
            )
        self._action = positions.index(exposure)

    def act(self, observations: Any) -> NDArray[np.int64]:
        """The place of the exposure in `positions`, int64 `(N,)`."""
        return np.full(len(observations), self._action)


class BuyAndHold(ConstantExposure):
    """All in the asset: bought at the first step, and held without a trade, since all of the equity stays in it."""

    def __init__(self, env: Any) -> None:
        super().__init__(env, 1.0)


class Momentum(Policy):
    """Long after the price rose over the last bars, short after it fell, out of the market if it did neither.

    The target is the largest position after a rise, the smallest after a fall (0 in a long-only market) and the one
    nearest 0 otherwise (Moskowitz, Ooi and Pedersen, "Time series momentum", 2012, without their scaling).

    Args:
        env: `Trading-v0`.
        window: bars, from 1 to `lookback`; None: `lookback`.
    """

    def __init__(self, env: Any, window: int | None = None) -> None:
        super().__init__(env)
        lookback = parameter(env, "lookback")
        self._window = whole_number("window", lookback if window is None else window, minimum=1)
        if self._window > lookback:
            raise ValueError(
                f"window is {window}; expected at most lookback={lookback}, which is all that is observed."
            )
        levels = np.array(parameter(env, "positions"))
        self._by_sign = np.array([levels.argmin(), np.abs(levels).argmin(), levels.argmax()])

    def act(self, observations: Any) -> NDArray[np.int64]:
        """Places in `positions`, int64 `(N,)`."""
        returns = observations[:, -1 - self._window : -1].astype(np.float64)
        actions: NDArray[np.int64] = self._by_sign[np.sign(returns.sum(axis=1)).astype(np.int64) + 1]
        return actions


class CPPI(Policy):
    """Constant proportion portfolio insurance: as much exposure as keeps equity above a floor (`cppi_exposure`).

    The exposure is rounded down to a position of at least 0. Equity is read from the environment, where it is that of
    the state observed, so that `act` is to be called once for each result.

    Args:
        env: `Trading-v0`, with a position of 0.
        floor: fraction of the equity at the start, or of its peak so far, in (0, 1), below which it shall not fall.
        max_loss: largest loss per step and unit of exposure, costs of a full change included; its inverse is the
            multiplier.
        trailing: whether the floor follows the peak of the equity.
    """

    def __init__(self, env: Any, floor: float = 0.9, *, max_loss: float = 0.2, trailing: bool = False) -> None:
        super().__init__(env)
        self._floor, self._max_loss = finite("floor", floor), positive("max_loss", max_loss)
        if not 0 < self._floor < 1:
            raise ValueError(f"floor is {floor!r}; expected a fraction of the equity in (0, 1).")
        self._trailing = bool(trailing)
        levels = np.array(parameter(env, "positions"))
        self._places = np.argsort(levels, kind="stable")[(levels < 0).sum() :]
        self._levels = levels[self._places]
        if not len(self._levels) or self._levels[0] != 0:
            raise ValueError(
                f"positions are {levels.tolist()}; expected a 0 among them, to which the exposure can fall."
            )
        self._peaks = np.ones(len(slot_values(env, "equity")))

    def act(self, observations: Any) -> NDArray[np.int64]:
        """Places in `positions`, int64 `(N,)`."""
        equity = np.array(slot_values(self.env, "equity"))
        if self._trailing:
            self._peaks = np.maximum(self._peaks, equity)
        allowed = cppi_exposure(
            equity, self._floor * self._peaks, max_loss=self._max_loss, max_exposure=self._levels[-1]
        )
        actions: NDArray[np.int64] = self._places[np.searchsorted(self._levels, allowed, side="right") - 1]
        return actions

    def reset(self, mask: Any = None) -> None:
        """Forget the peaks: the equity of an episode begins at 1."""
        self._peaks[... if mask is None else mask] = 1.0
