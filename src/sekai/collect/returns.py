"""Returns and advantages of rows that a vector environment gave: one function for each formula.

Shapes: `T` rows in time order, `N` slots; every array is `(T, N)`. Rewards and values are in the same unit, more is
better. Row `t` of a slot is the step from `s_t`, by `a_t`, to its true successor `s_{t+1}`:

    r_t      the reward of that step
    v_t      V(s_t), the value of the observation that the action was chosen on
    v_tp1    V(s_{t+1}), the value of the true successor: the final observation where an episode ends, never the first
             one of the next episode. Read only where `bootstrap` is True.

Three masks say what follows a row, and no formula looks at anything else:

    valid      the row is a transition: an action was executed, and its outcome is known. Rows that only reset, frozen
               rows and lost rows are none: nothing of theirs is read, and their results are NaN.
    bootstrap  valid, and the episode did not terminate: the successor has a value.
    trace      bootstrap, and the next row is the transition from that successor: the recursion goes on into it. False
               at every end, truncations included, and before a row that is no transition. The last row has no next
               row: the recursion starts there, whatever `trace` says, and bootstraps from `v_tp1`.

    row          0      1      2      3      4      5      6      7
    kind        STEP   STEP  TRUNC  RESET   STEP   TERM  RESET   STEP | cut
    valid         x      x      x      .      x      x      .      x
    bootstrap     x      x      x      .      x      .      .      x
    trace         x      x      .      .      x      .      .     (x)

Rewards, values, ratios: floats of any kind; the result has their common dtype, at least float32, and arithmetic is
done in it. The functions here take NumPy arrays and run compiled; `sekai.collect.returns_torch` has the same ones for
tensors, with gradients.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.collect import returns_kernels as kernels
from sekai.collect.returns_checks import check_limit, check_rows, check_steps, check_unit

Array = NDArray[Any]
Mask = NDArray[np.bool_]


class VTrace(NamedTuple):
    """What `vtrace` returns.

    Attributes:
        targets: `(T, N)`, `v_s`: what the value of `s_t` is regressed on.
        advantages: `(T, N)`, what the gradient of the log-probability of `a_t` is multiplied with.
    """

    targets: Any
    advantages: Any


def discounted_returns(
    r_t: ArrayLike, v_tp1: ArrayLike, *, bootstrap: Mask, trace: Mask, valid: Mask, gamma: float
) -> Array:
    """The discounted sum of rewards to the end, and from a cut or truncation on the value of its successor.

        G_t = r_t + gamma G_{t+1}      where trace
        G_t = r_t + gamma V(s_{t+1})   where bootstrap only
        G_t = r_t                      where neither

    Source: Sutton and Barto, "Reinforcement Learning" (2nd ed.), equations 3.8 and 3.9.

    Args:
        r_t: rewards, `(T, N)`.
        v_tp1: values of the true successors, `(T, N)`; read only where `bootstrap` is True and `trace` False.
        bootstrap: the successor has a value; see the module.
        trace: the recursion goes on into the next row.
        valid: the row is a transition.
        gamma: discount of a step, in `[0, 1]`.

    Returns:
        `(T, N)`; NaN where `valid` is False.

    Raises:
        ValueError: shapes, masks or a number that do not fit; TypeError for masks that are not bool.
    """
    return lambda_returns(r_t, v_tp1, bootstrap=bootstrap, trace=trace, valid=valid, gamma=gamma, lambda_=1.0)


def n_step_returns(
    r_t: ArrayLike, v_tp1: ArrayLike, *, bootstrap: Mask, trace: Mask, valid: Mask, gamma: float, n: int
) -> Array:
    """The rewards of up to `n` steps, and the value of where they lead.

        G_{t:t+k} = r_t + gamma r_{t+1} + ... + gamma^(k-1) r_{t+k-1} + gamma^k V(s_{t+k})

    `k` is `n`, or the number of rows up to the first without `trace` where that is less; the value counts where
    `bootstrap` of the last of these rows is True.

    Source: Sutton and Barto, "Reinforcement Learning" (2nd ed.), equation 7.1.

    Args:
        r_t, v_tp1, bootstrap, trace, valid, gamma: see `discounted_returns`; `v_tp1` is read wherever `bootstrap` is.
        n: most steps of a return, at least 1.

    Returns:
        `(T, N)`; NaN where `valid` is False.
    """
    arrays, masks = _rows("n_step_returns", {"r_t": r_t, "v_tp1": v_tp1}, bootstrap, trace, valid)
    gamma, n = check_unit("n_step_returns", "gamma", gamma), check_steps("n_step_returns", n)
    out = np.empty_like(arrays[0])
    kernels.n_step_returns.compiled(*arrays, *masks, out.dtype.type(gamma), min(n, len(out)), out)
    return out


def lambda_returns(
    r_t: ArrayLike, v_tp1: ArrayLike, *, bootstrap: Mask, trace: Mask, valid: Mask, gamma: float, lambda_: float
) -> Array:
    """Returns that mix the values of all later states.

        G_t = r_t + gamma ((1 - lambda) V(s_{t+1}) + lambda G_{t+1})   where trace
        G_t = r_t + gamma V(s_{t+1})                                   where bootstrap only
        G_t = r_t                                                      where neither

    `lambda` 0 is the one-step return, 1 is `discounted_returns`.

    Source: Sutton and Barto, "Reinforcement Learning" (2nd ed.), equation 12.18.

    Args:
        r_t, v_tp1, bootstrap, trace, valid, gamma: see `discounted_returns`; `v_tp1` is read wherever `bootstrap` is,
            unless `lambda_` is 1.
        lambda_: weight of the longer returns, in `[0, 1]`.

    Returns:
        `(T, N)`; NaN where `valid` is False.
    """
    arrays, masks = _rows("lambda_returns", {"r_t": r_t, "v_tp1": v_tp1}, bootstrap, trace, valid)
    gamma, lambda_ = (check_unit("lambda_returns", *pair) for pair in (("gamma", gamma), ("lambda_", lambda_)))
    out = np.empty_like(arrays[0])
    real = out.dtype.type
    kernels.lambda_returns.compiled(*arrays, *masks, real(gamma), real(1.0 - lambda_), real(lambda_), out)
    return out


def gae(
    r_t: ArrayLike,
    v_t: ArrayLike,
    v_tp1: ArrayLike,
    *,
    bootstrap: Mask,
    trace: Mask,
    valid: Mask,
    gamma: float,
    lambda_: float,
) -> Array:
    """Generalised advantage estimates.

        delta_t = r_t + gamma V(s_{t+1}) - V(s_t)     without the value of the successor where bootstrap is False
        A_t = delta_t + gamma lambda A_{t+1}          where trace
        A_t = delta_t                                 elsewhere

    Targets of the value function are `A_t + v_t`.

    Source: Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage Estimation" (2016),
    equations 11, 12 and 16.

    Args:
        r_t, v_tp1, bootstrap, trace, valid, gamma: see `discounted_returns`; `v_tp1` is read wherever `bootstrap` is.
        v_t: values of the observations acted on, `(T, N)`.
        lambda_: weight of the longer estimates, in `[0, 1]`.

    Returns:
        `(T, N)`; NaN where `valid` is False.
    """
    arrays, masks = _rows("gae", {"r_t": r_t, "v_t": v_t, "v_tp1": v_tp1}, bootstrap, trace, valid)
    gamma, lambda_ = (check_unit("gae", *pair) for pair in (("gamma", gamma), ("lambda_", lambda_)))
    out = np.empty_like(arrays[0])
    kernels.gae.compiled(*arrays, *masks, out.dtype.type(gamma), out.dtype.type(gamma * lambda_), out)
    return out


def vtrace(
    r_t: ArrayLike,
    v_t: ArrayLike,
    v_tp1: ArrayLike,
    rho_t: ArrayLike,
    *,
    bootstrap: Mask,
    trace: Mask,
    valid: Mask,
    gamma: float,
    lambda_: float = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> VTrace:
    """Targets and advantages of a policy from the steps of another.

        delta_t = min(rho_bar, rho_t) (r_t + gamma V(s_{t+1}) - V(s_t))
        v_t - V(s_t) = delta_t + gamma lambda min(c_bar, rho_t) (v_{t+1} - V(s_{t+1}))     where trace
        v_t - V(s_t) = delta_t                                                             elsewhere
        advantage_t = min(rho_bar, rho_t) (r_t + gamma v_{t+1} - V(s_t))

    In `delta_t` the value of the successor counts where `bootstrap` is True; in the advantage `v_{t+1}` is the target
    of the next row where `trace` is True, V(s_{t+1}) where only `bootstrap` is, and 0 elsewhere.

    Source: Espeholt et al., "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner
    Architectures" (2018), equation 1, remarks 1 and 2, section 4.2.

    Args:
        r_t, v_tp1, bootstrap, trace, valid, gamma: see `discounted_returns`; `v_tp1` is read wherever `bootstrap` is.
        v_t: values of the observations acted on, `(T, N)`.
        rho_t: `pi(a_t | s_t) / mu(a_t | s_t)`, the learned policy's probability of the action over that of the policy
            which chose it, `(T, N)`; not its logarithm.
        lambda_: weight of the longer corrections, in `[0, 1]`.
        rho_bar: most that a ratio counts in `delta_t` and the advantage, above 0; `inf` for no limit.
        c_bar: most that a ratio counts in the trace, above 0; `inf` for no limit.

    Returns:
        Targets and advantages, each `(T, N)`; NaN where `valid` is False.
    """
    given = {"r_t": r_t, "v_t": v_t, "v_tp1": v_tp1, "rho_t": rho_t}
    arrays, masks = _rows("vtrace", given, bootstrap, trace, valid)
    gamma, lambda_ = (check_unit("vtrace", *pair) for pair in (("gamma", gamma), ("lambda_", lambda_)))
    limits = [check_limit("vtrace", *pair) for pair in (("rho_bar", rho_bar), ("c_bar", c_bar))]
    out = VTrace(np.empty_like(arrays[0]), np.empty_like(arrays[0]))
    numbers = map(out.targets.dtype.type, (gamma, gamma * lambda_, *limits))
    kernels.vtrace.compiled(*arrays, *masks, *numbers, *out)
    return out


def _rows(
    name: str, given: dict[str, ArrayLike], bootstrap: Any, trace: Any, valid: Any
) -> tuple[list[Array], list[Mask]]:
    """What a kernel takes: checked, of one dtype, contiguous."""
    arrays = {key: np.asarray(value) for key, value in given.items()}
    masks = {
        "bootstrap": np.asarray(bootstrap),
        "trace": np.asarray(trace),
        "valid": np.asarray(valid),
    }
    check_rows(name, arrays, masks, np)
    dtype = np.result_type(np.float32, *arrays.values())
    if dtype.kind != "f":
        raise TypeError(f"{name}: the arrays are together of dtype {dtype}; expected real numbers.")
    return (
        [np.ascontiguousarray(array, dtype) for array in arrays.values()],
        [np.ascontiguousarray(mask) for mask in masks.values()],
    )
