"""`evaluate`: the mean return of a policy, without favouring short episodes.

The first `K` episodes to *finish* are short ones too often: while one slot is in a long episode, another finishes
several short ones. Here each slot plays a fixed number of episodes, counted as they start:

    2 slots, 3 episodes      slot 0  |0--|2--|          episodes 0 and 2; what follows does not count
                             slot 1  |1-------------|   episode 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.collect.acting import Actor
from sekai.collect.confidence import bootstrap_interval
from sekai.collect.standstill import listening, normalizers_at_rest
from sekai.core.slots import AutoresetMode, RowKind
from sekai.seeding import spawn_seeds
from sekai.spaces.checks import whole_number
from sekai.vector import NativeVecEnv, VecEnv, VecStepResult


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """What `evaluate` found; arrays `(E,)` with one entry per episode, in the order in which slots start them.

    Episode `k` was number `k // num_envs` of slot `k % num_envs`.
    """

    returns: NDArray[np.float64]
    """Sums of the rewards as the vector environment gave them."""
    raw_returns: NDArray[np.float64]
    """Sums of the rewards of the innermost vector environment, beneath all vector wrappers."""
    lengths: NDArray[np.int64]
    """Numbers of actions executed."""
    slots: NDArray[np.int64]
    """Where they were played."""
    terminated: NDArray[np.bool_]
    """They ended within the task."""
    truncated: NDArray[np.bool_]
    """They were cut from outside the task."""
    seeds: tuple[int, ...] | None
    """What each was reset with under common random numbers; None otherwise."""
    mean: float
    """Of `returns`."""
    interval: tuple[float, float]
    """Bootstrap interval of the mean of `returns`, see `bootstrap_interval`; NaN with a single episode."""
    confidence: float
    """Of the interval."""


def evaluate(
    policy: Any,
    vec: VecEnv,
    episodes: int,
    *,
    seed: int | None = None,
    common_random_numbers: bool = False,
    confidence: float = 0.95,
    resamples: int = 10_000,
) -> Evaluation:
    """Play episodes with a policy, a fixed number in each slot.

    Works in every autoreset mode. `vec` is reset at the start, and must be reset again by whoever goes on with it.
    Statistics of normalisers stand still; a tracker of episode statistics does hear of the episodes.

    Args:
        policy: a function `observations -> actions`, or an object with `initial_state(num_slots)` and
            `act(observations, state, episode_start)`, which returns an object with `.actions` and `.state`. State is
            any nesting of arrays with a leading axis of slots; it begins anew with every episode.
        vec: the vector environment.
        episodes: how many count; slot `i` plays the first `episodes // num_envs`, and one more where
            `i < episodes % num_envs`.
        seed: of the first reset; with `common_random_numbers` of every episode. None continues the streams.
        common_random_numbers: reset episode `k` with the `k`-th seed spawned from `seed`, so that another policy,
            with any number of slots, meets the same episodes.
        confidence: of the interval.
        resamples: of the bootstrap.

    Raises:
        TypeError: `vec` is no `sekai.VecEnv`, or `policy` no policy.
        ValueError: an argument out of range; common random numbers without a seed, or on a native environment,
            whose slots share one stream.

        >>> evaluate(lambda observations: np.zeros(8, int), sekai.make_vec("CartPole-v1", num_envs=8), 20).mean
    """
    if not isinstance(vec, VecEnv):
        raise TypeError(f"evaluate takes a sekai.VecEnv; given {vec!r} ({type(vec).__name__}): use sekai.make_vec.")
    episodes = whole_number("episodes", episodes, minimum=1)
    bootstrap_interval([0.0], confidence=confidence, resamples=resamples)  # refused before anything moves
    seeds = _episode_seeds(vec, seed, episodes) if common_random_numbers else None
    with normalizers_at_rest(vec), listening(vec) as listener:
        run = _Run(Actor(policy, vec.num_envs), vec, episodes, seeds)
        run.play(seed, listener)
    low_high = bootstrap_interval(
        run.returns, confidence=confidence, resamples=resamples, seed=0 if seed is None else seed
    )
    return Evaluation(
        returns=run.returns,
        raw_returns=run.raw_returns,
        lengths=run.lengths,
        slots=np.arange(episodes) % vec.num_envs,
        terminated=run.terminated,
        truncated=run.truncated,
        seeds=seeds,
        mean=float(run.returns.mean()),
        interval=low_high,
        confidence=confidence,
    )


def _episode_seeds(vec: VecEnv, seed: int | None, episodes: int) -> tuple[int, ...]:
    if seed is None:
        raise ValueError("common_random_numbers needs a seed: give both policies the same, such as seed=0.")
    if isinstance(vec.unwrapped, NativeVecEnv):
        raise ValueError(
            f"The slots of {vec.unwrapped} share one stream of random numbers, so episodes have no seeds of their own: "
            "for common_random_numbers use vectorization_mode='sync' or 'proc'."
        )
    return tuple(spawn_seeds(seed, episodes))


class _Run:
    """One evaluation: what has been played, and the sums of the episodes under way."""

    def __init__(self, actor: Actor, vec: VecEnv, episodes: int, seeds: tuple[int, ...] | None) -> None:
        n = vec.num_envs
        self.actor, self.vec, self.seeds = actor, vec, seeds
        self.returns, self.raw_returns = np.zeros(episodes), np.zeros(episodes)
        self.lengths = np.zeros(episodes, np.int64)
        self.terminated, self.truncated = np.zeros(episodes, bool), np.zeros(episodes, bool)
        self.quota = episodes // n + (np.arange(n) < episodes % n)
        self.played = np.zeros(n, np.int64)
        self._sum, self._raw_sum, self._steps = np.zeros(n), np.zeros(n), np.zeros(n, np.int64)

    def play(self, seed: int | None, listener: Any) -> None:
        """Until every slot has played its episodes."""
        n = self.vec.num_envs
        every = np.ones(n, bool)
        observations = self.vec.reset(seed=seed if self.seeds is None else self._seeds_of(every)).observations
        starts = every
        while (self.played < self.quota).any():
            result = self.vec.step(self.actor(observations, starts))
            self._count(result, result.rewards if listener is None else listener.rewards)
            observations = result.observations
            starts = result.begun | (result.kind == RowKind.RESET)
            again = self._to_reset(result)
            if again.any():
                seeds = None if self.seeds is None else self._seeds_of(again)
                observations = self.vec.reset(mask=again, seed=seeds).observations
                starts = starts | again

    def _count(self, result: VecStepResult, raw: NDArray[np.float64]) -> None:
        """Add a row per slot, and keep the episodes that ended."""
        valid, lost = result.valid, result.kind == RowKind.LOST
        self._sum += np.where(valid, result.rewards, 0.0)
        self._raw_sum += np.where(valid, raw, 0.0)
        self._steps += valid
        over = result.ended & ~lost  # an episode of which a row was lost is played again
        for slot in np.flatnonzero(over & (self.played < self.quota)).tolist():
            k = self.played[slot] * self.vec.num_envs + slot
            self.returns[k], self.raw_returns[k] = self._sum[slot], self._raw_sum[slot]
            self.lengths[k] = self._steps[slot]
            self.terminated[k], self.truncated[k] = result.terminated[slot], result.truncated[slot]
        self.played += over
        gone = result.ended | lost
        self._sum[gone] = self._raw_sum[gone] = 0.0
        self._steps[gone] = 0

    def _to_reset(self, result: VecStepResult) -> NDArray[np.bool_]:
        """The slots whose next episode nobody else starts, or starts with another seed."""
        chosen: NDArray[np.bool_] = result.kind == RowKind.LOST  # of what goes on there a part would be missing
        if self.seeds is not None:
            chosen |= result.ended
        elif self.vec.autoreset is AutoresetMode.DISABLED:
            chosen |= result.ended & ~result.begun
        return chosen & (self.played < self.quota)

    def _seeds_of(self, slots: NDArray[np.bool_]) -> list[int | None]:
        """The seeds of the episodes that some slots start now; None where no episode is left."""
        assert self.seeds is not None
        numbers = self.played * self.vec.num_envs + np.arange(self.vec.num_envs)
        return [
            self.seeds[k] if starts and k < len(self.seeds) else None
            for k, starts in zip(numbers.tolist(), slots.tolist(), strict=True)
        ]
