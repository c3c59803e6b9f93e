"""`ClipReward` keeps rewards within bounds, one of which may be missing."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.testing import CodedEnv
from tests.core.envs import play


@pytest.mark.parametrize(
    ("bounds", "rewards"),
    [
        ({"min_reward": -1.0, "max_reward": 15.0}, [12.0, 15.0, 15.0]),
        ({"max_reward": 22.0}, [12.0, 22.0, 22.0]),
        ({"min_reward": 20.0}, [20.0, 22.0, 32.0]),
        ({"min_reward": 50, "max_reward": 60}, [50.0, 50.0, 50.0]),
    ],
)
@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
def test_rewards_are_clipped(bounds: dict[str, float], rewards: list[float], awaited: bool) -> None:
    # action 2 at t = 1, 2, 3: 12, 22, 32
    results = play(sekai.ClipReward(CodedEnv(), **bounds), [2, 2, 2], awaited=awaited)[1:]
    assert [result.reward for result in results] == rewards
    assert {type(result.reward) for result in results} == {float}


def test_nothing_else_changes() -> None:
    clipped, plain = (
        play(env, [2, 2, 2], awaited=False) for env in (sekai.ClipReward(CodedEnv(), max_reward=1.0), CodedEnv())
    )
    for a, b in zip(clipped, plain, strict=True):
        assert a.observation.tolist() == b.observation.tolist()
        assert a.info == b.info
        assert a[2:4] == b[2:4] or isinstance(a, sekai.ResetResult)


@pytest.mark.parametrize("reward", [math.nan, np.float32("nan")])
def test_nan_stays_nan(reward: Any) -> None:
    assert math.isnan(sekai.ClipReward(CodedEnv(), -1.0, 1.0).reward(reward))


@pytest.mark.parametrize(("reward", "expected"), [(math.inf, 1.0), (-math.inf, -1.0), (np.float32(0.5), 0.5), (3, 1.0)])
def test_infinite_and_numpy_rewards_become_floats_within_bounds(reward: Any, expected: float) -> None:
    clipped = sekai.ClipReward(CodedEnv(), -1.0, 1.0).reward(reward)
    assert clipped == expected
    assert type(clipped) is float


@pytest.mark.parametrize(
    ("low", "high"),
    [(1.0, 1.0), (2.0, 1.0), (-math.inf, math.inf), (math.nan, 1.0), (0.0, math.nan), (math.inf, math.inf)],
)
def test_bounds_that_make_no_sense_are_refused(low: float, high: float) -> None:
    given = f"ClipReward(min_reward={low}, max_reward={high})"
    text = f"{given}: expected min_reward < max_reward, at least one of them finite."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        sekai.ClipReward(CodedEnv(), low, high)


def test_without_bounds_there_is_nothing_to_clip() -> None:
    with pytest.raises(ValueError, match="at least one of them finite"):
        sekai.ClipReward(CodedEnv())
