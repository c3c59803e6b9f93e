"""`Frames`: the last few samples of every slot, for stacks and delays, single (one slot) and vector alike.

depth 3, pushes a, b, c, d       start(a)   push(b)   push(c)   push(d)
padding "reset"                  [a a a]    [a a b]   [a b c]   [b c d]
padding "zeros"                  [0 0 a]    [0 a b]   [a b c]   [b c d]
                                  ^ oldest      ^ newest
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np
from gymnasium.wrappers.utils import create_zero_array
from numpy.typing import NDArray

from sekai.spaces import batch_space, concatenate, empty_batch, map_arrays
from sekai.spaces.checks import whole_number
from sekai.stats.state import check_state
from sekai.wrappers.transforms import require_fixed_size

Padding: TypeAlias = Literal["reset", "zeros"]
Slots: TypeAlias = NDArray[np.intp] | slice

ALL = slice(None)


class Frames:
    """The last `depth` samples of each slot, oldest first.

    Args:
        space: of one sample, of a fixed size.
        num_slots: how many slots.
        depth: how many samples, at least 1.
        padding: what stands before the first sample of an episode: `"reset"`, that sample itself; `"zeros"`, zero,
            or the bound nearest to it.
        owner: whom an error speaks of.

    Attributes:
        space: of a slot's samples together: one more leading axis on every part.
        zeros: the zero sample as a batch of one, None for the padding `"reset"`.

    Raises:
        TypeError: the space has no fixed size.
        ValueError: an unknown padding, or a depth below 1.
    """

    def __init__(
        self, space: gymnasium.Space[Any], num_slots: int, depth: int, padding: Padding, *, owner: object
    ) -> None:
        name = type(owner).__name__
        if padding not in ("reset", "zeros"):
            raise ValueError(f"{name}: padding is {padding!r}; expected 'reset' or 'zeros'.")
        require_fixed_size(space, name)
        self.space = batch_space(space, depth)
        self._kept = empty_batch(self.space, num_slots)
        self.zeros = concatenate(space, [create_zero_array(space)]) if padding == "zeros" else None

    def start(self, slots: Slots, rows: Any) -> None:
        """These slots begin an episode with these samples, `(k, ...)`."""
        self.fill(slots, rows if self.zeros is None else self.zeros)

        def write(kept: NDArray[Any], new: NDArray[Any]) -> None:
            kept[slots, -1] = new

        map_arrays(write, self._kept, rows)

    def fill(self, slots: Slots, rows: Any) -> None:
        """Fill these slots throughout with these samples, `(k, ...)` or `(1, ...)`."""

        def write(kept: NDArray[Any], new: NDArray[Any]) -> None:
            kept[slots] = new[:, None]

        map_arrays(write, self._kept, rows)

    def push(self, slots: Slots, rows: Any) -> None:
        """Drop the oldest sample of these slots and append these, `(k, ...)`."""

        def write(kept: NDArray[Any], new: NDArray[Any]) -> None:
            kept[slots, :-1] = kept[slots, 1:]
            kept[slots, -1] = new

        map_arrays(write, self._kept, rows)

    def together(self, slots: Slots) -> Any:
        """All samples of these slots, `(k, depth, ...)`, in new arrays."""
        return map_arrays(lambda kept: kept[slots].copy(), self._kept)

    def at(self, slots: Slots, place: int) -> Any:
        """The sample at one place of these slots, 0 the oldest: `(k, ...)`, in new arrays."""
        return map_arrays(lambda kept: kept[slots, place].copy(), self._kept)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Copies of the samples, an array per part of the space."""
        return dict(leaves(self.together(ALL), "frames"))

    def load(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the arrays of a checked state."""
        for name, kept in leaves(self._kept, "frames"):
            kept[:] = arrays[name]


class ShowsFrames:
    """The part of a wrapper that shows the state of its `Frames`."""

    _frames: Frames

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Copies of the samples kept, `(num_slots, depth, ...)`, oldest first, an array per part of the space."""
        return self._frames.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Raises:
            ValueError: it does not fit; nothing is taken over.
        """
        self._frames.load(check_state(state, self.state_dict(), finite=False))


def check_depth(owner: object, name: str, value: Any, *, minimum: int) -> int:
    """A number of samples or steps, as an int."""
    return whole_number(f"{type(owner).__name__}: {name}", value, minimum=minimum)


def leaves(batch: Any, place: str) -> list[tuple[str, NDArray[Any]]]:
    """The arrays of a batch, each with its place in it, as in `frames['camera'][0]`."""
    if isinstance(batch, dict):
        return [leaf for key, part in batch.items() for leaf in leaves(part, f"{place}[{key!r}]")]
    if isinstance(batch, tuple):
        return [leaf for k, part in enumerate(batch) for leaf in leaves(part, f"{place}[{k}]")]
    return [(place, batch)]
