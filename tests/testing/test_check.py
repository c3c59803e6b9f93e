"""`check_env`: a sound environment has no problems, and each way of being wrong is named."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

import sekai
from sekai.testing import CodedEnv, Problem, check_env


class Walk(sekai.Env):
    """A sound environment: a random walk on the line that ends beyond 3."""

    metadata = {"render_modes": []}  # noqa: RUF012  # as gymnasium has it

    def __init__(self) -> None:
        self.observation_space = sekai.Box(-5.0, 5.0, (1,))
        self.action_space = sekai.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        self.x = float(self.rng.normal(0.0, 0.5))
        return sekai.ResetResult(self.seen(), {})

    def step(self, action: Any) -> sekai.StepResult:
        self.x += (0.5 if action else -0.5) + float(self.rng.normal(0.0, 0.1))
        return sekai.StepResult(self.seen(), -abs(self.x), abs(self.x) > 3.0, False, {"x": self.x})

    def seen(self) -> Any:
        return np.clip(np.array([self.x], np.float32), -5.0, 5.0)


class Masked(Walk):
    """Sound, with a mask: number 0 is not allowed below -1."""

    def action_mask(self) -> Any:
        return np.array([self.x > -1.0, True], np.int8)

    def step(self, action: Any) -> sekai.StepResult:
        assert self.action_mask()[action], "the check plays allowed actions only"
        return super().step(action)


def variant(**methods: Any) -> Callable[[], Any]:
    return type("Variant", (Walk,), methods)


def outside(self: Any) -> Any:
    return np.array([self.x * 10.0 + 6.0], np.float32)


def unseeded(self: Any, *, seed: Any = None, options: Any = None) -> Any:
    self._set_rng(seed)
    self.x = float(np.random.default_rng().normal(0.0, 0.5))
    return sekai.ResetResult(self.seen(), {})


def reseeds(self: Any, *, seed: Any = None, options: Any = None) -> Any:
    return Walk.reset(self, seed=0 if seed is None else seed)


def no_generator(self: Any, *, seed: Any = None, options: Any = None) -> Any:
    self.x = 0.0
    self.drift = np.random.default_rng(seed)
    return sekai.ResetResult(self.seen(), {})


def step_without_generator(self: Any, action: Any) -> Any:
    self.x += (0.5 if action else -0.5) + float(self.drift.normal(0.0, 0.1))
    return sekai.StepResult(self.seen(), 0.0, abs(self.x) > 3.0, False, {})


def from_numpys_global(self: Any, action: Any) -> Any:
    np.random.normal()  # the mistake under test
    return Walk.step(self, action)


def from_the_standard_librarys(self: Any, action: Any) -> Any:
    random.random()
    return Walk.step(self, action)


def one_array(self: Any) -> Any:
    if not hasattr(self, "array"):
        self.array = np.zeros(1, np.float32)
    self.array[:] = np.clip(self.x, -5.0, 5.0)
    return self.array


def one_info(self: Any, action: Any) -> Any:
    if not hasattr(self, "info"):
        self.info: Any = {}
    result = Walk.step(self, action)
    self.info["x"] = self.x
    return result._replace(info=self.info)


def replaced(**changes: Any) -> Callable[[Any, Any], Any]:
    return lambda self, action: Walk.step(self, action)._replace(**changes)


def boom(self: Any, action: Any) -> Any:
    raise RuntimeError("no such thing")


async def other_reward(self: Any, action: Any) -> Any:
    await asyncio.sleep(0)
    result = Walk.step(self, action)
    return result._replace(reward=result.reward - 1.0)


def counts_episodes(self: Any, *, seed: Any = None, options: Any = None) -> Any:
    self.episodes = getattr(self, "episodes", 0) + 1
    first = Walk.reset(self, seed=seed)
    return first._replace(info={"episodes": self.episodes})


def reward_of_the_past(self: Any, action: Any) -> Any:
    self.calls = getattr(self, "calls", 0) + 1
    return Walk.step(self, action)._replace(reward=float(self.calls))


def writes_to_the_action(self: Any, action: Any) -> Any:
    action += 1.0
    return Walk.step(self, 1)


def continuous(self: Any) -> None:
    Walk.__init__(self)
    self.action_space = sekai.Box(-1.0, 1.0, (1,))


BROKEN = {
    "observation space": [variant(seen=outside), variant(seen=lambda self: np.zeros(2, np.float32))],
    "NaN": [variant(seen=lambda self: np.array([np.nan], np.float32))],
    "observation dtype": [variant(seen=lambda self: np.zeros(1, np.float16))],
    "seeding": [
        variant(reset=unseeded),
        variant(reset=reseeds),
        variant(reset=no_generator, step=step_without_generator),
    ],
    "global random state": [variant(step=from_numpys_global), variant(step=from_the_standard_librarys)],
    "observation reused": [variant(seen=one_array)],
    "info reused": [variant(step=one_info)],
    "reward": [variant(step=replaced(reward=np.nan)), variant(step=replaced(reward="1"))],
    "raises": [variant(step=boom)],
    "API": [
        variant(step=lambda self, action: Walk.step(self, action)[:4]),
        variant(reset=lambda self: sekai.ResetResult(np.zeros(1, np.float32), {})),
        variant(step=replaced(info=None)),
    ],
    "async": [variant(async_step=other_reward)],
    "action": [variant(__init__=continuous, step=writes_to_the_action)],
    "action mask": [
        variant(action_mask=lambda self: np.ones(3, np.int8)),
        variant(action_mask=lambda self: np.zeros(2, np.int8)),
    ],
    "time limit": [variant(step=replaced(info={"TimeLimit.truncated": True}))],
}


@pytest.mark.parametrize("env", [Walk, Masked, variant(reset=counts_episodes)])
def test_a_sound_environment_has_no_problems(env: Any) -> None:
    assert check_env(env(), determinism=True) == []


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1", "Trading-v0", "Blackjack-v1", "CliffWalking-v1"])
def test_registered_environments_have_no_problems(id: str) -> None:
    with sekai.make(id) as env:
        assert check_env(env, steps=200, determinism=True) == []


@pytest.mark.parametrize(("rule", "which"), [(rule, k) for rule, envs in BROKEN.items() for k in range(len(envs))])
def test_each_mistake_is_named_and_nothing_else_is(rule: str, which: int) -> None:
    found = check_env(BROKEN[rule][which](), steps=100)
    assert [problem.rule for problem in found] == [rule], list(map(str, found))
    assert found[0].seen and found[0].fix


def test_a_problem_says_what_was_seen_at_which_step_and_how_to_mend_it() -> None:
    found = check_env(BROKEN["reward"][0]())
    assert str(found[0]) == "error: reward at step 1: The reward is nan. Return one finite number, float(reward)."
    assert found[0] == Problem(
        rule="reward", seen="The reward is nan.", step=1, fix="Return one finite number, float(reward)."
    )


def test_a_hidden_time_limit_is_named_unless_the_deadline_is_part_of_the_task() -> None:
    # U29
    class Limited(Walk):
        def step(self, action: Any) -> sekai.StepResult:
            self.t += 1
            return super().step(1)._replace(terminated=self.t == 20, observation=np.zeros(1, np.float32))

        def reset(self, **given: Any) -> sekai.ResetResult:
            self.t = 0
            return super().reset(**given)

    found = check_env(Limited(), steps=100)
    assert [(problem.rule, problem.severity) for problem in found] == [("time limit", "warning")]
    assert found[0].seen == "All 5 episodes ended by terminated after 20 steps: a time limit?"
    assert check_env(Limited(), steps=59) == [], "two episodes are no rule"

    class Deadline(Limited):
        metadata = {"finite_horizon": True}  # noqa: RUF012  # as gymnasium has it

    assert check_env(Deadline(), steps=100) == []
    truncated = sekai.TimeLimit(Walk(), 2)
    assert check_env(truncated, steps=100) == []


def test_what_only_a_second_run_shows_takes_the_option() -> None:
    env = variant(step=reward_of_the_past)
    assert [problem.rule for problem in check_env(env(), determinism=True)] == ["determinism"]
    # the awaitable run is a second run too
    assert [problem.rule for problem in check_env(env())] == ["determinism"]


class Plain(gymnasium.Env[Any, Any]):
    """gymnasium's kind, with a reward that depends on how often it was stepped at all."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    calls = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.calls += 1
        return np.zeros(1, np.float32), float(self.calls), False, False, {}


def test_of_gymnasiums_environments_there_is_nothing_to_await() -> None:
    assert check_env(Plain()) == []
    assert [problem.rule for problem in check_env(Plain(), determinism=True)] == ["determinism"]


def test_one_that_resets_itself_is_not_reset_by_the_check() -> None:
    resets: list[int] = []

    class Counts(Walk):
        def reset(self, **given: Any) -> sekai.ResetResult:
            resets.append(1)
            return super().reset(**given)

    assert check_env(sekai.AutoReset(Counts()), steps=50) == []
    alone = len(resets)
    resets.clear()
    check_env(Counts(), steps=50)
    assert alone == len(resets), "the same episodes, begun by AutoReset"


def test_what_is_no_environment_is_said() -> None:
    assert [problem.rule for problem in check_env(object())] == ["type"]
    no_space = Walk()
    no_space.observation_space = None  # type: ignore[assignment]  # the mistake under test
    assert "observation_space is None" in check_env(no_space)[0].seen


def test_it_works_where_a_loop_runs_already() -> None:
    async def main() -> list[Problem]:
        return check_env(Walk(), steps=20)

    assert asyncio.run(main()) == []


def test_the_spaces_of_the_environment_are_not_advanced() -> None:
    env = Walk()
    env.action_space.seed(5)
    state = env.action_space.np_random.bit_generator.state
    check_env(env, steps=20)
    assert env.action_space.np_random.bit_generator.state == state


def test_the_coded_environments_reuse_their_data_on_purpose() -> None:
    rules = {problem.rule for problem in check_env(CodedEnv(length=7), steps=50)}
    assert {"observation reused", "info reused", "time limit"} <= rules


def test_progress_is_reported_and_steps_are_checked() -> None:
    seen: list[int] = []
    check_env(Walk(), steps=30, progress=seen.append)
    assert seen == [1] * 30
    with pytest.raises(ValueError, match="steps is 0"):
        check_env(Walk(), steps=0)


class Facade(Walk):
    """A feed that is awaited, with an ordinary face."""

    async def async_step(self, action: Any) -> Any:
        await asyncio.sleep(0)
        return Walk.step(self, action)

    def step(self, action: Any) -> Any:
        return asyncio.run(self.async_step(action))


class Bound(Walk):
    """Belongs to the thread that made it, as a window or a database connection does."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()
        self.async_step = None  # type: ignore[assignment]  # nothing to await

    def step(self, action: Any) -> Any:
        assert threading.get_ident() == self.thread
        return super().step(action)


class Level(Walk):
    """Draws a level when a seed is given, and only then."""

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        if seed is not None:
            self.level = float(self.rng.normal())
        self.x = 0.0
        return sekai.ResetResult(self.seen(), {})


class Odd:
    """An object without a truth value."""

    def __eq__(self, other: object) -> Any:
        return np.array([True, False])

    __hash__ = None  # type: ignore[assignment]  # as of a data frame


def objects_in_the_info(self: Any, action: Any) -> Any:
    if not hasattr(self, "frame"):
        self.frame = Odd()
    return Walk.step(self, action)._replace(info={"frame": self.frame})


@pytest.mark.parametrize("env", [Facade, Level, variant(step=objects_in_the_info)])
def test_correct_environments_of_odd_kinds_have_no_problems(env: Any) -> None:
    assert check_env(env(), steps=60) == []


@pytest.mark.parametrize("wrap", [sekai.NormalizeObservation, sekai.NormalizeReward])
def test_normalisers_stand_still_where_two_runs_are_compared(wrap: Any) -> None:
    assert check_env(wrap(Walk()), steps=60, determinism=True) == []


@pytest.mark.parametrize("mask", [[1, 1], np.ones(2, bool), np.ones(2, np.int64), [True, False]])
def test_masks_of_every_accepted_form_are_played_by(mask: Any) -> None:
    assert check_env(variant(action_mask=lambda self: mask)(), steps=40) == []


def test_what_nobody_foresaw_is_reported_and_not_raised() -> None:
    class Broken(sekai.Discrete):
        def sample(self, *given: Any, **named: Any) -> Any:
            raise RuntimeError("no sample today")

    env = Walk()
    env.action_space = Broken(2)
    assert [problem.rule for problem in check_env(env)] == ["raises"]
    assert "no sample today" in check_env(env)[0].seen
    assert [problem.rule for problem in check_env(variant(step=replaced(terminated="no"))())] == ["API"]
