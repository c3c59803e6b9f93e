"""An environment that counts what a benchmark does to it; registered when this module is imported."""

from __future__ import annotations

from typing import Any

import numpy as np

import sekai

ID = "cli/Watched-v0"


class Watched(sekai.Env[Any, Any]):
    """Keeps every action and every seed, of all instances."""

    actions: list[int] = []  # noqa: RUF012  # shared on purpose
    seeds: list[Any] = []  # noqa: RUF012  # shared on purpose

    def __init__(self, gain: float = 1.5) -> None:
        self.observation_space = sekai.Box(-1.0, 1.0, shape=(1,))
        self.action_space = sekai.Discrete(5)

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        self.seeds.append(seed)
        return sekai.ResetResult(np.zeros(1, np.float32), {})

    def step(self, action: Any) -> sekai.StepResult:
        self.actions.append(int(action))
        return sekai.StepResult(np.zeros(1, np.float32), 0.0, False, False, {})


class Flawed(Watched):
    """Ends by `terminated` after 5 steps, always; with `nan`, the reward is none."""

    def __init__(self, nan: bool = False) -> None:
        super().__init__()
        self.nan = nan

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self.t = 0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> sekai.StepResult:
        self.t += 1
        return super().step(action)._replace(terminated=self.t == 5, reward=float("nan") if self.nan else 0.0)


class Waiting(Watched):
    """Waits for something else, with an `async_step` of its own."""

    async def async_step(self, action: Any) -> sekai.StepResult:
        return self.step(action)


sekai.register("cli/Waiting-v0", Waiting)
sekai.register(ID, Watched, kwargs={"gain": 2.5})
sekai.register("cli/Limited-v0", Flawed)
sekai.register("cli/NaN-v0", Flawed, kwargs={"nan": True})
