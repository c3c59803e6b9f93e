"""`OrderEnforcing`: no step before the first reset, none after the end."""

from __future__ import annotations

from typing import Any

import gymnasium

from sekai.core.results import ResetResult, StepResult
from sekai.core.wrapper import Wrapper
from sekai.errors import ResetRequired


class OrderEnforcing(Wrapper):
    """Raise `ResetRequired` for a step before the first reset, or after the end of an episode."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._refusal: str | None = "has not been reset"

    def before_step(self, action: Any) -> Any:
        """Refuse the action where there is no episode for it."""
        if self._refusal is not None:
            raise ResetRequired(f"{self.env} {self._refusal}: call reset() before step().")
        return action

    def after_step(self, result: StepResult) -> StepResult:
        """Note the end of the episode; an environment that resets itself is already in the next one."""
        if result.done and not self.resets_itself:
            self._refusal = "has finished its episode"
        return result

    def after_reset(self, result: ResetResult) -> ResetResult:
        """Note the start of the episode."""
        self._refusal = None
        return result
