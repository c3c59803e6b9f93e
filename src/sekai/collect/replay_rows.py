"""What goes into a replay buffer, and what is drawn from it. Shapes: `T` rows, `N` slots, `B` draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Rows(Protocol):
    """What `ReplayBuffer.extend` takes: arrays `(T, N, ...)` in time order, as a `Fragment` has them."""

    @property
    def observations(self) -> Any:
        """What the policy acted on."""

    @property
    def actions(self) -> Any:
        """What it did."""

    @property
    def rewards(self) -> Any:
        """`(T, N)`."""

    @property
    def terminated(self) -> Any:
        """Bool `(T, N)`."""

    @property
    def truncated(self) -> Any:
        """Bool `(T, N)`."""

    @property
    def valid(self) -> Any:
        """Bool `(T, N)`: rows that are transitions."""

    @property
    def episode_start(self) -> Any:
        """Bool `(T, N)`: rows whose observation is the first of an episode."""

    @property
    def extras(self) -> Mapping[str, Any]:
        """Further columns by name."""

    def next_observations(self) -> Any:
        """The true successors."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplaySample:
    """A batch of `B` draws, each of `k` steps of one episode; every array is a copy.

    The target of a value function is `rewards + discounts * bootstrap * V(next_observations)`.

    Attributes:
        observations: what the first action was chosen on, `(B, ...)`.
        actions: the first action.
        rewards: float64 `(B,)`, `r_t + gamma r_{t+1} + ... + gamma^(k-1) r_{t+k-1}`.
        next_observations: the true successor of the last step.
        terminated, truncated: bool `(B,)`, the flags of the last step.
        discounts: float64 `(B,)`, `gamma^k`.
        steps: int64 `(B,)`, `k`: `n_step`, or fewer where the episode or what is stored of it ends before.
        extras: the declared extra columns of the first step.
    """

    observations: Any
    actions: Any
    rewards: NDArray[np.float64]
    next_observations: Any
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    discounts: NDArray[np.float64]
    steps: NDArray[np.int64]
    extras: dict[str, NDArray[Any]]

    @property
    def bootstrap(self) -> NDArray[np.bool_]:
        """Draws whose successor has a value, bool `(B,)`: all that did not terminate."""
        return ~self.terminated
