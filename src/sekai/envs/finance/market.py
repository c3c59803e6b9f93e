"""Price models as markets: the log returns that a model draws for the slots of an environment.

It owns the hidden state of the slots' paths; it may import price models and nothing of an environment. Three hard
cases: a slot that is frozen is not drawn for, and its path waits; slots that start amid the others begin paths of their
own; returns that are refused, here (another shape, NaN) or by a kernel, leave the hidden state as it was.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.finance.data import MarketData
from sekai.finance.models import PriceModel


class Market:
    """A price model, and where the paths of `num_slots` slots stand in it."""

    def __init__(self, model: PriceModel, num_slots: int) -> None:
        self.model = model
        self._state = _new_state(model, num_slots)
        self._before: dict[str, NDArray[Any]] = {}  # the latest draw
        self._num_slots = num_slots

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The hidden state by name, not copies."""
        return {f"model.{name}": values for name, values in self._state.items()}

    def begin(
        self, rng: np.random.Generator, slots: NDArray[np.integer[Any]], bars: int, dt: float
    ) -> NDArray[np.float64]:
        """Begin new paths in some slots; their first log returns, a new array `(K, bars, n_assets)`."""
        self._remember()
        try:
            returns = self.model.begin(rng, self._state, slots, bars, dt)
            return self._checked(returns, slots, (bars, self.model.n_assets), "begin")
        except BaseException:
            self.undo()
            raise

    def advance(self, rng: np.random.Generator, moves: NDArray[np.bool_], dt: float) -> NDArray[np.float64]:
        """Log returns of the next bar, a new array `(N, n_assets)`, 0 where a slot does not move."""
        slots = np.flatnonzero(moves)
        self._remember()
        if not len(slots):
            return np.zeros((self._num_slots, self.model.n_assets))
        try:
            drawn = self.model.advance(rng, self._state, slots, dt)
            returns = self._checked(drawn, slots, (self.model.n_assets,), "advance")
        except BaseException:
            self.undo()
            raise
        if len(slots) == self._num_slots:
            return returns
        every = np.zeros((self._num_slots, self.model.n_assets))
        every[slots] = returns
        return every

    def undo(self) -> None:
        """Take back the latest draw, which was refused: the hidden state is what it was before."""
        for name, values in self._before.items():
            self._state[name][...] = values

    def _remember(self) -> None:
        self._before = {name: values.copy() for name, values in self._state.items()}

    def _checked(
        self, returns: Any, slots: NDArray[np.integer[Any]], shape: tuple[int, ...], method: str
    ) -> NDArray[np.float64]:
        expected = (len(slots), *shape)
        if not isinstance(returns, np.ndarray) or returns.shape != expected or returns.dtype.kind != "f":
            given = f"{returns.dtype} {returns.shape}" if isinstance(returns, np.ndarray) else repr(returns)
            raise ValueError(
                f"{type(self.model).__name__}.{method}() returned {given}; expected log returns, float64 {expected}."
            )
        bad = ~np.isfinite(returns).all(axis=tuple(range(1, returns.ndim)))
        if bad.any():
            slot = slots[bad.argmax()]
            raise FloatingPointError(
                f"{type(self.model).__name__}.{method}() returned a log return of sub-env {slot} that is not finite; "
                "look at its parameters."
            )
        return np.array(returns, np.float64, order="C")  # kernels write to it


def _new_state(model: PriceModel, num_slots: int) -> dict[str, NDArray[Any]]:
    state: Any = model.new_state(num_slots)
    method = f"{type(model).__name__}.new_state({num_slots})"
    if not isinstance(state, dict):
        raise TypeError(f"{method} returned {state!r}; expected a dict of arrays by name, {{}} for none.")
    for name, values in state.items():
        plain = isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
        if not plain or values.shape[:1] != (num_slots,):
            raise ValueError(
                f"{method}[{name!r}] is {values!r}; expected an array of numbers or bools with {num_slots} rows, one "
                "for each slot."
            )
    return state


def check_model(model: Any, data: MarketData | None) -> PriceModel | None:
    """The model given, None for none.

    Raises:
        TypeError, ValueError: no price model, or one beside a history.
    """
    if model is None:
        return None
    if not isinstance(model, PriceModel):
        raise TypeError(f"model is {model!r}; expected a PriceModel, such as sekai.finance.Heston(...), or None.")
    if data is not None:
        raise ValueError(
            "model was given beside a history; expected one market. To draw from a history, leave prices and data out "
            "and give model=StationaryBootstrap(prices, mean_block)."
        )
    return model


def check_unused(model: PriceModel | None, **given: bool) -> None:
    """Refuse arguments of the built-in market beside a model that has its own.

    Args:
        model: None for the built-in market.
        **given: by name, whether the argument differs from its default.

    Raises:
        ValueError: the message names the argument.
    """
    for name, is_given in given.items():
        if model is not None and is_given:
            raise ValueError(
                f"{name} belongs to the market that is simulated without a model, and model={model!r} has parameters "
                "of its own: leave one of them out."
            )


def fingerprint(model: PriceModel) -> str:
    """Text that is equal for models of the same class and parameters; of no dataclass, for the same class."""
    digest = hashlib.blake2b(digest_size=16)
    if is_dataclass(model):
        for field in fields(model):
            if field.init:
                digest.update(field.name.encode() + _bytes_of(getattr(model, field.name)))
    return f"{type(model).__qualname__} {digest.hexdigest()}"


def _bytes_of(value: Any) -> bytes:
    """Bytes that are equal for equal arguments, whether they were given as arrays, lists or tuples."""
    if isinstance(value, (list, tuple)) and not all(isinstance(entry, (int, float, list, tuple)) for entry in value):
        return b"[" + b",".join(map(_bytes_of, value)) + b"]"
    if isinstance(value, (list, tuple, np.ndarray)):
        numbers = np.asarray(value, np.float64)
        return repr(numbers.shape).encode() + numbers.tobytes()
    return repr(value).encode()
