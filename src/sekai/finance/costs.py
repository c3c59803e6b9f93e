"""What trading costs.

A cost model is a small frozen object that reduces to a block of float64 coefficients; the formula that evaluates
the block stands in the dynamics of the environment. Costs are fractions of the traded value, all in: commission,
half the spread, slippage against the mid price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

DEFAULT_RATE = 1e-3


@dataclass(frozen=True)
class ProportionalCost:
    """A trade of value `x` costs `rate * |x|`.

    Attributes:
        rate: fraction of the traded value, at least 0; `0.001` is 10 basis points.

    Raises:
        TypeError, ValueError: a rate that is no finite number of at least 0.
    """

    rate: float = DEFAULT_RATE

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", _rate("ProportionalCost rate", self.rate))

    @property
    def coefficients(self) -> tuple[float, ...]:
        """`(rate,)`."""
        return (self.rate,)


def as_cost_model(value: Any, name: str = "cost_model") -> ProportionalCost:
    """A cost model from what a user gave: a cost model, or a number, the rate of a `ProportionalCost`."""
    return value if isinstance(value, ProportionalCost) else ProportionalCost(_rate(name, value))


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
        return ProportionalCost(_rate("transaction_cost", transaction_cost))
    return ProportionalCost() if cost_model is None else as_cost_model(cost_model)


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
