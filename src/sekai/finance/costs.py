"""What trading costs.

A cost model is a small frozen object that reduces to float64 coefficients of each asset; the formula that evaluates
them stands in the dynamics of the environment. Costs are fractions of the traded value, all in: commission,
half the spread, slippage against the mid price.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

DEFAULT_RATE = 1e-3


@dataclass(frozen=True)
class ProportionalCost:
    """A trade of value `x` costs `rate * |x|`.

    Attributes:
        rate: fraction of the traded value, at least 0; `0.001` is 10 basis points. One number for every asset, or a
            sequence with a number for each, kept as a tuple.

    Raises:
        TypeError, ValueError: a rate that is no finite number of at least 0.
    """

    rate: float | tuple[float, ...] = DEFAULT_RATE

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", _rates("ProportionalCost rate", self.rate))

    def rates(self, n_assets: int) -> NDArray[np.float64]:
        """The rate of each asset, `(n_assets,)`.

        Raises:
            ValueError: the model has another number of rates.
        """
        if isinstance(self.rate, tuple) and len(self.rate) != n_assets:
            raise ValueError(
                f"cost_model has {len(self.rate)} rates; expected one for all, or {n_assets}, one for each asset."
            )
        return np.full(n_assets, self.rate)


def as_cost_model(value: Any, name: str = "cost_model") -> ProportionalCost:
    """A cost model from what a user gave: a cost model, or the rate or rates of a `ProportionalCost`."""
    return value if isinstance(value, ProportionalCost) else ProportionalCost(_rates(name, value))


def choose_cost_model(transaction_cost: Any, cost_model: Any) -> ProportionalCost:
    """The one of the two arguments that was given; neither: a `ProportionalCost` of `1e-3`.

    Raises:
        ValueError: both were given.
    """
    if transaction_cost is not None and cost_model is not None:
        raise ValueError(
            f"transaction_cost={transaction_cost!r} and cost_model={cost_model!r} were both given; transaction_cost "
            "is shorthand for a proportional cost_model, so leave one of them out."
        )
    if transaction_cost is not None:
        return ProportionalCost(_rates("transaction_cost", transaction_cost))
    return ProportionalCost() if cost_model is None else as_cost_model(cost_model)


def _rates(name: str, value: Any) -> float | tuple[float, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)) or np.ndim(value) != 1:
        return _rate(name, value)
    return tuple(_rate(f"{name}[{i}]", entry) for i, entry in enumerate(value))


def _rate(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(
            f"{name} is {value!r} ({type(value).__name__}); expected a fraction of the traded value, such as 0.001, "
            "or a ProportionalCost."
        )
    rate = float(value)
    if not (math.isfinite(rate) and rate >= 0):
        raise ValueError(f"{name} is {value!r}; expected a finite fraction of the traded value, at least 0.")
    return rate
