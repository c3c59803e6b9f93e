"""`PadSequenceObservation`: sequences of changing length as arrays of one size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import gymnasium

from sekai.core.wrapper import ObservationWrapper
from sekai.errors import InvalidObservation
from sekai.spaces import Dict, MaskedBox, Tuple
from sekai.spaces.checks import whole_number

Truncate: TypeAlias = Literal["tail", "head", "error"]


class PadSequenceObservation(ObservationWrapper):
    """Turn every `Sequence` of `Box` items into a `MaskedBox`, the items in order in its first places.

        max_length 3          elements       mask
        (a, b)                [a, b, 0]      [1, 1, 0]
        (a, b, c, d)  tail    [b, c, d]      [1, 1, 1]
                      head    [a, b, c]      [1, 1, 1]

    Args:
        env: an environment with a `Sequence` somewhere in its observation space.
        max_length: places, at least 1.
        truncate: of a longer sequence keep the last items (`"tail"`), the first (`"head"`), or raise (`"error"`).

    Raises:
        TypeError: no `Sequence`, or one whose items are no `Box`.
        ValueError: `max_length` below 1, or an unknown `truncate`.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], max_length: int, *, truncate: Truncate = "tail") -> None:
        super().__init__(env)
        self.max_length = whole_number("PadSequenceObservation: max_length", max_length, minimum=1)
        if truncate not in ("tail", "head", "error"):
            raise ValueError(f"PadSequenceObservation: truncate is {truncate!r}; expected 'tail', 'head' or 'error'.")
        self.truncate = truncate
        if not _has_sequence(env.observation_space):
            raise TypeError(f"PadSequenceObservation found no Sequence in {env.observation_space}.")
        self.observation_space, self._pad = self._padded(env.observation_space, "")

    def observation(self, observation: Any) -> Any:
        """The observation with its sequences padded.

        Raises:
            InvalidObservation: a sequence longer than `max_length`, with `truncate="error"`.
        """
        return self._pad(observation)

    def _padded(self, space: gymnasium.Space[Any], place: str) -> tuple[Any, Callable[[Any], Any]]:
        if isinstance(space, gymnasium.spaces.Sequence):
            return self._padded_sequence(space, place)
        if isinstance(space, gymnasium.spaces.Dict) and _has_sequence(space):
            parts = {key: self._padded(part, f"{place}[{key!r}]") for key, part in space.spaces.items()}
            inner = Dict([(key, part) for key, (part, _) in parts.items()], sort_keys=space.sort_keys)
            return inner, lambda value: {key: pad(value[key]) for key, (_, pad) in parts.items()}
        if isinstance(space, gymnasium.spaces.Tuple) and _has_sequence(space):
            places = [self._padded(part, f"{place}[{k}]") for k, part in enumerate(space.spaces)]
            return (
                Tuple(part for part, _ in places),
                lambda value: tuple(pad(part) for (_, pad), part in zip(places, value, strict=True)),
            )
        return space, lambda value: value

    def _padded_sequence(self, space: gymnasium.spaces.Sequence, place: str) -> tuple[MaskedBox, Callable[[Any], Any]]:
        item = space.feature_space
        if not isinstance(item, gymnasium.spaces.Box):
            raise TypeError(f"PadSequenceObservation pads sequences of Box items; observation{place} is {space}.")
        padded = MaskedBox(item.low, item.high, item.shape, self.max_length, dtype=item.dtype)

        def pad(value: Any) -> Any:
            if len(value) > self.max_length:
                if self.truncate == "error":
                    raise InvalidObservation(
                        f"PadSequenceObservation: observation{place} has {len(value)} items, and max_length is "
                        f"{self.max_length}; raise it, or set truncate to 'tail' or 'head'."
                    )
                value = value[-self.max_length :] if self.truncate == "tail" else value[: self.max_length]
            try:
                return padded.pack(value)
            except InvalidObservation as error:
                raise InvalidObservation(f"PadSequenceObservation: observation{place}: {error}") from error

        return padded, pad


def _has_sequence(space: gymnasium.Space[Any]) -> bool:
    if isinstance(space, gymnasium.spaces.Dict):
        return any(map(_has_sequence, space.spaces.values()))
    if isinstance(space, gymnasium.spaces.Tuple):
        return any(map(_has_sequence, space.spaces))
    return isinstance(space, gymnasium.spaces.Sequence)
