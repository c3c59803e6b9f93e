"""`make`: the layers, the arguments and the entry that an environment carries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import WrapperSpec

import sekai
from tests.registry.samples import Foreign, Open, Plus, Tally


def test_layers_stand_in_the_promised_order() -> None:
    sekai.register(
        "t/Tally-v0",
        Tally,
        max_episode_steps=5,
        additional_wrappers=(
            lambda env: Plus(env, 10.0),
            WrapperSpec("Plus", "tests.registry.samples:Plus", {"amount": 100.0}),
        ),
    )
    env = sekai.make("t/Tally-v0", wrappers=[sekai.TimeAwareObservation])
    assert env.layers() == ["TimeAwareObservation", "TimeLimit", "Plus", "Plus", "Tally"]
    assert env.reset(seed=0).observation.tolist() == [110.0, 0.0]  # 0 + 10 + 100, then time 0 / 5


def test_a_wrapper_spec_without_recorded_arguments_is_refused() -> None:
    sekai.register("t/Tally-v0", Tally, additional_wrappers=[WrapperSpec("Lost", "a:B", None)])
    with pytest.raises(ValueError, match="Lost in the additional_wrappers of 't/Tally-v0' has no recorded"):
        sekai.make("t/Tally-v0")


def test_given_arguments_override_registered_ones() -> None:
    sekai.register("t/Tally-v0", Tally, kwargs={"scale": 2.0, "labels": ["r"]})
    env = sekai.make("t/Tally-v0", scale=3.0)
    assert (env.get_attr("scale"), env.get_attr("labels")) == (3.0, ["r"])


def test_a_given_limit_replaces_the_registered_one() -> None:
    assert sekai.make("CartPole-v1").get_attr("max_episode_steps") == 500
    env = sekai.make("CartPole-v1", max_episode_steps=2)
    env.reset(seed=0)
    assert [env.step(0).truncated for _ in range(2)] == [False, True]


@pytest.mark.parametrize("limit", [2.7, True, "5"])
def test_a_limit_that_is_no_int_is_refused(limit: Any) -> None:
    with pytest.raises(TypeError, match="max_episode_steps is"):
        sekai.make("CartPole-v1", max_episode_steps=limit)


def test_the_environment_carries_an_entry_that_builds_it_again() -> None:
    sekai.register("t/Tally-v0", Tally, max_episode_steps=9, kwargs={"scale": 2.0})
    plain = sekai.make("t/Tally-v0")
    assert plain.spec == sekai.spec("t/Tally-v0") and plain.unwrapped.spec == plain.spec
    changed = sekai.make("t/Tally-v0", max_episode_steps=4, labels=["x"])
    again = changed.spec.make()
    assert again.get_attr("max_episode_steps") == 4
    assert (again.get_attr("labels"), again.get_attr("scale")) == (["x"], 2.0)
    assert sekai.spec("t/Tally-v0").max_episode_steps == 9  # the registered entry is untouched


def test_an_entry_that_is_not_registered_builds_too() -> None:
    env = sekai.make(sekai.EnvSpec("t/Nowhere-v0", Tally, max_episode_steps=3))
    assert env.spec.id == "t/Nowhere-v0" and env.get_attr("max_episode_steps") == 3
    assert isinstance(sekai.make(gymnasium.spec("FrozenLake-v1")), sekai.TimeLimit)


def test_containers_are_shared_neither_between_calls_nor_with_the_registry() -> None:
    sekai.register("t/Tally-v0", Tally, kwargs={"labels": ["r"]})
    first, second = sekai.make("t/Tally-v0"), sekai.make("t/Tally-v0")
    first.get_attr("labels").append("mine")
    assert second.get_attr("labels") == ["r"] and sekai.spec("t/Tally-v0").kwargs == {"labels": ["r"]}
    assert first.spec.kwargs == {"labels": ["r"]}
    given = {"nested": [1]}
    env = sekai.make("t/Tally-v0", source=given)
    given["nested"].append(2)
    assert env.get_attr("source") == {"nested": [1]}


def test_what_containers_hold_is_not_copied() -> None:
    sekai.register("t/Tally-v0", Tally)
    prices = np.arange(3.0)
    assert sekai.make("t/Tally-v0", source=prices).get_attr("source") is prices
    assert sekai.make("t/Tally-v0", source=[prices]).get_attr("source")[0] is prices


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"scal": 1}, "t/Tally-v0 (Tally) takes no argument 'scal'. Did you mean 'scale'?"),
        ({"zzz": 1}, "takes no argument 'zzz'. It takes: labels, scale, source."),
        ({"autoreset": False}, "It belongs in vector_kwargs: sekai.make_vec(id, ..., vector_kwargs={'autoreset'"),
        ({"num_workers": 2}, "with vectorization_mode='proc' or 'ray'."),
        ({"vectorization_mode": "sync"}, "It is an argument of make_vec"),
        ({"self": 1}, "takes no argument 'self'"),
    ],
)
def test_an_argument_that_nothing_takes_is_refused(kwargs: dict[str, Any], text: str) -> None:
    sekai.register("t/Tally-v0", Tally)
    with pytest.raises(TypeError) as caught:
        sekai.make("t/Tally-v0", **kwargs)
    assert text in str(caught.value)


def test_a_registered_argument_that_nothing_takes_is_refused_too() -> None:
    sekai.register("t/Tally-v0", Tally, kwargs={"scal": 1.0})
    with pytest.raises(TypeError, match="takes no argument 'scal'"):
        sekai.make("t/Tally-v0")


def test_a_constructor_that_takes_anything_gets_anything_but_what_is_not_an_environments() -> None:
    sekai.register("t/Open-v0", Open)
    assert sekai.make("t/Open-v0", context="live").get_attr("anything") == {"context": "live"}
    with pytest.raises(TypeError, match="'autoreset'"):
        sekai.make("t/Open-v0", autoreset=False)


def test_an_environment_that_names_autoreset_gets_it() -> None:
    def build(autoreset: int) -> Tally:
        return Tally(scale=autoreset)

    sekai.register("t/Named-v0", build)
    assert sekai.make("t/Named-v0", autoreset=4).get_attr("scale") == 4


def test_a_gymnasium_environment_is_adapted_in_one_layer() -> None:
    sekai.register("t/Foreign-v0", Foreign)
    assert sekai.make("t/Foreign-v0").layers() == ["FromGymnasium", "Foreign"]
    env = sekai.make("t/Foreign-v0", max_episode_steps=3)
    assert env.layers() == ["TimeLimit", "Foreign"]
    env.reset(seed=0)
    result = env.step(0)
    assert isinstance(result, sekai.StepResult) and result.terminated is False


def test_a_gymnasium_wrapper_outside_is_adapted_again() -> None:
    sekai.register("t/Foreign-v0", Foreign)
    env = sekai.make("t/Foreign-v0", wrappers=[lambda env: gymnasium.wrappers.TransformReward(env, lambda r: r + 1)])
    assert isinstance(env, sekai.Env)
    env.reset(seed=0)
    assert env.step(0).reward == 1.0


def test_a_gymnasium_environment_finds_its_entry_when_it_renders() -> None:
    sekai.register("t/Foreign-v0", Foreign)
    assert sekai.make("t/Foreign-v0", render_mode="ansi").render() == "t/Foreign-v0"


def test_a_render_mode_that_the_class_does_not_list_is_refused() -> None:
    sekai.register("t/Foreign-v0", Foreign)
    with pytest.raises(ValueError, match="render_mode of t/Foreign-v0 is 'human'; expected one of 'ansi', or None"):
        sekai.make("t/Foreign-v0", render_mode="human")


def test_an_id_that_only_gymnasium_knows_is_built_without_gymnasiums_wrappers() -> None:
    env = sekai.make("FrozenLake-v1", is_slippery=False, max_episode_steps=4)
    assert env.layers() == ["TimeLimit", "FrozenLakeEnv"] and isinstance(env, sekai.TimeLimit)
    assert sekai.make("FrozenLake-v1").get_attr("max_episode_steps") == 100
    assert env.reset(seed=0).observation == 0
    assert env.step(2).observation == 1  # right, on a 4 x 4 lake without slipping
    assert env.step(1).observation == 5 and env.spec.id == "FrozenLake-v1"  # down, into the hole in row 1


@pytest.mark.parametrize("wrappers", [Plus, "Plus", [3], [lambda env: None]])
def test_wrappers_that_are_none_are_refused(wrappers: Any) -> None:
    sekai.register("t/Tally-v0", Tally)
    with pytest.raises(TypeError, match=r"wrappers is|wrappers contains|The wrapper .* returned None"):
        sekai.make("t/Tally-v0", wrappers=wrappers)


def test_what_was_built_is_closed_when_a_wrapper_fails() -> None:
    closed: list[str] = []

    class Closing(Tally):
        def close(self) -> None:
            closed.append("closed")

    def fail(env: Any) -> Any:
        raise RuntimeError("wrapper failed")

    sekai.register("t/Closing-v0", Closing)
    with pytest.raises(RuntimeError, match="wrapper failed"):
        sekai.make("t/Closing-v0", wrappers=[fail])
    assert closed == ["closed"]


def test_an_entry_point_that_returns_no_environment_is_refused() -> None:
    sekai.register("t/Wrong-v0", lambda: 5)
    with pytest.raises(TypeError, match="The entry point of t/Wrong-v0 returned 5"):
        sekai.make("t/Wrong-v0")


def test_a_limit_outside_autoreset_is_refused_by_name() -> None:
    sekai.register("t/Tally-v0", Tally, additional_wrappers=[sekai.AutoReset], max_episode_steps=3)
    with pytest.raises(ValueError, match="TimeLimit keeps state of one episode"):
        sekai.make("t/Tally-v0")


def test_wrappers_may_be_a_generator() -> None:
    def amounts() -> Iterator[Any]:
        for amount in (1.0, 10.0):
            yield lambda env, amount=amount: Plus(env, amount)

    sekai.register("t/Tally-v0", Tally)
    assert sekai.make("t/Tally-v0", wrappers=amounts()).reset(seed=0).observation.tolist() == [11.0]
