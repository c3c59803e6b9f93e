"""Identity-coded environments: the observation of slot `s` in its episode `e` after `t` steps is `(s, e, t)`.

So a test reads off every row which slot, episode and step it belongs to. The reward of step `t` is
`10 * t + action`, with actions 0 to 9: the action that was executed stands in the last digit. Slots, episodes
and steps count from 0; `e` counts the resets since construction, and `t` starts at `options["at"]`, by default 0.

    step(1) with length 3:  (s, 0, 0) -> (s, 0, 1) -> (s, 0, 2) -> (s, 0, 3), ended
    rewards                             11           21           31
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.core import Env, ResetResult, StepResult
from sekai.errors import ResetRequired
from sekai.seeding import Seed
from sekai.spaces import Box, Discrete
from sekai.vector import NativeVecEnv

Ending: TypeAlias = Literal["terminated", "truncated", "both"]
Options: TypeAlias = dict[str, Any] | None

ENDINGS = ("terminated", "truncated", "both")


class CodedEnv(Env[NDArray[np.float64], Any]):
    """One slot of the coded environments.

    It reuses one observation array and one info dict, on purpose: whatever keeps a result without copying it is
    found out by the next call. gymnasium's checker refuses it for that, and because `e` is no matter of the seed.

    Args:
        slot: `s`, the first entry of every observation.
        length: number of steps after which an episode ends, at least 1; counted from `t = 0` whatever `at` is.
        ending: which flags are true then.
        action_space: of actions that are numbers, by default `Discrete(10)`; for instance a `Box` of shape `()`.

    Raises:
        ValueError: `length` below 1, or an unknown `ending`.
    """

    def __init__(
        self, slot: int = 0, length: int = 3, *, ending: Ending = "terminated", action_space: Any = None
    ) -> None:
        _check(length, ending)
        self.slot, self.length, self.ending = slot, length, ending
        self.episode = -1
        self.t: int | None = None
        self.observation_space = _observation_space()
        self.action_space = Discrete(10) if action_space is None else action_space
        self._observation = np.zeros(3)
        self._info: dict[str, Any] = {}

    def check_options(self, options: Options) -> None:
        """Raise `ValueError` for an `at` outside `[0, length)`."""
        _start(options, self.length)

    def reset(self, *, seed: Seed = None, options: Options = None) -> ResetResult:
        """Start an episode at `options["at"]`; the info is `{"t": t}`."""
        start = _start(options, self.length)
        self._set_rng(seed)
        self.episode += 1
        return ResetResult(*self._at(start))

    def step(self, action: Any) -> StepResult:
        """Count one step; the info is `{"t": t}`.

        Raises:
            ResetRequired: before the first reset, and after the end of an episode.
        """
        if self.t is None or self.t >= self.length:
            raise ResetRequired(f"{self} has no episode to step: call reset() first.")
        observation, info = self._at(self.t + 1)
        ended = self.t >= self.length
        return StepResult(
            observation,
            10.0 * self.t + float(action),
            ended and self.ending != "truncated",
            ended and self.ending != "terminated",
            info,
        )

    def _at(self, t: int) -> tuple[NDArray[np.float64], dict[str, Any]]:
        self.t = self._info["t"] = t
        self._observation[:] = self.slot, self.episode, t
        return self._observation, self._info


class CodedVecEnv(NativeVecEnv):
    """`num_envs` coded environments, natively: slot `s` returns what `CodedEnv(s, length, ending=ending)` does.

    Args:
        num_envs: number of slots.
        length: as for `CodedEnv`, for all slots or one per slot.
        ending: as for `CodedEnv`, for all slots or one per slot.
        action_space: as for `CodedEnv`.
        **native: what `NativeVecEnv` takes by name: `autoreset`, `max_episode_steps`, `autoreset_options`.

    Attributes:
        episode: int `(num_envs,)`, `e` of each slot, -1 before its first reset.
        t: int `(num_envs,)`, `t` of each slot.

    Raises:
        ValueError: a `length` below 1, an unknown `ending`, or not one per slot.
    """

    def __init__(
        self,
        num_envs: int,
        length: int | Sequence[int] = 3,
        *,
        ending: Ending | Sequence[Ending] = "terminated",
        action_space: Any = None,
        **native: Any,
    ) -> None:
        actions = Discrete(10) if action_space is None else action_space
        super().__init__(num_envs, _observation_space(), actions, **native)
        lengths = [length] * num_envs if isinstance(length, int) else list(length)
        endings = [ending] * num_envs if isinstance(ending, str) else list(ending)
        if len(lengths) != num_envs or len(endings) != num_envs:
            raise ValueError(
                f"length has {len(lengths)} entries and ending {len(endings)}; expected {num_envs}, one per slot."
            )
        for one_length, one_ending in zip(lengths, endings, strict=True):
            _check(one_length, one_ending)
        self.length = np.array(lengths)
        self.ending = endings
        self.episode = np.full(num_envs, -1)
        self.t = np.zeros(num_envs, np.int64)
        self._can_terminate = np.array([one != "truncated" for one in endings])
        self._can_truncate = np.array([one != "terminated" for one in endings])

    def _check_options(self, indices: NDArray[np.intp], options: list[Options]) -> None:
        for slot, chosen in zip(indices.tolist(), options, strict=True):
            _start(chosen, int(self.length[slot]))

    def _reset_envs(self, indices: NDArray[np.intp], options: list[Options]) -> None:
        starts = [
            _start(chosen, int(self.length[slot])) for slot, chosen in zip(indices.tolist(), options, strict=True)
        ]
        self.episode[indices] += 1
        self.t[indices] = starts

    def _reset_infos(self, indices: NDArray[np.intp]) -> dict[str, Any]:
        return {"t": self.t[indices]}

    def _observe(self) -> NDArray[np.float64]:
        observations: NDArray[np.float64] = self._new_observations()
        observations[:, 0], observations[:, 1], observations[:, 2] = np.arange(self.num_envs), self.episode, self.t
        return observations

    def _step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        self.t += ~self.frozen
        past = np.flatnonzero(self.t > self.length)
        if len(past):
            raise ResetRequired(f"slots {past.tolist()} of {self} were stepped past their end.")
        ended = self.t >= self.length
        rewards = 10.0 * self.t + np.asarray(actions)
        return rewards, ended & self._can_terminate, ended & self._can_truncate, {"t": self.t.copy()}


def _observation_space() -> Box:
    return Box(0.0, 1e6, shape=(3,), dtype=np.float64)


def _check(length: int, ending: str) -> None:
    if length < 1:
        raise ValueError(f"length is {length}; expected at least 1.")
    if ending not in ENDINGS:
        raise ValueError(f"ending is {ending!r}; expected one of {', '.join(map(repr, ENDINGS))}.")


def _start(options: Options, length: int) -> int:
    """`t` of the first observation."""
    at = operator.index((options or {}).get("at", 0))
    if not 0 <= at < length:
        raise ValueError(f"options['at'] is {at}; expected 0 to {length - 1}, a step before the end.")
    return at
