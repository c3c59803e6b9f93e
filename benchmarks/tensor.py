"""Collecting on the tensor path beside the NumPy path: `python benchmarks/tensor.py`.

The same learner (`SafetyPPO`, two layers of 64) collects rollouts of 4,096 double integrators, in turns within one
process: from a `SafetyTensorEnv`, and from the native environment through the Stable-Baselines3 adapter. Quoted are
environment steps per second, medians over rounds, and the median of the ratios.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch

import sekai
from sekai.compat import to_sb3
from sekai.safety.learners import SafetyPPO
from sekai.safety.tensor import SafetyTensorEnv

TASK = "safety/DoubleIntegrator-v0"


def learner_on(env: Any, length: int) -> Any:
    """A learner that is about to collect, and its callback."""
    learner = SafetyPPO("MlpPolicy", env, n_steps=length, batch_size=4096, n_epochs=1, seed=0, device="cpu")
    learner.learn(1)
    _, callback = learner._setup_learn(1, reset_num_timesteps=False)
    return learner, callback


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=4096)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of torch; by default all cores")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    envs = {
        "tensor": SafetyTensorEnv(given.num_envs, "DoubleIntegrator"),
        "numpy": to_sb3(sekai.make_vec(TASK, given.num_envs, vectorization_mode="native")),
    }
    learners = {name: learner_on(env, given.length) for name, env in envs.items()}
    rates: dict[str, list[float]] = {name: [] for name in envs}
    for _ in range(given.rounds):
        for name, (learner, callback) in learners.items():
            start = time.perf_counter()
            learner.collect_rollouts(learner.env, callback, learner.rollout_buffer, given.length)
            rates[name].append(given.num_envs * given.length / (time.perf_counter() - start))
    for name, found in rates.items():
        print(f"{name:8} {statistics.median(found):12,.0f} steps/s")
    ratio = statistics.median(a / b for a, b in zip(rates["tensor"], rates["numpy"], strict=True))
    print(f"tensor / numpy {ratio:.2f}")


if __name__ == "__main__":
    main()
