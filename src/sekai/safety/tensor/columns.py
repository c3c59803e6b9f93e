"""Columns of observations on a device: one tensor for each leaf of the space."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces

from sekai.safety.arrays import Tensor


def dtype_of(space: spaces.Space[Any]) -> torch.dtype:
    """What a leaf is kept as: floats as float32, the rest (pixels, choices) as it is."""
    assert space.dtype is not None
    return torch.float32 if space.dtype.kind == "f" else getattr(torch, space.dtype.name)


def new_columns(space: spaces.Space[Any], shape: tuple[int, ...], device: Any) -> Any:
    """Zeros of the space with these leading axes."""
    if isinstance(space, spaces.Dict):
        return {key: new_columns(part, shape, device) for key, part in space.spaces.items()}
    return torch.zeros((*shape, *(space.shape or ())), dtype=dtype_of(space), device=device)


def put_row(columns: Any, t: int, rows: Any) -> None:
    """Write the rows of step `t`, arrays or tensors."""
    if isinstance(columns, dict):
        for key, column in columns.items():
            put_row(column, t, rows[key])
    else:
        columns[t] = torch.as_tensor(rows, device=columns.device)


def put_slots(columns: Any, t: int, slots: Tensor, rows: Any) -> None:
    """Write the rows of some slots of step `t`."""
    if isinstance(columns, dict):
        for key, column in columns.items():
            put_slots(column, t, slots, rows[key])
    else:
        columns[t, slots] = torch.as_tensor(rows, dtype=columns.dtype, device=columns.device)


def flat_rows(columns: Any, rows: Tensor) -> Any:
    """Some rows, counted over the first two axes together."""
    if isinstance(columns, dict):
        return {key: flat_rows(column, rows) for key, column in columns.items()}
    return columns.flatten(0, 1)[rows]
