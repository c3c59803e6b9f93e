"""`ActionBox`: a policy chooses within [-1, 1] in every dimension, whatever the box of the environment.

policy   a      -1 ... 1    what a policy of noise 1 can search, and what replay keeps; beyond, the nearest bound
executed u     low ... high what the environment is given

u = centre + radius * a,    centre = (low + high) / 2,    radius = (high - low) / 2
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from sekai.safety.arrays import Tensor


class ActionBox:
    """A box of actions, on a device.

    Args:
        space: of the environment, with finite bounds.
        device: where the actions are.
    """

    def __init__(self, space: spaces.Box, device: Any) -> None:
        # bounds of float64 rounded to float32 may lie outside
        dtype = torch.float64 if space.dtype == np.float64 else torch.float32
        self._low, self._high = (torch.as_tensor(edge, dtype=dtype, device=device) for edge in (space.low, space.high))
        self._centre, self._radius = (self._low + self._high) / 2, (self._high - self._low) / 2

    def unscaled(self, actions: Tensor) -> Tensor:
        """Actions `(..., A)` of a policy in the units of the box, and inside it; float64 for a box of float64."""
        chosen = actions.to(self._low.dtype)
        return torch.clamp(torch.addcmul(self._centre, self._radius, chosen), self._low, self._high)

    def scaled(self, executed: Tensor) -> Tensor:
        """Actions in the units of the box as a policy would have chosen them; 0 where the box has no width."""
        offset = executed.to(self._low.dtype) - self._centre
        return torch.where(self._radius > 0, offset / self._radius, 0.0).float()


def unit_box(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """What a policy chooses from: [-1, 1] for a box, the space itself for any other."""
    return spaces.Box(-1.0, 1.0, space.shape, np.float32) if isinstance(space, spaces.Box) else space
