"""What a second thread gains: `python benchmarks/threads.py`.

Two native environments that differ in `num_threads` are stepped in turns within one process, a block of calls each, so
that noise of the machine meets both. A ratio is steps per second with more threads over those with one, of the same
round; quoted is the median.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import sekai

IDS = ("Trading-v0", "Portfolio-v0", "MarketMaking-v0", "OptimalExecution-v0")


def timed(vec: Any, actions: list[Any], calls: int) -> float:
    """Env steps per second of some calls."""
    start = time.perf_counter()
    for call in range(calls):
        vec.step(actions[call % len(actions)])
    return len(vec) * calls / (time.perf_counter() - start)


def compare(id: str, num_envs: int, num_threads: int, rounds: int, calls: int) -> tuple[int, float, float, float]:
    """Ranges a call is cut into, median steps per second with one thread and with more, and the median ratio."""
    one = sekai.make_vec(id, num_envs)
    more = sekai.make_vec(id, num_envs, num_threads=num_threads)
    space = one.batch_action_space
    space.seed(0)
    actions = [space.sample() for _ in range(8)]
    if id == "OptimalExecution-v0":
        actions = [action * 0.2 for action in actions]  # or the order is sold at once
    for vec in (one, more):
        vec.reset(seed=0)
        timed(vec, actions, 30)
    pairs = [(timed(one, actions, calls), timed(more, actions, calls)) for _ in range(rounds)]
    ranges = len(more.unwrapped._slots.threads.ranges)
    more.close()
    before, after = (statistics.median(side) for side in zip(*pairs, strict=True))
    return ranges, before, after, statistics.median(b / a for a, b in pairs)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-threads", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 4096, 16384])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=1_000_000, help="env steps of a side in a round")
    given = parser.parse_args()
    print(f"{'environment':22}{'slots':>7}{'ranges':>8}{'1 thread':>14}{f'{given.num_threads} threads':>14}   ratio")
    for id in IDS:
        for size in given.sizes:
            calls = max(given.steps // size, 1)
            ranges, before, after, ratio = compare(id, size, given.num_threads, given.rounds, calls)
            print(f"{id:22}{size:7,}{ranges:8}{before:14,.0f}{after:14,.0f}{ratio:8.2f}")


if __name__ == "__main__":
    main()
