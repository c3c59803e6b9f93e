"""Kernels: functions of arrays and numbers that exist once, as Python to read and as machine code to run.

    @kernel
    def double(values): ...

    double(values)             the Python function itself, the reference
    double.compiled(values)    the same function as machine code, compiled when first asked for

This is the only module that imports numba, and only when `compiled` is first read. Machine code releases the
interpreter lock, divides by zero as NumPy does, and reorders no arithmetic: it gives the bits the Python function
gives. It is kept on disk beside the source, or in numba's folder of the user; where neither can be written it is
compiled anew in each process.

A kernel may call other kernels by their global names, in machine code as in Python. The code on disk is renewed when
the file of the caller changes and at no other time, so the kernels and constants that one uses belong into its own
file, and whoever changes `OPTIONS` deletes the kept code (`*.nbi`, `*.nbc`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, update_wrapper
from types import FunctionType
from typing import Any

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


class Kernel:
    """A function written in the subset of Python that numba compiles; see the module.

    Attributes:
        py_func: the Python function.
    """

    def __init__(self, function: FunctionType) -> None:
        self.py_func = function
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Run the Python function."""
        return self.py_func(*arguments)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """The machine code; compiled for the types of the arguments at its first call."""
        import numba

        function = self._with_compiled_callees()
        try:
            return numba.njit(function, cache=True, **OPTIONS)  # type: ignore[no-any-return]  # numba has no types
        except RuntimeError:  # numba's way to say that it found no folder it could write to
            return numba.njit(function, **OPTIONS)  # type: ignore[no-any-return]  # numba has no types

    def _with_compiled_callees(self) -> FunctionType:
        """The function, with the kernels among its global names replaced by their machine code."""
        function = self.py_func
        known = function.__globals__
        names = [name for name in function.__code__.co_names if isinstance(known.get(name), Kernel)]
        if not names:
            return function
        copy = FunctionType(
            function.__code__, {**known, **{name: known[name].compiled for name in names}}, function.__name__
        )
        copy.__qualname__ = function.__qualname__
        copy.__module__ = function.__module__
        return copy

    def __reduce__(self) -> str:
        # a kernel is found by its name, as a function is
        return self.py_func.__qualname__


def kernel(function: Callable[..., Any]) -> Kernel:
    """Decorator: make a module-level function a `Kernel`."""
    if not isinstance(function, FunctionType) or "." in function.__qualname__:
        raise TypeError(f"A kernel must be a function at the top level of a module; given {function!r}.")
    return Kernel(function)
