"""What `step` and `reset` return: tuples, accessors, replace."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from sekai.testing.coded import CodedEnv
from sekai.vector import Infos, VecResetResult, VecStepResult
from sekai.vector.wrappers import VecClipReward

SPACE = sekai.Box(-1.0, 99.0, (2,))


def step_result(infos: list[dict[str, Any]] | None = None, **changes: Any) -> VecStepResult:
    """A step, an ended slot whose terminal data are in the info, and one whose terminal data are the row."""
    fields: dict[str, Any] = {
        "observations": np.array([[0, 1], [10, 11], [20, 21]], np.float32),
        "rewards": np.array([1.0, 2.0, 3.0]),
        "terminated": np.array([False, True, False]),
        "truncated": np.array([False, False, True]),
        "infos": Infos.of(
            infos
            or [
                {"t": 0},
                {"t": 1, "final_observation": np.ones(2), "final_info": {"t": 1}, "reset_info": {}},
                {"t": 2, "final_info": "the environment's own"},
            ]
        ),
        "kind": np.array([0, 1, 2], np.int8),
        "ended": np.array([False, True, True]),
        "space": SPACE,
    }
    return VecStepResult(**{**fields, **changes})


def reset_result() -> VecResetResult:
    return VecResetResult(np.zeros((2, 2)), Infos.of([{"a": 1}, {}]), np.array([False, True]))


def test_a_step_result_unpacks_indexes_and_has_the_length_of_gymnasiums_tuple() -> None:
    result = step_result()
    observations, rewards, terminated, truncated, infos = result
    fields = (result.observations, result.rewards, result.terminated, result.truncated, result.infos)
    assert all(a is b for a, b in zip((observations, rewards, terminated, truncated, infos), fields, strict=True))
    assert len(result) == 5 and result[1] is result.rewards and result[-1] is result.infos
    assert result[1:3] == (result.rewards, result.terminated)
    with pytest.raises(IndexError):
        result[5]
    with pytest.raises(ValueError, match="too many values"):
        observations, rewards = result


def test_a_reset_result_unpacks_indexes_and_has_the_length_of_gymnasiums_tuple() -> None:
    result = reset_result()
    observations, infos = result
    assert observations is result.observations and infos is result.infos is result[1]
    assert len(result) == 2 and result.dones.tolist() == [False, True]


def test_dones_and_valid_follow_flags_and_kinds() -> None:
    kinds = np.array([kind.value for kind in RowKind], np.int8)
    result = step_result(kind=kinds)
    assert result.dones.tolist() == [False, True, True]
    # STEP, TERMINATED, TRUNCATED are transitions; RESET, FROZEN, LOST are not
    assert result.valid.tolist() == [True, True, True, False, False, False]


def test_terminal_data_come_from_the_info_where_it_has_them_and_from_the_row_otherwise() -> None:
    result = step_result()
    assert result.final_observation(1).tolist() == [1, 1] and result.final_info(1) == {"t": 1}
    assert result.final_observation(2).tolist() == [20, 21]
    assert result.final_info(2) == {"t": 2, "final_info": "the environment's own"}, "slot 2 was not reset in this call"
    result.observations[2] = -1
    assert result.final_observation(-1).tolist() == [-1, -1]
    row = result.final_observation(2)
    row[:] = 5
    assert result.observations[2].tolist() == [-1, -1], "it is a copy"


@pytest.mark.parametrize("accessor", ["final_observation", "final_info"])
def test_terminal_data_of_a_slot_that_did_not_end_are_an_error(accessor: str) -> None:
    text = r"^No episode of sub-env 0 ended in this call \(ended: \[1, 2\]\); look at `ended` first\.$"
    with pytest.raises(LookupError, match=text):
        getattr(step_result(), accessor)(0)
    with pytest.raises(IndexError):
        getattr(step_result(), accessor)(3)


def test_replace_changes_what_it_names_shares_the_rest_and_refuses_other_names() -> None:
    result = step_result()
    other = result.replace(rewards=np.zeros(3), terminated=np.ones(3, bool))
    assert other.rewards.tolist() == [0, 0, 0] and other.dones.all() and result.rewards.tolist() == [1, 2, 3]
    for name in ("observations", "truncated", "infos", "kind", "ended", "space"):
        assert getattr(other, name) is getattr(result, name)
    with pytest.raises(TypeError, match=r"^VecStepResult has no field \['reward'\]; it has \['ended', 'infos', 'kind'"):
        result.replace(reward=1)
    with pytest.raises(TypeError, match=r"VecStepResult has no field \['valid'\]"):
        result.replace(valid=np.ones(3, bool))
    first = reset_result()
    assert first.replace(dones=np.zeros(2, bool)).infos is first.infos
    with pytest.raises(
        TypeError, match=r"^VecResetResult has no field \['obs'\]; it has \['dones', 'infos', 'observations'\]"
    ):
        first.replace(obs=1)


def test_fields_cannot_be_added() -> None:
    with pytest.raises(AttributeError):
        step_result().reward = 1  # type: ignore[attr-defined]  # the point of the test


def test_results_pickle_copy_and_show_their_fields() -> None:
    for result in (pickle.loads(pickle.dumps(step_result())), copy.deepcopy(step_result())):
        assert result.infos == step_result().infos and result.final_observation(2).tolist() == [20, 21]
        assert result.space == SPACE and result.kind.dtype == np.int8
    assert repr(step_result()).startswith("VecStepResult(observations=array([[ 0.,  1.]")
    assert "kind=array([0, 1, 2], dtype=int8)" in repr(step_result())
    assert repr(reset_result()).endswith("infos=[{'a': 1}, {}], dones=array([False,  True]))")


@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
def test_the_info_of_a_step_is_that_of_the_state_it_led_to(autoreset: str) -> None:
    with sekai.SyncVecEnv([partial(CodedEnv, s, length=2 + s) for s in range(2)], autoreset=autoreset) as vec:
        vec.reset(seed=0)
        for t in (1, 2):  # slot 0 ends in step 2, and its t is 0 again where it is reset in the same call
            result = vec.step([0, 0])
            assert [result.step_info(slot)["t"] for slot in range(2)] == [t, t]


def test_options_of_episodes_that_begin_by_themselves_are_seen_through_wrappers() -> None:
    makes = [CodedEnv] * 2
    with sekai.SyncVecEnv(makes) as plain, sekai.SyncVecEnv(makes, autoreset_options=lambda s, e: None) as given:
        assert [vec.has_autoreset_options for vec in (plain, given)] == [False, True]
        assert [VecClipReward(vec, 0, 1).has_autoreset_options for vec in (plain, given)] == [False, True]
