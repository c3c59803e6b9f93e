"""Rows with random boundaries, and every formula once more: one trajectory after the other, by explicit sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from sekai import RowKind


@dataclass(frozen=True)
class Rows:
    """Arrays `(T, N)` as `returns` takes them; NaN wherever nothing may be read."""

    r_t: NDArray[Any]
    v_t: NDArray[Any]
    v_tp1: NDArray[Any]
    rho_t: NDArray[Any]
    masks: dict[str, NDArray[np.bool_]]

    def trajectories(self) -> list[tuple[int, list[int]]]:
        """The slot and the rows of every trajectory: rows that follow one another without a boundary."""
        found: list[tuple[int, list[int]]] = []
        length, slots = self.r_t.shape
        for slot in range(slots):
            rows: list[int] = []
            for t in range(length):
                if not self.masks["valid"][t, slot]:
                    continue
                rows.append(t)
                if t == length - 1 or not self.masks["trace"][t, slot]:
                    found.append((slot, rows))
                    rows = []
        return found


def masks_of(kind: NDArray[np.int8], cut: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """The masks of rows of these kinds; `cut`: the row after is no continuation, though the episode goes on."""
    valid = kind <= RowKind.TRUNCATED
    next_valid = np.concatenate([valid[1:], valid[-1:]])
    return {
        "valid": valid,
        "bootstrap": valid & (kind != RowKind.TERMINATED),
        "trace": (kind == RowKind.STEP) & next_valid & ~cut,
    }


def random_rows(length: int, slots: int, seed: int, dtype: Any = np.float64) -> Rows:
    """Rows of all kinds in any order."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet([4.0, 1.0, 1.0, 0.5, 0.5, 0.5])
    kind = rng.choice(6, (length, slots), p=weights).astype(np.int8)
    masks = masks_of(kind, rng.random((length, slots)) < 0.1)
    r_t, v_t, v_tp1 = (rng.normal(size=(length, slots)).astype(dtype) for _ in range(3))
    rho_t = rng.gamma(1.0, 1.5, (length, slots)).astype(dtype)
    for array in (r_t, v_t, rho_t):
        array[~masks["valid"]] = np.nan
    v_tp1[~masks["bootstrap"]] = np.nan
    return Rows(r_t, v_t, v_tp1, rho_t, masks)


def drawn_rows(dtype: Any = np.float64) -> st.SearchStrategy[Rows]:
    """Hypothesis: `random_rows` of small shapes."""
    return st.builds(random_rows, st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**32 - 1), st.just(dtype))


def n_step_return(rows: Rows, slot: int, trajectory: list[int], n: int, gamma: float) -> float:
    """`G_{t:t+k}` of the first row of a trajectory."""
    used = trajectory[:n]
    total = sum(gamma**i * float(rows.r_t[t, slot]) for i, t in enumerate(used))
    last = used[-1]
    tail = float(rows.v_tp1[last, slot]) if rows.masks["bootstrap"][last, slot] else 0.0
    return total + gamma ** len(used) * tail


def lambda_return(rows: Rows, slot: int, trajectory: list[int], gamma: float, lambda_: float) -> float:
    """Sutton and Barto, equation 12.3: the weighted sum of all n-step returns of the first row."""
    k = len(trajectory)
    total = lambda_ ** (k - 1) * n_step_return(rows, slot, trajectory, k, gamma)
    for n in range(1, k):
        total += (1 - lambda_) * lambda_ ** (n - 1) * n_step_return(rows, slot, trajectory, n, gamma)
    return total


def td_error(rows: Rows, slot: int, t: int, gamma: float) -> float:
    """`delta_t`."""
    tail = gamma * float(rows.v_tp1[t, slot]) if rows.masks["bootstrap"][t, slot] else 0.0
    return float(rows.r_t[t, slot]) + tail - float(rows.v_t[t, slot])


def advantage(rows: Rows, slot: int, trajectory: list[int], gamma: float, lambda_: float) -> float:
    """Schulman et al., equation 16: the sum of `(gamma lambda)^l delta_{t+l}` from the first row on."""
    return sum((gamma * lambda_) ** i * td_error(rows, slot, t, gamma) for i, t in enumerate(trajectory))


def vtrace_target(
    rows: Rows, slot: int, trajectory: list[int], gamma: float, lambda_: float, rho_bar: float, c_bar: float
) -> float:
    """Espeholt et al., equation 1, of the first row."""
    total, weight = float(rows.v_t[trajectory[0], slot]), 1.0
    for t in trajectory:
        ratio = float(rows.rho_t[t, slot])
        total += weight * min(rho_bar, ratio) * td_error(rows, slot, t, gamma)
        weight *= gamma * lambda_ * min(c_bar, ratio)
    return total
