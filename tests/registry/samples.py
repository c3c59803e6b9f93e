"""Small environments that say what they were built with."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

import sekai


class Tally(sekai.Env[Any, Any]):
    """Observation = `scale * steps`, never ends by itself; keeps its arguments."""

    def __init__(self, scale: float = 1.0, labels: list[str] | None = None, source: Any = None) -> None:
        self.scale, self.labels, self.source = scale, labels, source
        self.observation_space = sekai.Box(-1e6, 1e6, shape=(1,))
        self.action_space = sekai.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        self.t = 0
        return sekai.ResetResult(np.zeros(1, np.float32), {})

    def step(self, action: Any) -> sekai.StepResult:
        self.t += 1
        return sekai.StepResult(np.array([self.scale * self.t], np.float32), 1.0, False, False, {})


class TallyVecEnv(sekai.NativeVecEnv):
    """`Tally` in array form; `threads` is an argument of its own."""

    def __init__(
        self,
        num_envs: int,
        *,
        scale: float = 1.0,
        labels: list[str] | None = None,
        source: Any = None,
        threads: int = 1,
        max_episode_steps: int | None = None,
        autoreset: Any = True,
    ) -> None:
        super().__init__(
            num_envs,
            sekai.Box(-1e6, 1e6, shape=(1,)),
            sekai.Discrete(2),
            autoreset=autoreset,
            max_episode_steps=max_episode_steps,
        )
        self.scale, self.labels, self.source, self.threads = scale, labels, source, threads
        self.t = np.zeros(num_envs)

    def _reset_envs(self, indices: Any, options: Any) -> None:
        self.t[indices] = 0

    def _observe(self) -> Any:
        return (self.scale * self.t)[:, None].astype(np.float32)

    def _step(self, actions: Any) -> Any:
        self.t = self.t + 1
        return np.ones(self.num_envs), np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool), {}


class Open(Tally):
    """Takes whatever it is given."""

    def __init__(self, **anything: Any) -> None:
        super().__init__()
        self.anything = anything


class Foreign(gymnasium.Env[Any, Any]):
    """gymnasium's own kind: plain tuples, NumPy bools; `render` reads `self.spec`."""

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012  # as gymnasium's own environments have it

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Discrete(3)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> Any:
        return 1, 0.0, np.False_, np.False_, {}

    def render(self) -> Any:
        assert self.spec is not None
        return self.spec.id


class Copied(sekai.Spawns):
    """Spawns a numbered copy each time."""

    def __init__(self, name: str = "given") -> None:
        self.name, self.spawned = name, 0

    def spawn(self) -> Copied:
        self.spawned += 1
        return Copied(f"copy {self.spawned}")


class Shared(sekai.Spawns):
    """Spawns itself."""

    def spawn(self) -> Shared:
        return self


class Plus(sekai.ObservationWrapper):
    """Add `amount` to every observation."""

    def __init__(self, env: Any, amount: float = 1.0) -> None:
        super().__init__(env)
        self.amount = amount

    def observation(self, observation: Any) -> Any:
        return observation + np.float32(self.amount)
