"""`register`, `deregister`, `spec`, `all_specs`: entries, their checks, and how ids are found."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import sekai
from sekai.envs import CLASSIC_CONTROL, OWN
from tests.registry.samples import Plus, Tally, TallyVecEnv


def test_register_returns_the_entry_that_spec_finds() -> None:
    entry = sekai.register("t/Tally-v3", Tally, max_episode_steps=7, reward_threshold=5.0, kwargs={"scale": 2.0})
    assert sekai.spec("t/Tally-v3") is entry
    assert (entry.namespace, entry.name, entry.version) == ("t", "Tally", 3)
    assert (entry.max_episode_steps, entry.reward_threshold, entry.kwargs) == (7, 5.0, {"scale": 2.0})


def test_an_entry_is_a_gymnasium_entry_with_a_make_of_its_own() -> None:
    entry = sekai.register("t/Tally-v0", Tally)
    assert isinstance(entry, gymnasium.envs.registration.EnvSpec)
    env = entry.make(scale=3.0, max_episode_steps=2)
    assert isinstance(env, sekai.TimeLimit) and env.get_attr("scale") == 3.0


def test_a_taken_id_is_refused_until_it_is_deregistered() -> None:
    sekai.register("t/Tally-v0", Tally)
    with pytest.raises(sekai.EnvAlreadyRegistered, match=r"sekai\.deregister\('t/Tally-v0'\)"):
        sekai.register("t/Tally-v0", Tally)
    sekai.deregister("t/Tally-v0")
    sekai.register("t/Tally-v0", Tally)


def test_a_deregistered_id_is_not_found_and_cannot_be_deregistered_again() -> None:
    sekai.register("t/Tally-v0", Tally)
    sekai.deregister("t/Tally-v0")
    with pytest.raises(sekai.EnvNotFound):
        sekai.make("t/Tally-v0")
    with pytest.raises(sekai.EnvNotFound, match="not registered with sekai"):
        sekai.deregister("t/Tally-v0")


@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        (TypeError, "The id is 7", {"id": 7}),
        (ValueError, "The id is ''", {"id": ""}),
        (ValueError, "The id is 'a/b/c-v0'", {"id": "a/b/c-v0"}),
        (ValueError, "The id is 'two words-v0'", {"id": "two words-v0"}),
        (ValueError, "separates a module from an id", {"id": "module:Tally-v0"}),
        (TypeError, "entry_point of 't/X-v0' is 3", {"entry_point": 3}),
        (ValueError, "expected a callable or a string 'module:attribute'", {"entry_point": "no_colon"}),
        (ValueError, "'a:b:c'", {"entry_point": "a:b:c"}),
        (TypeError, "vector_entry_point of 't/X-v0' is 3", {"vector_entry_point": 3}),
        (TypeError, "max_episode_steps is 2.7", {"max_episode_steps": 2.7}),
        (ValueError, "max_episode_steps is 0", {"max_episode_steps": 0}),
        (TypeError, "kwargs of 't/X-v0'", {"kwargs": [("scale", 1.0)]}),
        (TypeError, "kwargs of 't/X-v0'", {"kwargs": {1: 2}}),
        (TypeError, "additional_wrappers of 't/X-v0' contains 5", {"additional_wrappers": [5]}),
        (TypeError, "additional_wrappers of 't/X-v0' is <class", {"additional_wrappers": Plus}),
    ],
)
def test_a_wrong_argument_is_refused_and_nothing_is_registered(
    error: type[Exception], text: str, arguments: dict[str, Any]
) -> None:
    before = sekai.all_specs()
    with pytest.raises(error) as caught:
        sekai.register(**{"id": "t/X-v0", "entry_point": Tally} | arguments)
    assert text in str(caught.value)
    assert sekai.all_specs() == before


def test_the_built_in_ids_are_listed_in_order_and_gymnasiums_others_are_not() -> None:
    ids = [entry.id for entry in sekai.all_specs()]
    assert ids == sorted(ids)
    assert {*CLASSIC_CONTROL, *OWN} <= set(ids)
    assert CLASSIC_CONTROL == (
        "Acrobot-v1",
        "CartPole-v1",
        "MountainCar-v0",
        "MountainCarContinuous-v0",
        "Pendulum-v1",
    )
    assert "FrozenLake-v1" not in ids


def test_classic_control_has_gymnasiums_limits_and_no_native_environment() -> None:
    for id in CLASSIC_CONTROL:
        ours, theirs = sekai.spec(id), gymnasium.spec(id)
        assert (ours.max_episode_steps, ours.entry_point) == (theirs.max_episode_steps, theirs.entry_point)
        assert not ours.is_native
    assert gymnasium.spec("CartPole-v1").vector_entry_point is not None  # which would make it look native


def test_without_a_version_the_highest_is_meant() -> None:
    for version in (2, 10, 9):
        sekai.register(f"t/Tally-v{version}", Tally)
    assert sekai.spec("t/Tally").version == 10  # as numbers: as strings "9" would win
    sekai.register("t/Tally", Tally)
    assert sekai.spec("t/Tally").version is None


def test_without_a_version_another_namespace_does_not_count() -> None:
    sekai.register("t/CartPole-v7", Tally)
    assert sekai.spec("CartPole").id == "CartPole-v1"
    assert sekai.spec("t/CartPole").id == "t/CartPole-v7"


def test_without_a_version_gymnasiums_highest_is_found() -> None:
    assert sekai.spec("FrozenLake").id == "FrozenLake-v1"


def test_an_unknown_id_names_the_three_closest_of_both_registries() -> None:
    sekai.register("Frozenlac-v1", Tally)
    with pytest.raises(sekai.EnvNotFound) as caught:
        sekai.make("Frozenlake-v9")
    names = str(caught.value).partition("The closest names: ")[2].rstrip(".").split(", ")
    assert len(names) == 3
    assert {"FrozenLake-v1", "Frozenlac-v1"} <= set(names)


def test_case_does_not_hide_a_close_name() -> None:
    with pytest.raises(sekai.EnvNotFound, match="closest names: Pendulum-v1,"):
        sekai.spec("PENDULUM-V1")


@pytest.mark.parametrize("id", ["", "a/b/c", "CartPole v1"])
def test_what_is_no_id_is_not_found(id: str) -> None:
    with pytest.raises(sekai.EnvNotFound):
        sekai.spec(id)
    with pytest.raises(TypeError, match="The id is None"):
        sekai.make(None)  # type: ignore[arg-type]  # the mistake under test


def test_a_module_before_the_id_is_imported_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import sekai\nfrom tests.registry.samples import Tally\nsekai.register('late/Tally-v0', Tally)\n"
    (tmp_path / "late_envs.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(sekai.EnvNotFound):
        sekai.spec("late/Tally-v0")
    assert sekai.make("late_envs:late/Tally-v0").spec.id == "late/Tally-v0"
    assert sekai.make_vec("late_envs:late/Tally", 2).spec.id == "late/Tally-v0"
    del sys.modules["late_envs"]


def test_a_module_that_is_missing_is_named_and_so_is_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module', needed for the env"):
        sekai.make("no_such_module:X-v0")
    (tmp_path / "needy_envs.py").write_text("import not_installed_either\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_installed_either") as caught:
        sekai.make("needy_envs:X-v0")
    assert "needy_envs" in caught.value.__notes__[0]


def test_a_string_entry_point_is_imported_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    sekai.register("t/Later-v0", "not_there_yet:Envs.Tally")
    with pytest.raises(ModuleNotFoundError, match=r"entry point 'not_there_yet:Envs.Tally' of 't/Later-v0'"):
        sekai.make("t/Later-v0")
    module = types.ModuleType("not_there_yet")
    module.Envs = types.SimpleNamespace(Tally=Tally)  # type: ignore[attr-defined]  # made for this test
    monkeypatch.setitem(sys.modules, "not_there_yet", module)
    assert isinstance(sekai.make("t/Later-v0").unwrapped, Tally)


def test_a_wrong_attribute_of_an_entry_point_is_named_with_close_matches() -> None:
    sekai.register("t/Typo-v0", "tests.registry.samples:Taly")
    with pytest.raises(ImportError, match=r"tests.registry.samples has no 'Taly'. Did you mean 'Tally'"):
        sekai.make("t/Typo-v0")
    sekai.register("t/Number-v0", "tests.registry.samples:__doc__")
    with pytest.raises(TypeError, match="is a str; expected a callable"):
        sekai.make("t/Number-v0")


def test_the_registered_containers_are_copies() -> None:
    kwargs: dict[str, Any] = {"labels": ["a"]}
    sekai.register("t/Tally-v0", Tally, kwargs=kwargs)
    kwargs["labels"].append("b")
    kwargs["scale"] = 9.0
    assert sekai.spec("t/Tally-v0").kwargs == {"labels": ["a"]}


def test_an_entry_survives_json() -> None:
    entry = sekai.register(
        "t/Tally-v0",
        "tests.registry.samples:Tally",
        vector_entry_point="tests.registry.samples:TallyVecEnv",
        kwargs={"scale": 2.0},
    )
    back = sekai.EnvSpec.from_json(entry.to_json())
    assert type(back) is sekai.EnvSpec and back == entry
    assert isinstance(sekai.make_vec(back, 2), TallyVecEnv)
