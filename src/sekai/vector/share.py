"""`Share`: the slots of one worker, commanded by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import Env, walk
from sekai.core.wrapper import Wrapper
from sekai.spaces import map_arrays
from sekai.vector.base import SlotVecEnv
from sekai.vector.board import PLACE, Board
from sekai.vector.building import EnvFactory
from sekai.vector.info_columns import InfoWriter
from sekai.vector.native import NativeVecEnv
from sekai.vector.outstanding import Request, Row
from sekai.vector.requests import Options, ResetRequest
from sekai.vector.results import VecStepResult
from sekai.vector.shares import cut
from sekai.vector.sync import SyncVecEnv


class StepRequest(NamedTuple):
    """One step of a share.

    Attributes:
        actions: of its slots; None: they stand on the board.
        next_options: options prepared for the next episodes of some of its slots.
    """

    actions: Any
    next_options: dict[int, Options]


class StepColumns(NamedTuple):
    """The rows of a step, of one share."""

    observations: Any
    rewards: Any
    terminated: Any
    truncated: Any
    infos: list[dict[str, Any]]
    kind: Any
    ended: Any


class ResetColumns(NamedTuple):
    """The rows of a reset, of one share; observations are None where they stand on the board."""

    observations: Any
    infos: list[dict[str, Any]]
    dones: Any


class Slots(SyncVecEnv):
    """Single environments one after another; actions have been checked by the caller."""

    #: where the next batch of observations goes; None: into new arrays
    out: Any = None

    def __init__(self, env_fns: Sequence[EnvFactory], first_slot: int, autoreset: str) -> None:
        self.first_slot = first_slot
        super().__init__(env_fns, autoreset=autoreset)

    def _checked(self, actions: Any) -> Any:
        return actions

    def _observations(self) -> Any:
        if self.out is None:
            return super()._observations()
        map_arrays(np.copyto, self.out, self._batch)
        return self.out


class Share:
    """The slots of one worker.

    Args:
        vec: what steps them.

    Attributes:
        vec: what steps them.
    """

    def __init__(self, vec: SlotVecEnv) -> None:
        self.vec = vec
        self._post: _Post | None = None

    @property
    def phase(self) -> NDArray[np.int8]:
        """Phase of each slot."""
        return self.vec.phase

    @property
    def episode(self) -> list[int]:
        """Episodes begun by each slot, less one."""
        return self.vec._episode

    def attach(self, board: Board, index: int, lo: int, asks_episodes: bool) -> None:
        """Write rows to the board from now on."""
        self._post = _Post(self.vec, board, index, lo, asks_episodes)

    def post_phases(self) -> None:
        """Write phases and episodes to the board."""
        assert self._post is not None
        self._post.phases()

    def run_facts(self, _: None) -> dict[str, Any]:
        """What the caller has to know of the share."""
        envs = getattr(self.vec, "envs", [self.vec])
        return {
            "spaces": [(env.observation_space, env.action_space) for env in envs],
            "metadata": envs[0].metadata,
            "render_mode": self.vec.render_mode,
            "layers": self.vec.layers()[1:],
            "layer_bases": self.vec.layer_bases()[1:],
            "checks_options": any(_checks_options(env) for env in envs),
        }

    def run_step(self, request: StepRequest | None) -> Any:
        """Step every slot of the share."""
        if request is not None:
            for slot, options in request.next_options.items():
                self.vec._next_options[slot] = options
        post = self._post
        if post is None:
            assert request is not None
            result = self.vec.step(request.actions)
            return StepColumns(*result[:4], list(result.infos), result.kind, result.ended)  # type: ignore[call-arg]  # a slice
        post.begin()
        actions = post.actions() if request is None or request.actions is None else request.actions
        return post.step(self.vec.step(actions))

    def step_slot(self, slot: int, action: Any, next_options: Options) -> Row:
        """Step one slot of the share.

        Args:
            slot: counted within the share.
            action: it, checked.
            next_options: options prepared for the next episode.
        """
        assert isinstance(self.vec, Slots)
        self.vec._next_options[slot] = next_options
        self.vec._note_unfinished()
        self.vec._launch({slot: Request(action)})
        return Row.of(self.vec.recv()[1])

    def run_check_options(self, request: ResetRequest) -> None:
        """Refuse options before anything moves, here or in another worker."""
        self.vec._check_options(request)  # type: ignore[attr-defined]  # of `Slots`

    def run_reset(self, request: ResetRequest) -> ResetColumns:
        """Reset the masked slots of the share."""
        if self._post is not None:
            self._post.begin()
        result = self.vec.reset(seed=request.seeds, options=request.options, mask=request.mask)
        infos = list(result.infos)
        if self._post is None:
            return ResetColumns(result.observations, infos, result.dones)
        self._post.observations(result.observations)
        return ResetColumns(None, infos, result.dones)

    def run_get_attr(self, name: str) -> list[Any]:
        """Read an attribute of every slot."""
        return self.vec.get_attr(name)

    def run_find_attr(self, name: str) -> None:
        """Raise when the attribute does not exist, before it is set anywhere."""
        self.vec.get_attr(name)

    def run_set_attr(self, request: tuple[str, list[Any]]) -> None:
        """Set an attribute of every slot."""
        self.vec.set_attr(*request)

    def run_call(self, request: tuple[list[int], str, tuple[Any, ...], dict[str, Any]]) -> list[Any]:
        """Call a method of some slots, counted within the share."""
        slots, name, args, kwargs = request
        if len(slots) == self.vec.num_envs:
            return self.vec.call(name, *args, **kwargs)
        return self._call_some(slots, name, args, kwargs)

    def _call_some(self, slots: list[int], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        assert isinstance(self.vec, Slots)
        return self.vec.call_slots(slots, name, *args, **kwargs)

    def run_close(self, _: None) -> None:
        """Close the share."""
        self.vec.close()


class NativeShare(Share):
    """The slots of one worker as one native vector environment, with one generator for all of them."""

    def run_check_options(self, request: ResetRequest) -> None:
        """Refuse options before anything moves, here or in another worker."""
        chosen = [request.options[slot] for slot in request.slots]
        self.vec._check_options(np.array(request.slots, np.intp), chosen)  # type: ignore[attr-defined]  # native

    def run_reset(self, request: ResetRequest) -> ResetColumns:
        """Reset the masked slots of the share; the first of the seeds is the seed of the share."""
        return super().run_reset(request._replace(seeds=request.seeds[0]))  # type: ignore[arg-type]

    def _call_some(self, slots: list[int], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if not slots:
            return []
        raise ValueError(f"A native shard calls {name!r} of all its sub-envs or of none; given {slots}.")


class _Post:
    """Where a share writes its rows on the board.

    Args:
        vec: what steps the slots.
        board: the board.
        index, lo: number of the worker, and its first slot.
        asks_episodes: whether the caller reads the episodes.
    """

    def __init__(self, vec: SlotVecEnv, board: Board, index: int, lo: int, asks_episodes: bool) -> None:
        hi = lo + vec.num_envs
        self._vec, self._board, self._asks_episodes = vec, board, asks_episodes
        self._place = board.at(index, PLACE)
        self._out = [map_arrays(lambda rows: rows[lo:hi], batch) for batch in board.observations]
        self._actions = None if board.actions is None else cut(vec.action_space, board.actions, lo, hi)
        self._columns: list[NDArray[Any]] = [
            column[lo:hi] for column in (board.rewards, board.terminated, board.truncated, board.kind, board.ended)
        ]
        self._phase, self._episode = board.phase[lo:hi], board.episode[lo:hi]
        self._infos = InfoWriter(board.infos[lo:hi])
        self._target: Any = None

    def begin(self) -> None:
        """Find out where the observations of this request go."""
        self._target = self._out[self._board.control[self._place]]
        if isinstance(self._vec, Slots):
            self._vec.out = self._target

    def actions(self) -> Any:
        """The actions of the share, in memory that no later call overwrites."""
        return map_arrays(np.copy, self._actions)

    def step(self, result: VecStepResult) -> Any:
        """Write the rows of a step; what is left to say of the infos."""
        self.observations(result.observations)
        columns = (result.rewards, result.terminated, result.truncated, result.kind, result.ended)
        for place, column in zip(self._columns, columns, strict=True):
            place[:] = column
        return self._infos.write(result.infos)

    def observations(self, observations: Any) -> None:
        """Write observations, unless they stand there already."""
        if observations is not self._target:
            map_arrays(np.copyto, self._target, observations)

    def phases(self) -> None:
        """Write the phases, and the episodes where the caller reads them."""
        self._phase[:] = self._vec.phase
        if self._asks_episodes:
            self._episode[:] = self._vec._episode


def _checks_options(env: Any) -> bool:
    """Whether some layer of an environment has a check of its own."""
    if not isinstance(env, Env):
        return hasattr(env, "_check_options")
    own = (type(layer).check_options for layer in walk(env) if isinstance(layer, Env))
    return any(check not in (Env.check_options, Wrapper.check_options) for check in own)


def build_slots(env_fns: Sequence[EnvFactory], autoreset: str, first_slot: int) -> Share:
    """A share of single environments."""
    return Share(Slots(env_fns, first_slot, autoreset))


def build_native(make: Callable[..., Any], count: int, autoreset: str, first_slot: int) -> Share:
    """A share that one native vector environment steps.

    Args:
        make: called as `make(num_envs=count, autoreset=autoreset)`.
        count: slots of the share.
        autoreset: the mode.
        first_slot: index of the first one.
    """
    vec = make(num_envs=count, autoreset=autoreset)
    if not isinstance(vec, NativeVecEnv):
        raise TypeError(f"A native shard is {vec!r} ({type(vec).__name__}); expected a NativeVecEnv.")
    return NativeShare(vec)
