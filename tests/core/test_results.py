"""Results are named tuples that also say whether the episode has ended."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.core.results import step_result


@pytest.mark.parametrize(("terminated", "truncated"), list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("flag", [bool, np.bool_])
def test_done_is_either_flag_as_a_python_bool(terminated: bool, truncated: bool, flag: Any) -> None:
    done = sekai.StepResult(0, 0.0, flag(terminated), flag(truncated), {}).done
    assert done is (terminated or truncated)


def test_a_start_is_never_done() -> None:
    assert sekai.ResetResult(0, {}).done is False


def test_results_unpack_index_and_pickle() -> None:
    step = sekai.StepResult("o", 1.5, True, False, {"t": 2})
    observation, reward, terminated, truncated, info = step
    assert [observation, reward, terminated, truncated, info] == ["o", 1.5, True, False, {"t": 2}]
    assert step[1] is step.reward
    start = sekai.ResetResult("o", {"t": 0})
    assert tuple(start) == ("o", {"t": 0})
    for result in (step, start):
        back = pickle.loads(pickle.dumps(result))
        assert type(back) is type(result)
        assert back == result


def test_the_quick_constructor_makes_the_same() -> None:
    made = step_result(("o", 1.5, True, False, {}))
    assert type(made) is sekai.StepResult
    assert made == sekai.StepResult("o", 1.5, True, False, {})
    assert made.done
