"""What every row is, on every backend and in every mode, against a model of one slot written out here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from tests.contract.envs import (
    ACTIONS,
    BACKENDS,
    MODES,
    OBJECTS,
    SPACE,
    Coded,
    build,
    build_from,
    draws,
    factory,
    places,
)

LENGTHS = (1, 2, 3, 5)
ENDINGS = ("terminated", "truncated", "both", "terminated")


def expected_row(mode: str, length: int, ending: str, call: int) -> dict[str, Any]:
    """The row of call `call` (from 1) of a slot whose episodes all have `length` steps, from the specification alone.

    A cycle of calls is `length` long, one longer under next_step; under disabled nothing follows the first episode.
    """
    cycle = {"same_step": length, "next_step": length + 1, "disabled": 10**9}[mode]
    episode, t = divmod(call - 1, cycle)
    t += 1
    ends = t == length
    terminated, truncated = ending != "truncated", ending != "terminated"
    row = {"place": (episode, t), "paid": t, "flags": (False, False), "kind": RowKind.STEP, "ended": ends}
    if ends:
        row["flags"] = (terminated, truncated)
        row["kind"] = RowKind.TERMINATED if terminated else RowKind.TRUNCATED
        if mode == "same_step":
            row["place"] = (episode + 1, 0)
    elif t > length and mode == "next_step":
        row |= {"place": (episode + 1, 0), "paid": None, "kind": RowKind.RESET}
    elif t > length:
        row |= {"place": (0, length), "paid": None, "flags": (terminated, truncated), "kind": RowKind.FROZEN}
    return row


def test_the_model_itself_on_a_slot_of_two_steps() -> None:
    kinds = {mode: [int(expected_row(mode, 2, "terminated", call)["kind"]) for call in range(1, 6)] for mode in MODES}
    # STEP 0, TERMINATED 1, RESET 3, FROZEN 4
    assert kinds == {"same_step": [0, 1, 0, 1, 0], "next_step": [0, 1, 3, 0, 1], "disabled": [0, 1, 4, 4, 4]}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_row_of_thirteen_calls_is_what_the_model_says(backend: str, mode: str) -> None:
    # U2: sync, process and native environments end in the same call, with the same terminal row
    actions = np.random.default_rng(3).integers(0, 5, size=(13, 4))
    with build(backend, mode, LENGTHS, ENDINGS) as vec:
        first = vec.reset(seed=0)
        assert places(first.observations) == [(slot, 0, 0) for slot in range(4)]
        for call, action in enumerate(actions, 1):
            result = vec.step(action)
            for slot, (length, ending) in enumerate(zip(LENGTHS, ENDINGS, strict=True)):
                row = expected_row(mode, length, ending, call)
                paid = row["paid"]
                assert places(result.observations)[slot] == (slot, *row["place"]), (call, slot)
                assert result.rewards[slot] == (0.0 if paid is None else 100 * slot + 10 * paid + action[slot])
                assert (result.terminated[slot], result.truncated[slot]) == row["flags"], (call, slot)
                assert result.dones[slot] == any(row["flags"])
                assert result.kind[slot] == row["kind"], (call, slot)
                assert result.ended[slot] == row["ended"], (call, slot)
                assert result.valid[slot] == (paid is not None)
                if row["ended"]:
                    episode = row["place"][0] - (mode == "same_step")
                    assert places([result.final_observation(slot)]) == [(slot, episode, length)]
                    assert result.final_info(slot)["t"] == length


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_results_have_the_dtypes_they_promise(backend: str, mode: str) -> None:
    with build(backend, mode, (1, 2)) as vec:
        vec.reset(seed=0)
        for _ in range(3):
            result = vec.step([0, 0])
            assert result.rewards.dtype == np.float64 and result.kind.dtype == np.int8
            assert {a.dtype for a in (result.terminated, result.truncated, result.valid, result.ended)} == {
                np.dtype(bool)
            }
            assert {a.shape for a in result[1:4]} | {result.kind.shape, result.ended.shape} == {(2,)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_terminal_data_are_the_same_in_every_mode_and_raise_elsewhere(backend: str) -> None:
    # U1: one accessor; a key of another library is no key here
    finals = []
    for mode in MODES:
        with build(backend, mode, (3, 9)) as vec:
            vec.reset(seed=4)
            for _ in range(3):
                result = vec.step([2, 2])
            finals.append((result.final_observation(0).tolist(), result.final_info(0)["t"]))
            with pytest.raises(LookupError, match=r"^No episode of sub-env 1 ended in this call \(ended: \[0\]\)"):
                result.final_observation(1)
            with pytest.raises(LookupError, match="No episode of sub-env 1 ended"):
                result.final_info(1)
            assert not {"final_obs", "_final_obs", "terminal_observation"} & result.infos[0].keys()
            assert ("final_observation" in result.infos[0]) == (mode == "same_step")
    assert finals[0] == finals[1] == finals[2] and finals[0][0][:3] == [0, 0, 3]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", OBJECTS)
def test_terminal_data_are_snapshots_though_buffers_and_nested_dicts_are_reused(backend: str, mode: str) -> None:
    # U3: `Coded` has one observation array, one info dict and one dict inside it
    with build(backend, mode, (2, 3)) as vec:
        first = vec.reset(seed=0)
        results = [vec.step([0, 0]) for _ in range(5)]
        assert first.infos[0] == {"deep": {"t": 0}, "t": 0}
        assert results[0].infos[0] == {"deep": {"t": 1}, "t": 1}
        assert results[1].final_info(0) == {"deep": {"t": 2}, "t": 2}
        assert results[2].final_info(1) == {"deep": {"t": 3}, "t": 3}
        assert places([results[1].final_observation(0)]) == [(0, 0, 2)]
        if mode == "same_step":
            assert results[1].infos[0]["reset_info"] == {"deep": {"t": 0}, "t": 0}
        # and what the caller does to a result reaches neither the environment nor a later result
        results[4].observations[:] = -1
        results[4].infos[0].clear()
        assert (vec.step([0, 0]).observations >= 0).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_truncation_at_four_has_its_final_observation(backend: str, mode: str) -> None:
    # U15
    with build(backend, mode, (4,), ("truncated",)) as vec:
        vec.reset(seed=0)
        steps = [places(vec.step([0]).observations)[0][2] for _ in range(3)]
        last = vec.step([0])
        assert steps == [1, 2, 3] and places([last.final_observation(0)]) == [(0, 0, 4)]
        assert places(last.observations) == [(0, 1, 0) if mode == "same_step" else (0, 0, 4)]
        assert last.truncated.tolist() == [True] and last.terminated.tolist() == [False]


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_fifty_episodes_start_in_fifty_states(backend: str, mode: str) -> None:
    # U14: an autoreset draws, it does not return the first state again
    with build(backend, mode, (1, 1)) as vec:
        starts = [draws(vec.reset(seed=0).observations)]
        while len(starts) < 50:
            result = vec.step([0, 0])
            if places(result.observations)[0][2] == 0:
                starts.append(draws(result.observations))
    assert len({draw for row in starts for draw in row}) == 100


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_slot_ending_leaves_the_others_alone(backend: str) -> None:
    # U10: lengths 4 and 6; 12 steps are 3 episodes and 2
    with build(backend, "same_step", (4, 6)) as vec:
        vec.reset(seed=0)
        ended = sum(vec.step([0, 0]).ended.astype(int) for _ in range(12))
        assert ended.tolist() == [3, 2]


class Paid(Coded):
    """`Coded` that pays whatever it is told to."""

    def __init__(self, slot: int, length: int, reward: Any) -> None:
        super().__init__(slot, length)
        self.reward = reward

    def step(self, action: Any) -> Any:
        return super().step(action)._replace(reward=self.reward)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", OBJECTS)
def test_rewards_of_one_number_are_floats_whatever_their_shape(backend: str, mode: str) -> None:
    # U44: lengths 2 and 3, four steps
    paid = [np.ones(1), np.array(1.0), np.float32(1), np.int64(1), 1, True, np.array([True])]
    fns = [factory(Paid, slot, 2 + slot % 2, reward) for slot, reward in enumerate(paid)]
    with build_from(fns, backend, mode) as vec:
        vec.reset(seed=0)
        for _ in range(4):
            result = vec.step([0] * len(paid))
            assert result.rewards.dtype == np.float64 and result.rewards.tolist() == result.valid.astype(float).tolist()
        assert result.valid.all() == (mode == "same_step")


@pytest.mark.parametrize("backend", ["sync", "async", "grouped"])
@pytest.mark.parametrize("reward", [np.ones(2), "much", None, [1.0, 2.0], np.ones((1, 1))])
def test_other_rewards_are_refused_with_the_slot_and_the_shape(backend: str, reward: Any) -> None:
    with build_from([factory(Paid, 0, 2, 1.0), factory(Paid, 1, 3, reward)], backend) as vec:
        vec.reset(seed=0)
        with pytest.raises((sekai.InvalidObservation, sekai.VecEnvWorkerError)) as caught:
            vec.step([0, 0])
        assert f"sub-env 1 returned the reward {reward!r} (shape {np.shape(reward)}); expected one number." in str(
            caught.value
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", OBJECTS)
def test_a_sub_env_that_resets_itself_is_same_step_in_every_mode(backend: str, mode: str) -> None:
    with build(backend, mode, (2, 3), ("terminated", "truncated"), wrap=sekai.AutoReset) as vec:
        vec.reset(seed=0)
        for call in range(1, 8):
            result = vec.step([1, 1])
            for slot, (length, ending) in enumerate(((2, "terminated"), (3, "truncated"))):
                row = expected_row("same_step", length, ending, call)
                assert places(result.observations)[slot] == (slot, *row["place"])
                assert result.kind[slot] == row["kind"] and result.valid[slot]
                assert result.ended[slot] == row["ended"]
                if row["ended"]:
                    assert places([result.final_observation(slot)])[0] == (slot, row["place"][0] - 1, length)
                    assert result.final_info(slot)["t"] == length and result.infos[slot]["reset_info"]["t"] == 0
        # the number of resets is the number of episodes: nobody reset it twice
        assert vec.get_attr("episode") == [3, 2]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_one_slot_works(backend: str, mode: str) -> None:
    with build(backend, mode, (2,)) as vec:
        assert len(vec) == 1 and vec.batch_observation_space.shape == (1, 4)
        assert places(vec.reset(seed=0).observations) == [(0, 0, 0)]
        assert [vec.step([1]).rewards.tolist() for _ in range(2)] == [[11.0], [21.0]]


class Odd(sekai.Env):
    """Returns its observations as told."""

    def __init__(self, give: Any, dtype: Any = np.float32) -> None:
        self.give = give
        self.observation_space = sekai.Box(0 if np.dtype(dtype).kind == "u" else -10, 10, (2,), dtype)
        self.action_space = ACTIONS

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        return sekai.ResetResult(np.zeros(2, self.observation_space.dtype), {})

    def step(self, action: Any) -> sekai.StepResult:
        return sekai.StepResult(self.give, 0.0, False, False, {})


@pytest.mark.parametrize("backend", ["sync", "async", "grouped"])
def test_odd_observations_come_in_the_dtype_of_the_space(backend: str) -> None:
    given = [np.array([1.5, 2.5]), [1, 2], (1.0, 2.0), np.array([3, 4], np.int8), np.array([np.nan, 1.0])]
    given.append(np.arange(8.0).reshape(2, 4)[:, 1])  # not contiguous
    given.append(np.array([1.0, 2.0], np.float32))
    given[-1].flags.writeable = False
    with build_from([factory(Odd, give) for give in given], backend) as vec:
        vec.reset(seed=0)
        result = vec.step([0] * 7)
        assert result.observations.dtype == np.float32
        expected = np.array([[1.5, 2.5], [1, 2], [1, 2], [3, 4], [np.nan, 1], [1, 5], [1, 2]], np.float32)
        assert np.array_equal(result.observations, expected, equal_nan=True)


@pytest.mark.parametrize("backend", ["sync", "async", "grouped"])
@pytest.mark.parametrize(
    ("give", "dtype", "text"),
    [
        (np.zeros(3), np.float32, "shape (3,)"),
        (np.zeros((1, 2)), np.float32, "shape (1, 2)"),
        (1.0, np.float32, "shape ()"),  # nothing is broadcast
        (np.array([1.5, 2.5]), np.int64, "dtype float64"),
        ([300, 0], np.uint8, "300"),
        (None, np.float32, "dtype object"),
        ([[1], [1, 2]], np.float32, "no regular array"),
    ],
)
def test_observations_that_do_not_fit_name_the_slot(backend: str, give: Any, dtype: Any, text: str) -> None:
    with build_from([factory(Odd, np.zeros(2, dtype), dtype), factory(Odd, give, dtype)], backend) as vec:
        vec.reset(seed=0)
        with pytest.raises((sekai.InvalidObservation, sekai.VecEnvWorkerError)) as caught:
            vec.step([0, 0])
        assert "sub-env 1: observation must" in str(caught.value) and text in str(caught.value)


class LateInfo(Odd):
    """Its info gains a key at the second step, whose type changes at the third."""

    def reset(self, **kwargs: Any) -> sekai.ResetResult:
        self.t = 0
        return super().reset(**kwargs)

    def step(self, action: Any) -> sekai.StepResult:
        self.t += 1
        infos: list[dict[str, Any]] = [{}, {"late": 1}, {"late": "one"}, {"late": np.ones(2)}, {"late": None}]
        return super().step(action)._replace(info=infos[self.t - 1])


@pytest.mark.parametrize("backend", OBJECTS)
def test_info_keys_may_appear_late_and_change_type(backend: str) -> None:
    with build_from([factory(LateInfo, np.zeros(2, np.float32))] * 2, backend, "next_step") as vec:
        vec.reset(seed=0)
        results = [vec.step([0, 0]) for _ in range(5)]
    assert [[*r.infos[1]] for r in results] == [[], ["late"], ["late"], ["late"], ["late"]]
    assert [r.infos[1].get("late") for r in results[:3]] == [None, 1, "one"]
    assert results[3].infos.columns["late"][0].tolist() == [[1.0, 1.0]] * 2
    assert results[4].infos.columns["late"][0].tolist() == [None, None] and "late" not in results[0].infos.columns


def test_the_space_of_the_tests_is_float64() -> None:
    assert SPACE.dtype == np.float64, "draws up to 10**12 must survive the batch exactly"
