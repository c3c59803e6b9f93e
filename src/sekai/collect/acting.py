"""Policies with and without memory, asked in one way; their memory begins anew with every episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Actor:
    """Asks a policy for actions, and owns its recurrent state.

    Args:
        policy: a function `observations -> actions`, or an object with `initial_state(num_slots)` and
            `act(observations, state, episode_start)`, which returns an object with `.actions` and `.state`.
        num_slots: how many slots act together.

    Raises:
        TypeError: neither.
    """

    def __init__(self, policy: Any, num_slots: int) -> None:
        self._policy, self._num_slots = policy, num_slots
        self._remembers = hasattr(policy, "act")
        if self._remembers and not hasattr(policy, "initial_state"):
            raise TypeError(f"{policy!r} has act() and no initial_state(num_slots); return None there for no memory.")
        if not self._remembers and not callable(policy):
            raise TypeError(
                f"policy is {policy!r}; expected a function of observations, or an object with initial_state(num_slots)"
                " and act(observations, state, episode_start)."
            )
        self._state: Any = None

    def __call__(self, observations: Any, starts: NDArray[np.bool_]) -> Any:
        """The actions; `starts`, bool `(num_slots,)`, are slots whose row is the first of an episode."""
        if not self._remembers:
            return self._policy(observations)
        if starts.any():
            fresh = self._policy.initial_state(self._num_slots)
            self._state = fresh if starts.all() else renewed(self._state, fresh, starts)
        decision = self._policy.act(observations, self._state, starts.copy())
        self._state = decision.state
        return decision.actions


def renewed(state: Any, fresh: Any, slots: NDArray[np.bool_]) -> Any:
    """`state` with the rows of some slots taken from `fresh`; arrays and tensors in any nesting, none changed in place.

    Raises:
        TypeError: a part that is no array with a leading axis of slots.
    """
    if state is None and fresh is None:
        return None
    if isinstance(state, Mapping):
        return {key: renewed(part, fresh[key], slots) for key, part in state.items()}
    if isinstance(state, (tuple, list)):
        parts = [renewed(part, new, slots) for part, new in zip(state, fresh, strict=True)]
        return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
    shape = getattr(state, "shape", None)
    if not shape or shape[0] != len(slots) or getattr(fresh, "shape", None) != shape:
        raise TypeError(
            f"The state holds {_described(state)}, and initial_state gave {_described(fresh)}; expected arrays of one "
            f"shape whose first axis is that of {len(slots)} slots."
        )
    copied = state.clone() if hasattr(state, "clone") else np.array(state)  # a tensor has no copy()
    copied[slots] = fresh[slots]
    return copied


def _described(value: Any) -> str:
    return f"shape {tuple(value.shape)}" if hasattr(value, "shape") else f"{value!r} ({type(value).__name__})"
