"""`to_sb3`: what can be told without importing Stable-Baselines3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from sekai.compat.checks import check_vec
from sekai.core import AutoresetMode
from sekai.spaces import Box
from sekai.vector import VecEnv

if TYPE_CHECKING:
    from sekai.compat.sb3 import Sb3VecEnv


def to_sb3(vec: VecEnv, *, action_bounds: tuple[ArrayLike, ArrayLike] | None = None) -> Sb3VecEnv:
    """A Stable-Baselines3 `VecEnv` over a sekai vector environment of any backend.

    `info["terminal_observation"]` is the last observation of the episode that ended; `info["TimeLimit.truncated"]` is
    `truncated and not terminated`, so that SB3 bootstraps where the episode was cut and only there. With
    `VecRecordEpisodeStatistics` around `vec`, SB3 logs its returns.

    Args:
        vec: in same_step mode, the only one that SB3 knows.
        action_bounds: `(low, high)` of a `Box` action space without bounds of its own, numbers or arrays of its shape.

    Raises:
        TypeError: no `sekai.VecEnv`.
        ValueError: another autoreset mode, or an action space that SB3 would mistake.
        ModuleNotFoundError: Stable-Baselines3 is not installed.

        >>> PPO("MlpPolicy", to_sb3(sekai.make_vec("CartPole-v1", num_envs=8))).learn(10_000)
    """
    vec = check_vec(vec, "to_sb3")
    if vec.autoreset is not AutoresetMode.SAME_STEP:
        raise ValueError(
            f"{vec} has autoreset={vec.autoreset.value!r}, and Stable-Baselines3 knows only same_step: build it with "
            "autoreset='same_step' (make_vec: vector_kwargs={'autoreset': 'same_step'})."
        )
    space = _action_space(vec.action_space, action_bounds)
    try:
        from sekai.compat.sb3 import Sb3VecEnv
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "stable_baselines3":
            raise
        raise ModuleNotFoundError(
            "to_sb3 needs Stable-Baselines3: pip install 'sekai-rl[safety]'.", name=error.name
        ) from error
    return Sb3VecEnv(vec, space)


def _action_space(space: gymnasium.Space[Any], bounds: tuple[ArrayLike, ArrayLike] | None) -> gymnasium.Space[Any]:
    """The action space that SB3 is shown."""
    if isinstance(space, (gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete)) and np.any(space.start):
        raise ValueError(
            f"The action space is {space}, and Stable-Baselines3 counts actions from 0: shift it, with start=0."
        )
    if not isinstance(space, gymnasium.spaces.Box) or space.is_bounded("both"):
        if bounds is None:
            return space
        raise ValueError(f"action_bounds was given, and the action space {space} has bounds of its own: leave it out.")
    if bounds is None:
        raise ValueError(
            f"The action space is {space}, without finite bounds, which squashed and clipped policies need: give "
            "to_sb3(vec, action_bounds=(low, high)), or bound it in the environment."
        )
    low, high = (np.broadcast_to(np.asarray(bound, space.dtype), space.shape) for bound in bounds)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError(f"action_bounds is {bounds!r}; expected finite (low, high) with low < high.")
    return Box(np.maximum(low, space.low), np.minimum(high, space.high), space.shape, space.low.dtype.type)
