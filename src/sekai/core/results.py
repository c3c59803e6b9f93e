"""What `step` and `reset` of a single environment return.

Both are named tuples, so they unpack like gymnasium's plain tuples of five and two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple


class StepResult(NamedTuple):
    """One transition.

    Attributes:
        observation: the state after the action, a member of the observation space.
        reward: reward of the transition.
        terminated: the episode ended within the task.
        truncated: the episode was cut from outside the task, by a time limit or the end of the data.
        info: further facts about the transition.
    """

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    @property
    def done(self) -> bool:
        """Whether the episode has ended, for either reason."""
        return bool(self.terminated or self.truncated)


class ResetResult(NamedTuple):
    """The start of an episode.

    Attributes:
        observation: the first observation, a member of the observation space.
        info: further facts about the first state.
    """

    observation: Any
    info: dict[str, Any]

    @property
    def done(self) -> bool:
        """Always False: an episode that has just begun has not ended."""
        return False


#: `StepResult` from a tuple of five, without the Python frame that a named tuple's own constructor costs
step_result: Callable[[tuple[Any, float, bool, bool, dict[str, Any]]], StepResult] = partial(tuple.__new__, StepResult)
