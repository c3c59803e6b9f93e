"""Wrappers are hooks around one call: their order, further calls in the same step, and both ways of driving them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.core.wrapper import FollowUp, ResetCall, StepCall
from sekai.testing import CodedEnv
from tests.core.envs import Awaited, Plain, play, same

BOTH_WAYS = pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])


class Logs(sekai.Wrapper):
    """Writes each hook into a list that several layers share, and leaves a mark on what passes."""

    def __init__(self, env: Any, name: str, log: list[str]) -> None:
        super().__init__(env)
        self.name, self.log = name, log

    def before_step(self, action: Any) -> Any:
        self.log.append(f"{self.name}.before_step({action})")
        return action + 1

    def after_step(self, result: sekai.StepResult) -> sekai.StepResult:
        self.log.append(f"{self.name}.after_step({result.reward})")
        return result._replace(reward=result.reward * 10)

    def follow_up(self, result: sekai.StepResult) -> FollowUp:
        self.log.append(f"{self.name}.follow_up({result.reward})")
        return result
        yield

    def before_reset(self, options: dict[str, Any] | None) -> dict[str, Any] | None:
        self.log.append(f"{self.name}.before_reset({options})")
        return {**(options or {}), self.name: 1}

    def after_reset(self, result: sekai.ResetResult) -> sekai.ResetResult:
        self.log.append(f"{self.name}.after_reset({sorted(result.info)})")
        return result._replace(info={**result.info, self.name: 2})


class LoggedEnv(CodedEnv):
    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self.log.append(f"env.reset({seed}, {options})")
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> sekai.StepResult:
        self.log.append(f"env.step({action})")
        return super().step(action)


@BOTH_WAYS
def test_hooks_run_outside_in_before_the_call_and_inside_out_after_it(awaited: bool) -> None:
    log: list[str] = []
    env = Logs(Logs(LoggedEnv(log), "inner", log), "outer", log)
    reset, step = play(env, [5], awaited=awaited, options={"at": 1})
    assert log == [
        "outer.before_reset({'at': 1})",
        "inner.before_reset({'at': 1, 'outer': 1})",
        "env.reset(0, {'at': 1, 'outer': 1, 'inner': 1})",
        "inner.after_reset(['t'])",
        "outer.after_reset(['inner', 't'])",
        "outer.before_step(5)",
        "inner.before_step(6)",
        "env.step(7)",
        "inner.after_step(27.0)",  # 10 * 2 + 7
        "inner.follow_up(270.0)",
        "outer.after_step(270.0)",
        "outer.follow_up(2700.0)",
    ]
    assert reset.info == {"t": 1, "inner": 2, "outer": 2}
    assert step.reward == 2700.0


class Repeats(sekai.Wrapper):
    """Takes the action `times` times within one step; starts the next episode when `restart`."""

    def __init__(self, env: Any, times: int = 3, restart: bool = False) -> None:
        super().__init__(env)
        self.times, self.restart = times, restart
        self.answers: list[Any] = []

    def before_step(self, action: Any) -> Any:
        self.action = action
        return action

    def follow_up(self, result: sekai.StepResult) -> FollowUp:
        total = result.reward
        for _ in range(self.times - 1):
            if result.done:
                break
            result = yield StepCall(self.action)
            self.answers.append(type(result))
            total += result.reward
        if self.restart and result.done:
            first = yield ResetCall({"at": 1})
            self.answers.append(type(first))
            return result._replace(observation=first.observation, reward=total)
        return result._replace(reward=total)


@BOTH_WAYS
def test_follow_up_steps_within_the_same_step(awaited: bool) -> None:
    base = Awaited(length=5)
    env = Repeats(base)
    results = play(env, [2, 2], awaited=awaited)
    # actions 2 at t = 1, 2, 3: 12 + 22 + 32 = 66; then t = 4, 5, and the episode has ended: 42 + 52 = 94
    assert [result.reward for result in results[1:]] == [66.0, 94.0]
    assert [result.done for result in results[1:]] == [False, True]
    assert env.answers == [sekai.StepResult] * 3
    kind = "async_step" if awaited else "step"
    assert base.calls[1:] == [kind] * 5, "every call goes the way of the outer one"


@BOTH_WAYS
def test_follow_up_resets_with_options_and_a_continuing_stream(awaited: bool) -> None:
    base = Awaited(length=2)
    env = Repeats(base, restart=True)
    results = play(env, [1], awaited=awaited)
    assert results[1].observation.tolist() == [0, 1, 1]  # episode 1, begun at 1
    assert results[1].reward == 32.0  # 11 + 21
    assert env.answers == [sekai.StepResult, sekai.ResetResult]
    # the seed 0 of the first reset is still the one in force
    assert base.np_random_seed == 0
    prefix = "async_" if awaited else ""
    assert base.calls == [f"{prefix}reset", f"{prefix}step", f"{prefix}step", f"{prefix}reset"]


@BOTH_WAYS
def test_follow_up_is_sent_named_results_of_gymnasiums_environments_too(awaited: bool) -> None:
    env = Repeats(Plain(), restart=True)
    play(env, [1], awaited=awaited)
    assert env.answers == [sekai.StepResult, sekai.ResetResult]


def test_follow_up_from_a_mixin_is_found() -> None:
    class Mixin:
        def follow_up(self, result: sekai.StepResult) -> FollowUp:
            again: sekai.StepResult = yield StepCall(9)
            return again

    class Mixed(Mixin, sekai.Wrapper):
        pass

    assert play(Mixed(CodedEnv()), [1], awaited=False)[1].reward == 29.0  # the second step: 10 * 2 + 9


@BOTH_WAYS
def test_an_error_inside_reaches_the_caller_unchanged(awaited: bool) -> None:
    class Breaks(CodedEnv):
        def step(self, action: Any) -> sekai.StepResult:
            raise ZeroDivisionError("in the environment")

    with pytest.raises(ZeroDivisionError, match=r"^in the environment$"):
        play(Repeats(Breaks()), [0], awaited=awaited)


class Add(sekai.ActionWrapper):
    def action(self, action: Any) -> Any:
        return action + 1


class Negative(sekai.RewardWrapper):
    def reward(self, reward: float) -> float:
        return -reward


class Scaled(sekai.ObservationWrapper):
    """Times ten; the last observation of an episode times a hundred, to tell them apart."""

    def observation(self, observation: Any) -> Any:
        return observation * 10

    def final_observation(self, observation: Any) -> Any:
        return observation * 100


class Real(sekai.ActionWrapper):
    """Takes real numbers for the two actions 0 and 1."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.action_space = sekai.Box(0.0, 1.0, (), np.float64)

    def action(self, action: Any) -> Any:
        return round(float(action))


class Legal(sekai.Wrapper):
    """Has a mask of actions that goes round with every step."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.mask = [1] * (int(env.action_space.n) - 1) + [0]

    def action_mask(self) -> list[int]:
        self.mask = [*self.mask[1:], self.mask[0]]
        return self.mask


class Timeless(sekai.Wrapper):
    """Leaves the one number out that no two runs share."""

    def after_step(self, result: sekai.StepResult) -> sekai.StepResult:
        if "episode" not in result.info:
            return result
        episode = dataclasses.replace(result.info["episode"], elapsed_time=0.0)
        return result._replace(info={**result.info, "episode": episode})


def in_dict(env: Any) -> Any:
    space = env.observation_space
    return sekai.TransformObservation(env, lambda o: {"a": o, "b": o * 2}, sekai.Dict({"a": space, "b": space}))


def in_sequence(env: Any) -> Any:
    return sekai.TransformObservation(env, lambda o: (o, o), sekai.Sequence(env.observation_space))


WRAPPERS: dict[str, Any] = {
    "bare": sekai.Wrapper,
    "action": Add,
    "reward": Negative,
    "observation": Scaled,
    "repeats": Repeats,
    "auto reset": sekai.AutoReset,
    "time limit": lambda env: sekai.TimeLimit(env, 2),
    "time": lambda env: sekai.TimeAwareObservation(env, 4),
    "clip": lambda env: sekai.ClipReward(env, max_reward=15.0),
    "order": sekai.OrderEnforcing,
    "gymnasium": sekai.FromGymnasium,
    "mask": lambda env: sekai.ActionMaskObservation(Legal(env)),
    "repeat": lambda env: sekai.ActionRepeat(env, 2),
    "clip action": lambda env: sekai.ClipAction(Real(env)),
    "delay action": lambda env: sekai.DelayAction(env, 1, noop=0),
    "delay observation": lambda env: sekai.DelayObservation(env, 1),
    "dtype": lambda env: sekai.DtypeObservation(env, np.float32),
    "filter": lambda env: sekai.FilterObservation(in_dict(env), ["b"]),
    "flatten": lambda env: sekai.FlattenObservation(in_dict(env)),
    "stack": lambda env: sekai.FrameStackObservation(env, 2),
    "normalize observation": sekai.NormalizeObservation,
    "normalize reward": sekai.NormalizeReward,
    "pad": lambda env: sekai.PadSequenceObservation(in_sequence(env), 3),
    "statistics": lambda env: Timeless(sekai.RecordEpisodeStatistics(env, gamma=0.5)),
    "rescale action": lambda env: sekai.RescaleAction(Real(env), 0.0, 2.0),
    "rescale observation": lambda env: sekai.RescaleObservation(env, 0.0, 1.0),
    "sticky": lambda env: sekai.StickyAction(env, 0.5),
    "transform observation": lambda env: sekai.TransformObservation(env, lambda o: o / 2),
    "transform reward": lambda env: sekai.TransformReward(env, lambda reward: reward / 2),
    "all": lambda env: Scaled(
        sekai.AutoReset(sekai.TimeAwareObservation(sekai.TimeLimit(Add(sekai.OrderEnforcing(env)), 2)))
    ),
}


@pytest.mark.parametrize("kind", [Awaited, CodedEnv, Plain])
@pytest.mark.parametrize("name", WRAPPERS)
def test_every_wrapper_does_the_same_awaited(name: str, kind: Any) -> None:
    results = [play(WRAPPERS[name](kind()), [0, 1, 0, 1, 1], awaited=awaited) for awaited in (False, True)]
    assert same(*results)
    assert any(result.done for result in results[0]), "an episode ends in between"
    assert all(type(result) in (sekai.StepResult, sekai.ResetResult) for result in results[0])


def test_a_wrapper_that_drives_one_way_differently_would_be_noticed() -> None:
    class OneWay(sekai.Wrapper):
        async def async_step(self, action: Any) -> sekai.StepResult:
            result = await super().async_step(action)
            return result._replace(reward=result.reward + 1)

    assert not same(*(play(OneWay(CodedEnv()), [0], awaited=awaited) for awaited in (False, True)))


def test_the_transforms_of_the_base_classes() -> None:
    assert play(Add(CodedEnv()), [4], awaited=False)[1].reward == 15.0  # 10 * 1 + (4 + 1)
    assert play(Negative(CodedEnv()), [4], awaited=False)[1].reward == -14.0
    reset, first, last = play(Scaled(CodedEnv(7, length=2)), [0, 0], awaited=False)
    assert reset.observation.tolist() == [70, 0, 0]
    assert first.observation.tolist() == [70, 0, 10]
    assert last.observation.tolist() == [700, 0, 200], "the last one goes through final_observation"


def test_the_last_observation_is_transformed_like_any_other_by_default() -> None:
    class Tenfold(sekai.ObservationWrapper):
        def observation(self, observation: Any) -> Any:
            return observation * 10

    assert play(Tenfold(CodedEnv(length=1)), [0], awaited=False)[1].observation.tolist() == [0, 0, 10]
    assert play(Tenfold(CodedEnv(length=1, ending="truncated")), [0], awaited=False)[1].observation[2] == 10


@BOTH_WAYS
def test_an_observation_wrapper_outside_auto_reset_transforms_both_observations(awaited: bool) -> None:
    end = play(Scaled(sekai.AutoReset(CodedEnv(7, length=2))), [0, 0], awaited=awaited)[2]
    assert end.observation.tolist() == [70, 10, 0], "first of episode 1, an ordinary one"
    assert end.info["final_observation"].tolist() == [700, 0, 200], "last of episode 0"
    inside = play(sekai.AutoReset(Scaled(CodedEnv(7, length=2))), [0, 0], awaited=awaited)[2]
    assert same(inside.observation, end.observation)
    assert same(inside.info["final_observation"], end.info["final_observation"]), "once, on either side"


def test_transforming_outside_auto_reset_leaves_the_info_of_the_layer_below_alone() -> None:
    below: list[dict[str, Any]] = []

    class Peek(sekai.Wrapper):
        def after_step(self, result: sekai.StepResult) -> sekai.StepResult:
            below.append(result.info)
            return result

    play(Scaled(Peek(sekai.AutoReset(CodedEnv(length=1)))), [0], awaited=False)
    assert below[0]["final_observation"].tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (sekai.ObservationWrapper, r"ObservationWrapper must implement observation\(observation\)\."),
        (sekai.RewardWrapper, r"RewardWrapper must implement reward\(reward\)\."),
        (sekai.ActionWrapper, r"ActionWrapper must implement action\(action\)\."),
    ],
)
def test_a_base_class_says_what_to_implement(kind: Any, text: str) -> None:
    with pytest.raises(NotImplementedError, match=text):
        play(kind(CodedEnv()), [0], awaited=False)


@pytest.mark.parametrize("given", [None, CodedEnv, "CartPole-v1"])
def test_only_an_environment_can_be_wrapped(given: Any) -> None:
    with pytest.raises(TypeError, match=r"^Wrapper wraps a single environment; given .* \(\w+\)\.$"):
        sekai.Wrapper(given)


class Counts(sekai.Wrapper):
    stateful = True


STANDS_OUTSIDE = (
    "Counts keeps state of one episode, so it cannot stand outside AutoReset, which starts the next episode "
    r"without a reset that Counts could see. Wrap the other way round: AutoReset\(Counts\(env\)\)\."
)


@pytest.mark.parametrize(
    "between",
    [lambda env: env, sekai.Wrapper, lambda env: sekai.ClipReward(env, 0.0)],
    ids=["nothing", "a wrapper", "ClipReward"],
)
def test_a_stateful_wrapper_refuses_to_stand_outside_auto_reset(between: Any) -> None:
    with pytest.raises(ValueError, match=f"^{STANDS_OUTSIDE}$"):
        Counts(between(sekai.AutoReset(CodedEnv())))
    Counts(between(CodedEnv()))
    sekai.AutoReset(Counts(between(CodedEnv())))


def test_an_environment_that_resets_itself_is_known_through_layers() -> None:
    class ByItself(CodedEnv):
        resets_itself = True

    assert sekai.Wrapper(sekai.Wrapper(ByItself())).resets_itself
    assert sekai.Wrapper(sekai.AutoReset(CodedEnv())).resets_itself
    assert not sekai.Wrapper(CodedEnv()).resets_itself
    with pytest.raises(ValueError, match=f"^{STANDS_OUTSIDE}$"):
        Counts(ByItself())


def test_layers_are_listed_outermost_first() -> None:
    assert CodedEnv().layers() == ["CodedEnv"]
    env = sekai.TimeLimit(sekai.ClipReward(sekai.FromGymnasium(Plain()), 0.0), 3)
    assert env.layers() == ["TimeLimit", "ClipReward", "FromGymnasium", "Plain"]
    assert repr(env) == f"TimeLimit(ClipReward(FromGymnasium({env.unwrapped})))"
    assert str(env) == repr(env)


def test_check_options_is_handed_inwards() -> None:
    env = sekai.TimeLimit(sekai.Wrapper(CodedEnv(length=3)), 9)
    env.check_options({"at": 2})
    with pytest.raises(ValueError, match=r"options\['at'\] is 3; expected 0 to 2"):
        env.check_options({"at": 3})
    sekai.Wrapper(Plain()).check_options({"at": 3})  # gymnasium's environments have no such check


def test_rng_spec_and_render_mode_are_those_of_the_base_environment() -> None:
    base = CodedEnv()
    base.spec = object()  # type: ignore[assignment]  # only its identity matters
    base.render_mode = "ansi"
    env = sekai.TimeLimit(sekai.Wrapper(base), 3)
    env.reset(seed=4)
    assert env.spec is base.spec
    assert env.render_mode == "ansi"
    assert env.rng is base.rng
    assert env.rng.random() == np.random.default_rng(4).random()
