"""Action masks in the observation: which actions are allowed in the state shown.

A mask has one entry per choice, 1 where it is allowed. As in gymnasium's `sample(mask)` it is an array for
`Discrete` and `MultiBinary`, and nested like the space for `MultiDiscrete`, `Tuple` and `Dict`; here it is flat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.core.env import find_attr
from sekai.core.results import ResetResult, StepResult
from sekai.core.wrapper import Wrapper
from sekai.errors import InvalidObservation
from sekai.spaces import Dict, MultiBinary

Mask = NDArray[np.int8]


class ActionMaskObservation(Wrapper):
    """Add the mask of allowed actions to the observation.

    A `Dict` observation gains the entry `key`; any other becomes `{"observation": ..., key: mask}`. The mask comes
    from the environment's method `action_mask()`, or where there is none from `info[key]`. With the last observation
    of an episode it comes from `info[key]`, and is all ones where the info has none: nobody acts there.

    Args:
        env: an environment with discrete actions.
        key: name of the mask in the observation, and in the info.

    Raises:
        TypeError: an action space that has no mask.
        ValueError: the observation has an entry `key` already.
    """

    vector_version = "VecActionMaskObservation"

    def __init__(self, env: gymnasium.Env[Any, Any], *, key: str = "action_mask") -> None:
        super().__init__(env)
        self.key = key
        self._size = mask_size(env.action_space)
        self.observation_space = masked_space(env.observation_space, self._size, key)
        self._calls = has_method(env)

    def after_step(self, result: StepResult) -> StepResult:
        """Add the mask."""
        observation, info = result.observation, result.info
        if not result.done:
            return result._replace(observation=self._with(observation, self._current(info)))
        final = self._final(info)
        if not self.resets_itself:
            return result._replace(observation=self._with(observation, final))
        first = self._with(observation, self._current(info["reset_info"]))
        return result._replace(
            observation=first,
            info={**info, "final_observation": self._with(info["final_observation"], final)},
        )

    def after_reset(self, result: ResetResult) -> ResetResult:
        """Add the mask."""
        return result._replace(observation=self._with(result.observation, self._current(result.info)))

    def _current(self, info: Mapping[str, Any]) -> Mask:
        if self._calls:
            return flatten_mask(self.action_space, find_attr(self.env, "action_mask")[1](), "the environment")
        return mask_of_info(self.action_space, info, self.key, "the environment")

    def _final(self, info: Mapping[str, Any]) -> Mask:
        return final_mask(self.action_space, info, self.key, "the environment")

    def _with(self, observation: Any, mask: Mask) -> dict[str, Any]:
        return with_mask(self.env.observation_space, observation, mask, self.key)


def mask_size(space: gymnasium.Space[Any]) -> int:
    """Number of choices that the mask of an action space speaks of.

    Raises:
        TypeError: a space with a part that has no mask.
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(space.n)
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return int(space.nvec.sum())
    if isinstance(space, gymnasium.spaces.MultiBinary):
        return int(np.prod(space.shape))
    if isinstance(space, gymnasium.spaces.Dict):
        return sum(map(mask_size, space.spaces.values()))
    if isinstance(space, gymnasium.spaces.Tuple):
        return sum(map(mask_size, space.spaces))
    raise TypeError(f"There is no mask of allowed actions for {space}; expected discrete parts only.")


def masked_space(space: gymnasium.Space[Any], size: int, key: str) -> Dict:
    """The observation space with a mask of `size` entries.

    Raises:
        ValueError: there is an entry `key` already.
    """
    parts: list[tuple[str, Any]] = [("observation", space)]
    if isinstance(space, gymnasium.spaces.Dict):
        parts = list(space.spaces.items())
    if key in dict(parts):
        raise ValueError(f"The observation has an entry {key!r} already; give another key.")
    return Dict([*parts, (key, MultiBinary(size))], sort_keys=False)


def with_mask(space: gymnasium.Space[Any], observation: Any, mask: Mask, key: str) -> dict[str, Any]:
    """An observation of `space`, or a batch of them, with its mask."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {**observation, key: mask}
    return {"observation": observation, key: mask}


def has_method(env: Any) -> bool:
    """Whether a layer of an environment has the method `action_mask`."""
    try:
        find_attr(env, "action_mask")
    except AttributeError:
        return False
    return True


def mask_of_info(space: gymnasium.Space[Any], info: Mapping[str, Any], key: str, whose: str) -> Mask:
    """The mask that an info carries, flat.

    Raises:
        InvalidObservation: it carries none, or one that does not fit.
    """
    if key not in info:
        raise InvalidObservation(f"{whose} has no method action_mask(), and its info no {key!r}: {sorted(info)}.")
    return flatten_mask(space, info[key], whose)


def final_mask(space: gymnasium.Space[Any], info: Mapping[str, Any], key: str, whose: str) -> Mask:
    """The mask that belongs to the last observation of an episode; see `ActionMaskObservation`."""
    return flatten_mask(space, info[key], whose) if key in info else np.ones(mask_size(space), np.int8)


def flatten_mask(space: gymnasium.Space[Any], mask: Any, whose: str) -> Mask:
    """A mask of `space` as one array, int8 `(mask_size(space),)`; a flat one is taken as it is.

    Raises:
        InvalidObservation: another length or structure, or entries that are not 0 or 1.
    """
    pieces = [np.asarray(piece).reshape(-1) for piece in _pieces(space, mask)]
    flat = np.concatenate(pieces) if pieces else np.zeros(0, np.int8)
    if flat.shape != (mask_size(space),) or not np.isin(flat, (0, 1)).all():
        raise InvalidObservation(
            f"{whose} has the action mask {mask!r}; expected {mask_size(space)} entries of 0 or 1, one for each choice "
            f"of {space}."
        )
    return flat.astype(np.int8)


def _pieces(space: gymnasium.Space[Any], mask: Any) -> list[Any]:
    """The arrays that a mask is made of; what does not have the structure of the space is left in one piece."""
    nested = isinstance(mask, (tuple, list))
    if isinstance(space, gymnasium.spaces.Dict) and isinstance(mask, Mapping):
        return [piece for key, part in space.spaces.items() for piece in _pieces(part, mask.get(key, ()))]
    if isinstance(space, gymnasium.spaces.Tuple) and nested and len(mask) == len(space.spaces):
        return [piece for part, inner in zip(space.spaces, mask, strict=True) for piece in _pieces(part, inner)]
    return list(mask) if isinstance(space, gymnasium.spaces.MultiDiscrete) and nested else [mask]
