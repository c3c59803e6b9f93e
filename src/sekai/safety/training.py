"""`train`: one safety run on a task, in a folder from which it can go on.

config.json        what was asked for
recipe.yaml        the same with the steps, for `sekai train --recipe`, see `sekai.safety.tasks.recipes`
progress.jsonl     the log, one line for each time it is written; a run that goes on cuts off those after its checkpoint
model.zip          the newest checkpoint, see `sekai.safety.checkpoints`
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter, Logger

from sekai.safety.checkpoints import MODEL, load_checkpoint, require_whole, save_checkpoint
from sekai.safety.learners import resolve_learner
from sekai.safety.learners.base import SafetyLearner
from sekai.safety.tasks import SafetyTask, find_task
from sekai.safety.tasks.recipes import RECIPE, Recipe, read_recipe, write_recipe
from sekai.safety.tensor.native import TensorFromNative
from sekai.safety.warmstart import require_warmstart, warm_start
from sekai.vector import NativeVecEnv

CONFIG, PROGRESS = "config.json", "progress.jsonl"
CHECKPOINT_SECONDS = 60.0
#: of algorithms that know one kind of actions only
ACTIONS = {"sac": spaces.Box, "dqn": spaces.Discrete}


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What a run is.

    Attributes:
        task: id of a safety task, see `sekai.safety.tasks`.
        algorithm: `"ppo"`, `"sac"`, `"a2c"` or `"dqn"`.
        mode: `"avoid"` or `"reach-avoid"`.
        seed: of the environment and the learner.
        num_envs: slots.
        task_options: arguments of the environment.
        learner_options: arguments of the learner.
        players: 1, or 2 with a disturbance that learns.
        warmstart: folder of the run whose weights this one begins with.
    """

    task: str
    algorithm: str = "ppo"
    mode: str = "avoid"
    seed: int = 0
    num_envs: int = 64
    task_options: dict[str, Any] = field(default_factory=dict)
    learner_options: dict[str, Any] = field(default_factory=dict)
    players: int = 1
    warmstart: str | None = None


def make_env(config: RunConfig) -> TensorFromNative:
    """The environment of a run.

    Raises:
        ValueError: the task has no native vector environment, whose state a run needs to go on from.
    """
    task, options = find_task(config.task), config.task_options
    if config.players == 2 and task.system(**options) is not None:
        options = {"disturbance": "player", **options}  # other environments declare ctrl_action_dim by themselves
    vec = task.vec(config.num_envs, **options)
    if not isinstance(vec, NativeVecEnv):
        vec.close()
        raise ValueError(
            f"{config.task} has no native vector environment, so no state from which a run could go on: train it in "
            "Python, task.learner(...)('MlpPolicy', task.vec(...)).learn(...)."
        )
    return TensorFromNative(vec, seed=config.seed)


def train(
    config: RunConfig,
    steps: int,
    folder: Path,
    *,
    advance: Callable[[int], object] | None = None,
    threads: int | None = None,
) -> Any:
    """Train until `steps` environment steps have been taken, those of earlier calls in the same folder included.

    Args:
        config: of the run; in a folder that has one, the same.
        steps: of all slots together.
        folder: of the run.
        advance: told the environment steps done, as they are done.
        threads: of torch, from now on; None leaves them as they are. With small networks a second one only waits.

    Returns:
        The learner.

    Raises:
        ValueError: the folder holds another run; or what is asked for has no meaning for the task.
    """
    task = find_task(config.task)
    end = config.task_options.get("end_criterion")
    cls = task.learner(config.algorithm, players=config.players, mode=config.mode, end_criterion=end)
    if threads is not None:
        torch.set_num_threads(threads)
    _require_same(config, folder)
    env = make_env(config)
    _require_actions(config, env)
    if (folder / MODEL).exists():
        learner: Any = load_checkpoint(cls, folder, env)
    else:
        source = (
            None if config.warmstart is None else _source(task, Path(config.warmstart))
        )  # seeds: before the learner
        learner = cls("MlpPolicy", env, seed=config.seed, device="cpu", **deepcopy(config.learner_options))
        if source is not None:
            warm_start(learner, source)
    folder.mkdir(parents=True, exist_ok=True)
    _keep_config(config, folder)
    _keep_recipe(config, steps, folder)
    _cut(folder / PROGRESS, learner.num_timesteps)
    learner.set_logger(Logger(None, [_JsonLines(folder / PROGRESS)]))
    left = steps - learner.num_timesteps
    try:
        if left > 0:
            begun = learner.num_timesteps > 0
            learner.learn(left, reset_num_timesteps=not begun, callback=_Kept(folder, advance))
            save_checkpoint(learner, folder)
    finally:
        learner.logger.close()
    return learner


def load_run(folder: Path, *, threads: int | None = None) -> tuple[RunConfig, SafetyLearner]:
    """The configuration and the learner of a run.

    Args:
        folder: of the run.
        threads: of torch, as for `train`.

    Raises:
        FileNotFoundError: the folder holds none.
        ValueError: its model was cut off.
    """
    if not (folder / CONFIG).exists() or not (folder / MODEL).exists():
        raise FileNotFoundError(f"{folder} holds no run: it has no {CONFIG} and {MODEL}, which `sekai train` writes.")
    require_whole(folder / MODEL)
    config = RunConfig(**json.loads((folder / CONFIG).read_text(encoding="utf-8")))
    cls = resolve_learner(config.mode, config.algorithm, config.players)
    if threads is not None:
        torch.set_num_threads(threads)
    return config, cls.load(folder / MODEL, device="cpu")


def _source(task: SafetyTask, folder: Path) -> SafetyLearner:
    """The learner whose weights a run begins with."""
    config, learner = load_run(folder)
    require_warmstart(task, config.task)
    return learner


def _require_actions(config: RunConfig, env: TensorFromNative) -> None:
    kind = ACTIONS.get(config.algorithm.lower())
    if kind is not None and not isinstance(env.action_space, kind):
        raise ValueError(
            f"The algorithm is {config.algorithm!r}, which knows {kind.__name__} actions, and those of {config.task} "
            f"are {env.action_space}: take another one, such as 'ppo'."
        )


def _require_same(config: RunConfig, folder: Path) -> None:
    path = folder / CONFIG
    if not path.exists():
        return
    kept = asdict(RunConfig(**json.loads(path.read_text(encoding="utf-8"))))
    given = json.loads(json.dumps(asdict(config)))
    other = {key: (kept[key], given[key]) for key in given if kept[key] != given[key]}
    if other:
        told = "; ".join(f"{key} is {new!r} and was {old!r}" for key, (old, new) in other.items())
        raise ValueError(f"{folder} holds another run: {told}. Take another folder, or the same options.")


def _keep_config(config: RunConfig, folder: Path) -> None:
    if not (folder / CONFIG).exists():
        fresh = folder / f"new-{CONFIG}"
        fresh.write_text(json.dumps(asdict(config), indent=2) + "\n", encoding="utf-8")
        os.replace(fresh, folder / CONFIG)


def _keep_recipe(config: RunConfig, steps: int, folder: Path) -> None:
    """Write the recipe of all calls together: that of the one with the most steps."""
    path = folder / RECIPE
    before = read_recipe(path).get("steps", 0) if path.exists() else 0
    write_recipe(Recipe(steps=max(steps, before), **asdict(config)), path)


def _cut(log: Path, steps: int) -> None:
    """Cut off the lines of after so many steps, which will be written again, and one that is not whole."""
    if not log.exists():
        return
    kept = 0
    with log.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n") or json.loads(line)["step"] > steps:
                break
            kept += len(line)
    os.truncate(log, kept)


class _Kept(BaseCallback):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """Tells of every step, and writes a checkpoint now and then."""

    def __init__(self, folder: Path, advance: Callable[[int], object] | None) -> None:
        super().__init__()
        self._folder, self._advance, self._saved = folder, advance, time.monotonic()

    def _on_rollout_start(self) -> None:
        # nothing is half done here: what was collected has been learned from
        if time.monotonic() - self._saved > CHECKPOINT_SECONDS:
            save_checkpoint(self.model, self._folder)
            self._saved = time.monotonic()

    def _on_step(self) -> bool:
        if self._advance is not None:
            self._advance(self.training_env.num_envs)
        return True


class _JsonLines(KVWriter):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """A log of one JSON object a line, to which a run that goes on adds."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        numbers = {key: value for key, value in key_values.items() if isinstance(value, (int, float, np.number))}
        self._file.write(json.dumps({"step": step, **{key: float(value) for key, value in numbers.items()}}) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
