"""`sekai bench`: throughput of an environment with random actions, in env steps per second."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sekai.cli.errors import BadValue
from sekai.cli.output import Advance, progress
from sekai.registry import make_vec
from sekai.vector import AsyncVecEnv, ProcVecEnv, RayVecEnv, SyncVecEnv, VecEnv

ACTION_BATCHES = 32
CHUNKS = 50


@dataclass(frozen=True)
class Measurement:
    """A finished measurement; its text is the line that `sekai bench` ends with.

    Attributes:
        id: of the environment.
        mode: the backend that ran.
        num_envs: sub-environments.
        steps: vector steps timed, each of `num_envs` env steps.
        seconds: wall-clock time they took.
    """

    id: str
    mode: str
    num_envs: int
    steps: int
    seconds: float

    @property
    def rate(self) -> float:
        """Env steps per second."""
        return self.num_envs * self.steps / self.seconds

    def __str__(self) -> str:
        return (
            f"{self.id} mode={self.mode} num_envs={self.num_envs} steps={self.steps} "
            f"seconds={self.seconds:.3f} {self.rate:.0f} steps/s"
        )


def bench(id: str, *, num_envs: int, mode: str, workers: int | None, steps: int, seed: int) -> Measurement:
    """Build the vector environment, warm it up and measure it.

    Args:
        id: of the environment.
        num_envs: sub-environments.
        mode: `"auto"` or a `vectorization_mode`.
        workers: processes or actors, for the modes `"proc"` and `"ray"` only.
        steps: vector steps to time; a tenth as many come before, uncounted.
        seed: of the environments and the actions.

    Raises:
        BadValue: `workers` in another mode.
    """
    if workers is not None and mode not in ("proc", "ray"):
        raise BadValue(f"--workers {workers} needs --mode proc or --mode ray; the mode is {mode}.")
    vec = make_vec(
        id,
        num_envs,
        vectorization_mode=None if mode == "auto" else mode,
        vector_kwargs={} if workers is None else {"num_workers": workers},
    )
    with vec:
        actions = random_actions(vec, seed)
        vec.reset(seed=seed)
        warm_up = max(1, steps // 10)
        with progress(f"{vec.spec.id} ({num_envs} sub-envs)", warm_up + steps) as advance:
            _time_steps(vec, actions, warm_up, advance)
            seconds = _time_steps(vec, actions, steps, advance)
        return Measurement(vec.spec.id, mode_of(vec), num_envs, steps, seconds)


def mode_of(vec: VecEnv) -> str:
    """The `vectorization_mode` that makes a vector environment of this kind."""
    kinds = {SyncVecEnv: "sync", AsyncVecEnv: "async", ProcVecEnv: "proc", RayVecEnv: "ray"}
    return next((mode for kind, mode in kinds.items() if isinstance(vec.unwrapped, kind)), "native")


def random_actions(vec: VecEnv, seed: int) -> list[Any]:
    """Batches of actions, drawn from the action space."""
    space = vec.batch_action_space
    space.seed(seed)
    return [space.sample() for _ in range(ACTION_BATCHES)]


def _time_steps(vec: VecEnv, actions: Sequence[Any], steps: int, advance: Advance) -> float:
    """Seconds that `steps` calls take, in chunks between which progress is reported and the clock stands."""
    seconds, done = 0.0, 0
    while done < steps:
        chunk = min(-(-steps // CHUNKS), steps - done)
        started = time.perf_counter()
        for call in range(done, done + chunk):
            vec.step(actions[call % len(actions)])
        seconds += time.perf_counter() - started
        done += chunk
        advance(chunk)
    return seconds
