"""Wrappers around a whole `VecEnv`: pure hooks, with one sync and one async driver over them.

A reward wrapper leaves rows that are not `valid` as they are; what an observation wrapper does with the rows of a
call is said in `observing`.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.core.env import class_names
from sekai.core.slots import AutoresetMode, RowKind
from sekai.seeding import VecSeed
from sekai.spaces import batch_space, readable
from sekai.vector.actions import check_actions
from sekai.vector.base import VecEnv
from sekai.vector.outstanding import check_slots
from sekai.vector.requests import check_mask
from sekai.vector.results import VecResetResult, VecStepResult


class VecWrapper(VecEnv):
    """Base class of vector wrappers: override the hooks you need.

    `send` and `recv` go through two more hooks, for some slots; a wrapper that can do that sets
    `by_slots` and overrides those that it needs. Any other refuses `send`.

    Args:
        venv: the vector environment to wrap.
    """

    #: whether it can handle the rows of some slots only; each class says so for itself, none inherits it
    by_slots: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.by_slots = vars(cls).get("by_slots", False)

    def __init__(self, venv: VecEnv) -> None:
        if not isinstance(venv, VecEnv):
            name = type(self).__name__
            advice = f" Around one environment use {name[3:]}." if isinstance(venv, gymnasium.Env) else ""
            raise TypeError(f"{name} wraps a VecEnv; given {venv!r} ({type(venv).__name__}).{advice}")
        self.venv = venv
        self.num_envs = venv.num_envs
        self.observation_space = venv.observation_space
        self.action_space = venv.action_space
        self.batch_observation_space = venv.batch_observation_space
        self.batch_action_space = venv.batch_action_space

    def set_observation_space(self, space: gymnasium.Space[Any]) -> None:
        """Declare the space of one observation handed outwards."""
        self.observation_space = readable(space)
        self.batch_observation_space = batch_space(self.observation_space, self.num_envs)

    def set_action_space(self, space: gymnasium.Space[Any]) -> None:
        """Declare the space of one action handed in."""
        self.action_space = readable(space)
        self.batch_action_space = batch_space(self.action_space, self.num_envs)

    def before_step(self, actions: Any) -> Any:
        """The actions handed inwards."""
        return actions

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """The result handed outwards."""
        return result

    def after_reset(self, result: VecResetResult, mask: NDArray[np.bool_]) -> VecResetResult:
        """The result of a reset of the slots in `mask`, handed outwards."""
        return result

    def before_send(self, actions: Any, slots: list[int]) -> Any:
        """The actions of some slots handed inwards; not called unless `by_slots`."""
        return actions

    def after_recv(self, result: VecStepResult, slots: NDArray[np.intp]) -> VecStepResult:
        """The rows of some slots handed outwards: row `j` is of slot `slots[j]`; not called unless `by_slots`."""
        return result

    def reset_failed(self, mask: NDArray[np.bool_]) -> None:
        """The reset of the slots in `mask` raised after they moved: they may be in new episodes nobody has seen."""

    def step(self, actions: Any) -> VecStepResult:
        """Step through the hooks."""
        result = self.venv.step(self.before_step(actions))
        try:
            return self.after_step(result)
        except BaseException:
            self.lose_rows(result.kind != RowKind.FROZEN)
            raise

    def send(self, actions: Any, slots: Any) -> None:
        """Send through the hooks."""
        self._require_by_slots()
        chosen = check_slots(slots, self.num_envs)
        self.venv.send(self.before_send(actions, chosen) if chosen else actions, chosen)

    def recv(self, min_slots: int = 1, timeout: float | None = None) -> tuple[NDArray[np.intp], VecStepResult]:
        """Receive through the hooks."""
        self._require_by_slots()
        slots, result = self.venv.recv(min_slots, timeout)
        try:
            return slots, self.after_recv(result, slots)
        except BaseException:
            mask = np.zeros(self.num_envs, bool)
            mask[slots] = result.kind != RowKind.FROZEN
            self.lose_rows(mask)
            raise

    def _require_by_slots(self) -> None:
        if not self.by_slots:
            raise NotImplementedError(
                f"{type(self).__name__} needs the rows of all slots at once: call step(), or leave it out to send() "
                "and recv()."
            )

    async def async_step(self, actions: Any) -> VecStepResult:
        """Awaitable `step`, through the same hooks."""
        result = await self.venv.async_step(self.before_step(actions))
        try:
            return self.after_step(result)
        except BaseException:
            self.lose_rows(result.kind != RowKind.FROZEN)
            raise

    def reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Reset through the hooks."""
        checked = check_mask(mask, self.num_envs)
        try:
            result = self.venv.reset(seed=seed, options=options, mask=mask)
        except BaseException:
            self.reset_failed(checked & self.lost_rows)  # a refused reset has moved none
            raise
        try:
            return self.after_reset(result, checked)
        except BaseException:
            self.lose_rows(checked)
            raise

    async def async_reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Awaitable `reset`, through the same hooks."""
        checked = check_mask(mask, self.num_envs)
        try:
            result = await self.venv.async_reset(seed=seed, options=options, mask=mask)
        except BaseException:
            self.reset_failed(checked & self.lost_rows)  # a refused reset has moved none
            raise
        try:
            return self.after_reset(result, checked)
        except BaseException:
            self.lose_rows(checked)
            raise

    def get_attr(self, name: str) -> list[Any]:
        """Handed inwards."""
        return self.venv.get_attr(name)

    def set_attr(self, name: str, value: Any) -> None:
        """Handed inwards."""
        self.venv.set_attr(name, value)

    def call(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Handed inwards."""
        return self.venv.call(name, *args, **kwargs)

    def lose_rows(self, slots: NDArray[np.bool_]) -> None:
        """Handed inwards."""
        self.venv.lose_rows(slots)

    def layers(self) -> list[str]:
        """This class, then the inner ones."""
        return [type(self).__name__, *self.venv.layers()]

    def layer_bases(self) -> list[list[str]]:
        """Those of this class, then the inner ones."""
        return [class_names(self), *self.venv.layer_bases()]

    def render(self) -> list[Any]:
        """Handed inwards."""
        return self.venv.render()

    def close(self) -> None:
        """Close the inner vector environment."""
        self.venv.close()

    @property
    def unwrapped(self) -> VecEnv:
        """The innermost vector environment."""
        return self.venv.unwrapped

    @property
    def busy(self) -> bool:
        """Whether a call on the inner vector environment is in progress."""
        return self.venv.busy

    @property
    def autoreset(self) -> AutoresetMode:  # type: ignore[override]  # handed on, not stored
        """The mode of the inner vector environment."""
        return self.venv.autoreset

    @property
    def outstanding(self) -> NDArray[np.bool_]:
        """Slots that were sent an action whose row has not been received."""
        return self.venv.outstanding

    @property
    def lost_rows(self) -> NDArray[np.bool_]:
        """Slots whose last row the caller never saw."""
        return self.venv.lost_rows

    @property
    def spec(self) -> Any:
        """The registry entry of the inner vector environment."""
        return self.venv.spec

    @property
    def metadata(self) -> dict[str, Any]:  # type: ignore[override]  # handed on, not stored
        """`metadata` of the inner vector environment."""
        return self.venv.metadata

    @property
    def render_mode(self) -> str | None:  # type: ignore[override]  # handed on, not stored
        """How the sub-environments render."""
        return self.venv.render_mode

    @property
    def closed(self) -> bool:  # type: ignore[override]  # handed on, not stored
        """Whether the inner vector environment has been closed."""
        return self.venv.closed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.venv})"


class VecRewardWrapper(VecWrapper):
    """Base class of wrappers that transform rewards: implement `reward`."""

    def reward(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """The transformed rewards, `(num_envs,)`; where it is `by_slots`, also of fewer slots."""
        raise NotImplementedError(f"{type(self).__name__} must implement reward(rewards).")

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """Transform the rewards of rows that are transitions."""
        rewards = np.asarray(self.reward(result.rewards.copy()), np.float64)
        expected = result.rewards.shape
        if rewards.shape != expected:
            raise ValueError(f"{type(self).__name__}.reward() returned shape {rewards.shape}; expected {expected}.")
        if not result.plain:  # some row is no plain step
            rewards = np.where(result.valid, rewards, result.rewards)
        return result.replace(rewards=rewards)

    def after_recv(self, result: VecStepResult, slots: NDArray[np.intp]) -> VecStepResult:
        """Transform the rewards of rows that are transitions."""
        return VecRewardWrapper.after_step(self, result)


class VecActionWrapper(VecWrapper):
    """Base class of wrappers that transform batches of actions: implement `action`.

    A subclass that changes the space calls `set_action_space` in its constructor.
    """

    def checked(self, actions: Any, slots: list[int] | None = None) -> Any:
        """The actions given, held to the action space, as a batch of arrays of their own.

        Args:
            actions: the batch.
            slots: which slots they are for, by default all.

        Raises:
            InvalidAction: they do not fit; the message names the first bad sub-environment.
        """
        return check_actions(self.action_space, actions, self.num_envs if slots is None else slots)

    def action(self, actions: Any) -> Any:
        """The actions for the inner vector environment."""
        raise NotImplementedError(f"{type(self).__name__} must implement action(actions).")

    def before_step(self, actions: Any) -> Any:
        """Transform the actions."""
        return self.action(actions)
