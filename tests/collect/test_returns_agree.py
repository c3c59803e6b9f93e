"""Returns and advantages on random rows: machine code, reference and torch give the same numbers, those of explicit
sums over each trajectory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sekai import collect
from sekai.collect import returns_reference, returns_torch
from tests.collect.rows import (
    Rows,
    advantage,
    drawn_rows,
    lambda_return,
    n_step_return,
    random_rows,
    vtrace_target,
)

UNIT = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0))
FORMULAS = ("n_step_returns", "lambda_returns", "gae", "vtrace")
DTYPES = st.sampled_from([np.float64, np.float32])


def arguments(name: str, rows: Rows, gamma: float, lambda_: float, n: int) -> tuple[list[Any], dict[str, Any]]:
    """Arrays and numbers of a formula."""
    return {
        "n_step_returns": ([rows.r_t, rows.v_tp1], {"gamma": gamma, "n": n}),
        "lambda_returns": ([rows.r_t, rows.v_tp1], {"gamma": gamma, "lambda_": lambda_}),
        "gae": ([rows.r_t, rows.v_t, rows.v_tp1], {"gamma": gamma, "lambda_": lambda_}),
        "vtrace": (
            [rows.r_t, rows.v_t, rows.v_tp1, rows.rho_t],
            {"gamma": gamma, "lambda_": lambda_, "rho_bar": 1.5, "c_bar": 1.1},
        ),
    }[name]


def computed(name: str, rows: Rows, gamma: float, lambda_: float, n: int) -> NDArray[Any]:
    """What the public function returns, as one array: `vtrace` returns two."""
    arrays, numbers = arguments(name, rows, gamma, lambda_, n)
    return np.stack([getattr(collect, name)(*arrays, **rows.masks, **numbers)])


def by_trajectory(rows: Rows, value: Callable[[int, list[int]], float]) -> NDArray[np.float64]:
    """`value(slot, rows from here on)` of every row of every trajectory, NaN elsewhere."""
    out = np.full(rows.r_t.shape, np.nan)
    for slot, trajectory in rows.trajectories():
        for i, t in enumerate(trajectory):
            out[t, slot] = value(slot, trajectory[i:])
    return out


@settings(max_examples=150)
@given(st.sampled_from(FORMULAS), st.data(), DTYPES, UNIT, UNIT, st.integers(1, 15))
def test_machine_code_reference_and_torch_agree_to_the_bit(
    name: str, data: st.DataObject, dtype: Any, gamma: float, lambda_: float, n: int
) -> None:
    rows = data.draw(drawn_rows(dtype))
    arrays, numbers = arguments(name, rows, gamma, lambda_, n)
    machine = computed(name, rows, gamma, lambda_, n)
    masks = [rows.masks[key] for key in ("bootstrap", "trace", "valid")]
    reference = np.stack([getattr(returns_reference, name)(np, *arrays, *masks, **numbers)])
    tensors = [torch.from_numpy(array) for array in arrays]
    tensor_masks = {key: torch.from_numpy(mask) for key, mask in rows.masks.items()}
    of_torch = getattr(returns_torch, name)(*tensors, **tensor_masks, **numbers)
    twin = np.stack([torch.stack(of_torch).numpy() if isinstance(of_torch, tuple) else of_torch.numpy()])
    assert machine.dtype == reference.dtype == twin.dtype == dtype
    np.testing.assert_array_equal(machine, reference)
    np.testing.assert_array_equal(machine, twin)
    assert (np.isnan(machine) == ~rows.masks["valid"]).all()


@settings(max_examples=60)
@given(drawn_rows(), UNIT, st.integers(1, 15))
def test_discounted_and_n_step_returns_are_sums_over_the_trajectory(rows: Rows, gamma: float, n: int) -> None:
    expected = by_trajectory(rows, lambda slot, rest: n_step_return(rows, slot, rest, n, gamma))
    np.testing.assert_allclose(computed("n_step_returns", rows, gamma, 0.0, n)[0], expected, rtol=1e-9, atol=1e-12)
    v_tp1 = np.where(rows.masks["trace"] & (np.arange(len(rows.r_t)) < len(rows.r_t) - 1)[:, None], np.nan, rows.v_tp1)
    expected = by_trajectory(rows, lambda slot, rest: n_step_return(rows, slot, rest, len(rest), gamma))
    returns = collect.discounted_returns(rows.r_t, v_tp1, **rows.masks, gamma=gamma)
    np.testing.assert_allclose(returns, expected, rtol=1e-9, atol=1e-12)
    twin = returns_torch.discounted_returns(
        torch.from_numpy(rows.r_t),
        torch.from_numpy(v_tp1),
        **{key: torch.from_numpy(mask) for key, mask in rows.masks.items()},
        gamma=gamma,
    )
    np.testing.assert_array_equal(twin.numpy(), returns)


@settings(max_examples=60)
@given(drawn_rows(), UNIT, UNIT)
def test_lambda_returns_and_gae_are_sums_over_the_trajectory(rows: Rows, gamma: float, lambda_: float) -> None:
    returns = by_trajectory(rows, lambda slot, rest: lambda_return(rows, slot, rest, gamma, lambda_))
    np.testing.assert_allclose(computed("lambda_returns", rows, gamma, lambda_, 1)[0], returns, rtol=1e-9, atol=1e-12)
    advantages = by_trajectory(rows, lambda slot, rest: advantage(rows, slot, rest, gamma, lambda_))
    np.testing.assert_allclose(computed("gae", rows, gamma, lambda_, 1)[0], advantages, rtol=1e-9, atol=1e-12)


@settings(max_examples=60)
@given(drawn_rows(), UNIT, UNIT)
def test_vtrace_is_a_sum_over_the_trajectory(rows: Rows, gamma: float, lambda_: float) -> None:
    def target(slot: int, rest: list[int]) -> float:
        return vtrace_target(rows, slot, rest, gamma, lambda_, 1.5, 1.1)

    def policy_advantage(slot: int, rest: list[int]) -> float:
        t = rest[0]
        tail = rows.v_tp1[t, slot] if rows.masks["bootstrap"][t, slot] else 0.0
        after = target(slot, rest[1:]) if len(rest) > 1 else tail
        return float(min(1.5, rows.rho_t[t, slot]) * (rows.r_t[t, slot] + gamma * after - rows.v_t[t, slot]))

    targets, advantages = computed("vtrace", rows, gamma, lambda_, 1)[0]
    np.testing.assert_allclose(targets, by_trajectory(rows, target), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(advantages, by_trajectory(rows, policy_advantage), rtol=1e-9, atol=1e-12)


@settings(max_examples=60)
@given(drawn_rows(), UNIT, UNIT)
def test_the_formulas_meet_where_they_should(rows: Rows, gamma: float, lambda_: float) -> None:
    # one value for each state: what a row says of its successor is what the next row says of itself
    follows = rows.masks["trace"][:-1]
    rows.v_tp1[:-1][follows] = rows.v_t[1:][follows]
    close: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-12}
    returns = computed("lambda_returns", rows, gamma, lambda_, 1)[0]
    np.testing.assert_allclose(computed("gae", rows, gamma, lambda_, 1)[0] + rows.v_t, returns, **close)
    rows.rho_t[:] = 1.0  # on policy, the targets of V-trace are lambda returns
    np.testing.assert_allclose(computed("vtrace", rows, gamma, lambda_, 1)[0][0], returns, **close)
    one, whole = (collect.n_step_returns(rows.r_t, rows.v_tp1, **rows.masks, gamma=gamma, n=n) for n in (1, 99))
    np.testing.assert_array_equal(computed("lambda_returns", rows, gamma, 0.0, 1)[0], one)
    np.testing.assert_array_equal(collect.discounted_returns(rows.r_t, rows.v_tp1, **rows.masks, gamma=gamma), whole)


def part(rows: Rows, start: int, stop: int) -> Rows:
    """Some rows, as a fragment of its own."""
    arrays = (array[start:stop].copy() for array in (rows.r_t, rows.v_t, rows.v_tp1, rows.rho_t))
    return Rows(*arrays, {key: mask[start:stop] for key, mask in rows.masks.items()})


@pytest.mark.parametrize("name", FORMULAS)
@settings(max_examples=40)
@given(st.data(), UNIT, UNIT, st.integers(1, 15))
def test_a_cut_anywhere_with_its_tail_value_is_a_whole_that_bootstraps_there(
    name: str, data: st.DataObject, gamma: float, lambda_: float, n: int
) -> None:
    rows = data.draw(drawn_rows())
    cut = data.draw(st.integers(1, len(rows.r_t)))
    parts = [part(rows, 0, cut), part(rows, cut, len(rows.r_t))]
    pieces = [computed(name, piece, gamma, lambda_, n) for piece in parts if len(piece.r_t)]
    stopped = part(rows, 0, len(rows.r_t))
    stopped.masks["trace"] = stopped.masks["trace"].copy()
    stopped.masks["trace"][cut - 1] = False
    np.testing.assert_array_equal(np.concatenate(pieces, axis=-2), computed(name, stopped, gamma, lambda_, n))


@settings(max_examples=60)
@given(st.data(), UNIT, UNIT)
def test_fragments_one_after_the_other_give_what_the_whole_gives(
    data: st.DataObject, gamma: float, lambda_: float
) -> None:
    rows = data.draw(drawn_rows())
    cut = data.draw(st.integers(1, len(rows.r_t)))
    if cut == len(rows.r_t):
        return
    first, second = part(rows, 0, cut), part(rows, cut, len(rows.r_t))
    goes_on = first.masks["trace"][-1]
    later = computed("lambda_returns", second, gamma, lambda_, 1)[0]
    # the value of what follows a fragment is the mixture that the recursion would have gone on with
    tail = (1 - lambda_) * first.v_tp1[-1] + lambda_ * later[0]
    first.v_tp1[-1] = np.where(goes_on, tail, first.v_tp1[-1])
    whole = computed("lambda_returns", rows, gamma, lambda_, 1)[0]
    pieces = np.concatenate([computed("lambda_returns", first, gamma, lambda_, 1)[0], later])
    np.testing.assert_allclose(pieces, whole, rtol=1e-12, atol=1e-12)
    joined = Rows(
        *(np.concatenate([a, b]) for a, b in ((first.r_t, second.r_t), (first.v_t, second.v_t))),
        np.concatenate([rows.v_tp1[:cut], second.v_tp1]),
        np.concatenate([first.rho_t, second.rho_t]),
        {key: np.concatenate([first.masks[key], second.masks[key]]) for key in rows.masks},
    )
    np.testing.assert_array_equal(computed("lambda_returns", joined, gamma, lambda_, 1)[0], whole)


def test_rows_of_other_layouts_and_dtypes_are_taken_in_their_common_one() -> None:
    rows = random_rows(9, 4, 3)
    columns = np.asfortranarray(rows.v_t)
    plain = collect.gae(rows.r_t, rows.v_t, rows.v_tp1, **rows.masks, gamma=0.9, lambda_=0.8)
    np.testing.assert_array_equal(
        collect.gae(rows.r_t, columns, rows.v_tp1, **rows.masks, gamma=0.9, lambda_=0.8), plain
    )
    half = rows.v_tp1.astype(np.float16)
    assert collect.lambda_returns(half, half, **rows.masks, gamma=0.9, lambda_=0.8).dtype == np.float32
    mixed = collect.lambda_returns(rows.r_t, half, **rows.masks, gamma=0.9, lambda_=0.8)
    assert mixed.dtype == np.float64


def test_gradients_flow_through_what_counts_and_nothing_else() -> None:
    rows = random_rows(12, 6, 1)
    masks = {key: torch.from_numpy(mask) for key, mask in rows.masks.items()}
    arrays = [torch.tensor(array, requires_grad=True) for array in (rows.r_t, rows.v_t, rows.v_tp1, rows.rho_t)]
    targets, advantages = returns_torch.vtrace(*arrays, **masks, gamma=0.9, lambda_=0.8)
    (torch.nansum(targets) + torch.nansum(advantages)).backward()
    for tensor, read in zip(arrays, ("valid", "valid", "bootstrap", "valid"), strict=True):
        assert torch.isfinite(tensor.grad).all()
        assert (tensor.grad[~masks[read]] == 0).all()
    assert (arrays[0].grad[masks["valid"]] != 0).all()


def test_the_gradient_of_a_return_is_the_weight_of_the_value() -> None:
    r_t, v_tp1 = torch.zeros(2, 1), torch.zeros(2, 1, requires_grad=True)
    yes, trace = torch.ones(2, 1, dtype=torch.bool), torch.tensor([[True], [False]])
    returns = returns_torch.lambda_returns(r_t, v_tp1, bootstrap=yes, trace=trace, valid=yes, gamma=0.5, lambda_=0.25)
    returns[0, 0].backward()
    # G_0 = 0.5 (0.75 V_1 + 0.25 (0.5 V_2)): 0.375 and 0.0625
    assert v_tp1.grad.tolist() == [[0.375], [0.0625]]


def test_torch_refuses_arrays_and_numpy_checks_hold_for_tensors() -> None:
    rows = random_rows(3, 2, 0)
    tensors: list[Any] = [torch.from_numpy(array) for array in (rows.r_t, rows.v_tp1)]
    masks: dict[str, Any] = {key: torch.from_numpy(mask) for key, mask in rows.masks.items()}
    with pytest.raises(TypeError, match=r"gae: v_t is of type ndarray; expected a tensor\. sekai\.collect\.gae takes"):
        returns_torch.gae(tensors[0], rows.v_t, tensors[1], **masks, gamma=1.0, lambda_=1.0)
    with pytest.raises(ValueError, match=r"n_step_returns: v_tp1 has shape \(2, 2\), r_t \(3, 2\)"):
        returns_torch.n_step_returns(tensors[0], tensors[1][1:], **masks, gamma=1.0, n=1)
    with pytest.raises(TypeError, match=r"trace is of dtype torch\.int8; expected bool"):
        returns_torch.n_step_returns(*tensors, **(masks | {"trace": masks["trace"].to(torch.int8)}), gamma=1.0, n=1)
    valid = torch.ones(3, 2, dtype=torch.bool)
    wrong = {"bootstrap": valid & False, "trace": valid, "valid": valid}
    with pytest.raises(ValueError, match="at row 0 of slot 0 trace is True and bootstrap False"):
        returns_torch.lambda_returns(*tensors, **wrong, gamma=1.0, lambda_=1.0)
    with pytest.raises(TypeError, match=r"together of dtype torch\.complex64; expected real numbers"):
        returns_torch.n_step_returns(tensors[0].to(torch.complex64), tensors[1].float(), **masks, gamma=1.0, n=1)


def test_a_ratio_without_limit_counts_in_full_and_one_that_is_no_number_shows() -> None:
    yes = np.ones((1, 1), bool)
    masks = {"bootstrap": yes, "trace": ~yes, "valid": yes}
    one = np.ones((1, 1))
    free = collect.vtrace(one, one, one, 8.0 * one, **masks, gamma=0.5, rho_bar=math.inf)
    # 1 + 8 (1 + 0.5 - 1) = 5, and 8 * 0.5 = 4
    assert (free.targets.item(), free.advantages.item()) == (5.0, 4.0)
    assert np.isnan(collect.vtrace(one, one, one, np.nan * one, **masks, gamma=0.5)).all()
