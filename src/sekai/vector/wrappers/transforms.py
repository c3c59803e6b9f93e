"""Vector wrappers without memory: functions given by the user, and the formulas of the single wrappers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.spaces import flatten_batch, flatten_space
from sekai.vector.base import VecEnv
from sekai.vector.observing import VecObservationWrapper
from sekai.vector.wrapper import VecActionWrapper, VecRewardWrapper
from sekai.wrappers.reward import check_bounds
from sekai.wrappers.transforms import Transform, clipped, filtered, require_fixed_size, unscaled


class VecTransformObservation(VecObservationWrapper):
    """Apply `func` to every batch of observations, and to each terminal one as a batch of one.

    Args:
        venv: the vector environment to wrap.
        func: batch in, batch out, in new arrays.
        new_observation_space: space of one transformed observation; needed when shape, dtype or structure change.

    Raises:
        SpaceMismatch: at the first batch, when the result does not fit the declared space.
    """

    def __init__(
        self,
        venv: VecEnv,
        func: Callable[[Any], Any],
        new_observation_space: gymnasium.Space[Any] | None = None,
    ) -> None:
        super().__init__(venv)
        self.func = func
        if new_observation_space is not None:
            self.set_observation_space(new_observation_space)

    by_slots = True

    def observation(self, batch: Any) -> Any:
        """`func(batch)`."""
        return self.func(batch)


class _RowByRow(VecObservationWrapper):
    """An observation wrapper that is one `Transform`, which treats every row by itself."""

    def _use(self, transform: Transform) -> None:
        self.set_observation_space(transform.space)
        self._apply = transform.apply

    def observation(self, batch: Any) -> Any:
        """The transformed batch."""
        return self._apply(batch)

    def _final_batch(self, rows: Any) -> Any:
        return self._apply(rows)


class VecFilterObservation(_RowByRow):
    """Keep some keys of a `Dict` observation, or some places of a `Tuple`, in the order given.

    Args:
        venv: the vector environment to wrap.
        keys: which.

    Raises:
        TypeError: another observation space.
        ValueError: no key, one given twice, or one that is not there.
    """

    by_slots = True

    def __init__(self, venv: VecEnv, keys: Iterable[Any]) -> None:
        super().__init__(venv)
        self._use(filtered(venv.observation_space, keys))


class VecFlattenObservation(_RowByRow):
    """One array `(N, D)` for all parts of the observations, discrete ones as a one among zeros.

    Args:
        venv: a vector environment whose observations have one size.

    Raises:
        TypeError: observations of different sizes.
    """

    by_slots = True

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        space = venv.observation_space
        require_fixed_size(space, "VecFlattenObservation")
        self._use(Transform(flatten_space(space), partial(flatten_batch, space)))


class VecTransformReward(VecRewardWrapper):
    """Apply `func` to the `(num_envs,)` array of rewards; rows that are no transitions keep their reward.

    Args:
        venv: the vector environment to wrap.
        func: rewards in, rewards out.
    """

    def __init__(self, venv: VecEnv, func: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> None:
        super().__init__(venv)
        self.func = func

    by_slots = True

    def reward(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """`func(rewards)`."""
        return self.func(rewards)


class VecClipReward(VecRewardWrapper):
    """Clip every reward to `[min_reward, max_reward]`; NaN stays NaN, rows that are no transitions keep theirs.

    Args:
        venv: the vector environment to wrap.
        min_reward: lower bound, `-inf` for none.
        max_reward: upper bound, `inf` for none.

    Raises:
        ValueError: `min_reward` is not below `max_reward`, or both are infinite.
    """

    def __init__(self, venv: VecEnv, min_reward: float = -math.inf, max_reward: float = math.inf) -> None:
        super().__init__(venv)
        self.min_reward, self.max_reward = check_bounds(min_reward, max_reward, name="VecClipReward")

    by_slots = True

    def reward(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rewards within bounds."""
        return rewards.clip(self.min_reward, self.max_reward, out=rewards)  # `np.clip` takes twice as long to call it


class VecClipAction(VecActionWrapper):
    """Hold every `Box` part of the actions to its bounds; the action space stays as it is.

    Args:
        venv: the vector environment to wrap.

    Raises:
        TypeError: no `Box` part.
    """

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self._apply = clipped(venv.action_space).apply

    by_slots = True

    def action(self, actions: Any) -> Any:
        """The actions within bounds."""
        return self._apply(self.checked(actions))

    def before_send(self, actions: Any, slots: list[int]) -> Any:
        """The actions of some slots within bounds."""
        return self._apply(self.checked(actions, slots))


class VecRescaleAction(VecActionWrapper):
    """Take actions in `[min_action, max_action]` and hand them on in the environments' own bounds, linearly.

    An action outside is held to the bounds.

    Args:
        venv: a vector environment whose `Box` parts of an action are bounded.
        min_action: lower bound of the new action space, a number or an array of the part's shape.
        max_action: its upper bound.

    Raises:
        TypeError: no `Box` part.
        ValueError: an unbounded part, or `min_action < max_action` does not hold.
    """

    def __init__(self, venv: VecEnv, min_action: ArrayLike, max_action: ArrayLike) -> None:
        super().__init__(venv)
        space, self._apply = unscaled(venv.action_space, min_action, max_action, name="VecRescaleAction")
        self.set_action_space(space)

    by_slots = True

    def action(self, actions: Any) -> Any:
        """The actions in the environments' bounds."""
        return self._apply(self.checked(actions))

    def before_send(self, actions: Any, slots: list[int]) -> Any:
        """The actions of some slots in the environments' bounds."""
        return self._apply(self.checked(actions, slots))
