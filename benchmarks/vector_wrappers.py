"""What a stack of vector wrappers leaves of the bare throughput: `python benchmarks/vector_wrappers.py`.

A wrapped environment and a bare one are stepped in turns within one process, a block of calls each, so that noise of
the machine meets both. A ratio is wrapped over bare, of the same round; quoted is the median.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import sekai

WRAPPERS: dict[str, Callable[[sekai.VecEnv], sekai.VecEnv]] = {
    "VecRecordEpisodeStatistics": sekai.VecRecordEpisodeStatistics,
    "VecNormalizeObservation": sekai.VecNormalizeObservation,
    "VecNormalizeReward": sekai.VecNormalizeReward,
    "VecClipReward": lambda vec: sekai.VecClipReward(vec, -10.0, 10.0),
    "VecTransformReward": lambda vec: sekai.VecTransformReward(vec, lambda rewards: rewards * 0.1),
    "VecDelayAction(1)": lambda vec: sekai.VecDelayAction(vec, 1, noop=1),
    "VecTimeAwareObservation": sekai.VecTimeAwareObservation,
    "VecDelayObservation(1)": lambda vec: sekai.VecDelayObservation(vec, 1),
    "VecFrameStackObservation(4)": lambda vec: sekai.VecFrameStackObservation(vec, 4),
}
STACK = tuple(WRAPPERS)[:5]


def build(num_envs: int, names: tuple[str, ...]) -> sekai.VecEnv:
    """Native Trading-v0 with these wrappers, the first innermost."""
    vec = sekai.make_vec("Trading-v0", num_envs, max_episode_steps=252)
    for name in names:
        vec = WRAPPERS[name](vec)
    return vec


def timed(vec: Any, actions: list[Any], calls: int) -> float:
    """Env steps per second of some calls."""
    start = time.perf_counter()
    for call in range(calls):
        vec.step(actions[call % len(actions)])
    return len(vec) * calls / (time.perf_counter() - start)


def compare(names: tuple[str, ...], num_envs: int, rounds: int, calls: int) -> tuple[float, float, float]:
    """Median steps per second bare and wrapped, and the median ratio."""
    bare, wrapped = build(num_envs, ()), build(num_envs, names)
    space = bare.batch_action_space
    space.seed(0)
    actions = [space.sample() for _ in range(32)]
    pairs = []
    for vec in (bare, wrapped):
        vec.reset(seed=0)
        timed(vec, actions, 252)
    for _ in range(rounds):
        pairs.append((timed(bare, actions, calls), timed(wrapped, actions, calls)))
    ratio = statistics.median(after / before for before, after in pairs)
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs), ratio


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=1008, help="calls a round; a multiple of the 252 of an episode")
    given = parser.parse_args()
    print(f"Trading-v0, native, {given.num_envs} slots, median of {given.rounds} rounds of {given.calls} calls")
    print(f"{'wrapper':32}{'bare':>14}{'wrapped':>14}   ratio   microseconds a call")
    for name, names in {**{name: (name,) for name in WRAPPERS}, "the first five together": STACK}.items():
        before, after, ratio = compare(names, given.num_envs, given.rounds, given.calls)
        cost = given.num_envs * (1 / after - 1 / before) * 1e6
        print(f"{name:32}{before:14,.0f}{after:14,.0f}{ratio:8.2f}{cost:22.1f}")


if __name__ == "__main__":
    main()
