"""Kernels: compiled lazily, equal to their Python, with or without a folder for the cache."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.core.kernels import Kernel, kernel


@kernel
def double(value: float) -> float:
    return 2.0 * value


@kernel
def double_all(values: Any, out: Any) -> None:
    for i in range(len(values)):
        out[i] = double(values[i]) / (values[i] - 1.0)


def test_a_kernel_called_as_a_function_is_the_python_function() -> None:
    assert double(3.0) == 6.0 == double.py_func(3.0)
    assert (double.__name__, double.__module__) == ("double", __name__)


def test_machine_code_equals_the_python_and_divides_like_numpy() -> None:
    values, python, machine = np.array([3.0, 0.5, 1.0]), np.zeros(3), np.zeros(3)
    with np.errstate(divide="ignore"):
        double_all(values, python)
    double_all.compiled(values, machine)
    # 2 * 3 / 2, 1 / -0.5, 2 / 0: no ZeroDivisionError
    assert machine.tolist() == python.tolist() == [3.0, -2.0, np.inf]


def test_kernels_called_inside_machine_code_are_machine_code() -> None:
    assert hasattr(double_all.compiled, "signatures")
    globals_ = double_all._with_compiled_callees().__globals__
    assert globals_["double"] is double.compiled
    assert double_all.py_func.__globals__["double"] is double  # the reference stays Python throughout


def test_without_a_folder_to_write_to_kernels_compile_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core import caching

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    fresh = Kernel(double_all.py_func)
    out = np.zeros(1)
    fresh.compiled(np.array([3.0]), out)
    assert out.tolist() == [3.0]
    assert fresh.compiled.stats.cache_path is None  # type: ignore[attr-defined]  # of numba's dispatcher


def test_with_a_folder_the_machine_code_is_kept(tmp_path: Path) -> None:
    code = (
        "from sekai.envs.finance.trading import kernel as tk; f = tk.retarget.compiled; f(1.0, 0.0, 1.0, 0.001);"
        "print(sum(f.stats.cache_hits.values()), sum(f.stats.cache_misses.values()))"
    )
    source = str(Path(sekai.__file__).parents[1])
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": source}
    runs = [
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [run.stdout.split() for run in runs] == [["0", "1"], ["1", "0"]]


def test_importing_finance_does_not_import_numba_and_making_an_environment_does_not_compile() -> None:
    code = (
        "import sys, sekai.finance, sekai.envs.finance as e; from sekai.envs.finance.trading import kernel as tk;"
        "heavy = {'numba', 'pandas', 'matplotlib', 'arch'}; print(sorted(heavy & set(sys.modules)));"
        "e.TradingEnv(); print(sorted(heavy & set(sys.modules)))"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(sekai.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:2] == ["[]", "[]"]


def test_a_kernel_pickles_by_its_name() -> None:
    from sekai.envs.finance.trading import kernel as trading_kernel

    trading_kernel.retarget.compiled  # noqa: B018  # machine code must not be in the way
    assert pickle.loads(pickle.dumps(trading_kernel.retarget)) is trading_kernel.retarget


def test_only_functions_at_the_top_of_a_module_can_be_kernels() -> None:
    with pytest.raises(TypeError, match="top level of a module"):
        kernel(lambda value: value)  # type: ignore[arg-type, misc]
    with pytest.raises(TypeError, match="top level of a module"):
        kernel(len)
