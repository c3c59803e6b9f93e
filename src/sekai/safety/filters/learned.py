"""What a safety learner knows, as the functions that monitors and fallbacks are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sekai.safety.filters.fallbacks import Fallback
from sekai.safety.filters.monitors import Value
from sekai.safety.promises import Certified
from sekai.safety.systems.base import System


def value_of(learner: Certified, system: System | None = None) -> Value:
    """The value of a learner: a function of observations, or of the states of a system.

    Args:
        learner: a safety learner, or anything with `predict_value`.
        system: whose states the function is to take, and observe; None for observations.
    """

    def value(rows: Any) -> Any:
        return learner.predict_value(_observed(rows, system))

    return value


def policy_of(learner: Certified, system: System | None = None) -> Fallback:
    """The deterministic policy of a learner: a function of observations, or of the states of a system.

    Args:
        learner: a safety learner, or anything with `predict`.
        system: as for `value_of`.
    """

    def policy(rows: Any) -> Any:
        actions, _ = learner.predict(_observed(rows, system), deterministic=True)
        return actions

    return policy


def action_value_of(learner: Any, system: System | None = None) -> Callable[[Any, Any], Any]:
    """Q of a learner, for `ActionValue`: a function of observations, or states of a system, and actions.

    Args:
        learner: one with `predict_action_value`, such as `SafetySAC`.
        system: as for `value_of`.

    Raises:
        TypeError: a learner that has no such value.
    """
    if not hasattr(learner, "predict_action_value"):
        raise TypeError(
            f"{type(learner).__name__} has no predict_action_value: use value_of, or a learner such as SAC."
        )

    def action_value(rows: Any, actions: Any) -> Any:
        return learner.predict_action_value(_observed(rows, system), actions)

    return action_value


def _observed(rows: Any, system: System | None) -> Any:
    return rows if system is None else np.asarray(system.observe(rows), np.float32)
