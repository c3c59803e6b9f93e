"""One `MarketData` for all environments that are given the same array of prices."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from sekai.finance.data import MarketData

_shared: weakref.WeakValueDictionary[int, MarketData] = weakref.WeakValueDictionary()


def shared_history(prices: Any) -> MarketData:
    """A `MarketData` of `prices`, the same one for every caller that gives the same array, unless it was changed."""
    known = _shared.get(id(prices))
    if known is not None and _are_prices_of(known, prices):
        return known
    made = MarketData(prices)
    _shared[id(prices)] = made
    return made


def _are_prices_of(data: MarketData, prices: Any) -> bool:
    given = np.asarray(prices)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given.reshape(-1)
    # NaN is the only value that differs from itself
    return given.shape == data.prices.shape and bool(
        ((given == data.prices) | ((given != given) & (data.prices != data.prices))).all()
    )
