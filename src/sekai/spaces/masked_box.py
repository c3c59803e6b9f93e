"""`MaskedBox`: a set of at most `max_size` elements, as a padded array and a mask.

    rows given to pack        elements (max_size=4, 2)     mask (4,)
    [[1, 2],                  [[1, 2],                     [1,
     [3, 4]]                   [3, 4],                      1,
                               [0, 0],    <- padding        0,
                               [0, 0]]                      0]

An occupied row lies inside the element bounds; every other row is exactly zero. The mask may have gaps;
`pack` and `sample` fill the first rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sekai.errors import InvalidObservation
from sekai.spaces.box import Box, tile_box
from sekai.spaces.checks import whole_number
from sekai.spaces.composite import Dict, _seed
from sekai.spaces.discrete import MultiBinary


class MaskedBox(Dict):
    """At most `max_size` elements of `Box(low, high, shape, dtype)`.

    A `Dict` with the keys `elements`, shape `(max_size, *shape)`, and `mask`, shape `(max_size,)`, int8.
    The bounds of `elements` are widened to include the zero of the padding; `contains` holds occupied
    rows to `low` and `high`.

    Args:
        low: lower bounds of one element, as in `Box`.
        high: upper bounds of one element.
        shape: shape of one element.
        max_size: number of rows, at least 1.
        dtype: dtype of the elements.
        seed: as in `Dict`.

    Attributes:
        element_space: the `Box` of one element.
        max_size: number of rows.
        batch_shape: leading axes of the samples: `()`, or `(n,)` after `batch_space(space, n)`.
    """

    element_space: Box
    max_size: int
    batch_shape: tuple[int, ...]

    def __init__(
        self,
        low: Any,
        high: Any,
        shape: Any,
        max_size: int,
        *,
        dtype: DTypeLike = np.float32,
        seed: int | dict[str, Any] | np.random.Generator | None = None,
    ) -> None:
        self._build(Box(low, high, shape, dtype), whole_number("MaskedBox max_size", max_size, minimum=1), ())
        _seed(self, seed)

    @classmethod
    def of(cls, element_space: Box, max_size: int) -> MaskedBox:
        """At most `max_size` elements of a `Box`, unbounded sides included; never seeded."""
        made = cls.__new__(cls)
        made._build(element_space, max_size, ())
        return made

    def _build(self, element_space: Box, max_size: int, batch_shape: tuple[int, ...]) -> None:
        slots = (*batch_shape, max_size)
        padded = tile_box(element_space, slots)
        zero = padded.dtype.type(0)
        padded.low, padded.high = np.minimum(padded.low, zero), np.maximum(padded.high, zero)
        mask = MultiBinary(slots if batch_shape else max_size)
        super().__init__({"elements": padded, "mask": mask})
        self.element_space = element_space
        self.max_size = max_size
        self.batch_shape = batch_shape
        self._rows = tile_box(element_space, slots)

    def batched(self, n: int) -> MaskedBox:
        """`n` of these sets along a new first axis, never seeded; `batch_space` gives it generators too."""
        batch = MaskedBox.__new__(MaskedBox)
        batch._build(self.element_space, self.max_size, (n, *self.batch_shape))
        return batch

    def sample(self, mask: dict[str, Any] | None = None, probability: dict[str, Any] | None = None) -> dict[str, Any]:
        """A random set: its size uniform on `0..max_size`, its elements as `Box` draws them.

        Args:
            mask: `{"elements": None, "mask": m}` with `m` as in `MultiBinary.sample`: 0 for an empty row, 1
                for an occupied one, 2 for a coin toss.
            probability: `{"elements": None, "mask": p}` with the probability that each row is occupied.
        """
        if mask is not None and probability is not None:
            raise ValueError("MaskedBox.sample takes a mask or a probability, not both.")
        draws = self.spaces["mask"]
        given = mask if mask is not None else probability
        if given is None:
            sizes = draws.np_random.integers(self.max_size + 1, size=self.batch_shape)
            occupied = np.arange(self.max_size) < np.asarray(sizes)[..., None]
            chosen = occupied.astype(np.int8)
        else:
            if given.keys() != self.spaces.keys() or given["elements"] is not None:
                raise ValueError(
                    f"MaskedBox.sample takes {{'elements': None, 'mask': array of shape {draws.shape}}}, got {given!r}."
                )
            which = "mask" if mask is not None else "probability"
            chosen = draws.sample(**{which: given["mask"]})
            occupied = chosen == 1
        self._rows._np_random = self.spaces["elements"].np_random
        elements = self._rows.sample()
        elements[~occupied] = 0
        return {"elements": elements, "mask": chosen}

    def contains(self, x: Any) -> bool:
        """Whether occupied rows lie inside the element bounds, the others are zero, the mask is 0 or 1."""
        if not isinstance(x, dict) or x.keys() != self.spaces.keys():
            return False
        elements, mask = x["elements"], x["mask"]
        rows = self._rows
        if not (isinstance(elements, np.ndarray) and isinstance(mask, np.ndarray)):
            return False
        if elements.shape != rows.shape or not np.can_cast(elements.dtype, rows.dtype):
            return False
        if mask not in self.spaces["mask"]:
            return False
        occupied = mask == 1
        filled = elements[occupied]
        return bool(
            np.all(elements[~occupied] == 0)
            and np.all(filled >= self.element_space.low)
            and np.all(filled <= self.element_space.high)
        )

    def empty(self) -> dict[str, NDArray[Any]]:
        """The empty set: all padding (of every set, for a batched space)."""
        return {
            "elements": np.zeros(self._rows.shape, self.element_space.dtype),
            "mask": np.zeros((*self.batch_shape, self.max_size), np.int8),
        }

    def pack(self, rows: Any) -> dict[str, NDArray[Any]]:
        """The set of `rows`, in their order, in the first places.

        Args:
            rows: array or list of `k <= max_size` elements, shape `(k, *shape)`; `[]` for the empty set.

        Raises:
            InvalidObservation: too many rows, a wrong shape or dtype, a value out of bounds.
        """
        self._require_single("pack")
        element = self.element_space
        packed = self.empty()
        if len(rows) > self.max_size:
            raise InvalidObservation(
                f"MaskedBox holds at most {self.max_size} elements, got {len(rows)}; raise max_size."
            )
        if len(rows) == 0:
            return packed
        try:
            given = np.asarray(rows)
        except ValueError as error:
            raise InvalidObservation(
                f"MaskedBox elements must all have shape {element.shape}, the rows given differ in shape."
            ) from error
        if given.shape[1:] != element.shape:
            raise InvalidObservation(
                f"MaskedBox elements must have shape {element.shape}, got rows of shape {given.shape[1:]}."
            )
        integers = given.dtype.kind in "iu" and element.dtype.kind in "iu"
        if not (integers or np.can_cast(given.dtype, element.dtype, "same_kind")):
            raise InvalidObservation(f"MaskedBox elements are {element.dtype}, which {given.dtype} does not cast to.")
        # Integers are compared before the cast, which could wrap; floats after it, rounded like the bounds.
        compared = given if integers else given.astype(element.dtype)
        outside = ~((compared >= element.low) & (compared <= element.high))
        bad = np.flatnonzero(outside.reshape(len(given), -1).any(axis=1))
        if bad.size:
            raise InvalidObservation(f"MaskedBox element {bad[0]} is outside {element!r}: {given[bad[0]].tolist()}.")
        packed["elements"][: len(given)] = given
        packed["mask"][: len(given)] = 1
        return packed

    def unpack(self, x: Mapping[str, Any]) -> NDArray[Any]:
        """The occupied rows of one set, in order: a new array of shape `(k, *shape)`."""
        self._require_single("unpack")
        elements, mask = np.asarray(x["elements"]), np.asarray(x["mask"])
        if elements.shape != self._rows.shape or mask.shape != (self.max_size,):
            raise InvalidObservation(
                f"{self!r} has elements of shape {self._rows.shape} and a mask of shape {(self.max_size,)}, "
                f"got {elements.shape} and {mask.shape}."
            )
        occupied: NDArray[Any] = elements[mask != 0]
        return occupied

    def _require_single(self, what: str) -> None:
        if self.batch_shape:
            raise ValueError(f"{what} works on one set, {self!r} is a batch: use the single space, row by row.")

    def __eq__(self, other: object, /) -> bool:
        if isinstance(other, MaskedBox):
            return (
                self.element_space == other.element_space
                and self.max_size == other.max_size
                and self.batch_shape == other.batch_shape
            )
        return bool(super().__eq__(other))

    def __repr__(self) -> str:
        bounds, dtype = repr(self.element_space).removeprefix("Box(").removesuffix(")").rsplit(", ", 1)
        batch = f", batch={self.batch_shape}" if self.batch_shape else ""
        return f"MaskedBox({bounds}, max_size={self.max_size}, {dtype}{batch})"
