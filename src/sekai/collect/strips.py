"""Where the rows of an episode lie in the columns of a fragment, or of the end of one followed by the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.collect.sidetable import SideTable
from sekai.collect.states import map_state

if TYPE_CHECKING:
    from sekai.collect.fragment import Fragment

Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
#: slot, first row and last row of each piece
Pieces: TypeAlias = tuple[Indices, Indices, Indices]


class Strip:
    """Columns `(S, N, ...)` by name, `done` among them: rows that have been handed out."""

    def __init__(self, columns: dict[str, Any], states: SideTable) -> None:
        self.columns, self.states = columns, states

    @classmethod
    def of(cls, fragment: Fragment, successors: bool, further: Mapping[str, Any]) -> Strip:
        """The columns of a fragment, and further ones of the same shape."""
        names = ("observations", "actions", "env_actions", "rewards", "terminated", "truncated", "kind", "step_index",
                 "episode_id", "episode_start", "extras", "infos", "values", "next_values")  # fmt: skip
        columns = {name: getattr(fragment, name) for name in names}
        shape = fragment.kind.shape
        columns["columns"] = {name: np.asarray(column) for name, column in further.items()}
        for name, column in columns["columns"].items():
            if column.shape[:2] != shape:
                raise ValueError(f"The column {name!r} has shape {column.shape}; expected {shape} and more.")
        columns["done"] = np.zeros(shape, bool)
        if successors:
            columns["next_observations"] = fragment.next_observations()
        return cls(columns, fragment.states)

    def __getitem__(self, name: str) -> NDArray[Any]:
        column: NDArray[Any] = self.columns[name]
        return column

    def __len__(self) -> int:
        return len(self["kind"])

    def then(self, other: Strip) -> Strip:
        """This one, and the other after it."""
        if self["kind"].shape[1] != other["kind"].shape[1]:
            raise ValueError(
                f"The fragment has {other['kind'].shape[1]} slots, the one before it {self['kind'].shape[1]}; expected "
                "fragments of one collector."
            )
        if self.columns["columns"].keys() != other.columns["columns"].keys():
            raise ValueError(
                f"The columns are {sorted(other.columns['columns'])}; expected {sorted(self.columns['columns'])}, as "
                "with the fragment before."
            )
        joined = map_state(lambda *parts: np.concatenate(parts), self.columns, other.columns)
        return Strip(joined, self.states.then(other.states, len(self)))

    def kept(self, rows: int, taken: Pieces) -> Strip:
        """Copies of the last rows, in which those taken are marked."""
        slots, first, last = taken
        edges = np.zeros((len(self) + 1, self["kind"].shape[1]), np.int8)
        edges[first, slots] += 1
        edges[last + 1, slots] -= 1
        self.columns["done"] = self["done"] | (np.cumsum(edges[:-1], axis=0) > 0)
        begin = max(0, len(self) - rows)
        return Strip(map_state(lambda column: column[begin:].copy(), self.columns), self.states.since(begin))


def pieces_of(strip: Strip, length: int | None) -> Pieces:
    """Where the pieces of all slots lie, one slot after another."""
    ids, steps = strip["episode_id"].T, strip["step_index"].T
    begins = _is_first(ids, steps)
    if length is not None:
        begins |= (ids >= 0) & (steps % length == 0)
    ends = ids >= 0
    ends[:, :-1] &= begins[:, 1:] | (ids[:, 1:] < 0)
    slots, first = np.nonzero(begins)
    return slots, first, np.nonzero(ends)[1]


def _is_first(ids: NDArray[np.int64], steps: NDArray[np.int64]) -> Mask:
    """Rows `(N, S)` that do not go on from the row before them."""
    first: Mask = ids >= 0
    first[:, 1:] &= (ids[:, 1:] != ids[:, :-1]) | (steps[:, 1:] != steps[:, :-1] + 1)
    return first


def episode_begins(strip: Strip) -> Indices:
    """The first row of the same episode that is there, for each row `(S, N)`."""
    first = _is_first(strip["episode_id"].T, strip["step_index"].T).T
    row = np.arange(len(strip))[:, None]
    begins: Indices = np.maximum.accumulate(np.where(first, row, 0), axis=0)
    return begins
