"""What is read from a device, or sent to it: counted by operation and by the function of ours or SB3's that asked.

On another device each of these waits for it. Most are seen where torch dispatches them. On a CPU, where tensors and
arrays share their memory, `cpu`, `numpy` and `tolist` dispatch nothing: those are seen as they are called.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import sekai

READS = {"_local_scalar_dense": "item", "nonzero": "nonzero", "masked_select": "mask", "lift_fresh": "from host"}
MASKED = ("index", "index_put", "index_put_")
PACKAGE = str(Path(sekai.__file__).parent)  # a clone may stand in a folder of the same name
CALLS = ("cpu", "numpy", "tolist", "__array__")


class Watched(TorchDispatchMode):  # type: ignore[misc]  # torch is an extra, and read as Any
    """A context in which they are counted: `{"function: operation": times}`."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self._calls = _Calls(self)

    def __enter__(self) -> Any:
        self._calls.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._calls.__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in READS:
            self.count(READS[name])
        elif name in MASKED and any(part is not None and part.dtype == torch.bool for part in args[1]):
            self.count("mask")
        elif name in ("copy_", "_to_copy"):
            source = args[1] if name == "copy_" else args[0]
            if source.device != made.device:
                self.count("from host" if source.device.type == "cpu" else "cpu")
        return made

    def count(self, operation: str) -> None:
        """Count for the function that asked; the optimisers of torch count their steps on the host."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if "/torch/optim/" in file:
                return
            if file.startswith(PACKAGE) or "/stable_baselines3/" in file or "/tests/safety/test_" in file:
                self.found[f"{frame.f_code.co_name}: {operation}"] += 1
                return
            frame = frame.f_back


class _Calls(TorchFunctionMode):  # type: ignore[misc]
    def __init__(self, watched: Watched) -> None:
        super().__init__()
        self._watched = watched

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        on_cpu = name in CALLS and args[0].device.type == "cpu"
        if on_cpu:
            self._watched.count(name)
        return func(*args, **(kwargs or {}))
