"""Names of a native env: what `get_attr`, `call` and `set_attr` do without sub-environment objects."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.vector import shared


class Fleet(sekai.NativeVecEnv):
    """Three slots with something under every kind of name."""

    def __init__(self) -> None:
        super().__init__(3, sekai.Box(-1.0, 1.0, (1,)), sekai.Discrete(2), max_episode_steps=9)
        self.x = np.array([1.0, 2.0, 3.0])
        self.wide = np.arange(6).reshape(3, 2)
        self.schedule = np.arange(4)
        self.when = np.array(["2020-01-01"] * 3, "datetime64[D]")
        self.sigma: Any = 0.5
        self.label = "fleet"

    def _reset_envs(self, indices: Any, options: Any) -> None:
        pass

    def _observe(self) -> Any:
        return np.zeros((3, 1), np.float32)

    def mask(self) -> Any:
        return np.eye(3, dtype=np.int8)

    def scaled(self, factor: float, *, plus: float = 0.0) -> Any:
        return self.x * factor + plus

    @shared
    def plan(self) -> Any:
        return np.array([7, 8, 9])

    @shared
    @property
    def above(self) -> Any:
        return np.array([7, 8, 9])

    @property
    @shared
    def below(self) -> Any:
        return np.array([7, 8, 9])

    @property
    def each(self) -> Any:
        return np.array([7, 8, 9])

    @shared
    @cached_property
    def cached(self) -> Any:
        return np.array([7, 8, 9])


def test_an_array_with_a_leading_axis_of_slots_is_split_and_the_rest_repeated() -> None:
    vec = Fleet()
    assert vec.get_attr("x") == [1.0, 2.0, 3.0] and type(vec.get_attr("x")[0]) is float
    assert [row.tolist() for row in vec.get_attr("wide")] == [[0, 1], [2, 3], [4, 5]]
    assert [row.tolist() for row in vec.get_attr("schedule")] == [[0, 1, 2, 3]] * 3
    assert vec.get_attr("sigma") == [0.5] * 3 and vec.get_attr("label") == ["fleet"] * 3
    assert vec.get_attr("max_episode_steps") == [9] * 3
    assert vec.get_attr("when") == [np.datetime64("2020-01-01")] * 3, "dates stay dates"
    assert [row.tolist() for row in vec.call("mask")] == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert vec.call("scaled", 2.0, plus=1.0) == [3.0, 5.0, 7.0] and vec.call("x") == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("name", ["plan", "above", "below", "cached"])
def test_what_is_shared_is_repeated_whole_though_its_length_is_the_number_of_slots(name: str) -> None:
    vec = Fleet()
    assert [value.tolist() for value in vec.call(name)] == [[7, 8, 9]] * 3
    if name != "plan":
        assert [value.tolist() for value in vec.get_attr(name)] == [[7, 8, 9]] * 3
    assert vec.get_attr("each") == [7, 8, 9], "without the mark it is split"


@pytest.mark.parametrize("name", ["x", "wide", "schedule", "cached"])
def test_values_read_are_copies(name: str) -> None:
    vec = Fleet()
    before = np.copy(getattr(vec, name))
    values = vec.get_attr(name)
    for value in values:
        if isinstance(value, np.ndarray):
            value[:] = -1
    assert np.array_equal(getattr(vec, name), before)
    if name == "schedule":
        values[0][:] = 5
        assert values[1].tolist() == [-1] * 4, "nor do slots share one array"


def test_a_list_is_stored_as_one_array_and_anything_else_as_it_is() -> None:
    vec = Fleet()
    vec.set_attr("x", [4, 5, 6])
    assert isinstance(vec.x, np.ndarray) and vec.get_attr("x") == [4, 5, 6]
    vec.set_attr("sigma", 0.25)
    assert vec.sigma == 0.25
    vec.set_attr("sigma", (1, 2, 3))
    assert vec.sigma == (1, 2, 3)
    with pytest.raises(ValueError, match="set_attr was given a list of 2 values; expected 3"):
        vec.set_attr("x", [1, 2])
    assert vec.get_attr("x") == [4, 5, 6]


@pytest.mark.parametrize(
    "name",
    [
        "num_envs",
        "autoreset",
        "frozen",
        "elapsed_steps",
        "observation_space",
        "metadata",
        "closed",
        "phase",
        "lost_rows",
    ],
)
def test_what_the_base_class_decides_cannot_be_set(name: str) -> None:
    vec = Fleet()
    before = getattr(vec, name)
    with pytest.raises(AttributeError, match=rf"^'{name}' of Fleet\(num_envs=3\) cannot be set\.$"):
        vec.set_attr(name, 1)
    assert np.array_equal(getattr(vec, name), before)


@pytest.mark.parametrize("name", ["mask", "plan", "step", "each", "rng"])
def test_methods_and_properties_without_a_setter_cannot_be_set(name: str) -> None:
    with pytest.raises(AttributeError):
        Fleet().set_attr(name, 1)


@pytest.mark.parametrize("reach", [lambda vec: vec.get_attr("sigmo"), lambda vec: vec.call("sigmo"),
                                   lambda vec: vec.set_attr("sigmo", 1)])  # fmt: skip
def test_an_unknown_name_lists_close_matches_and_is_not_made(reach: Any) -> None:
    vec = Fleet()
    with pytest.raises(AttributeError, match=r"^Fleet\(num_envs=3\) has no attribute 'sigmo'\. Did you mean 'sigma'"):
        reach(vec)
    assert not hasattr(vec, "sigmo")


def test_layers_are_the_class_alone_and_rendering_says_what_to_do() -> None:
    assert Fleet().layers() == ["Fleet"]
    with pytest.raises(NotImplementedError, match="does not render; make it with vectorization_mode='sync'"):
        Fleet().render()


def test_a_property_that_fails_inside_is_its_own_error_and_is_read_once() -> None:
    class Fickle(sekai.NativeVecEnv):
        reads = 0

        @property
        def counted(self) -> int:
            self.reads += 1
            return self.reads

        @property
        def wealth(self) -> float:
            return self.money  # type: ignore[attr-defined]  # the mistake under test

    vec = Fickle(2, sekai.Box(0.0, 1.0, (1,)), sekai.Discrete(2))
    assert vec.get_attr("counted") == [1, 1]
    with pytest.raises(AttributeError, match="'money'"):
        vec.get_attr("wealth")


@pytest.mark.parametrize("name", ["render_mode", "_rng", "num_envs"])
def test_what_belongs_to_the_base_class_cannot_be_set(name: str) -> None:
    vec = sekai.NativeVecEnv(2, sekai.Box(0.0, 1.0, (1,)), sekai.Discrete(2))
    with pytest.raises(AttributeError, match=f"{name!r} of .* cannot be set"):
        vec.set_attr(name, 3)
