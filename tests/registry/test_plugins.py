"""Ids that come from elsewhere: namespaces and entry points of installed packages."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import pytest

import sekai
from sekai.registry.store import DEFAULT
from tests.registry.samples import Tally

Install = Callable[..., list[str]]


class FakePlugin:
    def __init__(self, name: str, load: Callable[[], Any]) -> None:
        self.name, self.value, self.load = name, f"{name}_package.envs", load


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Pretend that these plugins are installed; returns the groups that are asked for."""
    asked: list[str] = []

    def pretend(**plugins: Callable[[], Any]) -> list[str]:
        def entry_points(*, group: str) -> list[FakePlugin]:
            asked.append(group)
            return [FakePlugin(name, load) for name, load in plugins.items()]

        monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
        monkeypatch.setattr(DEFAULT, "_plugins_loaded", False)
        return asked

    return pretend


def register_plug() -> None:
    sekai.register("plug/Tally-v4", Tally)


def load_module() -> str:
    register_plug()  # as the import of a module would
    return "a module"


@pytest.mark.parametrize("load", [load_module, lambda: register_plug], ids=["module", "function"])
def test_a_plugin_is_loaded_by_the_first_lookup_that_fails_and_only_once(
    install: Install, load: Callable[[], Any]
) -> None:
    asked = install(plug=load)
    sekai.make("CartPole-v1")
    assert asked == []
    assert sekai.spec("plug/Tally-v4").id == "plug/Tally-v4"
    with pytest.raises(sekai.EnvNotFound):
        sekai.make("plug/Other-v0")
    assert asked == ["sekai.envs"]


def test_a_list_of_all_entries_has_those_of_plugins(install: Install) -> None:
    install(plug=load_module)
    assert "plug/Tally-v4" in [entry.id for entry in sekai.all_specs()]


def test_a_plugin_counts_in_a_lookup_without_a_version(install: Install) -> None:
    sekai.register("plug/Tally-v1", Tally)
    install(plug=load_module)
    assert sekai.spec("plug/Tally").version == 4


def test_a_plugin_comes_before_gymnasium(install: Install) -> None:
    install(plug=lambda: lambda: sekai.register("FrozenLake-v1", Tally))
    assert isinstance(sekai.make("FrozenLake-v1").unwrapped, Tally)


def test_a_broken_plugin_is_a_warning_that_names_it_and_the_others_load(install: Install) -> None:
    def broken() -> None:
        raise ImportError("no module named simulator")

    install(bad=broken, plug=load_module)
    with pytest.warns(RuntimeWarning, match=r"'bad' \(bad_package.envs\).*ImportError: no module named sim"):
        assert sekai.spec("plug/Tally-v4").id == "plug/Tally-v4"


def test_a_namespace_is_loaded_when_one_of_its_ids_is_first_looked_up() -> None:
    calls = []

    def loader() -> None:
        calls.append(1)
        sekai.register("lazy/Tally-v0", Tally)
        sekai.register("lazy/Tally-v1", Tally)
        assert sekai.spec("lazy/Tally-v0").version == 0  # a loader may use its own ids

    sekai.register_namespace("lazy", loader)
    sekai.make("CartPole-v1")
    assert calls == []
    assert sekai.make("lazy/Tally").spec.version == 1
    assert sekai.make("lazy/Tally-v0").spec.version == 0
    with pytest.raises(sekai.EnvNotFound):
        sekai.make("lazy/Other-v0")
    assert calls == [1]


def test_a_loader_that_fails_is_named_and_tried_again() -> None:
    attempts = []

    def loader() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("no network drive")
        sekai.register("lazy/Tally-v0", Tally)

    sekai.register_namespace("lazy", loader)
    with pytest.raises(OSError, match="no network drive") as caught:
        sekai.spec("lazy/Tally-v0")
    assert "lazy" in caught.value.__notes__[0]
    assert sekai.spec("lazy/Tally-v0").id == "lazy/Tally-v0"


def test_a_wrong_or_taken_namespace_is_refused() -> None:
    sekai.register_namespace("lazy", lambda: None)
    with pytest.raises(ValueError, match="has a loader already"):
        sekai.register_namespace("lazy", lambda: None)
    with pytest.raises(ValueError, match="The namespace is 'a/b'"):
        sekai.register_namespace("a/b", lambda: None)
    with pytest.raises(TypeError, match="expected a function"):
        sekai.register_namespace("other", "module")  # type: ignore[arg-type]  # the mistake under test
