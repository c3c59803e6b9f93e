"""`import sekai` in a fresh interpreter stays light."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.arch.layers import HEAVY
from tests.arch.source import SRC


def loaded(statement: str) -> set[str]:
    """Top-level names of all modules in a fresh interpreter after `statement`."""
    code = f"{statement}\nimport sys\nprint(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def baseline() -> set[str]:
    return loaded("import gymnasium")


def test_import_sekai_loads_nothing_heavy(baseline: set[str]) -> None:
    assert sorted((loaded("import sekai") - baseline) & set(HEAVY)) == []


@pytest.mark.parametrize("name", ["asyncio", "numba", "rich"])
def test_a_heavy_import_would_be_noticed(baseline: set[str], name: str) -> None:
    assert name in (loaded(f"import gymnasium, {name}") - baseline) & set(HEAVY)
