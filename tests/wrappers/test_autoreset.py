"""`AutoReset`: the terminal data of one episode and the first observation of the next, in one result."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.testing import CodedEnv
from tests.core.envs import Plain, play, same

BOTH_WAYS = pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])


@BOTH_WAYS
@pytest.mark.parametrize(
    ("ending", "flags"), [("terminated", (True, False)), ("truncated", (False, True)), ("both", (True, True))]
)
def test_the_ending_step_carries_both_episodes(ending: Any, flags: tuple[bool, bool], awaited: bool) -> None:
    results = play(sekai.AutoReset(CodedEnv(4, 2, ending=ending)), [1, 2, 3], awaited=awaited)
    end = results[2]
    assert end.reward == 22.0  # of the terminal step: 10 * 2 + 2
    assert end[2:4] == flags
    assert end.observation.tolist() == [4, 1, 0]
    assert sorted(end.info) == ["final_info", "final_observation", "reset_info", "t"]
    assert end.info["final_observation"].tolist() == [4, 0, 2]
    assert (end.info["t"], end.info["final_info"], end.info["reset_info"]) == (2, {"t": 2}, {"t": 0})
    assert results[3].observation.tolist() == [4, 1, 1]
    assert results[3].info == {"t": 1}


def test_an_ordinary_step_passes_untouched() -> None:
    env = sekai.AutoReset(CodedEnv())
    env.reset()
    step = env.step(1)
    assert step.info == {"t": 1}
    assert not step.done


class Market(CodedEnv):
    """Reuses everything it returns: arrays, dicts and what is nested in them."""

    def __init__(self) -> None:
        super().__init__(length=2)
        self.book: dict[str, Any] = {"bids": np.zeros(2), "fills": [0.0]}

    def _at(self, t: int) -> Any:
        observation, info = super()._at(t)
        self.book["bids"][:] = 10 * self.episode + t
        self.book["fills"][0] = 10 * self.episode + t
        info["book"] = self.book
        info["phase"] = "step" if t else "reset"
        return observation, info


def test_terminal_data_survive_though_the_environment_reuses_its_buffers() -> None:
    env = sekai.AutoReset(Market())
    env.reset()
    env.step(0)
    end = env.step(0)
    kept = end.info
    for _ in range(3):
        env.step(0)
    assert kept["final_observation"].tolist() == [0, 0, 2]
    for info in (kept, kept["final_info"]):
        assert info["phase"] == "step"
        assert info["t"] == 2
        assert info["book"]["bids"].tolist() == [2, 2]
        assert info["book"]["fills"] == [2]
    assert kept["reset_info"]["phase"] == "reset"
    assert kept["reset_info"]["book"]["bids"].tolist() == [10, 10]


def test_the_environment_of_that_test_does_reuse_its_buffers() -> None:
    env = Market()
    env.reset()
    env.step(0)
    end = env.step(0)
    env.reset()
    assert end.observation.tolist() == [0, 1, 0]
    assert (end.info["phase"], end.info["book"]["bids"].tolist()) == ("reset", [10, 10])


def test_the_next_episode_gets_no_options_and_the_stream_goes_on() -> None:
    base = Plain()
    env = sekai.AutoReset(base)
    first = env.reset(seed=3, options={"start": 1})
    assert first.info == {"options": {"start": 1}}
    env.step(0)
    end = env.step(0)
    assert end.info["reset_info"] == {"options": None}
    assert base.seeds == [3, None]
    expected = np.random.default_rng(3).random(2).astype(np.float32)
    assert [first.observation[0], end.observation[0]] == expected.tolist()


def test_an_explicit_reset_in_between_starts_over() -> None:
    env = sekai.AutoReset(CodedEnv(length=3))
    env.reset()
    env.step(0)
    assert env.reset(options={"at": 2}).observation.tolist() == [0, 1, 2]
    assert env.step(0).info["final_observation"].tolist() == [0, 1, 3]


def test_it_says_that_it_resets_itself() -> None:
    assert sekai.AutoReset(CodedEnv()).resets_itself is True
    assert sekai.AutoReset(sekai.TimeLimit(CodedEnv(), 2)).layers() == ["AutoReset", "TimeLimit", "CodedEnv"]


@pytest.mark.parametrize("between", [lambda env: env, sekai.Wrapper], ids=["directly", "through a wrapper"])
def test_a_second_one_is_refused(between: Any) -> None:
    inner = between(sekai.AutoReset(CodedEnv()))
    text = f"{inner} resets itself already: a second AutoReset would reset it twice. Leave one out."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        sekai.AutoReset(inner)


@BOTH_WAYS
def test_wrappers_inside_and_outside_give_one_result(awaited: bool) -> None:
    class Tenfold(sekai.ObservationWrapper):
        def observation(self, observation: Any) -> Any:
            return observation * 10

    outside = play(Tenfold(sekai.AutoReset(CodedEnv(4, length=2))), [0, 0, 0], awaited=awaited)
    inside = play(sekai.AutoReset(Tenfold(CodedEnv(4, length=2))), [0, 0, 0], awaited=awaited)
    assert same(outside, inside)
    assert outside[2].info["final_observation"].tolist() == [40, 0, 20]


@pytest.mark.parametrize("wrap", [lambda env: sekai.TimeLimit(env, 2), lambda env: sekai.TimeAwareObservation(env, 2)])
def test_wrappers_with_state_refuse_to_stand_outside(wrap: Any) -> None:
    name = wrap(Plain()).layers()[0]
    text = (
        f"{name} keeps state of one episode, so it cannot stand outside AutoReset, which starts the next episode "
        f"without a reset that {name} could see. Wrap the other way round: AutoReset({name}(env))."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        wrap(sekai.AutoReset(Plain()))
