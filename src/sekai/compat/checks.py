"""What the adapters refuse, each before anything moves."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from sekai.core import AutoresetMode, RowKind
from sekai.errors import ResetRequired
from sekai.vector import VecEnv, VecStepResult


def check_vec(vec: Any, adapter: str) -> VecEnv:
    """`vec`, held to be a sekai vector environment.

    Raises:
        TypeError: it is none; the message says what takes what was given.
    """
    if isinstance(vec, VecEnv):
        return vec
    advice = "make one with sekai.make_vec(id, num_envs=...)"
    if isinstance(vec, gymnasium.vector.VectorEnv):
        advice = "first call sekai.compat.from_gymnasium_vector(env)"
    raise TypeError(f"{adapter} takes a sekai.VecEnv; given {vec!r} ({type(vec).__name__}): {advice}.")


def refuse_lost_rows(vec: VecEnv, outside: str) -> None:
    """Refuse a step after rows were lost, where the other side has no word for such a row.

    Raises:
        ResetRequired: an earlier call failed, and the caller never saw the latest rows of some slots.
    """
    lost = vec.lost_rows
    if lost.any():
        raise ResetRequired(
            f"The latest rows of sub-envs {np.flatnonzero(lost).tolist()} were never seen, since an earlier call "
            f"failed, and {outside} cannot leave a row out: call reset() first."
        )


def refuse_waiting_rows(vec: VecEnv, result: VecStepResult, outside: str) -> None:
    """Refuse the rows of slots that wait for others after their own end, where the other side would learn from them.

    Raises:
        RuntimeError: agents of one environment (`from_pettingzoo`) have not ended together.
    """
    if result.plain:
        return
    waiting = result.kind == RowKind.FROZEN
    if vec.autoreset is AutoresetMode.SAME_STEP:
        waiting |= result.ended & ~result.begun
    if waiting.any() and "AutoReset" not in vec.layers():  # whose slots have begun anew, and do not say so
        raise RuntimeError(
            f"The episodes of sub-envs {np.flatnonzero(waiting).tolist()} have ended before those of other agents of "
            f"the same environment, for which they wait, and {outside} cannot leave a row out: let the agents end "
            "together, or use sekai.collect.Collector."
        )
