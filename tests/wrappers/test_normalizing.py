"""`NormalizeObservation` and `NormalizeReward`: which numbers count, and the arithmetic."""

from __future__ import annotations

import math
import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai
from sekai.testing import CodedEnv
from tests.core.envs import play

EPSILON = 1e-8
TINY = 1e-300  # an epsilon that does not show


class Plays(sekai.Env[Any, Any]):
    """Plays episodes of `(observations, rewards)`, one reward fewer; terminates at the end of each."""

    def __init__(self, space: Any, episodes: list[tuple[list[Any], list[float]]]) -> None:
        self.observation_space = space
        self.action_space = sekai.Discrete(2)
        self.episodes = episodes
        self.next = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self.shown, self.paid = self.episodes[self.next % len(self.episodes)]
        self.next += 1
        self.t = 0
        return sekai.ResetResult(self.shown[0], {})

    def step(self, action: Any) -> sekai.StepResult:
        self.t += 1
        last = self.t == len(self.shown) - 1
        return sekai.StepResult(self.shown[self.t], self.paid[self.t - 1], last, False, {})


ONE = sekai.Box(-np.inf, np.inf, (1,), np.float64)


def numbers(*episodes: list[float]) -> Plays:
    """Episodes of observations of one number, all rewards 0."""
    return Plays(ONE, [([np.array([one]) for one in shown], [0.0] * (len(shown) - 1)) for shown in episodes])


def rewards(*episodes: list[float]) -> Plays:
    """Episodes of rewards."""
    return Plays(ONE, [([np.zeros(1)] * (len(paid) + 1), paid) for paid in episodes])


# NormalizeObservation


@pytest.mark.parametrize("where", ["alone", "AutoReset outside", "AutoReset inside"])
def test_statistics_are_those_of_the_observations_that_somebody_acts_on(where: str) -> None:
    base = numbers([1.0, 2.0, 100.0], [5.0, 200.0], [8.0, 9.0, 300.0])
    env: Any = sekai.NormalizeObservation(sekai.AutoReset(base) if where == "AutoReset inside" else base)
    run = sekai.AutoReset(env) if where == "AutoReset outside" else env
    play(run, [0] * 4, awaited=False)  # reset; 2, the end and 5, the end and 8, 9
    # acted on: 1, 2 | 5 | 8, 9: sum 25, squares 1 + 4 + 25 + 64 + 81 = 175; mean 5, variance 175 / 5 - 25 = 10.
    # The ends, 100 and 200, do not count; nor does a first observation count twice.
    assert env.obs_rms.count == 5
    assert env.obs_rms.mean.tolist() == pytest.approx([5.0], abs=1e-12)
    assert env.obs_rms.var.tolist() == pytest.approx([10.0], abs=1e-12)


def test_an_observation_is_counted_before_it_is_normalised() -> None:
    results = play(sekai.NormalizeObservation(numbers([1.0, 3.0, 8.0, 9.0]), TINY), [0, 0], awaited=False)
    # of 1 alone: (1 - 1) / 0; of 1, 3: mean 2, variance 1; of 1, 3, 8: mean 4, variance (9 + 1 + 16) / 3
    assert [one.observation[0] for one in results] == pytest.approx([0.0, 1.0, 4 / math.sqrt(26 / 3)], abs=1e-12)
    before = play(numbers([1.0, 3.0, 8.0, 9.0]), [0, 0], awaited=False)
    assert [one.observation[0] for one in before] == [1.0, 3.0, 8.0], "the environment's arrays stay as they are"


@pytest.mark.parametrize("inside", [False, True], ids=["AutoReset outside", "AutoReset inside"])
def test_the_last_observation_is_normalised_by_the_statistics_after_the_step(inside: bool) -> None:
    base = numbers([1.0, 3.0, 8.0], [7.0, 0.0])
    env: Any
    if inside:
        env = sekai.NormalizeObservation(sekai.AutoReset(base), TINY)
        mean, var = 11 / 3, 59 / 3 - (11 / 3) ** 2  # of 1, 3, 7: the next episode has begun, 7 is counted
    else:
        env = sekai.AutoReset(sekai.NormalizeObservation(base, TINY))
        mean, var = 2.0, 1.0  # of 1, 3: 7 is counted by the reset that follows
    end = play(env, [0, 0], awaited=False)[2]
    assert end.info["final_observation"] == pytest.approx((8 - mean) / math.sqrt(var), abs=1e-12)
    assert end.observation == pytest.approx((7 - 11 / 3) / math.sqrt(59 / 3 - (11 / 3) ** 2), abs=1e-12)


def test_the_last_observation_alone_is_normalised_and_not_counted() -> None:
    env = sekai.NormalizeObservation(numbers([1.0, 3.0, 8.0]), TINY)
    end = play(env, [0, 0], awaited=False)[2]
    assert end.done
    assert end.observation.tolist() == pytest.approx([6.0])  # (8 - 2) / 1
    assert end.observation.tolist() != pytest.approx([4 / math.sqrt(26 / 3)]), "that would be with it counted"
    assert env.obs_rms.count == 2


@pytest.mark.parametrize("how", ["attribute", "context"])
def test_frozen_statistics_stand_still_and_are_used(how: str) -> None:
    env = sekai.NormalizeObservation(numbers([1.0, 3.0, 8.0, 9.0, 0.0]), TINY)
    env.reset()
    env.step(0)
    if how == "attribute":
        env.update_running_mean = False
        assert env.step(0).observation[0] == 6.0  # (8 - 2) / 1
        env.update_running_mean = True
    else:
        with env.freeze() as same:
            assert same is env
            with env.freeze():
                pass  # entered again, and left: the outer one still holds
            assert env.step(0).observation[0] == 6.0
            assert env.reset().observation[0] == -1.0  # (1 - 2) / 1
            env.step(0)
            env.step(0)
    assert env.obs_rms.count == 2
    env.step(0)
    assert env.obs_rms.count == 3
    # 1, 3, 9: mean 13 / 3
    assert env.obs_rms.mean[0] == pytest.approx(13 / 3)


def test_the_attribute_keeps_its_meaning_after_a_context() -> None:
    env = sekai.NormalizeObservation(numbers([1.0, 3.0, 8.0, 9.0, 0.0]))
    env.update_running_mean = False
    with pytest.raises(ZeroDivisionError), env.freeze():
        raise ZeroDivisionError
    env.reset()
    assert env.obs_rms.count == 0
    assert env.step(0).observation[0] == pytest.approx(3.0), "before the first row nothing is shifted or scaled"
    env.set_attr("update_running_mean", True)
    env.step(0)
    assert env.obs_rms.count == 1


NESTED = sekai.Dict(
    {
        "pose": sekai.Box(-np.inf, np.inf, (2,), np.float64),
        "others": sekai.MaskedBox(-10.0, 10.0, (2,), 3, dtype=np.float64),
        "gear": sekai.Discrete(4),
    }
)


def nested(pose: list[float], others: list[list[float]], gear: int = 0) -> dict[str, Any]:
    return {"pose": np.array(pose), "others": NESTED["others"].pack(others), "gear": np.int64(gear)}


def test_each_part_of_a_nested_observation_has_its_own_statistics() -> None:
    shown = [nested([0.0, 10.0], [[1.0, -2.0]]), nested([4.0, 10.0], [[3.0, 0.0], [5.0, 2.0]], 3), nested([0, 0], [])]
    env = sekai.NormalizeObservation(Plays(NESTED, [(shown, [0.0, 0.0])]), TINY, clip=9.0)
    first, second, end = play(env, [0, 0], awaited=False)
    pose, others = env.obs_rms["pose"], env.obs_rms["others"]
    assert (pose.mean.tolist(), pose.var.tolist(), pose.count) == ([2.0, 10.0], [4.0, 0.0], 2)
    # occupied places only, per feature: 1, 3, 5 and -2, 0, 2: variance (4 + 0 + 4) / 3
    assert others.count == 3
    assert others.mean.tolist() == pytest.approx([3.0, 0.0])
    assert others.var.tolist() == pytest.approx([8 / 3, 8 / 3])
    assert second.observation["pose"].tolist() == [1.0, 0.0]  # (4 - 2) / 2 and 0 / sqrt(1e-300)
    side = 2 / math.sqrt(8 / 3)
    assert second.observation["others"]["elements"] == pytest.approx(np.array([[0, 0], [side, side], [0, 0]]))
    assert second.observation["others"]["mask"].tolist() == [1, 1, 0]
    assert second.observation["gear"] == 3
    assert not end.observation["others"]["elements"].any(), "an empty set: padding is no observation of zero"
    assert all(one.observation in env.observation_space for one in (first, second, end))
    assert "'gear'" not in repr(env.obs_rms)


def test_an_image_becomes_float32() -> None:
    space = sekai.Box(0, 255, (2, 2), np.uint8)
    shown = [np.full((2, 2), value, np.uint8) for value in (0, 200, 100, 50)]
    env = sekai.NormalizeObservation(Plays(space, [(shown, [0.0] * 3)]), TINY)
    results = play(env, [0, 0], awaited=False)
    assert env.observation_space == sekai.Box(-np.inf, np.inf, (2, 2), np.float32)
    # 0, 200: mean 100, deviation 100; then 0, 200, 100: mean 100
    assert [one.observation.tolist() for one in results[1:]] == [[[1.0, 1.0]] * 2, [[0.0, 0.0]] * 2]
    assert results[1].observation.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dimensions_of_every_scale_end_near_mean_zero_and_deviation_one(dtype: Any) -> None:
    draws = np.random.default_rng(0).normal(size=(2001, 3)) * [1.0, 1e3, 1e6] + [0.0, -5e3, 2e6]
    shown = list(draws.astype(dtype))
    env = sekai.NormalizeObservation(Plays(sekai.Box(-np.inf, np.inf, (3,), dtype), [(shown, [0.0] * 2000)]))
    play(env, [0] * 1999, awaited=False)
    with env.freeze():
        seen = np.array([env.observation(one) for one in shown[:2000]])
    assert seen.dtype == dtype
    assert np.abs(seen.mean(0)) == pytest.approx(np.zeros(3), abs=1e-5)
    assert seen.std(0) == pytest.approx(np.ones(3), abs=1e-5)
    assert env.obs_rms.var == pytest.approx(draws[:2000].astype(dtype).astype(np.float64).var(0), rel=1e-6)
    # one scale for all of them leaves the first two at 0
    assert (np.float64(shown)[:2000] / np.float64(shown).std()).std(0)[0] < 1e-5


@pytest.mark.parametrize("value", [np.array(3.0), np.float64(3.0), 3.0])
def test_a_box_of_no_axes_is_normalised(value: Any) -> None:
    space = sekai.Box(-np.inf, np.inf, (), np.float64)
    env = sekai.NormalizeObservation(Plays(space, [([np.array(1.0), value, np.array(0.0)], [0.0, 0.0])]), TINY)
    results = play(env, [0], awaited=False)
    assert results[1].observation == 1.0  # (3 - 2) / 1
    assert results[1].observation in env.observation_space


def test_exponential_weights_by_hand() -> None:
    env = sekai.NormalizeObservation(numbers([0.0, 4.0, 2.0, 0.0]), TINY, stats="ewm", halflife=1.0)
    first, second, third = play(env, [0, 0], awaited=False)
    # weights 1/2 and 1 of 0 and 4: mean 8/3, variance (1/2 * 64/9 + 16/9) / (3/2) = 32/9
    assert second.observation[0] == pytest.approx((4 - 8 / 3) / math.sqrt(32 / 9))
    # weights 1/4, 1/2, 1 of 0, 4, 2: mean (2 + 2) / (7/4) = 16/7, mean square (8 + 4) / (7/4) = 48/7
    assert env.obs_rms.mean[0] == pytest.approx(16 / 7)
    assert env.obs_rms.var[0] == pytest.approx(48 / 7 - (16 / 7) ** 2)
    assert third.observation[0] == pytest.approx((2 - 16 / 7) / math.sqrt(48 / 7 - (16 / 7) ** 2))
    assert env.obs_rms.count == pytest.approx(7 / 4)
    assert first.observation[0] == 0.0


def test_what_is_returned_is_held_to_the_clip() -> None:
    env = sekai.NormalizeObservation(numbers([0.0, 2.0, 50.0, -50.0, 0.0]), TINY, clip=1.5)
    env.reset()
    assert env.step(0).observation[0] == 1.0
    with env.freeze():
        assert [env.step(0).observation[0] for _ in range(2)] == [1.5, -1.5]
    assert env.observation_space == sekai.Box(-1.5, 1.5, (1,), np.float64)
    assert np.isnan(env.observation(np.array([np.nan]))).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused_and_not_counted(bad: float) -> None:
    shown = [nested([0.0, 1.0], [[1.0, 1.0]]), nested([0.0, 1.0], [[2.0, 2.0]]), nested([2.0, 3.0], []), nested([], [])]
    shown[1]["others"]["elements"][0, 1] = bad
    env = sekai.NormalizeObservation(Plays(NESTED, [(shown, [0.0] * 3)]))
    env.reset()
    before = env.state_dict()
    text = (
        f"sub-env 0: observation['others'] holds {bad}; a normaliser averages finite numbers only. Mend the "
        "environment, or replace the value in a wrapper inside this one."
    )
    with pytest.raises(sekai.InvalidObservation, match=f"^{re.escape(text)}$"):
        env.step(0)
    after = env.state_dict()
    assert all(np.array_equal(before[name], after[name]) for name in before), "the good parts do not count either"
    env.step(0)
    assert env.obs_rms["pose"].mean.tolist() == [1.0, 2.0]  # of [0, 1] and [2, 3]


def test_a_plain_box_is_refused_by_the_same_words_and_the_padding_may_hold_anything() -> None:
    env = sekai.NormalizeObservation(numbers([math.nan, 0.0]))
    with pytest.raises(sekai.InvalidObservation, match=r"^sub-env 0: observation holds nan; a normaliser averages"):
        env.reset()
    assert env.obs_rms.count == 0
    with pytest.raises(sekai.InvalidObservation, match="so large that their square is infinite"):
        sekai.NormalizeObservation(numbers([1e200, 0.0])).reset()
    hidden = nested([0.0, 1.0], [[1.0, 1.0]])
    hidden["others"]["elements"][2] = math.nan
    padded = sekai.NormalizeObservation(Plays(NESTED, [([hidden, hidden], [0.0])]))
    assert padded.reset().observation["others"]["elements"][2].tolist() == [0.0, 0.0]


def test_the_state_of_one_goes_into_another() -> None:
    env = sekai.NormalizeObservation(numbers([1.0, 3.0, 8.0, 9.0, 0.0]), TINY)
    play(env, [0], awaited=False)
    state = env.state_dict()
    assert {name: value.tolist() for name, value in state.items()} == {"mean": [2.0], "var": [1.0], "count": 2.0}
    env.step(0)
    assert state["mean"] == [2.0], "a copy"
    other = sekai.NormalizeObservation(numbers([8.0, 9.0, 0.0]), TINY)
    other.load_state_dict(state)
    with other.freeze():
        assert other.reset().observation[0] == 6.0  # (8 - 2) / 1
    other.step(0)
    assert other.obs_rms.mean[0] == pytest.approx(13 / 3)  # of 1, 3, 9
    assert state["mean"] == [2.0]
    state["mean"][0] = state["var"][0] = 99.0
    assert other.obs_rms.mean[0] == pytest.approx(13 / 3)
    fresh = other.state_dict()
    fresh["mean"][0] = 99.0
    assert other.obs_rms.mean[0] == pytest.approx(13 / 3), "a copy too"


def test_the_state_of_a_nested_one_names_its_parts() -> None:
    shown = [nested([0.0, 10.0], [[1.0, -2.0]]), nested([4.0, 10.0], [[3.0, 0.0]]), nested([0, 0], [])]
    env = sekai.NormalizeObservation(Plays(NESTED, [(shown, [0.0, 0.0])]))
    play(env, [0], awaited=False)
    state = env.state_dict()
    assert sorted(state) == [
        "['others'].count", "['others'].mean", "['others'].var", "['pose'].count", "['pose'].mean", "['pose'].var",
    ]  # fmt: skip
    other = sekai.NormalizeObservation(Plays(NESTED, [(shown, [0.0, 0.0])]))
    other.load_state_dict(state)
    loaded = other.state_dict()
    assert all(np.array_equal(state[name], loaded[name]) for name in state)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({"mean": np.zeros(1), "var": np.ones(1)}, r"The state has ['mean', 'var']; expected the keys "),
        (
            {"mean": np.zeros(2), "var": np.ones(2), "count": 1.0},
            "'mean' of the state has shape (2,) and dtype float64; expected (1,) and float64: it was saved around "
            "another environment.",
        ),
        ({"mean": np.array([np.nan]), "var": np.ones(1), "count": 1.0}, "'mean' of the state holds a number that is"),
        ({"mean": np.zeros(1), "var": -np.ones(1), "count": 1.0}, "The state holds a variance or a count below zero."),
        ({"mean": np.zeros(1), "var": np.ones(1), "count": -1.0}, "The state holds a variance or a count below zero."),
        ([1, 2], "The state has list; expected the keys ['count', 'mean', 'var']."),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(state: Any, text: str) -> None:
    env = sekai.NormalizeObservation(numbers([1.0, 3.0, 8.0, 0.0]))
    play(env, [0], awaited=False)
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        env.load_state_dict(state)
    assert (env.obs_rms.mean.tolist(), env.obs_rms.var.tolist(), env.obs_rms.count) == ([2.0], [1.0], 2)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"epsilon": 0.0}, "epsilon is 0.0; expected a positive number."),
        ({"epsilon": math.nan}, "epsilon is nan; expected a positive number."),
        ({"epsilon": math.inf}, "epsilon is inf; expected a positive number."),
        ({"stats": "mean"}, "stats is 'mean'; expected 'running' or 'ewm'."),
        ({"stats": "ewm", "halflife": 0.0}, "halflife is 0.0; expected a positive number of updates."),
        ({"stats": "ewm", "halflife": math.inf}, "halflife is inf; expected a positive number of updates."),
        ({"clip": 0.0}, "clip is 0.0; expected a positive number, or None."),
        ({"clip": math.nan}, "clip is nan; expected a positive number, or None."),
    ],
)
def test_settings_of_observations_that_make_no_sense_are_refused(given: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        sekai.NormalizeObservation(CodedEnv(), **given)


def test_without_a_box_there_is_nothing_to_normalise() -> None:
    with pytest.raises(TypeError, match=r"^There is nothing to transform: Discrete\(2\) has no Box part\.$"):
        sekai.NormalizeObservation(Plays(sekai.Discrete(2), []))


# NormalizeReward


def scaled(env: Any, actions: int) -> list[float]:
    """The rewards of so many steps."""
    return [result.reward for result in play(env, [0] * actions, awaited=False) if isinstance(result, sekai.StepResult)]


@pytest.mark.parametrize("where", ["alone", "AutoReset inside", "AutoReset outside"])
def test_rewards_are_divided_by_the_spread_of_the_discounted_returns(where: str) -> None:
    base = rewards([1.0, 3.0, 1.0], [2.0, 5.0])
    env: Any = sekai.NormalizeReward(sekai.AutoReset(base) if where == "AutoReset inside" else base, 0.5)
    run = sekai.AutoReset(env) if where == "AutoReset outside" else env
    # returns: 1, 3 + 1/2 = 3.5, 1 + 3.5/2 = 2.75 | from 0 again: 2, 5 + 2/2 = 6
    returns = [1.0, 3.5, 2.75, 2.0, 6.0]
    deviations = [math.sqrt(np.var(returns[: k + 1]) + EPSILON) for k in range(5)]
    raw = [1.0, 3.0, 1.0, 2.0, 5.0]
    assert scaled(run, 5) == pytest.approx([r / d for r, d in zip(raw, deviations, strict=True)], rel=1e-12)
    assert abs(env.return_rms.var - np.var(returns)) <= 1e-12
    assert abs(env.return_rms.mean - 3.05) <= 1e-12  # 15.25 / 5
    assert env.return_rms.count == 5
    # going on over the end of the episode, the fourth return would be 2 + 2.75/2
    assert abs(np.var([1.0, 3.5, 2.75, 3.375, 6.6875]) - env.return_rms.var) > 0.1


@given(
    st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=6), min_size=1, max_size=4),
    st.floats(0, 1),
)
def test_the_statistics_are_those_of_numpy_over_all_returns(episodes: list[list[float]], gamma: float) -> None:
    env = sekai.NormalizeReward(rewards(*episodes), gamma)
    scaled(env, sum(map(len, episodes)))
    returns = []
    for episode in episodes:
        value = 0.0
        for reward in episode:
            value = gamma * value + reward
            returns.append(value)
    assert env.return_rms.count == len(returns)
    assert env.return_rms.var == pytest.approx(np.var(returns), abs=1e-10)


def test_an_episode_that_is_cut_by_hand_leaves_no_return() -> None:
    env = sekai.NormalizeReward(rewards([1.0, 3.0, 1.0], [2.0, 0.0]), 0.5)
    env.reset()
    env.step(0)
    env.reset()
    env.step(0)
    assert env.return_rms.mean == 1.5  # returns 1 and 2, not 1 and 2 + 1/2
    assert env.return_rms.var == 0.25


def test_a_scaled_reward_is_held_to_the_clip() -> None:
    # returns 1, 1 + 3 = 4: deviation 1.5; the first has none, so 1 / sqrt(1e-8) = 10000
    assert scaled(sekai.NormalizeReward(rewards([1.0, 3.0, 0.0]), 1.0), 2) == pytest.approx([1e4, 2.0])
    assert scaled(sekai.NormalizeReward(rewards([1.0, 3.0, 0.0]), 1.0, clip=5.0), 2) == pytest.approx([5.0, 2.0])
    assert scaled(sekai.NormalizeReward(rewards([-1.0, 3.0, 0.0]), 1.0, clip=0.5), 2) == [-0.5, 0.5]


def test_rewards_come_out_as_python_floats() -> None:
    env = sekai.NormalizeReward(rewards([np.float32(1.0), 2, 0.0]), 1.0)  # type: ignore[list-item]  # on purpose
    assert [type(reward) for reward in scaled(env, 2)] == [float, float]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_reward_that_is_not_finite_is_refused_and_not_counted(bad: float) -> None:
    env = sekai.NormalizeReward(rewards([1.0, bad, 3.0, 0.0]), 0.5)
    env.reset()
    env.step(0)
    before = env.state_dict()
    text = f"sub-env 0: the reward is {bad}; a normaliser averages finite numbers only. "
    with pytest.raises(sekai.InvalidObservation, match=f"^{re.escape(text)}"):
        env.step(0)
    after = env.state_dict()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    env.step(0)
    assert env.return_rms.mean == 2.25  # of 1 and 3 + 1/2


def test_frozen_statistics_of_returns_stand_still_while_the_return_goes_on() -> None:
    env = sekai.NormalizeReward(rewards([1.0, 3.0, 4.0, 2.0, 0.0]), 1.0)
    env.reset()
    env.step(0)
    env.step(0)  # returns 1, 4: deviation 1.5
    with env.freeze():
        assert env.step(0).reward == pytest.approx(4 / 1.5)
    assert env.return_rms.count == 2
    env.step(0)
    assert env.return_rms.mean == pytest.approx((1 + 4 + 10) / 3)  # 1, 4 and 1 + 3 + 4 + 2
    env.update_running_mean = False
    env.step(0)
    assert env.return_rms.count == 3


def test_the_state_of_rewards_has_the_return_of_the_unfinished_episode() -> None:
    env = sekai.NormalizeReward(rewards([1.0, 3.0, 4.0, 2.0]), 0.5)
    env.reset()
    env.step(0)
    env.step(0)
    state = env.state_dict()
    assert {name: value.tolist() for name, value in state.items()} == {
        "mean": 2.25, "var": 1.5625, "count": 2.0, "returns": [3.5],
    }  # fmt: skip
    other = sekai.NormalizeReward(rewards([4.0, 2.0]), 0.5)
    other.reset()
    other.load_state_dict(state)
    assert other.step(0).reward == env.step(0).reward  # both of return 4 + 3.5/2
    assert other.return_rms.mean == env.return_rms.mean == pytest.approx((1 + 3.5 + 5.75) / 3)
    later = env.state_dict()
    env.reset()
    assert later["returns"].tolist() == [5.75], "a copy: the reset is not seen in it"
    other.load_state_dict(state)
    other.reset()
    assert state["returns"].tolist() == [3.5], "nor in what was taken over"
    with pytest.raises(ValueError, match="below zero"):
        env.load_state_dict({**state, "returns": np.ones(1), "var": -1.0})
    assert env.state_dict()["returns"].tolist() == [0.0], "nothing was taken over"
    other.load_state_dict({**state, "returns": np.ones(4)})
    assert other.state_dict()["returns"].tolist() == [0.0], "of four slots: other episodes, so that these begin anew"
    assert other.return_rms.count == 2.0


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"gamma": 1.1}, "gamma is 1.1; expected a discount in [0, 1]."),
        ({"gamma": -0.1}, "gamma is -0.1; expected a discount in [0, 1]."),
        ({"gamma": math.nan}, "gamma is nan; expected a discount in [0, 1]."),
        ({"epsilon": 0.0}, "epsilon is 0.0; expected a positive number."),
        ({"clip": -1.0}, "clip is -1.0; expected a positive number, or None."),
    ],
)
def test_settings_of_rewards_that_make_no_sense_are_refused(given: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        sekai.NormalizeReward(CodedEnv(), **given)


def test_a_reward_that_is_refused_in_the_last_step_does_not_carry_its_return_on() -> None:
    class Bad(CodedEnv):
        def step(self, action: Any) -> sekai.StepResult:
            result = super().step(action)
            return result._replace(reward=float("nan")) if action == 9 else result

    env = sekai.NormalizeReward(sekai.AutoReset(Bad(length=2)), gamma=0.5)
    env.reset()
    env.step(0)
    with pytest.raises(sekai.InvalidObservation, match="the reward is nan"):
        env.step(9)
    env.step(0)
    # the second episode begins with G = 10, not 0.5 * 10 + 10
    assert (env.return_rms.count, float(env.return_rms.mean)) == (2.0, 10.0)


def test_a_half_life_that_makes_no_sense_is_refused_also_where_it_is_not_used() -> None:
    with pytest.raises(ValueError, match="halflife is -1"):
        sekai.NormalizeObservation(CodedEnv(), halflife=-1)


def test_what_is_not_finite_is_found_beside_parts_without_a_size() -> None:
    number = sekai.Box(-np.inf, np.inf, (2,))
    for other, value in ((gymnasium.spaces.Text(3), "abc"), (sekai.Dict({}), {})):
        space = sekai.Dict([("a", other), ("b", number)])
        shown = {"a": value, "b": np.array([0.0, np.nan], np.float32)}
        env = sekai.NormalizeObservation(sekai.TransformObservation(CodedEnv(), lambda o, s=shown: s, space))
        with pytest.raises(sekai.InvalidObservation, match=r"^sub-env 0: observation\['b'\] holds nan"):
            env.reset()


@pytest.mark.parametrize("wrap", [sekai.NormalizeObservation, sekai.NormalizeReward, sekai.RecordEpisodeStatistics])
def test_what_counts_rows_does_not_stand_outside_gymnasiums_autoreset(wrap: Any) -> None:
    with pytest.raises(ValueError, match="cannot stand outside gymnasium's Autoreset"):
        wrap(gymnasium.wrappers.Autoreset(CodedEnv()))
