"""Blocks of rows, one row a quantity and one column a slot, as the kernels read and write them."""

from __future__ import annotations

_PAGE = 256  # float64 of half a page of 4096 bytes
_APART = 24  # three cache lines


def row_length(num_slots: int) -> int:
    """Length of the rows of a block for `num_slots` slots, at least that and less than 48 more.

    A kernel touches one column in 20 rows at once. Rows whose starts lie a multiple of 2048 or 4096 bytes apart share a
    few sets of the processor's first cache and throw each other out of it, at ten times the cost: so at every power
    of two from 256 slots on. Of a longer row the kernel uses the first `num_slots` entries.
    """
    place = num_slots % _PAGE
    if place < _APART:
        return num_slots - place + _APART
    if place > _PAGE - _APART:
        return num_slots - place + _PAGE + _APART
    return num_slots
