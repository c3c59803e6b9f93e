"""What trading costs.

A cost model is a small frozen object that reduces to coefficients of each asset; the dynamics of the environments
evaluate them. Trades are measured in units of the equity at the start of the episode, so that with a capital of `C` a
trade of 1 is one of `C` in money. A trade of size `x` in one asset costs

    fee [x > 0] + rate x + impact x^(3/2)

and the cost of several trades is their sum. `+` adds models, coefficient by coefficient:

    ProportionalCost(0.0005) + HalfSpreadCost(0.001) + FixedCost(1 / 1e6)     5 bp, half of 10 bp, and 1 of a million
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from numbers import Real
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

DEFAULT_RATE = 1e-3
RATE, FEE, IMPACT = range(3)

#: one number for every asset, or a number for each
PerAsset = float | tuple[float, ...]


class CostModel(ABC):
    """Base class of the cost models, which are a closed set: they are what the dynamics can evaluate."""

    @abstractmethod
    def coefficients(self, n_assets: int) -> NDArray[np.float64]:
        """Rate, fee and impact of each asset, `(3, n_assets)`; see the module.

        Raises:
            ValueError: the model has numbers for another count of assets.
        """

    def rates(self, n_assets: int) -> NDArray[np.float64]:
        """The rate of each asset, `(n_assets,)`."""
        rates: NDArray[np.float64] = self.coefficients(n_assets)[RATE]
        return rates

    @property
    def is_proportional(self) -> bool:
        """Whether a trade costs its rate and nothing else."""
        found = self.coefficients(self._count() or 1)
        return not found[[FEE, IMPACT]].any()

    def charges(self, sizes: Any) -> NDArray[np.float64]:
        """What trades of these sizes cost in each asset, `(..., n_assets)` in units of the equity at the start."""
        sizes = np.asarray(sizes, np.float64)
        rate, fee, impact = self.coefficients(sizes.shape[-1])
        charges: NDArray[np.float64] = fee * (sizes > 0) + rate * sizes + impact * sizes * np.sqrt(sizes)
        return charges

    def _count(self) -> int | None:
        """How many assets it has numbers for; None where one number is for all."""
        values = [getattr(self, field.name) for field in fields(self)]  # type: ignore[arg-type]  # all are dataclasses
        return next((len(value) for value in values if isinstance(value, tuple)), None)

    def __add__(self, other: Any) -> CostModel:
        return CostSum((self, other)) if isinstance(other, CostModel) else NotImplemented

    def __radd__(self, other: Any) -> CostModel:
        # what `sum(models)` begins with
        return self if type(other) is int and other == 0 else NotImplemented


@final
@dataclass(frozen=True)
class ProportionalCost(CostModel):
    """A trade of size `x` costs `rate * x`: commission, or all of it in one number.

    Attributes:
        rate: fraction of the traded value, at least 0; `0.001` is 10 basis points. One number for every asset, or a
            sequence with a number for each, kept as a tuple.

    Raises:
        TypeError, ValueError: a rate that is no finite number of at least 0.
    """

    rate: PerAsset = DEFAULT_RATE

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", _numbers("ProportionalCost rate", self.rate))

    def coefficients(self, n_assets: int) -> NDArray[np.float64]:
        """See `CostModel.coefficients`."""
        return _block(n_assets, rate=self.rate)


@final
@dataclass(frozen=True)
class HalfSpreadCost(CostModel):
    """A trade of size `x` pays half the spread, `spread / 2 * x`: prices are mid prices.

    Attributes:
        spread: ask less bid as a fraction of the mid price, at least 0; one number, or one for each asset. The field
            "spread" of a `MarketData` is in the unit of the prices: its mean fraction is
            `(data.fields["spread"] / data.prices).mean()`.

    Raises:
        TypeError, ValueError: a spread that is no finite number of at least 0.
    """

    spread: PerAsset

    def __post_init__(self) -> None:
        object.__setattr__(self, "spread", _numbers("HalfSpreadCost spread", self.spread))

    def coefficients(self, n_assets: int) -> NDArray[np.float64]:
        """See `CostModel.coefficients`."""
        return 0.5 * _block(n_assets, rate=self.spread)


@final
@dataclass(frozen=True)
class FixedCost(CostModel):
    """A trade of any size costs `fee`, in each asset that is traded.

    A distance to the target that is rounding is no trade: 1e-10 of the equity in Trading-v0, 2.5e-7 in Portfolio-v0,
    whose actions are float32. What the trades of a portfolio cost leaves less for every weight: an asset that was on
    target, and is further from it than that once all is paid, trades too, and pays its fee.

    Attributes:
        fee: fraction of the equity at the start of the episode, at least 0: with a capital of `C`, a fee of `F` in
            money is `F / C`. One number, or one for each asset.

    Raises:
        TypeError, ValueError: a fee that is no finite number of at least 0.
    """

    fee: PerAsset

    def __post_init__(self) -> None:
        object.__setattr__(self, "fee", _numbers("FixedCost fee", self.fee))

    def coefficients(self, n_assets: int) -> NDArray[np.float64]:
        """See `CostModel.coefficients`."""
        return _block(n_assets, fee=self.fee)


@final
@dataclass(frozen=True)
class SquareRootImpact(CostModel):
    """A trade moves its own price: one of size `x` costs `coefficient * volatility * sqrt(x / volume) * x`.

    The square-root law of market impact (Toth et al. 2011, "Anomalous price impact and the critical nature of
    liquidity in financial markets", Phys. Rev. X 1, eq. 1).

    Attributes:
        volatility: of the price over one bar, at least 0; 0.02 is 2 %. One number, or one for each asset.
        volume: traded by the market in one bar, in units of the equity at the start: with a capital of `C`, a volume
            of `V` in money is `V / C`. Above 0; one number, or one for each asset.
        coefficient: `Y`, of order 1. It is that of the average price paid: where a trade moves the price by
            `Y volatility sqrt(x / volume)` by its end, two thirds of that.

    Raises:
        TypeError, ValueError: anything else; the message names the argument.
    """

    volatility: PerAsset
    volume: PerAsset
    coefficient: float = 1.0

    def __post_init__(self) -> None:
        for name in ("volatility", "volume"):
            object.__setattr__(self, name, _numbers(f"SquareRootImpact {name}", getattr(self, name)))
        object.__setattr__(self, "coefficient", _number("SquareRootImpact coefficient", self.coefficient))
        if not np.min(self.volume) > 0:
            raise ValueError(f"SquareRootImpact volume is {self.volume!r}; expected more than 0.")
        _require_finite(self)

    def coefficients(self, n_assets: int) -> NDArray[np.float64]:
        """See `CostModel.coefficients`."""
        volatility = _spread("volatilities", self.volatility, n_assets)
        volume = _spread("volumes", self.volume, n_assets)
        return _block(n_assets, impact=tuple(self.coefficient * volatility / np.sqrt(volume)))


@final
@dataclass(frozen=True)
class CostSum(CostModel):
    """Several costs at once; `a + b` makes it, and `sum(models)`.

    Attributes:
        parts: the models, sums among them taken apart, in an order of their own: `a + b == b + a`, to the last bit of
            the coefficients.
    """

    parts: tuple[CostModel, ...]

    def __post_init__(self) -> None:
        parts = tuple(self.parts)
        if not parts or not all(isinstance(part, CostModel) for part in parts):
            raise TypeError(f"CostSum parts is {self.parts!r}; expected cost models, such as ProportionalCost(0.001).")
        counts = {part._count() for part in parts} - {None}
        if len(counts) > 1:
            raise ValueError(f"CostSum parts have numbers for {sorted(map(str, counts))} assets; expected one count.")
        flat = (single for part in parts for single in _parts(part))
        object.__setattr__(self, "parts", tuple(sorted(flat, key=_place)))
        _require_finite(self)

    def _count(self) -> int | None:
        return next((count for part in self.parts if (count := part._count()) is not None), None)

    def coefficients(self, n_assets: int) -> NDArray[np.float64]:
        """See `CostModel.coefficients`."""
        total: NDArray[np.float64] = np.sum([part.coefficients(n_assets) for part in self.parts], axis=0)
        return total

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (ProportionalCost, HalfSpreadCost, FixedCost, SquareRootImpact)
}


def to_plain(model: CostModel) -> list[list[Any]]:
    """Names and arguments of the parts of a model, which `from_plain` makes a model of."""
    plain = []
    for part in _parts(model):
        arguments = asdict(part)  # type: ignore[call-overload]  # all are dataclasses
        lists = {name: list(value) if isinstance(value, tuple) else value for name, value in arguments.items()}
        plain.append([type(part).__name__, lists])
    return plain


def from_plain(plain: Any) -> CostModel:
    """The model that `to_plain` described.

    Raises:
        ValueError: it describes none.
    """
    try:
        parts = [_KINDS[name](**arguments) for name, arguments in plain]
        return parts[0] if len(parts) == 1 else CostSum(tuple(parts))
    except (TypeError, ValueError, KeyError) as error:
        raise ValueError(f"cost_model is {plain!r}; expected names and arguments of cost models.") from error


def as_cost_model(value: Any, name: str = "cost_model") -> CostModel:
    """A cost model from what a user gave: a cost model, or the rate or rates of a `ProportionalCost`."""
    return value if isinstance(value, CostModel) else ProportionalCost(_numbers(name, value))


def choose_cost_model(transaction_cost: Any, cost_model: Any) -> CostModel:
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
        return ProportionalCost(_numbers("transaction_cost", transaction_cost))
    return ProportionalCost() if cost_model is None else as_cost_model(cost_model)


def _require_finite(model: CostModel) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(model.coefficients(model._count() or 1)).all()
    if not finite:
        raise ValueError(f"{model!r} has a coefficient beyond the range of floats; expected smaller numbers.")


def _parts(model: CostModel) -> tuple[CostModel, ...]:
    return model.parts if isinstance(model, CostSum) else (model,)


def _place(model: CostModel) -> tuple[int, str]:
    """Where a model stands among the parts of a sum."""
    return [*_KINDS, type(model).__name__].index(type(model).__name__), repr(model)


def _block(n_assets: int, **rows: PerAsset) -> NDArray[np.float64]:
    block = np.zeros((3, n_assets))
    for name, row in (("rate", RATE), ("fee", FEE), ("impact", IMPACT)):
        if name in rows:
            block[row] = _spread(f"{name}s", rows[name], n_assets)
    return block


def _spread(what: str, value: PerAsset, n_assets: int) -> NDArray[np.float64]:
    if isinstance(value, tuple) and len(value) != n_assets:
        raise ValueError(
            f"cost_model has {len(value)} {what}; expected one for all, or {n_assets}, one for each asset."
        )
    return np.full(n_assets, value)


def _numbers(name: str, value: Any) -> PerAsset:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, (Sequence, np.ndarray)) or np.ndim(value) != 1:
        return _number(name, value)
    return tuple(_number(f"{name}[{i}]", entry) for i, entry in enumerate(value))


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(
            f"{name} is {value!r} ({type(value).__name__}); expected a number such as 0.001, for every asset or one "
            "for each, or a CostModel."
        )
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{name} is {value!r}; expected a finite number, at least 0.")
    return number
