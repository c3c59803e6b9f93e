"""Failed steps and resets on every backend: who is named, what is lost, and that the others keep going."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from sekai.core.slots import Phase
from tests.contract.envs import (
    BACKENDS,
    BOOM,
    IN_PROCESS,
    MODES,
    OBJECTS,
    REMOTE,
    Coded,
    build,
    build_from,
    draws,
    factory,
    places,
)

STEP, TERMINATED, RESET, FROZEN, LOST = (
    RowKind.STEP,
    RowKind.TERMINATED,
    RowKind.RESET,
    RowKind.FROZEN,
    RowKind.LOST,
)


def failing(vec: sekai.VecEnv, backend: str, **where: Any) -> Any:
    """Expect the error of an environment: `ValueError` itself in this process, `VecEnvWorkerError` from another."""
    remote = backend in REMOTE
    return pytest.raises(sekai.VecEnvWorkerError if remote else ValueError, **where)


# ---- steps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", OBJECTS)
def test_one_failing_step_lets_the_others_finish_and_loses_the_rows_of_that_call(backend: str, mode: str) -> None:
    with build(backend, mode, (2, 9, 9)) as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        with failing(vec, backend, match="slot 1 went boom") as caught:
            vec.step([0, BOOM, 0])  # slot 0 ends in this call
        if backend in REMOTE:
            assert (caught.value.rank, caught.value.exc_type) == (1, "ValueError")
            assert "went boom" in caught.value.remote_traceback and str(caught.value).startswith("Sub-env 1 raised")
        else:
            assert caught.value.__notes__ == ["raised by sub-env 1"]
        assert vec.lost_rows.tolist() == [True, True, True]
        after = vec.step([0, 0, 0])
        assert after.kind.tolist() == [LOST] * 3 and not after.valid.any()
        first = {"same_step": (0, 1, 1), "next_step": (0, 1, 0), "disabled": (0, 0, 2)}[mode]
        assert places(after.observations) == [first, (1, 0, 2), (2, 0, 3)]
        assert not after.ended.any() and not vec.lost_rows.any()
        # what the caller learns of slot 0 under disabled: it is over
        assert after.dones.tolist() == [mode == "disabled", False, False]
        assert vec.get_attr("steps") == [{"same_step": 3, "next_step": 2, "disabled": 2}[mode], 3, 3]
        following = vec.step([0, 0, 0]).kind.tolist()
        assert following == [{"same_step": TERMINATED, "next_step": STEP, "disabled": FROZEN}[mode], STEP, STEP]


@pytest.mark.parametrize("backend", OBJECTS)
def test_of_several_failing_steps_the_first_in_slot_order_is_raised(backend: str) -> None:
    with build(backend, "same_step", (9, 9, 9, 9)) as vec:
        vec.reset(seed=0)
        with failing(vec, backend, match="slot 1 went boom") as caught:
            vec.step([0, BOOM, 0, BOOM])
        if backend not in REMOTE:
            assert caught.value.__notes__ == ["raised by sub-env 1", "failed sub-envs: [1, 3]"]
        assert places(vec.step([0] * 4).observations) == [(0, 0, 2), (1, 0, 1), (2, 0, 2), (3, 0, 1)]


@pytest.mark.parametrize("mode", MODES)
def test_a_failing_native_step_loses_every_row_and_leaves_it_steppable(mode: str) -> None:
    with build("native", mode, (2, 9, 9)) as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        with pytest.raises(ValueError, match="slot 1 went boom"):
            vec.step([0, BOOM, 0])
        assert vec.lost_rows.all()
        assert vec.step([0, 0, 0]).kind.tolist() == [LOST] * 3
        assert not vec.lost_rows.any() and vec.elapsed_steps.tolist()[1:] == [2, 2]  # type: ignore[attr-defined]


@pytest.mark.parametrize("backend", BACKENDS)
def test_frozen_rows_are_not_lost_to_a_failing_step(backend: str) -> None:
    with build(backend, "disabled", (1, 9, 9)) as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        with failing(vec, backend, match="slot 1 went boom"):
            vec.step([BOOM, BOOM, 0])  # slot 0 is frozen: its action is ignored
        assert vec.lost_rows.tolist() == [False, True, True]
        after = vec.step([0, 0, 0])
        assert after.kind.tolist() == [FROZEN, LOST, LOST] and after.terminated.tolist() == [True, False, False]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_refused_action_batch_loses_nothing(backend: str) -> None:
    # U62: count, shape and dtype; the texts are tested in tests/vector/test_actions.py
    with build(backend, "same_step", (9, 9, 9)) as vec:
        vec.reset(seed=0)
        for actions in (
            [0, 0],
            np.zeros((3, 1), int),
            np.zeros(3),
            np.zeros(3, bool),
            [0, 0.5, 0],
            0,
            None,
            [[0], 0, 0],
        ):
            with pytest.raises(sekai.InvalidAction):
                vec.step(actions)
        assert not vec.lost_rows.any()
        assert places(vec.step([0, 0, 0]).observations) == [(slot, 0, 1) for slot in range(3)]


@pytest.mark.parametrize("backend", IN_PROCESS)
def test_actions_are_neither_modified_nor_kept(backend: str) -> None:
    actions = np.array([1, 2, 3])
    actions.flags.writeable = False
    wide = np.arange(6).reshape(3, 2)
    with build(backend, "disabled", (1, 9, 9)) as vec:
        vec.reset(seed=0)
        vec.step(actions)
        # column 1 of a wider array is not contiguous; small ints and lists are converted
        for given in (wide[:, 0], np.array([0, 2, 4], np.uint8), [0, 2, 4], (0, 2, 4), range(0, 6, 2)):
            rewards = vec.step(given).rewards
            assert (rewards % 10).tolist() == [0.0, 2.0, 4.0]
        assert actions.tolist() == [1, 2, 3] and wide.tolist() == [[0, 1], [2, 3], [4, 5]]


# ---- autoresets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_failing_autoreset_leaves_its_slot_in_need_of_a_reset(backend: str) -> None:
    with build(backend, "same_step", (2, 9, 9)) as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        vec.set_attr("fail_resets", [True, False, False])
        with failing(vec, backend, match="slot 0 cannot reset"):
            vec.step([0, 0, 0])
        assert vec.lost_rows.all()
        with pytest.raises(sekai.ResetRequired, match=r"^sub-envs \[0\] need a reset: call reset\(\) before step"):
            vec.step([0, 0, 0])
        vec.set_attr("fail_resets", [False] * 3)
        again = vec.reset(mask=np.array([True, False, False]))
        assert places(again.observations) == [(0, 1, 0), (1, 0, 2), (2, 0, 2)]
        assert vec.lost_rows.tolist() == [False, True, True]
        assert vec.step([0, 0, 0]).kind.tolist() == [STEP, LOST, LOST]


@pytest.mark.parametrize("backend", BACKENDS)
def test_under_next_step_a_failing_autoreset_does_not_undo_the_end_of_another_episode(backend: str) -> None:
    # slot 0 ends at step 1 and is to be reset in call 2, in which slot 1 ends
    with build(backend, "next_step", (1, 2, 9)) as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        vec.set_attr("fail_resets", [True, False, False])
        with failing(vec, backend, match="slot 0 cannot reset"):
            vec.step([0, 0, 0])
        assert vec.unwrapped.phase.tolist() == [Phase.NEW, Phase.WAITING, Phase.LIVE]  # type: ignore[attr-defined]
        vec.set_attr("fail_resets", False if backend != "native" else [False] * 3)
        again = vec.reset(mask=np.array([True, False, False]))
        assert places(again.observations) == [(0, 1, 0), (1, 0, 2), (2, 0, 2)]
        assert again.dones.tolist() == [False, True, False]
        # slot 1 is reset, not stepped past its end
        assert places(vec.step([0, 0, 0]).observations) == [(0, 1, 1), (1, 1, 0), (2, 0, 3)]


# ---- resets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", OBJECTS)
def test_a_failed_reset_names_the_slots_and_the_others_keep_their_new_state(backend: str, mode: str) -> None:
    with build(backend, mode, (9, 9, 9)) as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        options = [{"at": 4}, {"fail": True}, {"at": 5}]
        with failing(vec, backend, match="slot 1 cannot reset") as caught:
            vec.reset(options=options)
        if backend not in REMOTE:
            assert caught.value.__notes__ == ["raised by sub-env 1", "failed sub-envs: [1]; each needs a reset"]
        with pytest.raises(sekai.ResetRequired, match=r"sub-envs \[1\] need a reset"):
            vec.step([0, 0, 0])
        with pytest.raises(sekai.ResetRequired, match=r"sub-envs \[1\] need a reset and are outside the mask"):
            vec.reset(mask=np.array([True, False, False]))
        again = vec.reset(mask=np.array([False, True, False]))
        assert places(again.observations) == [(0, 1, 4), (1, 1, 0), (2, 1, 5)]
        # nobody saw the first rows of slots 0 and 2 when the next step's actions could have been chosen from them
        assert vec.step([0, 0, 0]).kind.tolist() == [LOST, STEP, LOST]
        assert vec.step([0, 0, 0]).kind.tolist() == [STEP] * 3


@pytest.mark.parametrize("mode", MODES)
def test_a_failed_native_reset_leaves_stream_flags_and_counters_as_they_were(mode: str) -> None:
    runs = []
    for meddle in (False, True):
        with build("native", mode, (1, 9, 9), max_episode_steps=7) as vec:
            vec.reset(seed=3)
            vec.step([0, 0, 0])
            if meddle:
                for arguments in ({"seed": 5}, {}, {"seed": [1, None, 2]}):
                    with pytest.raises(ValueError, match="slot 2 cannot reset"):
                        vec.reset(options=[None, None, {"fail": True}], **arguments)
                with pytest.raises(ValueError, match="slot 1 cannot reset"):
                    vec.reset(options={"fail": True}, mask=np.array([False, True, False]))
                assert not vec.lost_rows.any()
            after = vec.step([0, 0, 0])
            runs.append(
                (
                    after.kind.tolist(),
                    after.observations.tolist(),
                    vec.get_attr("elapsed_steps"),
                    draws(vec.reset().observations),
                )
            )
    assert runs[0] == runs[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_failing_first_reset_needs_a_full_one(backend: str) -> None:
    with build(backend, "same_step", (9, 9)) as vec:
        with failing(vec, backend, match="slot 0 cannot reset"):
            vec.reset(options={"fail": True})
        with pytest.raises(sekai.ResetRequired, match=r"sub-envs \[0, 1\]"):
            vec.step([0, 0])
        assert places(vec.reset().observations) == [(0, 0, 0), (1, 0, 0)]
        assert vec.step([0, 0]).kind.tolist() == [STEP, STEP]


# ---- after close, attributes -----------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_call_after_close_is_refused(backend: str) -> None:
    vec = build(backend, "same_step", (9, 9))
    vec.reset(seed=0)
    vec.close()
    vec.close()
    for call in (
        vec.reset,
        lambda: vec.step([0, 0]),
        lambda: vec.get_attr("t"),
        lambda: vec.set_attr("t", 1),
        lambda: vec.call("t"),
    ):
        with pytest.raises(sekai.VecEnvClosed, match=r"^This VecEnv has been closed\.$"):
            call()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_unknown_name_is_an_attribute_error_with_close_matches(backend: str) -> None:
    with build(backend, "same_step", (9, 9)) as vec:
        with pytest.raises(AttributeError, match=r"has no attribute 'fail_reset'\. Did you mean 'fail_resets'"):
            vec.get_attr("fail_reset")
        with pytest.raises(AttributeError, match=r"has no attribute 'fail_reset'\. Did you mean 'fail_resets'"):
            vec.set_attr("fail_reset", True)
        with pytest.raises(
            ValueError, match=r"^set_attr was given a list of 3 values; expected 2, one per sub-env, or one value that"
        ):
            vec.set_attr("fail_resets", [True] * 3)
        vec.reset(seed=0)
        assert vec.get_attr("t") == [0, 0], "nothing was set"


@pytest.mark.parametrize("backend", OBJECTS)
def test_attributes_are_set_one_value_for_all_or_one_each(backend: str) -> None:
    with build(backend, "same_step", (9, 9, 9), wrap=lambda env: sekai.TimeLimit(env, 4)) as vec:
        vec.set_attr("length", 5)
        assert vec.get_attr("length") == [5, 5, 5]
        vec.set_attr("length", [6, 7, 8])
        vec.set_attr("max_episode_steps", [2, 3, 4])  # of the layer that has it
        assert vec.get_attr("length") == [6, 7, 8] and vec.get_attr("max_episode_steps") == [2, 3, 4]
        assert vec.call("echo", "twice") == ["twice"] * 3 and vec.call("echo", value=2) == [2] * 3
        assert vec.call("length") == [6, 7, 8]
        outer = type(vec).__name__
        assert vec.layers() == [outer, "TimeLimit", "Coded"]
        assert repr(vec) == f"{outer}(num_envs=3)"


# ---- what an environment must return ---------------------------------------------------------------


class Infoless(Coded):
    """Returns no dict as its info, on `step` or on `reset`."""

    def __init__(self, slot: int, where: str) -> None:
        super().__init__(slot, 9)
        self.where = where

    def reset(self, **arguments: Any) -> Any:
        result = super().reset(**arguments)
        return result._replace(info=None) if self.where == "reset" else result

    def step(self, action: Any) -> Any:
        result = super().step(action)
        return result._replace(info=["none"]) if self.where == "step" else result


@pytest.mark.parametrize("backend", OBJECTS)
def test_an_info_that_is_no_dict_names_the_sub_env(backend: str) -> None:
    with build_from([factory(Coded, 0), factory(Infoless, 1, "reset")], backend) as vec:
        error = sekai.VecEnvWorkerError if backend in REMOTE else sekai.InvalidObservation
        with pytest.raises(error, match=r"sub-env 1 returned the info None \(NoneType\); expected a dict\."):
            vec.reset(seed=0)
    with build_from([factory(Coded, 0), factory(Infoless, 1, "step")], backend) as vec:
        vec.reset(seed=0)
        with pytest.raises(error, match=r"sub-env 1 returned the info \['none'\] \(list\); expected a dict\."):
            vec.step([0, 0])


class Picky(Coded):
    """Wants options, and says so before anything moves."""

    def check_options(self, options: Any) -> None:
        if not options:
            raise ValueError("options are needed")


@pytest.mark.parametrize("backend", OBJECTS)
def test_options_that_an_environment_refuses_move_nothing_on_any_backend(backend: str) -> None:
    with build_from([factory(Picky, 0, 9), factory(Picky, 1, 9)], backend) as vec:
        vec.reset(seed=0, options={"at": 1})
        with failing(vec, backend, match="options are needed"):
            vec.reset()
        assert not vec.lost_rows.any()
        result = vec.step([0, 0])
        assert result.kind.tolist() == [STEP, STEP] and places(result.observations) == [(0, 0, 2), (1, 0, 2)]


class Extra(Coded):
    """Has one attribute more."""

    extra = 1


@pytest.mark.parametrize("backend", OBJECTS)
def test_an_attribute_that_one_sub_env_lacks_is_set_on_none(backend: str) -> None:
    with build_from([factory(Extra, 0), factory(Coded, 1)], backend) as vec:
        with pytest.raises(AttributeError, match="'extra'"):
            vec.set_attr("extra", 2)
        with pytest.raises((AttributeError, sekai.VecEnvWorkerError)):
            vec.get_attr("extra")
        assert vec.call("peek", "extra") == [1, None]
