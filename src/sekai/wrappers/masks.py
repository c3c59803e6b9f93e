"""Action masks in the observation: which actions are allowed in the state shown.

A mask has one entry per choice, 1 where it is allowed. As in gymnasium's `sample(mask)` it is an array for
`Discrete`, and nested like the space for `MultiDiscrete`, `Tuple` and `Dict`; here it is flat. An entry of
`MultiBinary` is 1 where the bit may be set (gymnasium's 1, must be set, and 2, may be either, both count as that).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
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
        if not (self.resets_itself and "final_observation" in info):
            return result._replace(observation=self._with(observation, final))
        first = self._with(observation, self._current(info.get("reset_info", info)))
        return result._replace(
            observation=first,
            info={**info, "final_observation": self._with(info["final_observation"], final)},
        )

    def after_reset(self, result: ResetResult) -> ResetResult:
        """Add the mask."""
        return result._replace(observation=self._with(result.observation, self._current(result.info)))

    def _current(self, info: Mapping[str, Any]) -> Mask:
        if self._calls:
            return flatten_mask(self.action_space, read_mask(self.env), "the environment")
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
    """Whether a layer of an environment has the method, or the attribute, `action_mask`.

    A method that wants arguments, as that of gymnasium's Taxi, is another one.
    """
    try:
        value = find_attr(env, "action_mask")[1]
    except AttributeError:
        return False
    if not callable(value):
        return True
    try:
        inspect.signature(value).bind()
    except TypeError:
        return False
    return True


def mask_of_info(space: gymnasium.Space[Any], info: Mapping[str, Any], key: str, whose: str) -> Mask:
    """The mask that an info carries, flat.

    Raises:
        InvalidObservation: it carries none, or one that does not fit.
    """
    if key not in info:
        raise InvalidObservation(
            f"{whose} gave no action mask: its info has no {key!r}, only {sorted(info)}. Put it there in reset and "
            "step, or wrap each environment that has a method action_mask() in ActionMaskObservation."
        )
    return flatten_mask(space, info[key], whose)


def final_mask(space: gymnasium.Space[Any], info: Mapping[str, Any], key: str, whose: str) -> Mask:
    """The mask that belongs to the last observation of an episode; see `ActionMaskObservation`."""
    return flatten_mask(space, info[key], whose) if key in info else np.ones(mask_size(space), np.int8)


def gymnasium_mask(space: gymnasium.Space[Any], flat: Mask) -> Any:
    """A flat mask in the form that `space.sample(mask=...)` takes, the inverse of `flatten_mask`."""
    if isinstance(space, gymnasium.spaces.Dict):
        ends = np.cumsum([mask_size(part) for part in space.spaces.values()])[:-1]
        parts = zip(space.spaces.items(), np.split(flat, ends), strict=True)
        return {key: gymnasium_mask(part, piece) for (key, part), piece in parts}
    if isinstance(space, gymnasium.spaces.Tuple):
        ends = np.cumsum([mask_size(part) for part in space.spaces])[:-1]
        return tuple(
            gymnasium_mask(part, piece) for part, piece in zip(space.spaces, np.split(flat, ends), strict=True)
        )
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return _nested(space.nvec, iter(np.split(flat, np.cumsum(space.nvec.reshape(-1))[:-1])))
    if isinstance(space, gymnasium.spaces.MultiBinary):
        return 2 * flat.reshape(space.shape)  # may be either
    return flat


def _nested(counts: Any, pieces: Iterator[Mask]) -> Any:
    return next(pieces) if np.ndim(counts) == 0 else tuple(_nested(count, pieces) for count in counts)


def read_mask(env: Any) -> Any:
    """The mask that the method, or the attribute, `action_mask` of an environment gives."""
    value = find_attr(env, "action_mask")[1]
    return value() if callable(value) else value


def flatten_mask(space: gymnasium.Space[Any], mask: Any, whose: str) -> Mask:
    """A mask of `space` as one array, int8 `(mask_size(space),)`; a flat array is taken as it is.

    Raises:
        InvalidObservation: another length or structure, or entries that are not 0 or 1.
    """
    pieces: list[Mask | None]
    if isinstance(mask, (np.ndarray, list, tuple)) and all(isinstance(entry, (int, np.generic)) for entry in mask):
        pieces = [_entries(mask, mask_size(space))]
    else:
        pieces = _pieces(space, mask)
    if any(piece is None for piece in pieces):
        raise InvalidObservation(
            f"{whose} has the action mask {mask!r}; expected {mask_size(space)} entries of 0 or 1, one for each choice "
            f"of {space}."
        )
    return np.concatenate(pieces)  # type: ignore[arg-type]  # no None is left


def _pieces(space: gymnasium.Space[Any], mask: Any) -> list[Mask | None]:
    """The arrays that a mask is made of; None for each part that does not have the structure of its space."""
    if isinstance(space, gymnasium.spaces.Dict):
        if not isinstance(mask, Mapping) or mask.keys() != space.spaces.keys():
            return [None]
        return [piece for key, part in space.spaces.items() for piece in _pieces(part, mask[key])]
    if isinstance(space, gymnasium.spaces.Tuple):
        if not isinstance(mask, (tuple, list)) or len(mask) != len(space.spaces):
            return [None]
        return [piece for part, inner in zip(space.spaces, mask, strict=True) for piece in _pieces(part, inner)]
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return _choices(space.nvec, mask)
    if isinstance(space, gymnasium.spaces.MultiBinary):
        return [_entries(np.minimum(mask, 1) if isinstance(mask, np.ndarray) else mask, mask_size(space))]
    return [_entries(mask, mask_size(space))]


def _choices(counts: Any, mask: Any) -> list[Mask | None]:
    """The pieces of a mask that is nested like the counts of a `MultiDiscrete`."""
    if np.ndim(counts) == 0:
        return [_entries(mask, int(counts))]
    if not isinstance(mask, (tuple, list)) or len(mask) != len(counts):
        return [None]
    return [piece for count, inner in zip(counts, mask, strict=True) for piece in _choices(count, inner)]


def _entries(mask: Any, size: int) -> Mask | None:
    """So many entries of 0 or 1 as int8; None where it is anything else."""
    try:
        flat = np.asarray(mask).reshape(-1)
    except ValueError:  # no regular array
        return None
    if flat.shape != (size,) or flat.dtype.kind not in "biuf" or not np.isin(flat, (0, 1)).all():
        return None
    return flat.astype(np.int8)
