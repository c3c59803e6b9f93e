"""The public names of sekai, read from the source: what each package offers, where it is defined, and what it says.

Public is what `__all__` lists, in every package and in the modules that have one; of the modules in `DIRECT`, which
users import from by their own name, also what they define without an underscore.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
#: modules that the manual imports from, and that no package re-exports
DIRECT = (
    "sekai.errors",
    "sekai.finance.datasets",
    "sekai.safety.backups",
    "sekai.safety.binomial",
    "sekai.safety.calibration",
    "sekai.safety.certificates",
    "sekai.safety.certify",
    "sekai.safety.discount",
    "sekai.safety.opponents",
    "sekai.safety.promises",
    "sekai.safety.returns",
    "sekai.safety.saving",
    "sekai.safety.training",
    "sekai.safety.truth",
)


@dataclass(frozen=True)
class Name:
    """A public name: reached as `place.name`, defined as `origin`, summed up by the first line of its docstring."""

    place: str
    name: str
    origin: str
    summary: str

    @property
    def path(self) -> str:
        return f"{self.place}.{self.name}"


@dataclass(frozen=True)
class Place:
    """A package or module with public names."""

    path: str
    summary: str
    names: list[Name] = field(default_factory=list)


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name."""
    found = {}
    for path in sorted((SRC / "sekai").rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


def exports(module: str) -> list[str]:
    """What `__all__` of a module lists; for the modules in `DIRECT` what they define."""
    for node in tree(module).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            return list(ast.literal_eval(node.value))  # type: ignore[attr-defined]  # both kinds of node have one
    if module not in DIRECT:
        return []
    defined = (node for node in tree(module).body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return sorted(node.name for node in defined if not node.name.startswith("_"))


def origin(module: str, name: str) -> str:
    """Where a name is defined: `sekai.Box` -> `sekai.spaces.boxes.Box`; for an exported module its own path."""
    for node in ast.walk(tree(module)):
        if not isinstance(node, ast.ImportFrom) or node.module not in modules():
            continue
        for alias in node.names:
            if (alias.asname or alias.name) == name:
                within = f"{node.module}.{alias.name}"
                return within if within in modules() else origin(node.module, alias.name)
    return f"{module}.{name}"


def definition(path: str) -> ast.AST | None:
    """The class, function or module that a path of `origin` names; None for a value."""
    if path in modules():
        return tree(path)
    module, _, name = path.rpartition(".")
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return node
    return None


def summary(node: ast.AST | None) -> str:
    """The first line of a docstring; empty for a value."""
    doc = ast.get_docstring(node) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) else None
    return doc.splitlines()[0] if doc else ""


@cache
def places() -> list[Place]:
    """Every place with public names, packages before what is in them."""
    found = []
    for module in modules():
        if names := exports(module):
            listed = []
            for name in names:
                where = origin(module, name)
                listed.append(Name(module, name, where, summary(definition(where))))
            found.append(Place(module, summary(tree(module)), listed))
    return found


def group(path: str) -> str:
    """The first package below the root: `sekai.safety.oracle` -> `safety`; the root itself is `sekai`."""
    parts = path.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


@cache
def homes() -> dict[str, Name]:
    """By origin, the one public name under which a thing is described: the shortest one outside the root."""
    found: dict[str, Name] = {}
    for place in sorted(places(), key=lambda place: (place.path == "sekai", place.path.count("."), place.path)):
        for name in place.names:
            found.setdefault(name.origin, name)
    return found
