"""What a collector costs over the bare `vec.step` loop: `python benchmarks/collector.py`.

Environments of the same arguments are stepped in turns within one process, the calls of one fragment each, with the
same function of the observations as policy: in a bare loop; in a loop that also copies the observations into the rows
of two fragments in turn, as whoever keeps them must; in one that copies actions and rewards as well, the least that
anybody learns from; by a `Collector` with `share_observations=False`; and by one as it comes, for which the environment
writes the observations there. Quoted are microseconds of a call, medians over rounds, and of each round a collector's
time beyond the loop that copies observations: at most 15 is the aim. With `--cpu` they are of processor time, for a
machine on which other programs run too.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import sekai
from sekai.collect import Collector, Fragment


def policy_of(vec: sekai.VecEnv) -> Callable[[Any], Any]:
    """A function that hands out prepared actions."""
    vec.batch_action_space.seed(0)
    actions = itertools.cycle([vec.batch_action_space.sample() for _ in range(32)])
    return lambda observations: next(actions)


class Loop:
    """The loop that a collector replaces.

    Args:
        vec: the environments.
        rows: how many rows the observations are copied to in turn.
        all_columns: whether actions and rewards are copied too.
    """

    def __init__(self, vec: sekai.VecEnv, rows: int = 0, all_columns: bool = False) -> None:
        self.vec, self.policy, self.rows, self.all_columns = vec, policy_of(vec), rows, all_columns
        self.observations = vec.reset(seed=0).observations
        actions, rewards = self.policy(self.observations), np.zeros(vec.num_envs)
        self.targets = [np.zeros((rows, *part.shape), part.dtype) for part in self._parts(actions, rewards)]
        self.row = 0

    def _parts(self, actions: Any, rewards: Any) -> list[Any]:
        parts = list(self.observations.values()) if isinstance(self.observations, dict) else [self.observations]
        return [*parts, actions, rewards] if self.all_columns else parts

    def run(self, calls: int) -> None:
        """So many calls."""
        for _ in range(calls):
            actions = self.policy(self.observations)
            result = self.vec.step(actions)
            self.observations = result.observations
            if self.rows:
                self.row = (self.row + 1) % self.rows
                for target, part in zip(self.targets, self._parts(actions, result.rewards), strict=True):
                    target[self.row] = part


def seconds(run: Callable[[int], None], calls: int, clock: Callable[[], float]) -> float:
    """What so many calls take."""
    start = clock()
    run(calls)
    return clock() - start


class Collecting:
    """A collector whose latest fragment is held until the next is there."""

    def __init__(self, vec: sekai.VecEnv, length: int, share: bool) -> None:
        self.collector = Collector(vec, policy_of(vec), fragment_length=length, share_observations=share)
        self.collector.reset(seed=0)
        self.fragment: Fragment | None = None

    def run(self, calls: int) -> None:
        """The calls of one fragment, whose length they are."""
        self.fragment = self.collector.collect()


def measure(name: str, given: argparse.Namespace) -> list[str]:
    """The lines of an environment."""
    vecs = [sekai.make_vec(name, given.num_envs, vector_kwargs={"autoreset": given.mode}) for _ in range(5)]
    loops = [Loop(vecs[0]), Loop(vecs[1], 2 * given.length), Loop(vecs[2], 2 * given.length, all_columns=True)]
    runs = [*loops, *(Collecting(vec, given.length, share) for vec, share in zip(vecs[3:], (False, True), strict=True))]
    clock = time.process_time if given.cpu else time.perf_counter
    rounds = []
    for number in range(given.rounds + 4):
        taken = [seconds(run.run, given.length, clock) / given.length * 1e6 for run in runs]
        if number >= 4:  # buffers are warm
            rounds.append(taken)
    for vec in vecs:
        vec.close()
    bare, copying, keeping, *collectors = np.array(rounds).T
    return [
        f"{name:14}{how:8}"
        + "".join(f"{np.median(column):12.1f}" for column in (bare, copying, keeping, own, own - copying))
        + f"{own.min() - copying.min():16.1f}"
        for how, own in zip(("copies", "shares"), collectors, strict=True)
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--mode", default="same_step")
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args()
    unit = "microseconds of processor time a call" if given.cpu else "microseconds a call"
    print(f"native, {given.num_envs} slots, fragments of {given.length}, {given.mode}; {unit}")
    heads = "".join(f"{head:>12}" for head in ("bare", "+ copy", "+ all", "collector", "beyond"))
    print(f"{'environment':22}{heads}{'of the best':>16}")
    for name in ("Trading-v0", "Portfolio-v0"):
        print(*measure(name, given), sep="\n")


if __name__ == "__main__":
    main()
