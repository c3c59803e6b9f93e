"""What a portfolio is worth once all is sold: the one quantity that a floor under it is about.

Letters, all without a unit: `h` weights held, `w` weights wanted (of equity after the cost), `c` cost rates of a trade,
`b` the largest fall of each asset in a step; all of them of the risky assets, `(..., n)`, rates also one number for
all. Cash is the rest, earns nothing and costs nothing.

    m(h, w)    what a trade leaves of equity       m = 1 - sum c |m w - h|
    L(h)       what selling everything leaves      L = m(h, 0) = 1 - sum c h          (h >= 0)
    worst      what a trade, the largest falls and selling everything leave

        m(h, w) (1 - k . w)          k = b + c - b c: a fall, and the cost of selling what is left

Why it decides: no trade makes L larger (bought for x (1 + c), an asset is worth x (1 - c)), and the largest falls make
it smaller by b (1 - c) of what is held. So no policy ends above what selling at once leaves, if the falls go on, and
selling at once keeps just that.

Source of m: `sekai.envs.finance.portfolio.kernel`, whose `remaining` is the same fixed point, compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.safety.arrays import namespace
from sekai.safety.systems.base import smallest


def remaining(held: Any, wanted: Any, rates: Any) -> Any:
    """m, what a trade leaves of equity, `(...)`.

    The right side less the left is concave in m, so Newton's method from 1 comes down to the root; it is there after a
    turn for each purchase that turns into a sale.

    Args:
        held: h, `(..., n)`.
        wanted: w, `(..., n)`.
        rates: c, a number or `(n,)`, with sum c |w| < 1.
    """
    xp = namespace(held, wanted)
    left = xp.ones_like((held * wanted).sum(-1))
    for _ in range(held.shape[-1] + 1):
        side = xp.where(left[..., None] * wanted > held, 1.0, -1.0)
        lower = (1.0 + (rates * (side * held)).sum(-1)) / (1.0 + (rates * (side * wanted)).sum(-1))
        if xp is np and not (lower < left).any():
            break  # of tensors it would wait for the device to know
        left = smallest(left, lower)
    return left


def sold(held: Any, rates: Any) -> Any:
    """L, what selling everything leaves of equity, `(...)`, of weights `(..., n)` of at least 0."""
    return 1.0 - (rates * held).sum(-1)


def worst_losses(rates: Any, falls: Any) -> Any:
    """k, what of each asset is lost at worst by holding it for a step and selling it then, `(n,)`."""
    return falls + rates - falls * rates


def worst_sold(held: Any, wanted: Any, rates: Any, falls: Any) -> Any:
    """What is left of equity at worst, once all is sold after a trade and a step, `(...)`.

    Args:
        held: h, `(..., n)`, at least 0.
        wanted: w, `(..., n)`, at least 0.
        rates: c, a number or `(n,)`.
        falls: b, `(n,)`.
    """
    return remaining(held, wanted, rates) * (1.0 - (worst_losses(rates, falls) * wanted).sum(-1))
