"""`VecEnv`: the contract that every backend keeps.

`N` sub-environments, called slots where their state is meant. A backend implements the methods that begin with an
underscore; the public ones check what was given, keep the bookkeeping of `core.slots` and hand out results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from threading import RLock
from typing import Any, Self

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.core.env import drop_stale_twins
from sekai.core.slots import AutoresetMode, Phase
from sekai.errors import ResetRequired, VecEnvClosed
from sekai.seeding import VecSeed
from sekai.spaces import batch_space, readable
from sekai.spaces.checks import whole_number
from sekai.vector.requests import Options, check_options
from sekai.vector.results import VecResetResult, VecStepResult

AutoresetOptions = Callable[[int, int], Options]


class VecEnv(ABC):
    """`num_envs` copies of an environment, stepped together.

    Attributes:
        num_envs: number of sub-environments.
        observation_space: space of one sub-environment's observation.
        action_space: space of one sub-environment's action.
        batch_observation_space: space of a batch of observations.
        batch_action_space: space of a batch of actions.
        autoreset: when a slot whose episode has ended is reset, see `AutoresetMode`.
        lost_rows: bool `(num_envs,)`, slots whose last row the caller never saw (an exception, an interrupt).
        spec: the registry entry it was made from, or None.
        metadata: `metadata` of the sub-environments.
        render_mode: how the sub-environments render, or None.
        closed: whether `close` has been called.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        drop_stale_twins(cls, VecEnv)

    num_envs: int
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    batch_observation_space: gymnasium.Space[Any]
    batch_action_space: gymnasium.Space[Any]
    autoreset: AutoresetMode
    spec: Any = None
    metadata: dict[str, Any]
    render_mode: str | None = None
    closed: bool = False

    @property
    def unwrapped(self) -> VecEnv:
        """The innermost vector environment."""
        return self

    @property
    def busy(self) -> bool:
        """Whether a call from another thread or task is in progress."""
        return False

    @property
    def has_autoreset_options(self) -> bool:
        """Whether the innermost vector environment gives options to the episodes that it begins by itself."""
        return False if self.unwrapped is self else self.unwrapped.has_autoreset_options

    @abstractmethod
    def reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Start new episodes.

        Args:
            seed: an int spawns one independent seed per slot; a list gives one seed per slot, None among them
                continuing that slot's stream; None continues every stream.
            options: one dict for every slot, or a list with one per slot.
            mask: bool `(num_envs,)`, the slots to reset; by default all. The others keep their state and their
                latest row.

        Raises:
            VecEnvClosed: after `close`.
            ResetRequired: a slot outside the mask has never been reset; nothing moves.
            TypeError, ValueError: an argument of the wrong type or length; nothing moves.
        """

    @abstractmethod
    def step(self, actions: Any) -> VecStepResult:
        """Step every slot, as its state and the autoreset mode have it.

        Args:
            actions: a batch in the shape of `batch_action_space`, or a list with one action per slot.

        Raises:
            VecEnvClosed: after `close`.
            ResetRequired: some slot needs a reset first; nothing moves.
            InvalidAction: the batch does not fit; nothing moves.
        """

    def step_into(self, actions: Any, observations: Any) -> VecStepResult:
        """`step`, which may write the observations into arrays of the caller's instead of new ones.

        A native environment does so where it can. Any other, and a wrapper, returns arrays of its own, as `step` does.
        `result.observations is observations` says which it was. What the arrays hold is undefined where it was not,
        and after an exception.

        Args:
            actions: as for `step`.
            observations: a batch as `batch_observation_space` has it, in C-contiguous arrays. It is written to during
                this call only.

        Raises:
            ValueError: a batch that does not fit; nothing moves.
            Exception: what `step` raises.
        """
        return self.step(actions)

    def send(self, actions: Any, slots: Any) -> None:
        """Begin to step some slots; `recv` returns their rows.

        So slow sub-environments do not hold up fast ones: send each slot its next action as soon as its row is there. A
        slot takes one action at a time. What a step does to a slot is what `step` does. In `SyncVecEnv` the slots are
        stepped before this returns.

        Args:
            actions: a batch of one action per entry of `slots`, as `step` takes it.
            slots: which slots, ints `(k,)`.

        Raises:
            VecEnvBusy: a slot whose row has not been received.
            ResetRequired: a slot that needs a reset first.
            InvalidAction: the actions do not fit.
            TypeError, ValueError: slots that do not exist, or one that is given twice.
            NotImplementedError: this backend, or a wrapper, only steps all slots together.

        With any of these nothing moves.
        """
        raise NotImplementedError(
            f"{self} steps all its sub-envs together: call step(), or use SyncVecEnv, AsyncVecEnv or ProcVecEnv."
        )

    def recv(self, min_slots: int = 1, timeout: float | None = None) -> tuple[NDArray[np.intp], VecStepResult]:
        """The rows of slots that were sent an action, as soon as `min_slots` of them are there.

        Args:
            min_slots: how many rows to wait for, from 1 to the number of outstanding slots. All that are there by then
                are returned.
            timeout: seconds to wait; None: as long as it takes.

        Returns:
            The slots `(k,)` in the order in which they were ready, and a result of `k` rows in that order: row `j`,
            its info and `result.final_observation(j)` belong to slot `slots[j]`.

        Raises:
            ValueError: more than there are outstanding, or none is.
            TimeoutError: too few rows by then; nothing is lost, a later call returns them.
            Exception: what a sub-environment raised (`VecEnvWorkerError` from another process). Its slot is outstanding
                no more and its next row is lost; the rows of the others come with the next call.
            NotImplementedError: see `send`.
        """
        raise NotImplementedError(f"{self} steps all its sub-envs together: call step().")

    @property
    def outstanding(self) -> NDArray[np.bool_]:
        """Slots that were sent an action whose row has not been received, bool `(num_envs,)`."""
        return np.zeros(self.num_envs, bool)

    async def async_reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Awaitable `reset`; by default it calls `reset`."""
        return self.reset(seed=seed, options=options, mask=mask)

    async def async_step(self, actions: Any) -> VecStepResult:
        """Awaitable `step`; by default it calls `step`."""
        return self.step(actions)

    @abstractmethod
    def get_attr(self, name: str) -> list[Any]:
        """`name` of every sub-environment, looked for through its layers.

        Raises:
            AttributeError: no layer has it; the message lists close matches.
        """

    @abstractmethod
    def set_attr(self, name: str, value: Any) -> None:
        """Set an existing attribute: one value for every slot, or a list of `num_envs` values.

        Raises:
            AttributeError: no layer has it, or it cannot be set; nothing is set.
            ValueError: a list of another length.
        """

    @abstractmethod
    def call(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of every sub-environment (or read the attribute when it is not callable)."""

    @abstractmethod
    def layers(self) -> list[str]:
        """Class names of the vector wrappers, of this class and of a sub-environment's layers, outermost first."""

    def layer_bases(self) -> list[list[str]]:
        """Of each of `layers()` the name of its class, then those of the classes it derives from, where they are known.

        So a layer in another process is recognised by what it is, also where its class has a name of its own.
        """
        return [[name] for name in self.layers()]

    @property
    @abstractmethod
    def lost_rows(self) -> NDArray[np.bool_]:
        """Slots whose last row the caller never saw, bool `(num_envs,)`."""

    @abstractmethod
    def lose_rows(self, slots: NDArray[np.bool_]) -> None:
        """Note that nobody came to see the latest rows of these slots, bool `(num_envs,)`; see `lost_rows`."""

    def render(self) -> list[Any]:
        """One frame per sub-environment, as its `render_mode` has it."""
        return self.call("render")

    @abstractmethod
    def close(self) -> None:
        """Release everything; further calls do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.num_envs

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_envs={self.num_envs})"


class SlotVecEnv(VecEnv):
    """Shared state of the backends: spaces, phases, lost rows, options prepared for the next episode.

    Attributes:
        phase: int8 `(num_envs,)` of `Phase`.
    """

    _awaited = False  # an awaitable call is in progress, see `exclusive`
    _unfinished: Any = None  # what a step whose result has not been handed out was doing, see `_moved`

    def __init__(
        self,
        num_envs: int,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        *,
        autoreset: Any = True,
        autoreset_options: AutoresetOptions | None = None,
    ) -> None:
        self.num_envs = whole_number("num_envs", num_envs, minimum=1)
        self.autoreset = AutoresetMode.parse(autoreset)
        if autoreset_options is not None and not callable(autoreset_options):
            raise TypeError(f"autoreset_options is {autoreset_options!r}; expected a function of (slot, episode).")
        if autoreset_options is not None and self.autoreset is AutoresetMode.DISABLED:
            raise ValueError("autoreset_options was given, and autoreset is disabled: give the options to reset().")
        self.observation_space = readable(observation_space)
        self.action_space = readable(action_space)
        composite = (gymnasium.spaces.Dict, gymnasium.spaces.Tuple)
        if isinstance(self.action_space, composite) and not self.action_space.spaces:
            raise ValueError(f"The action space is {self.action_space}; expected one with at least one part.")
        self.batch_observation_space = batch_space(self.observation_space, self.num_envs)
        self.batch_action_space = batch_space(self.action_space, self.num_envs)
        self.phase = np.full(self.num_envs, Phase.NEW, np.int8)
        self._none_lost = np.zeros(self.num_envs, bool)
        self._lost = self._none_lost  # replaced, never written to
        self._episode = [-1] * self.num_envs
        self._autoreset_options = autoreset_options
        self._next_options: list[Options] = [None] * self.num_envs
        self._unasked: set[int] = set()  # slots whose next options are to be asked for
        self._lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = RLock()

    @property
    def has_autoreset_options(self) -> bool:
        """See `VecEnv.has_autoreset_options`."""
        return self._autoreset_options is not None

    @property
    def lost_rows(self) -> NDArray[np.bool_]:
        """Slots whose last row the caller never saw, bool `(num_envs,)`."""
        if not self.busy:  # what is in progress may well come to its end
            self._note_unfinished()
        return self._lost.copy()

    @property
    def busy(self) -> bool:
        """Whether a call from another thread or task is in progress."""
        if self._awaited or not self._lock.acquire(blocking=False):
            return True
        self._lock.release()
        return False

    def lose_rows(self, slots: NDArray[np.bool_]) -> None:
        """Note that nobody came to see the latest rows of these slots."""
        self._note_unfinished()
        self._lost = self._lost | slots

    def _note_unfinished(self) -> None:
        """Lose the rows of a step that did not come to its end."""
        if self._unfinished is not None:
            self._lost = self._lost | self._moved(self._unfinished)
            self._unfinished = None

    def _moved(self, unfinished: Any) -> NDArray[np.bool_]:
        """The slots that a step was moving, from what it left in `_unfinished`: here the mask itself."""
        moved: NDArray[np.bool_] = unfinished
        return moved

    def _require_received(self, slots: Iterable[int] | None = None) -> None:
        """Refuse a call that would touch slots whose row has not been received; here there are none."""

    def _finish_all(self) -> None:
        """Wait until no overlapped step is under way; here none is."""

    def _require_open(self) -> None:
        if self.closed:
            raise VecEnvClosed

    def _require_started(self) -> None:
        """Refuse a step while some slot needs a reset."""
        new = self.phase == Phase.NEW
        if new.any():
            raise ResetRequired(f"sub-envs {np.flatnonzero(new).tolist()} need a reset: call reset() before step().")

    def _require_rest_started(self, mask: NDArray[np.bool_]) -> None:
        """Refuse a partial reset that would leave a slot which never began an episode."""
        left = np.flatnonzero((self.phase == Phase.NEW) & ~mask).tolist()
        if left:
            raise ResetRequired(f"sub-envs {left} need a reset and are outside the mask: reset them as well.")

    def _episodes_began(self, slots: Sequence[int]) -> None:
        """Count episodes that have just begun; the options of the next ones are asked for by `_ask_options`."""
        episode = self._episode
        for slot in slots:
            episode[slot] += 1
        if self._autoreset_options is not None:
            self._unasked.update(slots)

    def _ask_options(self) -> None:
        """Prepare the options of the next episodes, in slot order. A slot whose question fails is asked again."""
        for slot in sorted(self._unasked.copy()):  # slots that are stepped in another thread may be added
            assert self._autoreset_options is not None
            given = self._autoreset_options(slot, self._episode[slot] + 1)
            self._next_options[slot] = check_options(given, f"autoreset_options({slot}, ...)")
            self._unasked.discard(slot)

    def _slot_values(self, value: Any) -> list[Any]:
        """The values `set_attr` was given, one per slot."""
        if not isinstance(value, list):
            return [value] * self.num_envs
        if len(value) != self.num_envs:
            raise ValueError(
                f"set_attr was given a list of {len(value)} values; expected {self.num_envs}, one per sub-env, "
                "or one value that is no list."
            )
        return value
