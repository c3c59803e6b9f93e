"""Spaces: gymnasium's, readable on one line, batched with independent random streams, and `MaskedBox`."""

from sekai.spaces import gymnasium_vector as gymnasium_vector
from sekai.spaces.batch import batch_space, has_fixed_size
from sekai.spaces.box import Box
from sekai.spaces.boxes import box_rows, boxes_of, map_boxes
from sekai.spaces.compare import describe_mismatch
from sekai.spaces.composite import Dict, Sequence, Tuple, readable
from sekai.spaces.discrete import Discrete, MultiBinary, MultiDiscrete
from sekai.spaces.flatten import flatdim, flatten, flatten_batch, flatten_space, unflatten
from sekai.spaces.masked_box import MaskedBox
from sekai.spaces.rows import (
    copy_batch,
    copy_rows,
    empty_batch,
    finish_batch,
    iterate,
    map_arrays,
    put_rows,
    read_row,
    take_rows,
)
from sekai.spaces.writers import OneRow, RowWriter, concatenate, row_writer, write_row

__all__ = [
    "Box",
    "Dict",
    "Discrete",
    "MaskedBox",
    "MultiBinary",
    "MultiDiscrete",
    "OneRow",
    "RowWriter",
    "Sequence",
    "Tuple",
    "batch_space",
    "box_rows",
    "boxes_of",
    "concatenate",
    "copy_batch",
    "copy_rows",
    "describe_mismatch",
    "empty_batch",
    "finish_batch",
    "flatdim",
    "flatten",
    "flatten_batch",
    "flatten_space",
    "has_fixed_size",
    "iterate",
    "map_arrays",
    "map_boxes",
    "put_rows",
    "read_row",
    "readable",
    "row_writer",
    "take_rows",
    "unflatten",
    "write_row",
]
