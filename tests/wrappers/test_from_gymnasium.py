"""`FromGymnasium` alone makes a gymnasium environment answer like sekai's."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import sekai
from tests.core.envs import Plain, play, same


def test_the_numbers_are_those_of_the_environment() -> None:
    ours = sekai.FromGymnasium(CartPoleEnv())
    theirs: Any = CartPoleEnv()
    first, expected = ours.reset(seed=3), theirs.reset(seed=3)
    assert same(tuple(first), expected)
    for action in (0, 1, 1, 0, 1):
        result = ours.step(action)
        assert type(result) is sekai.StepResult
        assert same(tuple(result), theirs.step(action))
    assert ours.rng.bit_generator.state == theirs.np_random.bit_generator.state


def test_flags_become_python_bools() -> None:
    results = play(sekai.FromGymnasium(Plain()), [0, 0], awaited=False)[1:]
    assert [type(flag) for result in results for flag in result[2:4]] == [bool] * 4
    assert [result.terminated for result in results] == [False, True]
    raw = Plain()
    raw.reset()
    assert type(raw.step(0)[2]) is np.bool_, "the environment returns NumPy's"


def test_spaces_become_readable_and_stay_equal() -> None:
    ours = sekai.FromGymnasium(CartPoleEnv())
    assert type(ours.observation_space) is sekai.Box
    assert ours.observation_space == CartPoleEnv().observation_space
    assert repr(ours.action_space) == "Discrete(2)"


def test_it_is_a_sekai_environment() -> None:
    base = CartPoleEnv()
    env: Any = sekai.FromGymnasium(base)
    assert isinstance(env, sekai.Env)
    assert isinstance(env, gymnasium.Env)
    assert env.layers() == ["FromGymnasium", "CartPoleEnv"]
    assert env.get_attr("gravity") == 9.8
    env.set_attr("gravity", 1.6)
    assert base.gravity == 1.6
    with pytest.raises(AttributeError, match="Did you mean 'gravity'"):
        env.get_attr("gravty")


def test_closing_closes_the_environment() -> None:
    closed = []

    class Closes(Plain):
        def close(self) -> None:
            closed.append(True)

    sekai.FromGymnasium(Closes()).close()
    with sekai.TimeLimit(Closes(), 3):
        pass
    assert closed == [True, True]
