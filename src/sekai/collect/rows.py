"""What one call of a vector environment gave, whatever its kind and autoreset mode.

A `Source` makes one call and says what came of it as `Rows`. Nothing above this module knows of autoreset modes,
backends or presence masks:

    mode        the episode in a slot ends          rows.observations    rows.finals     next call
    same_step   it restarts within the call         first of the next    the last one    a transition
    next_step   it waits for the next call          the last one         -               RESET, then `starts`
    disabled    the source resets it after the      first of the next    the last one    a transition
                call (`restart="each"`), or when    the last one         -               FROZEN
                all slots have ended (`"all"`)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from sekai.core.slots import AutoresetMode, RowKind
from sekai.spaces import concatenate, copy_batch, copy_rows, finish_batch, take_rows
from sekai.vector import VecEnv, VecStepResult
from sekai.vector.infos import Infos, stack

Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
Restart: TypeAlias = Literal["each", "all"]


class Rows:
    """What a call gave, a row of each slot; how infos are read is the matter of a subclass.

    Where slots advance on their own there are `k` rows and not `N`, row `i` being of slot `slots[i]`.

    Attributes:
        observations: the batch of which each row is what a policy sees next.
        rewards: `(N,)`.
        terminated, truncated: bool `(N,)`.
        kind: int8 `(N,)` of `RowKind`.
        plain: every row is a plain step, and no slot begins an episode; what follows is then empty.
        starts: bool `(N,)`, slots whose observation is the first of an episode, or of what is left of one after a
            lost row.
        finals: `(places, batch)` pairs: which rows are transitions that led to observations that are not in
            `observations`, and these.
        slots: int `(k,)`, see above; None: all slots, in order.
    """

    plain = True
    slots: Indices | None = None
    starts: Mask | None = None
    finals: Sequence[tuple[Indices, Any]] = ()

    def __init__(
        self, observations: Any, rewards: Any, terminated: Mask, truncated: Mask, kind: NDArray[np.int8], infos: Any
    ) -> None:
        self.observations, self.rewards = observations, rewards
        self.terminated, self.truncated, self.kind = terminated, truncated, kind
        self._infos = infos

    def info(self, name: str, places: Indices) -> NDArray[Any]:
        """One info column of some rows, `(len(places), ...)`: what the step itself reported.

        Raises:
            LookupError: a slot has no such key; the message names it.
        """
        raise NotImplementedError


class Source(ABC):
    """A vector environment as a collector sees it.

    Attributes:
        num_envs: number of slots.
        observation_space, action_space: of one sub-environment.
    """

    num_envs: int
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]

    @abstractmethod
    def reset(self, seed: Any, options: Any) -> Any:
        """Start an episode in every slot; the batch of first observations."""

    @abstractmethod
    def step(self, actions: Any, into: Any = None) -> Rows:
        """One call.

        Args:
            actions: the batch.
            into: a batch that the environment may write the observations into. Where it has, it is
                `rows.observations`; else what it holds is undefined.
        """

    @abstractmethod
    def lose(self, rows: Rows | None) -> None:
        """Note that these rows could not be kept, or any that a call may have given: the next ones are LOST."""


def source_of(vec: Any, restart: Restart) -> Source:
    """The source for a vector environment.

    Args:
        vec: a `VecEnv`, or one of gymnasium's.
        restart: when slots are reset that do not reset themselves.

    Raises:
        TypeError: it is neither.
        ValueError: `restart` is unknown, or `"all"` where slots reset themselves or cannot wait.
    """
    if restart not in ("each", "all"):
        raise ValueError(f"restart is {restart!r}; expected 'each' or 'all'.")
    if isinstance(vec, VecEnv):
        if restart == "all" and vec.autoreset is not AutoresetMode.DISABLED:
            raise ValueError(
                f"restart is 'all', and the autoreset mode of {vec} is {vec.autoreset.value!r}, in which slots reset "
                "themselves; make it with autoreset=False."
            )
        return SekaiSource(vec, restart)
    if isinstance(vec, VectorEnv):
        if restart == "all":
            raise ValueError(
                "restart is 'all', and a vector environment of gymnasium refuses to step while a slot that has ended "
                "waits; leave it out."
            )
        from sekai.collect.gymnasium_rows import GymnasiumSource

        return GymnasiumSource(vec)
    raise TypeError(
        f"The vector environment is {vec!r} ({type(vec).__name__}); expected one made by sekai.make_vec, or "
        "gymnasium's. One single environment goes in as sekai.SyncVecEnv([lambda: env])."
    )


def overlapping_source_of(vec: Any, restart: Restart) -> SekaiSource:
    """The source for a vector environment whose slots advance on their own.

    Args:
        vec: a `VecEnv` that can `send` and `recv`.
        restart: as for `source_of`; `"all"` is refused, since no slot waits for all the others.

    Raises:
        TypeError: it is no vector environment.
        ValueError: it steps all its slots together, or `restart` is not `"each"`.
    """
    source = source_of(vec, restart)
    if restart == "all":
        raise ValueError(
            "restart is 'all', and min_slots was given: slots that advance on their own do not wait until all have "
            "ended. Leave out one of the two."
        )
    if not isinstance(source, SekaiSource):
        raise ValueError(
            f"min_slots was given, and {vec}, a vector environment of gymnasium, steps all its sub-envs together: "
            "leave min_slots out, or make the environments with sekai.make_vec."
        )
    try:
        vec.send([], [])  # to no slot: whoever cannot, says so
    except NotImplementedError as error:
        raise ValueError(
            f"min_slots was given, and slots cannot advance on their own; leave it out, or: {error}"
        ) from error
    return source


class SekaiRows(Rows):
    """Rows of a `VecEnv`, whose infos are `Infos`."""

    def info(self, name: str, places: Indices) -> NDArray[Any]:
        """One info column of some rows."""
        infos: Infos = self._infos
        columns = infos.stacked
        if columns is not None and name in columns:
            values = columns[name]
            return values if len(places) == len(values) else values[places]
        part = infos.part(name, places)
        if len(part.slots) != len(places):
            lacking = int(np.setdiff1d(places, part.slots)[0])
            slot = lacking if self.slots is None else int(self.slots[lacking])
            raise missing_info(name, slot, list(infos[lacking]))
        return part.values if isinstance(part.values, np.ndarray) else stack(list(part.values))


class SekaiSource(Source):
    """A `VecEnv`, in any mode."""

    def __init__(self, vec: VecEnv, restart: Restart) -> None:
        self.num_envs = vec.num_envs
        self.observation_space, self.action_space = vec.observation_space, vec.action_space
        self._vec = vec
        self._all_at_once = restart == "all"

    def reset(self, seed: Any, options: Any) -> Any:
        """Reset every slot."""
        return self._vec.reset(seed=seed, options=options).observations

    @property
    def outstanding(self) -> Mask:
        """Slots that were sent an action whose row has not been received, bool `(num_envs,)`."""
        return self._vec.outstanding

    def step(self, actions: Any, into: Any = None) -> Rows:
        """Step, and under "disabled" reset what has ended."""
        result = self._vec.step(actions) if into is None else self._vec.step_into(actions, into)
        rows = SekaiRows(
            result.observations, result.rewards, result.terminated, result.truncated, result.kind, result.infos
        )
        if not result.plain:
            try:
                self._sort(result, rows)
            except BaseException:
                self.lose(rows)
                raise
        return rows

    def send(self, actions: Any, slots: Indices) -> None:
        """Begin to step some slots."""
        self._vec.send(actions, slots)

    def recv(self, min_slots: int) -> Rows:
        """Rows of at least so many slots that were sent an action; under "disabled" what has ended is reset.

        Of an error, slots that are outstanding no more are to be noted as lost.
        """
        slots, result = self._vec.recv(min_slots)
        rows = SekaiRows(
            result.observations, result.rewards, result.terminated, result.truncated, result.kind, result.infos
        )
        rows.slots = slots
        if not result.plain:
            self._sort(result, rows)
        return rows

    def lose_slots(self, slots: Mask) -> None:
        """Note that the rows of these slots, bool `(num_envs,)`, could not be kept: the next ones are LOST."""
        self._vec.lose_rows(slots)

    def _sort(self, result: VecStepResult, rows: Rows) -> None:
        rows.plain = False
        rows.starts = result.begun | (result.kind == RowKind.RESET) | (result.kind == RowKind.LOST)
        begun = np.flatnonzero(result.begun & result.valid)
        if len(begun):
            final = result.infos.part("final_observation", begun)
            rows.finals = [(final.slots, as_batch(self.observation_space, final.values))]
        if self._vec.autoreset is AutoresetMode.DISABLED:
            self._restart(result, rows)

    def _restart(self, result: VecStepResult, rows: Rows) -> None:
        """Reset slots that have ended, when it is time."""
        waiting = result.dones & ~result.begun
        assert rows.starts is not None
        rows.starts &= ~waiting  # a lost row may have been an end
        ready = waiting.all() if self._all_at_once else waiting.any()
        if ready:
            restart_slots(rows, self.observation_space, waiting, partial(self._reset_some, rows.slots))

    def _reset_some(self, slots: Indices | None, places: Mask) -> Any:
        """What the slots of all rows of a call show, once those of some have been reset."""
        if slots is None:
            return self._vec.reset(mask=places).observations
        mask = np.zeros(self.num_envs, bool)
        mask[slots[places]] = True
        return take_rows(self.observation_space, self._vec.reset(mask=mask).observations, slots)

    def lose(self, rows: Rows | None) -> None:
        """As the wrappers do."""
        self.lose_slots(np.ones(self.num_envs, bool) if rows is None else rows.kind != RowKind.FROZEN)


def restart_slots(rows: Rows, space: gymnasium.Space[Any], waiting: Mask, reset: Callable[[Mask], Any]) -> None:
    """Reset the slots of some rows after a call: what they show then takes the place of their last observation.

    The batch is copied first, since a reset may write to the arrays of the step before it.
    """
    assert rows.starts is not None
    ended = np.flatnonzero(waiting & (rows.kind <= RowKind.TRUNCATED))
    rows.finals = [*rows.finals, (ended, take_rows(space, rows.observations, ended))]
    batch = copy_batch(space, rows.observations)
    copy_rows(batch, reset(waiting), np.flatnonzero(waiting))
    rows.observations = finish_batch(space, batch)
    rows.starts = rows.starts | waiting


def as_batch(space: gymnasium.Space[Any], values: Any) -> Any:
    """Samples of `space`, an array of rows or a list, as a batch."""
    if isinstance(values, np.ndarray) and values.dtype == space.dtype and values.ndim == len(space.shape or ()) + 1:
        return values
    return concatenate(space, list(values))


def missing_info(name: str, slot: int, there: list[str]) -> LookupError:
    """The error for an info column that a slot lacks."""
    return LookupError(
        f"infos[{slot}] has no {name!r}, which the collector was told to keep (it has {there}); a column is kept of "
        "every transition or of none."
    )
