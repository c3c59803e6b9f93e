"""Modules import only from lower layers, heavy packages only in their places, and only declared packages."""

from __future__ import annotations

import ast
import re
import sys
import tomllib

import pytest

from tests.arch import layers
from tests.arch.source import ROOT, Import, imports, modules, package_imports, unit, within

RANK = {name: rank for rank, names in enumerate(layers.LAYERS) for name in names}


def layer_problems(found: list[Import]) -> list[str]:
    """Imports of sekai by sekai that go sideways or upwards without a documented exception."""
    problems = []
    for entry in found:
        if not within(entry.target, "sekai"):
            continue
        importer, target = unit(entry.module), unit(entry.target)
        if importer == target or RANK[target] < RANK[importer]:
            continue
        if (entry.module, entry.target) not in layers.LAZY_EXCEPTIONS:
            problems.append(f"{entry}: {target} is not below {importer}")
        elif not entry.deferred:
            problems.append(f"{entry}: a documented exception, but it must stand inside a function")
    return problems


def domain_problems(found: list[Import]) -> list[str]:
    """Imports that cross from one domain into another elsewhere than on the bridge."""
    return [
        f"{entry}: {package} must not reach {other}"
        for entry in found
        for package, others in layers.FORBIDDEN.items()
        for other in others
        if within(entry.module, package) and within(entry.target, other)
        if not any(within(entry.module, bridge) for bridge in layers.BRIDGES)
    ]


def place_problems(found: list[Import]) -> list[str]:
    """Imports of packages that live in named places, from anywhere else."""
    return [
        f"{entry}: {root} is imported only in {', '.join(layers.PLACES[root]) or 'no module'}"
        for entry in found
        if (root := entry.target.partition(".")[0]) in layers.PLACES
        if not any(within(entry.module, place) for place in layers.PLACES[root])
    ]


def undeclared(found: list[Import], declared: set[str]) -> list[str]:
    """Imports of third-party packages that no requirement of pyproject.toml names."""
    outside = [
        entry
        for entry in found
        if (root := entry.target.partition(".")[0]) != "sekai" and root not in sys.stdlib_module_names
    ]
    return [
        str(entry)
        for entry in outside
        if layers.DISTRIBUTIONS.get(root := entry.target.partition(".")[0], root).lower() not in declared
    ]


def parse(module: str, source: str, *, is_package: bool = False) -> list[Import]:
    known = frozenset({"sekai", "sekai.core", "sekai.core.env", "sekai.vector", "sekai.vector.base", "sekai.errors"})
    return list(imports(module, ast.parse(source), is_package=is_package, known=known))


def test_every_module_has_a_layer() -> None:
    outside = [module for module in modules() if unit(module) not in RANK]
    assert not outside, f"give them a line in tests/arch/layers.py: {outside}"


def test_modules_import_only_from_lower_layers() -> None:
    assert layer_problems(package_imports()) == []


def test_domains_meet_only_on_the_bridge() -> None:
    assert domain_problems(package_imports()) == []


def test_heavy_packages_are_imported_only_in_their_places() -> None:
    assert place_problems(package_imports()) == []


def test_every_third_party_import_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    requirements = [*project["dependencies"], *(line for extra in extras for line in extra)]
    declared = {re.split(r"[\[<>=!~; ]", line)[0].lower() for line in requirements}
    assert undeclared(package_imports(), declared) == []


def test_documented_exceptions_are_still_needed() -> None:
    used = {(entry.module, entry.target) for entry in package_imports()}
    assert [pair for pair in layers.LAZY_EXCEPTIONS if pair not in used] == []


@pytest.mark.parametrize(
    ("module", "source", "target"),
    [
        ("sekai.core.env", "import sekai.vector.base", "sekai.vector.base"),
        ("sekai.core.env", "from sekai import vector", "sekai.vector"),
        ("sekai.core.env", "from sekai.vector import base", "sekai.vector.base"),
        ("sekai.core.env", "from sekai.vector.base import VecEnv", "sekai.vector.base"),
        ("sekai.core.env", "from ..vector import base", "sekai.vector.base"),
        ("sekai.core.env", "from .. import vector", "sekai.vector"),
        ("sekai.core.env", "from sekai import make", "sekai"),
        ("sekai.core.env", "def f():\n    from sekai.vector import VecEnv", "sekai.vector"),
    ],
)
def test_an_upward_import_is_found_however_it_is_written(module: str, source: str, target: str) -> None:
    (found,) = parse(module, source)
    assert found.target == target
    assert layer_problems([found]) == [f"{found}: {unit(target)} is not below core"]


def test_downward_imports_and_imports_of_the_own_unit_are_fine() -> None:
    found = parse("sekai.core.env", "from sekai.errors import SekaiError\nfrom .env import x\nimport os")
    assert [entry.target for entry in found] == ["sekai.errors", "sekai.core.env", "os"]
    assert layer_problems(found) == []


def test_a_package_resolves_one_dot_to_itself() -> None:
    (found,) = parse("sekai.core", "from .env import Env", is_package=True)
    assert found.target == "sekai.core.env"


def test_an_exception_holds_for_deferred_imports_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(layers.LAZY_EXCEPTIONS, ("sekai.core.env", "sekai.vector"), "for this test")
    guarded = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sekai.vector import VecEnv"
    eager = parse("sekai.core.env", "from sekai.vector import VecEnv")
    assert layer_problems(parse("sekai.core.env", "def f():\n    import sekai.vector")) == []
    assert layer_problems(parse("sekai.core.env", guarded)) == []
    assert [problem.rpartition(", ")[2] for problem in layer_problems(eager)] == ["but it must stand inside a function"]


def test_the_domain_rule_knows_the_bridge() -> None:
    source = "from sekai.finance import metrics"
    assert len(domain_problems(parse("sekai.safety.learners", source))) == 1
    assert len(domain_problems(parse("sekai.collect.returns", source))) == 1
    assert domain_problems(parse("sekai.safety.tasks.finance", source)) == []
    assert domain_problems(parse("sekai.envs.finance.trading", source)) == []


def test_a_heavy_import_outside_its_place_is_found_even_in_a_function() -> None:
    source = "def f():\n    from torch import nn"
    assert len(place_problems(parse("sekai.core.env", source))) == 1
    assert place_problems(parse("sekai.safety.learners.ppo", source)) == []


def test_an_undeclared_package_is_found() -> None:
    found = parse("sekai.core.env", "import os, numpy.typing, scipy.stats\nfrom stable_baselines3 import PPO")
    assert undeclared(found, {"numpy", "stable-baselines3"}) == ["sekai.core.env:1 imports scipy.stats"]
