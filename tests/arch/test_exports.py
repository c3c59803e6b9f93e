"""`__all__` says what is public, and everything public has a docstring."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import types
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from tests.arch.layers import OPTIONAL
from tests.arch.source import modules, tree

PACKAGES = [module for module, path in modules().items() if path.name == "__init__.py"]
# Running it is its purpose, and importing it is running it.
IMPORTABLE = [module for module in modules() if module != "sekai.__main__"]


def load(name: str) -> types.ModuleType:
    """Import a module of sekai, or skip where it needs an extra that is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] in OPTIONAL:
            pytest.skip(f"{name} needs {error.name}, which is not installed")
        raise


def standard_names(module: str) -> set[str]:
    """Names a module's source imports from the standard library: its tools, not its offer."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ImportFrom) and not node.level
        if (node.module or "").partition(".")[0] in sys.stdlib_module_names
        for alias in node.names
    }


def public_names(module: types.ModuleType) -> set[str]:
    """Names a user reaches on the module without an underscore, submodules apart."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }


def export_problems(module: types.ModuleType, tools: Collection[str] = ()) -> list[str]:
    """Where `__all__` and the names that are there differ; `tools` need not be listed."""
    exported = list(getattr(module, "__all__", ()))
    problems = [f"{name} is listed twice" for name in sorted(set(exported)) if exported.count(name) > 1]
    problems += [f"{name} is listed and cannot be reached" for name in exported if not hasattr(module, name)]
    # Names resolved on first use are in the module only now that they were asked for.
    unlisted = public_names(module) - set(exported) - set(tools)
    return problems + [f"{name} is public and not listed" for name in sorted(unlisted)]


def undocumented(module: types.ModuleType) -> Iterator[str]:
    """Public classes and functions of a module without a docstring of their own."""
    for name in getattr(module, "__all__", ()):
        value: Any = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        doc = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        # Dataclasses and named tuples write "Name(field, ...)" themselves: that documents nothing.
        if not doc or not doc.strip() or doc.startswith(f"{value.__name__}("):
            yield name


@pytest.mark.parametrize("name", PACKAGES)
def test_all_equals_the_public_names(name: str) -> None:
    assert export_problems(load(name), standard_names(name)) == []


@pytest.mark.parametrize("name", IMPORTABLE)
def test_public_things_have_docstrings(name: str) -> None:
    assert list(undocumented(load(name))) == []


def test_the_root_exports_something() -> None:
    assert {"Env", "make", "make_vec", "VecEnv"} <= set(load("sekai").__all__)


def test_differences_between_all_and_the_module_are_found() -> None:
    module = types.ModuleType("example")
    module.__dict__.update(__all__=["Gone", "Env", "Env"], Env=1, Extra=2, _hidden=3, os=types)
    assert export_problems(module) == [
        "Env is listed twice",
        "Gone is listed and cannot be reached",
        "Extra is public and not listed",
    ]
    assert export_problems(module, {"Extra"})[2:] == []


def test_tools_from_the_standard_library_are_told_from_what_is_offered() -> None:
    assert {"annotations", "Any", "NamedTuple"} <= standard_names("sekai.core.results")
    assert "StepResult" not in standard_names("sekai.core.results")


def test_missing_docstrings_are_found() -> None:
    class Bare:
        pass

    class Inherits(types.SimpleNamespace):
        pass

    class Generated:
        __doc__ = "Generated(x: int)"

    class Documented:
        """Says what it is."""

    def bare() -> None: ...

    module = types.ModuleType("example")
    public = {
        "Bare": Bare,
        "Inherits": Inherits,
        "Generated": Generated,
        "Documented": Documented,
        "bare": bare,
    }
    module.__dict__.update(public, __all__=[*public, "LIMIT"], LIMIT=3)
    assert list(undocumented(module)) == ["Bare", "Inherits", "Generated", "bare"]
