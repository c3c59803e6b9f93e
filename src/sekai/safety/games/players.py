"""`Players`: how one action divides into what the controller chooses and what the disturbance answers.

    (N, U + D)   one box: the first `U` numbers are the control, the others the disturbance
    Dict         `{"ctrl": (N, U), "dstb": (N, D)}`, two boxes; `joined` makes one of them

Both players choose within [-1, 1] in every dimension, see `sekai.safety.action_box`. What the disturbance chooses is
projected into its set afterwards, so that a ball is a ball.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from sekai.safety.action_box import ActionBox
from sekai.safety.arrays import Tensor
from sekai.safety.chain import declared
from sekai.safety.systems.sets import Bounded, BoxSet
from sekai.spaces.checks import whole_number

CONTROL, DISTURBANCE = "ctrl", "dstb"


class Players:
    """Two players of one action.

    Args:
        space: of one slot, `(U + D,)`.
        ctrl_action_dim: U.
        bounded: the set of the disturbances; None for the box.
        device: where actions are.

    Attributes:
        control: box of the controls, `U` numbers.
        disturbance: box around the disturbances, `D` numbers.
        bounded: the set of the disturbances.
        control_box: the controls as the controller chooses them.

    Raises:
        ValueError: nothing is left for one of the players, or the set has another size or is not within the box.
    """

    def __init__(
        self, space: spaces.Box, ctrl_action_dim: int, bounded: Bounded | None = None, *, device: Any = "cpu"
    ) -> None:
        if space.shape is None or len(space.shape) != 1 or not 0 < ctrl_action_dim < space.shape[0]:
            raise ValueError(
                f"ctrl_action_dim is {ctrl_action_dim} and the action space {space}; expected one of (U + D,) numbers "
                "with 0 < ctrl_action_dim = U."
            )
        self.control, self.disturbance = (
            spaces.Box(space.low[part], space.high[part], dtype=space.dtype.type)
            for part in (slice(None, ctrl_action_dim), slice(ctrl_action_dim, None))
        )
        low, high = self.disturbance.low, self.disturbance.high
        self.bounded = BoxSet(tuple(low.tolist()), tuple(high.tolist())) if bounded is None else bounded
        corners = [np.array(corner, low.dtype) for corner in (self.bounded.low, self.bounded.high)]
        if self.bounded.size != len(low) or not all(map(self.disturbance.contains, corners)):
            raise ValueError(
                f"disturbance_set is {self.bounded}; expected one within the numbers of the disturbance, "
                f"{self.disturbance}."
            )
        self._whole = isinstance(self.bounded, BoxSet) and all(map(np.array_equal, corners, (low, high)))
        self._device = device
        self.control_box = ActionBox(self.control, device)
        self._disturbance_box = ActionBox(self.disturbance, device)

    def disturb(self, chosen: Tensor) -> Tensor:
        """Disturbances `(..., D)` in units of the environment, in their set, for choices within [-1, 1]."""
        return self.bounded.project(self._disturbance_box.unscaled(chosen))

    def admissible(self, chosen: Tensor) -> Tensor:
        """The choices `(..., D)` that stand for what is executed: in the set, where it is not the whole box."""
        return chosen if self._whole else self._disturbance_box.scaled(self.disturb(chosen))

    def random(self, *shape: int) -> Tensor:
        """Choices `(*shape, D)` that are spread evenly over the set of the disturbances."""
        drawn = torch.rand((*shape, self.bounded.size), device=self._device)
        return self._disturbance_box.scaled(self.bounded.sample(drawn))

    def nothing(self, *shape: int) -> Tensor:
        """The choice of the disturbance that is nearest to none, `(*shape, D)`."""
        none = torch.zeros((*shape, self.bounded.size), device=self._device)
        return self._disturbance_box.scaled(self.bounded.project(none))


def ctrl_action_dim_of(env: Any, given: int | None) -> int:
    """How many numbers of an action are the control's: as given, or as the environment declares.

    Raises:
        ValueError: neither says it, or they say different numbers.
        TypeError: another thing than a whole number is given.
    """
    found = next((int(value) for _, value in declared(env, "ctrl_action_dim") if value is not None), None)
    dim = found if given is None else whole_number("ctrl_action_dim", given, minimum=1)
    if found is not None and dim != found:
        raise ValueError(
            f"ctrl_action_dim is {dim}, and the environment declares {found}: leave it out, or use an environment that "
            "divides its actions alike."
        )
    if dim is None:
        raise ValueError(
            "A learner of two players needs to know which numbers of an action are the disturbance's: give "
            "ctrl_action_dim, or an environment that declares it (disturbance='player'), or one with the action space "
            f"Dict({CONTROL}=Box, {DISTURBANCE}=Box)."
        )
    return dim
