"""Bases of the vector wrappers: terminal, frozen and reset-only rows, masks, spaces, and the async path."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from tests.contract.envs import BACKENDS, BOOM, IN_PROCESS, MODES, Coded, build, build_from, factory, places


class Tenfold(sekai.VecObservationWrapper):
    """Ordinary rows times 10, terminal rows times -10, so that the row says which way it went."""

    def __init__(self, venv: sekai.VecEnv) -> None:
        super().__init__(venv)
        self.batches: list[Any] = []
        self.finals: list[tuple[int, int, int]] = []

    def observation(self, batch: Any) -> Any:
        self.batches.append(np.array(batch))
        return batch * 10

    def final_observation(self, obs: Any) -> Any:
        self.finals.extend(places([obs]))
        return obs * -10


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_terminal_rows_are_transformed_on_their_own_and_once(backend: str, mode: str) -> None:
    with Tenfold(build(backend, mode, (2, 3))) as vec:
        assert vec.reset(seed=0).observations[1, 0] == 10.0
        results = [vec.step([0, 0]) for _ in range(5)]
        ended = [(call, slot) for call, result in enumerate(results, 1) for slot in np.flatnonzero(result.ended)]
        assert len(vec.finals) == len(ended), "once for each episode that ended"
        for call, slot in ended:
            result = results[call - 1]
            final = result.final_observation(slot)
            assert final[2] == -10.0 * (2 + slot) and final[0] == -10.0 * slot
            if mode != "same_step":
                assert np.array_equal(result.observations[slot], final), "the row itself is the terminal row"
            else:
                assert result.observations[slot, 2] == 0.0 and result.observations[slot, 1] > 0
        if mode == "disabled":
            assert results[4].observations[:, 2].tolist() == [-20.0, -30.0], "frozen rows are repeated as they were"
        if mode == "next_step":
            # call 3 is slot 0's reset, call 4 its first step
            assert results[2].observations[0, 1:3].tolist() == [10.0, 0.0]
            assert results[3].observations[0, 2] == 10.0 and results[3].kind[1] == RowKind.RESET


@pytest.mark.parametrize("mode", MODES)
def test_a_sub_env_that_resets_itself_has_its_terminal_row_in_the_info_in_every_mode(mode: str) -> None:
    with Tenfold(build("sync", mode, (2,), wrap=sekai.AutoReset)) as vec:
        vec.reset(seed=0)
        vec.step([0])
        result = vec.step([0])
        assert places([result.final_observation(0)]) == [(0, 0, -20)] and places(result.observations) == [(0, 10, 0)]
        assert len(vec.finals) == 1
        assert places(vec.step([0]).observations) == [(0, 10, 10)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_partial_reset_transforms_the_new_rows_and_keeps_the_frozen_ones(backend: str) -> None:
    with Tenfold(build(backend, "disabled", (2, 2, 9))) as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        vec.step([0, 0, 0])
        again = vec.reset(mask=np.array([True, False, False]))
        assert places(again.observations) == [(0, 10, 0), (-10, 0, -20), (20, 0, 20)]
        assert again.dones.tolist() == [False, True, False]
        after = vec.step([0, 0, 0])
        assert places(after.observations) == [(0, 10, 10), (-10, 0, -20), (20, 0, 30)]
        assert len(vec.finals) == 2
        assert places(vec.reset().observations) == [(0, 20, 0), (10, 10, 0), (20, 10, 0)]


@pytest.mark.parametrize("backend", IN_PROCESS)
def test_a_failed_reset_does_not_bring_a_frozen_row_back(backend: str) -> None:
    if backend == "native":  # refuses as a whole: slot 0 stays frozen
        expected_rows, expected = (0, 0, -20), True
    else:
        expected_rows, expected = (0, 10, 0), False
    with Tenfold(build(backend, "disabled", (2, 9))) as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        vec.step([0, 0])
        with pytest.raises(ValueError, match="slot 1 cannot reset"):
            vec.reset(options=[None, {"fail": True}])
        again = vec.reset(mask=np.array([False, True]))
        assert places(again.observations)[0] == expected_rows and again.dones.tolist() == [expected, False]


@pytest.mark.parametrize("then", ["step", "reset"])
def test_a_row_frozen_in_a_lost_call_is_still_a_terminal_row_and_transformed_once(then: str) -> None:
    with Tenfold(build("sync", "disabled", (2, 9, 9))) as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        with pytest.raises(ValueError, match="went boom"):
            vec.step([0, BOOM, 0])  # slot 0 ends, unseen
        mask = np.array([False, True, False])
        shown = vec.step([0, 0, 0]) if then == "step" else vec.reset(mask=mask)
        assert places(shown.observations)[0] == (0, 0, -20) and shown.dones.tolist() == [True, False, False]
        for _ in range(3):
            assert places(vec.step([0, 0, 0]).observations)[0] == (0, 0, -20)
        assert vec.finals == [(0, 0, 2)]


def test_a_frozen_row_is_not_repeated_for_an_episode_that_began_in_a_failed_reset() -> None:
    answers = iter([None, None, None, RuntimeError("no answer yet")])

    def options(slot: int, episode: int) -> None:
        answer = next(answers, None)
        if answer is not None:
            raise answer

    with Tenfold(build("sync", "next_step", (1, 9), autoreset_options=options)) as vec:
        vec.reset(seed=0)
        vec.step([0, 0])  # slot 0 ends its episode 0
        with pytest.raises(RuntimeError, match="no answer yet"):
            vec.reset()  # asks for slot 0, then fails for slot 1: both are in episode 1
        with pytest.raises(ValueError, match="went boom"):
            vec.step([0, BOOM])  # slot 0 ends its episode 1, unseen
        again = vec.reset(mask=np.array([False, True]))
        assert places(again.observations) == [(0, -10, -10), (10, 20, 0)] and again.dones.tolist() == [True, False]


def test_a_transform_that_hands_on_what_it_was_given_does_not_change_the_inner_result() -> None:
    seen: list[Any] = []

    class Spy(sekai.VecWrapper):
        def after_step(self, result: Any) -> Any:
            seen.append(result.observations)
            return result

    class SameButLast(Tenfold):
        def observation(self, batch: Any) -> Any:
            return batch

    with SameButLast(Spy(build("sync", "disabled", (1, 9)))) as vec:
        vec.reset(seed=0)
        assert places(vec.step([0, 0]).observations) == [(0, 0, -10), (1, 0, 1)]
        assert places(seen[0]) == [(0, 0, 1), (1, 0, 1)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", ["sync", "native"])
def test_rewards_of_rows_that_are_no_transitions_are_left_alone(backend: str, mode: str) -> None:
    with sekai.VecTransformReward(build(backend, mode, (1, 2)), lambda rewards: rewards - 1000.0) as vec:
        vec.reset(seed=0)
        for _ in range(4):
            result = vec.step([0, 0])
            assert ((result.rewards < -500) == result.valid).all()
            assert (result.rewards[~result.valid] == 0.0).all()
        assert result.valid.all() == (mode == "same_step")


def test_lost_rows_keep_their_reward_too() -> None:
    with sekai.VecTransformReward(build("sync", "same_step", (9, 9)), lambda rewards: rewards - 1000.0) as vec:
        vec.reset(seed=0)
        with pytest.raises(ValueError, match="went boom"):
            vec.step([0, BOOM])
        assert vec.step([0, 0]).rewards.tolist() == [20.0, 110.0]
        assert vec.step([0, 0]).rewards.tolist() == [-970.0, -880.0]


def test_a_reward_transform_may_work_in_place_and_must_keep_the_shape() -> None:
    def in_place(rewards: Any) -> Any:
        rewards *= 0
        return rewards

    inner = build("sync", "same_step", (9, 9))
    seen: list[Any] = []

    class Spy(sekai.VecWrapper):
        def after_step(self, result: Any) -> Any:
            seen.append(result.rewards)
            return result

    with sekai.VecTransformReward(Spy(inner), in_place) as vec:
        vec.reset(seed=0)
        assert vec.step([0, 0]).rewards.tolist() == [0, 0] and seen[0].tolist() == [10.0, 110.0]
        vec.func = lambda rewards: rewards.sum()
        with pytest.raises(
            ValueError, match=r"^VecTransformReward\.reward\(\) returned shape \(\); expected \(2,\)\.$"
        ):
            vec.step([0, 0])
        vec.func = lambda rewards: rewards.astype(int).tolist()
        assert vec.step([0, 0]).rewards.dtype == np.float64


# ---- spaces ----------------------------------------------------------------------------------------


def test_a_changed_structure_without_its_space_is_refused_at_the_first_batch() -> None:
    narrow = sekai.Box(-1e12, 1e12, (2,), np.float64)
    with build("sync", "next_step", (2, 3)) as inner:
        for func, text in (
            (
                lambda batch: batch[:, :2],
                r"VecTransformObservation\.observation\(\) returned an array of shape \(2, 2\)",
            ),
            (lambda batch: batch.astype(np.float32), "dtype float32; expected an array of shape .* dtype float64"),
            (lambda batch: {"x": batch}, "observation"),
            (lambda batch: batch[0], r"shape \(4,\)"),
        ):
            with pytest.raises(sekai.SpaceMismatch, match=text) as caught:
                sekai.VecTransformObservation(inner, func).reset(seed=0)
            assert "Declare the transformed space (new_observation_space" in str(caught.value)
        vec = sekai.VecTransformObservation(inner, lambda batch: batch[:, :2], narrow)
        assert vec.observation_space == narrow and vec.batch_observation_space.shape == (2, 2)
        assert inner.observation_space.shape == (4,)
        vec.reset(seed=0)
        vec.step([0, 0])
        second = vec.step([0, 0])
        assert second.final_observation(0).tolist() == [0.0, 4.0], "slot 0, its fifth episode"
        assert second.space == narrow


def test_one_structure_may_become_another() -> None:
    space = sekai.Dict({"who": sekai.Box(-1e12, 1e12, (), np.float64), "t": sekai.Tuple((sekai.Discrete(99),))})

    def split(batch: Any) -> Any:
        return {"who": batch[:, 0].copy(), "t": (batch[:, 2].astype(np.int64),)}

    for mode in MODES:
        with sekai.VecTransformObservation(build("sync", mode, (2, 3)), split, space) as vec:
            assert vec.batch_observation_space.contains(vec.reset(seed=0).observations)
            vec.step([0, 0])
            second = vec.step([0, 0])
            final = second.final_observation(0)
            assert space.contains(final) and int(final["t"][0]) == 2
            third = vec.step([0, 0])
            assert vec.batch_observation_space.contains(third.observations)
            assert third.observations["t"][0].tolist()[0] == {"same_step": 1, "next_step": 0, "disabled": 2}[mode]


# ---- the wrapper itself ----------------------------------------------------------------------------


class Marks(sekai.VecWrapper):
    """Notes which hooks ran."""

    def __init__(self, venv: sekai.VecEnv) -> None:
        super().__init__(venv)
        self.ran: list[Any] = []

    def before_step(self, actions: Any) -> Any:
        self.ran.append("before")
        return actions

    def after_step(self, result: Any) -> Any:
        self.ran.append("after")
        return result

    def after_reset(self, result: Any, mask: Any) -> Any:
        self.ran.append(("reset", mask.tolist()))
        return result

    def reset_failed(self, mask: Any) -> None:
        self.ran.append(("failed", mask.tolist()))


def test_hooks_run_on_the_sync_and_the_async_path_alike() -> None:
    async def drive(vec: Any) -> None:
        await vec.async_reset(seed=0)
        await vec.async_step([0, 0])
        await vec.async_reset(mask=np.array([False, True]))

    runs = []
    for through in ("sync", "async"):
        with Marks(build("async", "same_step", (9, 9))) as vec:
            if through == "async":
                asyncio.run(drive(vec))
            else:
                vec.reset(seed=0)
                vec.step([0, 0])
                vec.reset(mask=np.array([False, True]))
            runs.append(vec.ran)
    assert runs[0] == runs[1] == [("reset", [True, True]), "before", "after", ("reset", [False, True])]


def test_wrappers_told_of_a_failed_reset_hear_of_slots_that_moved_only() -> None:
    with Marks(build("sync", "same_step", (9, 9))) as vec:
        vec.reset(seed=0)
        vec.ran.clear()
        for refused in ({"seed": -1}, {"options": 5}, {"mask": [1, 0]}):
            with pytest.raises((TypeError, ValueError)):
                vec.reset(**refused)
        assert [entry for entry in vec.ran if entry != ("failed", [False, False])] == []
        vec.ran.clear()
        with pytest.raises(ValueError, match="slot 0 cannot reset"):
            vec.reset(options={"fail": True}, mask=np.array([True, False]))
        assert vec.ran == [("failed", [True, False])]


def test_wrapped_async_steps_stay_concurrent() -> None:
    inside: list[int] = []

    class Meets(Coded):
        async def async_step(self, action: Any) -> Any:
            inside.append(self.slot)
            while len(inside) % 4:
                await asyncio.sleep(0)
            return self.step(action)

    async def drive(vec: Any) -> Any:
        await vec.async_reset(seed=0)
        return await vec.async_step([0] * 4)

    inner = build_from([factory(Meets, slot) for slot in range(4)], "async")
    with sekai.VecRecordEpisodeStatistics(Tenfold(sekai.VecTransformReward(inner, np.negative))) as vec:
        result = asyncio.run(drive(vec))
    assert result.rewards.tolist() == [-10.0, -110.0, -210.0, -310.0]
    assert places(result.observations) == [(10 * slot, 0, 10) for slot in range(4)]


def test_everything_else_is_handed_inwards() -> None:
    inner = build("sync", "next_step", (9, 9), wrap=lambda env: sekai.TimeLimit(env, 5))
    vec = Marks(sekai.VecTransformReward(inner, np.negative))
    assert vec.layers() == ["Marks", "VecTransformReward", "SyncVecEnv", "TimeLimit", "Coded"]
    assert repr(vec) == "Marks(VecTransformReward(SyncVecEnv(num_envs=2)))" and len(vec) == 2
    assert vec.unwrapped is inner and vec.autoreset is sekai.AutoresetMode.NEXT_STEP
    assert vec.metadata is inner.metadata and vec.render_mode is None and vec.spec is None
    vec.set_attr("length", [4, 5])
    assert vec.get_attr("length") == [4, 5] and vec.call("echo", 1) == [1, 1]
    assert vec.lost_rows.tolist() == inner.lost_rows.tolist() and not vec.closed
    vec.close()
    assert inner.closed and vec.closed
    with pytest.raises(TypeError, match=r"^Marks wraps a VecEnv; given <.*Coded"):
        Marks(Coded(0))  # type: ignore[arg-type]  # the point of the test


def test_an_action_wrapper_hands_other_actions_inwards() -> None:
    class Reversed(sekai.VecActionWrapper):
        def action(self, actions: Any) -> Any:
            return actions[::-1]

    with Reversed(build("sync", "same_step", (9, 9))) as vec:
        vec.reset(seed=0)
        given = [1, 2]
        assert vec.step(given).rewards.tolist() == [12.0, 111.0] and given == [1, 2]


@pytest.mark.parametrize(
    ("base", "text"),
    [
        (sekai.VecObservationWrapper, "must implement observation"),
        (sekai.VecRewardWrapper, "must implement reward"),
        (sekai.VecActionWrapper, "must implement action"),
    ],
)
def test_a_base_without_its_hook_says_so(base: Any, text: str) -> None:
    with build("sync", "same_step", (9,)) as inner, pytest.raises(NotImplementedError, match=text):
        vec = base(inner)
        vec.reset(seed=0)
        vec.step([0])


@pytest.mark.parametrize("mode", MODES)
def test_a_transform_that_works_in_place_does_not_reach_the_terminal_rows(mode: str) -> None:
    """Coded observations (slot, episode, t, draw), doubled once wherever the terminal row stands: t 2 becomes 4."""
    twice = sekai.VecTransformObservation(build("sync", mode, (2, 9)), lambda batch: np.multiply(batch, 2, out=batch))
    with twice as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        assert vec.step([0, 0]).final_observation(0)[2] == 4.0
        frozen = vec.step([0, 0])
        if mode == "disabled":
            assert frozen.observations[0, 2] == 4.0


class Growing(sekai.Env):
    """Observations of changing size: after `t` steps the sequence `(0, ..., t - 1)`, beside the number `t`."""

    def __init__(self) -> None:
        item = sekai.Box(0.0, 99.0, (1,), np.float64)
        self.observation_space = sekai.Dict({"seen": sekai.Sequence(item), "t": item})
        self.action_space = sekai.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        self.t = 0
        return sekai.ResetResult(self.observation(), {})

    def step(self, action: Any) -> sekai.StepResult:
        self.t += 1
        return sekai.StepResult(self.observation(), 0.0, self.t == 2, False, {})

    def observation(self) -> Any:
        return {"seen": tuple(np.array([float(k)]) for k in range(self.t)), "t": np.array([float(self.t)])}


@pytest.mark.parametrize("mode", MODES)
def test_last_rows_of_changing_size_are_transformed_on_their_own_too(mode: str) -> None:
    class Marked(sekai.VecObservationWrapper):
        def observation(self, batch: Any) -> Any:
            return {"seen": batch["seen"], "t": batch["t"] * 10}

        def final_observation(self, obs: Any) -> Any:
            return {"seen": obs["seen"][::-1], "t": obs["t"] * -1}

    with Marked(sekai.SyncVecEnv([Growing, Growing], autoreset=mode)) as vec:
        vec.reset(seed=0)
        assert vec.step([0, 0]).observations["t"].tolist() == [[10.0], [10.0]]
        results = [vec.step([0, 0]) for _ in range(2)]
        final = results[0].final_observation(1)
        assert ([item.tolist() for item in final["seen"]], final["t"].tolist()) == ([[1.0], [0.0]], [-2.0])
        if mode == "disabled":
            again = vec.reset(mask=np.array([True, False]))
            for shown in (results[1].observations, again.observations):
                assert [item.tolist() for item in shown["seen"][1]] == [[1.0], [0.0]]
                assert shown["t"][1].tolist() == [-2.0]
            assert again.observations["seen"][0] == () and again.observations["t"][0].tolist() == [0.0]
