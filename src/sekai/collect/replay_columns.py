"""Columns of a replay buffer: what a space, or a declared extra column, is as plain arrays.

A space has one array for each of its leaves, in the order of the space; a batch given by the user is taken apart into
them and checked on the way, and put together again when rows are sampled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.spaces import empty_batch, has_fixed_size

Arrays = list[NDArray[Any]]


class Leaf(NamedTuple):
    """One array of a batch.

    Attributes:
        label: what errors call it, for instance `observations['camera']`.
        shape: of one row.
        dtype: of its entries.
    """

    label: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, value: Any, lead: tuple[int, ...]) -> NDArray[Any]:
        """`value` as a contiguous array of this leaf, with the leading axes `lead`.

        Raises:
            ValueError: another shape, or an integer that the dtype cannot hold.
            TypeError: a dtype that does not cast.
        """
        array = np.asarray(value)
        if array.shape != lead + self.shape:
            axes = "T rows of N slots" if len(lead) == 2 else "a row of N slots"
            raise ValueError(f"{self.label} has shape {array.shape}; expected {lead + self.shape}: {axes}.")
        if not np.can_cast(array.dtype, self.dtype, "same_kind"):
            raise TypeError(
                f"{self.label} is of dtype {array.dtype}; expected {self.dtype}, or what casts to it without a change "
                "of kind."
            )
        cast = np.ascontiguousarray(array, self.dtype)
        if self.dtype.kind in "iu" and not np.can_cast(array.dtype, self.dtype) and (cast != array).any():
            raise ValueError(f"{self.label} holds {array[cast != array][0]}, which {self.dtype} cannot hold.")
        return cast


class Layout:
    """The leaves of a space.

    Args:
        space: of a single observation or action.
        name: what errors call a batch of it.

    Raises:
        TypeError: samples without a fixed size.
    """

    def __init__(self, space: gymnasium.Space[Any], name: str) -> None:
        if not has_fixed_size(space):
            raise TypeError(
                f"The space of {name} is {space}; expected Box, Discrete, MultiDiscrete, MultiBinary, and Dict and "
                "Tuple of them: rows of other spaces have no fixed size."
            )
        self.leaves: list[Leaf] = []
        self._structure = self._number(empty_batch(space, 1), name)

    def _number(self, batch: Any, label: str) -> Any:
        """The structure of a batch, with the numbers of its leaves in it."""
        if isinstance(batch, dict):
            return {key: self._number(part, f"{label}[{key!r}]") for key, part in batch.items()}
        if isinstance(batch, tuple):
            return tuple(self._number(part, f"{label}[{i}]") for i, part in enumerate(batch))
        self.leaves.append(Leaf(label, batch.shape[1:], batch.dtype))
        return len(self.leaves) - 1

    def read(self, batch: Any, lead: tuple[int, ...], label: str) -> Arrays:
        """The arrays of a batch, checked.

        Raises:
            ValueError: other keys or another length than the space has; see `Leaf.read`.
            TypeError: no dict or tuple where the space has one; see `Leaf.read`.
        """
        found: Arrays = []
        self._collect(self._structure, batch, lead, label, found)
        return found

    def _collect(self, structure: Any, batch: Any, lead: tuple[int, ...], label: str, found: Arrays) -> None:
        if isinstance(structure, dict):
            if not isinstance(batch, Mapping) or batch.keys() != structure.keys():
                given = sorted(batch) if isinstance(batch, Mapping) else type(batch).__name__
                raise ValueError(f"{label} is {given}; expected a dict of arrays with the keys {sorted(structure)}.")
            for key, part in structure.items():
                self._collect(part, batch[key], lead, f"{label}[{key!r}]", found)
        elif isinstance(structure, tuple):
            if not isinstance(batch, tuple) or len(batch) != len(structure):
                given = f"a tuple of {len(batch)}" if isinstance(batch, tuple) else type(batch).__name__
                raise ValueError(f"{label} is {given}; expected a tuple of {len(structure)} batches.")
            for i, (part, inner) in enumerate(zip(structure, batch, strict=True)):
                self._collect(part, inner, lead, f"{label}[{i}]", found)
        else:
            found.append(self.leaves[structure]._replace(label=label).read(batch, lead))

    def build(self, arrays: Arrays) -> Any:
        """The batch whose leaves are `arrays`."""
        return _fill(self._structure, arrays)


def _fill(structure: Any, arrays: Arrays) -> Any:
    if isinstance(structure, dict):
        return {key: _fill(part, arrays) for key, part in structure.items()}
    if isinstance(structure, tuple):
        return tuple(_fill(part, arrays) for part in structure)
    return arrays[structure]


def extra_leaves(extras: Mapping[str, Any]) -> dict[str, Leaf]:
    """The declared extra columns, each given as anything `np.dtype` takes; `(np.float32, (64,))` is a row of 64.

    Raises:
        TypeError: no dtype, or one of Python objects.
    """
    leaves = {}
    for name, given in extras.items():
        try:
            dtype = np.dtype(given)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"extras[{name!r}] is {given!r}; expected a dtype, or a dtype and the shape of a row, for instance "
                "(np.float32, (64,))."
            ) from error
        if dtype.hasobject or dtype.base.kind not in "biufcmM":
            raise TypeError(f"extras[{name!r}] is {given!r}; expected numbers, bools or dates.")
        leaves[name] = Leaf(f"extras[{name!r}]", dtype.shape, dtype.base)
    return leaves


def equal_rows(some: Arrays, others: Arrays) -> NDArray[np.bool_]:
    """Which rows of two lists of contiguous arrays, leaf by leaf, are equal to the bit; a NaN equals itself."""
    equal = np.ones(len(some[0]) if some else 0, bool)
    for one, other in zip(some, others, strict=True):
        shape = len(one), math.prod(one.shape[1:])
        equal &= (one.reshape(shape).view(np.uint8) == other.reshape(shape).view(np.uint8)).all(axis=1)
    return equal
