"""Fragments are copies, keep what they have, and give their memory back."""

from __future__ import annotations

import copy
import gc
import pickle
import tracemalloc
from typing import Any

import gymnasium
import numpy as np
import pytest

import sekai
from sekai.collect import Collector
from sekai.collect.buffers import Pool
from sekai.testing import CodedEnv, CodedVecEnv
from tests.collect.envs import CodedPolicy
from tests.collect.test_timelines import column, zeros


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


@pytest.mark.parametrize("share", [False, True])
def test_a_kept_fragment_never_changes(share: bool) -> None:
    collector = Collector(
        CodedVecEnv(2, 5), CodedPolicy(), fragment_length=4, values=True, infos=["t"], share_observations=share
    )
    kept = collector.collect()
    before = pickle.dumps((kept.observations, kept.kind, kept.next_values, kept.state, kept.episode_id, kept.infos))
    for _ in range(4):
        collector.collect()
    after = pickle.dumps((kept.observations, kept.kind, kept.next_values, kept.state, kept.episode_id, kept.infos))
    assert before == after


def test_one_array_or_view_that_is_kept_never_changes_either() -> None:
    collector = Collector(CodedVecEnv(2, 5), zeros, fragment_length=4)
    views = []
    for _ in range(3):
        fragment = collector.collect()
        views.append((fragment.rewards[1:, :1], fragment.rewards[1:, :1].copy()))
        fragment.release()
        del fragment
    for view, then in views:
        assert view.tolist() == then.tolist()


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("release", [True, False])
def test_memory_of_a_fragment_that_is_gone_serves_a_later_one(release: bool, share: bool) -> None:
    collector = Collector(CodedVecEnv(2, 5), zeros, fragment_length=4, share_observations=share)
    used = set()
    for _ in range(6):
        fragment = collector.collect()
        used.add(address(fragment.observations))
        if release:
            fragment.release()
    assert len(used) == (1 if release else 2), "a loop that holds one until it has the next needs two"


def test_a_released_fragment_says_so() -> None:
    fragment = Collector(CodedVecEnv(2, 5), zeros, fragment_length=4).collect()
    assert repr(fragment) == "Fragment(4 x 2, 8 transitions)"
    fragment.release()
    with pytest.raises(RuntimeError, match="The fragment was released, and its rewards with it"):
        _ = fragment.rewards
    with pytest.raises(RuntimeError, match="its kind with it"):
        _ = fragment.valid
    with pytest.raises(AttributeError, match="Fragment has no 'reward'"):
        _ = fragment.reward
    assert repr(fragment) == "Fragment(released)"


def test_a_fragment_can_be_copied_and_pickled() -> None:
    fragment = Collector(CodedVecEnv(2, 3), CodedPolicy(), fragment_length=4).collect()
    for twin in (pickle.loads(pickle.dumps(fragment)), copy.deepcopy(fragment)):
        np.testing.assert_array_equal(twin.next_observations(), fragment.next_observations())
        assert twin.episode_id.tolist() == fragment.episode_id.tolist()


def overwrites(observations: Any) -> Any:
    observations[:] = -1
    return zeros(observations)


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
@pytest.mark.parametrize("backend", ["native", "sync"])
def test_a_policy_may_write_to_arrays_of_its_own(backend: str, mode: Any) -> None:
    share: dict[str, Any] = {}
    vec: sekai.VecEnv = sekai.SyncVecEnv([lambda: CodedEnv(0, 2)], autoreset=mode)
    if backend == "native":
        vec, share = CodedVecEnv(1, 2, autoreset=mode), {"share_observations": False}
    fragment = Collector(vec, overwrites, fragment_length=5, **share).collect()
    assert (fragment.observations >= 0).all() and (fragment.next_observations() >= 0).all()


def test_over_a_native_environment_rows_are_shared_and_a_policy_that_writes_is_told_what_to_do() -> None:
    collector = Collector(CodedVecEnv(1, 2), overwrites, fragment_length=5)
    with pytest.raises(ValueError, match="read-only") as found:
        collector.collect()
    assert found.value.__notes__ == [
        "The policy acts on the rows of the fragment: copy them, or share_observations=False."
    ]


@pytest.mark.parametrize("share", [False, True])
def test_a_large_fragment_costs_its_own_size_and_little_more(share: bool) -> None:
    shape = (30, 5)

    class Wide(sekai.NativeVecEnv):
        """Ends its episodes at random."""

        def __init__(self) -> None:
            super().__init__(256, sekai.Box(-1, 1, shape, np.float32), sekai.Discrete(2))

        def _reset_envs(self, indices: Any, options: Any) -> None: ...

        def _observe(self) -> Any:
            observations = self._new_observations()
            observations[:] = 1
            return observations

        def _step(self, actions: Any) -> Any:
            return np.zeros(256), self.rng.random(256) < 0.01, np.zeros(256, bool), {}

    collector = Collector(Wide(), lambda o: np.zeros(256, np.int64), fragment_length=64, share_observations=share)
    collector.collect()  # what is made once
    gc.collect()
    tracemalloc.start()
    try:
        kept = [collector.collect()]
        before = tracemalloc.get_traced_memory()[0]
        kept.append(collector.collect())
        grown = tracemalloc.get_traced_memory()[0] - before
        size = 64 * 256 * 150 * 4
        assert size <= grown <= 1.12 * size
        for _ in range(5):
            kept[-1] = collector.collect()
        assert tracemalloc.get_traced_memory()[0] - before <= 2.2 * size, "the one that is kept, and one that is spare"
    finally:
        tracemalloc.stop()


def test_only_so_many_sets_of_arrays_are_spare() -> None:
    pool = Pool(spare=1)
    loans = [pool.lend() for _ in range(3)]
    arrays = [loan.array("x", (2,), float) for loan in loans]
    places = [address(array) for array in arrays]
    del loans, arrays
    assert len(pool) == 1
    again = [pool.lend().array("x", (2,), float) for _ in range(2)]
    assert address(again[0]) in places
    loan = pool.lend()
    array = loan.array("x", (2,), float)
    assert loan.array("x", (3,), float).shape == (3,) and array.shape == (2,)


class Structured(sekai.Env[Any, Any]):
    """Observations and actions of every structure: dicts, tuples, scalars, text of any length."""

    observation_space = sekai.Dict(
        {
            "place": sekai.Box(0, 99, (2,), np.float32),
            "pair": sekai.Tuple([sekai.Discrete(99), sekai.MultiBinary(2)]),
            "name": gymnasium.spaces.Text(9),
        }
    )
    action_space = sekai.Dict({"go": sekai.Discrete(3), "far": sekai.Tuple([sekai.Box(-1, 1, (2,), np.float32)])})

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self.t = 0
        return sekai.ResetResult(self._observation(), {})

    def _observation(self) -> Any:
        return {
            "place": np.full(2, self.t, np.float32),
            "pair": (self.t, np.array([self.t % 2, 1], np.int8)),
            "name": "n" * (self.t + 1),
        }

    def step(self, action: Any) -> sekai.StepResult:
        self.t += 1
        when = np.datetime64("2020-01-01") + self.t
        return sekai.StepResult(
            self._observation(), float(action["go"] + action["far"][0][1]), False, self.t == 2, {"when": when}
        )


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
@pytest.mark.parametrize("listed", [True, False])
def test_spaces_of_every_structure(mode: str, listed: bool) -> None:
    vec = sekai.SyncVecEnv([Structured, Structured], autoreset=mode)

    def policy(observations: Any) -> Any:
        if listed:
            return [{"go": i, "far": (np.array([0, 0.5], np.float32),)} for i in range(2)]
        return {"go": np.arange(2), "far": (np.array([[0, 0.5]] * 2, np.float32),)}

    fragment = Collector(vec, policy, fragment_length=5, infos=["when"]).collect()
    rows = fragment.valid[:, 1]
    steps = fragment.observations["pair"][0][rows, 1]
    assert steps.tolist()[:4] == [0, 1, 0, 1] and fragment.actions["far"][0].shape == (5, 2, 1 + 1)
    assert fragment.observations["name"][rows, 1].tolist() == ["n" * (t + 1) for t in steps]
    successors = fragment.next_observations()
    assert successors["pair"][0][rows, 1].tolist() == (steps + 1).tolist()
    assert successors["name"][rows, 1].tolist() == ["n" * (t + 2) for t in steps]
    assert fragment.rewards[rows, 1].tolist() == [1.5] * len(steps)
    assert fragment.infos["when"][rows, 1].tolist() == (np.datetime64("2020-01-01") + steps + 1).tolist()
    sequences = fragment.sequences(2, successors=True)
    assert sequences.next_observations["place"].shape[1:] == (2, 2)
    assert sequences.observations["name"][0].tolist() == ["n", "nn"]


def test_info_values_that_were_whole_numbers_at_first_become_floats() -> None:
    class Halves(Structured):
        def step(self, action: Any) -> sekai.StepResult:
            return super().step(action)._replace(info={"x": 1 if self.t == 1 else 0.5})

    vec = sekai.SyncVecEnv([Halves])
    policy = lambda o: [{"go": 0, "far": (np.zeros(2, np.float32),)}]  # noqa: E731
    collector = Collector(vec, policy, fragment_length=2, infos=["x"])
    for _ in range(2):
        fragment = collector.collect()
        assert column(fragment.infos["x"]) == [1, 0.5] and fragment.infos["x"].dtype == np.float64


def test_iterating_gives_fragment_after_fragment_and_time_is_split() -> None:
    collector = Collector(CodedVecEnv(1, 5), zeros, fragment_length=2)
    for number, fragment in enumerate(collector):
        assert len(fragment) == 2 and fragment.num_slots == 1
        if number == 2:
            break
    counters = collector.counters
    assert (counters.fragments, counters.calls, counters.rows) == (3, 6, 6)
    assert counters.environment_seconds > 0 and counters.policy_seconds > 0 and counters.waiting_seconds == 0
