"""Wrappers that remember: stacks and delays of observations, delays and repetitions of actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from sekai.core.results import ResetResult, StepResult
from sekai.core.snapshot import snapshot
from sekai.core.states import Arrays, generator_arrays, generator_from, part_of, read_state
from sekai.core.wrapper import FollowUp, ObservationWrapper, StepCall, Wrapper
from sekai.errors import InvalidAction
from sekai.seeding import derived_generator
from sekai.spaces import OneRow, concatenate, empty_batch, read_row
from sekai.spaces.boxes import boxes_of
from sekai.spaces.checks import whole_number
from sekai.stats.state import check_state
from sekai.wrappers.frames import ALL, Frames, Padding, ShowsFrames, check_depth, leaves
from sekai.wrappers.transforms import clipped, require_fixed_size

#: key of the generator behind sticky actions, among those derived from an environment's
STICKS = (0x571C,)


class _RemembersObservations(ShowsFrames, ObservationWrapper):
    stateful = True

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._row = OneRow(env.observation_space)

    def after_step(self, result: StepResult) -> StepResult:
        """Remember the observation, then show what is remembered."""
        self._frames.push(ALL, self._row(result.observation))
        return result._replace(observation=self.observation(result.observation))

    def after_reset(self, result: ResetResult) -> ResetResult:
        """Forget the last episode."""
        self._frames.start(ALL, self._row(result.observation))
        return result._replace(observation=self.observation(result.observation))


class FrameStackObservation(_RemembersObservations):
    """The last `num_stack` observations, oldest first, along a new leading axis of every part.

    Args:
        env: an environment whose observations have one size.
        num_stack: how many, at least 1.
        padding: what stands before the first observation of an episode: that observation itself (`"reset"`), or zero
            (`"zeros"`; the nearest bound where zero is out of bounds).

    Raises:
        TypeError: observations of different sizes.
        ValueError: `num_stack` below 1, or an unknown padding.
    """

    vector_version = "VecFrameStackObservation"

    def __init__(self, env: gymnasium.Env[Any, Any], num_stack: int, *, padding: Padding = "reset") -> None:
        super().__init__(env)
        depth = check_depth(self, "num_stack", num_stack, minimum=1)
        self._frames = Frames(env.observation_space, 1, depth, padding, owner=self)
        self.observation_space = self._frames.space

    def observation(self, observation: Any) -> Any:
        """What is remembered, `(num_stack, *shape)` in every part."""
        return read_row(self.observation_space, self._frames.together(ALL), 0)


class DelayObservation(_RemembersObservations):
    """The observation of `delay` steps ago: a feed that comes late.

    Args:
        env: an environment whose observations have one size.
        delay: steps, at least 0.
        padding: what is seen before the first observation arrives: zero (`"zeros"`; the nearest bound where zero is
            out of bounds), or that observation at once (`"reset"`).

    Raises:
        TypeError: observations of different sizes.
        ValueError: a negative delay, or an unknown padding.
    """

    vector_version = "VecDelayObservation"

    def __init__(self, env: gymnasium.Env[Any, Any], delay: int, *, padding: Padding = "zeros") -> None:
        super().__init__(env)
        self.delay = check_depth(self, "delay", delay, minimum=0)
        self._frames = Frames(env.observation_space, 1, self.delay + 1, padding, owner=self)

    def observation(self, observation: Any) -> Any:
        """The oldest observation remembered."""
        return read_row(self.observation_space, self._frames.at(ALL, 0), 0)


class DelayAction(ShowsFrames, Wrapper):
    """Execute each action `delay` steps after it was chosen: orders that take time to arrive.

    Args:
        env: the environment to wrap.
        delay: steps, at least 0.
        noop: what is executed until the first action arrives; by default zero for a `Box` (the nearest bound where
            zero is out of bounds). Elsewhere it must be given: number 0 of a `Discrete` is rarely "do nothing".

    Raises:
        TypeError: no `noop` for a space that is no `Box`, or actions of different sizes.
        ValueError: a negative delay.
        InvalidAction: a `noop` outside the action space.
    """

    stateful = True
    vector_version = "VecDelayAction"

    def __init__(self, env: gymnasium.Env[Any, Any], delay: int, *, noop: Any = None) -> None:
        super().__init__(env)
        self.delay = check_depth(self, "delay", delay, minimum=0)
        self._frames, self._noop = action_frames(env.action_space, 1, self.delay, noop, owner=self)
        self._row = OneRow(env.action_space, what="action")
        self._given: Any = None

    def before_step(self, action: Any) -> Any:
        """The action of `delay` steps ago; what was given is remembered once the step has succeeded."""
        space, self._given = self.action_space, self._row(action)
        return read_row(space, self._frames.at(ALL, 1) if self.delay else self._given, 0)

    def after_step(self, result: StepResult) -> StepResult:
        """Remember the action."""
        self._frames.push(ALL, self._given)
        return result

    def after_reset(self, result: ResetResult) -> ResetResult:
        """Forget the actions on their way."""
        self._frames.fill(ALL, self._noop)
        return result


class StickyAction(Wrapper):
    """With some probability execute the last executed action again instead of the one given.

    Machado et al. 2018, "Revisiting the Arcade Learning Environment", section 5. The draws come from a generator of
    the wrapper's own, derived from the environment's at the first reset and at each reset with a seed; the
    environment's is the same with and without this wrapper.

    Args:
        env: the environment to wrap.
        repeat_action_probability: in `[0, 1)`.

    Raises:
        ValueError: another probability.
    """

    stateful = True

    def __init__(self, env: gymnasium.Env[Any, Any], repeat_action_probability: float) -> None:
        super().__init__(env)
        p = repeat_action_probability
        if not isinstance(p, (int, float)) or not 0.0 <= p < 1.0:
            raise ValueError(f"StickyAction: repeat_action_probability is {p!r}; expected a number in [0, 1).")
        self.repeat_action_probability = p
        self._parent: np.random.Generator | None = None
        self._draws: np.random.Generator | None = None
        self._last: Any = None
        self._executed: Any = None

    def before_step(self, action: Any) -> Any:
        """The action given, or the last one."""
        repeats = (
            self._last is not None and self._draws is not None and self._draws.random() < self.repeat_action_probability
        )
        self._executed = self._last if repeats else action
        return self._executed

    def after_step(self, result: StepResult) -> StepResult:
        """Remember the action executed."""
        self._last = snapshot(self._executed)
        return result

    def after_reset(self, result: ResetResult) -> ResetResult:
        """Forget the last episode's action; a generator that a seed has made has one derived for the draws here."""
        self._last = None
        if self._parent is not self.rng:
            self._parent = self.rng
            self._draws = derived_generator(self.rng, STICKS)
        return result

    def state_dict(self) -> Arrays:
        """The action executed last and the generator of the draws, as plain arrays; no generator before a reset.

        Raises:
            TypeError: actions of different sizes.
        """
        arrays = {"acted": np.array(self._last is not None), **self._last_arrays(self._last)}
        return {**arrays, **{f"draws.{name}": value for name, value in generator_arrays(self._draws).items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave; the state of the environment inside, if any, is to be loaded before.

        Raises:
            TypeError, ValueError: it does not fit; nothing is taken over.
        """
        arrays = read_state(state)
        draws = generator_from(part_of(arrays, "draws"))
        others = {name: array for name, array in arrays.items() if not name.startswith("draws.")}
        like = {"acted": np.array(True), **self._last_arrays(None)}
        loaded = check_state(others, like, finite=False)
        batch = empty_batch(self.action_space, 1)
        for name, part in leaves(batch, "last"):
            part[:] = loaded[name]
        last = read_row(self.action_space, batch, 0) if loaded["acted"] else None
        if last is not None and draws is None:
            raise ValueError("The state holds an action and no 'draws'; expected both, as state_dict() gives them.")
        if last is not None and not self._could_be_executed(last):
            raise ValueError(f"'last' of the state is {last!r}; expected an action of {self.action_space}.")
        self._last = last
        # the draws go on until a seed changes the generator of the environment
        self._draws, self._parent = draws, None if draws is None else self.rng

    def _could_be_executed(self, action: Any) -> bool:
        """Whether an action is in its space, the bounds of `Box` parts apart, beyond which environments may clip."""
        boxes = any(True for _ in boxes_of(self.action_space))
        return bool(self.action_space.contains(clipped(self.action_space).apply(action) if boxes else action))

    def _last_arrays(self, action: Any) -> Arrays:
        """The arrays of an action as a batch of one; None stands for any."""
        require_fixed_size(self.action_space, "StickyAction.state_dict()")
        row = empty_batch(self.action_space, 1) if action is None else OneRow(self.action_space, what="action")(action)
        return {name: np.array(part) for name, part in leaves(row, "last")}


class ActionRepeat(Wrapper):
    """Execute every action `repeat` times, or until the episode ends, as one step.

    The reward is the sum; observation, flags and info are those of the last execution, and the info's
    `action_repeats` says how many there were.

    Args:
        env: the environment to wrap.
        repeat: at least 1.

    Raises:
        ValueError: `repeat` below 1.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], repeat: int) -> None:
        super().__init__(env)
        self.repeat = whole_number("ActionRepeat: repeat", repeat, minimum=1)
        self._action: Any = None

    def before_step(self, action: Any) -> Any:
        """Keep the action for the repetitions."""
        self._action = action
        return action

    def follow_up(self, result: StepResult) -> FollowUp:
        """Step again until the action has been executed often enough."""
        reward, executed = float(result.reward), 1
        while not result.done and executed < self.repeat:
            result = yield StepCall(self._action)
            reward, executed = reward + result.reward, executed + 1
        return result._replace(reward=reward, info={**result.info, "action_repeats": executed})


def action_frames(
    space: gymnasium.Space[Any], num_slots: int, delay: int, noop: Any, *, owner: object
) -> tuple[Frames, Any]:
    """The memory of an action delay, filled with the action that does nothing, and that action as a batch of one.

    Raises:
        TypeError, InvalidAction: as `DelayAction`.
    """
    name = type(owner).__name__
    frames = Frames(space, num_slots, delay + 1, "zeros" if noop is None else "reset", owner=owner)
    if noop is None:
        if not isinstance(space, gymnasium.spaces.Box):
            raise TypeError(f"{name}: give noop, the action that does nothing; for {space} it cannot be guessed.")
        idle = frames.zeros
    else:
        idle = concatenate(space, [noop], what="action")
        if not space.contains(read_row(space, idle, 0)):
            raise InvalidAction(f"{name}: noop is {noop!r}; expected a member of {space}.")
    frames.fill(ALL, idle)
    return frames, idle
