"""Vector wrappers that remember: stacks and delays of observations, time, delays of actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import RowKind
from sekai.vector.base import VecEnv
from sekai.vector.observing import VecMemoryWrapper
from sekai.vector.results import VecResetResult, VecStepResult
from sekai.vector.wrapper import VecActionWrapper
from sekai.wrappers.frames import ALL, Frames, Padding, ShowsFrames, Slots, check_depth
from sekai.wrappers.memory import action_frames
from sekai.wrappers.time import check_max_episode_steps, check_steps
from sekai.wrappers.transforms import append_time, time_aware


class _RemembersObservations(ShowsFrames, VecMemoryWrapper):
    def begin(self, slots: Slots, rows: Any) -> None:
        """Forget the last episode."""
        self._frames.start(slots, rows)

    def remember(self, slots: Slots, rows: Any) -> None:
        """Drop the oldest observation for the new one."""
        self._frames.push(slots, rows)


class VecFrameStackObservation(_RemembersObservations):
    """The last `num_stack` observations of every slot, oldest first, along a new axis after that of the slots.

    Args:
        venv: a vector environment whose observations have one size.
        num_stack: how many, at least 1.
        padding: what stands before the first observation of an episode: that observation itself (`"reset"`), or zero
            (`"zeros"`; the nearest bound where zero is out of bounds).

    Raises:
        TypeError: observations of different sizes.
        ValueError: `num_stack` below 1, or an unknown padding.
    """

    by_slots = True

    def __init__(self, venv: VecEnv, num_stack: int, *, padding: Padding = "reset") -> None:
        super().__init__(venv)
        depth = check_depth(self, "num_stack", num_stack, minimum=1)
        self._frames = Frames(venv.observation_space, self.num_envs, depth, padding, owner=self)
        self.set_observation_space(self._frames.space)

    def shown(self, slots: Slots, rows: Any) -> Any:
        """All that is remembered, `(k, num_stack, *shape)` in every part."""
        return self._frames.together(slots)


class VecDelayObservation(_RemembersObservations):
    """The observations of `delay` steps ago: a feed that comes late.

    Args:
        venv: a vector environment whose observations have one size.
        delay: steps, at least 0.
        padding: what is seen before the first observation arrives: zero (`"zeros"`; the nearest bound where zero is
            out of bounds), or that observation at once (`"reset"`).

    Raises:
        TypeError: observations of different sizes.
        ValueError: a negative delay, or an unknown padding.
    """

    by_slots = True

    def __init__(self, venv: VecEnv, delay: int, *, padding: Padding = "zeros") -> None:
        super().__init__(venv)
        self.delay = check_depth(self, "delay", delay, minimum=0)
        self._frames = Frames(venv.observation_space, self.num_envs, self.delay + 1, padding, owner=self)

    def shown(self, slots: Slots, rows: Any) -> Any:
        """The oldest observation remembered."""
        return self._frames.at(slots, 0)


class VecTimeAwareObservation(VecMemoryWrapper):
    """Append the fraction of the time limit that has passed, in `[0, 1]`, to flat `Box` observations.

    After a lost row the time is what the info's `elapsed_steps` says, and begins at 0 where it says nothing.

    Args:
        venv: a vector environment with a one-dimensional `Box` observation of a float dtype.
        max_episode_steps: the time limit; by default that of the environments.

    Raises:
        TypeError: another observation space.
        ValueError: no limit is given and the environments have none, or different ones.
    """

    by_slots = True

    def __init__(self, venv: VecEnv, max_episode_steps: int | None = None) -> None:
        super().__init__(venv)
        self.set_observation_space(time_aware(venv.observation_space, name="VecTimeAwareObservation"))
        self.time_limit = check_max_episode_steps(
            self._limit_of(venv) if max_episode_steps is None else max_episode_steps
        )
        self._steps = np.zeros(self.num_envs, np.int64)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """A copy of the `steps` taken in the episode of each slot, `(num_envs,)`."""
        return {"steps": self._steps.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Raises:
            ValueError: it does not fit; nothing is taken over.
        """
        self._steps = check_steps(state, self.state_dict(), minimum=0)

    @staticmethod
    def _limit_of(venv: VecEnv) -> Any:
        try:
            limits = set(venv.get_attr("max_episode_steps"))
        except AttributeError:
            limits = {None}
        if len(limits) != 1 or None in limits:
            raise ValueError(
                f"{venv} has the time limits {sorted(limits, key=str)}; give "
                "VecTimeAwareObservation(venv, max_episode_steps=...)."
            )
        return limits.pop()

    def begin(self, slots: Slots, rows: Any) -> None:
        """Start at time 0."""
        self._steps[slots] = 0

    def remember(self, slots: Slots, rows: Any) -> None:
        """Let time pass."""
        self._steps[slots] += 1

    def resume(self, slots: NDArray[np.intp], rows: Any, infos: list[dict[str, Any]]) -> None:
        """Take the time from the infos."""
        self._steps[slots] = [info.get("elapsed_steps", 0) for info in infos]

    def shown(self, slots: Slots, rows: Any) -> Any:
        """The observations with the time appended, `(k, D + 1)`.

        Raises:
            ValueError: an episode is longer than the limit given.
        """
        return append_time(rows, self._steps[slots], self.time_limit)


class VecDelayAction(ShowsFrames, VecActionWrapper):
    """Execute each action `delay` steps after it was chosen: orders that take time to arrive.

    The actions on their way are dropped where an episode ends, and with the first row after one that was lost.

    Args:
        venv: the vector environment to wrap.
        delay: steps, at least 0.
        noop: what is executed until the first action arrives; by default zero for a `Box` (the nearest bound where
            zero is out of bounds). Elsewhere it must be given: number 0 of a `Discrete` is rarely "do nothing".

    Raises:
        TypeError: no `noop` for a space that is no `Box`, or actions of different sizes.
        ValueError: a negative delay.
        InvalidAction: a `noop` outside the action space.
    """

    def __init__(self, venv: VecEnv, delay: int, *, noop: Any = None) -> None:
        super().__init__(venv)
        self.delay = check_depth(self, "delay", delay, minimum=0)
        self._frames, self._noop = action_frames(venv.action_space, self.num_envs, self.delay, noop, owner=self)
        self._given: Any = None

    def action(self, actions: Any) -> Any:
        """The actions of `delay` steps ago; what was given is remembered once the step has succeeded."""
        if self.venv.busy:
            return actions  # to be refused there; what is in progress keeps what it was given
        self._given = self.checked(actions)
        lost = self.venv.lost_rows
        if lost.any():
            self._drop(lost)
        return self._frames.at(ALL, 1) if self.delay else self._given

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """Remember the actions of the slots whose episode goes on."""
        self._frames.push(ALL, self._given)
        if not result.plain:  # some row is no plain step
            self._drop(result.dones | (result.kind == RowKind.RESET) | (result.kind == RowKind.LOST))
        return result

    def after_reset(self, result: VecResetResult, mask: NDArray[np.bool_]) -> VecResetResult:
        """Drop the actions on their way."""
        self._drop(mask)
        return result

    def _drop(self, slots: NDArray[np.bool_]) -> None:
        self._frames.fill(np.flatnonzero(slots), self._noop)
