"""Action wrappers without memory."""

from __future__ import annotations

from typing import Any

import gymnasium
from numpy.typing import ArrayLike

from sekai.core.wrapper import ActionWrapper
from sekai.wrappers.transforms import clipped, rescaled, unscaled


class ClipAction(ActionWrapper):
    """Hold every `Box` part of an action to its bounds; NaN stays NaN.

    The action space stays as it is: what a policy is told of it remains finite.

    Args:
        env: the environment to wrap.

    Raises:
        TypeError: no `Box` part.
    """

    vector_version = "VecClipAction"

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._apply = clipped(env.action_space).apply

    def action(self, action: Any) -> Any:
        """The action within bounds."""
        return self._apply(action)


class RescaleAction(ActionWrapper):
    """Take actions in `[min_action, max_action]` and hand them on in the environment's own bounds, linearly.

    An action outside is held to the bounds.

    Args:
        env: an environment whose `Box` parts of an action are bounded.
        min_action: lower bound of the new action space, a number or an array of the part's shape.
        max_action: its upper bound.

    Raises:
        TypeError: no `Box` part.
        ValueError: an unbounded part, or `min_action < max_action` does not hold.
    """

    vector_version = "VecRescaleAction"

    def __init__(self, env: gymnasium.Env[Any, Any], min_action: ArrayLike, max_action: ArrayLike) -> None:
        super().__init__(env)
        inner = env.action_space
        self.action_space, self._apply = unscaled(inner, min_action, max_action, name="RescaleAction")
        self._revert = rescaled(inner, min_action, max_action, name="RescaleAction").apply

    def action(self, action: Any) -> Any:
        """The action in the environment's bounds."""
        return self._apply(action)

    def reverse_action(self, action: Any) -> Any:
        """The action of the new space that `action` turns into this one of the environment's."""
        return self._revert(action)
