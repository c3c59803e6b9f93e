"""`ActionMaskObservation`: the mask that belongs to the state shown, from the method or from the info."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai
from sekai.testing import CodedEnv
from sekai.wrappers.masks import flatten_mask, mask_size, masked_space, with_mask
from tests.core.envs import play

BOTH_WAYS = pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])


def coded(e: int, t: int) -> list[int]:
    """The mask of a state: `e` and `t` are the actions forbidden."""
    return [0 if action in (e, 5 + t) else 1 for action in range(10)]


class Asked(CodedEnv):
    """Has the method; reuses the array it returns."""

    def __init__(self, length: int = 3) -> None:
        super().__init__(length=length)
        self.mask = np.zeros(10, np.int8)

    def action_mask(self) -> Any:
        assert self.t is not None
        self.mask[:] = coded(self.episode, self.t)
        return self.mask


class Tells(CodedEnv):
    """Puts the mask into the info, under `name`; with `last` into that of the last step too."""

    def __init__(self, length: int = 3, *, last: bool = True, name: str = "action_mask") -> None:
        super().__init__(length=length)
        self.last, self.name = last, name

    def _at(self, t: int) -> Any:
        observation, _ = super()._at(t)
        shown = self.last or t < self.length
        return observation, {"t": t, self.name: coded(self.episode, t)} if shown else {"t": t}


def shown(results: list[Any]) -> list[tuple[list[float], list[int]]]:
    """`(e, t)` and mask of every observation."""
    return [
        (result.observation["observation"][1:].tolist(), result.observation["action_mask"].tolist())
        for result in results
    ]


ONES = [1] * 10


@BOTH_WAYS
@pytest.mark.parametrize(
    ("kind", "final"), [(Asked, ONES), (Tells, coded(0, 2)), (lambda n: Tells(n, last=False), ONES)],
    ids=["method", "info", "info without a last mask"],
)  # fmt: skip
def test_every_observation_comes_with_the_mask_of_its_state(kind: Any, final: list[int], awaited: bool) -> None:
    env = sekai.ActionMaskObservation(kind(2))
    results = play(env, [1] * 3, awaited=awaited)
    assert shown(results) == [
        ([0, 0], coded(0, 0)),
        ([0, 1], coded(0, 1)),
        ([0, 2], final),  # nobody acts there
        ([1, 0], coded(1, 0)),
        ([1, 1], coded(1, 1)),
    ]
    assert all(result.observation in env.observation_space for result in results)
    assert all(result.observation["action_mask"].dtype == np.int8 for result in results)


@BOTH_WAYS
@pytest.mark.parametrize("inside", [True, False], ids=["AutoReset inside", "AutoReset outside"])
@pytest.mark.parametrize(("kind", "final"), [(Asked, ONES), (Tells, coded(0, 2))], ids=["method", "info"])
def test_with_an_auto_reset_each_episode_keeps_its_own_mask(
    kind: Any, final: list[int], inside: bool, awaited: bool
) -> None:
    if inside:
        env: Any = sekai.ActionMaskObservation(sekai.AutoReset(kind(2)))
    else:
        env = sekai.AutoReset(sekai.ActionMaskObservation(kind(2)))
    results = play(env, [1] * 3, awaited=awaited)
    assert shown(results) == [
        ([0, 0], coded(0, 0)),
        ([0, 1], coded(0, 1)),
        ([1, 0], coded(1, 0)),  # of the state shown; the info's own, at the top level, is still that of the end
        ([1, 1], coded(1, 1)),
    ]
    last = results[2].info["final_observation"]
    assert last["observation"].tolist() == [0, 0, 2]
    assert last["action_mask"].tolist() == final
    assert "action_mask" not in results[2].info["final_info"] or kind is Tells


def test_the_mask_of_a_result_does_not_change_later() -> None:
    env = sekai.ActionMaskObservation(Asked())
    first = env.reset().observation["action_mask"]
    env.step(1)
    assert first.tolist() == coded(0, 0)


def test_the_method_is_asked_where_there_are_both() -> None:
    class Both(Tells):
        def action_mask(self) -> Any:
            return [1] * 9 + [0]

    assert sekai.ActionMaskObservation(Both()).reset().observation["action_mask"].tolist() == [1] * 9 + [0]


def test_the_method_is_found_through_other_layers() -> None:
    env = sekai.ActionMaskObservation(sekai.ClipReward(sekai.TimeLimit(Asked(), 9), 0.0))
    assert env.reset().observation["action_mask"].tolist() == coded(0, 0)


def test_the_key_names_the_entry_in_observation_and_info() -> None:
    env = sekai.ActionMaskObservation(Tells(name="legal"), key="legal")
    first = env.reset()
    assert sorted(first.observation) == ["legal", "observation"]
    assert first.observation["legal"].tolist() == coded(0, 0)


class Parts(sekai.ObservationWrapper):
    """A `Dict` observation."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = sekai.Dict({"code": env.observation_space})

    def observation(self, observation: Any) -> Any:
        return {"code": observation}


def test_a_dict_observation_gains_the_entry() -> None:
    env = sekai.ActionMaskObservation(Parts(Asked()))
    first = env.reset().observation
    assert sorted(first) == ["action_mask", "code"], "not one dict within another"
    assert first in env.observation_space
    assert env.observation_space == sekai.Dict(
        {"code": CodedEnv().observation_space, "action_mask": sekai.MultiBinary(10)}
    )


def test_a_key_that_is_taken_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^The observation has an entry 'code' already; give another key\.$"):
        sekai.ActionMaskObservation(Parts(Asked()), key="code")
    with pytest.raises(ValueError, match=r"^The observation has an entry 'observation' already; give another key\.$"):
        sekai.ActionMaskObservation(Asked(), key="observation")
    twice = sekai.ActionMaskObservation(Asked())
    with pytest.raises(ValueError, match=r"^The observation has an entry 'action_mask' already; give another key\.$"):
        sekai.ActionMaskObservation(twice)


def test_a_mask_that_is_nowhere_is_missed_by_name() -> None:
    text = "the environment gave no action mask: its info has no 'action_mask', only ['t']. Put it there in reset and"
    with pytest.raises(sekai.InvalidObservation, match=f"^{re.escape(text)}"):
        sekai.ActionMaskObservation(CodedEnv()).reset()


@pytest.mark.parametrize("mask", [[1] * 9, [1] * 11, [2] + [1] * 9, [0.5] * 10, 1, None])
def test_a_mask_that_does_not_fit_is_named(mask: Any) -> None:
    class Wrong(CodedEnv):
        def action_mask(self) -> Any:
            return mask

    text = (
        f"the environment has the action mask {mask!r}; expected 10 entries of 0 or 1, one for each choice of "
        "Discrete(10)."
    )
    with pytest.raises(sekai.InvalidObservation, match=f"^{re.escape(text)}$"):
        sekai.ActionMaskObservation(Wrong()).reset()


@pytest.mark.parametrize("space", [sekai.Box(0.0, 1.0, (2,)), sekai.Tuple([sekai.Discrete(2), sekai.Box(0.0, 1.0)])])
def test_actions_that_cannot_be_masked_are_refused(space: Any) -> None:
    class Continuous(CodedEnv):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = space

    text = f"There is no mask of allowed actions for {sekai.Box(0.0, 1.0, (2,) if space.shape else None)}; "
    with pytest.raises(TypeError, match=f"^{re.escape(text)}expected discrete parts only\\.$"):
        sekai.ActionMaskObservation(Continuous())


NESTED = sekai.Dict({"arm": sekai.Tuple([sekai.Discrete(2), sekai.MultiBinary(2)]), "leg": sekai.MultiDiscrete([2, 3])})


@pytest.mark.parametrize(
    ("space", "mask", "flat"),
    [
        (sekai.Discrete(3, start=5), np.array([1, 0, 1], np.int8), [1, 0, 1]),
        (sekai.Discrete(3), [True, False, True], [1, 0, 1]),
        (sekai.MultiBinary(3), [0, 1, 1], [0, 1, 1]),
        (sekai.MultiBinary((2, 2)), np.array([[0, 1], [1, 0]]), [0, 1, 1, 0]),
        (sekai.MultiDiscrete([2, 3]), (np.array([1, 0]), np.array([0, 1, 1])), [1, 0, 0, 1, 1]),
        (sekai.MultiDiscrete([2, 3]), np.array([1, 0, 0, 1, 1]), [1, 0, 0, 1, 1]),
        (sekai.Tuple([sekai.Discrete(2), sekai.Discrete(1)]), ([0, 1], [1]), [0, 1, 1]),
        (NESTED, {"leg": ([1, 1], [1, 0, 1]), "arm": ([0, 1], [1, 0])}, [0, 1, 1, 0, 1, 1, 1, 0, 1]),
        (NESTED, np.array([0, 1, 1, 0, 1, 1, 1, 0, 1]), [0, 1, 1, 0, 1, 1, 1, 0, 1]),
    ],
)
def test_a_mask_nested_as_gymnasiums_is_made_flat(space: Any, mask: Any, flat: list[int]) -> None:
    result = flatten_mask(space, mask, "it")
    assert result.tolist() == flat
    assert result.dtype == np.int8
    assert mask_size(space) == len(flat)


@pytest.mark.parametrize("space", [sekai.MultiDiscrete([2, 3]), NESTED, sekai.Tuple([sekai.Discrete(5)])])
def test_a_nested_action_space_is_masked_in_an_environment_too(space: Any) -> None:
    class Nested(CodedEnv):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = space

        def action_mask(self) -> Any:
            return [1, 0, 0, 1, 1, 1, 1, 1, 1][: mask_size(space)]

    env = sekai.ActionMaskObservation(Nested())
    assert env.reset().observation["action_mask"].tolist() == [1, 0, 0, 1, 1, 1, 1, 1, 1][: mask_size(space)]
    assert env.observation_space["action_mask"].shape == (mask_size(space),)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_a_tuple_of_masks_is_their_sequence(sizes: list[int], data: st.DataObject) -> None:
    masks = [data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)) for size in sizes]
    flat = [entry for mask in masks for entry in mask]
    for space in (sekai.MultiDiscrete(sizes), sekai.Tuple(map(sekai.Discrete, sizes))):
        assert flatten_mask(space, tuple(masks), "it").tolist() == flat
        assert flatten_mask(space, flat, "it").tolist() == flat


def test_the_space_and_the_value_agree_for_a_batch_too() -> None:
    box = sekai.Box(0.0, 1.0, (2,))
    assert masked_space(box, 3, "m") == sekai.Dict({"observation": box, "m": sekai.MultiBinary(3)})
    batch, masks = np.zeros((4, 2), np.float32), np.ones((4, 3), np.int8)
    result = with_mask(box, batch, masks, "m")
    assert list(result) == ["observation", "m"]
    assert result["observation"] is batch
    assert result["m"] is masks


@pytest.mark.parametrize(
    ("space", "mask"),
    [
        (sekai.MultiDiscrete([2, 3]), ([1, 1, 1], [1, 0])),  # five entries in all, and each part wrong
        (sekai.Tuple([sekai.Discrete(2), sekai.Discrete(3)]), ([1, 1, 1], [1, 0])),
        (sekai.Dict(a=sekai.Discrete(2), b=sekai.Discrete(1)), {"a": [1, 1, 1]}),
        (sekai.Dict(a=sekai.Discrete(2)), {"a": [1, 1], "b": [1]}),
        (sekai.Discrete(2), [1, [0, 1]]),
        (sekai.Discrete(2), ["1", "0"]),
        (sekai.Discrete(2), None),
    ],
)
def test_a_mask_of_another_structure_is_refused_whatever_its_length(space: Any, mask: Any) -> None:
    with pytest.raises(sekai.InvalidObservation, match=r"^it has the action mask .* expected \d entries of 0 or 1"):
        flatten_mask(space, mask, "it")


def test_a_multi_discrete_of_two_axes_has_a_mask_of_two_axes() -> None:
    space = sekai.MultiDiscrete([[2, 3], [2, 2]])
    mask = (((1, 0), (1, 1, 0)), ((0, 1), (1, 1)))
    assert flatten_mask(space, mask, "it").tolist() == [1, 0, 1, 1, 0, 0, 1, 1, 1]


def test_an_environment_that_resets_itself_in_its_own_way_is_masked_too() -> None:
    class Loops(CodedEnv):
        resets_itself = True
        action_mask = np.ones(10, np.int8)  # an attribute does as well

        def step(self, action: Any) -> sekai.StepResult:
            result = super().step(action)
            return result._replace(observation=self.reset().observation) if result.done else result

    env = sekai.ActionMaskObservation(Loops(length=1))
    env.reset(seed=0)
    result = env.step(0)
    assert result.terminated and result.observation["action_mask"].tolist() == [1] * 10
