"""Episode samplers: which window of a history an episode runs through.

A history of `T` rows has `T - lookback - episode_length` legal windows, counted from 0. The window at position `k`
makes its first decision at row `lookback + k`:

    rows    0 ........ k ......... k + lookback ............ k + lookback + episode_length
                       | lookback  | first decision          | last row, only valued
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sekai.core.spawns import Spawns
from sekai.spaces.checks import whole_number


class EpisodeSampler(Spawns):
    """Base class: choose the window of the next episode.

    Every sub-environment of a vector environment gets `spawn()`. By default that is the sampler itself, so that a
    change made to it later reaches all of them; a sampler that remembers what it gave to one sub-environment
    overrides `spawn` to return a fresh copy.
    """

    @abstractmethod
    def sample(self, rng: np.random.Generator, num_windows: int, episode_length: int) -> int:
        """Position of a window, in `[0, num_windows)`.

        Args:
            rng: the environment's generator; the only source of randomness.
            num_windows: how many legal windows the history has.
            episode_length: steps of an episode.
        """

    def sample_many(
        self, rng: np.random.Generator, count: int, num_windows: int, episode_length: int
    ) -> NDArray[np.int64]:
        """`count` positions, int64 `(count,)`: what as many calls of `sample` return."""
        return np.array([self.sample(rng, num_windows, episode_length) for _ in range(count)])

    def restart(self) -> None:
        """Begin anew. A reset with a seed calls it, so that equal seeds lead to equal episodes.

        A sampler that remembers what it gave overrides it; by default there is nothing to forget.
        """

    def spawn(self) -> Self:
        """The sampler for one sub-environment: this one."""
        return self

    def get_state(self) -> dict[str, Any]:
        """What it remembers, for `get_state` of its environment: plain values, by default all its attributes.

        A sampler with attributes that are not plain (None, bools, numbers, strings, lists and dicts of them)
        overrides it together with `set_state`; otherwise its environment refuses to save itself.
        """
        state: Any = object.__getstate__(self)
        if isinstance(state, tuple):
            raise TypeError(f"{type(self).__name__} has __slots__: implement its get_state() and set_state(state).")
        return dict(state or {})

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what `get_state` returned.

        Raises:
            ValueError: attributes of other names; nothing has changed.
        """
        own = self.get_state()
        if state.keys() != own.keys():
            raise ValueError(f"The state of {self} has the names {sorted(state)}; expected {sorted(own)}.")
        vars(self).update(state)


class RandomStart(EpisodeSampler):
    """Windows drawn uniformly from positions `[low, high)`.

    Both bounds may be changed at any time, for a curriculum; environments made with the same instance share them.

    Args:
        low: first position.
        high: one past the last position; None: all that the history has.
    """

    def __init__(self, low: int = 0, high: int | None = None) -> None:
        self.low, self.high = low, high
        self._range(None)

    def _range(self, num_windows: int | None) -> tuple[int, int]:
        low = whole_number("RandomStart low", self.low)
        high = num_windows if self.high is None else whole_number("RandomStart high", self.high)
        if low < 0 or (high is not None and low >= high):
            raise ValueError(f"RandomStart({low}, {high}) holds no position; expected 0 <= low < high.")
        if num_windows is not None and high is not None and high > num_windows:
            raise ValueError(f"{self} goes beyond the legal positions: {legal_positions(num_windows)}.")
        return low, num_windows or 0 if high is None else high

    def sample(self, rng: np.random.Generator, num_windows: int, episode_length: int) -> int:
        """A position drawn uniformly."""
        return int(rng.integers(*self._range(num_windows)))

    def sample_many(
        self, rng: np.random.Generator, count: int, num_windows: int, episode_length: int
    ) -> NDArray[np.int64]:
        """`count` positions drawn uniformly, in one call."""
        return rng.integers(*self._range(num_windows), size=count)

    def __repr__(self) -> str:
        return f"RandomStart(low={self.low}, high={self.high})"


class SequentialStart(EpisodeSampler):
    """Windows at `start`, `start + stride`, ...; from `start` again when the next one no longer fits.

    Every sub-environment replays the same windows.

    Args:
        start: first position.
        stride: rows between windows; None: `episode_length`, so that windows follow one another.
    """

    def __init__(self, start: int = 0, stride: int | None = None) -> None:
        self.start = whole_number("SequentialStart start", start, minimum=0)
        self.stride = None if stride is None else whole_number("SequentialStart stride", stride, minimum=1)
        self._next = self.start

    def sample(self, rng: np.random.Generator, num_windows: int, episode_length: int) -> int:
        """The next position."""
        position = self._next if self._next < num_windows else self.start
        if position < num_windows:  # else the environment refuses it, and nothing was used up
            self._next = position + (episode_length if self.stride is None else self.stride)
        return position

    def restart(self) -> None:
        """Begin at `start` again."""
        self._next = self.start

    def spawn(self) -> Self:
        """A fresh copy that begins at `start`."""
        return type(self)(self.start, self.stride)

    def __repr__(self) -> str:
        return f"SequentialStart(start={self.start}, stride={self.stride})"


class FixedStart(EpisodeSampler):
    """Windows at the given positions, in turn.

    Args:
        positions: one position, or several; after the last comes the first again.
    """

    def __init__(self, positions: int | Sequence[int]) -> None:
        given = positions if isinstance(positions, (list, tuple, range, np.ndarray)) else [positions]
        self.positions = [
            whole_number(f"FixedStart positions[{i}]", position, minimum=0) for i, position in enumerate(given)
        ]
        if not self.positions:
            raise ValueError("FixedStart was given no position; expected an int or a list of at least one.")
        self._turn = 0

    def sample(self, rng: np.random.Generator, num_windows: int, episode_length: int) -> int:
        """The next position of the list."""
        position = self.positions[self._turn]
        if position < num_windows:  # else the environment refuses it, and nothing was used up
            self._turn = (self._turn + 1) % len(self.positions)
        return position

    def restart(self) -> None:
        """Begin with the first position again."""
        self._turn = 0

    def spawn(self) -> Self:
        """A fresh copy that begins with the first position."""
        return type(self)(self.positions)

    def __repr__(self) -> str:
        return f"FixedStart({self.positions[0] if len(self.positions) == 1 else self.positions})"


NAMED = {"random": RandomStart, "sequential": SequentialStart}


def as_sampler(value: Any) -> EpisodeSampler:
    """A sampler from what a user gave: a sampler, `"random"` or `"sequential"`."""
    if isinstance(value, EpisodeSampler):
        return value
    if isinstance(value, str) and value in NAMED:
        return NAMED[value]()
    raise (ValueError if isinstance(value, str) else TypeError)(
        f"sampler is {value!r}; expected 'random', 'sequential' or an EpisodeSampler."
    )


def check_positions(positions: NDArray[np.int64], num_windows: int, sampler: EpisodeSampler) -> NDArray[np.int64]:
    """`positions` as they are.

    Raises:
        TypeError: they are no integers.
        ValueError: one of them is no legal position; the message names the legal ones.
    """
    if positions.dtype.kind not in "iu":
        raise TypeError(f"{sampler} gave {positions.tolist()}; expected positions as ints.")
    bad = positions[(positions < 0) | (positions >= num_windows)]
    if len(bad):
        raise ValueError(f"{sampler} gave position {bad[0]}; expected {legal_positions(num_windows)}.")
    return positions


def legal_positions(num_windows: int) -> str:
    """The legal positions, in words."""
    return f"0 to {num_windows - 1} (the history has {num_windows} windows, counted from 0)"
