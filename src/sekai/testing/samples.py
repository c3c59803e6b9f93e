"""What the checks ask of observations."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from sekai.errors import InvalidObservation
from sekai.spaces import empty_batch, write_row
from sekai.testing.problems import Problems


def check_observation(space: gymnasium.Space[Any], observation: Any, problems: Problems, whose: str) -> None:
    """Note where an observation is no member of its space."""
    try:
        write_row(space, empty_batch(space, 1), 0, observation)
    except InvalidObservation as error:
        problems.add(
            "observation space", f"{whose} {_after_name(error)}", "Return what observation_space declares, or mend it."
        )
        return
    found = _other_dtype(space, observation)
    if has_nan(observation):
        problems.add("NaN", f"{whose} holds NaN.", "Find the operation that makes it; a learner cannot.")
    elif found is not None and not np.can_cast(*found):
        problems.add(
            "observation dtype",
            f"{whose} has dtype {found[0]}, and its space {found[1]}, which does not hold that.",
            f"Return it as {found[1]}, or declare {found[0]}.",
        )
    elif not space.contains(observation):
        problems.add(
            "observation space",
            f"{whose} is outside {space}: {_short(observation)}.",
            "Widen the bounds, or clip.",
        )
    elif found is not None:
        problems.add(
            "observation dtype",
            f"{whose} has dtype {found[0]}, and its space {found[1]}.",
            "Return the dtype that is declared: a network sees another precision than its buffers.",
            "warning",
        )


def has_nan(value: Any) -> bool:
    """Whether NaN stands anywhere in an observation."""
    if isinstance(value, dict):
        return any(map(has_nan, value.values()))
    if isinstance(value, (tuple, list)):
        return any(map(has_nan, value))
    array = np.asarray(value)
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _after_name(error: Exception) -> str:
    """The message of a row writer without the name of the row."""
    return str(error).partition("observation")[2].strip()


def _other_dtype(space: gymnasium.Space[Any], observation: Any) -> tuple[Any, Any] | None:
    """The first dtype that is not the declared one, with that one."""
    if isinstance(space, gymnasium.spaces.Dict):
        parts = [(part, observation[key]) for key, part in space.spaces.items()]
    elif isinstance(space, gymnasium.spaces.Tuple):
        parts = list(zip(space.spaces, observation, strict=True))
    else:
        dtype = getattr(observation, "dtype", space.dtype)
        is_array = isinstance(space, gymnasium.spaces.Box)
        return (dtype, space.dtype) if is_array and dtype != space.dtype else None
    return next((found for part, value in parts if (found := _other_dtype(part, value)) is not None), None)


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 200 else f"{text[:197]}..."
