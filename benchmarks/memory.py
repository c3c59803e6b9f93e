"""Memory of worker processes on a long history: `python benchmarks/memory.py`.

Trading-v0 on four worker processes, on a history of 200 MB and on one of 2 kB, each in a fresh interpreter. Quoted is
the proportional set size of the workers together (Linux only): a page that several processes map counts once.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

import numpy as np

import sekai

LONG, SHORT = 25_000_000, 250  # rows of float64


def megabytes(pid: int) -> float:
    """Proportional set size of a process."""
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def measure(rows: int, steps: int, num_envs: int) -> tuple[float, float]:
    """Megabytes of this process, and of its workers together, after some steps from random rows on."""
    prices = 100.0 * np.exp(np.cumsum(np.random.default_rng(0).normal(0.0, 1e-4, rows)))
    vec = sekai.make_vec(
        "Trading-v0",
        num_envs,
        vectorization_mode="proc",
        prices=prices,
        episode_length=20,
        vector_kwargs={"num_workers": 4},
    )
    vec.reset(seed=0)
    for _ in range(steps):
        vec.step(np.arange(num_envs) % 3)
    workers = [child.pid for child in multiprocessing.active_children()]
    found = megabytes(os.getpid()), sum(megabytes(pid) for pid in workers if pid is not None)
    vec.close()
    return found


def main() -> None:
    """Measure every case in an interpreter of its own, and print."""
    print("slots  steps   windows   workers, 2 kB   workers, 200 MB   excess   (caller's excess)")
    for num_envs, steps in ((4, 50), (4, 1000), (64, 400)):
        cases = [
            subprocess.run(
                [sys.executable, __file__, str(rows), str(steps), str(num_envs)], check=True, capture_output=True
            ).stdout.split()
            for rows in (SHORT, LONG)
        ]
        (own, short), (own_long, long) = ([float(number) for number in case] for case in cases)
        windows = num_envs * (1 + steps // 20)
        print(
            f"{num_envs:5}{steps:7}{windows:10}{short:13.0f} MB{long:15.0f} MB{long - short:6.0f} MB"
            f"{own_long - own:14.0f} MB"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*measure(*map(int, sys.argv[1:])))
    else:
        main()
