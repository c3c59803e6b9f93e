"""`Actor`: a policy and its memory, which begins anew with every episode."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.collect.policy import as_policy
from sekai.collect.states import check_state, put, take


class Actor:
    """Asks a policy for actions, and owns its recurrent state.

    Args:
        policy: see `as_policy`.
        num_slots: how many slots act together.

    Raises:
        TypeError: it is no policy.
    """

    def __init__(self, policy: Any, num_slots: int) -> None:
        self._policy, self._num_slots = as_policy(policy), num_slots
        self._state: Any = None

    def __call__(self, observations: Any, starts: NDArray[np.bool_]) -> Any:
        """What to execute; `starts`, bool `(num_slots,)`, are slots whose row is the first of an episode.

        Raises:
            ValueError: a state whose arrays have no leading axis of slots.
        """
        if starts.any():
            fresh = self._policy.initial_state(self._num_slots)
            check_state(fresh, self._num_slots, "initial_state")
            slots = np.flatnonzero(starts)
            self._state = fresh if starts.all() else put(self._state, slots, take(fresh, slots))
        decision = self._policy.act(observations, self._state, starts.copy())
        check_state(decision.state, self._num_slots, "act")
        self._state = decision.state
        env_actions = getattr(decision, "env_actions", None)  # any object with `actions` and `state` is taken
        return decision.actions if env_actions is None else env_actions
