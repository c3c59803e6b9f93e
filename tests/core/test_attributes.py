"""Attributes: six names go to the base environment, every other name to the outermost layer that has it."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np
import pytest

import sekai
from sekai.core.env import BASE_NAMES
from sekai.testing import CodedEnv
from tests.core.envs import Plain


class Base(CodedEnv):
    def __init__(self) -> None:
        super().__init__()
        self.metadata = {"render_modes": [], "who": "base"}
        self.depth = "base"
        self.window_length = 30

    @property
    def broken(self) -> Any:
        return self.prices  # type: ignore[attr-defined]  # what this property gets wrong

    @property
    def unavailable(self) -> Any:
        raise AttributeError("no data loaded")

    @property
    def elsewhere(self) -> Any:
        return object().elsewhere  # type: ignore[attr-defined]  # the same name, missing on another object

    @property
    def read_only(self) -> int:
        return 3


class Layer(sekai.Wrapper):
    """Has `depth` and nothing else of its own."""

    def __init__(self, env: Any, depth: str) -> None:
        super().__init__(env)
        self.depth = depth


class Bare(sekai.Wrapper):
    pass


def stack() -> Any:
    return Bare(Layer(Layer(Base(), "inner"), "outer"))


def test_the_outermost_layer_that_has_the_name_answers() -> None:
    env = stack()
    assert env.get_attr("depth") == "outer"
    assert env.env.env.get_attr("depth") == "inner"
    assert env.unwrapped.get_attr("depth") == "base"
    assert env.get_attr("window_length") == 30


def test_set_attr_changes_that_layer_and_no_other() -> None:
    env = stack()
    env.set_attr("depth", "changed")
    assert [env.env.depth, env.env.env.depth, env.unwrapped.depth] == ["changed", "inner", "base"]
    assert "depth" not in vars(env), "the bare layer gets none of its own"
    env.set_attr("window_length", 60)
    assert env.unwrapped.window_length == 60


def test_lookup_passes_through_gymnasiums_wrappers() -> None:
    env: Any = Bare(gymnasium.wrappers.TransformReward(Layer(Base(), "inside"), lambda r: r))
    assert env.get_attr("depth") == "inside"
    env.set_attr("depth", "changed")
    assert env.env.env.depth == "changed"


def test_a_gymnasium_environment_is_a_layer_too() -> None:
    env: Any = sekai.TimeLimit(Plain(), 3)
    assert env.get_attr("seeds") == []
    env.set_attr("t", 5)
    assert env.unwrapped.t == 5


class Claims(sekai.Wrapper):
    """Claims each of the six names for itself."""

    metadata = np_random = np_random_seed = render_mode = spec = unwrapped = "the wrapper's"  # type: ignore[assignment]


def test_the_six_names_are_read_from_the_base_environment() -> None:
    assert sorted(BASE_NAMES) == ["metadata", "np_random", "np_random_seed", "render_mode", "spec", "unwrapped"]
    base = Base()
    base.reset(seed=3)
    base.render_mode = "ansi"
    base.spec = object()  # type: ignore[assignment]  # only its identity matters
    env = Claims(base)
    assert {name: env.get_attr(name) for name in BASE_NAMES} == {
        "metadata": {"render_modes": [], "who": "base"},
        "np_random": base.np_random,
        "np_random_seed": 3,
        "render_mode": "ansi",
        "spec": base.spec,
        "unwrapped": base,
    }


def test_the_six_names_are_set_on_the_base_environment() -> None:
    env = stack()
    env.set_attr("render_mode", "human")
    env.set_attr("metadata", {"who": "new"})
    generator = np.random.default_rng(9)
    env.set_attr("np_random", generator)
    assert env.unwrapped.render_mode == "human"
    assert env.unwrapped.metadata == {"who": "new"}
    assert env.rng is generator


@pytest.mark.parametrize("call", [lambda env, name: env.get_attr(name), lambda env, name: env.set_attr(name, 1)])
def test_an_unknown_name_lists_close_matches_of_all_layers(call: Any) -> None:
    env = stack()
    text = f"{env} has no attribute 'window_lenght'. Did you mean 'window_length'?"
    with pytest.raises(AttributeError, match=f"^{re.escape(text)}$"):
        call(env, "window_lenght")
    assert not any("window_lenght" in vars(layer) for layer in (env, env.env, env.unwrapped))
    text = f"{env} has no attribute 'zzzzzz'."
    with pytest.raises(AttributeError, match=f"^{re.escape(text)}$"):
        call(env, "zzzzzz")


def test_no_more_than_three_matches_are_listed() -> None:
    base: Any = Base()
    base.costs1 = base.costs2 = base.costs3 = base.costs4 = 0.0
    with pytest.raises(AttributeError, match=r"Did you mean 'costs\d', 'costs\d', 'costs\d'\?$"):
        base.get_attr("costs")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("broken", "'Base' object has no attribute 'prices'"),
        ("unavailable", "no data loaded"),
        ("elsewhere", "'object' object has no attribute 'elsewhere'"),
    ],
)
@pytest.mark.parametrize("call", [lambda env, name: env.get_attr(name), lambda env, name: env.set_attr(name, 1)])
def test_a_property_that_fails_inside_is_not_reported_as_missing(name: str, text: str, call: Any) -> None:
    for env in (Base(), stack()):
        with pytest.raises(AttributeError, match=f"^{text}$"):
            call(env, name)


def test_a_property_without_a_setter_cannot_be_set() -> None:
    env = stack()
    with pytest.raises(AttributeError, match=r"read_only.*no setter"):
        env.set_attr("read_only", 4)
    assert env.get_attr("read_only") == 3


def test_an_environment_that_does_not_render_says_so_also_through_wrappers():
    env = sekai.TimeLimit(CodedEnv(), 3)
    for layer in (env, env.unwrapped):
        with pytest.raises(NotImplementedError, match=r"^<CodedEnv instance> does not render \(render_mode is None\)"):
            layer.render()
    assert repr(env.unwrapped) == "<CodedEnv instance>" and repr(env) == "TimeLimit(<CodedEnv instance>)"
