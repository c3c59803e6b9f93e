"""Identity-coded vector environments on every backend, and what the tests read off their rows."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode as GymnasiumMode
from gymnasium.vector import SyncVectorEnv

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


class Fresh(gymnasium.Wrapper):
    """Around a coded environment: gymnasium and SB3 keep what they were given, and it reuses its buffers."""

    def reset(self, **given: Any) -> Any:
        return deepcopy(tuple(self.env.reset(**given)))

    def step(self, action: Any) -> Any:
        return deepcopy(tuple(self.env.step(action)))


def gymnasium_coded(
    lengths: Sequence[int] = (2, 3), endings: Any = None, mode: str = "same_step", cls: Any = None
) -> Any:
    """The same slots in a vector environment of gymnasium's own."""
    endings = endings or ["terminated"] * len(lengths)
    makers = [
        lambda make=factory(*each): Fresh(make())  # noqa: B008  # bound here, in the loop
        for each in zip(range(len(lengths)), lengths, endings, strict=True)
    ]
    return (cls or SyncVectorEnv)(makers, autoreset_mode=GymnasiumMode[mode.upper()])


def places(observations: Any) -> list[tuple[int, ...]]:
    """`(slot, episode, step)` of every row."""
    return [tuple(int(entry) for entry in row) for row in observations]
