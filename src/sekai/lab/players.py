"""`Player`: the policy of the lab, whose actions do not depend on when slots are reset.

memory  h    0      1      1.5    1.75   0      1         h' = h / 2 + 1 with every observation acted on
episode      e0     e0     e0     e0     e1     e1        it begins anew, at 0, with every episode
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.collect import Decision
from sekai.spaces import concatenate


class Player:
    """Acts at random, or always alike, and has a memory that can be watched.

    A random action is drawn from a generator of its own, which seed, slot, episode of the slot and step of the episode
    determine, and nothing else. So runs of the same environments in different autoreset modes meet the same actions at
    the same steps, whatever rows stand between them. What it knows of episodes begins with its first decision: a new
    run takes a new player.

    Args:
        space: action space of one slot; a copy is drawn from.
        seed: of the actions.
        action: what to do in every step; None: random actions. A number fills a `Box`.
    """

    def __init__(self, space: gymnasium.Space[Any], *, seed: int, action: Any = None) -> None:
        self._space = deepcopy(space)
        self._seed = seed
        self.constant = _as_member(space, action)
        self._episode: NDArray[np.int64] | None = None
        self._step: NDArray[np.int64] | None = None

    def initial_state(self, num_slots: int) -> NDArray[np.float64]:
        """No memory: 0 in every slot."""
        return np.zeros(num_slots)

    def act(self, observations: Any, state: NDArray[np.float64], episode_start: NDArray[np.bool_]) -> Decision:
        """One action per slot; the memory halves and 1 is added."""
        if self._episode is None or self._step is None:
            self._episode, self._step = np.full(len(episode_start), -1), np.zeros(len(episode_start), np.int64)
        self._episode = self._episode + episode_start
        self._step = np.where(episode_start, 0, self._step + 1)
        actions = [self._action(*key) for key in enumerate(zip(self._episode, self._step, strict=True))]
        return Decision(concatenate(self._space, actions), state / 2.0 + 1.0)

    def _action(self, slot: int, moment: tuple[int, int]) -> Any:
        if self.constant is not None:
            return self.constant
        episode, step = moment
        words = np.random.SeedSequence((self._seed, slot, int(episode), int(step))).generate_state(1)
        self._space.seed(int(words[0]))
        return self._space.sample()


def _as_member(space: gymnasium.Space[Any], action: Any) -> Any:
    """An action that was written as a number or a list, as the space has it."""
    if action is None or not isinstance(space, gymnasium.spaces.Box):
        return action
    given = np.asarray(action, space.dtype)
    return np.full(space.shape, given) if given.ndim == 0 else given
