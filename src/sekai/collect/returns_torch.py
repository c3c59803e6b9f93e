"""The functions of `sekai.collect.returns` for tensors: same arguments, same numbers, with gradients.

Gradients flow through rewards, values and ratios; what a mask hides has none. Use `detach()` on targets that should be
constants. Checking the masks waits for the device once.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch

from sekai.collect import returns_reference as reference
from sekai.collect.returns import VTrace
from sekai.collect.returns_checks import check_limit, check_rows, check_steps, check_unit

__all__ = ["discounted_returns", "gae", "lambda_returns", "n_step_returns", "vtrace"]

Tensor = Any  # of torch, which is read as Any


def discounted_returns(
    r_t: Tensor, v_tp1: Tensor, *, bootstrap: Tensor, trace: Tensor, valid: Tensor, gamma: float
) -> Tensor:
    """The discounted sum of rewards; see `sekai.collect.discounted_returns`."""
    return lambda_returns(r_t, v_tp1, bootstrap=bootstrap, trace=trace, valid=valid, gamma=gamma, lambda_=1.0)


def n_step_returns(
    r_t: Tensor, v_tp1: Tensor, *, bootstrap: Tensor, trace: Tensor, valid: Tensor, gamma: float, n: int
) -> Tensor:
    """The rewards of up to `n` steps, and the value of where they lead; see `sekai.collect.n_step_returns`."""
    rows = _rows("n_step_returns", {"r_t": r_t, "v_tp1": v_tp1}, bootstrap, trace, valid)
    gamma, n = check_unit("n_step_returns", "gamma", gamma), check_steps("n_step_returns", n)
    return reference.n_step_returns(torch, *rows, gamma=gamma, n=n)


def lambda_returns(
    r_t: Tensor, v_tp1: Tensor, *, bootstrap: Tensor, trace: Tensor, valid: Tensor, gamma: float, lambda_: float
) -> Tensor:
    """Returns that mix the values of all later states; see `sekai.collect.lambda_returns`."""
    rows = _rows("lambda_returns", {"r_t": r_t, "v_tp1": v_tp1}, bootstrap, trace, valid)
    gamma, lambda_ = (check_unit("lambda_returns", *pair) for pair in (("gamma", gamma), ("lambda_", lambda_)))
    return reference.lambda_returns(torch, *rows, gamma=gamma, lambda_=lambda_)


def gae(
    r_t: Tensor,
    v_t: Tensor,
    v_tp1: Tensor,
    *,
    bootstrap: Tensor,
    trace: Tensor,
    valid: Tensor,
    gamma: float,
    lambda_: float,
) -> Tensor:
    """Generalised advantage estimates; see `sekai.collect.gae`."""
    rows = _rows("gae", {"r_t": r_t, "v_t": v_t, "v_tp1": v_tp1}, bootstrap, trace, valid)
    gamma, lambda_ = (check_unit("gae", *pair) for pair in (("gamma", gamma), ("lambda_", lambda_)))
    return reference.gae(torch, *rows, gamma=gamma, lambda_=lambda_)


def vtrace(
    r_t: Tensor,
    v_t: Tensor,
    v_tp1: Tensor,
    rho_t: Tensor,
    *,
    bootstrap: Tensor,
    trace: Tensor,
    valid: Tensor,
    gamma: float,
    lambda_: float = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> VTrace:
    """Targets and advantages of a policy from the steps of another; see `sekai.collect.vtrace`."""
    given = {"r_t": r_t, "v_t": v_t, "v_tp1": v_tp1, "rho_t": rho_t}
    rows = _rows("vtrace", given, bootstrap, trace, valid)
    gamma, lambda_ = (check_unit("vtrace", *pair) for pair in (("gamma", gamma), ("lambda_", lambda_)))
    rho_bar, c_bar = (check_limit("vtrace", *pair) for pair in (("rho_bar", rho_bar), ("c_bar", c_bar)))
    numbers = {"gamma": gamma, "lambda_": lambda_, "rho_bar": rho_bar, "c_bar": c_bar}
    return VTrace(*reference.vtrace(torch, *rows, **numbers))


def _rows(name: str, arrays: dict[str, Tensor], bootstrap: Tensor, trace: Tensor, valid: Tensor) -> list[Tensor]:
    """The tensors that the reference takes: checked, of one dtype, at least float32."""
    masks = {"bootstrap": bootstrap, "trace": trace, "valid": valid}
    for key, value in {**arrays, **masks}.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f"{name}: {key} is of type {type(value).__name__}; expected a tensor. sekai.collect.{name} takes "
                "NumPy arrays."
            )
    check_rows(name, arrays, masks, torch)
    dtype = reduce(torch.promote_types, (array.dtype for array in arrays.values()), torch.float32)
    if not dtype.is_floating_point:
        raise TypeError(f"{name}: the tensors are together of dtype {dtype}; expected real numbers.")
    return [*(array.to(dtype) for array in arrays.values()), *masks.values()]
