"""`MarginWrapper`: a contract environment (`sekai.safety.contract`) from any environment and functions of its state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import gymnasium
import numpy as np

from sekai.core.results import ResetResult, StepResult
from sekai.core.wrapper import Wrapper
from sekai.errors import InvalidObservation, ResetRequired

#: where the target margin stands in an info
TARGET_KEY = "l_x"

OwnEnds: TypeAlias = Literal["error", "truncate", "keep"]


class MarginState(NamedTuple):
    """The state after a step, as margins are computed from it.

    Attributes:
        observation: of that state, as the wrapped environment returns it.
        info: of the step.
        env: the base environment, `env.unwrapped`, whose attributes hold the state that no observation wrapper has
            touched: `state.env.state`.
        terminated: whether the wrapped environment itself ended the episode.
    """

    observation: Any
    info: dict[str, Any]
    env: Any
    terminated: bool


Margin: TypeAlias = Callable[[MarginState], float]


class MarginWrapper(Wrapper):
    """Make the reward a safety margin, and end an episode where it is negative.

    The margins are of the state after the step. What the environment pays is dropped, so that what wrappers inside do
    to rewards does not matter; outside, nothing may touch them (`sekai.safety.contract.require_margins` refuses it).

    The environment may end episodes by itself. Where g < 0 such an end is a failure; where the target is reached,
    `l >= 0`, it is a success, and is handed on. Any other is neither, and a learner cannot know that: it raises, unless
    `own_ends` says what it is.

    Args:
        env: the environment to wrap, sekai's or gymnasium's; time limits may stand inside or outside.
        g: safety margin of a `MarginState`: one finite number, g >= 0 outside the failure set. Best a distance to it
            that changes continuously, in units in which 1 is a lot.
        l: target margin, l >= 0 inside the target; None for an avoid environment, which has none.
        end_on_target: whether a step with l >= 0 terminates too; of an environment that has l.
        terminate: whether a step with g < 0 terminates. False lets the episode go on, to look at what happens then; no
            learner may be given that.
        own_ends: the environment's own terminations with g >= 0 and no l >= 0: `"error"` refuses them, `"truncate"`
            hands them on as truncated, `"keep"` as they are (then g, or min(l, g), is what the last state is worth).
        dt: seconds of a step; by default what the environment says by an attribute `dt`, if it does.
        failure_horizon_s: seconds from a doomed state to failure at most.
        g_range: the smallest and the largest g; -inf where a failure has no depth that is known.

    Attributes:
        provides_l: whether `info["l_x"]` is given.
        dt, failure_horizon_s, g_range: as declared. What was not given is no attribute of the wrapper, and is looked
            for in the environment inside.

    Raises:
        TypeError: g or l is no function.
        ValueError: an argument out of range.
        InvalidObservation: in `step`: a margin that is no finite number, or an end that `own_ends` refuses.
        ResetRequired: in `step` after a failure.

    Example:
        >>> env = MarginWrapper(gymnasium.make("Pendulum-v1"), g=lambda state: 1.0 - abs(state.env.state[0]))
    """

    stateful = True

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        g: Margin,
        l: Margin | None = None,  # noqa: E741  # the name of the channel
        *,
        terminate: bool = True,
        end_on_target: bool = False,
        own_ends: OwnEnds = "error",
        dt: float | None = None,
        failure_horizon_s: float | None = None,
        g_range: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(env)
        for name, margin in (("g", g), ("l", l)):
            if not callable(margin) and not (name == "l" and margin is None):
                raise TypeError(f"{name} is {margin!r}; expected a function of a MarginState that returns a number.")
        if own_ends not in get_args(OwnEnds):
            raise ValueError(f"own_ends is {own_ends!r}; expected one of {', '.join(map(repr, get_args(OwnEnds)))}.")
        if end_on_target and l is None:
            raise ValueError(
                "end_on_target is True, and there is no l, so no target to end at: give it, or leave it out."
            )
        self.g, self.l = g, l
        self.end_on_target = bool(end_on_target)
        self.terminate, self.own_ends = bool(terminate), own_ends
        self.provides_l = l is not None
        if dt is not None:
            self.dt = _seconds("dt", dt)
        if failure_horizon_s is not None:
            self.failure_horizon_s = _seconds("failure_horizon_s", failure_horizon_s)
        if g_range is not None:
            self.g_range = check_g_range(g_range)
        self._failed = False

    def before_step(self, action: Any) -> Any:
        """Refuse to go on after a failure."""
        if self._failed:
            raise ResetRequired(f"{self} has failed (g < 0), which ended its episode: call reset() first.")
        return action

    def after_step(self, result: StepResult) -> StepResult:
        """Reward, l and flags of the state that was reached."""
        state = MarginState(result.observation, result.info, self.unwrapped, result.terminated)
        g = _number("g", self.g(state))
        info, reached = result.info, False
        if self.l is not None:
            l = _number("l", self.l(state))  # noqa: E741
            info, reached = {**info, TARGET_KEY: l}, l >= 0
        failed = g < 0 and self.terminate
        terminated, truncated = result.terminated, result.truncated
        if terminated and not (g < 0 or reached):
            if self.own_ends == "error":
                raise InvalidObservation(
                    f"{self.env} ended its episode by terminated, and g is {g:.6g}: neither a failure nor, with l >= "
                    "0, a success. Let g be negative wherever it ends, or say what its ends are: own_ends='truncate', "
                    "as a time limit, or 'keep'."
                )
            if self.own_ends == "truncate":
                terminated, truncated = False, True
        self._failed = failed
        return StepResult(
            result.observation, g, terminated or failed or (reached and self.end_on_target), truncated, info
        )

    def after_reset(self, result: ResetResult) -> ResetResult:
        """Begin an episode. A first state with g < 0 is no error: the step from it may lead out, or fail."""
        self._failed = False
        return result


def check_g_range(g_range: Any) -> tuple[float, float]:
    """`g_range` as floats.

    Raises:
        ValueError: no `(smallest, largest)` with `smallest < largest` and `largest > 0`, the largest finite.
    """
    bounds = np.asarray(g_range, dtype=np.float64)
    if bounds.shape != (2,) or not bounds[0] < bounds[1] or not 0 < bounds[1] < math.inf:
        raise ValueError(
            f"g_range is {g_range!r}; expected (smallest, largest), smallest < largest, largest finite and above 0."
        )
    return float(bounds[0]), float(bounds[1])


def _seconds(name: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} is {value!r}; expected a positive number of seconds.")
    return float(value)


def _number(name: str, value: Any) -> float:
    """One margin."""
    array = np.asarray(value)
    if array.shape != () or array.dtype.kind not in "fiu" or not math.isfinite(array):
        raise InvalidObservation(f"{name} returned {value!r}; expected one finite number.")
    return float(array)
