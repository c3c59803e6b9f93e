"""`OrderEnforcing`: a step only where there is an episode for it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

import sekai
from sekai.testing import CodedEnv
from tests.core.envs import Plain


def step(env: Any, awaited: bool) -> sekai.StepResult:
    result: sekai.StepResult = asyncio.run(env.async_step(0)) if awaited else env.step(0)
    return result


def reset(env: Any, awaited: bool) -> None:
    asyncio.run(env.async_reset()) if awaited else env.reset()


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("ending", ["terminated", "truncated", "both"])
def test_before_the_first_reset_and_after_the_end(ending: Any, awaited: bool) -> None:
    env = sekai.OrderEnforcing(CodedEnv(length=2, ending=ending))
    for refusal in ("has not been reset", "has finished its episode", "has finished its episode"):
        text = f"{env.env} {refusal}: call reset() before step()."
        for _ in range(2):
            with pytest.raises(sekai.ResetRequired, match=f"^{re.escape(text)}$"):
                step(env, awaited)
        reset(env, awaited)
        assert not step(env, awaited).done
        assert step(env, awaited).done


def test_a_refused_step_does_not_reach_the_environment() -> None:
    base = Plain()
    env = sekai.OrderEnforcing(base)
    env.reset()
    for _ in range(2):
        env.step(0)
    with pytest.raises(sekai.ResetRequired):
        env.step(0)
    assert base.t == 2
    base.step(0)
    assert base.t == 3, "the environment itself would have gone on"


@pytest.mark.parametrize(
    "stack",
    [lambda env: sekai.OrderEnforcing(sekai.AutoReset(env)), lambda env: sekai.AutoReset(sekai.OrderEnforcing(env))],
    ids=["outside", "inside"],
)
def test_an_environment_that_resets_itself_goes_on(stack: Any) -> None:
    env = stack(CodedEnv(length=2))
    with pytest.raises(sekai.ResetRequired, match="has not been reset"):
        env.step(0)
    env.reset()
    observations = [env.step(0).observation.tolist() for _ in range(5)]
    assert observations == [[0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 2, 0], [0, 2, 1]]
