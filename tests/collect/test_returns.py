"""Returns and advantages: numbers worked out by hand, the plausible wrong ones beside them, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from sekai.collect import discounted_returns, gae, lambda_returns, n_step_returns, vtrace
from tests.collect.rows import masks_of

NAN = float("nan")


def column(*values: float) -> Any:
    """One slot."""
    return np.array(values, float)[:, None]


# gamma = lambda = 0.5; an episode of two steps that is truncated, the row that resets, and one that terminates:
#   row     0     1      2      3
#   kind   STEP  TRUNC  RESET  TERM
KINDS = np.array([[RowKind.STEP], [RowKind.TRUNCATED], [RowKind.RESET], [RowKind.TERMINATED]], np.int8)
R, V, V_NEXT = column(1, 2, NAN, 3), column(2, 4, NAN, 8), column(4, 6, NAN, NAN)
RHO = column(2, 0.5, NAN, 4)
MASKS: dict[str, Any] = masks_of(KINDS, np.zeros((4, 1), bool))


def flat(array: Any) -> list[Any]:
    """A column as a list, None for NaN, which equals nothing."""
    return [None if np.isnan(value) else value for value in array[:, 0].tolist()]


def test_the_masks_of_the_example_are_what_the_module_draws() -> None:
    drawn = {key: mask[:, 0].astype(int).tolist() for key, mask in MASKS.items()}
    assert drawn == {"valid": [1, 1, 0, 1], "bootstrap": [1, 1, 0, 0], "trace": [1, 0, 0, 0]}


def test_discounted_returns_by_hand() -> None:
    # 2 + 0.5 * 6 = 5; 1 + 0.5 * 5 = 3.5; the last one terminates: 3
    assert flat(discounted_returns(R, V_NEXT, **MASKS, gamma=0.5)) == [3.5, 5.0, None, 3.0]


def test_n_step_returns_by_hand() -> None:
    # one step: 1 + 0.5 * 4 = 3; 2 + 0.5 * 6 = 5; 3
    assert flat(n_step_returns(R, V_NEXT, **MASKS, gamma=0.5, n=1)) == [3.0, 5.0, None, 3.0]
    # two steps: 1 + 0.5 * 2 + 0.25 * 6 = 3.5; the end allows no more, whatever n is
    for n in (2, 3, 99):
        assert flat(n_step_returns(R, V_NEXT, **MASKS, gamma=0.5, n=n)) == [3.5, 5.0, None, 3.0]


def test_n_step_returns_use_the_value_after_exactly_n_steps() -> None:
    yes = np.ones((4, 1), bool)
    returns = n_step_returns(
        column(1, 2, 4, 8), column(10, 20, 30, 40), bootstrap=yes, trace=yes, valid=yes, gamma=0.5, n=2
    )
    # 1 + 1 + 0.25 * 20 = 7; 2 + 2 + 0.25 * 30 = 11.5; 4 + 4 + 0.25 * 40 = 18; the fragment ends: 8 + 0.5 * 40 = 28
    assert flat(returns) == [7.0, 11.5, 18.0, 28.0]


def test_lambda_returns_by_hand() -> None:
    # 1 + 0.5 (0.5 * 4 + 0.5 * 5) = 3.25
    assert flat(lambda_returns(R, V_NEXT, **MASKS, gamma=0.5, lambda_=0.5)) == [3.25, 5.0, None, 3.0]


def test_advantages_by_hand() -> None:
    # delta: 1 + 0.5 * 4 - 2 = 1; 2 + 0.5 * 6 - 4 = 1; 3 - 8 = -5. A_0 = 1 + 0.5 * 0.5 * 1
    assert flat(gae(R, V, V_NEXT, **MASKS, gamma=0.5, lambda_=0.5)) == [1.25, 1.0, None, -5.0]


def test_vtrace_by_hand() -> None:
    targets, advantages = vtrace(R, V, V_NEXT, RHO, **MASKS, gamma=0.5)
    # rho, c = 1, 0.5, 1. Corrections: 0.5 * 1 = 0.5 of row 1; 1 * 1 + 0.5 * 1 * 0.5 = 1.25 of row 0; 1 * -5 of row 3
    assert flat(targets) == [3.25, 4.5, None, 3.0]
    # row 0: 1 * (1 + 0.5 * 4.5 - 2) = 1.25; row 1: 0.5 * (2 + 0.5 * 6 - 4) = 0.5
    assert flat(advantages) == [1.25, 0.5, None, -5.0]


def test_vtrace_clips_the_step_and_the_trace_apart() -> None:
    targets, advantages = vtrace(R, V, V_NEXT, RHO, **MASKS, gamma=0.5, lambda_=0.5, rho_bar=4.0, c_bar=1.5)
    # row 0: 2 * 1 + 0.5 * 0.5 * 1.5 * 0.5 = 2.1875 on 2; row 3: 4 * -5 = -20 on 8
    assert flat(targets) == [4.1875, 4.5, None, -12.0]
    # row 0: 2 * (1 + 0.5 * 4.5 - 2) = 2.5
    assert flat(advantages) == [2.5, 0.5, None, -20.0]


def test_slots_do_not_meet() -> None:
    # the same rows twice, the second slot one row later, behind a lost row
    shifted = np.concatenate([np.array([[RowKind.LOST]], np.int8), KINDS])
    kinds = np.concatenate([np.concatenate([KINDS, KINDS[:1]]), shifted], axis=1)
    lost = column(NAN)
    r, v, v_next = (
        np.concatenate([np.concatenate([array, array[:1]]), np.concatenate([lost, array])], axis=1)
        for array in (R, V, V_NEXT)
    )
    found = gae(r, v, v_next, **masks_of(kinds, np.zeros((5, 2), bool)), gamma=0.5, lambda_=0.5)
    # the first slot has begun a third episode in its last row: 1 + 0.5 * 4 - 2 = 1
    assert flat(found[:, :1]) == [1.25, 1.0, None, -5.0, 1.0]
    assert flat(found[:, 1:]) == [None, 1.25, 1.0, None, -5.0]


def test_a_truncated_step_bootstraps_from_its_true_successor() -> None:
    # V(x) = x, gamma = 0.5: the step from 3 to 4 is truncated, the next episode begins at 1000
    masks = masks_of(np.array([[RowKind.TRUNCATED], [RowKind.STEP]], np.int8), np.zeros((2, 1), bool))
    r, observed, successor = column(0, 0), column(3, 1000), column(4, 1001)
    target = flat(discounted_returns(r, successor, **masks, gamma=0.5))[0]
    assert target == 2.0
    from_itself = flat(discounted_returns(r, observed, **masks, gamma=0.5))[0]
    from_reset = flat(discounted_returns(r, np.roll(observed, -1), **masks, gamma=0.5))[0]
    as_terminal = flat(discounted_returns(r, successor, **{**masks, "bootstrap": masks["bootstrap"] & [[0], [1]] > 0},
                                          gamma=0.5))[0]  # fmt: skip
    across = flat(discounted_returns(r, successor, **{**masks, "trace": masks["bootstrap"]}, gamma=0.5))[0]
    # 0.5 * 3; 0.5 * 1000; 0; 0.5 * (0.5 * 1001)
    assert [from_itself, from_reset, as_terminal, across] == [1.5, 500.0, 0.0, 250.25]


@pytest.mark.parametrize("function", ["gae", "vtrace"])
def test_the_next_trajectory_lends_no_value(function: str) -> None:
    # V is 1 all through the first trajectory and 100 all through the second; no rewards, no discount
    masks = masks_of(np.array([[RowKind.TRUNCATED], [RowKind.STEP]], np.int8), np.zeros((2, 1), bool))
    r, v = column(0, 0), column(1, 100)

    def advantage(v_next: Any, trace: Any) -> float:
        given = {**masks, "trace": trace}
        if function == "gae":
            return float(gae(r, v, v_next, **given, gamma=1.0, lambda_=1.0)[0, 0])
        return float(vtrace(r, v, v_next, np.ones_like(r), **given, gamma=1.0).advantages[0, 0])

    assert advantage(v, masks["trace"]) == 0.0
    assert advantage(np.array([[100.0], [100.0]]), masks["trace"]) == 99.0
    # rewards after the boundary would come through a trace that is as wide as bootstrap
    r[1] = 7.0
    assert advantage(v, masks["trace"]) == 0.0
    assert advantage(v, masks["bootstrap"]) != 0.0


def test_both_flags_on_one_step_are_a_termination() -> None:
    masks = masks_of(np.array([[RowKind.TERMINATED]], np.int8), np.zeros((1, 1), bool))
    assert flat(discounted_returns(column(3), column(1e9), **masks, gamma=0.5)) == [3.0]


def test_an_infinite_reward_stays_in_its_episode() -> None:
    found = gae(column(1, 2, NAN, np.inf), V, V_NEXT, **MASKS, gamma=0.5, lambda_=0.5)
    assert flat(found) == [1.25, 1.0, None, np.inf]


def test_what_is_given_is_not_written_to() -> None:
    before = [array.copy() for array in (R, V, V_NEXT)]
    gae(R, V, V_NEXT, **MASKS, gamma=0.5, lambda_=0.5)
    for array, copy in zip((R, V, V_NEXT), before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("mask", ["bootstrap", "trace", "valid"])
def test_no_mask_may_be_left_out(mask: str) -> None:
    given = {key: value for key, value in MASKS.items() if key != mask}
    with pytest.raises(TypeError, match=f"missing 1 required keyword-only argument: '{mask}'"):
        gae(R, V, V_NEXT, **given, gamma=0.5, lambda_=0.5)


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match=r"gae: r_t has shape \(4,\); expected \(T, N\) .* is r_t\[:, None\]\."):
        gae(R[:, 0], V, V_NEXT, **MASKS, gamma=0.5, lambda_=0.5)
    with pytest.raises(ValueError, match=r"r_t has shape \(0, 1\); expected \(T, N\) with a row at least"):
        gae(R[:0], V, V_NEXT, **MASKS, gamma=0.5, lambda_=0.5)
    with pytest.raises(
        ValueError, match=r"gae: v_t has shape \(5, 1\), r_t \(4, 1\); expected one shape .* its own successor\."
    ):
        gae(R, np.concatenate([V, V[:1]]), V_NEXT, **MASKS, gamma=0.5, lambda_=0.5)
    with pytest.raises(ValueError, match=r"gae: trace has shape \(1, 4\), r_t \(4, 1\)"):
        gae(R, V, V_NEXT, **{**MASKS, "trace": MASKS["trace"].T}, gamma=0.5, lambda_=0.5)
    with pytest.raises(TypeError, match="gae: the arrays are together of dtype complex128; expected real numbers"):
        gae(R, V + 0j, V_NEXT, **MASKS, gamma=0.5, lambda_=0.5)


@pytest.mark.parametrize(
    ("mask", "changed", "problem"),
    [
        ("bootstrap", [1, 1, 1, 0], "at row 2 of slot 0 bootstrap is True and valid False: a row that is no"),
        ("trace", [1, 0, 0, 1], "at row 3 of slot 0 trace is True and bootstrap False: nothing follows a state"),
        ("trace", [1, 1, 0, 0], "at row 1 of slot 0 trace is True and the next row is not valid: a recursion"),
    ],
)
def test_masks_that_contradict_one_another_are_refused(mask: str, changed: list[int], problem: str) -> None:
    with pytest.raises(ValueError, match=f"lambda_returns: {problem}"):
        lambda_returns(R, V_NEXT, **{**MASKS, mask: column(*changed) > 0}, gamma=0.5, lambda_=0.5)


def test_masks_are_bool() -> None:
    with pytest.raises(TypeError, match=r"gae: valid is of dtype float64; expected bool: write valid != 0"):
        gae(R, V, V_NEXT, **{**MASKS, "valid": MASKS["valid"] * 1.0}, gamma=0.5, lambda_=0.5)


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"gae: gamma is 1\.01; expected a number in \[0, 1\]"):
        gae(R, V, V_NEXT, **MASKS, gamma=1.01, lambda_=0.5)
    with pytest.raises(ValueError, match=r"gae: lambda_ is nan; expected a number in \[0, 1\]"):
        gae(R, V, V_NEXT, **MASKS, gamma=1.0, lambda_=NAN)
    with pytest.raises(ValueError, match=r"n_step_returns: n is 0; expected an int of at least 1"):
        n_step_returns(R, V_NEXT, **MASKS, gamma=1.0, n=0)
    with pytest.raises(ValueError, match=r"vtrace: c_bar is 0\.0; expected a number above 0, math\.inf for no limit"):
        vtrace(R, V, V_NEXT, RHO, **MASKS, gamma=1.0, c_bar=0.0)


def test_importing_the_returns_loads_neither_numba_nor_torch() -> None:
    code = "import sys, sekai.collect; print(sorted({'numba', 'torch'} & set(sys.modules)))"
    environment = os.environ | {"PYTHONPATH": str(Path(sekai.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
