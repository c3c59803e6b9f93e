"""`step_into`: a native environment writes its observations into the caller's arrays, and only in that call."""

from __future__ import annotations

from threading import Event, Thread, current_thread
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.spaces import map_arrays
from sekai.testing import CodedEnv, CodedVecEnv
from tests.contract.envs import MODES

#: few steps, so that episodes end; the slots of an execution end together, so a time limit is enough
NATIVE = {
    "Trading-v0": {"episode_length": 3, "lookback": 4, "ruin_fraction": 0.99},
    "Portfolio-v0": {"episode_length": 3, "lookback": 4, "ruin_fraction": 0.99},
    "OptimalExecution-v0": {"n_steps": 3},
    "MarketMaking-v0": {"n_steps": 3},
}


class Rowwise(CodedVecEnv):
    """Writes the observations of slots that were reset into the batch."""

    def _observe_rows(self, indices: Any, out: Any) -> None:
        out[indices] = self._observe()[indices]


def make(name: str, mode: str) -> sekai.VecEnv:
    if name in NATIVE:
        return sekai.make_vec(name, 3, vector_kwargs={"autoreset": mode}, **NATIVE[name])
    cls = {"coded": CodedVecEnv, "rowwise": Rowwise}[name]
    return cls(3, [2, 3, 2], ending=["terminated", "truncated", "both"], autoreset=mode)


def batch_of(vec: sekai.VecEnv) -> Any:
    """A batch to be written into that holds what no observation is."""
    return map_arrays(lambda array: np.full_like(array, 77), vec.batch_observation_space.sample())


def assert_equal(one: Any, other: Any) -> None:
    map_arrays(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*NATIVE, "coded", "rowwise"])
def test_the_batch_holds_what_step_returns(name: str, mode: str) -> None:
    plain, into = make(name, mode), make(name, mode)
    for vec in (plain, into):
        vec.reset(seed=3)
        vec.batch_action_space.seed(3)
    for call in range(9):
        expected, batch = plain.step(plain.batch_action_space.sample()), batch_of(into)
        result = into.step_into(into.batch_action_space.sample(), batch)
        assert_equal(result.observations, expected.observations)
        assert result.kind.tolist() == expected.kind.tolist()
        for slot in np.flatnonzero(expected.ended).tolist():
            assert_equal(result.final_observation(slot), expected.final_observation(slot))
        # frozen slots are put together in a batch of their own; without _observe_rows a restart observes anew
        restarted = expected.begun.any() or (expected.kind == sekai.RowKind.RESET).any()
        elsewhere = (expected.kind == sekai.RowKind.FROZEN).any() or (name == "coded" and restarted)
        assert (result.observations is batch) == (not elsewhere)
        if mode == "disabled" and expected.dones.any() and call % 2:
            assert_equal(into.reset(mask=expected.dones).observations, plain.reset(mask=expected.dones).observations)
            assert_equal(into.reset(mask=np.zeros(3, bool)).observations, plain.reset(mask=np.zeros(3, bool))[0])


@pytest.mark.parametrize("name", ["Trading-v0", "Portfolio-v0", "coded"])
def test_the_batch_is_written_to_in_that_call_only(name: str) -> None:
    vec = make(name, "same_step")
    vec.reset(seed=0)
    actions = vec.batch_action_space.sample()
    batch = batch_of(vec)
    assert vec.step_into(actions, batch).observations is batch
    kept = map_arrays(np.copy, batch)
    for _ in range(3):
        for seen in (vec.step(actions).observations, vec.reset().observations):
            map_arrays(lambda one, other: None if not np.shares_memory(one, other) else pytest.fail(), seen, batch)
    assert_equal(batch, kept)


@pytest.mark.parametrize("name", ["Trading-v0", "Portfolio-v0"])
def test_a_refused_call_leaves_the_batch_to_nobody(name: str) -> None:
    vec = make(name, "same_step")
    vec.reset(seed=0)
    actions, batch = vec.batch_action_space.sample(), batch_of(vec)
    kept = map_arrays(np.copy, batch)
    with pytest.raises(sekai.InvalidAction):
        vec.step_into([99, 99], batch)
    assert vec.step(actions).observations is not batch
    assert_equal(batch, kept)


def test_a_call_that_a_subclass_refuses_before_it_begins_leaves_the_batch_to_nobody() -> None:
    class Refusing(CodedVecEnv):
        refuses = True

        def step(self, actions: Any) -> Any:
            if self.refuses:
                raise RuntimeError("not now")
            return super().step(actions)

    vec = Refusing(2)
    vec.reset()
    batch = batch_of(vec)
    with pytest.raises(RuntimeError, match="not now"):
        vec.step_into([0, 0], batch)
    vec.refuses = False
    assert vec.step([0, 0]).observations.tolist() == [[0, 0, 1], [1, 0, 1]]
    assert (batch == 77).all()


def test_what_a_subclass_has_put_around_a_step_is_not_left_out() -> None:
    class Twice(CodedVecEnv):
        def step(self, actions: Any) -> Any:
            first, second = super().step(actions), super().step(actions)
            return first.replace(infos=second.infos)

    vec = Twice(1, 9)
    vec.reset()
    batch = np.full((1, 3), 77.0)
    assert vec.step_into([0], batch).observations.tolist() == [[0, 0, 1]] and (batch == 77).all()
    assert vec.step([0]).observations.tolist() == [[0, 0, 3]]  # the call before took two steps


def test_a_call_in_progress_does_not_take_the_batch_of_one_that_is_refused() -> None:
    batch, refused = np.full((2, 3), 77.0), []

    class Overrun(CodedVecEnv):
        def _step(self, actions: Any) -> Any:
            thread = Thread(target=self._call_from_elsewhere)
            thread.start()
            thread.join()
            return super()._step(actions)

        def _call_from_elsewhere(self) -> None:
            with pytest.raises(sekai.VecEnvBusy):
                self.step_into([0, 0], batch)
            refused.append(True)

    vec = Overrun(2)
    vec.reset()
    assert vec.step([0, 0]).observations is not batch and refused == [True]
    assert (batch == 77).all()


def test_a_call_does_not_take_the_batch_that_another_thread_is_about_to_step_into() -> None:
    entered, go_on = Event(), Event()

    class Waiting(CodedVecEnv):
        def _check_actions(self, actions: Any) -> None:
            if current_thread() is other:
                entered.set()
                go_on.wait()

    vec = Waiting(2)
    vec.reset()
    batch = np.full((2, 3), 77.0)
    other = Thread(target=vec.step_into, args=([0, 0], batch))
    other.start()
    entered.wait()
    try:
        with pytest.raises(sekai.VecEnvBusy):
            vec.step([0, 0])
    finally:
        go_on.set()
        other.join()
    assert batch.tolist() == [[0, 0, 1], [1, 0, 1]], "that of the other thread, its only step"


@pytest.mark.parametrize("name", list(NATIVE))
def test_observations_of_an_interrupted_call_are_not_handed_out_in_the_callers_arrays(name: str) -> None:
    vec: Any = make(name, "same_step")
    vec.reset(seed=0)
    actions, batch = vec.batch_action_space.sample(), batch_of(vec)
    vec._count_steps = interrupted
    with pytest.raises(KeyboardInterrupt):
        vec.step_into(actions, batch)
    del vec._count_steps
    shown = vec.reset(mask=np.zeros(3, bool)).observations
    assert_equal(shown, batch)  # the state that the call came to
    map_arrays(lambda one, other: None if not np.shares_memory(one, other) else pytest.fail(), shown, batch)


def interrupted(*_: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "change",
    [
        lambda array: array[:2],
        lambda array: array.astype(np.float64),
        lambda array: np.asfortranarray(array),
        lambda array: np.concatenate([array, array])[::2],
        lambda array: np.broadcast_to(array[:1], array.shape),
        lambda array: array.tolist(),
        lambda array: None,
    ],
)
@pytest.mark.parametrize("name", ["Trading-v0", "Portfolio-v0"])
def test_a_batch_that_a_kernel_could_not_write_into_is_refused(name: str, change: Any) -> None:
    vec = make(name, "same_step")
    vec.reset(seed=0)
    batch = batch_of(vec)
    bad = {**batch, "returns": change(batch["returns"])} if isinstance(batch, dict) else change(batch)
    with pytest.raises(ValueError, match="cannot write into the batch it was given; expected arrays that are writable"):
        vec.step_into(vec.batch_action_space.sample(), bad)
    assert not vec.lost_rows.any(), "nothing has moved"
    if isinstance(batch, dict):
        for wrong in ({"returns": batch["returns"]}, tuple(batch.values()), batch["returns"]):
            with pytest.raises(ValueError, match="cannot write into the batch"):
                vec.step_into(vec.batch_action_space.sample(), wrong)


def test_a_batch_of_tuples_is_looked_at_part_by_part() -> None:
    class Pairs(CodedVecEnv):
        def __init__(self) -> None:
            super().__init__(2)
            self.observation_space = sekai.Tuple([sekai.Discrete(9), sekai.Box(0, 9, (2,))])

        def _observe(self) -> Any:
            first, second = self._new_observations()
            first[:], second[:] = self.t, self.t[:, None] + 0.5
            return first, second

    vec = Pairs()
    vec.reset()
    good = np.zeros(2, np.int64), np.zeros((2, 2), np.float32)
    first, second = vec.step_into([0, 0], good).observations
    assert first is good[0] and second.tolist() == [[1.5, 1.5], [1.5, 1.5]] and good[1] is second
    for wrong in (list(good), good[:1], good[::-1]):
        with pytest.raises(ValueError, match="cannot write into the batch"):
            vec.step_into([0, 0], wrong)


def test_others_return_arrays_of_their_own() -> None:
    backends = [
        sekai.SyncVecEnv([lambda: CodedEnv(0, 3), lambda: CodedEnv(1, 3)]),
        sekai.VecTransformReward(CodedVecEnv(2, 3), lambda rewards: 2 * rewards),
    ]
    for vec in backends:
        vec.reset()
        batch = np.full((2, 3), 77.0)
        result = vec.step_into([0, 0], batch)
        assert result.observations is not batch and (batch == 77).all()
        assert result.observations.tolist() == [[0, 0, 1], [1, 0, 1]]
