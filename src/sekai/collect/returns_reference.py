"""Returns and advantages to read: over `N` slots at once, row by row; `returns` says what they are.

Written once for NumPy and torch: `xp` is the module that the arrays are of. Nothing is written in place, and what a
mask hides is replaced before any arithmetic, so that no NaN of it comes through, in a result or in a gradient.

Every recursion runs along `backward`; one that backs up otherwise than by adding up brings its own `backup`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def mixed(v_tp1_row: Any, g_tp1_row: Any, lambda_: float) -> Any:
    """`(1 - lambda) V(s_{t+1}) + lambda G_{t+1}`; at `lambda` 1 the value is not read."""
    return g_tp1_row if lambda_ == 1.0 else (1.0 - lambda_) * v_tp1_row + lambda_ * g_tp1_row


def backward(xp: Any, trace: Any, start: Callable[[int], Any], go_on: Callable[[int, Any], Any]) -> Any:
    """`x_t = go_on(t, x_{t+1})` where `trace`, `start(t)` elsewhere and in the last row; `(T, N)`."""
    last = len(trace) - 1
    rows: list[Any] = []
    for t in range(last, -1, -1):
        begun = start(t)
        rows.append(begun if t == last else xp.where(trace[t], go_on(t, rows[-1]), begun))
    return xp.stack(rows[::-1])


def lambda_returns(
    xp: Any, r_t: Any, v_tp1: Any, bootstrap: Any, trace: Any, valid: Any, *, gamma: float, lambda_: float
) -> Any:
    """`G_t = r_t + gamma ((1 - lambda) V(s_{t+1}) + lambda G_{t+1})`."""
    r_t, v_tp1 = xp.where(valid, r_t, 0.0), xp.where(bootstrap, v_tp1, 0.0)

    def backup(t: int, successor: Any) -> Any:
        return r_t[t] + gamma * successor

    g_t = backward(
        xp, trace, lambda t: backup(t, v_tp1[t]), lambda t, g_tp1: backup(t, mixed(v_tp1[t], g_tp1, lambda_))
    )
    return xp.where(valid, g_t, xp.nan)


def n_step_returns(
    xp: Any, r_t: Any, v_tp1: Any, bootstrap: Any, trace: Any, valid: Any, *, gamma: float, n: int
) -> Any:
    """`G_{t:t+k} = r_t + gamma G_{t+1:t+k}`, from `G_{t:t+1} = r_t + gamma V(s_{t+1})`."""
    r_t, v_tp1 = xp.where(valid, r_t, 0.0), xp.where(bootstrap, v_tp1, 0.0)
    g_t = r_t + gamma * v_tp1
    for _ in range(min(n, len(r_t)) - 1):
        successor = xp.where(trace[:-1], g_t[1:], v_tp1[:-1])
        g_t = r_t + gamma * xp.concatenate([successor, v_tp1[-1:]])
    return xp.where(valid, g_t, xp.nan)


def gae(
    xp: Any, r_t: Any, v_t: Any, v_tp1: Any, bootstrap: Any, trace: Any, valid: Any, *, gamma: float, lambda_: float
) -> Any:
    """`A_t = delta_t + gamma lambda A_{t+1}`."""
    r_t, v_t, v_tp1 = xp.where(valid, r_t, 0.0), xp.where(valid, v_t, 0.0), xp.where(bootstrap, v_tp1, 0.0)
    delta_t = r_t + gamma * v_tp1 - v_t
    decay = gamma * lambda_
    a_t = backward(xp, trace, lambda t: delta_t[t], lambda t, a_tp1: delta_t[t] + decay * a_tp1)
    return xp.where(valid, a_t, xp.nan)


def vtrace(
    xp: Any,
    r_t: Any,
    v_t: Any,
    v_tp1: Any,
    rho_t: Any,
    bootstrap: Any,
    trace: Any,
    valid: Any,
    *,
    gamma: float,
    lambda_: float,
    rho_bar: float,
    c_bar: float,
) -> tuple[Any, Any]:
    """`v_t - V(s_t) = delta_t + gamma lambda c_t (v_{t+1} - V(s_{t+1}))`; `rho_t (r_t + gamma v_{t+1} - V(s_t))`."""
    r_t, v_t, v_tp1 = xp.where(valid, r_t, 0.0), xp.where(valid, v_t, 0.0), xp.where(bootstrap, v_tp1, 0.0)
    ratio = xp.where(valid, rho_t, 0.0)
    rho, decay = ratio.clip(max=rho_bar), gamma * lambda_ * ratio.clip(max=c_bar)
    delta_t = rho * (r_t + gamma * v_tp1 - v_t)
    correction = backward(xp, trace, lambda t: delta_t[t], lambda t, x_tp1: delta_t[t] + decay[t] * x_tp1)
    targets = v_t + correction
    target_tp1 = xp.concatenate([xp.where(trace[:-1], targets[1:], v_tp1[:-1]), v_tp1[-1:]])
    advantages = rho * (r_t + gamma * target_tp1 - v_t)
    return xp.where(valid, targets, xp.nan), xp.where(valid, advantages, xp.nan)
