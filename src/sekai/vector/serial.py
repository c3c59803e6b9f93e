"""Backends that hold their sub-environments in this process: what they share, and `SyncVecEnv`.

`LocalVecEnv` knows what the outcome of a call means for a slot and never calls an environment itself; `SyncVecEnv`
(one slot after another) and `AsyncVecEnv` (all at once) are thin drivers over it.

Observations live in one private batch, whose rows the slots overwrite; every result gets a copy of it. So a row
survives a call that does not touch its slot, and no environment can change a result by reusing its arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np

from sekai.core.env import Env, call_reset, call_step, find_attr, walk
from sekai.core.results import ResetResult, StepResult
from sekai.core.slots import KIND, AutoresetMode, Call, CALL_OF_PHASE, Phase, phase_after
from sekai.core.snapshot import snapshot
from sekai.core.wrapper import resets_itself
from sekai.errors import InvalidObservation, SpaceMismatch
from sekai.seeding import VecSeed
from sekai.spaces import (
    copy_batch,
    describe_mismatch,
    empty_batch,
    finish_batch,
    iterate,
    read_row,
    row_writer,
)
from sekai.vector.actions import check_actions
from sekai.vector.blame import blaming, raise_first
from sekai.vector.base import AutoresetOptions, SlotVecEnv
from sekai.vector.infos import Infos
from sekai.vector.requests import Options, ResetRequest, reset_request
from sekai.vector.results import VecResetResult, VecStepResult

EnvFactory = Callable[[], gymnasium.Env[Any, Any]]
Spaces = tuple[gymnasium.Space[Any], gymnasium.Space[Any]]


class LocalVecEnv(SlotVecEnv):
    """Sub-environments in this process; the part that does no calls.

    Attributes:
        envs: the sub-environments, in slot order.
        first_slot: index of the first one in a larger vector environment; messages count from it.
    """

    first_slot: int = 0

    def __init__(
        self, envs: list[Any], *, autoreset: Any = True, autoreset_options: AutoresetOptions | None = None
    ) -> None:
        check_equal_spaces([(env.observation_space, env.action_space) for env in envs], self.first_slot)
        super().__init__(
            len(envs),
            envs[0].observation_space,
            envs[0].action_space,
            autoreset=autoreset,
            autoreset_options=autoreset_options,
        )
        self.envs = envs
        self.metadata = {**envs[0].metadata, "autoreset_mode": self.autoreset}
        self.render_mode = envs[0].render_mode
        n = self.num_envs
        self._resets_itself = [resets_itself(env) for env in envs]
        self._batch = empty_batch(self.observation_space, n)
        self._write = row_writer(self.observation_space, first=self.first_slot)
        # flags of the latest row of each slot; the rest is filled anew by every call
        self._terminated, self._truncated = [False] * n, [False] * n
        self._rewards: list[float] = []
        self._infos: list[dict[str, Any]] = []
        self._ended: list[bool] = []
        self._failures: dict[int, Exception] = {}

    def _begin(self) -> None:
        n = self.num_envs
        self._rewards, self._infos, self._ended = [0.0] * n, [{} for _ in range(n)], [False] * n
        self._failures = {}

    def _stepped(self, slot: int, result: StepResult) -> bool:
        """Take the result of a step; True when the slot has to be reset in the same call."""
        observation, reward, terminated, truncated, info = result
        self._write(self._batch, slot, observation)
        self._rewards[slot] = reward if type(reward) is float else as_reward(reward, self.first_slot + slot)
        self._terminated[slot], self._truncated[slot] = terminated, truncated = bool(terminated), bool(truncated)
        self._infos[slot] = info = snapshot(info)
        if not (terminated or truncated):
            return False
        self._ended[slot] = True
        if self._resets_itself[slot]:
            return False
        self.phase[slot] = phase_after(Call.STEP, True, self.autoreset)
        if self.autoreset is not AutoresetMode.SAME_STEP:
            return False
        final_info = dict(info)
        info["final_observation"] = read_row(self.observation_space, self._batch, slot)
        info["final_info"] = final_info
        self.phase[slot] = Phase.NEW  # until the reset has succeeded
        return True

    def _restarted(self, slot: int, first: ResetResult) -> None:
        """Take the reset that followed the end of an episode within the same call."""
        self._write(self._batch, slot, first.observation)
        self._infos[slot]["reset_info"] = snapshot(first.info)
        self.phase[slot] = Phase.LIVE
        self._episode_began(slot)

    def _was_reset(self, slot: int, first: ResetResult) -> None:
        """Take a reset that is a row of its own."""
        self._write(self._batch, slot, first.observation)
        self._terminated[slot] = self._truncated[slot] = False
        self._infos[slot] = snapshot(first.info)
        self.phase[slot] = Phase.LIVE
        self._episode_began(slot)

    def _named(self, errors: dict[int, Exception]) -> dict[int, Exception]:
        """Errors by the index that messages use."""
        return {self.first_slot + slot: error for slot, error in errors.items()}

    def _failed(self, slot: int, error: Exception) -> None:
        self._failures[slot] = error

    def _finish_step(self, calls: list[Call]) -> VecStepResult:
        """The result of a call, or the first failure in it."""
        seen = self.lost_rows
        self._lose(calls)
        if self._failures:
            raise_first(self._named(self._failures))
        self._ask_options()
        self.lost_rows = np.zeros(self.num_envs, bool)
        kinds = [
            KIND[call][terminated][truncated][lost]
            for call, terminated, truncated, lost in zip(
                calls, self._terminated, self._truncated, seen.tolist(), strict=True
            )
        ]
        return VecStepResult(
            self._observations(),
            np.array(self._rewards, np.float64),
            np.array(self._terminated, bool),
            np.array(self._truncated, bool),
            Infos(self._infos),
            kind=np.array(kinds, np.int8),
            ended=np.array(self._ended, bool),
            space=self.observation_space,
        )

    def _lose(self, calls: list[Call]) -> None:
        """Note that nobody may come to see the rows of these calls, given for the first slots."""
        lost = self.lost_rows.copy()
        lost[: len(calls)] |= [call != Call.HOLD for call in calls]
        self.lost_rows = lost

    def _begin_reset(self, seed: VecSeed, options: Any, mask: Any) -> ResetRequest:
        self._require_open()
        request = reset_request(seed, options, mask, self.num_envs)
        self._require_rest_started(request.mask)
        self._check_options(request)
        self._begin()
        return request

    def _check_options(self, request: ResetRequest) -> None:
        """Let environments that can refuse options do so before anything moves."""
        refused: dict[int, Exception] = {}
        for slot in request.slots:
            env = self.envs[slot]
            if isinstance(env, Env):
                try:
                    env.check_options(request.options[slot])
                except Exception as error:
                    refused[slot] = error
        if refused:
            raise_first(self._named(refused))

    def _finish_reset(self, request: ResetRequest) -> VecResetResult:
        done = [slot for slot in request.slots if slot not in self._failures]
        self.lost_rows[done] = False
        if self._failures:
            raise_first(self._named(self._failures), "needs a reset")
        self._ask_options()
        return VecResetResult(self._observations(), Infos(self._infos), self.phase >= Phase.WAITING)

    def _observations(self) -> Any:
        """The latest row of every slot, in a batch of its own."""
        return finish_batch(self.observation_space, copy_batch(self.observation_space, self._batch))

    def _begin_step(self, actions: Any) -> tuple[list[Call], Iterable[Any]]:
        self._require_steppable()
        batch = check_actions(self.action_space, actions, self.num_envs)
        self._begin()
        return [CALL_OF_PHASE[phase] for phase in self.phase.tolist()], iterate(self.action_space, batch)

    def get_attr(self, name: str) -> list[Any]:
        """`name` of every sub-environment, looked for through its layers."""
        self._require_open()
        return self._each(lambda slot: find_attr(self.envs[slot], name)[1])

    def set_attr(self, name: str, value: Any) -> None:
        """Set `name` on the layer of each sub-environment that has it."""
        self._require_open()
        values = self._slot_values(value)
        layers = self._each(lambda slot: find_attr(self.envs[slot], name)[0])
        self._each(lambda slot: setattr(layers[slot], name, values[slot]))

    def call(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call `name` on every sub-environment, or read it where it is not callable."""
        self._require_open()

        def one(slot: int) -> Any:
            attribute = find_attr(self.envs[slot], name)[1]
            return attribute(*args, **kwargs) if callable(attribute) else attribute

        return self._each(one)

    def _each(self, function: Callable[[int], Any]) -> list[Any]:
        results = []
        for slot in range(self.num_envs):
            with blaming(self.first_slot + slot):
                results.append(function(slot))
        return results

    def layers(self) -> list[str]:
        """This class, then the layers of the first sub-environment."""
        return [type(self).__name__, *(type(layer).__name__ for layer in walk(self.envs[0]))]

    def close(self) -> None:
        """Close every sub-environment; the first error is raised when all are closed."""
        if self.closed:
            return
        self.closed = True
        close_all(self.envs)


class SyncVecEnv(LocalVecEnv):
    """Sub-environments stepped one after another, in this process.

    Args:
        env_fns: one zero-argument callable per sub-environment.
        autoreset: True or `"same_step"`, `"next_step"`, False or `"disabled"`, see `AutoresetMode`.
        autoreset_options: called as `(slot, episode)` when an episode starts; returns the options of the next one.

    Raises:
        SpaceMismatch: the sub-environments' spaces differ.
        ValueError: no factory, or two that return the same object.
    """

    def __init__(
        self,
        env_fns: Iterable[EnvFactory],
        *,
        autoreset: Any = True,
        autoreset_options: AutoresetOptions | None = None,
    ) -> None:
        with building(env_fns, self.first_slot) as envs:
            super().__init__(envs, autoreset=autoreset, autoreset_options=autoreset_options)

    def step(self, actions: Any) -> VecStepResult:
        """Step the slots in order. An exception of one lets the others finish and is raised at the end."""
        calls, batch = self._begin_step(actions)
        envs, slot = self.envs, 0
        try:
            for slot, (call, action) in enumerate(zip(calls, batch, strict=True)):
                try:
                    if call == Call.STEP:
                        if self._stepped(slot, call_step(envs[slot], action)):
                            self._restarted(slot, call_reset(envs[slot], None, self._next_options[slot]))
                    elif call == Call.RESET:
                        self.phase[slot] = Phase.NEW  # until the reset has succeeded
                        self._was_reset(slot, call_reset(envs[slot], None, self._next_options[slot]))
                except Exception as error:
                    self._failed(slot, error)
        except BaseException:
            self._lose(calls[: slot + 1])
            raise
        return self._finish_step(calls)

    def reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Reset the slots in order. An exception of one lets the others finish and is raised at the end."""
        request = self._begin_reset(seed, options, mask)
        for slot in request.slots:
            self.phase[slot] = Phase.NEW  # until the reset has succeeded
            try:
                self._was_reset(slot, call_reset(self.envs[slot], request.seeds[slot], request.options[slot]))
            except Exception as error:
                self._failed(slot, error)
        return self._finish_reset(request)


@contextmanager
def building(env_fns: Iterable[EnvFactory], first_slot: int = 0) -> Iterator[list[Any]]:
    """Build the sub-environments; close those already built when anything fails before the end of the block."""
    envs: list[Any] = []
    try:
        for slot, env_fn in enumerate(check_factories(env_fns)):
            with blaming(first_slot + slot):
                envs.append(check_new_env(env_fn(), envs, first_slot))
        yield envs
    except BaseException as error:
        try:
            close_all(envs)
        except Exception as secondary:  # the first error is the one that matters
            error.add_note(f"Closing the sub-envs that had been built also failed: {secondary!r}")
        raise


def check_factories(env_fns: Iterable[EnvFactory]) -> list[EnvFactory]:
    """The factories as a list.

    Raises:
        TypeError: an entry that cannot be called.
        ValueError: no entry.
    """
    factories = list(env_fns)
    if not factories:
        raise ValueError("A vector environment needs at least one sub-env; given no factories.")
    for slot, factory in enumerate(factories):
        if isinstance(factory, gymnasium.Env) or not callable(factory):
            raise TypeError(f"env_fns[{slot}] is {factory!r}; expected a callable without arguments that builds an env.")
    return factories


def check_new_env(env: Any, others: Sequence[Any], first_slot: int = 0) -> Any:
    """What a factory returned.

    Raises:
        TypeError: no single environment.
        ValueError: the same object as an earlier factory's.
    """
    if not isinstance(env, gymnasium.Env):
        raise TypeError(f"The factory returned {env!r} ({type(env).__name__}); expected a single environment.")
    for slot, other in enumerate(others):
        if env is other or env.unwrapped is other.unwrapped:
            raise ValueError(
                f"The factory returned the environment of sub-env {first_slot + slot} again; build a new one each time."
            )
    return env


def check_equal_spaces(spaces: Sequence[Spaces], first_slot: int = 0) -> None:
    """Raise `SpaceMismatch` when the (observation, action) spaces of a sub-environment differ from the first's."""
    for slot, pair in enumerate(spaces):
        for kind, expected, given in zip(("observation", "action"), spaces[0], pair, strict=True):
            problem = describe_mismatch(expected, given)
            if problem is not None:
                raise SpaceMismatch(
                    f"The {kind} space of sub-env {first_slot + slot} differs from that of sub-env {first_slot}: "
                    f"{problem}"
                )


def as_reward(reward: Any, slot: int) -> float:
    """A scalar, 0-d or `(1,)` reward as a float.

    Raises:
        InvalidObservation: anything else; the message names the sub-environment.
    """
    if isinstance(reward, (int, float, np.integer, np.floating, np.bool_)):
        return float(reward)
    array = np.asarray(reward)
    if array.shape not in ((), (1,)) or array.dtype.kind not in "biuf":
        raise InvalidObservation(
            f"sub-env {slot} returned the reward {reward!r} (shape {array.shape}); expected one number."
        )
    return float(array.reshape(()))


def close_all(envs: Sequence[Any]) -> None:
    """Close all; raise the first error when all have been tried."""
    errors: dict[int, Exception] = {}
    for slot, env in enumerate(envs):
        try:
            env.close()
        except Exception as error:
            errors[slot] = error
    if errors:
        raise_first(errors)
