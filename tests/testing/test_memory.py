"""The memory task: who remembers is always right, who does not is right half the time."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.collect import Decision, evaluate
from sekai.testing import MemoryCorridor, check_env, check_vec_env


def walk(env: MemoryCorridor, answers: list[int], seed: int | None = None) -> tuple[list[Any], list[float], list[str]]:
    """Observations, rewards and ends of one episode, giving these answers (1 for the right one) at its junctions."""
    observation = env.reset(seed=seed).observation
    light = int(observation[0])
    seen, rewards, ends = [observation.tolist()], [], []
    while not any(ends):
        right = answers.pop(0) if observation[1] else 0
        observation, reward, terminated, truncated, _ = env.step(light if right else 1 - light)
        seen.append(observation.tolist())
        rewards.append(reward)
        ends.append("terminated" if terminated else "truncated" if truncated else "")
    return seen, rewards, ends


def test_the_picture_in_the_docstring_is_what_happens() -> None:
    env = MemoryCorridor((2, 3), laps=2, cut=0.0)
    walks = [walk(env, [1, 0], seed) for seed in range(40)]
    seen, rewards, ends = next(
        found for found in walks if len(found[1]) == 6 and found[0][0][0] == 1 and found[0][3][1]
    )
    assert seen == [[1, 0], [0, 0], [0, 0], [0, 1], [0, 0], [0, 1], [0, 0]]
    assert rewards == [0, 0, 0, 1, 0, 0]
    assert ends == [""] * 5 + ["terminated"]
    assert {len(found[1]) for found in walks} == {5, 6, 7}, "two corridors of two or three steps, and the last answer"


def test_an_episode_is_cut_after_an_answer_and_no_sign_of_it_is_seen() -> None:
    seen, rewards, ends = walk(MemoryCorridor(2, laps=3, cut=1.0), [1], seed=0)
    assert (seen[1:], rewards, ends) == ([[0, 0], [0, 1], [0, 0]], [0, 0, 1], ["", "", "truncated"])
    env = MemoryCorridor(1, laps=3)
    counts = [sum(walk(env, [1] * 3, None if i else 0)[1]) for i in range(2000)]
    # cut with chance 1/2 after the first, 1/4 after the second, else three answers; five standard errors
    assert np.bincount(np.array(counts, int))[1:] / 2000 == pytest.approx([0.5, 0.25, 0.25], abs=0.06)


def test_a_refund_opens_the_episode_after_a_wrong_last_answer() -> None:
    env = MemoryCorridor(2, laps=2, cut=0.0, refund=4.0)
    assert walk(env, [1, 0], seed=0)[1] == [0, 0, 1, 0, 0]
    assert walk(env, [0, 1])[1] == [4, 0, 0, 0, 1], "owed for the last answer of the episode before"
    assert walk(env, [0, 0])[1] == [0, 0, 0, 0, 0], "the last answer was right"
    assert walk(env, [1, 1])[1] == [4, 0, 1, 0, 1]
    walk(env, [1, 0])
    assert walk(env, [1, 1], seed=0)[1] == [0, 0, 1, 0, 1], "a seed settles the debt"


class Remembering:
    """Answers with the light that its episode began with; its memory is the light."""

    def initial_state(self, num_slots: int) -> Any:
        return np.full((num_slots, 1), -1.0)

    def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
        light = np.where(state < 0, observations[:, :1], state)
        return Decision(light[:, 0].astype(int), light)


@pytest.mark.parametrize("mode", [mode.value for mode in sekai.AutoresetMode])
def test_without_memory_half_the_answers_are_right_and_with_it_all(mode: str) -> None:
    with sekai.SyncVecEnv([lambda: MemoryCorridor(2)] * 16, autoreset=mode) as vec:
        rates = []
        for policy in (Remembering(), lambda seen: np.zeros(16, int), lambda seen: seen[:, 1].astype(int)):
            played = evaluate(policy, vec, 2000, seed=0)
            rates.append(played.returns.sum() / np.where(played.terminated, 2, 1).sum())
    # about 3000 answers to 2000 independent lights: five standard errors are at most 5 sqrt(5/9 / 2000) ~ 0.06
    assert rates == [1.0, pytest.approx(0.5, abs=0.06), pytest.approx(0.5, abs=0.06)]


def test_it_passes_the_checkers() -> None:
    assert check_env(MemoryCorridor((2, 4), refund=1.0), determinism=True) == []
    with sekai.SyncVecEnv([lambda: MemoryCorridor((2, 4))] * 3) as vec:
        assert check_vec_env(vec) == []


def test_no_step_without_an_episode() -> None:
    env = MemoryCorridor(1, laps=1)
    with pytest.raises(sekai.ResetRequired, match=r"has no episode to step: call reset\(\) first\."):
        env.step(0)
    walk(env, [1])
    with pytest.raises(sekai.ResetRequired, match="has no episode to step"):
        env.step(0)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"length": 0}, "length is 0; expected an int of at least 1."),
        ({"length": (4, 3)}, "length is 3; expected an int of at least 4."),
        ({"laps": 0}, "laps is 0; expected an int of at least 1."),
        ({"cut": 1.5}, "cut is 1.5; expected a chance, in [0, 1]."),
        ({"cut": float("nan")}, "cut is nan; expected a chance, in [0, 1]."),
        ({"refund": float("inf")}, "refund is inf; expected a finite reward."),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        MemoryCorridor(**arguments)
