"""Blocks of rows, one row a quantity and one column a slot, as the kernels read and write them."""

from __future__ import annotations

_PAGE = 256  # float64 of half a page of 4096 bytes
_APART = 24  # three cache lines


def row_length(num_slots: int) -> int:
    """Length of the rows of a block for `num_slots` slots, at least that and less than 48 more.

    A kernel touches one column in 20 rows of several blocks at once. Rows whose starts lie a multiple of 2048 or 4096
    bytes apart, at every power of two from 256 slots on, cost in two ways. They share a few sets of the processor's
    first cache and throw each other out of it. And a processor tells a read from the writes before it by the last 12
    bits of their addresses: where a block begins just behind another one by these bits, as blocks of whole pages do
    that are allocated one after the other, the read of each column waits for the write of the one before. Either
    doubles the time of a call and more. Of a longer row the kernel uses the first `num_slots` entries.
    """
    if num_slots < _APART:
        return num_slots
    place = num_slots % _PAGE
    if place < _APART:
        return num_slots - place + _APART
    if place > _PAGE - _APART:
        return num_slots - place + _PAGE + _APART
    return num_slots
