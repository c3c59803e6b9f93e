"""`PadSequenceObservation`: sequences of changing length become sets of one size."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai
from tests.core.envs import play

ITEM = sekai.Box(1.0, 9.0, (2,), np.float64)


class Shows(sekai.Env[Any, Any]):
    """Shows what stands in `observations`, in turn; terminates with the last."""

    def __init__(self, space: Any, observations: list[Any]) -> None:
        self.observation_space = space
        self.action_space = sekai.Discrete(2)
        self.observations = observations

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self.t = 0
        return sekai.ResetResult(self.observations[0], {})

    def step(self, action: Any) -> sekai.StepResult:
        self.t += 1
        last = self.t == len(self.observations) - 1
        return sekai.StepResult(self.observations[self.t], 0.0, last, False, {})


def items(*values: float) -> tuple[Any, ...]:
    """A sequence of items `[value, value]`."""
    return tuple(np.full(2, value) for value in values)


def first_entries(result: Any) -> tuple[list[float], list[int]]:
    return result.observation["elements"][:, 0].tolist(), result.observation["mask"].tolist()


LENGTHS = [items(1, 2), items(), items(1, 2, 3), items(1, 2, 3, 4)]


@pytest.mark.parametrize(("truncate", "kept"), [("tail", [2, 3, 4]), ("head", [1, 2, 3])])
@pytest.mark.parametrize("stack", [False, True])
def test_a_sequence_fills_the_first_places(truncate: Any, kept: list[int], stack: bool) -> None:
    given = [np.stack(one) if one else np.zeros((0, 2)) for one in LENGTHS] if stack else LENGTHS
    env = sekai.PadSequenceObservation(Shows(sekai.Sequence(ITEM, stack=stack), given), 3, truncate=truncate)
    results = play(env, [0, 0, 0], awaited=False)
    assert [first_entries(result) for result in results] == [
        ([1, 2, 0], [1, 1, 0]),
        ([0, 0, 0], [0, 0, 0]),
        ([1, 2, 3], [1, 1, 1]),
        (kept, [1, 1, 1]),  # the observation at the end
    ]
    assert env.observation_space == sekai.MaskedBox(1.0, 9.0, (2,), 3, dtype=np.float64)
    assert all(result.observation in env.observation_space for result in results)
    assert all(result.observation["elements"].dtype == np.float64 for result in results)


def test_the_last_items_are_kept_by_default() -> None:
    env = sekai.PadSequenceObservation(Shows(sekai.Sequence(ITEM), []), 1)
    assert env.observation(items(1, 2, 3))["elements"].tolist() == [[3.0, 3.0]]


def test_a_sequence_too_long_may_be_an_error_that_names_its_place() -> None:
    space = sekai.Dict({"cars": sekai.Tuple([sekai.Discrete(2), sekai.Sequence(ITEM)])})
    env = sekai.PadSequenceObservation(Shows(space, []), 2, truncate="error")
    assert env.observation({"cars": (1, items(1, 2))})["cars"][1]["mask"].tolist() == [1, 1]
    place = "PadSequenceObservation: observation['cars'][1]"
    text = f"{place} has 3 items, and max_length is 2; raise it, or set truncate to 'tail' or 'head'."
    with pytest.raises(sekai.InvalidObservation, match=f"^{re.escape(text)}$"):
        env.observation({"cars": (1, items(1, 2, 3))})


def test_sequences_are_padded_wherever_they_stand_and_nothing_else_is_touched() -> None:
    space = sekai.Dict(
        {
            "b": sekai.Tuple([sekai.Discrete(5), sekai.Sequence(ITEM)]),
            "a": sekai.Dict({"seen": sekai.Sequence(ITEM, stack=True)}),
            "c": sekai.Dict({"pose": ITEM}),
        }
    )
    env = sekai.PadSequenceObservation(Shows(space, []), 2)
    padded = sekai.MaskedBox(1.0, 9.0, (2,), 2, dtype=np.float64)
    expected = {
        "b": sekai.Tuple([sekai.Discrete(5), padded]), "a": sekai.Dict({"seen": padded}), "c": space["c"],
    }  # fmt: skip
    assert env.observation_space == sekai.Dict(expected)
    pose = {"pose": np.full(2, 5.0)}
    result = env.observation({"b": (4, items(7)), "a": {"seen": np.full((2, 2), 3.0)}, "c": pose})
    assert result["b"][0] == 4
    assert result["b"][1]["elements"].tolist() == [[7, 7], [0, 0]]
    assert result["a"]["seen"]["elements"].tolist() == [[3, 3], [3, 3]]
    assert result["c"] is pose
    assert result in env.observation_space


boxes = st.builds(
    lambda low, shape, dtype: sekai.Box(low, low + 3, shape, dtype),
    st.integers(0, 5),
    st.lists(st.integers(1, 2), max_size=2).map(tuple),
    st.sampled_from([np.float32, np.float64, np.uint8]),
)


@given(boxes, st.booleans(), st.integers(0, 2**31), st.integers(1, 4), st.sampled_from(["tail", "head"]))
def test_every_sample_is_padded_into_the_space(item: Any, stack: bool, seed: int, length: int, truncate: Any) -> None:
    space = sekai.Tuple([sekai.Sequence(item, stack=stack), sekai.Discrete(3)])
    space.seed(seed)
    env = sekai.PadSequenceObservation(Shows(space, []), length, truncate=truncate)
    for _ in range(3):
        sample = space.sample()
        result = env.observation(sample)
        assert result in env.observation_space
        rows = list(sample[0])[-length:] if truncate == "tail" else list(sample[0])[:length]
        unpacked = env.observation_space[0].unpack(result[0])
        assert len(unpacked) == len(rows)
        assert all(np.array_equal(a, b) for a, b in zip(unpacked, rows, strict=True))


@pytest.mark.parametrize("item", [sekai.Discrete(3), sekai.Dict({"x": ITEM}), sekai.Sequence(ITEM)])
def test_items_that_are_no_box_are_refused(item: Any) -> None:
    space = sekai.Dict({"seen": sekai.Sequence(item)})
    text = f"PadSequenceObservation pads sequences of Box items; observation['seen'] is {space['seen']}."
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        sekai.PadSequenceObservation(Shows(space, []), 3)


def test_without_a_sequence_there_is_nothing_to_pad() -> None:
    space = sekai.Dict({"pose": sekai.Tuple([ITEM])})
    text = f"PadSequenceObservation found no Sequence in {space}."
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        sekai.PadSequenceObservation(Shows(space, []), 3)


def test_settings_that_make_no_sense_are_refused() -> None:
    env = Shows(sekai.Sequence(ITEM), [])
    text = "PadSequenceObservation: truncate is 'middle'; expected 'tail', 'head' or 'error'."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        sekai.PadSequenceObservation(env, 3, truncate="middle")  # type: ignore[arg-type]  # the mistake under test
    text = "PadSequenceObservation: max_length is 0; expected an int of at least 1."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        sekai.PadSequenceObservation(env, 0)
    with pytest.raises(TypeError, match=r"max_length is 2\.0; expected an int"):
        sekai.PadSequenceObservation(env, 2.0)  # type: ignore[arg-type]  # the mistake under test


def test_an_item_out_of_its_bounds_is_refused() -> None:
    env = sekai.PadSequenceObservation(Shows(sekai.Sequence(ITEM), []), 3)
    with pytest.raises(
        sekai.InvalidObservation,
        match=r"^PadSequenceObservation: observation: MaskedBox element 1 is out",
    ):
        env.observation(items(1, 10))


def test_what_is_padded_can_be_stacked() -> None:
    env = sekai.FrameStackObservation(sekai.PadSequenceObservation(Shows(sekai.Sequence(ITEM), LENGTHS), 3), 2)
    env.reset()
    result = env.step(0).observation
    assert result["mask"].tolist() == [[1, 1, 0], [0, 0, 0]]
    assert result in env.observation_space
