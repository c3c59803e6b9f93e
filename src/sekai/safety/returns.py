"""Lambda returns of margins: the mixture stands inside the operator, so that a return never leaves the range of g.

With B the operator of the mode (`sekai.safety.backups`), T rows in time order and N slots:

    G_t = B(g_t, [l_t,] (1 - lambda) v_tp1 + lambda G_{t+1})     where trace
    G_t = B(g_t, [l_t,] v_tp1)                                   where the recursion ends but the episode goes on
    G_t = terminal                                               where the backup ends
    A_t = G_t - v_t

lambda 0 is the one-step target, lambda 1 with gamma 1 the least (and for reach-avoid the best reached) margin that was
met. An avoid return satisfies  min of g and v_tp1 <= G_t <= g_t  for every lambda and gamma. Summing differences
outside the operator, as generalised advantage estimation does with rewards, keeps neither.

Masks are those of `sekai.collect.returns`: `trace` where the next row is the transition from this row's successor.
"""

from __future__ import annotations

from typing import Any

from sekai.safety.arrays import namespace
from sekai.safety.backups import as_flags, continued, terminal


def safety_returns(
    mode: str,
    g_t: Any,
    v_tp1: Any,
    *,
    not_done: Any,
    trace: Any,
    gamma: float,
    lambda_: float,
    l_t: Any = None,
    terminal_type: str = "all",
    failure_value: float | None = None,
) -> Any:
    """The lambda returns of the rows of a fragment; see the module.

    Args:
        mode: `"avoid"` or `"reach-avoid"`.
        g_t: safety margins, `(T, N)`, of the states after the steps.
        v_tp1: values of the same states, `(T, N)`; read only where `not_done`.
        not_done: bool `(T, N)`, the backup goes on after the row.
        trace: bool `(T, N)`, the recursion goes on into the next row; the last row ends it whatever it says.
        gamma: discount of a step, in `[0, 1]`.
        lambda_: weight of what was met later against the value, in `[0, 1]`.
        l_t: target margins, `(T, N)`; reach-avoid only.
        terminal_type, failure_value: as for `sekai.safety.backups.target`.

    Returns:
        `(T, N)`, NumPy or torch as `g_t` is.

    Raises:
        ValueError: arrays of different shapes, numbers out of range, or what the backup refuses.
    """
    given = {"v_tp1": v_tp1, "not_done": not_done, "trace": trace, "l_t": l_t}
    for name, array in given.items():
        if array is not None and tuple(array.shape) != tuple(g_t.shape):
            raise ValueError(f"{name} has shape {tuple(array.shape)}, and g_t {tuple(g_t.shape)}: expected the same.")
    for name, number in {"gamma": gamma, "lambda_": lambda_}.items():
        if not 0.0 <= number <= 1.0:
            raise ValueError(f"{name} is {number}; expected a number from 0 to 1.")
    xp = namespace(g_t)
    goes_on, end = as_flags(not_done), terminal(mode, g_t, l_t, terminal_type, failure_value=failure_value)
    returns = xp.empty_like(g_t)
    later = None
    for t in range(len(g_t) - 1, -1, -1):
        value = v_tp1[t]
        if later is not None:
            value = xp.where(trace[t], (1 - lambda_) * value + lambda_ * later, value)
        value = continued(mode, g_t[t], value, gamma, None if l_t is None else l_t[t])
        later = returns[t] = xp.where(goes_on[t], value, end[t])
    return returns
