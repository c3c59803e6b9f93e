"""`MemoryCorridor`: a light at the start, and a junction that asks for it when it is out of sight.

The walk goes round. With corridors of 3 and then 2 steps, and `laps=2`, an observation being `(light, junction)`:

    step            0      1      2      3      4      5
    observation    L,0    0,0    0,0    0,1    0,0    0,1    0,0
    action          -      -      -    answer   -    answer
    ends                                 t?             T          t: truncated with chance `cut`, T: terminated

The light `L` is 0 or 1 by a fair coin, and shows in the first observation alone. At a junction the right answer is
`L`, and nothing else in sight depends on it: who does not remember is right half the time, whatever else they do.

Two mistakes of a learner show in what it reaches:

- Darkness at the start looks like any other place, and an episode is cut without a sign. Who keeps the memory of the
  last episode takes the next one for a further lap, and answers with a light that was seen before. Corridors of
  different lengths (`length=(4, 8)`) leave nothing to count either.
- With a `refund`, an episode opens with that reward where the one before ended in a wrong answer. It is no matter of
  that answer: the episode is over, and what follows a cut is worth what going on would have been. A learner whose
  returns run on from a truncated row into the next episode finds that wrong answers pay, and learns to give them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core import Env, ResetResult, StepResult
from sekai.errors import ResetRequired
from sekai.seeding import Seed
from sekai.spaces import Box, Discrete
from sekai.spaces.checks import whole_number


class MemoryCorridor(Env[NDArray[np.float32], Any]):
    """Remember a light until the junction; see the module for a picture.

    Observations are float32 `(2,)`: the light, and 1 at a junction. Actions are 0 and 1; they count at junctions, and
    what is done elsewhere changes nothing.

    Args:
        length: steps from the start to the first junction, and from each to the next; or the least and the most of
            them, `(shortest, longest)`, between which each corridor is drawn.
        laps: answers after which the episode terminates, at least 1.
        cut: chance that it is truncated after an answer, the last one excepted.
        refund: reward of the first step of an episode, where the last answer of the one before was wrong.

    Raises:
        ValueError: an argument out of range.

    Example:
        >>> env = MemoryCorridor(length=2)
        >>> light = env.reset(seed=3).observation[0]
        >>> [env.step(int(light)).reward for _ in range(3)]
        [0.0, 0.0, 1.0]
    """

    metadata = {"render_modes": [], "finite_horizon": True}  # noqa: RUF012  # as gymnasium has it

    def __init__(
        self, length: int | tuple[int, int] = 8, laps: int = 2, *, cut: float = 0.5, refund: float = 0.0
    ) -> None:
        shortest, longest = length if isinstance(length, tuple) else (length, length)
        self.shortest = whole_number("length", shortest, minimum=1)
        self.longest = whole_number("length", longest, minimum=self.shortest)
        self.laps = whole_number("laps", laps, minimum=1)
        if not 0.0 <= cut <= 1.0:
            raise ValueError(f"cut is {cut!r}; expected a chance, in [0, 1].")
        if not np.isfinite(refund):
            raise ValueError(f"refund is {refund!r}; expected a finite reward.")
        self.cut, self.refund = float(cut), float(refund)
        self.observation_space = Box(0.0, 1.0, (2,), np.float32)
        self.action_space = Discrete(2)
        self._light, self._owed = 0, 0.0
        self._left: int | None = None  # steps to the next junction; None without an episode
        self._answers = 0

    def reset(self, *, seed: Seed = None, options: dict[str, Any] | None = None) -> ResetResult:
        """Start a walk. With a seed nothing is owed from the episode before."""
        self._set_rng(seed)
        if seed is not None:
            self._owed = 0.0
        self._light, self._answers = int(self.rng.integers(2)), 0
        self._left = self._corridor()
        return ResetResult(np.array([self._light, 0], np.float32), {})

    def step(self, action: Any) -> StepResult:
        """Walk on; at a junction, answer.

        Returns:
            The reward is 1 for the right answer and 0 else; the first step of an episode pays what is owed.

        Raises:
            ResetRequired: before the first reset, and after the end of an episode.
        """
        if self._left is None:
            raise ResetRequired(f"{self} has no episode to step: call reset() first.")
        if self._left == 0:
            return self._answer(int(action) == self._light)
        self._left -= 1
        reward, self._owed = self._owed, 0.0
        return StepResult(np.array([0, self._left == 0], np.float32), reward, False, False, {})

    def _answer(self, right: bool) -> StepResult:
        self._answers += 1
        terminated = self._answers == self.laps
        truncated = not terminated and bool(self.rng.random() < self.cut)
        self._left = self._corridor() - 1
        seen = np.array([0, self._left == 0], np.float32)
        if terminated or truncated:
            self._left, self._owed = None, 0.0 if right else self.refund
        return StepResult(seen, float(right), terminated, truncated, {})

    def _corridor(self) -> int:
        """Steps of the corridor ahead."""
        return int(self.rng.integers(self.shortest, self.longest + 1))
