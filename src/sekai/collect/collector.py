"""`Collector`: steps a vector environment with a policy and hands out fragments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.collect.buffers import LEAF, Pool, as_actions
from sekai.collect.counters import Counters
from sekai.collect.fragment import Fragment
from sekai.collect.policy import as_policy
from sekai.collect.recording import InfoLayout, Plan, Recording
from sekai.collect.rows import Restart, Rows, source_of
from sekai.collect.states import Indices, as_array, check_state, copy, put, take
from sekai.core.slots import RowKind
from sekai.spaces.checks import whole_number

_NOTHING: dict[str, NDArray[Any]] = {}


class Collector:
    """Steps a vector environment with a policy and hands out fragments of `fragment_length` rows.

    It works over every backend of sekai in every autoreset mode, and over gymnasium's vector environments in theirs.
    Episodes, and the policy's memory of them, go on from one fragment to the next.

    A call that raises leaves the rows collected so far as they are: the error is handed on, and the next `collect`
    goes on in the same row. Where an earlier row was lost that way, the next is of kind LOST, and what the slot does
    afterwards counts as a new episode.

    Args:
        vec: a `VecEnv`, or a `gymnasium.vector.VectorEnv`. The collector resets it when it begins and does not close
            it.
        policy: an object with `initial_state` and `act` (see `Policy`), or a function of observations.
        fragment_length: rows of a fragment, `T`.
        extras: names of the policy's extras to keep; by default all that its first decision has.
        infos: names of info columns to keep; every transition must have them.
        values: whether to keep values. Those of observations are `extras["value"]` where the policy gives it, else
            its `value(observations, state)`; those of final and tail observations are asked for with the state that
            their own episode left.
        state_stride: also keep the policy's state where `step_index` is a multiple of this.
        restart: under `autoreset="disabled"`, reset a slot in the call in which it ends (`"each"`), or all of them when
            all have ended (`"all"`); until then they return FROZEN rows.

    Attributes:
        counters: what has been received so far.
        num_slots: number of slots, `N`.

    Raises:
        TypeError: no vector environment, no policy, or no `value` where values are wanted.
        ValueError: an argument out of range.

    Example:
        >>> import sekai
        >>> from sekai.collect import Collector
        >>> vec = sekai.make_vec("CartPole-v1", 2)
        >>> collector = Collector(vec, lambda observations: [0, 1], fragment_length=4)
        >>> collector.collect().rewards.shape
        (4, 2)
    """

    def __init__(
        self,
        vec: Any,
        policy: Any,
        *,
        fragment_length: int,
        extras: Sequence[str] | None = None,
        infos: Sequence[str] = (),
        values: bool = False,
        state_stride: int | None = None,
        restart: Restart = "each",
    ) -> None:
        self._source = source_of(vec, restart)
        self._policy = as_policy(policy)
        if values and not callable(getattr(policy, "value", None)):
            raise TypeError(f"values is True, and the policy {policy!r} has no value(observations, state).")
        if isinstance(infos, str) or isinstance(extras, str):
            raise TypeError("extras and infos are sequences of names; given one string.")
        self._value: Any = getattr(policy, "value", None) if values else None
        self._length = whole_number("fragment_length", fragment_length, minimum=1)
        self._stride = None if state_stride is None else whole_number("state_stride", state_stride, minimum=1)
        self._extras = None if extras is None else tuple(extras)
        self._infos: dict[str, InfoLayout] = dict.fromkeys(infos)
        self.counters = Counters()
        n = self.num_slots = self._source.num_envs
        self._acts_in_arrays = isinstance(self._source.action_space, LEAF)
        self._pool = Pool()
        self._every, self._nobody_starts = np.arange(n), np.zeros(n, bool)
        self._recording: Recording | None = None
        self._observations: Any = None
        self._state: Any = None
        self._starts = self._nobody_starts
        # of the row to come: its step_index (less plain calls not counted yet), and the episodes begun so far, its
        # own included
        self._steps, self._episodes = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._uncounted = 0

    def __iter__(self) -> Iterator[Fragment]:
        """Fragments without end."""
        while True:
            yield self.collect()

    def reset(self, *, seed: Any = None, options: Any = None) -> None:
        """Begin an episode in every slot, now; `collect` does so itself when it is first called.

        Rows of the fragment under way stay in it, the last ones marked as cut.

        Args:
            seed, options: what the vector environment's own `reset` takes.
        """
        begun = perf_counter()
        observations = self._source.reset(seed, options)
        self.counters.environment_seconds += perf_counter() - begun
        recording = self._recording
        if recording is not None:
            recording.move_out(None if self._value is None else self._valued(self._state))
        self._episodes += ~self._starts  # an episode in which nobody acted is not counted
        self._observations, self._starts = observations, np.ones(self.num_slots, bool)
        self._state = self._fresh(self.num_slots)
        self._steps[:] = self._uncounted = 0
        if recording is not None:
            self._begin_row(recording)

    def collect(self) -> Fragment:
        """Collect until a fragment is full.

        Raises:
            Exception: whatever the environment or the policy raised; the rows so far are kept for the next call.
            ValueError, TypeError, LookupError: what the policy or the environment returned is not what was agreed.
        """
        if self._observations is None:
            self.reset()
        recording = self._recording
        if recording is None:
            # only now: whoever holds one fragment until it has the next then needs two sets of arrays, and not three
            recording = self._recording = self._new_recording()
            self._begin_row(recording)
        while recording.t < self._length:
            self._call(recording)
        return self._finish(recording)

    def _call(self, recording: Recording) -> None:
        """One call of the environment."""
        counters, begun = self.counters, perf_counter()
        plan = self._decide()
        recording.decided(plan)
        decided = perf_counter()
        counters.policy_seconds += decided - begun
        rows: Rows | None = None
        try:
            try:
                rows = self._source.step(plan.env_actions)
            finally:
                counters.environment_seconds += perf_counter() - decided
            self._take(recording, plan, rows)
        except BaseException:
            counters.count_failed(self.num_slots)
            if rows is not None:
                self._source.lose(rows)
            raise
        counters.count(rows.kind, rows.plain)

    def _decide(self) -> Plan:
        """Ask the policy; nothing has moved where what it returns is refused."""
        n, state = self.num_slots, self._state
        decision = self._policy.act(self._observations, state, self._starts)
        if state is not None:
            if decision.state is None:
                raise TypeError(
                    f"{self._policy!r} has an initial state, and act returned a Decision without state: its memory "
                    "would be gone."
                )
            check_state(decision.state, n, "act")
        actions = env_actions = self._batch_of(decision.actions)
        if decision.env_actions is not None:
            env_actions = self._batch_of(decision.env_actions)
        if self._extras is None:
            self._extras = tuple(decision.extras)
        extras = {name: self._extra(decision.extras, name) for name in self._extras} if self._extras else _NOTHING
        values = None
        if self._value is not None:
            if "value" in decision.extras:
                values = self._extra(decision.extras, "value")
            else:
                values = _checked_values(self._value(self._observations, state), n)
        return Plan(actions, env_actions, decision.state, extras, values)

    def _batch_of(self, actions: Any) -> Any:
        if type(actions) is np.ndarray and self._acts_in_arrays and actions.shape[:1] == (self.num_slots,):
            return actions
        return as_actions(self._source.action_space, actions, self.num_slots)

    def _extra(self, extras: Any, name: str) -> NDArray[Any]:
        if name not in extras:
            raise LookupError(f"The policy's decision has no extra {name!r}; it has {list(extras)}.")
        column = as_array(extras[name])
        if column.ndim == 0 or len(column) != self.num_slots:
            raise ValueError(
                f"The policy's extra {name!r} has shape {column.shape}; expected a first axis of the "
                f"{self.num_slots} slots."
            )
        return column

    def _take(self, recording: Recording, plan: Plan, rows: Rows) -> None:
        """Keep the rows of a call and go on from them. What can raise comes before what changes anything."""
        recording.keep(rows)
        if rows.plain:
            recording.t += 1
            self._observations, self._state, self._starts = rows.observations, plan.state, self._nobody_starts
            self._uncounted += 1
        else:
            finals = recording.final_rows(rows)
            values = self._final_values(plan.state, rows, finals)
            assert rows.starts is not None
            slots = np.flatnonzero(rows.starts)
            state = plan.state
            if state is not None and len(slots):
                state = put(state, slots, self._fresh(len(slots)))
            recording.commit(finals, values)
            self._observations, self._state, self._starts = rows.observations, state, rows.starts
            self._uncounted += 1
            self._count_steps()[slots] = 0
            self._episodes[slots] += 1
        if self._state is not None:
            self._keep_states(recording)

    def _final_values(
        self, state: Any, rows: Rows, finals: list[tuple[int, Indices, Any]]
    ) -> list[tuple[int, Indices, Any]]:
        """Values of final observations, from the state of the episode that ended; a terminal one has none."""
        if self._value is None:
            return []
        entries = []
        for (t, slots, _), (_, batch) in zip(finals, (pair for pair in rows.finals if len(pair[0])), strict=True):
            wanted = np.flatnonzero(rows.kind[slots] == RowKind.TRUNCATED)
            if len(wanted):
                from sekai.spaces import take_rows

                chosen = take_rows(self._source.observation_space, batch, wanted)
                entries.append((t, slots[wanted], self._valued(state)(slots[wanted], chosen)))
        return entries

    def _valued(self, state: Any) -> Any:
        """A function of slots and their observations: the values, from this state."""

        def values(slots: Indices, observations: Any) -> NDArray[Any]:
            begun = perf_counter()
            found = _checked_values(self._value(observations, take(state, slots)), len(slots))
            self.counters.policy_seconds += perf_counter() - begun
            return found

        return values

    def _fresh(self, num_slots: int) -> Any:
        """The state in which slots begin an episode, asked for anew since learning may change it."""
        state = self._policy.initial_state(num_slots)
        check_state(state, num_slots, "initial_state")
        return state

    def _keep_states(self, recording: Recording) -> None:
        """Keep the state before the row to come, where somebody may ask for it."""
        if self._state is None:
            return
        if recording.t == 0:
            recording.keep_state(self._every, copy(self._state))
            return
        wanted = self._starts
        if self._stride is not None:
            wanted = wanted | (self._count_steps() % self._stride == 0)
        slots = np.flatnonzero(wanted)
        if len(slots):
            recording.keep_state(slots, take(self._state, slots))

    def _count_steps(self) -> NDArray[np.int64]:
        """The step_index of each slot's row to come."""
        if self._uncounted:
            self._steps += self._uncounted
            self._uncounted = 0
        return self._steps

    def _begin_row(self, recording: Recording) -> None:
        """Let the row to come begin with what the slots show now."""
        recording.first(self._observations, self._starts)
        self._keep_states(recording)

    def _new_recording(self) -> Recording:
        begun = self._episodes - self._starts
        return Recording(self._source, self._length, self._pool.lend(), self._infos, begun, self._count_steps().copy())

    def _finish(self, recording: Recording) -> Fragment:
        """The full fragment."""
        tail_values = None
        if self._value is not None:
            tail_values = self._valued(self._state)(self._every, self._observations)
        fragment = recording.fragment(tail_values, copy(self._state))
        self._recording = None
        self.counters.fragments += 1
        return fragment


def _checked_values(given: Any, num_slots: int) -> NDArray[Any]:
    values = as_array(given)
    if values.ndim == 0 or len(values) != num_slots:
        raise ValueError(f"value returned shape {values.shape}; expected a first axis of {num_slots} slots.")
    return values
