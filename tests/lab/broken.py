"""Environments that fail, and one that waits: registered by `sekai -m tests.lab.broken lab`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import sekai

#: folder in which these environments leave signs, and look for them
FOLDER = "SEKAI_LAB_TEST_FOLDER"


class Plain(sekai.Env[Any, Any]):
    """Counts its steps; episodes have ten."""

    observation_space = sekai.Box(0.0, 10.0, (1,), np.float64)
    action_space = sekai.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        self.t = 0
        return sekai.ResetResult(np.zeros(1), {})

    def step(self, action: Any) -> sekai.StepResult:
        self.t += 1
        return sekai.StepResult(np.full(1, float(self.t)), 1.0, self.t == 10, False, {"text": "<b>bold</b>"})


class Fails(Plain):
    """Raises in its third step."""

    def step(self, action: Any) -> sekai.StepResult:
        result = super().step(action)
        if self.t == 3:
            raise RuntimeError("the third step <b>fails</b>")
        return result


class Unbuildable(Plain):
    """Raises in its constructor."""

    def __init__(self) -> None:
        raise RuntimeError("no such licence")


class Signed(Plain):
    """Leaves a file for as long as it is open."""

    def __init__(self) -> None:
        self.sign = Path(os.environ[FOLDER]) / f"open-{os.getpid()}-{id(self)}"
        self.sign.touch()

    def close(self) -> None:
        self.sign.unlink()


class Waits(Plain):
    """Its second step takes until there is a file `go`."""

    def step(self, action: Any) -> sekai.StepResult:
        while self.t == 1 and not (Path(os.environ[FOLDER]) / "go").exists():
            time.sleep(0.01)
        return super().step(action)


for _class in (Plain, Fails, Unbuildable, Signed, Waits):
    sekai.register(f"Lab{_class.__name__}-v0", _class)
