"""`AutoReset`: an environment that starts its next episode inside the step that ended the last one."""

from __future__ import annotations

from typing import Any

import gymnasium

from sekai.core.results import ResetResult, StepResult
from sekai.core.snapshot import snapshot
from sekai.core.wrapper import FollowUp, ResetCall, Wrapper, resets_itself


class AutoReset(Wrapper):
    """Reset inside the step in which an episode ends.

    The result of that step has the reward, flags and info of the last transition and the first observation of
    the next episode. Its info also holds `final_observation` and `final_info`, the terminal step's own, and
    `reset_info`, returned by the reset. The stream of random numbers continues and no options are given.

    Raises:
        ValueError: the environment resets itself already.
    """

    resets_itself = True

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        if resets_itself(env):
            raise ValueError(f"{env} resets itself already: a second AutoReset would reset it twice. Leave one out.")

    def after_step(self, result: StepResult) -> StepResult:
        """Keep the terminal data before the reset can overwrite them."""
        if not result.done:
            return result
        final_info = snapshot(result.info)
        final: dict[str, Any] = {"final_observation": snapshot(result.observation), "final_info": final_info}
        return result._replace(info={**final_info, **final})

    def follow_up(self, result: StepResult) -> FollowUp:
        """Reset when the episode has ended."""
        if not result.done:
            return result
        first: ResetResult = yield ResetCall()
        return result._replace(observation=first.observation, info={**result.info, "reset_info": snapshot(first.info)})
