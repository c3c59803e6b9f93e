"""`RunningMoments`: mean and variance of rows that come one batch at a time, on the device.

The tensor twin of `sekai.stats.RunningStats` with equal weights; the formula and its source stand there. Nothing is
read from the device.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sekai.safety.arrays import Tensor

EPSILON = 1e-8


class RunningMoments(nn.Module):  # type: ignore[misc]  # torch is an extra, and read as Any
    """Statistics of rows `(n, *shape)`, as buffers: they are saved, loaded and moved with the module that they are in.

    Args:
        shape: of one row.
        clip: normalised rows stay within `[-clip, clip]`.
        device: where they are.

    Attributes:
        clip: the same, float64.
        moving: whether updates count, bool.
        mean, squares: float64 `shape`; the sum of squares of deviations from the mean.
        count: rows taken in, float64.
    """

    clip: Tensor
    moving: Tensor
    mean: Tensor
    squares: Tensor
    count: Tensor

    def __init__(self, shape: tuple[int, ...], *, clip: float, device: Any = None) -> None:
        super().__init__()
        self.register_buffer("clip", torch.tensor(clip, dtype=torch.float64, device=device))
        self.register_buffer("moving", torch.tensor(True, device=device))
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64, device=device))
        self.register_buffer("squares", torch.zeros(shape, dtype=torch.float64, device=device))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64, device=device))

    def update(self, rows: Tensor) -> None:
        """Take in rows, `(n, *shape)`."""
        with torch.no_grad():
            rows = rows.double()
            count, mean = len(rows), rows.mean(dim=0)
            delta, total = mean - self.mean, self.count + count
            squares = self.squares + ((rows - mean) ** 2).sum(dim=0) + delta**2 * self.count * count / total
            self.squares.copy_(torch.where(self.moving, squares, self.squares))
            self.mean.copy_(torch.where(self.moving, self.mean + delta * count / total, self.mean))
            self.count.copy_(torch.where(self.moving, total, self.count))

    def forward(self, rows: Tensor) -> Tensor:
        """Rows `(..., *shape)` to mean 0 and variance 1, float32; as they are, but clipped, before the first update."""
        variance = torch.where(self.count > 0, self.squares / torch.clamp(self.count, min=1.0), 1.0)
        deviation = torch.sqrt(variance + EPSILON)
        return torch.clamp((rows - self.mean) / deviation, -self.clip, self.clip).float()
