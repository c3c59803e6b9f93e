"""Small environments and the two ways of driving them, for the tests of core and wrappers."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import gymnasium
import numpy as np

import sekai
from sekai.testing import CodedEnv


class Awaited(CodedEnv):
    """A `CodedEnv` whose awaitable calls are its own; `calls` records which kind was used."""

    def __init__(self, slot: int = 0, length: int = 3, *, ending: Any = "terminated") -> None:
        super().__init__(slot, length, ending=ending)
        self.calls: list[str] = []

    def step(self, action: Any) -> sekai.StepResult:
        self.calls.append("step")
        return super().step(action)

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self.calls.append("reset")
        return super().reset(seed=seed, options=options)

    async def async_step(self, action: Any) -> sekai.StepResult:
        self.calls.append("async_step")
        await asyncio.sleep(0)
        return CodedEnv.step(self, action)

    async def async_reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self.calls.append("async_reset")
        await asyncio.sleep(0)
        return CodedEnv.reset(self, seed=seed, options=options)


class Plain(gymnasium.Env[Any, Any]):
    """An environment of gymnasium's kind: plain tuples, NumPy flags, fresh data; `seeds` records what it was given.

    The first observation is a draw, the observation after step `t` is `t`. It terminates after two steps.
    """

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(0.0, 10.0, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.seeds: list[Any] = []
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.t = 0
        return np.array([self.np_random.random()], np.float32), {"options": options}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.array([self.t], np.float32), 3.0, np.bool_(self.t >= 2), np.bool_(False), {"t": self.t}


def play(env: Any, actions: list[Any], *, awaited: bool, options: dict[str, Any] | None = None) -> list[Any]:
    """Results of `reset(seed=0)` and one step per action, copied; a step after an end resets first.

    `awaited` uses `async_reset` and `async_step`.
    """

    async def run() -> list[Any]:
        results = []

        async def reset(seed: int | None) -> None:
            given = {"seed": seed, "options": options}
            results.append(copy.deepcopy(await env.async_reset(**given) if awaited else env.reset(**given)))

        await reset(0)
        for action in actions:
            if results[-1].done and not env.resets_itself:
                await reset(None)
            results.append(copy.deepcopy(await env.async_step(action) if awaited else env.step(action)))
        return results

    return asyncio.run(run())


def same(a: Any, b: Any) -> bool:
    """Whether two results have the same types and values at any depth."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return bool(a == b)
