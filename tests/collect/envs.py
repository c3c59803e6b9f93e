"""Coded environments whose episodes follow a script, and a policy whose every output can be computed by hand.

A script is a list of `(length, ending)`, one per episode, from the beginning again when it is at its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import sekai
from sekai.collect import Decision
from sekai.testing import CodedEnv, CodedVecEnv

Script = Sequence[tuple[int, Any]]
MODES = ("same_step", "next_step", "disabled")


class ScriptedEnv(CodedEnv):
    """A `CodedEnv` whose episodes have the lengths and endings of a script."""

    def __init__(self, slot: int, script: Script) -> None:
        super().__init__(slot, *script[0][:1], ending=script[0][1])
        self.script = script

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        if (options or {}).get("script"):
            self.script, self.episode = options["script"][self.slot], -1
        self.length, self.ending = self.script[(self.episode + 1) % len(self.script)]
        return super().reset(seed=seed)


class ScriptedVecEnv(CodedVecEnv):
    """`ScriptedEnv` for all slots at once, natively."""

    def __init__(self, scripts: Sequence[Script], **native: Any) -> None:
        super().__init__(len(scripts), **native)
        self.scripts = scripts

    def _reset_envs(self, indices: Any, options: Any) -> None:
        for slot in indices.tolist():
            script = self.scripts[slot]
            length, ending = script[(self.episode[slot] + 1) % len(script)]
            self.length[slot] = length
            self._can_terminate[slot], self._can_truncate[slot] = ending != "truncated", ending != "terminated"
        super()._reset_envs(indices, options)


class ShuffledVecEnv(sekai.SyncVecEnv):
    """Rows come back a few at a time and in random order, though every step is done at once."""

    shuffle = np.random.default_rng(0)
    _wanted = 1

    def _check_wanted(self, min_slots: int) -> int:
        self._wanted = super()._check_wanted(min_slots)
        return self._wanted

    def _ready_rows(self) -> Any:
        rows = super()._ready_rows()
        size = self.shuffle.integers(min(self._wanted, len(rows)), len(rows) + 1)
        return {slot: rows[slot] for slot in self.shuffle.permutation(list(rows)).tolist()[:size]}


class OrderedVecEnv(sekai.SyncVecEnv):
    """Rows come back in a given order: those slots of the next entry that have something to come back with."""

    order: Iterator[list[int]]

    def _ready_rows(self) -> Any:
        rows = super()._ready_rows()
        chosen = next(slots for slots in self.order if rows.keys() & slots)
        return {slot: rows[slot] for slot in chosen if slot in rows}


def scripted(backend: str, scripts: Sequence[Script], mode: str) -> sekai.VecEnv:
    """A vector environment of scripted slots."""
    if backend == "native":
        return ScriptedVecEnv(scripts, autoreset=mode)
    fns = [lambda i=i: ScriptedEnv(i, scripts[i]) for i in range(len(scripts))]  # type: ignore[misc]
    if backend == "ray":
        return sekai.RayVecEnv(fns, autoreset=mode, num_workers=2)
    classes: Any = {
        "sync": sekai.SyncVecEnv,
        "shuffled": ShuffledVecEnv,
        "async": sekai.AsyncVecEnv,
        "proc": sekai.ProcVecEnv,
    }
    return classes[backend](fns, autoreset=mode)  # type: ignore[no-any-return]


class Transition(NamedTuple):
    """One transition, as it is found by hand."""

    observation: tuple[float, ...]
    action: int
    reward: float
    terminated: bool
    truncated: bool
    successor: tuple[float, ...]


def action_on(observation: Any) -> int:
    """What the coded policy does."""
    slot, episode, step = (int(entry) for entry in observation)
    return (3 * slot + 5 * episode + 7 * step) % 10


def by_hand(slot: int, script: Script, first: int = 0) -> Iterator[Transition]:
    """The transitions of one slot, without end, by stepping one environment from episode `first` on."""
    env = ScriptedEnv(slot, script)
    env.episode = first - 1
    while True:
        observation = tuple(env.reset().observation.tolist())
        done = False
        while not done:
            action = action_on(observation)
            after, reward, terminated, truncated, _ = env.step(action)
            successor = tuple(after.tolist())
            yield Transition(observation, action, reward, terminated, truncated, successor)
            observation, done = successor, terminated or truncated


class CodedPolicy:
    """A memory that adds up: before step `k` of an episode it holds `1 + ... + k`.

    `value(o, h)` is `1e6 * slot + 1e4 * episode + 100 * step + h + 0.5`.
    """

    def __init__(self) -> None:
        self.starts: list[list[bool]] = []

    def initial_state(self, num_slots: int) -> Any:
        return {"sum": np.zeros(num_slots)}

    def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
        self.starts.append(episode_start.tolist())
        actions = np.array([action_on(row) for row in observations])
        after = {"sum": state["sum"] + observations[:, 2] + 1}
        return Decision(actions, after, {"before": state["sum"]})

    def value(self, observations: Any, state: Any) -> Any:
        return observations @ np.array([1e6, 1e4, 100.0]) + state["sum"] + 0.5


def memory_before(step: int) -> float:
    """What a `CodedPolicy` holds before a step."""
    return step * (step + 1) / 2


def act(observations: Any) -> Any:
    """The coded policy as a plain function."""
    return np.array([action_on(row) for row in observations])
