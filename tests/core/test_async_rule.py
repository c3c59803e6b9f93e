"""A class that overrides only `step` never keeps an `async_step` written for another `step`; and `reset` likewise."""

from __future__ import annotations

import asyncio
from typing import Any

import gymnasium
import numpy as np
import pytest

import sekai
from sekai.testing import CodedEnv
from tests.core.envs import Awaited, play


class Env(sekai.Env[Any, Any]):
    """Answers with the name of what was called."""

    def step(self, action: Any) -> Any:
        return "step"

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return "reset"


class Own(Env):
    """Has awaitable calls of its own."""

    async def async_step(self, action: Any) -> Any:
        return "async_step of Own"

    async def async_reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return "async_reset of Own"


class NewCalls(Own):
    def step(self, action: Any) -> Any:
        return "new step"

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return "new reset"


class NewStepOnly(Own):
    def step(self, action: Any) -> Any:
        return "new step"


class NewBoth(Own):
    def step(self, action: Any) -> Any:
        return "new step"

    async def async_step(self, action: Any) -> Any:
        return "new async_step"


class NewAwaitableOnly(Own):
    async def async_step(self, action: Any) -> Any:
        return "new async_step"


class StepMixin:
    def step(self, action: Any) -> Any:
        return "mixed-in step"


class AwaitableMixin:
    async def async_step(self, action: Any) -> Any:
        return "mixed-in async_step"


class StepMixinFirst(StepMixin, Own):
    pass


class StepMixinLast(Own, StepMixin):
    pass


class AwaitableMixinFirst(AwaitableMixin, Own):
    pass


class AwaitableMixinLast(NewStepOnly, AwaitableMixin):
    pass


class Diamond(NewStepOnly, NewAwaitableOnly):
    """`NewStepOnly.step` comes first, so the awaitable of the other branch is stale."""


class DiamondTheOtherWay(NewAwaitableOnly, NewStepOnly):
    """The awaitable comes first: whoever wrote this order wants it."""


class Gymnasiums(gymnasium.Env[Any, Any]):
    def step(self, action: Any) -> Any:
        return "gymnasium's step"


class Adopted(Gymnasiums, Own):
    pass


def stepped(env: Any) -> tuple[Any, Any]:
    """What `step` and `async_step` return."""
    return env.step(0), asyncio.run(env.async_step(0))


def restarted(env: Any) -> tuple[Any, Any]:
    """What `reset` and `async_reset` return."""
    return env.reset(), asyncio.run(env.async_reset())


@pytest.mark.parametrize(
    ("kind", "step", "awaitable"),
    [
        (Env, "step", "step"),
        (Own, "step", "async_step of Own"),
        (NewCalls, "new step", "new step"),
        (NewStepOnly, "new step", "new step"),
        (NewBoth, "new step", "new async_step"),
        (NewAwaitableOnly, "step", "new async_step"),
        (StepMixinFirst, "mixed-in step", "mixed-in step"),
        (StepMixinLast, "step", "async_step of Own"),
        (AwaitableMixinFirst, "step", "mixed-in async_step"),
        (AwaitableMixinLast, "new step", "new step"),
        (Diamond, "new step", "new step"),
        (DiamondTheOtherWay, "new step", "new async_step"),
        (Adopted, "gymnasium's step", "gymnasium's step"),
    ],
)
def test_async_step_belongs_to_the_step_in_force(kind: type[Env], step: str, awaitable: str) -> None:
    assert stepped(kind()) == (step, awaitable)


@pytest.mark.parametrize(
    ("kind", "reset", "awaitable"),
    [
        (Env, "reset", "reset"),
        (Own, "reset", "async_reset of Own"),
        (NewCalls, "new reset", "new reset"),
        (NewStepOnly, "reset", "async_reset of Own"),
    ],
)
def test_async_reset_belongs_to_the_reset_in_force(kind: type[Env], reset: str, awaitable: str) -> None:
    assert restarted(kind()) == (reset, awaitable)


def test_a_class_below_one_that_was_corrected_may_bring_its_own_again() -> None:
    class Below(NewStepOnly):
        async def async_step(self, action: Any) -> Any:
            return "below"

    assert stepped(Below()) == ("new step", "below")


def test_the_awaitable_default_reaches_the_step_of_a_class_made_later() -> None:
    class Later(NewCalls):
        def step(self, action: Any) -> Any:
            return "later"

    assert stepped(Later()) == ("later", "later")


class Doubling(sekai.Wrapper):
    """A wrapper that leaves the hooks aside and overrides `step` itself."""

    def step(self, action: Any) -> sekai.StepResult:
        result = super().step(action)
        return result._replace(reward=2 * result.reward)


class DoublingLimit(Doubling, sekai.TimeLimit):
    pass


class LimitThatDoubles(sekai.TimeLimit):
    def step(self, action: Any) -> sekai.StepResult:
        result = super().step(action)
        return result._replace(reward=2 * result.reward)


@pytest.mark.parametrize(
    "wrap",
    [Doubling, lambda env: DoublingLimit(env, 5), lambda env: LimitThatDoubles(env, 5)],
    ids=["Doubling", "DoublingLimit", "LimitThatDoubles"],
)
@pytest.mark.parametrize("awaited", [False, True])
def test_a_wrapper_that_overrides_step_does_so_for_both_ways(wrap: Any, awaited: bool) -> None:
    # step 1 with action 3: 2 * (10 * 1 + 3) = 26
    assert play(wrap(Awaited()), [3], awaited=awaited)[1].reward == 26.0


# The same rule holds for vector environments and their wrappers.


class Plus(sekai.VecWrapper):
    """Overrides only `step`."""

    def step(self, actions: Any) -> Any:
        return self.venv.step(actions).replace(rewards=np.full(1, 7.0))


class Late(sekai.AsyncVecEnv):
    """Overrides only `reset`."""

    def reset(self, **arguments: Any) -> Any:
        return super().reset(**arguments).replace(dones=np.ones(1, bool))


def test_a_vector_class_that_overrides_only_the_sync_call_keeps_no_stale_twin() -> None:
    with Plus(Late([CodedEnv])) as vec:
        asyncio.run(vec.async_reset(seed=0))
        assert asyncio.run(vec.async_step([0])).rewards.tolist() == [7.0]
        assert asyncio.run(vec.unwrapped.async_reset(seed=0)).dones.tolist() == [True]


def test_a_time_limit_of_ones_own_runs_its_hooks_on_both_paths() -> None:
    class Capped(sekai.TimeLimit):
        def before_step(self, action: Any) -> Any:
            calls.append(action)
            return super().before_step(action)

    calls: list[Any] = []
    env = Capped(CodedEnv(), 3)
    env.reset(seed=0)
    env.step(1)
    asyncio.run(env.async_step(2))
    assert calls == [1, 2]
