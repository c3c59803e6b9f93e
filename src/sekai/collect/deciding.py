"""`Decider`: asks a policy, and checks what it returns before anything moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.collect.buffers import LEAF, as_actions
from sekai.collect.cells import Cells
from sekai.collect.counters import Counters
from sekai.collect.policy import as_policy
from sekai.collect.rows import Rows, Source
from sekai.collect.sidetable import Entries
from sekai.collect.states import Indices, as_array, check_state, take
from sekai.core.slots import RowKind
from sekai.spaces import take_rows

_NOTHING: dict[str, NDArray[Any]] = {}


class Plan(NamedTuple):
    """What a policy decided for `k` slots, as arrays.

    Attributes:
        actions: as the policy gave them.
        env_actions: as the environment gets them; the same object where the policy named no others.
        state: the state after the decision.
        extras: columns to be kept, arrays `(k, ...)`.
        values: of the observations, `(k, ...)`, or None.
    """

    actions: Any
    env_actions: Any
    state: Any
    extras: dict[str, NDArray[Any]]
    values: NDArray[Any] | None


class Decider:
    """A policy as a collector sees it.

    Args:
        policy: see `as_policy`.
        source: says what the spaces are.
        extras: names of the extras to keep; None: all that the first decision has.
        values: whether values are wanted.
        counters: where the time is counted that valuing takes.

    Raises:
        TypeError: no policy, or no `value` where values are wanted.
    """

    def __init__(
        self, policy: Any, source: Source, *, extras: Sequence[str] | None, values: bool, counters: Counters
    ) -> None:
        self._policy = as_policy(policy)
        if values and not callable(getattr(policy, "value", None)):
            raise TypeError(f"values is True, and the policy {policy!r} has no value(observations, state).")
        self._value: Any = getattr(policy, "value", None) if values else None
        self._extras = None if extras is None else tuple(extras)
        self._source, self._counters = source, counters
        self._acts_in_arrays = isinstance(source.action_space, LEAF)

    def decide(
        self, observations: Any, state: Any, starts: NDArray[np.bool_], slots: Sequence[int] | None = None
    ) -> Plan:
        """Ask the policy; nothing has moved where what it returns is refused.

        Args:
            observations, state, starts: what it acts on, of `k` slots.
            slots: which ones, for what is said of actions that do not fit; None: all of them.
        """
        n = len(starts)
        who: int | Sequence[int] = n if slots is None else slots
        decision = self._policy.act(observations, state, starts)
        if state is not None:
            if decision.state is None:
                raise TypeError(
                    f"{self._policy!r} has an initial state, and act returned a Decision without state: its memory "
                    "would be gone."
                )
            check_state(decision.state, n, "act")
        actions = env_actions = self._batch_of(decision.actions, n, who)
        if decision.env_actions is not None:
            env_actions = self._batch_of(decision.env_actions, n, who)
        if self._extras is None:
            self._extras = tuple(decision.extras)
        extras = {name: _extra(decision.extras, name, n) for name in self._extras} if self._extras else _NOTHING
        values = None
        if self._value is not None:
            if "value" in decision.extras:
                values = _extra(decision.extras, "value", n)
            else:
                values = _checked_values(self._value(observations, state), n)
        return Plan(actions, env_actions, decision.state, extras, values)

    def _batch_of(self, actions: Any, num_slots: int, who: int | Sequence[int]) -> Any:
        if type(actions) is np.ndarray and self._acts_in_arrays and actions.shape[:1] == (num_slots,):
            return actions
        return as_actions(self._source.action_space, actions, who)

    def fresh(self, num_slots: int) -> Any:
        """The state in which slots begin an episode, asked for anew since learning may change it."""
        state = self._policy.initial_state(num_slots)
        check_state(state, num_slots, "initial_state")
        return state

    def valued(self, state: Any) -> Callable[[Indices, Any], NDArray[Any]] | None:
        """A function of rows of this state and the observations of as many slots: the values; None: none are wanted."""
        if self._value is None:
            return None

        def values(places: Indices, observations: Any) -> NDArray[Any]:
            begun = perf_counter()
            found = _checked_values(self._value(observations, take(state, places)), len(places))
            self._counters.policy_seconds += perf_counter() - begun
            return found

        return values

    def final_values(self, state: Any, rows: Rows, cells: Cells) -> Entries:
        """Values of final observations, from the state of the episode that ended; a terminal one has none."""
        values = self.valued(state)
        if values is None:
            return []
        entries: Entries = []
        for places, batch in rows.finals:
            wanted = np.flatnonzero(rows.kind[places] == RowKind.TRUNCATED)
            if len(wanted):
                chosen = take_rows(self._source.observation_space, batch, wanted)
                entries.append((*cells.some(places[wanted]), values(places[wanted], chosen)))
        return entries


def _extra(extras: Any, name: str, num_slots: int) -> NDArray[Any]:
    if name not in extras:
        raise LookupError(f"The policy's decision has no extra {name!r}; it has {list(extras)}.")
    column = as_array(extras[name])
    if column.ndim == 0 or len(column) != num_slots:
        raise ValueError(
            f"The policy's extra {name!r} has shape {column.shape}; expected a first axis of the {num_slots} slots."
        )
    return column


def _checked_values(given: Any, num_slots: int) -> NDArray[Any]:
    values = as_array(given)
    if values.ndim == 0 or len(values) != num_slots:
        raise ValueError(f"value returned shape {values.shape}; expected a first axis of {num_slots} slots.")
    return values
