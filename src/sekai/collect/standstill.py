"""What an evaluation must leave as it was, and rewards as they were before wrappers changed them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import walk
from sekai.stats.state import Freezable
from sekai.vector import VecEnv, VecStepResult, VecWrapper
from sekai.vector.local import LocalVecEnv

_NORMALIZERS = ("NormalizeObservation", "NormalizeReward")


def wrappers_of(vec: VecEnv) -> list[VecWrapper]:
    """The vector wrappers, outermost first."""
    found = []
    while isinstance(vec, VecWrapper):
        found.append(vec)
        vec = vec.venv
    return found


@contextmanager
def normalizers_at_rest(vec: VecEnv) -> Iterator[None]:
    """Let the statistics of normalisers, around the slots and inside them, stand still; afterwards they are as before.

    Raises:
        ValueError: two normalisers around one sub-environment in another process, where only one can be reached.
    """
    with ExitStack() as stack:
        for layer in wrappers_of(vec):
            if isinstance(layer, Freezable):
                stack.enter_context(_at_rest(layer))
        base = vec.unwrapped
        if isinstance(base, LocalVecEnv):
            for env in base.envs:
                for inner in walk(env):
                    if isinstance(inner, Freezable):
                        stack.enter_context(_at_rest(inner))
        else:
            _set_at_rest(base, stack)
        yield


@contextmanager
def _at_rest(layer: Any) -> Iterator[None]:
    saved = layer.state_dict()
    try:
        with layer.freeze():
            yield
    finally:
        layer.load_state_dict(saved)  # a normaliser of rewards also keeps the returns of episodes under way


def _set_at_rest(base: VecEnv, stack: ExitStack) -> None:
    """The same for sub-environments in other processes, by the attribute that normalisers have for it."""
    found = [name for name in base.layers() if name in _NORMALIZERS]
    if not found:
        return
    if len(found) > 1:
        raise ValueError(
            f"The sub-envs of {base} have {' and '.join(found)}, and from outside only one of them can be frozen: use "
            "VecNormalizeObservation and VecNormalizeReward around the vector environment."
        )
    stack.callback(base.set_attr, "update_running_mean", base.get_attr("update_running_mean"))
    base.set_attr("update_running_mean", False)


class _Listener(VecWrapper):
    """Keeps the rewards of the last call."""

    rewards: NDArray[np.float64]

    def after_step(self, result: VecStepResult) -> VecStepResult:
        self.rewards = result.rewards.copy()
        return result


@contextmanager
def listening(vec: VecEnv) -> Iterator[_Listener | None]:
    """The rewards of the innermost vector environment, beneath all vector wrappers; None where there are none."""
    wrappers = wrappers_of(vec)
    if not wrappers:
        yield None
        return
    innermost = wrappers[-1]
    base = innermost.venv
    innermost.venv = listener = _Listener(base)
    try:
        yield listener
    finally:
        innermost.venv = base
