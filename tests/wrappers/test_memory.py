"""Wrappers that remember: timelines of stacks, delays, sticky and repeated actions."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai
from sekai.spaces import batch_space, concatenate, read_row
from sekai.testing import CodedEnv
from tests.core.envs import Awaited, play, same
from tests.spaces.strategies import equal, fixed_spaces

BOTH_WAYS = pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])


class Shows(sekai.Env[Any, Any]):
    """Shows the samples given, in turn, and never ends; remembers the actions it is given."""

    def __init__(self, space: Any, samples: list[Any], *, actions: Any = None) -> None:
        self.observation_space = space
        self.action_space = sekai.Discrete(3) if actions is None else actions
        self.samples = samples
        self.executed: list[Any] = []

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        self.t = 0
        return sekai.ResetResult(self.samples[0], {})

    def step(self, action: Any) -> sekai.StepResult:
        self.t += 1
        self.executed.append(action)
        return sekai.StepResult(self.samples[self.t % len(self.samples)], 0.0, False, False, {})


def steps(results: list[Any]) -> list[list[Any]]:
    """`e` and `t` of every frame of every result, as strings `e.t`."""
    return [[f"{int(e)}.{int(t)}" for _, e, t in np.atleast_2d(result.observation)] for result in results]


# FrameStackObservation


def test_a_stack_of_three_after_a_reset_is_the_first_observation_three_times() -> None:
    env = sekai.FrameStackObservation(Shows(sekai.Box(0.0, 9.0, ()), [np.array(7.0), np.array(8.0)]), 3)
    assert env.reset().observation.tolist() == [7, 7, 7]
    assert env.step(0).observation.tolist() == [7, 7, 8]
    assert env.observation_space == sekai.Box(0.0, 9.0, (3,))


@BOTH_WAYS
@pytest.mark.parametrize("kind", [CodedEnv, Awaited])
def test_a_stack_holds_the_last_observations_of_this_episode_oldest_first(kind: Any, awaited: bool) -> None:
    # CodedEnv reuses its array: a stack of references would show the newest one three times
    env = sekai.FrameStackObservation(kind(length=4), 3)
    results = play(env, [0] * 6, awaited=awaited)
    assert steps(results) == [
        ["0.0", "0.0", "0.0"],
        ["0.0", "0.0", "0.1"],
        ["0.0", "0.1", "0.2"],
        ["0.1", "0.2", "0.3"],
        ["0.2", "0.3", "0.4"],
        ["1.0", "1.0", "1.0"],
        ["1.0", "1.0", "1.1"],
        ["1.0", "1.1", "1.2"],
    ]
    assert all(result.observation in env.observation_space for result in results)


def test_a_result_that_was_returned_does_not_change_later() -> None:
    env = sekai.FrameStackObservation(CodedEnv(length=4), 2)
    kept = [env.reset().observation] + [env.step(0).observation for _ in range(3)]
    assert [one[:, 2].tolist() for one in kept] == [[0, 0], [0, 1], [1, 2], [2, 3]]
    delayed = sekai.DelayObservation(CodedEnv(length=4), 1)
    kept = [delayed.reset().observation] + [delayed.step(0).observation for _ in range(3)]
    assert [one[2] for one in kept] == [0, 0, 1, 2]


def test_a_stack_padded_with_zeros_begins_with_them() -> None:
    env = sekai.FrameStackObservation(CodedEnv(7, length=9), 3, padding="zeros")
    results = play(env, [0, 0], awaited=False, options={"at": 5})
    assert [result.observation.tolist() for result in results] == [
        [[0, 0, 0], [0, 0, 0], [7, 0, 5]],
        [[0, 0, 0], [7, 0, 5], [7, 0, 6]],
        [[7, 0, 5], [7, 0, 6], [7, 0, 7]],
    ]


def test_a_stack_of_one_adds_an_axis() -> None:
    env = sekai.FrameStackObservation(CodedEnv(), 1)
    assert steps(play(env, [0], awaited=False)) == [["0.0"], ["0.1"]]
    assert env.observation_space.shape == (1, 3)


@pytest.mark.parametrize(
    ("space", "sample", "padding"),
    [
        (sekai.Box(2.0, 5.0, ()), np.array(3.0), 2.0),
        (sekai.Box(-5.0, -2.0, ()), np.array(-3.0), -2.0),
        (sekai.Box(-1.0, 1.0, ()), np.array(1.0), 0.0),
        (sekai.Discrete(3, start=4), 6, 4),
        (sekai.Discrete(5, start=-2), 1, -2),
    ],
)
def test_zeros_are_brought_into_the_space(space: Any, sample: Any, padding: float) -> None:
    env = sekai.FrameStackObservation(Shows(space, [sample]), 3, padding="zeros")
    first = env.reset().observation
    assert first.tolist() == [padding, padding, sample]
    assert first in env.observation_space
    delayed = sekai.DelayObservation(Shows(space, [sample]), 1)
    first = delayed.reset().observation
    assert first == padding
    assert first in delayed.observation_space


@given(fixed_spaces, st.integers(0, 2**31), st.integers(1, 3), st.sampled_from(["reset", "zeros"]))
def test_every_space_of_a_fixed_size_can_be_stacked_and_delayed(
    space: Any, seed: int, depth: int, padding: Any
) -> None:
    space.seed(seed)
    samples = [space.sample() for _ in range(depth + 1)]
    env = sekai.FrameStackObservation(Shows(space, samples), depth, padding=padding)
    results = [env.reset()] + [env.step(0) for _ in range(depth)]
    assert env.observation_space == batch_space(space, depth)
    assert all(result.observation in env.observation_space for result in results)
    # after `depth` steps the padding is gone: samples 1 to depth
    assert equal(
        results[-1].observation,
        read_row(
            batch_space(space, depth), concatenate(batch_space(space, depth), [concatenate(space, samples[1:])]), 0
        ),
    )
    late = sekai.DelayObservation(Shows(space, samples), depth, padding=padding)
    results = [late.reset()] + [late.step(0) for _ in range(depth)]
    assert all(result.observation in space for result in results)
    assert equal(results[-1].observation, read_row(space, concatenate(space, samples[:1]), 0))


def test_the_last_observation_before_an_auto_reset_is_stacked() -> None:
    env = sekai.AutoReset(sekai.FrameStackObservation(CodedEnv(length=2), 2))
    end = play(env, [0, 0], awaited=False)[2]
    assert end.info["final_observation"].tolist() == [[0, 0, 1], [0, 0, 2]]
    assert end.observation.tolist() == [[0, 1, 0], [0, 1, 0]]


# DelayObservation


@BOTH_WAYS
def test_an_observation_comes_two_steps_late(awaited: bool) -> None:
    results = play(sekai.DelayObservation(CodedEnv(7, length=4), 2), [1] * 5, awaited=awaited)
    assert [result.observation.tolist() for result in results] == [
        [0, 0, 0], [0, 0, 0], [7, 0, 0], [7, 0, 1], [7, 0, 2], [0, 0, 0], [0, 0, 0],
    ]  # fmt: skip
    # nothing else is late: rewards 10 t + 1, the end with the fourth step
    stepped = [result for result in results if isinstance(result, sekai.StepResult)]
    assert [result.reward for result in stepped] == [11, 21, 31, 41, 11]
    assert [result.terminated for result in stepped] == [False, False, False, True, False]


def test_a_late_observation_may_be_preceded_by_itself() -> None:
    results = play(sekai.DelayObservation(CodedEnv(7), 1, padding="reset"), [1] * 2, awaited=False, options={"at": 1})
    assert [result.observation.tolist() for result in results] == [[7, 0, 1], [7, 0, 1], [7, 0, 2]]


def test_an_observation_without_delay_is_the_present_one() -> None:
    assert steps(play(sekai.DelayObservation(CodedEnv(), 0), [1] * 2, awaited=False)) == [["0.0"], ["0.1"], ["0.2"]]


# DelayAction


def executed(results: list[Any]) -> list[int]:
    """The actions that the coded environment executed: the last digit of the reward."""
    return [int(result.reward) % 10 for result in results if isinstance(result, sekai.StepResult)]


@BOTH_WAYS
def test_an_action_is_executed_two_steps_late_and_no_later_than_its_episode(awaited: bool) -> None:
    env = sekai.DelayAction(CodedEnv(length=4), 2, noop=9)
    # 3 and 4 of the first episode are never executed: it ends before
    assert executed(play(env, [1, 2, 3, 4, 5, 6, 7, 8], awaited=awaited)) == [9, 9, 1, 2, 9, 9, 5, 6]


def test_an_action_without_delay_is_executed_at_once() -> None:
    assert executed(play(sekai.DelayAction(CodedEnv(), 0, noop=9), [1, 2, 3], awaited=False)) == [1, 2, 3]


def test_an_action_array_that_the_caller_reuses_is_executed_as_it_was_given() -> None:
    base = Shows(sekai.Box(0.0, 1.0, (1,)), [np.zeros(1)], actions=sekai.Box(-1.0, 1.0, (1,)))
    env = sekai.DelayAction(base, 1)
    env.reset()
    action = np.zeros(1, np.float32)
    for value in (0.25, 0.5, 0.75):
        action[0] = value
        env.step(action)
    assert np.concatenate(base.executed).tolist() == [0.0, 0.25, 0.5]


@pytest.mark.parametrize(("low", "high", "noop"), [(2.0, 5.0, 2.0), (-5.0, -2.0, -2.0), (-1.0, 1.0, 0.0)])
def test_doing_nothing_in_a_box_is_zero_or_the_nearest_bound(low: float, high: float, noop: float) -> None:
    base = Shows(sekai.Box(0.0, 1.0, (1,)), [np.zeros(1)], actions=sekai.Box(low, high, (1,)))
    env = sekai.DelayAction(base, 1)
    env.reset()
    env.step(np.array([high]))
    assert base.executed[0].tolist() == [noop]


def test_doing_nothing_may_be_said_and_is_then_what_is_done() -> None:
    space = sekai.Dict({"gear": sekai.Discrete(3), "turn": sekai.Box(-1.0, 1.0, (1,))})
    base = Shows(sekai.Box(0.0, 1.0, (1,)), [np.zeros(1)], actions=space)
    env = sekai.DelayAction(base, 1, noop={"gear": 1, "turn": np.array([0.5])})
    env.reset()
    env.step({"gear": 2, "turn": np.array([-1.0], np.float32)})
    env.step({"gear": 0, "turn": np.array([1.0], np.float32)})
    assert [(one["gear"], one["turn"].tolist()) for one in base.executed] == [(1, [0.5]), (2, [-1.0])]
    assert all(one in space for one in base.executed)
    assert executed(play(sekai.DelayAction(CodedEnv(), 1, noop=0), [5, 5], awaited=False)) == [0, 5], "0 is one too"


class Fragile(CodedEnv):
    """Fails once, at the second step."""

    failed = False

    def step(self, action: Any) -> sekai.StepResult:
        if self.t == 1 and not self.failed:
            self.failed = True
            raise ConnectionError("the line is dead")
        return super().step(action)


def test_an_action_given_to_a_step_that_fails_is_not_on_its_way() -> None:
    env = sekai.DelayAction(Fragile(length=9), 1, noop=9)
    env.reset()
    rewards = [env.step(1).reward]
    with pytest.raises(ConnectionError):
        env.step(2)
    rewards += [env.step(3).reward, env.step(4).reward]
    # executed are 9, then (1 fails) 1 again, then 3; the 2 of the step that failed never was given
    assert rewards == [19.0, 21.0, 33.0]


def test_an_action_that_does_not_fit_is_refused_before_it_is_remembered() -> None:
    env = sekai.DelayAction(CodedEnv(length=9), 1, noop=9)
    env.reset()
    with pytest.raises(sekai.InvalidAction, match=r"^sub-env 0: action must have shape \(\)"):
        env.step([1, 2])
    assert [env.step(3).reward, env.step(4).reward] == [19.0, 23.0]


def test_what_doing_nothing_means_must_be_said_where_it_cannot_be_guessed() -> None:
    text = "DelayAction: give noop, the action that does nothing; for Discrete(10) it cannot be guessed."
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        sekai.DelayAction(CodedEnv(), 1)
    with pytest.raises(sekai.InvalidAction, match=r"^DelayAction: noop is 10; expected a member of Discrete\(10\)\.$"):
        sekai.DelayAction(CodedEnv(), 1, noop=10)
    with pytest.raises(sekai.InvalidAction, match=r"action must have shape \(\)"):
        sekai.DelayAction(CodedEnv(), 1, noop=[1])


# StickyAction


class Rolls(CodedEnv):
    """Rewards are draws of its stream; remembers the actions it is given."""

    def __init__(self, length: int = 10**9) -> None:
        super().__init__(length=length)
        self.executed: list[int] = []

    def step(self, action: Any) -> sekai.StepResult:
        self.executed.append(action)
        return super().step(action)._replace(reward=self.rng.random())


def rolled(env: Any, actions: list[int], seed: int | None = 0) -> list[float]:
    env.reset(seed=seed)
    return [env.step(action).reward for action in actions]


def test_with_probability_zero_no_action_is_repeated() -> None:
    base = Rolls()
    rolled(sekai.StickyAction(base, 0.0), list(range(10)) * 20)
    assert base.executed == list(range(10)) * 20


@pytest.mark.parametrize("p", [0.0, 0.25, 0.9])
def test_the_environments_own_stream_is_the_same_with_and_without(p: float) -> None:
    actions = [1, 2] * 20
    alone, inside = Rolls(), Rolls()
    assert rolled(alone, actions) == rolled(sekai.StickyAction(inside, p), actions)
    assert alone.rng.bit_generator.state == inside.rng.bit_generator.state


def test_an_equal_seed_gives_equal_draws_and_another_seed_others() -> None:
    executed = []
    for seed in (3, 3, 4):
        base = Rolls()
        rolled(sekai.StickyAction(base, 0.5), list(range(10)) * 6, seed)
        executed.append(base.executed)
    assert executed[0] == executed[1]
    assert executed[0] != executed[2]


def test_a_reset_with_a_seed_begins_the_draws_anew_and_one_without_goes_on() -> None:
    base = Rolls()
    env = sekai.StickyAction(base, 0.5)
    actions = list(range(10)) * 4
    for seed in (3, 3, None):
        rolled(env, actions, seed)
    first, second, third = base.executed[:40], base.executed[40:80], base.executed[80:]
    assert first == second
    assert first != third


def test_actions_stick_about_as_often_as_asked() -> None:
    base = Rolls()
    actions = [k % 10 for k in range(2000)]
    rolled(sekai.StickyAction(base, 0.3), actions)
    stuck = sum(a != b for a, b in zip(base.executed, actions, strict=True))
    # deviation of the frequency sqrt(0.3 * 0.7 / 2000) = 0.0102; a step that sticks ten times in a row shows its own
    # number again, 0.3**10 of them. 0.7, the frequency of the mistake `>=`, is 39 deviations away.
    assert abs(stuck / 2000 - 0.3) < 4 * 0.0102


def test_it_sticks_to_the_action_executed_and_not_to_the_one_given() -> None:
    base = Rolls()
    actions = list(range(60))
    rolled(sekai.StickyAction(base, 0.6), actions)
    previous = base.executed[:1] + base.executed[:-1]
    assert base.executed[0] == 0, "nothing to stick to"
    assert all(done in (given, last) for done, given, last in zip(base.executed, actions, previous, strict=True))
    assert any(b == c != a for a, b, c in zip(actions[1:], base.executed, base.executed[1:], strict=False))
    # twice in a row: the executed action is then older than the last one given
    assert max(given - done for done, given in zip(base.executed, actions, strict=True)) >= 2


@BOTH_WAYS
def test_an_episode_never_begins_with_the_action_of_the_last_one(awaited: bool) -> None:
    base = Rolls(length=1)
    play(sekai.StickyAction(base, 0.99), list(range(10)) * 5, awaited=awaited)
    assert base.executed == list(range(10)) * 5


def test_an_action_array_that_the_caller_reuses_sticks_as_it_was_executed() -> None:
    base = Shows(sekai.Box(0.0, 1.0, (1,)), [np.zeros(1)], actions=sekai.Box(0.0, 99.0, (1,)))
    env = sekai.StickyAction(base, 0.99)
    env.reset(seed=0)
    action = np.zeros(1)
    for value in range(5):
        action[0] = value
        env.step(action)
    assert [one.tolist() for one in base.executed[1:]] == [[0.0]] * 4


def executed_after_loading(env: Any, other: Any, actions: list[Any], tmp_path: Any) -> None:
    """Save `env` amid an episode, load it into `other`, and compare what both go on to execute, resets included."""
    np.savez(tmp_path / "state.npz", **env.state_dict())
    with np.load(tmp_path / "state.npz", allow_pickle=False) as state:
        other.load_state_dict(state)
    done = []
    for each in (env, other):
        base = each.unwrapped
        base.executed = []
        for action in actions:
            each.step(action)
        each.reset()
        for action in actions:
            each.step(action)
        done.append(base.executed)
    assert all(np.array_equal(a, b) for a, b in zip(*done, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(done[0], actions * 2, strict=True)), "some action stuck"


def test_sticky_actions_go_on_from_a_state_to_the_draw(tmp_path: Any) -> None:
    env, other = sekai.StickyAction(Rolls(), 0.6), sekai.StickyAction(Rolls(), 0.6)
    rolled(env, [1, 2, 3], seed=5)
    rolled(other, [7, 7], seed=6)
    executed_after_loading(env, other, list(range(10)) * 3, tmp_path)
    # a wrapper that has seen no reset, around an environment that has: its next reset draws no new generator
    base = Rolls()
    base.reset(seed=6)
    executed_after_loading(env, sekai.StickyAction(base, 0.6), list(range(10)) * 3, tmp_path)


def test_a_state_from_the_start_of_an_episode_has_no_action_to_stick_to() -> None:
    env, other = sekai.StickyAction(Rolls(), 0.99), sekai.StickyAction(Rolls(), 0.99)
    env.reset(seed=0)
    rolled(other, [7])
    other.load_state_dict(env.state_dict())
    other.step(5)
    assert other.unwrapped.executed == [7, 5]


def test_sticky_actions_remember_nested_actions_in_a_state() -> None:
    space = sekai.Dict({"a": sekai.Box(0.0, 9.0, (2,)), "b": sekai.Discrete(4)})
    first = {"a": np.array([1.0, 2.0], np.float32), "b": np.int64(3)}
    second = {"a": np.array([5.0, 5.0], np.float32), "b": np.int64(0)}
    bases = [Shows(sekai.Box(0.0, 1.0, (1,)), [np.zeros(1)], actions=space) for _ in range(2)]
    env, other = (sekai.StickyAction(base, 0.99) for base in bases)
    env.reset(seed=0)
    env.step(first)
    other.reset(seed=1)
    other.load_state_dict(env.state_dict())
    other.step(second)
    assert bases[1].executed[-1]["a"].tolist() == [1.0, 2.0]
    assert bases[1].executed[-1]["b"] == 3


def test_a_state_of_sticky_actions_from_before_the_first_reset_says_so() -> None:
    env, other = sekai.StickyAction(Rolls(), 0.5), sekai.StickyAction(Rolls(), 0.5)
    state = env.state_dict()
    assert sorted(state) == ["acted", "last"]
    assert not state["acted"]
    rolled(other, [1, 2], seed=3)
    other.load_state_dict(state)
    executed = []
    for each in (env, other):
        each.unwrapped.executed = []
        rolled(each, list(range(10)) * 3, seed=4)
        executed.append(each.unwrapped.executed)
    assert executed[0] == executed[1]


def test_a_state_of_sticky_actions_that_does_not_fit_changes_nothing() -> None:
    env = sekai.StickyAction(Rolls(), 0.5)
    rolled(env, [1, 2, 3])
    before = env.state_dict()
    for bad in (
        {"acted": np.array(True)},
        {**before, "last": np.zeros((1, 2), np.int64)},
        {**before, "draws.bit_generator": np.array("Dice")},
        {**before, "acted": "yes"},
        {**before, "last": np.array([99])},
        {"acted": before["acted"], "last": before["last"]},
    ):
        with pytest.raises((TypeError, ValueError)):
            env.load_state_dict(bad)
        after = env.state_dict()
        assert before.keys() == after.keys()
        assert all(np.array_equal(before[name], after[name]) for name in before)


def test_a_state_may_hold_an_action_beyond_the_bounds_and_none_that_is_no_number() -> None:
    space = sekai.Dict({"a": sekai.Box(0.0, 1.0, (1,)), "b": sekai.Discrete(3)})
    base = Shows(sekai.Box(0.0, 1.0, (1,)), [np.zeros(1)], actions=space)
    env = sekai.StickyAction(base, 0.5)
    env.reset(seed=0)
    env.step({"a": np.array([7.0], np.float32), "b": np.int64(2)})  # as for an environment that clips
    state = env.state_dict()
    env.load_state_dict(state)
    for name, value in (("last['a']", [[np.nan]]), ("last['b']", [3])):
        with pytest.raises(ValueError, match=r"^'last' of the state is .*expected an action of Dict"):
            env.load_state_dict({**state, name: np.array(value, state[name].dtype)})


def test_actions_without_a_fixed_size_have_no_state() -> None:
    actions = sekai.Sequence(sekai.Discrete(3))
    env = sekai.StickyAction(Shows(sekai.Box(0.0, 1.0, (1,)), [np.zeros(1)], actions=actions), 0.5)
    with pytest.raises(TypeError, match=r"^StickyAction\.state_dict\(\) needs samples of one size"):
        env.state_dict()


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, float("nan")])
def test_a_probability_out_of_range_is_refused(p: float) -> None:
    text = f"StickyAction: repeat_action_probability is {p!r}; expected a number in [0, 1)."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        sekai.StickyAction(CodedEnv(), p)


# ActionRepeat


@BOTH_WAYS
@pytest.mark.parametrize("kind", [CodedEnv, Awaited])
def test_an_action_is_executed_three_times_as_one_step(kind: Any, awaited: bool) -> None:
    results = play(sekai.ActionRepeat(kind(length=5), 3), [1, 2, 3], awaited=awaited)
    stepped = [result for result in results if isinstance(result, sekai.StepResult)]
    # 11 + 21 + 31; then 42 + 52 and the end; 13 + 23 + 33 of the next episode
    assert [result.reward for result in stepped] == [63.0, 94.0, 69.0]
    assert [result.terminated for result in stepped] == [False, True, False]
    assert [result.info for result in stepped] == [
        {"t": 3, "action_repeats": 3}, {"t": 5, "action_repeats": 2}, {"t": 3, "action_repeats": 3},
    ]  # fmt: skip
    assert steps(stepped) == [["0.3"], ["0.5"], ["1.3"]]


def test_an_action_executed_once_is_an_ordinary_step() -> None:
    results = play(sekai.ActionRepeat(CodedEnv(), 1), [1, 2], awaited=False)
    assert [result.reward for result in results[1:]] == [11.0, 22.0]
    assert results[2].info == {"t": 2, "action_repeats": 1}


def test_the_number_of_executions_is_put_into_a_copy_of_the_info() -> None:
    base = CodedEnv()
    play(sekai.ActionRepeat(base, 2), [0], awaited=False)
    assert base._info == {"t": 2}


@BOTH_WAYS
def test_repetitions_stop_at_a_time_limit_inside(awaited: bool) -> None:
    env = sekai.ActionRepeat(sekai.TimeLimit(CodedEnv(length=99), 3), 2)
    results = play(env, [1, 1], awaited=awaited)
    assert [result.reward for result in results[1:]] == [32.0, 31.0]  # 11 + 21; 31 and the limit
    assert [result.truncated for result in results[1:]] == [False, True]
    assert results[2].info == {"t": 3, "elapsed_steps": 3, "action_repeats": 1}


@BOTH_WAYS
def test_a_time_limit_outside_counts_what_the_policy_did(awaited: bool) -> None:
    results = play(sekai.TimeLimit(sekai.ActionRepeat(CodedEnv(length=99), 2), 3), [1] * 3, awaited=awaited)
    assert results[3].truncated
    assert results[3].info == {"t": 6, "elapsed_steps": 3, "action_repeats": 2}


@BOTH_WAYS
def test_repetitions_stop_at_the_end_of_an_episode_though_the_next_one_has_begun(awaited: bool) -> None:
    results = play(sekai.ActionRepeat(sekai.AutoReset(CodedEnv(length=3)), 2), [1, 1, 1], awaited=awaited)
    # 11 + 21; 31 and the next episode; 11 + 21 of it. Going on over the end, the second were 31 + 11.
    assert [result.reward for result in results[1:]] == [32.0, 31.0, 32.0]
    assert [result.terminated for result in results[1:]] == [False, True, False]
    assert steps(results[1:]) == [["0.2"], ["1.0"], ["1.2"]]
    assert results[2].info["final_observation"].tolist() == [0, 0, 3]
    assert results[2].info["action_repeats"] == 1
    outside = play(sekai.AutoReset(sekai.ActionRepeat(CodedEnv(length=3), 2)), [1, 1, 1], awaited=awaited)
    assert same([result[:4] for result in results[1:]], [result[:4] for result in outside[1:]])


# all of them


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: sekai.FrameStackObservation(env, 2),
        lambda env: sekai.DelayObservation(env, 1),
        lambda env: sekai.DelayAction(env, 1, noop=0),
        lambda env: sekai.StickyAction(env, 0.5),
    ],
    ids=["FrameStackObservation", "DelayObservation", "DelayAction", "StickyAction"],
)
def test_what_remembers_an_episode_refuses_to_stand_outside_auto_reset(wrap: Any) -> None:
    name = wrap(CodedEnv()).layers()[0]
    text = (
        f"{name} keeps state of one episode, so it cannot stand outside AutoReset, which starts the next episode "
        f"without a reset that {name} could see. Wrap the other way round: AutoReset({name}(env))."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        wrap(sekai.AutoReset(CodedEnv()))
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        wrap(sekai.Wrapper(sekai.AutoReset(CodedEnv())))
    assert wrap(CodedEnv()).stateful


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda value: sekai.FrameStackObservation(CodedEnv(), value), "FrameStackObservation: num_stack"),
        (lambda value: sekai.ActionRepeat(CodedEnv(), value), "ActionRepeat: repeat"),
        (lambda value: sekai.DelayObservation(CodedEnv(), value), "DelayObservation: delay"),
        (lambda value: sekai.DelayAction(CodedEnv(), value, noop=0), "DelayAction: delay"),
    ],
)
def test_a_number_that_is_none_is_refused(make: Any, text: str) -> None:
    least = 0 if "delay" in text else 1
    with pytest.raises(ValueError, match=f"^{text} is {least - 1}; expected an int of at least {least}\\.$"):
        make(least - 1)
    for bad in (2.0, True, "2"):
        with pytest.raises(TypeError, match=f"^{text} is {bad!r}; expected an int of at least {least}\\.$"):
            make(bad)
    make(np.int64(least))


@pytest.mark.parametrize("kind", [sekai.FrameStackObservation, sekai.DelayObservation])
def test_an_unknown_padding_and_a_space_without_fixed_size_are_refused(kind: Any) -> None:
    name = kind.__name__
    with pytest.raises(ValueError, match=f"^{name}: padding is 'zero'; expected 'reset' or 'zeros'\\.$"):
        kind(CodedEnv(), 2, padding="zero")
    space = sekai.Sequence(sekai.Discrete(2))
    text = f"{name} needs samples of one size; given {space}. PadSequenceObservation makes them so."
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        kind(Shows(space, []), 2)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: sekai.FrameStackObservation(env, 3),
        lambda env: sekai.DelayObservation(env, 2),
        lambda env: sekai.DelayAction(env, 2, noop=9),
    ],
    ids=["FrameStackObservation", "DelayObservation", "DelayAction"],
)
def test_the_state_of_one_goes_into_another(wrap: Any) -> None:
    env, other = wrap(CodedEnv(length=9)), wrap(CodedEnv(length=9))
    play(env, [1, 2, 3], awaited=False)
    state = env.state_dict()
    play(other, [5, 5, 5], awaited=False)
    saved = {name: value.copy() for name, value in state.items()}
    other.load_state_dict(state)
    expected, result = env.step(4), other.step(4)
    assert same(expected, result)
    assert all(np.array_equal(saved[name], state[name]) for name in saved), "copies, both ways"


def test_a_state_of_frames_names_the_parts_of_the_space_and_is_held_to_them() -> None:
    space = sekai.Dict({"a": sekai.Discrete(5), "b": sekai.Tuple([sekai.Box(0.0, 9.0, (2,))])})
    sample = {"a": 3, "b": (np.array([1.0, 2.0], np.float32),)}
    env = sekai.FrameStackObservation(Shows(space, [sample]), 2)
    env.reset()
    state = env.state_dict()
    assert {name: value.tolist() for name, value in state.items()} == {
        "frames['a']": [[3, 3]], "frames['b'][0]": [[[1.0, 2.0], [1.0, 2.0]]],
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"^The state has \[\"frames\['a'\]\"\]; expected the keys "):
        env.load_state_dict({"frames['a']": state["frames['a']"]})
    other = sekai.FrameStackObservation(Shows(space, [sample]), 3)
    with pytest.raises(
        ValueError, match=r"has shape \(1, 2\) and dtype int64; expected \(1, 3\) and int64: it was saved"
    ):
        other.load_state_dict(state)


def test_sticky_actions_leave_an_environment_alone_that_spawns_generators_of_its_own() -> None:
    class Spawns(CodedEnv):
        def step(self, action: Any) -> sekai.StepResult:
            return super().step(action)._replace(reward=self.rng.spawn(1)[0].random())

    rewards = []
    for env in (Spawns(), sekai.StickyAction(Spawns(), 0.5)):
        env.reset(seed=3)
        rewards.append([env.step(0).reward for _ in range(3)])
    assert rewards[0] == rewards[1]


def test_sticky_actions_take_any_generator() -> None:
    old = np.random.Generator(np.random.RandomState(3)._bit_generator)  # one that cannot spawn
    env = sekai.StickyAction(CodedEnv(), 0.5)
    env.reset(seed=old)
    assert env.step(1).reward == 11.0


def test_frames_that_are_not_finite_are_state_like_any_other() -> None:
    space = sekai.Box(-np.inf, np.inf, (1,))
    env = sekai.FrameStackObservation(
        sekai.TransformObservation(CodedEnv(), lambda o: np.full(1, np.inf, np.float32), space), 2
    )
    env.reset()
    env.load_state_dict(env.state_dict())
    assert env.state_dict()["frames"].tolist() == [[[np.inf], [np.inf]]]


def test_what_remembers_does_not_stand_outside_gymnasiums_autoreset_either() -> None:
    inner = gymnasium.wrappers.Autoreset(CodedEnv())
    for wrap in (lambda env: sekai.FrameStackObservation(env, 2), lambda env: sekai.TimeLimit(env, 2)):
        with pytest.raises(ValueError, match="cannot stand outside gymnasium's Autoreset"):
            wrap(inner)
