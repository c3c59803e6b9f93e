"""Read the source as `ast`: which module imports what, and where. Nothing of sekai is imported here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"


@dataclass(frozen=True)
class Import:
    """One imported name: `module` (the importer) imports `target` in `line`.

    `deferred` is True inside a function and under `if TYPE_CHECKING`, where it does not run on import.
    """

    module: str
    target: str
    line: int
    deferred: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name, packages included."""
    found = {}
    for path in sorted((SRC / "sekai").rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    """The parsed source of one module of the package."""
    path = modules()[module]
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def unit(module: str) -> str:
    """The unit a dotted name of sekai belongs to: `sekai.core.slots` -> `core`, `sekai` -> `sekai`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def within(module: str, package: str) -> bool:
    """Whether `module` is `package` or lies inside it."""
    return module == package or module.startswith(f"{package}.")


def imports(module: str, source: ast.Module, *, is_package: bool, known: frozenset[str]) -> Iterator[Import]:
    """All imports of one module, with relative ones resolved.

    `from sekai import x` targets the module `sekai.x` where there is one (`known`), else the root `sekai`.
    """
    package = module if is_package else module.rpartition(".")[0]
    for node, deferred in _walk(source, False):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno, deferred)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                stem = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*stem, base] if base else stem)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield Import(module, name if name in known else base, node.lineno, deferred)


def package_imports() -> list[Import]:
    """All imports of all modules of the package."""
    known = frozenset(modules())
    return [
        found
        for module, path in modules().items()
        for found in imports(module, tree(module), is_package=path.name == "__init__.py", known=known)
    ]


def _walk(node: ast.AST, deferred: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        yield child, deferred
        inside = deferred or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for statement in child.body:
                yield statement, True
                yield from _walk(statement, True)
            for statement in child.orelse:
                yield statement, inside
                yield from _walk(statement, inside)
        else:
            yield from _walk(child, inside)
