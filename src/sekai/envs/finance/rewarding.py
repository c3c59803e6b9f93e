"""Rewards other than log growth: what an environment remembers for them, and how it asks for them.

It owns the state of a reward for `N` slots; it knows neither kernels nor clocks. Three hard cases: slots that did not
move are not shown to the reward, are paid 0 and keep their rows; slots whose episode begins start from fresh rows,
alone; a reward of a user's that returns another shape, or loses a part of its state, is refused, and nothing of the
state has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.finance.rewards import LogReward, Outcome, Reward


class SlotRewards:
    """A reward, and what it remembers of the episodes of `num_slots` slots.

    Args:
        reward: what a step is worth.
        num_slots: `N`.
        reported: the columns of an `Outcome` that a kernel reports, and their rows in its report.

    Attributes:
        reward: as given.
        is_log: whether it is the log growth that the kernels write anyway, so that there is nothing to ask.
    """

    def __init__(self, reward: Reward, num_slots: int, reported: Mapping[str, int]) -> None:
        self.reward = reward
        self.is_log = type(reward) is LogReward
        self._reported = reported
        self._state = self._new_state(num_slots)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state by name, not copies."""
        return {f"reward.{name}": values for name, values in self._state.items()}

    def begin(self, slots: NDArray[np.integer[Any]]) -> None:
        """Forget the episodes of some slots, since new ones begin there."""
        if self._state:
            fresh = self._new_state(len(slots))
            for name, values in self._state.items():
                values[slots] = fresh[name]

    def compute(
        self, moved: NDArray[np.bool_], out: NDArray[np.float64], parameters: Mapping[str, Any], **others: NDArray[Any]
    ) -> NDArray[np.float64]:
        """The rewards of a step, a new array `(N,)`, 0 where a slot has not moved.

        Args:
            moved: bool `(N,)`; rows of slots that have not are not read.
            out: what the kernel reports, `(_, N)`.
            parameters: of the environment, by name.
            **others: the columns of an `Outcome` that are not in `out`, of all slots.
        """
        rewards = np.zeros(len(moved))
        count = int(np.count_nonzero(moved))
        if not count:
            return rewards
        rows: Any = slice(None) if count == len(moved) else np.flatnonzero(moved)
        state = {name: values[rows].copy() for name, values in self._state.items()}
        columns: dict[str, Any] = {name: out[row] for name, row in self._reported.items()} | others
        columns = {name: _read_only(values[rows]) for name, values in columns.items()}
        outcome = Outcome(**columns, dt=parameters["dt"], capital=parameters["capital"])
        paid = self._checked(self.reward.compute(state, outcome), count)
        self._check_state(state, count)
        for name, values in self._state.items():
            values[rows] = state[name]
        rewards[rows] = paid
        return rewards

    def _new_state(self, num_slots: int) -> dict[str, NDArray[Any]]:
        state: Any = self.reward.new_state(num_slots)
        method = f"{type(self.reward).__name__}.new_state({num_slots})"
        if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
            raise TypeError(f"{method} returned {state!r}; expected a dict of arrays by name.")
        for name, values in state.items():
            plain = isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
            if not plain or values.shape[:1] != (num_slots,):
                raise ValueError(
                    f"{method}[{name!r}] is {_described(values)}; expected an array of numbers or bools with "
                    f"{num_slots} rows, one for each slot."
                )
        return {name: values.copy() for name, values in state.items()}

    def _checked(self, paid: Any, count: int) -> NDArray[np.float64]:
        if not isinstance(paid, np.ndarray) or paid.shape != (count,) or paid.dtype.kind not in "iuf":
            raise ValueError(
                f"{type(self.reward).__name__}.compute() returned {_described(paid)}; expected the rewards of the "
                f"slots, float64 ({count},)."
            )
        return paid

    def _check_state(self, state: dict[str, Any], count: int) -> None:
        method = f"{type(self.reward).__name__}.compute()"
        if state.keys() != self._state.keys():
            raise ValueError(
                f"{method} left a state with the names {sorted(state)}; expected those of new_state, "
                f"{sorted(self._state)}."
            )
        for name, values in self._state.items():
            kept, shape = state[name], (count, *values.shape[1:])
            if not isinstance(kept, np.ndarray) or kept.shape != shape or not np.can_cast(kept.dtype, values.dtype):
                raise ValueError(
                    f"{method} left {_described(kept)} as state[{name!r}]; expected {values.dtype} {shape}, as "
                    "new_state gave it."
                )


def _read_only(view: NDArray[Any]) -> NDArray[Any]:
    view.flags.writeable = False
    return view


def _described(value: Any) -> str:
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else repr(value)
