"""Identity-coded vector environments on every backend, and what the tests read off their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sekai
from sekai.testing import CodedEnv, CodedVecEnv

BACKENDS = ("sync", "async", "proc", "native")
MODES = ("same_step", "next_step", "disabled")
CLASSES = {"sync": sekai.SyncVecEnv, "async": sekai.AsyncVecEnv, "proc": sekai.ProcVecEnv}


def coded(
    backend: str = "sync",
    lengths: Sequence[int] = (2, 3),
    endings: Any = None,
    mode: str = "same_step",
    **kwargs: Any,
) -> sekai.VecEnv:
    """Slot `i` is `CodedEnv(i, lengths[i], ending=endings[i])`; its observations are `(slot, episode, step)`."""
    endings = endings or ["terminated"] * len(lengths)
    if backend == "native":
        return CodedVecEnv(len(lengths), list(lengths), ending=list(endings), autoreset=mode, **kwargs)
    return CLASSES[backend](
        [factory(*each) for each in zip(range(len(lengths)), lengths, endings, strict=True)], autoreset=mode, **kwargs
    )


def factory(slot: int, length: int, ending: Any) -> Any:
    """A factory of one coded environment."""
    return lambda: CodedEnv(slot, length, ending=ending)


def places(observations: Any) -> list[tuple[int, ...]]:
    """`(slot, episode, step)` of every row."""
    return [tuple(int(entry) for entry in row) for row in observations]
