"""Wrappers around a whole `VecEnv`: pure hooks, with one sync and one async driver over them.

Terminal rows: in every autoreset mode an observation wrapper sends the last observation of an episode through
`final_observation`, wherever it stands (in the info under same_step, in the row itself otherwise); a frozen row is
transformed once and repeated. A reward wrapper leaves rows that are not `valid` as they are.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import AutoresetMode, RowKind
from sekai.errors import SpaceMismatch
from sekai.seeding import VecSeed
from sekai.spaces import (
    batch_space,
    copy_batch,
    empty_batch,
    finish_batch,
    iterate,
    read_row,
    readable,
    write_row,
)
from sekai.vector.base import VecEnv
from sekai.vector.outputs import check_batch
from sekai.vector.requests import check_mask
from sekai.vector.results import VecResetResult, VecStepResult


class VecWrapper(VecEnv):
    """Base class of vector wrappers: override the hooks you need.

    Args:
        venv: the vector environment to wrap.
    """

    def __init__(self, venv: VecEnv) -> None:
        if not isinstance(venv, VecEnv):
            raise TypeError(f"{type(self).__name__} wraps a VecEnv; given {venv!r} ({type(venv).__name__}).")
        self.venv = venv
        self.num_envs = venv.num_envs
        self.observation_space = venv.observation_space
        self.action_space = venv.action_space
        self.batch_observation_space = venv.batch_observation_space
        self.batch_action_space = venv.batch_action_space

    def before_step(self, actions: Any) -> Any:
        """The actions handed inwards."""
        return actions

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """The result handed outwards."""
        return result

    def after_reset(self, result: VecResetResult, mask: NDArray[np.bool_]) -> VecResetResult:
        """The result of a reset of the slots in `mask`, handed outwards."""
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
    def autoreset(self) -> AutoresetMode:  # type: ignore[override]  # handed on, not stored
        """The mode of the inner vector environment."""
        return self.venv.autoreset

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


class VecObservationWrapper(VecWrapper):
    """Base class of wrappers that transform batches of observations: implement `observation`.

    A subclass that changes the space calls `set_observation_space` in its constructor.
    """

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self._frozen_rows: dict[int, Any] = {}
        self._checked = False

    def set_observation_space(self, space: gymnasium.Space[Any]) -> None:
        """Declare the space of one transformed observation."""
        self.observation_space = readable(space)
        self.batch_observation_space = batch_space(self.observation_space, self.num_envs)

    def observation(self, batch: Any) -> Any:
        """The transformed batch, in new arrays."""
        raise NotImplementedError(f"{type(self).__name__} must implement observation(batch).")

    def final_observation(self, obs: Any) -> Any:
        """The transformed last observation of an episode, one sample; by default `observation` of a batch of one.

        Override it when `observation` has side effects or only makes sense on a full batch.
        """
        inner = self.venv.observation_space
        one = empty_batch(inner, 1)
        write_row(inner, one, 0, obs)
        return next(iterate(self.observation_space, self.observation(finish_batch(inner, one))))

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """Transform the batch, and the terminal rows on their own."""
        in_rows = []
        if result.ended.any():
            for slot in np.flatnonzero(result.ended).tolist():
                info = result.infos[slot]
                if "reset_info" in info:  # the slot was reset in the same call
                    info["final_observation"] = self.final_observation(info["final_observation"])
                else:
                    in_rows.append(slot)
        waiting = result.dones & ~result.ended  # frozen, also where the call that froze it was lost
        frozen = np.flatnonzero(waiting).tolist() if waiting.any() else []
        batch = self._with_terminal_rows(result.observations, in_rows, frozen)
        return result.replace(observations=batch, space=self.observation_space)

    def after_reset(self, result: VecResetResult, mask: NDArray[np.bool_]) -> VecResetResult:
        """Transform the batch; slots outside the mask that are frozen keep their transformed row."""
        frozen = np.flatnonzero(result.dones).tolist()
        return result.replace(observations=self._with_terminal_rows(result.observations, [], frozen))

    def reset_failed(self, mask: NDArray[np.bool_]) -> None:
        """Forget the frozen rows of these slots."""
        for slot in np.flatnonzero(mask).tolist():
            self._frozen_rows.pop(slot, None)

    def _with_terminal_rows(self, observations: Any, ended: list[int], frozen: list[int]) -> Any:
        """The transformed batch, in which these slots have the transformed last row of their episode.

        Args:
            observations: the batch as it came.
            ended: slots whose row is the last of an episode that ended in this call.
            frozen: slots whose row is that of an earlier call; it has been transformed then, unless nobody saw it.
        """
        known = {slot: self._frozen_rows[slot] for slot in frozen if slot in self._frozen_rows}
        space = self.venv.observation_space
        # read before the batch is transformed: a transform may work in place
        raw = {slot: read_row(space, observations, slot) for slot in (*ended, *frozen) if slot not in known}
        batch = self._transformed(observations)
        self._frozen_rows = known | {slot: self.final_observation(row) for slot, row in raw.items()}
        return self._with_rows(batch, self._frozen_rows)

    def _transformed(self, observations: Any) -> Any:
        batch = self.observation(observations)
        if not self._checked:
            try:
                check_batch(self.observation_space, batch, self.num_envs, f"{type(self).__name__}.observation()")
            except ValueError as error:
                raise SpaceMismatch(
                    f"{error} Declare the transformed space (new_observation_space, or set_observation_space)."
                ) from error
            self._checked = True
        return batch

    def _with_rows(self, batch: Any, rows: dict[int, Any]) -> Any:
        """A copy of `batch` with some rows replaced; the transform may have handed on what it was given."""
        if not rows:
            return batch
        batch = copy_batch(self.observation_space, batch)
        for slot, row in rows.items():
            write_row(self.observation_space, batch, slot, row)
        return finish_batch(self.observation_space, batch)


class VecRewardWrapper(VecWrapper):
    """Base class of wrappers that transform rewards: implement `reward`."""

    def reward(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """The transformed rewards, `(num_envs,)`."""
        raise NotImplementedError(f"{type(self).__name__} must implement reward(rewards).")

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """Transform the rewards of rows that are transitions."""
        rewards = np.asarray(self.reward(result.rewards.copy()), np.float64)
        if rewards.shape != (self.num_envs,):
            raise ValueError(
                f"{type(self).__name__}.reward() returned shape {rewards.shape}; expected {(self.num_envs,)}."
            )
        return result.replace(rewards=np.where(result.valid, rewards, result.rewards))


class VecActionWrapper(VecWrapper):
    """Base class of wrappers that transform batches of actions: implement `action`."""

    def action(self, actions: Any) -> Any:
        """The actions for the inner vector environment."""
        raise NotImplementedError(f"{type(self).__name__} must implement action(actions).")

    def before_step(self, actions: Any) -> Any:
        """Transform the actions."""
        return self.action(actions)
