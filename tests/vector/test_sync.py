"""`SyncVecEnv`: what an interrupt in the middle of a call leaves behind, and environments that are gymnasium's own."""

from __future__ import annotations

import copy
import threading
import time
from typing import Any, ClassVar

import cloudpickle
import gymnasium
import numpy as np
import pytest

import sekai
from sekai import RowKind
from tests.contract.envs import EXIT, INTERRUPT, MODES, Coded, build, build_from, factory, places

STEP, RESET, FROZEN, LOST = RowKind.STEP, RowKind.RESET, RowKind.FROZEN, RowKind.LOST


@pytest.mark.parametrize(("action", "error"), [(INTERRUPT, KeyboardInterrupt), (EXIT, SystemExit)])
@pytest.mark.parametrize("mode", MODES)
def test_an_interrupt_stops_at_once_and_loses_the_rows_up_to_its_slot(mode: str, action: int, error: type) -> None:
    with build("sync", mode, (9, 9, 9, 9)) as vec:
        vec.reset(seed=0)
        vec.step([0] * 4)
        with pytest.raises(error):
            vec.step([0, action, 0, 0])
        # slot 0 moved, slot 1 was interrupted, slots 2 and 3 were not reached
        assert vec.lost_rows.tolist() == [True, True, False, False]
        assert vec.get_attr("t") == [2, 1, 1, 1]
        after = vec.step([0] * 4)
        assert after.kind.tolist() == [LOST, LOST, STEP, STEP]
        assert places(after.observations) == [(0, 0, 3), (1, 0, 2), (2, 0, 2), (3, 0, 2)]
        assert not vec.lost_rows.any() and vec.step([0] * 4).valid.all()


@pytest.mark.parametrize("mode", MODES)
def test_an_interrupted_call_in_which_an_episode_ended_is_not_reported_as_its_end(mode: str) -> None:
    with build("sync", mode, (2, 9)) as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        with pytest.raises(KeyboardInterrupt):
            vec.step([0, INTERRUPT])  # slot 0 ends
        after = vec.step([0, 0])
        assert after.kind.tolist() == [LOST, LOST] and not after.ended.any() and not after.valid.any()
        assert (
            places(after.observations)[0]
            == {"same_step": (0, 1, 1), "next_step": (0, 1, 0), "disabled": (0, 0, 2)}[mode]
        )
        with pytest.raises(LookupError):
            after.final_observation(0)


def test_frozen_slots_are_not_lost_to_an_interrupt() -> None:
    with build("sync", "disabled", (1, 9, 9)) as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        with pytest.raises(KeyboardInterrupt):
            vec.step([0, 0, INTERRUPT])
        assert vec.lost_rows.tolist() == [False, True, True]
        assert vec.step([0, 0, 0]).kind.tolist() == [FROZEN, LOST, LOST]


class Interruptible(Coded):
    """Interrupts its own reset when told to."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        if self.nap:
            self.nap = 0.0
            raise KeyboardInterrupt
        return super().reset(seed=seed, options=options)


@pytest.mark.parametrize("mode", MODES)
def test_an_interrupted_reset_leaves_its_slot_in_need_of_one(mode: str) -> None:
    with build_from([factory(Interruptible, slot, 9) for slot in range(3)], "sync", mode) as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        vec.set_attr("nap", [0.0, 1.0, 0.0])
        with pytest.raises(KeyboardInterrupt):
            vec.reset()
        with pytest.raises(sekai.ResetRequired, match=r"sub-envs \[1\] need a reset"):
            vec.step([0, 0, 0])
        again = vec.reset(mask=np.array([False, True, False]))
        assert places(again.observations) == [(0, 1, 0), (1, 1, 0), (2, 0, 1)]
        kinds = vec.step([0, 0, 0]).kind.tolist()
        assert kinds[:2] == [LOST, STEP], "slot 0 began an episode whose first row the interrupted call did not return"


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_an_interrupted_autoreset_leaves_its_slot_in_need_of_one(mode: str) -> None:
    with build_from([factory(Interruptible, slot, 1 + 8 * slot) for slot in range(2)], "sync", mode) as vec:
        vec.reset(seed=0)
        vec.set_attr("nap", [1.0, 0.0])
        with pytest.raises(KeyboardInterrupt):
            for _ in range(2):
                vec.step([0, 0])
        with pytest.raises(sekai.ResetRequired, match=r"sub-envs \[0\]"):
            vec.step([0, 0])
        assert places(vec.reset().observations) == [(0, 1, 0), (1, 1, 0)]


class Plain(gymnasium.Env[Any, Any]):
    """Not sekai's: plain tuples, a generator that takes ints only."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-1.0, 1e12, (1,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        assert seed is None or type(seed) is int
        super().reset(seed=seed)
        self.t = 0
        return np.array([float(self.np_random.integers(10**12))]), {"seeded": seed}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.array([float(self.t)]), 1, np.bool_(self.t == 2), 0, {}


@pytest.mark.parametrize("cls", [sekai.SyncVecEnv, sekai.AsyncVecEnv])
def test_environments_of_gymnasium_are_taken_as_they_are(cls: Any) -> None:
    with cls([Plain, Plain]) as vec:
        assert isinstance(vec.observation_space, sekai.Box)
        generator = np.random.default_rng(3)
        first = vec.reset(seed=[7, generator])
        assert first.observations[:, 0].tolist() == [np.random.default_rng(s).integers(10**12) for s in (7, 3)]
        assert vec.step([0, 0]).rewards.tolist() == [1.0, 1.0]
        second = vec.step([0, 0])
        assert second.terminated.tolist() == [True, True] and not second.truncated.any()
        assert second.final_observation(0).tolist() == [2.0]


class Broken(Plain):
    """Returns what is no result."""

    def step(self, action: Any) -> Any:
        return (np.zeros(1), 0.0, False, {})


def test_a_step_that_returns_something_else_says_what_and_where() -> None:
    with sekai.SyncVecEnv([Plain, Broken]) as vec:
        vec.reset(seed=0)
        with pytest.raises(
            TypeError, match=r"step\(\) returned a tuple of 4; expected StepResult\(observation"
        ) as caught:
            vec.step([0, 0])
        assert caught.value.__notes__ == ["raised by sub-env 1"]


def test_each_action_is_the_environments_own() -> None:
    class Spoils(Plain):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = gymnasium.spaces.Box(-9.0, 9.0, (2,))
            self.kept: list[Any] = []

        def step(self, action: Any) -> Any:
            self.kept.append(action)
            action += 1
            return super().step(0)

    with sekai.SyncVecEnv([Spoils, Spoils]) as vec:
        vec.reset(seed=0)
        actions = np.zeros((2, 2), np.float32)
        vec.step(actions)
        vec.step(actions)
        assert (actions == 0).all()
        assert [[a.tolist() for a in kept] for kept in vec.get_attr("kept")] == [[[1, 1], [1, 1]]] * 2


def test_metadata_render_mode_and_frames_are_the_sub_envs() -> None:
    class Drawn(Plain):
        metadata = {"render_modes": ["ansi"], "render_fps": 5}  # noqa: RUF012  # gymnasium's own spelling
        render_mode = "ansi"

        def render(self) -> Any:
            return f"t={self.t}"

    with sekai.SyncVecEnv([Drawn, Drawn]) as vec:
        vec.reset(seed=0)
        assert vec.render_mode == "ansi" and vec.render() == ["t=0", "t=0"]
        assert vec.metadata == {
            "render_modes": ["ansi"],
            "render_fps": 5,
            "autoreset_mode": sekai.AutoresetMode.SAME_STEP,
        }
        assert vec.unwrapped is vec and vec.spec is None


def test_a_failing_call_names_the_slot() -> None:
    with sekai.SyncVecEnv([factory(Coded, slot) for slot in range(2)]) as vec:
        vec.envs[1].boom = lambda: 1 / 0
        vec.envs[0].boom = lambda: 1
        with pytest.raises(ZeroDivisionError) as caught:
            vec.call("boom")
        assert caught.value.__notes__ == ["raised by sub-env 1"]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda vec: cloudpickle.loads(cloudpickle.dumps(vec))])
def test_a_copy_has_arrays_of_its_own_and_goes_on_by_itself(duplicate: Any) -> None:
    vec = build("sync", "same_step", (9, 9))
    vec.reset(seed=0)
    vec.step([1, 2])
    other = duplicate(vec)
    assert other.step([3, 4]).rewards.tolist() == [23.0, 124.0]  # 100 slot + 10 t + action, at t = 2
    assert places(vec.step([0, 0]).observations) == [(0, 0, 2), (1, 0, 2)], "the original took no step of the copy"


def test_a_second_call_from_another_thread_is_an_error_and_no_torn_batch() -> None:
    vec = build("sync", "same_step", (9,))
    vec.reset(seed=0)
    vec.set_attr("nap", 0.2)
    first = threading.Thread(target=vec.step, args=([0],))
    first.start()
    time.sleep(0.05)
    with pytest.raises(sekai.VecEnvBusy, match=r"^Another call on SyncVecEnv\(num_envs=1\) is in progress"):
        vec.step([0])
    first.join()
    assert places(vec.step([0]).observations) == [(0, 0, 2)]


class Spoils(Coded):
    """Its last row does not fit the space."""

    def step(self, action: Any) -> Any:
        result = super().step(action)
        return result._replace(observation=np.zeros(7)) if result.terminated else result


@pytest.mark.parametrize("mode", MODES)
def test_a_slot_whose_last_row_is_refused_needs_a_reset(mode: str) -> None:
    vec = build_from([factory(Spoils, 0, 2), factory(Coded, 1, 9)], "sync", mode)
    vec.reset(seed=0)
    vec.step([0, 0])
    with pytest.raises(sekai.InvalidObservation, match="sub-env 0"):
        vec.step([0, 0])
    with pytest.raises(sekai.ResetRequired, match=r"sub-envs \[0\] need a reset"):
        vec.step([0, 0])


def test_an_action_space_without_parts_is_refused() -> None:
    class Empty(Coded):
        def __init__(self) -> None:
            super().__init__(0)
            self.action_space = sekai.Dict({})

    with pytest.raises(ValueError, match=r"^The action space is Dict\(\); expected one with at least one part"):
        sekai.SyncVecEnv([Empty])


def test_a_subclass_does_not_inherit_the_promise_of_fresh_infos() -> None:
    class Careful(Coded):
        fresh_infos = True

        def step(self, action: Any) -> Any:
            return super().step(action)._replace(info={"t": self.t + 1})

    class Careless(Careful):
        shared: ClassVar[dict[str, Any]] = {}

        def step(self, action: Any) -> Any:
            self.shared["t"] = self.t + 1
            return super().step(action)._replace(info=self.shared)

    for kind in (Careful, Careless):
        with sekai.SyncVecEnv([lambda kind=kind: kind(0, 9)]) as vec:
            vec.reset(seed=0)
            first = vec.step([0])
            vec.step([0])
            assert first.infos[0]["t"] == (2 if kind is Careful else 1)
