"""Collecting beside the loops it replaces: `python benchmarks/collecting_loops.py`.

The same work for all: `CartPole-v1`, random actions drawn beforehand, fragments of 128 rows, in one process. Steps are

    sekai        `Collector` over `SyncVecEnv`: observations, true successors, actions, rewards, flags, kinds, ids
    SB3          `DummyVecEnv` and `RolloutBuffer`, as its on-policy algorithms fill one, without a network
    gymnasium    `SyncVectorEnv` (next_step) and NumPy arrays, as single-file implementations do

in turns within one process; quoted are rows per second, medians over rounds, and their ratio to sekai's. Beside them
stands what each of them counts as transitions, and how many of these were none: rows in which a slot only reset.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.vec_env import DummyVecEnv

import sekai
from sekai.collect import Collector

ID, LENGTH = "CartPole-v1", 128


class Ours:
    """`Collector`."""

    def __init__(self, num_envs: int, actions: Any) -> None:
        self.vec = sekai.make_vec(ID, num_envs, vectorization_mode="sync")
        self.place = 0

        def policy(_: Any) -> Any:
            self.place += 1
            return actions[self.place % len(actions)]

        self.collector = Collector(self.vec, policy, fragment_length=LENGTH)
        self.collector.reset(seed=0)

    def run(self) -> None:
        """A fragment."""
        self.collector.collect()

    def counts(self) -> tuple[int, int]:
        """What it says are transitions, and how many of them are none."""
        return self.collector.counters.valid, 0


class Sb3:
    """SB3's loop; the reset belongs to the step (same_step), so that every row is a transition."""

    def __init__(self, num_envs: int, actions: Any) -> None:
        import torch

        self.env = DummyVecEnv([lambda: gymnasium.make(ID, disable_env_checker=True)] * num_envs)
        self.buffer = RolloutBuffer(LENGTH, self.env.observation_space, self.env.action_space, "cpu", n_envs=num_envs)
        self.actions, self.num_envs, self.rows = actions, num_envs, 0
        self.nothing = torch.zeros(num_envs)
        self.observations, self.starts = self.env.reset(), np.ones(num_envs, bool)

    def run(self) -> None:
        """A rollout."""
        self.buffer.reset()
        for t in range(LENGTH):
            actions = self.actions[t % len(self.actions)]
            observations, rewards, dones, infos = self.env.step(actions)
            for slot, done in enumerate(dones):
                if done and infos[slot].get("terminal_observation") is not None:
                    infos[slot].get("TimeLimit.truncated", False)
            self.buffer.add(self.observations, actions.reshape(-1, 1), rewards, self.starts, self.nothing, self.nothing)
            self.observations, self.starts = observations, dones
            self.rows += self.num_envs

    def counts(self) -> tuple[int, int]:
        """All rows."""
        return self.rows, 0


class Gymnasium:
    """A loop over gymnasium's vector environment, which counts calls times slots."""

    def __init__(self, num_envs: int, actions: Any) -> None:
        self.env = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(ID, disable_env_checker=True)] * num_envs)
        self.actions, self.rows, self.resets = actions, 0, 0
        shape = LENGTH, num_envs
        self.observations = np.zeros((*shape, 4), np.float32)
        self.taken, self.rewards, self.dones = np.zeros(shape, int), np.zeros(shape), np.zeros(shape, bool)
        self.latest, _ = self.env.reset(seed=0)
        self.done = np.zeros(num_envs, bool)

    def run(self) -> None:
        """A rollout."""
        for t in range(LENGTH):
            actions = self.actions[t % len(self.actions)]
            self.observations[t], self.taken[t] = self.latest, actions
            self.resets += int(self.done.sum())  # these slots do not execute their action
            self.latest, self.rewards[t], terminated, truncated, _ = self.env.step(actions)
            self.dones[t] = self.done = terminated | truncated
            self.rows += len(actions)

    def counts(self) -> tuple[int, int]:
        """All rows, those that only reset among them."""
        return self.rows, self.resets


LOOPS: dict[str, Callable[[int, Any], Any]] = {"sekai": Ours, "SB3": Sb3, "gymnasium": Gymnasium}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    print(f"{'slots':>5}  {'loop':10} {'rows/s':>10} {'ratio':>6}   counted as transitions, of these none")
    for num_envs in (16, 64):
        rng = np.random.default_rng(0)
        actions = [rng.integers(0, 2, num_envs) for _ in range(32)]
        loops = {name: loop(num_envs, actions) for name, loop in LOOPS.items()}
        for loop in loops.values():
            loop.run()
        rates: dict[str, list[float]] = {name: [] for name in loops}
        for _ in range(given.rounds):
            for name, loop in loops.items():
                start = time.perf_counter()
                loop.run()
                rates[name].append(LENGTH * num_envs / (time.perf_counter() - start))
        for name, loop in loops.items():
            ratio = statistics.median(a / b for a, b in zip(rates[name], rates["sekai"], strict=True))
            counted, none = loop.counts()
            print(
                f"{num_envs:5}  {name:10} {statistics.median(rates[name]):10,.0f} {ratio:6.2f}   {counted:,} {none:,}"
            )


if __name__ == "__main__":
    main()
