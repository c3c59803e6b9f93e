"""Sequences for recurrent learners: pieces of one episode each, padded to one length.

The rows of an episode are cut where `step_index` is a multiple of `length`, and where a fragment begins or ends. One
slot of a fragment of eight rows, `length=3`, next_step mode (R: a reset-only row, which is in no sequence):

    rows        a4  a5  a6  R   b0  b1  b2  b3
    sequences   [a4 a5 .]   [a6 . .]   [b0 b1 b2]   [b3 . .]          . padding: mask False, all zero
    state       that before a4, a6, b0, b3

With `burn_in=1` a row that comes before is put in front, from which the state is worked out anew and nothing learned:

    sequences   [a4 a5 . .]   [a5 a6 . .]   [b0 b1 b2 .]   [b2 b3 . .]
    learn        1  1           0  1           1  1  1          0  1

A sequence never holds rows of two episodes, and rows in it follow one another. `SequenceAssembler` joins what the edges
of fragments have cut; its sequences do not depend on where those edges were.

Shapes: `B` sequences of `L` rows; a fragment is `(T, N)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.collect import masks
from sekai.collect.states import map_state
from sekai.collect.strips import Mask, Pieces, Strip, episode_begins, pieces_of
from sekai.core.slots import RowKind
from sekai.spaces.checks import whole_number

if TYPE_CHECKING:
    from sekai.collect.fragment import Fragment

Indices = NDArray[np.intp]
_NO_COLUMNS: Mapping[str, Any] = {}


@dataclass(eq=False, repr=False, kw_only=True)
class Sequences:
    """`B` pieces of episodes, padded to `L` rows. Padding is zero, and False in every mask.

    Attributes:
        mask: bool `(B, L)`, rows that are transitions; they come first.
        learn: bool `(B, L)`, those of them that are no burn-in.
        lengths: int `(B,)`, rows of `mask`.
        slots: int `(B,)`, the slot of each sequence.
        episode_id: int64 `(B,)`, its episode.
        state: the policy state before its first row, `(B, ...)`; None for a policy without memory.
        observations, actions, env_actions, rewards, terminated, truncated, kind, step_index, episode_start: as in
            `Fragment`, `(B, L, ...)`.
        values, next_values, extras, infos: as in `Fragment`, `(B, L, ...)`.
        next_observations: true successors, `(B, L, ...)`, where they were asked for.
        columns: further columns that were given, `(B, L, ...)`.
    """

    mask: Mask
    learn: Mask
    lengths: Indices
    slots: Indices
    episode_id: NDArray[np.int64]
    state: Any
    observations: Any
    actions: Any
    env_actions: Any
    rewards: NDArray[np.float64]
    terminated: Mask
    truncated: Mask
    kind: NDArray[np.int8]
    step_index: NDArray[np.int64]
    episode_start: Mask
    extras: dict[str, NDArray[Any]]
    infos: dict[str, NDArray[Any]]
    columns: dict[str, NDArray[Any]]
    values: NDArray[Any] | None = None
    next_values: NDArray[Any] | None = None
    next_observations: Any = None

    @property
    def bootstrap(self) -> Mask:
        """Rows whose successor's value counts, bool `(B, L)`."""
        return masks.bootstrap(self.kind) & self.mask

    @property
    def trace(self) -> Mask:
        """Rows from which a backward recursion goes on into the next row of the sequence, bool `(B, L)`."""
        goes_on = np.zeros_like(self.mask)
        goes_on[:, :-1] = self.mask[:, 1:]
        return goes_on

    @property
    def cut(self) -> Mask:
        """Last rows of sequences whose episode did not end there, bool `(B, L)`."""
        cut: Mask = self.mask & (self.kind == RowKind.STEP) & ~self.trace
        return cut

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        return f"Sequences({len(self)} x {self.mask.shape[1]}, {int(self.mask.sum())} transitions)"


def pad(rows: Any, lengths: Any, width: int | None = None) -> NDArray[Any]:
    """Rows of sequences, one after another, as a padded array.

        a0 a1 b0 c0 c1 c2, lengths (2, 1, 3)   ->   [a0 a1 . ]
                                                    [b0 .  . ]
                                                    [c0 c1 c2]

    Args:
        rows: `(sum of lengths, ...)`.
        lengths: int `(B,)`.
        width: `L`, by default the longest length.

    Returns:
        `(B, L, ...)`, zero where nothing was put.

    Raises:
        ValueError: the lengths do not add up to the rows, or exceed the width.
    """
    rows, lengths = np.asarray(rows), np.asarray(lengths, np.intp)
    width = int(lengths.max(initial=0)) if width is None else width
    if lengths.sum() != len(rows) or lengths.max(initial=0) > width:
        raise ValueError(
            f"There are {len(rows)} rows for lengths that add up to {lengths.sum()}, the longest being "
            f"{lengths.max(initial=0)}, and a width of {width}; expected as many rows as lengths, none above the width."
        )
    padded = np.zeros((len(lengths), width, *rows.shape[1:]), rows.dtype)
    padded[np.arange(width) < lengths[:, None]] = rows
    return padded


def unpad(padded: Any, mask: Mask) -> NDArray[Any]:
    """The rows of a padded array `(B, L, ...)` where `mask` is True, one sequence after another; undoes `pad`."""
    rows: NDArray[Any] = np.asarray(padded)[mask]
    return rows


def sequences_of(
    fragment: Fragment,
    length: int | None = None,
    burn_in: int = 0,
    *,
    successors: bool = False,
    columns: Mapping[str, Any] = _NO_COLUMNS,
) -> Sequences:
    """The sequences of one fragment, see `Fragment.sequences`."""
    length, burn_in = _checked(length, burn_in)
    strip = Strip.of(fragment, successors, columns)
    return _padded(strip, pieces_of(strip, length), length, burn_in)


class SequenceAssembler:
    """Joins pieces of episodes across the fragments of one collector, which are given in order.

    At most one piece of each slot is open, of less than `length` rows, with `burn_in` rows before it: that much is
    kept, as copies, and no more.

    Args:
        length: rows of a whole sequence. A collector's `state_stride` that divides `length` and `burn_in` keeps the
            states that sequences begin with.
        burn_in: rows put in front.
        successors: whether sequences have `next_observations`.

    Raises:
        ValueError: a length below 1, or a burn-in below 0.
    """

    def __init__(self, length: int, burn_in: int = 0, *, successors: bool = False) -> None:
        self._length = whole_number("length", length, minimum=1)
        self._burn_in = whole_number("burn_in", burn_in, minimum=0)
        self._successors = successors
        self._open: Strip | None = None

    def add(self, fragment: Fragment, columns: Mapping[str, Any] = _NO_COLUMNS) -> Sequences:
        """Take the next fragment; the sequences that are now whole, or whose episode is over.

        Args:
            fragment: it may be released afterwards.
            columns: further columns `(T, N, ...)`, the same in every call.

        Raises:
            ValueError: another number of slots, or other columns, than before.
        """
        strip = Strip.of(fragment, self._successors, columns)
        if self._open is not None:
            strip = self._open.then(strip)
        pieces = pieces_of(strip, self._length)
        slots, _, last = pieces
        goes_on = (last == len(strip) - 1) & (strip["kind"][last, slots] == RowKind.STEP)
        goes_on &= (strip["step_index"][last, slots] + 1) % self._length != 0
        whole = self._new(strip, pieces, ~goes_on)
        self._open = strip.kept(self._length - 1 + self._burn_in, whole)
        return _padded(strip, whole, self._length, self._burn_in)

    def flush(self) -> Sequences | None:
        """The sequences that are still open, as they are; None where no fragment was given."""
        strip, self._open = self._open, None
        if strip is None:
            return None
        pieces = pieces_of(strip, self._length)
        return _padded(strip, self._new(strip, pieces, np.ones(len(pieces[0]), bool)), self._length, self._burn_in)

    @property
    def open_rows(self) -> int:
        """Rows of a slot that are kept at present, for pieces that may go on and for their burn-in."""
        return 0 if self._open is None else len(self._open)

    @staticmethod
    def _new(strip: Strip, pieces: Pieces, wanted: Mask) -> Pieces:
        """Those of the wanted pieces that have not been handed out."""
        slots, first, last = pieces
        wanted = wanted & ~strip["done"][last, slots]
        return slots[wanted], first[wanted], last[wanted]


def _padded(strip: Strip, pieces: Pieces, length: int | None, burn_in: int) -> Sequences:
    """These pieces as padded sequences, with those rows before each that the burn-in asks for and that are there."""
    slots, first, last = pieces
    begin = np.maximum(first - burn_in, episode_begins(strip)[first, slots])
    lengths = last + 1 - begin
    width = int(lengths.max(initial=0)) if length is None else length + burn_in
    place = np.arange(width)
    mask = place < lengths[:, None]
    time = np.minimum(begin[:, None] + place, last[:, None])

    def one(column: NDArray[Any]) -> NDArray[Any]:
        rows = column[time, slots[:, None]]
        rows[~mask] = np.zeros((), column.dtype)  # a plain 0 is no date
        return rows

    columns = {name: map_state(one, column) for name, column in strip.columns.items() if name != "done"}
    columns["episode_id"] = strip["episode_id"][last, slots]
    state = None
    if strip.states.rows is not None:
        found = strip.states.find(begin, slots)
        _require_states(found, strip["step_index"][begin, slots], slots)
        state = map_state(lambda leaf: leaf[found], strip.states.rows)
    return Sequences(
        mask=mask,
        learn=mask & (time >= first[:, None]),
        lengths=lengths,
        slots=slots,
        state=state,
        **columns,
    )


def _require_states(found: Indices, steps: NDArray[np.int64], slots: Indices) -> None:
    if len(found) and found.min() < 0:
        k = int(np.argmin(found))
        raise LookupError(
            f"A sequence of slot {int(slots[k])} begins with step {int(steps[k])} of its episode, and the policy state "
            "before it was not kept: give the collector a state_stride that divides length and burn_in."
        )


def _checked(length: int | None, burn_in: int) -> tuple[int | None, int]:
    burn_in = whole_number("burn_in", burn_in, minimum=0)
    if length is None:
        if burn_in:
            raise ValueError(f"burn_in is {burn_in} and length None: whole pieces have no rows before them.")
        return None, 0
    return whole_number("length", length, minimum=1), burn_in
