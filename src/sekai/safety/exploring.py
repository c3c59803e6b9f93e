"""Rows of random play for `check_safety_env`, the same of one environment and of a vector environment."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from sekai.core.env import call_reset, call_step
from sekai.core.wrapper import resets_itself
from sekai.spaces import concatenate
from sekai.testing.calls import called
from sekai.testing.problems import Problems
from sekai.vector import VecEnv
from sekai.wrappers.masks import flatten_mask, gymnasium_mask, has_method, read_mask

#: steps for which an action is held at most: what only jitters gets nowhere
LONGEST_HOLD = 20


class Row(NamedTuple):
    """One transition.

    Attributes:
        slot: of the sub-environment; None of a single environment.
        g: the reward as it came.
        info: of the step.
        terminated, truncated: its flags.
    """

    slot: int | None
    g: Any
    info: dict[str, Any]
    terminated: bool
    truncated: bool

    @property
    def whose(self) -> str:
        """What a message begins with."""
        return "" if self.slot is None else f"sub-env {self.slot}: "


def play(env: Any, problems: Problems, steps: int, seed: int) -> Iterator[tuple[int, list[Row]]]:
    """The number of each step from 1, and its rows; what is raised is reported, and ends the play by `Stopped`."""
    driver: _One | _Many = _Many(env, problems, seed) if isinstance(env, VecEnv) else _One(env, problems, seed)
    problems.step = 0
    driver.reset()
    for step in range(1, steps + 1):
        problems.step = step
        yield step, driver.step()


class _One:
    def __init__(self, env: Any, problems: Problems, seed: int) -> None:
        self.env, self.problems, self.seed = env, problems, seed
        self.actions = _Actions(env.action_space, seed)
        self.masked, self.itself = has_method(env), resets_itself(env)

    def reset(self) -> None:
        called(self.problems, f"reset(seed={self.seed})", lambda: call_reset(self.env, self.seed, None))

    def step(self) -> list[Row]:
        mask = called(self.problems, "action_mask()", lambda: read_mask(self.env)) if self.masked else None
        action = self.actions.next(mask)
        result = called(self.problems, "step", lambda: call_step(self.env, action))
        if result.done and not self.itself:
            called(self.problems, "reset()", lambda: call_reset(self.env, None, None))
        return [Row(None, result.reward, result.info, result.terminated, result.truncated)]


class _Many:
    def __init__(self, vec: VecEnv, problems: Problems, seed: int) -> None:
        self.vec, self.problems, self.seed = vec, problems, seed
        self.actions = [_Actions(vec.action_space, [seed, slot]) for slot in range(vec.num_envs)]
        self.masked = True

    def reset(self) -> None:
        called(self.problems, f"reset(seed={self.seed})", lambda: self.vec.reset(seed=self.seed))

    def step(self) -> list[Row]:
        vec = self.vec
        masks = self._masks()
        chosen = [actions.next(mask) for actions, mask in zip(self.actions, masks, strict=True)]
        batch = concatenate(vec.action_space, chosen, what="action")
        result = called(self.problems, "step", lambda: vec.step(batch))
        rows = [
            Row(
                slot,
                result.rewards[slot],
                result.step_info(slot),
                bool(result.terminated[slot]),
                bool(result.truncated[slot]),
            )
            for slot in np.flatnonzero(result.valid).tolist()
        ]
        if vec.autoreset.value == "disabled" and result.dones.any():
            called(self.problems, "reset(mask=...)", lambda: vec.reset(mask=result.dones))
        return rows

    def _masks(self) -> list[Any]:
        if self.masked:
            try:
                return self.vec.call("action_mask")
            except AttributeError:
                self.masked = False  # most environments allow every action
        return [None] * self.vec.num_envs


class _Actions:
    """Random actions of one environment, each held for some steps, every second one in a corner of a bounded box."""

    def __init__(self, space: gymnasium.Space[Any], seed: Any) -> None:
        self.space, self.rng = deepcopy(space), np.random.default_rng(seed)
        self.space.seed(int(self.rng.integers(2**31)))
        self.left, self.action = 0, None

    def next(self, mask: Any) -> Any:
        """The next action, one that is allowed where there is a mask."""
        space = self.space
        if mask is not None:
            flat = flatten_mask(space, mask, "The environment")
            return space.sample(mask=gymnasium_mask(space, flat)) if flat.any() else space.sample()
        if self.left == 0:
            self.left = int(self.rng.integers(1, LONGEST_HOLD + 1))
            self.action = self._drawn()
        self.left -= 1
        return self.action

    def _drawn(self) -> Any:
        space = self.space
        if isinstance(space, gymnasium.spaces.Box) and space.is_bounded("both") and self.rng.random() < 0.5:
            high = self.rng.random(space.shape) < 0.5
            return np.where(high, space.high, space.low)
        return space.sample()
