"""The contract of price models: log returns of simulated markets, bar by bar, for many slots at once.

Units: rates are per year, volatilities per square root of a year, `dt` is the length of a bar in years. Returns are
log returns of one bar. Shapes: `K` slots of one call, `N` slots in all.

A model is settled when it is made, remembers no path and is shared by everybody. What is hidden of the paths (regime,
variance, place in a history) is the *state*: a plain dict of arrays with a leading axis of `N` slots, which belongs to
the caller. A model reads and writes the rows of the slots it is asked about, and nothing else:

    state = model.new_state(N)
    model.begin(rng, state, slots, bars, dt)    fresh paths: hidden rows drawn anew, then the first `bars` returns
    model.advance(rng, state, slots, dt)        one more return of each path

1. Only `rng` is random, and a call draws for the slots it names and for no others.
2. Slots are drawn in the order in which they are named: a call for `[a, b]` draws and returns, to the bit, what a call
   for `[a]` and one for `[b]` would. (`Heston` alone cannot promise this, and says so.)
3. Bars follow one another: for one slot, `begin` with `b` bars is `begin` with none and `b` times `advance`.
4. Model, state and generator are all there is: restored, they go on to the bit.
5. A refused call moves nothing; arrays that were returned are never written to again.

Three hard cases:

- *One slot starts anew amid the others.* `advance([0, 1, 2])`, `begin([1], bars=30)`, `advance([0, 1, 2])`: the paths
  of 0 and 2 go on from their own regimes, those of 1 were drawn anew; between the two steps the generator moved by
  one start and 30 bars. Order counts, not numbers: `begin([2, 0])` draws for 2 first.
- *A slot is frozen.* It is not named: `advance([0, 2])` draws two bars. The row of 1 stays as it is, however long, and
  the draws of 0 and 2 are from then on those of a market without 1.
- *Saved in the middle of a block.* The state goes through `np.savez` and the generator's `bit_generator.state` beside
  it. The place inside a resampled block or the current regime is in the state; nothing is cached in the model but
  numbers that follow from its arguments and `dt`.

Returns are not bounded: a caller that wants bounded steps clips what it gets. They are finite for sensible parameters;
a caller checks the prices it makes of them, as `sample_path` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.finance.checks import finite_array, positive
from sekai.spaces.checks import whole_number

Array = NDArray[np.float64]
Slots = NDArray[np.integer[Any]]
State = dict[str, NDArray[Any]]


class PriceModel(ABC):
    """A law of log returns. The module says what its methods promise."""

    @property
    @abstractmethod
    def n_assets(self) -> int:
        """How many prices move together."""

    @abstractmethod
    def new_state(self, num_slots: int) -> State:
        """Room for the hidden state of `num_slots` paths, none of them begun: arrays `(N, ...)`, or no arrays."""

    @abstractmethod
    def begin(self, rng: np.random.Generator, state: State, slots: Slots, bars: int, dt: float) -> Array:
        """Begin new paths.

        Args:
            rng: the only source of randomness.
            state: the rows of `slots` are written.
            slots: int `(K,)`, each at most once.
            bars: how many returns, at least 0.
            dt: length of a bar in years, above 0.

        Returns:
            float64 `(K, bars, n_assets)`, oldest first.
        """

    @abstractmethod
    def advance(self, rng: np.random.Generator, state: State, slots: Slots, dt: float) -> Array:
        """Move paths by one bar.

        Args:
            rng, slots, dt: as for `begin`.
            state: the rows of `slots`, which have begun, are read and written.

        Returns:
            float64 `(K, n_assets)`.
        """

    def sample_path(self, rng: np.random.Generator, steps: int, dt: float, n: int = 1, *, s0: Any = 100.0) -> Array:
        """Prices of fresh paths, without an environment.

        Args:
            rng: the only source of randomness.
            steps: returns of each path, at least 0.
            dt: length of a bar in years.
            n: number of paths, at least 1.
            s0: first price, one for all assets or `(n_assets,)`.

        Returns:
            float64 `(n, steps + 1, n_assets)`; `[:, 0]` is `s0`. `[0, :, 0]` is the first path of the first asset.

        Raises:
            FloatingPointError: a price became 0 or infinite.

        >>> GeometricBrownianMotion(0.05, 0.2).sample_path(np.random.default_rng(1), 252, 1 / 252).shape
        (1, 253, 1)
        """
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng is {rng!r}; expected a generator, np.random.default_rng(seed).")
        paths = whole_number("n", n, minimum=1)
        first = finite_array("s0", s0)
        if first.shape not in ((), (self.n_assets,)) or (first <= 0).any():
            raise ValueError(f"s0 is {s0!r}; expected a price above 0, or {self.n_assets} of them, one for each asset.")
        returns = self.begin(rng, self.new_state(paths), np.arange(paths), whole_number("steps", steps, minimum=0), dt)
        prices = np.empty((paths, returns.shape[1] + 1, self.n_assets))
        prices[:, 0] = first
        with np.errstate(over="ignore", invalid="ignore"):  # reported below, by name
            prices[:, 1:] = first * np.exp(returns.cumsum(axis=1))
        if not ((prices > 0) & (prices < np.inf)).all():
            raise FloatingPointError(f"A price of {self!r} left the range of floats; lower its parameters or steps.")
        return prices


class ShockModel(PriceModel):
    """A model whose every bar is made of the same number of independent standard normals.

    That is what rule 2 of the module rests on: the shocks of a slot lie next to each other in the stream, those of
    its hidden start first, then bar after bar, however many slots are drawn together. Choices are made with normals
    too (`draws.normal_levels`), because uniforms drawn beside them would have to be drawn for all slots at once. For
    the same reason sums over assets are added in a fixed order and not by a matrix product, whose last bits depend on
    the number of rows.
    """

    start_shocks = 0

    @property
    @abstractmethod
    def bar_shocks(self) -> int:
        """Shocks of one bar; `start_shocks` come before the first."""

    @abstractmethod
    def _start(self, shocks: Array) -> State:
        """Fresh hidden rows, arrays `(K, ...)`, from shocks `(K, start_shocks)`."""

    @abstractmethod
    def _move(self, hidden: State, shocks: Array, dt: float) -> Array:
        """Log returns `(K, bars, n_assets)` from shocks `(K, bars, bar_shocks)`; `hidden` is replaced by its end."""

    def _check_bar(self, dt: float) -> None:
        """Refuse a length of a bar, before anything is drawn."""
        positive("dt", dt)

    def _draw(self, rng: np.random.Generator, count: int, size: int) -> Array:
        """Shocks of `count` slots, `(count, size)`."""
        return rng.standard_normal((count, size))

    def begin(self, rng: np.random.Generator, state: State, slots: Slots, bars: int, dt: float) -> Array:
        """Begin new paths; see `PriceModel.begin`."""
        count, bars = len(check_slots(slots)), whole_number("bars", bars, minimum=0)
        self._check_bar(dt)
        shocks = self._draw(rng, count, self.start_shocks + bars * self.bar_shocks)
        hidden = self._start(shocks[:, : self.start_shocks])
        moves = shocks[:, self.start_shocks :].reshape(count, bars, self.bar_shocks)
        returns = self._move(hidden, moves, dt)
        write(state, slots, hidden)
        return returns

    def advance(self, rng: np.random.Generator, state: State, slots: Slots, dt: float) -> Array:
        """Move paths by one bar; see `PriceModel.advance`."""
        count = len(check_slots(slots))
        self._check_bar(dt)
        hidden = {name: values[slots] for name, values in state.items()}
        shocks = self._draw(rng, count, self.bar_shocks)
        returns = self._move(hidden, shocks[:, None], dt)
        write(state, slots, hidden)
        return returns[:, 0]


def check_slots(slots: Slots) -> Slots:
    """`slots` as they are; a mask is refused."""
    if slots.ndim != 1 or slots.dtype.kind not in "iu":
        raise TypeError(
            f"slots has dtype {slots.dtype} and shape {slots.shape}; expected indices, int (K,): np.flatnonzero(mask)."
        )
    return slots


def write(state: State, slots: Slots, hidden: State) -> None:
    """Keep hidden rows `(K, ...)` in the rows `slots` of the state."""
    for name, values in hidden.items():
        state[name][slots] = values


def settle(model: PriceModel, **values: Any) -> None:
    """Set attributes of a frozen model, in its constructor."""
    for name, value in values.items():
        object.__setattr__(model, name, value)
