"""Habits that a linter does not know: no printing, nothing swallowed, no global random state."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.arch.layers import PRINTS, SEEDS_GLOBALS
from tests.arch.source import modules, within

# What makes a generator; every other name of numpy.random draws from the global one.
GENERATORS = frozenset(
    {
        "default_rng",
        "Generator",
        "SeedSequence",
        "BitGenerator",
        "PCG64",
        "PCG64DXSM",
        "MT19937",
        "Philox",
        "SFC64",
    }
)


def habits(source: str, *, may_print: bool = False, may_seed: bool = False) -> Iterator[str]:
    """Problems of one module's source, as `line: what`."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            if not may_print:
                yield f"{node.lineno}: prints"
        elif isinstance(node, ast.ExceptHandler):
            if node.type is None:
                yield f"{node.lineno}: bare except"
            elif _swallows(node) and "#" not in lines[node.body[-1].lineno - 1]:
                yield f"{node.lineno}: swallows every exception, and no comment says why"
        elif "random" in _absolute_imports(node) and not may_seed:
            yield f"{node.lineno}: imports the global random module"
        elif isinstance(node, ast.Attribute) and node.attr not in GENERATORS and _is_numpy_random(node.value):
            if may_seed and node.attr in ("seed", "get_state", "set_state"):
                continue
            yield f"{node.lineno}: draws from NumPy's global generator"


def _absolute_imports(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    return {node.module or ""} if isinstance(node, ast.ImportFrom) and not node.level else set()


def _swallows(handler: ast.ExceptHandler) -> bool:
    catches_all = isinstance(handler.type, ast.Name) and handler.type.id in {"Exception", "BaseException"}
    return catches_all and isinstance(handler.body[-1], ast.Pass)


def _is_numpy_random(node: ast.expr) -> bool:
    return ast.unparse(node) in {"np.random", "numpy.random"}


@pytest.mark.parametrize("module", modules())
def test_source_keeps_the_habits(module: str) -> None:
    may_print = any(within(module, place) for place in PRINTS)
    may_seed = any(within(module, place) for place in SEEDS_GLOBALS)
    source = modules()[module].read_text(encoding="utf-8")
    assert list(habits(source, may_print=may_print, may_seed=may_seed)) == []


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("print('x')", "1: prints"),
        ("try:\n    f()\nexcept:\n    raise", "3: bare except"),
        (
            "try:\n    f()\nexcept Exception:\n    pass",
            "3: swallows every exception, and no comment says why",
        ),
        ("import random", "1: imports the global random module"),
        ("from random import choice", "1: imports the global random module"),
        ("np.random.normal()", "1: draws from NumPy's global generator"),
        ("numpy.random.seed(0)", "1: draws from NumPy's global generator"),
    ],
)
def test_a_broken_habit_is_found(source: str, problem: str) -> None:
    assert list(habits(source)) == [problem]


@pytest.mark.parametrize(
    "source",
    [
        "pprint('x')",
        "rng = np.random.default_rng(np.random.SeedSequence(0))",
        "x: np.random.Generator",
        "try:\n    f()\nexcept Exception:\n    raise",
        "try:\n    f()\nexcept KeyError:\n    pass",
        "try:\n    f()\nexcept Exception:\n    pass  # a second way follows",
        "self.random.choice()",
        "from . import random",
    ],
)
def test_what_only_looks_like_one_is_left_alone(source: str) -> None:
    assert list(habits(source)) == []


def test_a_worker_may_seed_the_global_generators_and_not_draw_from_them() -> None:
    assert list(habits("import random\nnp.random.seed(0)", may_seed=True)) == []
    assert list(habits("np.random.normal()", may_seed=True)) == ["1: draws from NumPy's global generator"]


def test_the_command_line_may_print() -> None:
    assert list(habits("print('x')", may_print=True)) == []
