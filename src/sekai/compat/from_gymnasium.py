"""`from_gymnasium_vector`: a gymnasium vector environment as a sekai one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from sekai.compat.vector_infos import to_rows
from sekai.core.env import find_in
from sekai.core.slots import AutoresetMode, Call, Phase, calls_of, kinds_of, phases_after
from sekai.errors import InvalidObservation
from sekai.seeding import VecSeed
from sekai.spaces import concatenate, copy_batch, copy_rows, finish_batch, read_row, take_rows
from sekai.vector import Infos, VecResetResult, VecStepResult
from sekai.vector.actions import check_actions
from sekai.vector.arrays import ArrayVecEnv
from sekai.vector.exclusive import exclusive, exclusive_step
from sekai.vector.infos import same_value
from sekai.vector.outputs import check_batch, check_column
from sekai.vector.requests import ResetRequest, reset_request

#: what gymnasium's vector wrappers add to a row that ends an episode: no part of the reset's info
_OF_THE_END = ("episode",)
Outcome = tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Any]
_FINAL = ("final_obs", "_final_obs", "final_info", "_final_info")


def from_gymnasium_vector(env: VectorEnv[Any, Any, Any], *, autoreset: Any = None) -> FromGymnasiumVector:
    """A sekai vector environment over a gymnasium one, in its autoreset mode.

    Presence masks are honoured: an entry that gymnasium left unfilled is never read. An int seed becomes one
    independent seed per slot where gymnasium's `SyncVectorEnv` and `AsyncVectorEnv` are beneath; other environments
    get it as it is.

    In disabled mode gymnasium steps no slot whose episode has ended, so while others go on such a slot runs hidden
    episodes, whose rows nobody sees; its stream of random numbers moves on with them.

    Args:
        env: the vector environment, wrapped or not.
        autoreset: its mode, where `env.metadata["autoreset_mode"]` does not say.

    Raises:
        TypeError: no `gymnasium.vector.VectorEnv`.
        ValueError: the mode is not known, or two different ones are stated.

        >>> vec = from_gymnasium_vector(gymnasium.make_vec("CartPole-v1", num_envs=2))
    """
    if not isinstance(env, VectorEnv):
        advice = " Around one environment use sekai.FromGymnasium." if isinstance(env, gymnasium.Env) else ""
        raise TypeError(
            f"from_gymnasium_vector takes a gymnasium.vector.VectorEnv; given {env!r} ({type(env).__name__}).{advice}"
        )
    stated = env.metadata.get("autoreset_mode")
    if stated is None and autoreset is None:
        raise ValueError(
            f"{env} does not say when it resets (metadata['autoreset_mode']): give autoreset='next_step', 'same_step' "
            "or 'disabled', as its documentation has it."
        )
    mode = AutoresetMode.parse(stated if autoreset is None else autoreset)
    if stated is not None and AutoresetMode.parse(stated) is not mode:
        raise ValueError(f"autoreset is {autoreset!r}, and {env} says {stated}: leave autoreset out.")
    return FromGymnasiumVector(env, mode)


class FromGymnasiumVector(ArrayVecEnv):
    """Made by `from_gymnasium_vector`.

    Attributes:
        env: the gymnasium vector environment.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], mode: AutoresetMode) -> None:
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space, autoreset=mode)
        self.env = env
        self.metadata = {**env.metadata, "autoreset_mode": mode}
        self.render_mode, self.spec = env.render_mode, env.spec
        self._takes_lists = isinstance(env.unwrapped, (SyncVectorEnv, AsyncVectorEnv))
        self._flags = np.zeros((2, self.num_envs), bool)
        self._batch: Any = None  # the latest rows, as they were shown
        self._raw: Any = None  # the latest batch of the environment
        self._over = np.zeros(self.num_envs, bool)  # disabled mode: slots that the environment will not step
        self._last_actions: Any = None

    # ---- reset ---------------------------------------------------------------------------------

    @exclusive
    def reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Start new episodes; see `VecEnv.reset`.

        Raises:
            ValueError: other options for one slot than for another: gymnasium takes one dict for all.
            RuntimeError: the environment ignored the mask and reset other slots too; all need a reset now.
        """
        self._require_open()
        request = reset_request(seed, options, mask, self.num_envs)
        self._require_rest_started(request.mask)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if request.slots:
            chosen = self._one_dict(request)
            self.lose_rows(request.mask)  # until the caller has the first rows
            raw, columns = self._reset(request.mask, self._gymnasium_seed(seed, request), chosen)
            infos = to_rows(columns, request.mask)
            self._show(raw, ~request.mask)
            self.phase[request.mask] = Phase.LIVE
            self._episodes_began(request.slots)
        result = VecResetResult(self._shown(), Infos.of(infos), self.phase >= Phase.WAITING)
        self._lost = self._lost & ~request.mask
        return result

    def _reset(self, mask: NDArray[np.bool_], seed: Any, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """Reset some slots of the environment."""
        if not mask.all():
            options = {**(options or {}), "reset_mask": mask.copy()}
        raw, columns = self._asked("reset", lambda: self.env.reset(seed=seed, options=options))
        rest = np.flatnonzero(~mask)
        space = self.observation_space
        if len(rest) and not same_value(take_rows(space, raw, rest), take_rows(space, self._raw, rest)):
            self.phase[:] = Phase.NEW
            raise RuntimeError(
                f"{self.env} ignores options['reset_mask'] and has reset other slots too: reset all slots together, "
                "or use an environment that resets by itself."
            )
        self._raw = raw
        self._over = self._over & ~mask
        return raw, columns

    def _gymnasium_seed(self, seed: VecSeed, request: ResetRequest) -> Any:
        return request.seeds if self._takes_lists else seed

    def _one_dict(self, request: ResetRequest) -> dict[str, Any] | None:
        first, *others = (request.options[slot] for slot in request.slots)
        for slot, entry in zip(request.slots[1:], others, strict=True):
            if not same_value(entry, first):
                raise ValueError(
                    f"The options of sub-env {slot} differ from those of sub-env {request.slots[0]}, and gymnasium "
                    "takes one dict for all slots: reset them in turns, with mask=."
                )
        return first

    # ---- step ----------------------------------------------------------------------------------

    @exclusive_step
    def step(self, actions: Any) -> VecStepResult:
        """Step every slot; see `VecEnv.step`."""
        self._require_open()
        self._note_unfinished()
        self._require_started()
        batch = check_actions(self.action_space, actions, self.num_envs)
        calls = calls_of(self.phase)
        stepped, held = calls == Call.STEP, calls == Call.HOLD
        if not stepped.all() and self._last_actions is not None:
            copy_rows(batch, self._last_actions, np.flatnonzero(~stepped))  # what was given there is ignored
        self._last_actions = batch
        self._unfinished = ~held
        outcome = self._nothing() if held.all() else self._step(finish_batch(self.action_space, batch))
        raw, rewards, terminated, truncated, columns = outcome
        self._check_resets(calls == Call.RESET, terminated | truncated)
        self._raw = raw
        if self.autoreset is AutoresetMode.DISABLED:
            self._over = terminated | truncated
        terminated, truncated = np.where(stepped, (terminated, truncated), self._flags & held)
        ended = stepped & (terminated | truncated)
        infos = self._infos(columns, ~held, ended)
        self._show(raw, held)
        self._flags = np.stack((terminated, truncated))
        self.phase[:] = phases_after(calls, ended, self.autoreset)
        lost, self._lost = self._lost, self._none_lost
        return VecStepResult(
            self._shown(),
            np.where(stepped, rewards, 0.0),
            terminated,
            truncated,
            Infos.of(infos),
            kind=kinds_of(calls, terminated, truncated, lost),
            ended=ended,
            space=self.observation_space,
        )

    def _nothing(self) -> Outcome:
        """Of a call in which every slot is frozen."""
        zeros = np.zeros(self.num_envs)
        return self._raw, zeros, self._over, zeros.astype(bool), {}

    def _step(self, actions: Any) -> Outcome:
        if self._over.any():  # hidden episodes of frozen slots, so that the others can go on
            self._reset(self._over, None, None)
        raw, rewards, terminated, truncated, columns = self._asked("step", lambda: self.env.step(actions))
        check_column(rewards, self.num_envs, "fiu", f"{self.env}.step(): rewards")
        check_column(terminated, self.num_envs, "b", f"{self.env}.step(): terminated")
        check_column(truncated, self.num_envs, "b", f"{self.env}.step(): truncated")
        return raw, rewards.astype(np.float64), terminated.copy(), truncated.copy(), columns

    def _asked(self, what: str, call: Any) -> tuple[Any, ...]:
        """What the environment returned, its observations copied; after an error every slot needs a reset."""
        try:
            raw, *rest = call()
            check_batch(self.observation_space, raw, self.num_envs, f"{self.env}.{what}()")
        except BaseException:
            self.phase[:] = Phase.NEW  # which slots have moved is not known
            raise
        return finish_batch(self.observation_space, copy_batch(self.observation_space, raw)), *rest

    def _check_resets(self, reset: NDArray[np.bool_], done: NDArray[np.bool_]) -> None:
        wrong = np.flatnonzero(reset & done).tolist()
        if wrong:
            self.phase[:] = Phase.NEW
            raise InvalidObservation(
                f"{self.env} ended the episodes of sub-envs {wrong} in the call that reset them; it does not keep to "
                "autoreset mode next_step."
            )

    def _infos(self, columns: Any, present: NDArray[np.bool_], ended: NDArray[np.bool_]) -> list[dict[str, Any]]:
        if self.autoreset is not AutoresetMode.SAME_STEP or not ended.any():
            return to_rows(columns, present)
        rows = to_rows({key: value for key, value in columns.items() if key not in _FINAL}, present)
        last = dict(self._last_observations(columns, ended))
        final_infos = to_rows({key: columns[key] for key in _FINAL[2:] if key in columns}, ended)
        for slot, observation in last.items():
            final_info = final_infos[slot].get("final_info", {})
            added = {key: rows[slot].pop(key) for key in _OF_THE_END if key in rows[slot]}
            of_a_reset = {"final_observation": observation, "final_info": final_info, "reset_info": rows[slot]}
            rows[slot] = {**final_info, **added, **of_a_reset}
        return rows

    def _last_observations(self, columns: Any, ended: NDArray[np.bool_]) -> Iterator[tuple[int, Any]]:
        """The last observation of every slot that ended, in the dtype of the space."""
        space, slots = self.observation_space, np.flatnonzero(ended)
        given, mask = columns.get("final_obs"), columns.get("_final_obs", ended)
        missing = slots.tolist() if given is None else np.flatnonzero(ended & ~mask).tolist()
        if missing:
            self.phase[:] = Phase.NEW
            raise InvalidObservation(
                f"The episodes of sub-envs {missing} have ended, and the infos of {self.env} hold no 'final_obs' for "
                "them, as autoreset mode same_step needs."
            )
        if isinstance(given, np.ndarray):
            rows = [given[slot] for slot in slots.tolist()]
        else:  # a batch in the structure of the space
            rows = [read_row(space, given, slot) for slot in slots.tolist()]
        batch = concatenate(space, rows)
        for place, slot in enumerate(slots.tolist()):
            yield slot, read_row(space, batch, place)

    def _show(self, raw: Any, kept: NDArray[np.bool_]) -> None:
        """Let the latest rows be those of `raw`, but for the slots of `kept`."""
        batch = copy_batch(self.observation_space, raw)
        if self._batch is not None and kept.any():
            copy_rows(batch, self._batch, np.flatnonzero(kept))
        self._batch = finish_batch(self.observation_space, batch)

    def _shown(self) -> Any:
        return finish_batch(self.observation_space, copy_batch(self.observation_space, self._batch))

    # ---- sub-environments ----------------------------------------------------------------------

    def get_attr(self, name: str) -> list[Any]:
        """`name` of every sub-environment, or of the environment itself where it has no such objects."""
        self._require_open()
        base: Any = self.env.unwrapped
        return list(base.get_attr(name)) if hasattr(base, "get_attr") else super().get_attr(name)

    def set_attr(self, name: str, value: Any) -> None:
        """Set an existing attribute: one value for every slot, or a list of `num_envs` values."""
        self._require_open()
        base: Any = self.env.unwrapped
        if not hasattr(base, "set_attr"):
            super().set_attr(name, value)
            return
        values = self._slot_values(value)
        base.get_attr(name)  # gymnasium would make a new attribute of a misspelt name
        base.set_attr(name, values)

    def call(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of every sub-environment, or of the environment itself where it has no such objects."""
        self._require_open()
        base: Any = self.env.unwrapped
        if hasattr(base, "call"):
            return list(base.call(name, *args, **kwargs))
        return super().call(name, *args, **kwargs)

    def _find(self, name: str) -> tuple[Any, Any]:
        return find_in(list(self._walk()), name, self.env)

    def _walk(self) -> Iterator[VectorEnv[Any, Any, Any]]:
        env: VectorEnv[Any, Any, Any] = self.env
        yield env
        while isinstance(env, VectorWrapper):
            env = env.env
            yield env

    def layers(self) -> list[str]:
        """This class, then gymnasium's vector wrappers and the environment within."""
        return [type(self).__name__, *(type(layer).__name__ for layer in self._walk())]

    def render(self) -> list[Any]:
        """One frame per sub-environment."""
        return list(self.env.render() or ())

    def close(self) -> None:
        """Close the environment."""
        if not self.closed:
            self.closed = True
            self.env.close()
