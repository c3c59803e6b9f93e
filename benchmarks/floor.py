"""The physical floor of a call, and where a call stands above it: `python benchmarks/floor.py`.

The floor counts the bytes of what a call hands out (observations, rewards, flags, infos) and of the random numbers it
draws, over the rate at which one thread writes an array of that size, and the time NumPy takes for the draws. Nothing
that returns the same rows can be faster on one thread.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import sekai

#: standard normals, and uniforms, that a slot of each draws in a step
DRAWS = {"Trading-v0": (1, 0), "Portfolio-v0": (5, 0), "MarketMaking-v0": (1, 2), "OptimalExecution-v0": (1, 0)}


def median(call: Callable[[], Any], repeat: int = 400) -> float:
    """Median microseconds of a call."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e6


def bytes_handed_out(result: sekai.VecStepResult) -> int:
    """Size of the distinct memory behind a result."""
    parts = result.observations.values() if isinstance(result.observations, dict) else [result.observations]
    arrays = [*parts, result.rewards, result.terminated, result.truncated]
    arrays += [result.infos.columns[name][0] for name in result.infos.columns]
    return sum(array.nbytes for array in arrays)


def measure(name: str, n: int) -> str:
    """A line of the table."""
    vec = sekai.make_vec(name, n)
    vec.reset(seed=0)
    vec.batch_action_space.seed(0)
    actions = itertools.cycle([vec.batch_action_space.sample() for _ in range(8)])
    size = bytes_handed_out(vec.step(next(actions)))
    target, rng = np.empty(size, np.uint8), np.random.default_rng(0)
    normals, uniforms = (np.empty(count * n) for count in DRAWS[name])
    writing = median(lambda: target.fill(1))
    drawing = median(lambda: (rng.standard_normal(out=normals), rng.random(out=uniforms)))
    call = median(lambda: vec.step(next(actions)))
    vec.close()
    floor = writing + drawing
    return (
        f"{name:22}{size:10,}{size / writing / 1e3:7.0f}{writing:9.1f}{drawing:9.1f}{floor:8.1f}{call:8.1f}"
        f"{call / floor:15.1f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-envs", type=int, default=1024)
    n = parser.parse_args().num_envs
    print(f"{n} slots; microseconds a call, median")
    print(
        f"{'environment':22}{'bytes':>10}{'GB/s':>7}{'writing':>9}{'drawing':>9}{'floor':>8}{'call':>8}   call / floor"
    )
    for name in DRAWS:
        print(measure(name, n))


if __name__ == "__main__":
    main()
