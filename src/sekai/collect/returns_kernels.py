"""Returns and advantages as machine code; `returns` says what they are, `returns_reference` is what they equal.

Every array is `(T, N)`, C-contiguous, of one float dtype; so are the numbers. `out` is written, every row of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.core.kernels import kernel


@kernel
def lambda_returns(
    r_t: Any, v_tp1: Any, bootstrap: Any, trace: Any, valid: Any, gamma: Any, one_less: Any, lambda_: Any, out: Any
) -> None:
    """`one_less` is `1 - lambda_`."""
    zero = gamma - gamma  # a literal would be float64
    last = r_t.shape[0] - 1
    for t in range(last, -1, -1):
        for i in range(r_t.shape[1]):
            if not valid[t, i]:
                out[t, i] = np.nan
                continue
            successor = v_tp1[t, i] if bootstrap[t, i] else zero
            if t < last and trace[t, i]:
                g_tp1 = out[t + 1, i]
                successor = g_tp1 if one_less == 0 else one_less * successor + lambda_ * g_tp1
            out[t, i] = r_t[t, i] + gamma * successor


@kernel
def n_step_returns(r_t: Any, v_tp1: Any, bootstrap: Any, trace: Any, valid: Any, gamma: Any, n: Any, out: Any) -> None:
    """Pass `k` makes the returns of `k` steps of those of `k - 1`."""
    zero = gamma - gamma  # a literal would be float64
    last = r_t.shape[0] - 1
    for k in range(1, n + 1):
        for t in range(last + 1):
            for i in range(r_t.shape[1]):
                if not valid[t, i]:
                    out[t, i] = np.nan
                    continue
                successor = v_tp1[t, i] if bootstrap[t, i] else zero
                if k > 1 and t < last and trace[t, i]:
                    successor = out[t + 1, i]  # still of the pass before
                out[t, i] = r_t[t, i] + gamma * successor


@kernel
def gae(
    r_t: Any, v_t: Any, v_tp1: Any, bootstrap: Any, trace: Any, valid: Any, gamma: Any, decay: Any, out: Any
) -> None:
    """`decay` is `gamma * lambda_`."""
    zero = gamma - gamma  # a literal would be float64
    last = r_t.shape[0] - 1
    for t in range(last, -1, -1):
        for i in range(r_t.shape[1]):
            if not valid[t, i]:
                out[t, i] = np.nan
                continue
            successor = v_tp1[t, i] if bootstrap[t, i] else zero
            delta = r_t[t, i] + gamma * successor - v_t[t, i]
            out[t, i] = delta + decay * out[t + 1, i] if t < last and trace[t, i] else delta


@kernel
def vtrace(
    r_t: Any,
    v_t: Any,
    v_tp1: Any,
    rho_t: Any,
    bootstrap: Any,
    trace: Any,
    valid: Any,
    gamma: Any,
    decay: Any,
    rho_bar: Any,
    c_bar: Any,
    targets: Any,
    advantages: Any,
) -> None:
    """`decay` is `gamma * lambda_`."""
    zero = gamma - gamma  # a literal would be float64
    last = r_t.shape[0] - 1
    corrections = np.zeros_like(r_t[0])
    for t in range(last, -1, -1):
        for i in range(r_t.shape[1]):
            if not valid[t, i]:
                targets[t, i] = advantages[t, i] = np.nan
                continue
            ratio = rho_t[t, i]
            rho = rho_bar if ratio > rho_bar else ratio  # min() may lose a NaN
            c = c_bar if ratio > c_bar else ratio
            v_next = v_tp1[t, i] if bootstrap[t, i] else zero
            target_next = v_next
            correction = rho * (r_t[t, i] + gamma * v_next - v_t[t, i])
            if t < last and trace[t, i]:
                correction += decay * c * corrections[i]
                target_next = targets[t + 1, i]
            corrections[i] = correction
            targets[t, i] = v_t[t, i] + correction
            advantages[t, i] = rho * (r_t[t, i] + gamma * target_next - v_t[t, i])
