"""Identity-coded environments, one single and one native, and one function that builds any backend from them.

Every observation says where it comes from: `(slot, episode, step, draw)`. `draw` is a number drawn by the reset that
began the episode, so equal draws mean equal streams. The reward of step `t` with action `a` is
`100 * slot + 10 * t + a`.

Both reuse their buffers: a backend that keeps a reference instead of a copy returns wrong rows.

Actions that misbehave: `BOOM` raises, `DIE` ends the process, `INTERRUPT` and `EXIT` raise what no `except Exception`
catches. Options: `at` (first step), `draw` (instead of drawing), `fail` (refuse while resetting).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import sekai

BOOM, DIE, INTERRUPT, EXIT = 5, 6, 7, 8
ACTIONS = sekai.Discrete(10)
SPACE = sekai.Box(-1e12, 1e12, (4,), np.float64)

MODES = ("same_step", "next_step", "disabled")
#: backends whose sub-environments are objects of their own
OBJECTS = ("sync", "async", "proc", "grouped", "pickled")
BACKENDS = (*OBJECTS, "native")
#: those that run in other processes
REMOTE = ("proc", "grouped", "pickled", "ray")
IN_PROCESS = ("sync", "async", "native")


class Coded(sekai.Env):
    """One slot: see the module. `endings` are "terminated", "truncated" or "both"."""

    def __init__(self, slot: int, length: int = 3, ending: str = "terminated") -> None:
        self.slot, self.length, self.ending = slot, length, ending
        self.observation_space = SPACE
        self.action_space = ACTIONS
        self.episode, self.t, self.steps, self.nap = -1, 0, 0, 0.0
        self.fail_resets = False
        self.options: list[Any] = []
        self._observation, self._info = np.zeros(4), {"deep": {"t": -1}, "t": -1}

    def _emit(self) -> tuple[Any, Any]:
        self._observation[:] = (self.slot, self.episode, self.t, self.draw)
        self._info["t"] = self._info["deep"]["t"] = self.t
        return self._observation, self._info

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        self.options.append(options)
        if self.fail_resets or (options or {}).get("fail"):
            raise ValueError(f"slot {self.slot} cannot reset")
        self.episode += 1
        self.t = (options or {}).get("at", 0)
        self.draw = (options or {}).get("draw", int(self.rng.integers(10**12)))
        return sekai.ResetResult(*self._emit())

    def step(self, action: Any) -> sekai.StepResult:
        self.steps += 1
        if self.nap:
            time.sleep(self.nap)
        misbehave(int(action), self.slot)
        self.t += 1
        end = self.t >= self.length
        observation, info = self._emit()
        return sekai.StepResult(
            observation,
            100.0 * self.slot + 10.0 * self.t + int(action),
            end and self.ending != "truncated",
            end and self.ending != "terminated",
            info,
        )

    def where(self) -> int:
        """The process it lives in."""
        return os.getpid()

    def peek(self, name: str) -> Any:
        """An attribute of its own, None where it has none."""
        return getattr(self, name, None)

    def echo(self, value: Any) -> Any:
        """What it was given."""
        return value


def misbehave(action: int, slot: int) -> None:
    """What the actions above 4 do."""
    if action == BOOM:
        raise ValueError(f"slot {slot} went boom")
    if action == DIE:
        os._exit(3)
    if action == INTERRUPT:
        raise KeyboardInterrupt
    if action == EXIT:
        raise SystemExit(f"slot {slot} exits")


class CodedVec(sekai.NativeVecEnv):
    """`Coded` for all slots at once."""

    def __init__(self, lengths: Sequence[int], endings: Sequence[str], **kwargs: Any) -> None:
        n = len(lengths)
        super().__init__(n, SPACE, ACTIONS, **kwargs)
        self.length = np.array(lengths)
        self._terminates = np.array([ending != "truncated" for ending in endings])
        self._truncates = np.array([ending != "terminated" for ending in endings])
        self.episode, self.t, self.steps = np.full(n, -1), np.zeros(n, int), np.zeros(n, int)
        self.draw = np.zeros(n, np.int64)
        self.fail_resets = np.zeros(n, bool)

    def _reset_envs(self, indices: Any, options: list[Any]) -> None:
        failing = [
            i for i, given in zip(indices, options, strict=True) if self.fail_resets[i] or (given or {}).get("fail")
        ]
        draws = self.rng.integers(10**12, size=len(indices))
        if failing:
            raise ValueError(f"slot {failing[0]} cannot reset")
        self.episode[indices] += 1
        self.t[indices] = [(given or {}).get("at", 0) for given in options]
        self.draw[indices] = [(given or {}).get("draw", draw) for given, draw in zip(options, draws, strict=True)]

    def _reset_infos(self, indices: Any) -> dict[str, Any]:
        return {"t": self.t[indices]}

    def _observe(self) -> Any:
        return np.stack([np.arange(self.num_envs), self.episode, self.t, self.draw], axis=1).astype(np.float64)

    def _step(self, actions: Any) -> Any:
        active = ~self.frozen
        for slot in np.flatnonzero(active):
            misbehave(int(actions[slot]), int(slot))
        self.steps[active] += 1
        self.t[active] += 1
        assert (self.t <= self.length).all(), "stepped past the end of the data"
        end = self.t >= self.length
        rewards = 100.0 * np.arange(self.num_envs) + 10.0 * self.t + actions
        return rewards, end & self._terminates, end & self._truncates, {"t": self.t.copy()}


def build(
    backend: str,
    mode: Any = "same_step",
    lengths: Sequence[int] = (2, 3, 2),
    endings: Sequence[str] | None = None,
    wrap: Callable[[Any], Any] | None = None,
    **kwargs: Any,
) -> sekai.VecEnv:
    """A vector environment of `Coded` on any backend; `wrap` goes around each sub-environment, where there are any."""
    if endings is None:
        endings = ("terminated",) * len(lengths)
    if backend == "native":
        return CodedVec(lengths, endings, autoreset=mode, **kwargs)
    return build_from(
        [factory(Coded, i, lengths[i], endings[i], wrap=wrap) for i in range(len(lengths))], backend, mode, **kwargs
    )


def factory(cls: Callable[..., Any], *args: Any, wrap: Callable[[Any], Any] | None = None) -> Callable[[], Any]:
    """A factory of `cls(*args)`."""
    return lambda: cls(*args) if wrap is None else wrap(cls(*args))


def build_from(
    env_fns: Sequence[Callable[[], Any]], backend: str, mode: Any = "same_step", **kwargs: Any
) -> sekai.VecEnv:
    """A vector environment of given sub-environments; the last two run two slots in a worker, `"ray"` all in one."""
    if backend == "pickled":
        return build_from(env_fns, "grouped", mode, shared_memory=False, **kwargs)
    if backend == "grouped":
        return sekai.ProcVecEnv(env_fns, autoreset=mode, num_workers=(len(env_fns) + 1) // 2, **kwargs)
    if backend == "ray":
        return sekai.RayVecEnv(env_fns, autoreset=mode, **{"num_workers": 1, **kwargs})
    classes = {"sync": sekai.SyncVecEnv, "async": sekai.AsyncVecEnv, "proc": sekai.ProcVecEnv}
    return classes[backend](env_fns, autoreset=mode, **kwargs)


def places(observations: Any) -> list[tuple[int, int, int]]:
    """`(slot, episode, step)` of every row."""
    return [(int(row[0]), int(row[1]), int(row[2])) for row in observations]


def draws(observations: Any) -> list[int]:
    """The numbers drawn by the resets that began these episodes."""
    return [int(row[3]) for row in observations]
