"""Returns and advantages beside a sum over the same array: `python benchmarks/returns.py`.

The measure is NumPy's `cumsum` along time, which does one addition for each entry.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sekai.collect import discounted_returns, gae, lambda_returns, n_step_returns, vtrace


def timed(call: Callable[[], Any]) -> float:
    """Microseconds of one call."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e6


def calls(rows: int, slots: int, dtype: type, seed: int) -> dict[str, Callable[[], Any]]:
    """What is measured, by name; one row in 100 ends an episode, half of the ends are truncations."""
    rng = np.random.default_rng(seed)
    r_t, v_t, v_tp1, rho_t = (rng.random((rows, slots)).astype(dtype) for _ in range(4))
    ends = rng.random((rows, slots)) < 0.01
    bootstrap = ~(ends & (rng.random((rows, slots)) < 0.5))
    masks: dict[str, Any] = {"bootstrap": bootstrap, "trace": ~ends & bootstrap, "valid": np.ones_like(ends)}
    return {
        "cumsum": lambda: np.cumsum(r_t, axis=0),
        "discounted_returns": lambda: discounted_returns(r_t, v_tp1, **masks, gamma=0.99),
        "n_step_returns n=5": lambda: n_step_returns(r_t, v_tp1, **masks, gamma=0.99, n=5),
        "lambda_returns": lambda: lambda_returns(r_t, v_tp1, **masks, gamma=0.99, lambda_=0.95),
        "gae": lambda: gae(r_t, v_t, v_tp1, **masks, gamma=0.99, lambda_=0.95),
        "vtrace": lambda: vtrace(r_t, v_t, v_tp1, rho_t, **masks, gamma=0.99),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--slots", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=300)
    given = parser.parse_args()
    print(f"{given.rows} x {given.slots}; microseconds a call, median of {given.rounds}; ratio: median of the pairs")
    for dtype in (np.float64, np.float32):
        measured = calls(given.rows, given.slots, dtype, seed=0)
        for call in measured.values():  # compile
            call()
        times = np.array([[timed(call) for call in measured.values()] for _ in range(given.rounds)])
        ratios = np.median(times / times[:, :1], axis=0)
        for name, microseconds, ratio in zip(measured, np.median(times, axis=0), ratios, strict=True):
            print(f"{np.dtype(dtype).name:9}{name:20}{microseconds:9.0f}{ratio:8.2f}")


if __name__ == "__main__":
    main()
