"""`NativeVecEnv`: all sub-environments at once, with array operations, in this process.

A subclass keeps the state of all slots in arrays with a leading `num_envs` axis and implements three hooks,
`_reset_envs`, `_observe` and `_step`. The base class does the rest: seeding, options, autoreset in every mode, the
time limit, infos, lost rows, closing. One generator, `self.rng`, serves all slots.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import (
    PHASE_AFTER_END,
    AutoresetMode,
    Call,
    Phase,
    calls_of,
    kinds_of,
    kinds_of_steps,
    phases_after,
)
from sekai.core.states import Arrays, check_like, join
from sekai.errors import InvalidObservation
from sekai.seeding import Seed, VecSeed, check_seed, slot_seeds
from sekai.spaces import copy_batch, copy_rows, empty_batch, finish_batch, read_row
from sekai.vector import states
from sekai.vector.actions import check_actions
from sekai.vector.arrays import ArrayVecEnv
from sekai.vector.base import AutoresetOptions
from sekai.vector.exclusive import exclusive, exclusive_step
from sekai.vector.infos import Infos, Part, TakenInfos
from sekai.vector.outputs import check_batch, check_column, check_info, check_target, describe
from sekai.vector.requests import ResetRequest, reset_request
from sekai.vector.results import VecResetResult, VecStepResult
from sekai.wrappers.time import check_max_episode_steps

Indices = NDArray[np.intp]


class NativeVecEnv(ArrayVecEnv):
    """Base class of native vector environments.

    Args:
        num_envs: number of slots.
        observation_space: space of one sub-environment's observation.
        action_space: space of one sub-environment's action.
        autoreset: as for `SyncVecEnv`.
        max_episode_steps: truncate every episode after so many steps and report `infos[i]["elapsed_steps"]`.
        autoreset_options: as for `SyncVecEnv`.

    Attributes:
        rng: the one generator.
        frozen: bool `(num_envs,)`, slots that have ended and wait for a reset: `_step` may leave them as they are.
        elapsed_steps: int `(num_envs,)`, steps taken in the current episode.
        max_episode_steps: the time limit, or None.
    """

    def __init__(
        self,
        num_envs: int,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        *,
        autoreset: Any = True,
        max_episode_steps: int | None = None,
        autoreset_options: AutoresetOptions | None = None,
    ) -> None:
        super().__init__(
            num_envs,
            observation_space,
            action_space,
            autoreset=autoreset,
            autoreset_options=autoreset_options,
        )
        self.max_episode_steps = max_episode_steps
        self.metadata = {**getattr(type(self), "metadata", {}), "autoreset_mode": self.autoreset}
        self.frozen = np.zeros(self.num_envs, bool)
        self.elapsed_steps = np.zeros(self.num_envs, np.int64)
        self._rng: np.random.Generator | None = None
        self._last_actions: Any = None
        self._flags = np.zeros((2, self.num_envs), bool)  # terminated, truncated of the latest rows
        self._held: Any = None  # last rows of frozen slots, in a batch
        self._into: Any = None  # where `step_into` is to write the observations, until it has taken the arrays
        self._every_slot = np.ones(self.num_envs, bool)
        self._steady = False  # every slot is live and no row was lost
        self._unchecked = {"_observe", "_step", "_reset_infos"}

    # ---- what a subclass implements ------------------------------------------------------------

    def _reset_envs(self, indices: Indices, options: list[dict[str, Any] | None]) -> None:
        """(Re)initialise the slots in `indices`, with one options dict or None per index.

        To refuse, raise before anything is changed (or in `_check_options`): the base class restores the generator,
        flags and counters, and cannot restore the arrays of a subclass.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement _reset_envs(indices, options).")

    def _observe(self) -> Any:
        """The observations of all slots, as new arrays `(num_envs, *shape)`; see `_new_observations`."""
        raise NotImplementedError(f"{type(self).__name__} must implement _observe().")

    def _step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Advance every slot; return new arrays `(rewards, terminated, truncated, infos)`.

        The first three have shape `(num_envs,)`, the infos are a dict of arrays with a leading `num_envs` axis.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement _step(actions).")

    def _reset_infos(self, indices: Indices) -> dict[str, Any]:
        """Optional: infos of slots just reset, a dict of arrays with a leading axis of `len(indices)`."""
        return {}

    def _observe_rows(self, indices: Indices, out: Any) -> None:
        """Optional: write the observations of the slots in `indices` into the batch `out`, made by `_observe`.

        Saves a second full `_observe` in calls in which episodes end.
        """
        raise NotImplementedError

    def _empty_observations(self) -> Any:
        """Optional: new arrays for `_new_observations`, faster than the base class makes them."""
        return empty_batch(self.observation_space, self.num_envs)

    def _forget_observations(self) -> None:
        """Optional: forget observations kept for the next `_observe`: they may stand in the caller's arrays."""

    def _check_options(self, indices: Indices, options: list[dict[str, Any] | None]) -> None:
        """Optional: raise for options that `_reset_envs` would refuse, before anything moves."""

    def _check_actions(self, actions: Any) -> None:
        """Optional: raise for actions that `_step` would refuse, before anything moves."""

    def _get_state(self) -> dict[str, Any]:
        """Optional, together with `_set_state`: what a subclass keeps between calls, a dict of arrays.

        The generator, counters, flags, held rows and options are the base class's own, and saved by it.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement _get_state().")

    def _set_state(self, arrays: Arrays) -> None:
        """Optional: take over what `_get_state` returned; the arrays are new ones, and may be kept.

        To refuse, raise before anything is changed (or in `_check_state`); the base class changes its own afterwards.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement _set_state(arrays).")

    def _check_state(self, arrays: Arrays) -> None:
        """Optional: raise for arrays that `_set_state` would not take, before anything changes.

        By default names, shapes and dtypes must be those of what `_get_state` returns now.
        """
        check_like(join(env=arrays), join(env=self._get_state()))

    def _new_observations(self) -> Any:
        """Arrays for `_observe` to fill and return: those that `step_into` was given, else new ones.

        A `_step` that finds the observations on its way may take them too, once in a call. A subclass that makes its
        arrays in another way is none the worse: the caller of `step_into` then copies them.
        """
        into, self._into = self._into, None
        return self._empty_observations() if into is None else into

    @property
    def max_episode_steps(self) -> int | None:
        """The time limit, or None; it may be set, and acts at the next step."""
        return self._max_episode_steps

    @max_episode_steps.setter
    def max_episode_steps(self, limit: int | None) -> None:
        self._max_episode_steps = None if limit is None else check_max_episode_steps(limit)

    # ---- state ---------------------------------------------------------------------------------

    @exclusive
    def get_state(self) -> Arrays:
        """All that the next calls depend on, as a flat dict of plain arrays that share no memory with this object.

        `np.savez(path, **state)` writes it, and `np.load(path)` reads it without pickle. An environment made of the
        same arguments that is given it by `set_state` goes on as this one does, to the bit: generator, episodes under
        way, frozen slots and their last rows, lost rows, the options prepared for the next episodes. Functions and
        files that the environment was made with are not part of it.

        Raises:
            NotImplementedError: the class lacks the hooks `_get_state` and `_set_state`.
            TypeError: something that plain arrays cannot hold: options other than plain values, actions or rows
                without a fixed size, a generator that is not NumPy's.
        """
        self._require_state_hooks()
        return states.save(self)

    @exclusive
    def set_state(self, state: Any) -> None:
        """Take over what `get_state` of an environment of the same class and arguments returned.

        Args:
            state: that dict, or what `np.load` made of it. Nothing in it is kept, only copied.

        Raises:
            NotImplementedError: the class lacks the hooks.
            TypeError, ValueError: another environment, number of slots or mode, or arrays of other names, shapes or
                dtypes; nothing has changed.
        """
        self._require_state_hooks()
        states.load(self, state)

    def _require_state_hooks(self) -> None:
        self._require_open()
        cls = type(self)
        if cls._get_state is NativeVecEnv._get_state or cls._set_state is NativeVecEnv._set_state:
            raise NotImplementedError(
                f"{cls.__name__} has state that only it knows: implement _get_state(), which returns a dict of arrays, "
                "and _set_state(arrays), which takes them over, for get_state() and set_state()."
            )

    # ---- reset ---------------------------------------------------------------------------------

    @property
    def rng(self) -> np.random.Generator:
        """The generator of all slots, made from entropy when it is first used without a seed."""
        if self._rng is None:
            self._rng = np.random.default_rng()
        return self._rng

    @exclusive
    def reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Start new episodes; see `VecEnv.reset`.

        The slots share one generator: an int seeds it, a list of `num_envs` seeds is combined into one seed.

        Raises:
            ValueError: a seed together with a partial mask, since the other slots use the same generator.
        """
        self._require_open()
        request = reset_request(None, options, mask, self.num_envs)
        self._require_rest_started(request.mask)
        self._check_native_seed(seed, request)
        if not request.slots:
            return self._reset_result(request, {})
        indices = np.array(request.slots)
        chosen = [request.options[slot] for slot in request.slots]
        self._check_options(indices, chosen)
        rng = self._rng
        state = None if rng is None else rng.bit_generator.state
        try:
            self._seed(seed)
            self._reset_envs(indices, chosen)
            infos = self._checked_reset_infos(indices)
        except BaseException as error:
            self._rng = rng
            if rng is not None and state is not None:
                rng.bit_generator.state = state
            if not isinstance(error, Exception):  # an interrupt, and not a refusal: what has moved is not known
                self.lose_rows(request.mask)
            raise
        self._begin_episodes(indices)
        self.lose_rows(request.mask)  # until the caller has the first rows
        self._ask_options()
        result = self._reset_result(request, infos)
        self._lost = self._lost & ~request.mask
        self._settle()
        return result

    def lose_rows(self, slots: NDArray[np.bool_]) -> None:
        """Note that nobody came to see the latest rows of these slots."""
        super().lose_rows(slots)
        self._steady = False

    def _check_native_seed(self, seed: VecSeed, request: ResetRequest) -> None:
        seeded = any(entry is not None for entry in slot_seeds(seed, self.num_envs))
        if seeded and not request.mask.all():
            raise ValueError(
                "A seed together with a partial mask would also change the stream of the slots outside the mask, "
                "since a native env has one generator; leave the seed out, or reset every slot."
            )

    def _seed(self, seed: VecSeed) -> None:
        if seed is None:
            return
        if isinstance(seed, (int, np.integer)):
            self._rng = np.random.default_rng(int(seed))
            return
        entries = [check_seed(entry) for entry in seed]
        if any(entry is not None for entry in entries):
            self._rng = np.random.default_rng(np.random.SeedSequence([self._entropy(entry) for entry in entries]))

    def _entropy(self, seed: Seed) -> int:
        """What one entry of a list of seeds contributes to the combined seed."""
        if isinstance(seed, int):
            return seed
        return int((self.rng if seed is None else seed).integers(2**63))

    def _begin_episodes(self, indices: Indices) -> None:
        self.phase[indices] = Phase.LIVE
        self.frozen[indices] = False
        self.elapsed_steps[indices] = 0
        self._flags[:, indices] = False
        self._episodes_began(indices.tolist())

    def _reset_result(self, request: ResetRequest, infos: dict[str, Any]) -> VecResetResult:
        waiting = self.phase >= Phase.WAITING
        if len(request.slots) == self.num_envs:
            made = Infos(self.num_envs, columns=infos)
        else:
            slots = np.array(request.slots, np.intp)
            made = Infos(self.num_envs, parts=[Part(name, values, slots) for name, values in infos.items()])
        return VecResetResult(self._observations(waiting), made, waiting)

    def _settle(self) -> None:
        self._steady = bool((self.phase == Phase.LIVE).all() and not self._lost.any())

    def _observations(self, held: NDArray[np.bool_] | None = None) -> Any:
        """The observations of all slots, those of `held` slots as they were when their episode ended."""
        batch = self._observe()
        if "_observe" in self._unchecked:
            check_batch(self.observation_space, batch, self.num_envs, f"{type(self).__name__}._observe()")
            self._unchecked.discard("_observe")
        if held is not None and held.any():
            batch = copy_batch(self.observation_space, batch)
            copy_rows(batch, self._held, np.flatnonzero(held))
            batch = finish_batch(self.observation_space, batch)
        return batch

    def _observe_again(self, indices: Indices, batch: Any) -> Any:
        """The batch after the slots in `indices` were reset; no slot is frozen in a mode that resets within `step`."""
        if type(self)._observe_rows is NativeVecEnv._observe_rows:
            return self._observations()
        self._observe_rows(indices, batch)
        return batch

    def _checked_reset_infos(self, indices: Indices) -> dict[str, Any]:
        infos = self._reset_infos(indices)
        if infos and "_reset_infos" in self._unchecked:
            for name, values in infos.items():
                check_info(values, len(indices), f"{type(self).__name__}._reset_infos()[{name!r}]")
            self._unchecked.discard("_reset_infos")
        return infos

    # ---- step ----------------------------------------------------------------------------------

    @exclusive_step
    def step(self, actions: Any) -> VecStepResult:
        """Step all slots; see `VecEnv.step`."""
        self._into = None
        return self._step_all(actions)

    @exclusive_step
    def step_into(self, actions: Any, observations: Any) -> VecStepResult:
        """Step all slots; see `VecEnv.step_into`. It is for a subclass to make use of `_new_observations`."""
        check_target(self.observation_space, observations, self.num_envs)
        if type(self).step is not NativeVecEnv.step:  # what a subclass has put around a step is not left out
            return self.step(actions)
        try:
            self._into = observations
            return self._step_all(actions)
        except BaseException:
            self._forget_observations()
            raise
        finally:
            self._into = None

    def _step_all(self, actions: Any) -> VecStepResult:
        self._require_open()
        if self._unfinished is not None:
            self._note_unfinished()
            self._steady = False
        steady = self._steady
        if not steady:
            self._require_started()
        if self._unasked:
            self._ask_options()
        batch = check_actions(self.action_space, actions, self.num_envs)
        calls = None if steady else calls_of(self.phase)
        if calls is not None:
            self._repeat_actions(batch, calls != Call.STEP)
        self._check_actions(batch)
        self._last_actions = batch
        self._steady = False  # until the call has succeeded
        self._unfinished = self._every_slot if calls is None else calls != Call.HOLD
        rewards, terminated, truncated, infos = self._checked_step(batch)
        if calls is None:
            truncated, infos = self._count_steps(True, truncated, infos)
            ended = terminated | truncated
            if not ended.any():
                self._steady = True
                return VecStepResult(
                    self._observations(),
                    rewards,
                    terminated,
                    truncated,
                    Infos(self.num_envs, columns=infos),
                    kind=np.zeros(self.num_envs, np.int8),  # RowKind.STEP
                    ended=ended,
                    space=self.observation_space,
                    plain=True,
                )
            if self.autoreset is AutoresetMode.SAME_STEP:
                return self._step_with_restarts(rewards, terminated, truncated, infos, ended)
            calls = np.full(self.num_envs, int(Call.STEP), np.int8)
            return self._step_with_ends(calls, rewards, terminated, truncated, infos, [], ended)
        stepped = calls == Call.STEP
        truncated, infos = self._count_steps(stepped, truncated, infos)
        terminated, truncated = terminated & stepped, truncated & stepped
        slots = np.flatnonzero(stepped)
        parts = [Part(name, values[slots], slots) for name, values in infos.items()]
        rewards, ended = np.where(stepped, rewards, 0.0), terminated | truncated
        return self._step_with_ends(calls, rewards, terminated, truncated, {}, parts, ended)

    def _count_steps(
        self, stepped: NDArray[np.bool_] | bool, truncated: NDArray[np.bool_], infos: dict[str, Any]
    ) -> tuple[NDArray[np.bool_], dict[str, Any]]:
        """Count the steps of the slots that took one; truncate those at the time limit, and report the count."""
        self.elapsed_steps += stepped
        if self.max_episode_steps is None:
            return truncated, infos
        late = self.elapsed_steps >= self.max_episode_steps
        return truncated | late, {**infos, "elapsed_steps": self.elapsed_steps.copy()}

    def _step_with_restarts(
        self,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        infos: dict[str, Any],
        ended: NDArray[np.bool_],
    ) -> VecStepResult:
        """The rest of a step of live slots, some of which ended and start their next episode in this very call.

        What `_step_with_ends` does in that case, in a third of the time: every slot is live before and after, and no
        row was lost, so that phases, held rows and repeated flags are as they were.
        """
        finished = np.flatnonzero(ended)
        batch, parts = self._restart(finished, self._observations(), infos, [])
        if self._unasked:
            self._ask_options()
        self._steady = True
        return VecStepResult(
            batch,
            rewards,
            terminated,
            truncated,
            Infos(self.num_envs, columns=infos, parts=parts),
            kind=kinds_of_steps(finished, terminated, truncated),
            ended=ended,
            space=self.observation_space,
        )

    def _step_with_ends(
        self,
        calls: NDArray[np.int8],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        columns: dict[str, Any],
        parts: list[Part],
        ended: NDArray[np.bool_],
    ) -> VecStepResult:
        """The rest of a step in which an episode ends, a slot waits or is frozen, or a row was lost before."""
        held = calls == Call.HOLD
        batch = self._observations(held)
        finished = np.flatnonzero(ended)
        resetting = np.flatnonzero(calls == Call.RESET)
        if len(finished) and self.autoreset is not AutoresetMode.SAME_STEP:
            self._hold(finished, batch)
        if len(resetting):
            infos = self._restart_episodes(resetting)
            batch = self._observe_again(resetting, batch)
            parts = [*parts, *(Part(name, values, resetting) for name, values in infos.items())]
        if len(finished) and self.autoreset is AutoresetMode.SAME_STEP:
            batch, parts = self._restart(finished, batch, columns, parts)
        phase = phases_after(calls, ended, self.autoreset)
        self.phase[:] = phase
        self.frozen = phase >= Phase.WAITING
        terminated, truncated = np.where(held, self._flags, (terminated, truncated))
        self._flags = np.stack((terminated, truncated))
        kind = kinds_of(calls, terminated, truncated, self._lost)
        if self._unasked:
            self._ask_options()
        self._lost = np.zeros(self.num_envs, bool)
        self._settle()
        return VecStepResult(
            batch,
            rewards,
            terminated,
            truncated,
            Infos(self.num_envs, columns=columns, parts=parts),
            kind=kind,
            ended=ended,
            space=self.observation_space,
        )

    def _restart(
        self, finished: Indices, batch: Any, columns: dict[str, Any], parts: list[Part]
    ) -> tuple[Any, list[Part]]:
        """Start the next episode of slots that ended in this call; keep their terminal rows and infos."""
        final = self._rows(batch, finished)
        final_infos = TakenInfos(Infos(self.num_envs, columns=columns, parts=parts), finished)
        infos = self._restart_episodes(finished)
        batch = self._observe_again(finished, batch)
        return batch, [
            *parts,
            Part("final_observation", final, finished),
            Part("final_info", final_infos, finished),
            Part("reset_info", Infos(len(finished), columns=infos), finished),
        ]

    def _rows(self, batch: Any, indices: Indices) -> Any:
        """Copies of some rows of a batch, one sample each."""
        if isinstance(batch, np.ndarray) and batch.ndim > 1:
            return batch[indices]
        return [read_row(self.observation_space, batch, slot) for slot in indices.tolist()]

    def _restart_episodes(self, indices: Indices) -> dict[str, Any]:
        self.phase[indices] = Phase.NEW  # until the reset has succeeded
        self._reset_envs(indices, [self._next_options[slot] for slot in indices.tolist()])
        infos = self._checked_reset_infos(indices)
        self._begin_episodes(indices)
        return infos

    def _hold(self, finished: Indices, batch: Any) -> None:
        """Let slots wait for a reset, and keep their last rows, also when another slot's autoreset then fails."""
        self.phase[finished] = PHASE_AFTER_END[self.autoreset]
        self.frozen[finished] = True
        if self._held is None:
            self._held = copy_batch(self.observation_space, batch)
        else:
            copy_rows(self._held, batch, finished)

    def _checked_step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        outputs = self._step(actions)
        if "_step" in self._unchecked and (not isinstance(outputs, tuple) or len(outputs) != 4):
            raise InvalidObservation(
                f"{type(self).__name__}._step() returned {describe(outputs)}; expected a tuple of four: rewards, "
                "terminated, truncated, infos."
            )
        rewards, terminated, truncated, infos = outputs
        if "_step" in self._unchecked:
            hook, n = f"{type(self).__name__}._step()", self.num_envs
            check_column(rewards, n, "fiu", f"{hook}: rewards")
            check_column(terminated, n, "b", f"{hook}: terminated")
            check_column(truncated, n, "b", f"{hook}: truncated")
            if not isinstance(infos, dict):
                raise InvalidObservation(f"{hook}: infos is {infos!r}; expected a dict of arrays.")
            for name, values in infos.items():
                check_info(values, n, f"{hook}: infos[{name!r}]")
            self._unchecked.discard("_step")
        if rewards.dtype != np.float64:
            rewards = rewards.astype(np.float64)
        return rewards, terminated, truncated, infos

    def _repeat_actions(self, batch: Any, resting: NDArray[np.bool_]) -> None:
        """Hand slots that are not stepped their last action again, so that what the caller gave them is ignored."""
        if self._last_actions is not None:
            copy_rows(batch, self._last_actions, np.flatnonzero(resting))

    def close(self) -> None:
        """Mark as closed; a subclass that holds resources releases them and calls this."""
        self.closed = True
