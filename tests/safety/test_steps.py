"""What a learner says of rewards that are no margins."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

import gymnasium

import sekai
from sekai.safety.contract import MarginWrapper
from sekai.safety.learners import SafetyPPO


def learn(make: Any) -> None:
    vec = sekai.SyncVecEnv([make] * 2)
    SafetyPPO("MlpPolicy", vec, n_steps=32, batch_size=64, n_epochs=1, seed=0, device="cpu").learn(192)


def test_a_reward_that_is_negative_while_the_episode_goes_on_is_told_once_with_its_slot() -> None:
    with pytest.warns(UserWarning, match=r"sub-env 0 is -\d.*, below 0, and .* not terminated.*MarginWrap") as told:
        learn(lambda: gymnasium.make("Pendulum-v1"))  # its reward is a cost
    assert len(told) == 1  # in three rollouts


def test_an_end_with_a_positive_reward_is_told_once_where_nothing_says_that_it_is_a_margin() -> None:
    with pytest.warns(UserWarning, match=r"sub-env \d is 1, not below 0, and its episode has terminated") as told:
        learn(lambda: gymnasium.make("CartPole-v1"))
    assert len(told) == 1


@pytest.mark.parametrize("own_ends", ["truncate", "keep"])
def test_nothing_is_said_of_margins(own_ends: Any) -> None:
    def make() -> Any:
        return MarginWrapper(gymnasium.make("CartPole-v1"), g=lambda state: 1.0, own_ends=own_ends)

    def fails() -> Any:
        return MarginWrapper(gymnasium.make("CartPole-v1"), g=lambda state: 0.1 - abs(state.env.state[2]))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learn(make)
        learn(fails)
