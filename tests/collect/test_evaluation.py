"""`evaluate`: which episodes count, what the policy sees, and what stays as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.collect import evaluate
from sekai.seeding import spawn_seeds
from sekai.testing import CodedEnv, CodedVecEnv
from sekai.vector.infos import same_value

MODES = ("same_step", "next_step", "disabled")
BACKENDS = ("sync", "async", "proc", "native")
CLASSES = {"sync": sekai.SyncVecEnv, "async": sekai.AsyncVecEnv, "proc": sekai.ProcVecEnv}


def coded(lengths: Any, mode: str = "same_step", backend: str = "native", ending: Any = "terminated") -> Any:
    if backend == "native":
        return CodedVecEnv(len(lengths), list(lengths), ending=ending, autoreset=mode)
    makers = [lambda i=i, n=n: CodedEnv(i, n, ending=ending) for i, n in enumerate(lengths)]
    return CLASSES[backend](makers, autoreset=mode)


def zeros(n: int) -> Any:
    return lambda observations: np.zeros(n, int)


def first_to_finish(vec: Any, episodes: int) -> list[float]:
    """What `evaluate` must not do: the returns of the first episodes that finish, whoever started them."""
    vec.reset()
    sums, found = np.zeros(vec.num_envs), []
    while len(found) < episodes:
        result = vec.step(np.zeros(vec.num_envs, int))
        sums += result.rewards
        for slot in np.flatnonzero(result.ended).tolist():
            found.append(sums[slot])
            sums[slot] = 0.0
    return found[:episodes]


@pytest.mark.parametrize("mode", MODES)
def test_short_episodes_are_not_favoured(mode: str) -> None:
    # the reward of step t is 10 t, so an episode of one step returns 10, one of nine 10 + 20 + ... + 90 = 450
    found = evaluate(zeros(2), coded((1, 9), mode), 4)
    assert found.returns.tolist() == [10.0, 450.0, 10.0, 450.0]
    assert (found.lengths.tolist(), found.slots.tolist()) == ([1, 9, 1, 9], [0, 1, 0, 1])
    assert found.mean == 230.0
    # the plausible wrong way: slot 0 has finished four while slot 1 is in its first
    assert np.mean(first_to_finish(coded((1, 9)), 4)) == 10.0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_episodes_of_every_slot_count_and_the_rest_does_not(backend: str, mode: str) -> None:
    seen = []

    def policy(observations: Any) -> Any:
        seen.append(observations.copy())
        return observations[:, 1].astype(int) % 10  # the episode's number

    with coded((1, 2, 4), mode, backend, "truncated") as vec:
        found = evaluate(policy, vec, 5)
    # slots 0 and 1 play two, slot 2 one; episode e of length n returns 10 (1 + ... + n) + n e
    assert found.returns.tolist() == [10, 30, 100, 11, 32]
    assert found.raw_returns.tolist() == found.returns.tolist()
    assert (found.lengths.tolist(), found.slots.tolist()) == ([1, 2, 4, 1, 2], [0, 1, 2, 0, 1])
    assert found.truncated.all() and not found.terminated.any()
    assert found.seeds is None


def test_fewer_episodes_than_slots_are_played_by_the_first_slots() -> None:
    found = evaluate(zeros(3), coded((5, 2, 1)), 2)
    assert (found.slots.tolist(), found.lengths.tolist()) == ([0, 1], [5, 2])


def test_both_flags_stay_readable() -> None:
    found = evaluate(zeros(1), coded((2,), ending="both"), 1)
    assert (found.terminated.tolist(), found.truncated.tolist()) == ([True], [True])


class Recall:
    """Remembers the first observation of each episode, and answers with its entry `e` at every step."""

    def __init__(self, nested: bool = False) -> None:
        self.nested, self.starts = nested, []

    def initial_state(self, num_slots: int) -> Any:
        memory = np.full((num_slots, 3), -1.0)
        return {"deep": (memory, None)} if self.nested else memory

    def act(self, observations: Any, state: Any, episode_start: Any) -> Any:
        self.starts.append(episode_start.tolist())
        memory = (state["deep"][0] if self.nested else state).copy()
        empty = memory[:, 0] < 0
        memory[empty] = observations[empty]
        state = {"deep": (memory, None)} if self.nested else memory
        return SimpleNamespace(actions=memory[:, 1].astype(int), state=state)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_memory_begins_anew_with_every_episode_and_only_there(mode: str, nested: bool) -> None:
    found = evaluate(Recall(nested), coded((2, 3), mode), 6)
    # the last digit of each reward is the action: the number of the episode, had it been remembered rightly
    assert found.returns.tolist() == [30.0, 60.0, 32.0, 63.0, 34.0, 66.0]


def test_episode_start_is_true_on_first_rows_in_every_mode() -> None:
    expected = {
        "same_step": [[1, 1], [0, 0], [1, 0], [0, 1], [1, 0], [0, 0]],
        "next_step": [[1, 1], [0, 0], [0, 0], [1, 0], [0, 1], [0, 0], [1, 0]],
        "disabled": [[1, 1], [0, 0], [1, 0], [0, 1], [0, 0], [0, 0]],  # slot 0 has played its two
    }
    for mode, starts in expected.items():
        policy = Recall()
        evaluate(policy, coded((2, 3), mode), 4)
        assert [[int(start) for start in row] for row in policy.starts[:6]] == starts[:6], mode


def test_state_of_torch_tensors_and_named_tuples() -> None:
    torch = pytest.importorskip("torch")
    from typing import NamedTuple

    class Hidden(NamedTuple):
        h: Any
        c: Any

    class Counts:
        def initial_state(self, num_slots: int) -> Any:
            return Hidden(torch.zeros(num_slots, 2), [torch.zeros(num_slots)])

        def act(self, observations: Any, state: Any, episode_start: Any) -> Any:
            state = Hidden(state.h + 1, [state.c[0] + 1])
            return SimpleNamespace(actions=state.c[0].numpy().astype(int), state=state)

    found = evaluate(Counts(), coded((2, 3)), 4)
    # actions are 1, 2, ... counted from the start of each episode
    assert found.returns.tolist() == [33.0, 66.0, 33.0, 66.0]


@contextmanager
def normalised(backend: str = "sync") -> Iterator[Any]:
    with coded((2, 3), "same_step", backend) as vec:
        wrapped = sekai.VecNormalizeReward(sekai.VecNormalizeObservation(vec))
        wrapped.reset(seed=0)
        for step in range(20):
            wrapped.step([step % 10, 3])
        yield wrapped


def test_statistics_of_normalisers_stay_as_they_were() -> None:
    with normalised() as vec:
        layers = (vec, vec.venv)
        before = [layer.state_dict() for layer in layers]
        found = evaluate(zeros(2), vec, 6)
        assert same_value([layer.state_dict() for layer in layers], before)
        assert found.raw_returns.tolist() == [30.0, 60.0] * 3
        assert found.returns == pytest.approx(found.raw_returns / np.sqrt(vec.return_rms.var + 1e-8))
        vec.reset()
        vec.step([0, 0])  # and go on counting afterwards
        assert not same_value(vec.venv.state_dict(), before[1])


def test_a_saved_normaliser_scores_the_same() -> None:
    def policy(observations: Any) -> Any:
        return (observations[:, 2] > 0).astype(int)

    with normalised() as vec, normalised() as other:
        found = evaluate(policy, vec, 6, seed=1)
        for _ in range(30):
            other.step([9, 9])
        assert evaluate(policy, other, 6, seed=1).returns.tolist() != found.returns.tolist()
        for layer, saved in zip((other, other.venv), (vec, vec.venv), strict=True):
            layer.load_state_dict(saved.state_dict())
        assert evaluate(policy, other, 6, seed=1).returns.tolist() == found.returns.tolist()


@pytest.mark.parametrize("backend", ["sync", "proc"])
def test_normalisers_inside_the_slots_rest_too(backend: str) -> None:
    vec = CLASSES[backend]([lambda: sekai.NormalizeObservation(CodedEnv())] * 2)
    with vec:
        vec.reset()
        vec.step([0, 0])
        vec.set_attr("update_running_mean", [True, False])
        before = vec.call("state_dict")
        evaluate(zeros(2), vec, 4)
        assert same_value(vec.call("state_dict"), before)
        assert vec.get_attr("update_running_mean") == [True, False]


def test_two_normalisers_in_another_process_are_refused() -> None:
    vec = sekai.ProcVecEnv([lambda: sekai.NormalizeReward(sekai.NormalizeObservation(CodedEnv()))])
    with vec, pytest.raises(ValueError) as refused:
        evaluate(zeros(1), vec, 1)
    assert str(refused.value) == (
        "The sub-envs of ProcVecEnv(num_envs=1) have NormalizeReward and NormalizeObservation, and from outside only "
        "one of them can be frozen: use VecNormalizeObservation and VecNormalizeReward around the vector environment."
    )


def test_the_wrappers_are_as_before_also_after_an_error() -> None:
    with normalised() as vec:
        inner, before = vec.venv.venv, vec.state_dict()

        def fails(observations: Any) -> Any:
            raise OSError("no policy")

        with pytest.raises(OSError, match="no policy"):
            evaluate(fails, vec, 2)
        assert vec.venv.venv is inner and same_value(vec.state_dict(), before)
        assert vec.updating


class Drawing(sekai.Env):
    """Draws its length, 1 to 6, and a reward for every step."""

    observation_space = sekai.Box(0.0, 1.0, (1,), np.float64)
    action_space = sekai.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        self.left = int(self.rng.integers(1, 7))
        return sekai.ResetResult(np.zeros(1), {})

    def step(self, action: Any) -> sekai.StepResult:
        self.left -= 1
        reward = float(self.rng.random()) + 10.0 * float(action)
        return sekai.StepResult(np.zeros(1), reward, self.left == 0, False, {})


def by_hand(seed: int) -> tuple[float, int]:
    env, total, length = Drawing(), 0.0, 0
    env.reset(seed=seed)
    while env.left:
        total, length = total + env.step(0).reward, length + 1
    return total, length


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [1, 3])
def test_common_random_numbers_meet_the_same_episodes_whatever_the_slots_and_the_mode(n: int, mode: str) -> None:
    vec = sekai.SyncVecEnv([Drawing] * n, autoreset=mode)
    found = evaluate(zeros(n), vec, 7, seed=5, common_random_numbers=True)
    seeds = spawn_seeds(5, 7)
    assert found.seeds == tuple(seeds)
    assert list(zip(found.returns.tolist(), found.lengths.tolist(), strict=True)) == [by_hand(seed) for seed in seeds]
    other = evaluate(lambda observations: np.ones(n, int), vec, 7, seed=5, common_random_numbers=True)
    # paired: the difference is 10 for every step, and the noise is gone
    assert other.returns - found.returns == pytest.approx(10.0 * found.lengths)


def test_a_seed_repeats_an_evaluation_and_none_goes_on() -> None:
    vec = sekai.SyncVecEnv([Drawing] * 2)
    first = evaluate(zeros(2), vec, 6, seed=3)
    again = evaluate(zeros(2), vec, 6, seed=3)
    assert (first.returns.tolist(), first.interval) == (again.returns.tolist(), again.interval)
    assert evaluate(zeros(2), vec, 6).returns.tolist() != first.returns.tolist()


@pytest.mark.parametrize("lost", [2, 3])  # the row of the second step, or that of the last
def test_an_episode_that_lost_a_row_is_played_again(lost: int) -> None:
    vec, seen = coded((3, 3)), []

    def policy(observations: Any) -> Any:
        seen.append(observations[1].tolist())
        if len(seen) == lost:
            vec.lose_rows(np.array([False, True]))
        return (observations[:, 1] > 0).astype(int)

    found = evaluate(policy, vec, 2)
    # in slot 1 a whole later episode counts, in which the action is 1
    assert (found.returns.tolist(), found.lengths.tolist()) == ([60.0, 63.0], [3, 3])
    episode = seen[-1][1]
    assert episode > 0 and seen[-3:] == [[1, episode, t] for t in range(3)]
    assert seen[:-3] == [[1, 0, t] for t in range(lost)]


def test_the_interval_is_the_bootstrap_s_of_the_returns() -> None:
    found = evaluate(zeros(2), coded((1, 9)), 40, confidence=0.9)
    low, high = found.interval
    # 20 of 10 and 20 of 450: the standard error is 220 / sqrt(40) = 34.8, and 1.645 of them are 57.2
    assert found.confidence == 0.9
    assert (low, high) == (pytest.approx(230 - 57.2, abs=5.0), pytest.approx(230 + 57.2, abs=5.0))
    assert np.isnan(evaluate(zeros(1), coded((2,)), 1).interval).all()


def test_what_cannot_be_evaluated_is_refused_before_anything_moves() -> None:
    vec = coded((2, 2))
    with pytest.raises(TypeError, match=re.escape("evaluate takes a sekai.VecEnv; given <CodedEnv")):
        evaluate(zeros(1), CodedEnv(), 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError) as no_policy:
        evaluate(3, vec, 1)
    assert str(no_policy.value) == (
        "The policy is 3; expected a function of observations, or an object with initial_state(num_slots) and "
        "act(observations, state, episode_start)."
    )
    with pytest.raises(TypeError, match=re.escape("has act and no initial_state; a policy with memory needs")):
        evaluate(SimpleNamespace(act=len), vec, 1)
    with pytest.raises(ValueError, match=re.escape("common_random_numbers needs a seed: give both policies the same")):
        evaluate(zeros(2), vec, 1, common_random_numbers=True)
    with pytest.raises(ValueError) as native:
        evaluate(zeros(2), vec, 1, seed=0, common_random_numbers=True)
    assert str(native.value) == (
        "The slots of CodedVecEnv(num_envs=2) share one stream of random numbers, so episodes have no seeds of their "
        "own: for common_random_numbers use vectorization_mode='sync' or 'proc'."
    )
    with pytest.raises(ValueError, match=re.escape("confidence is 95; expected a number between 0 and 1")):
        evaluate(zeros(2), vec, 1, confidence=95)
    for episodes in (0, -1):
        with pytest.raises(ValueError, match="episodes"):
            evaluate(zeros(2), vec, episodes)
    assert vec.episode.tolist() == [-1, -1]


def test_state_without_an_axis_of_slots_is_named() -> None:
    class Wrong(Recall):
        def initial_state(self, num_slots: int) -> Any:
            return np.zeros((1, 3))

        def act(self, observations: Any, state: Any, episode_start: Any) -> Any:
            return SimpleNamespace(actions=np.zeros(2, int), state=state)

    with pytest.raises(ValueError, match=re.escape("initial_state returned a state of shape (1, 3); expected arrays")):
        evaluate(Wrong(), coded((2, 3)), 4)
