"""Market making in closed form: where to quote, given an inventory and the time left.

The mid price moves as `sigma dW`. A bid stands a *depth* below it and an ask a depth above it; each is filled, one
unit at a time, with intensity `A exp(-k depth)`. Depths are in price and come in pairs, bid first, along the last
axis: the actions of `MarketMaking-v0`, with its arguments and units (`sigma` in price per square root of time,
`fill_intensity` `A` per unit of time, `fill_decay` `k` per price, `risk_aversion` `gamma` per unit of money).

Tables have a row for each inventory `q` from `-Q` to `Q`; row `q + Q` is that of `q`. A side that would take the
inventory beyond `Q` is not quoted: its depth is inf. A negative depth, a quote beyond the mid price, is where the
formula leads; no environment with depths of at least 0 can follow it there.

For orders of `m` units, count the inventory in orders, multiply `sigma` by `m` and penalties by `m^2`, divide
`fill_decay` by `m`, and divide the depths that come out by `m`.

Sources: Avellaneda and Stoikov, "High-frequency trading in a limit order book" (2008); Gueant, Lehalle and
Fernandez-Tapia, "Dealing with the inventory risk" (2013), GLFT below; Cartea, Jaimungal and Penalva, "Algorithmic and
High-Frequency Trading" (2015), chapter 10.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.finance.checks import finite_array, not_negative, positive
from sekai.spaces.checks import whole_number

Array = NDArray[np.float64]

LARGEST_SPAN = 400.0  # exp(400) is within the range of floats, with room for entries far below the largest


def avellaneda_stoikov_depths(
    inventory: Any, time_left: Any, *, sigma: float, fill_decay: float, risk_aversion: float
) -> Array:
    """Quotes around the reservation price `r = S - q gamma sigma^2 (T - t)` (Avellaneda and Stoikov 2008).

    `bid = r - spread / 2`, `ask = r + spread / 2`, `spread = gamma sigma^2 (T - t) + (2 / gamma) ln(1 + gamma / k)`.
    Linear in the inventory and blind to later fills: a baseline, not the optimum; near the end both agree.

    Args:
        inventory: `q`, of either sign.
        time_left: `T - t`, at least 0; broadcast against the inventory.

    Returns:
        float64 `(..., 2)`, of either sign.
    """
    q, time = finite_array("inventory", inventory), _times(time_left)
    gamma = positive("risk_aversion", risk_aversion)
    risk = gamma * not_negative("sigma", sigma) ** 2 * time
    half = risk / 2.0 + _markup(positive("fill_decay", fill_decay), gamma)
    return np.stack(np.broadcast_arrays(half + q * risk, half - q * risk), axis=-1)


def avellaneda_stoikov_action(
    inventory: Any, time_left: Any, *, sigma: float, fill_decay: float, risk_aversion: float, max_offset: float
) -> Array:
    """`avellaneda_stoikov_depths` as actions: the nearest depths in `[0, max_offset]`.

    A large inventory moves the reservation price beyond the mid price; an environment takes no quote there, and the
    mid price itself is the closest to it.

    Args:
        max_offset: largest depth of the environment.

    Returns:
        float64 `(..., 2)`, bid first.
    """
    depths = avellaneda_stoikov_depths(
        inventory, time_left, sigma=sigma, fill_decay=fill_decay, risk_aversion=risk_aversion
    )
    return np.clip(depths, 0.0, positive("max_offset", max_offset))


def fixed_spread_depths(inventory: Any, *, half_spread: float) -> Array:
    """Quotes at the same distance on both sides, whatever the inventory: float64 `(..., 2)`."""
    q = finite_array("inventory", inventory)
    return np.full((*q.shape, 2), not_negative("half_spread", half_spread))


def glft_depths(
    time_left: Any,
    *,
    max_inventory: int,
    sigma: float,
    fill_intensity: float,
    fill_decay: float,
    risk_aversion: float,
) -> Array:
    """The optimal quotes of a trader with exponential utility and inventories up to `Q` (GLFT 2013).

    `bid(q) = ln(v_q / v_{q+1}) / k + ln(1 + gamma / k) / gamma`, the ask with `v_{q-1}`, and `v = exp(-M (T - t)) 1`,
    `M_qq = k gamma sigma^2 q^2 / 2` and `M_{q,q+-1} = -A (1 + gamma / k)^-(1 + k / gamma)`.

    Args:
        time_left: `T - t`, at least 0, a number or `(K,)`.
        max_inventory: `Q`, at least 1.

    Returns:
        float64 `(2Q + 1, 2)`, or `(K, 2Q + 1, 2)`.
    """
    decay, gamma = positive("fill_decay", fill_decay), positive("risk_aversion", risk_aversion)
    diagonal, coupling = _glft_matrix(max_inventory, sigma, fill_intensity, decay, gamma)
    log_v = _log_exponential(diagonal, coupling, np.zeros(len(diagonal)), _times(time_left))
    return _depths_of(log_v / decay) + _markup(decay, gamma)


def glft_stationary_depths(
    *, max_inventory: int, sigma: float, fill_intensity: float, fill_decay: float, risk_aversion: float
) -> Array:
    """`glft_depths` far from the end: `v` is the eigenvector of `M` to its least eigenvalue (GLFT 2013).

    Args:
        max_inventory: `Q`, at least 1.
        sigma: above 0; without risk there is no reason to end near 0.

    Returns:
        float64 `(2Q + 1, 2)`.
    """
    decay, gamma = positive("fill_decay", fill_decay), positive("risk_aversion", risk_aversion)
    diagonal, coupling = _glft_matrix(max_inventory, positive("sigma", sigma), fill_intensity, decay, gamma)
    least = -np.linalg.eigvalsh(np.diag(diagonal) + coupling * _neighbours(len(diagonal)))[-1]
    # LAPACK's eigenvector is exact to rounding errors of its largest entry, and its outer entries are far below those.
    # Their ratios, from the edge inwards, are exact: M v = least v, row by row.
    log_v = np.zeros(len(diagonal))
    inwards = math.inf
    for row in range(max_inventory):
        inwards = (-diagonal[row] - least) / coupling - 1.0 / inwards
        log_v[row + 1] = log_v[row] + math.log(inwards)
    log_v[max_inventory + 1 :] = log_v[:max_inventory][::-1]
    return _depths_of(log_v / decay) + _markup(decay, gamma)


def glft_approximate_depths(
    inventory: Any, *, sigma: float, fill_intensity: float, fill_decay: float, risk_aversion: float
) -> Array:
    """The closed approximation to `glft_stationary_depths` for large `Q` (GLFT 2013).

    `bid(q) = c + (2 q + 1) w / 2` and `ask(q) = c - (2 q - 1) w / 2`, with `c = ln(1 + gamma / k) / gamma` and
    `w = sqrt(sigma^2 gamma / (2 k A) (1 + gamma / k)^(1 + k / gamma))`.

    Args:
        inventory: `q`, of either sign.

    Returns:
        float64 `(..., 2)`, of either sign.
    """
    q = finite_array("inventory", inventory)
    decay, gamma = positive("fill_decay", fill_decay), positive("risk_aversion", risk_aversion)
    risk = not_negative("sigma", sigma) ** 2 * gamma / (2.0 * decay * positive("fill_intensity", fill_intensity))
    width = math.sqrt(risk / _thinning(decay, gamma))
    middle = _markup(decay, gamma)
    return np.stack([middle + (2.0 * q + 1.0) * width / 2.0, middle - (2.0 * q - 1.0) * width / 2.0], axis=-1)


def cartea_jaimungal_value(
    time_left: Any,
    *,
    max_inventory: int,
    fill_intensity: float,
    fill_decay: float,
    running_penalty: float,
    terminal_penalty: float,
) -> Array:
    """What the inventory is worth beside cash and mark to market: `h(t, q)`.

    A trader who maximises the mean of wealth at the end, less `terminal_penalty * q_T^2` and less the integral of
    `running_penalty * q^2`, has the value `x + q S + h(t, q)`, with `h = ln(w) / k`, `w = exp(M (T - t)) z`,
    `z_q = exp(-terminal_penalty k q^2)`, `M_qq = -running_penalty k q^2`, `M_{q,q+-1} = A / e` (Cartea, Jaimungal and
    Penalva 2015, chapter 10).

    Args:
        time_left: `T - t`, at least 0, a number or `(K,)`.
        max_inventory: `Q`, at least 1.
        running_penalty: money per squared unit and time; `MarketMaking-v0` has `0.5 * risk_aversion * sigma**2`.
        terminal_penalty: money per squared unit.

    Returns:
        Money, float64 `(2Q + 1,)` or `(K, 2Q + 1)`.
    """
    decay, squares = positive("fill_decay", fill_decay), _inventories(max_inventory) ** 2
    diagonal = -not_negative("running_penalty", running_penalty) * decay * squares
    log_z = -not_negative("terminal_penalty", terminal_penalty) * decay * squares
    coupling = positive("fill_intensity", fill_intensity) / math.e
    return _log_exponential(diagonal, coupling, log_z, _times(time_left)) / decay


def cartea_jaimungal_depths(
    time_left: Any,
    *,
    max_inventory: int,
    fill_intensity: float,
    fill_decay: float,
    running_penalty: float,
    terminal_penalty: float,
    max_offset: float = math.inf,
) -> Array:
    """The optimal quotes to `cartea_jaimungal_value`: `bid(q) = 1 / k - (h(q + 1) - h(q))`, the ask with `h(q - 1)`.

    Without penalties and far from `Q` they are `1 / k`.

    Args:
        max_offset: largest depth that can be quoted, inf for any.

    Returns:
        float64 `(2Q + 1, 2)`, or `(K, 2Q + 1, 2)`; in `[0, max_offset]` but for sides that are not quoted.

    Raises:
        ValueError: a depth outside `[0, max_offset]`; cut off there, the quotes would not be optimal.
    """
    value = cartea_jaimungal_value(
        time_left,
        max_inventory=max_inventory,
        fill_intensity=fill_intensity,
        fill_decay=fill_decay,
        running_penalty=running_penalty,
        terminal_penalty=terminal_penalty,
    )
    depths = _depths_of(value) + 1.0 / fill_decay
    largest = math.inf if max_offset == math.inf else positive("max_offset", max_offset)
    outside = (depths < 0) | ((depths > largest) & np.isfinite(depths))
    if outside.any():
        place = tuple(np.argwhere(outside)[0])
        when = np.broadcast_to(np.asarray(time_left, np.float64), depths.shape[:-2])[place[:-2]]
        raise ValueError(
            f"running_penalty={running_penalty!r}, terminal_penalty={terminal_penalty!r} and max_inventory="
            f"{max_inventory} lead to a depth of {depths[place]:.4g} for the {('bid', 'ask')[place[-1]]} at inventory "
            f"{place[-2] - max_inventory} with time {when:.4g} left, outside [0, {largest}]: that cannot be quoted, "
            "and the closed form is optimal only where every quote can be. Lower the penalties or max_inventory"
            + (", or allow a larger max_offset." if depths[place] > 0 else ".")
        )
    return depths


def _glft_matrix(max_inventory: int, sigma: float, fill_intensity: float, decay: float, gamma: float) -> Any:
    """Diagonal and off-diagonal of `-M`."""
    diagonal = -decay * gamma * not_negative("sigma", sigma) ** 2 / 2.0 * _inventories(max_inventory) ** 2
    return diagonal, positive("fill_intensity", fill_intensity) * _thinning(decay, gamma)


def _markup(decay: float, gamma: float) -> float:
    """`ln(1 + gamma / k) / gamma`."""
    return math.log1p(gamma / decay) / gamma


def _thinning(decay: float, gamma: float) -> float:
    """`(1 + gamma / k)^-(1 + k / gamma)`; `1 / e` as gamma goes to 0."""
    return math.exp(-(1.0 + decay / gamma) * math.log1p(gamma / decay))


def _inventories(max_inventory: int) -> Array:
    limit = whole_number("max_inventory", max_inventory, minimum=1)
    return np.arange(-limit, limit + 1, dtype=np.float64)


def _neighbours(size: int) -> Array:
    return np.eye(size, k=1) + np.eye(size, k=-1)


def _times(time_left: Any) -> Array:
    times = finite_array("time_left", time_left)
    if (times < 0).any():
        raise ValueError(f"time_left reaches down to {times.min()}; expected times of at least 0.")
    return times


def _depths_of(potential: Array) -> Array:
    """`potential(q) - potential(q + 1)` for the bid, `potential(q) - potential(q - 1)` for the ask; inf beyond `Q`."""
    steps = np.diff(potential, axis=-1)
    edge = np.full((*steps.shape[:-1], 1), math.inf)
    return np.stack([np.concatenate([-steps, edge], axis=-1), np.concatenate([edge, steps], axis=-1)], axis=-1)


def _log_exponential(diagonal: Array, coupling: float, log_start: Array, times: Array) -> Array:
    """`ln(exp(M t) exp(log_start))` for `M = diag(diagonal) + coupling * neighbours`, for every `t` of `times`.

    The entries span a hundred orders of magnitude, and their logarithms are wanted: an eigenvalue decomposition, exact
    to rounding errors of the largest entry, loses the small ones. With the least diagonal entry taken out, no entry of
    the matrix is negative, so that nothing is subtracted in the series and every entry is exact to rounding.

    Returns:
        float64 `times.shape + (n,)`.
    """
    if times.ndim > 1:
        raise ValueError(f"time_left has shape {times.shape}; expected a number or (K,).")
    least = float(diagonal.min())
    matrix = np.diag(diagonal - least) + coupling * _neighbours(len(diagonal))
    largest_sum = float(matrix.sum(axis=1).max())
    moments, places = np.unique(times, return_inverse=True)
    found, log_w, now = np.empty((len(moments), len(diagonal))), log_start, 0.0
    for k, moment in enumerate(moments):
        parts = math.ceil((moment - now) * largest_sum / LARGEST_SPAN)
        for _ in range(parts):
            log_w = _log_series(matrix * ((moment - now) / parts), log_w)
        found[k] = log_w + least * moment
        now = moment
    if not np.isfinite(found).all():
        raise ValueError(
            f"max_inventory={len(diagonal) // 2} is too large: the values of the outer inventories leave the range of "
            "floats. Lower it, or the penalty on inventory."
        )
    return found[places.reshape(times.shape)]


def _log_series(matrix: Array, log_start: Array) -> Array:
    """`ln(exp(matrix) exp(log_start))` for a tridiagonal matrix without negative entries, by the exponential series."""
    span = float(matrix.sum(axis=1).max())
    top = float(log_start.max())
    term = total = np.exp(log_start - top)
    # an entry n places away first appears in term n; from there on terms fall below 1e-20 of the sum after that many
    for j in range(1, len(matrix) + math.ceil(math.e * span) + 40):
        term = matrix @ term / j
        total = total + term
    with np.errstate(divide="ignore"):
        return top + np.log(total)
