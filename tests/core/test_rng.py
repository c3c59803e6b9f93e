"""One generator per environment, set by `reset(seed=...)`; seeding does nothing else."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.testing import CodedEnv
from tests.core.envs import Plain


def wrapped() -> sekai.Wrapper:
    return sekai.TimeLimit(sekai.Wrapper(CodedEnv()), 5)


@pytest.mark.parametrize("make", [CodedEnv, wrapped])
def test_an_int_restarts_the_stream(make: Any) -> None:
    env = make()
    env._set_rng(3)
    expected = np.random.default_rng(3).random(2).tolist()
    assert [env.rng.random(), env.rng.random()] == expected
    env._set_rng(3)
    assert env.rng.random() == expected[0]
    env._set_rng(np.int64(3))
    assert env.rng.random() == expected[0]
    assert env.np_random_seed == 3
    assert type(env.np_random_seed) is int


@pytest.mark.parametrize("make", [CodedEnv, wrapped])
def test_none_continues_the_stream(make: Any) -> None:
    env = make()
    env._set_rng(3)
    env.rng.random()
    env._set_rng(None)
    assert env.rng.random() == np.random.default_rng(3).random(2)[1]
    assert env.np_random_seed == 3


def test_zero_restarts_the_stream() -> None:
    env = CodedEnv()
    env._set_rng(0)
    env.rng.random()
    env._set_rng(0)
    assert env.rng.random() == np.random.default_rng(0).random()


def test_without_a_seed_the_stream_comes_from_entropy_once() -> None:
    one, other = CodedEnv(), CodedEnv()
    one._set_rng(None)
    assert one.rng is one.rng
    assert one.rng.random() != other.rng.random()


@pytest.mark.parametrize("make", [CodedEnv, wrapped])
def test_a_generator_is_adopted_as_it_is(make: Any) -> None:
    env, generator = make(), np.random.default_rng(5)
    before = generator.bit_generator.state
    env._set_rng(generator)
    assert env.rng is generator
    assert generator.bit_generator.state == before
    assert env.np_random_seed == -1, "as gymnasium says that the seed is unknown"


@pytest.mark.parametrize(
    ("seed", "kind", "text"),
    [
        (True, TypeError, "seed is True (bool); expected an int >= 0, None or a numpy.random.Generator."),
        ("7", TypeError, "seed is '7' (str); expected an int >= 0, None or a numpy.random.Generator."),
        (1.5, TypeError, "seed is 1.5 (float); expected an int >= 0, None or a numpy.random.Generator."),
        (-1, ValueError, "seed is -1; expected an int >= 0, None or a numpy.random.Generator."),
    ],
)
def test_anything_else_is_refused_and_changes_nothing(seed: Any, kind: type[Exception], text: str) -> None:
    for make in (CodedEnv, wrapped):
        env: Any = make()
        env.reset(seed=3)
        for call in (env._set_rng, lambda seed, env=env: env.reset(seed=seed)):
            with pytest.raises(kind, match=f"^{re.escape(text)}$"):
                call(seed)
        assert env.unwrapped.episode == 0
        assert env.rng.random() == np.random.default_rng(3).random()


def test_seeding_neither_steps_nor_resets() -> None:
    # U57
    env = CodedEnv()
    env.reset(seed=0)
    env.step(1)
    env._set_rng(7)
    env.action_space.seed(7)
    env.observation_space.seed(7)
    assert (env.episode, env.t) == (0, 1)
    assert env.step(1).observation.tolist() == [0, 0, 2]
    assert env.rng.random() == np.random.default_rng(7).random(), "nothing was drawn in between"


def test_the_reset_of_the_base_class_sets_the_generator() -> None:
    class Calls(CodedEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
            sekai.Env.reset(self, seed=seed)
            return super().reset()

    env = Calls()
    env.reset(seed=11)
    assert env.rng.random() == np.random.default_rng(11).random()


def test_an_auto_reset_continues_the_stream() -> None:
    class Draws(CodedEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
            result = super().reset(seed=seed, options=options)
            return result._replace(info={"draw": self.rng.random()})

    env = sekai.AutoReset(Draws(length=1))
    first, second = env.reset(seed=2).info["draw"], env.step(0).info["reset_info"]["draw"]
    assert [first, second] == np.random.default_rng(2).random(2).tolist()


def test_a_gymnasium_environment_adopts_a_generator_through_a_wrapper() -> None:
    env: Any = sekai.Wrapper(Plain())
    generator = np.random.default_rng(8)
    first = env.reset(seed=generator).observation
    assert env.unwrapped.np_random is generator
    assert first[0] == np.float32(np.random.default_rng(8).random())
    assert env.unwrapped.seeds == [None], "gymnasium takes ints only"
