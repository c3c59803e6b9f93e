"""The dynamics of Portfolio-v0, once: the single environment runs them with one slot, the native one with `N`.

Letters: `N` slots, `L` lookback, `n` risky assets, `T` rows of a history. All money is in units of the equity at the
start of the episode, so that equity begins at 1. A weight is the value held over equity, negative for a short sale;
cash is the last one, the rest. A slot is at row `t` with equity `E` and drifted weights `h`. A step

1. reads target weights `w` off the action (`aim`),
2. trades at the prices of row `t`, so that the weights *after the cost* are the targets (`trade`): equity `m E`,
3. moves to row `t + 1`, where asset `i` is worth `y_i` times as much: `E' = m E (1 - sum w + sum w_i y_i)`, and the
   weights drift to `m E w_i y_i / E'` (`hold`).

Reward: `ln(E' / E)`. Cash earns nothing.

Arrays, all C-contiguous; the rows of the blocks are named by the constants below:

    params         (PARAMS,) float64
    assets         (FACTOR + n, n) float64    parameters of each asset, then the factor of the correlations
    prices         (T n,) float64             the history, row after row; empty in a simulated market
    returns        (T n - n,) float32         its log returns; or (N 2L n,), rings `[slot, place, asset]`
    equity         (N,) float64
    weights        (n + 1, N) float64         drifted, cash last
    clock          (CLOCK_ROWS, N) int64
    out            (OUT_ROWS, N) float64      what a step reports
    out_weights    (n + 1, N) float64         and asset_returns (n, N) float64, simple
    flags          (2, N) bool                terminated, truncated
    seen_returns   (N, L, n) float32          the observation: log returns, oldest first
    seen_weights   (N, n + 1) float32         and the weights

A simulated return stands twice in its ring, `L` places apart, so that the last `L` are always contiguous. The newest
stands at place `clock[HEAD]`. Slots come last in most arrays, and innermost in most loops: without a branch on the slot
these run in wide words, ten times as fast as asset by asset.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sekai.core.kernels import kernel

# params
RUIN, CLIP, DT, CAPITAL, SHORT, GIVEN, PROPORTIONAL, PARAMS = range(8)
# assets
RATE, FEE, IMPACT, DRIFT, VOLATILITY, FACTOR = range(6)
# clock
ROW, LAST_ROW, HEAD, CLOCK_ROWS = range(4)
# out
REWARD, OUT_EQUITY, VALUE, TURNOVER, COST, OUT_DT, OUT_ROWS = range(7)

# Of the equity: a distance to the target that is no trade, and pays no fee. Weights that were observed and handed back
# as an action are 1.2e-7 of themselves away, by two roundings to float32.
NO_TRADE = 2.5e-7
FLOOR = 1e-8  # of the equity at the start: what is left counts as nothing, and the log reward stops here
STEEPEST = 700.0  # log return: the exponential of a larger one leaves the range of floats at 709


@kernel
def first_outside(actions: Any, low: float) -> int:
    """The first slot with an entry of its action not in `[low, 1]`; -1 if there is none."""
    for i in range(actions.shape[0]):
        outside = False
        for j in range(actions.shape[1]):
            outside |= not (actions[i, j] >= low and actions[i, j] <= 1.0)
        if outside:
            return i
    return -1


@kernel
def aim(actions: Any, short: bool, targets: Any) -> None:
    """Write the target weights `(n + 1, N)`, cash last, that the actions stand for.

    Of weights of all assets and cash, at least 0: each over their sum; all of them 0 is all cash. With short sales, of
    weights of the risky assets: each as it is, or over the sum of their sizes where that is above 1; cash is the rest.
    """
    slots, entries = actions.shape
    cash = targets[targets.shape[0] - 1]
    total = np.zeros(slots)
    for i in range(slots):
        for j in range(entries):
            targets[j, i] = actions[i, j]
            total[i] += abs(targets[j, i])
    for i in range(slots):
        if short:
            cash[i] = 1.0
            total[i] = max(total[i], 1.0)
        elif total[i] == 0.0:
            cash[i] = 1.0
            total[i] = 1.0
    for j in range(entries):
        target = targets[j]
        for i in range(slots):
            target[i] /= total[i]
        if short:
            for i in range(slots):
                cash[i] -= target[i]


@kernel
def remaining(held: Any, targets: Any, rates: Any, left: Any) -> None:
    """Fraction `m` of equity that is left after trading from `held` to `targets`: `m = 1 - sum c_j |m w_j - h_j|`.

    The right side less the left falls in `m` and is concave, so that Newton's method from 1 comes down to the root: a
    turn solves the equation for the buys and sales of the turn before, and the root is reached when these stay.

    Args:
        held: `h`, weights before the trade, `(n, N)`; cash may follow, and costs nothing.
        targets: `w`, weights after it, likewise.
        rates: `c`, `(n,)`; `sum c_j |w_j| < 1`.
        left: `(N,)`, becomes `m`: at most 1, and at most 0 where `sum c_j |h_j|` is at least 1, so that leaving what
            is held takes all equity.
    """
    slots = left.shape[0]
    above, below = np.empty(slots), np.empty(slots)
    left[:] = 1.0
    for _ in range(rates.shape[0] + 2):  # each turn but the last changes a purchase into a sale, in some slot
        above[:] = 1.0
        below[:] = 1.0
        for j in range(rates.shape[0]):
            rate, h, w = rates[j], held[j], targets[j]
            for i in range(slots):
                signed_rate = rate if left[i] * w[i] - h[i] > 0.0 else -rate
                above[i] += signed_rate * h[i]
                below[i] += signed_rate * w[i]
        moved = False
        for i in range(slots):
            lower = above[i] / below[i]
            moved |= lower < left[i]
            left[i] = lower if lower < left[i] else left[i]
        if not moved:
            break


@kernel
def trade(held: Any, targets: Any, rates: Any, turnover: Any, cost: Any) -> None:
    """Write the turnover and the cost of trading from `held` to `targets`, fractions of the equity before.

    Who has sold short so much that the cost of covering takes all equity covers, whatever the targets, which are then
    overwritten.
    """
    n, slots = rates.shape[0], cost.shape[0]
    left = np.empty(slots)
    remaining(held, targets, rates, left)
    for i in range(slots):
        if left[i] <= 0.0:
            targets[:, i] = 0.0
            targets[n, i] = 1.0
    turnover[:] = 0.0
    cost[:] = 0.0
    for j in range(n):
        rate, h, w = rates[j], held[j], targets[j]
        for i in range(slots):
            size = abs(left[i] * w[i] - h[i])
            turnover[i] += size
            cost[i] += rate * size


@kernel
def solve(slot: int, held: Any, targets: Any, assets: Any, scale: float, fees: float, left: float) -> float:
    """The largest `m <= left` with `m = 1 - fees - sum r_j x_j + k_j sqrt(E) x_j^(3/2)`, `x = |m w - h|`, of one slot.

    The right side less the left is concave in `m` and, at `left`, not above 0. So Newton's method comes down from there
    to the root, or short of it, and where that side no longer falls in `m`, or `m` is not above 0, there is none.

    Args:
        slot: column of the weights.
        held, targets, assets: as for `trade_all`.
        scale: `sqrt(E)`.
        fees: sum of those that are owed, as a fraction of `E`.
        left: where to begin.

    Returns:
        `m`, or 0 where there is no such root above 0.
    """
    while left > 0.0:  # about six turns
        above = left - 1.0 + fees
        slope = 1.0
        for j in range(assets.shape[1]):
            away = left * targets[j, slot] - held[j, slot]
            size = abs(away)
            root = assets[IMPACT, j] * scale * math.sqrt(size)
            above += (assets[RATE, j] + root) * size
            slope += (targets[j, slot] if away > 0.0 else -targets[j, slot]) * (assets[RATE, j] + 1.5 * root)
        if above <= 0.0:
            return left
        if not slope > 0.0:
            return 0.0
        lower = left - above / slope
        if not lower < left:
            return left
        left = lower
    return 0.0


@kernel
def trade_all(equities: Any, held: Any, targets: Any, assets: Any, turnover: Any, cost: Any) -> None:
    """`trade` for costs with fees and impact: `m = 1 - sum c_j(|m w_j - h_j|)`, `c_j(x) = fee_j + r_j x + k_j x^(3/2)`.

    Fees and impact are in units of the equity at the start; of an equity `E` they are `fee / E` and `impact sqrt(E)`.

    An asset pays its fee if it is further than `NO_TRADE` from its target, before the trade (`|w_j - h_j|`) or after it
    (`|m w_j - h_j|`): what others cost leaves less of every weight, so an asset that was on target may have to follow.
    More fees leave less, and who followed then still does, so fees are added until nobody else owes one. Where all
    weights are within `NO_TRADE` of their targets, nothing is traded and the targets become the weights held.

    Who cannot reach the targets with equity left closes what is held, whatever the targets, and pays what that costs.

    Args:
        equities: `E`, `(N,)`; nothing is traded where it is not above 0, in slots whose episode is over.
        held, targets, turnover, cost: as for `trade`.
        assets: see the module.
    """
    n = assets.shape[1]
    owes = np.empty(n, np.bool_)
    for i in range(equities.shape[0]):
        equity = equities[i]
        turnover[i] = 0.0
        cost[i] = 0.0
        owes[:] = False
        scale = math.sqrt(max(equity, 0.0))
        fees, left = 0.0, 1.0
        trades, added = False, equity > 0.0
        while added and left > 0.0:
            added = False
            for j in range(n):
                if not owes[j] and abs(left * targets[j, i] - held[j, i]) > NO_TRADE:
                    owes[j] = added = trades = True
                    fees += assets[FEE, j] / equity
            if added:
                left = solve(i, held, targets, assets, scale, fees, left)
        if not trades:
            for j in range(n + 1):
                targets[j, i] = held[j, i]
            continue
        if left <= 0.0:
            for j in range(n):
                targets[j, i] = 0.0
                owes[j] = abs(held[j, i]) > NO_TRADE
            targets[n, i] = 1.0
        for j in range(n):
            size = abs(left * targets[j, i] - held[j, i])
            turnover[i] += size
            cost[i] += (assets[RATE, j] + assets[IMPACT, j] * scale * math.sqrt(size)) * size
            if owes[j]:
                cost[i] += assets[FEE, j] / equity


@kernel
def hold(equities: Any, cost: Any, growth: Any, targets: Any, new_equities: Any) -> None:
    """Pay the cost and let the prices move.

    The targets become the values held after the move, the growth becomes simple returns, and the new equities are
    written.
    """
    n, slots = growth.shape
    invested, cash = np.empty(slots), targets[n]
    for i in range(slots):
        invested[i] = equities[i] * (1.0 - cost[i])
        cash[i] *= invested[i]
        new_equities[i] = cash[i]
    for j in range(n):
        factor, value = growth[j], targets[j]
        for i in range(slots):
            value[i] *= invested[i] * factor[i]
            new_equities[i] += value[i]
            factor[i] -= 1.0


@kernel
def take_over(
    moves: Any, equities: Any, weights: Any, values: Any, reward: Any, new_equities: Any, turnover: Any, cost: Any
) -> None:
    """Make the new equities and values the state of the slots that move, and the report of all slots.

    The values become weights.
    """
    for j in range(weights.shape[0]):
        weight, value = weights[j], values[j]
        for i in range(equities.shape[0]):
            weight[i] = value[i] / max(new_equities[i], FLOOR) if moves[i] else weight[i]
            value[i] = weight[i]
    for i in range(equities.shape[0]):
        reward[i] = max(new_equities[i], FLOOR) / equities[i] if moves[i] else 1.0
        equities[i] = new_equities[i] if moves[i] else equities[i]
        new_equities[i] = equities[i]
        turnover[i] = turnover[i] if moves[i] else 0.0
        cost[i] = cost[i] if moves[i] else 0.0
    # in a loop of its own: between the other lines the call costs three times as much
    for i in range(equities.shape[0]):
        reward[i] = math.log(reward[i])


@kernel
def correlate(shocks: Any, params: Any, assets: Any) -> None:
    """Turn shocks into log returns of correlated geometric Brownian motions over one bar, in place.

    `r = (mu - sigma^2 / 2) dt + sigma sqrt(dt) z`, with `z = F e` clipped to `[-CLIP, CLIP]`, `F F'` the correlations.
    Where a price model draws, the shocks are the log returns themselves.

    Args:
        shocks: float64 `(K, n)`, independent and standard normal: `e`.
    """
    if params[GIVEN] != 0.0:
        return
    n = shocks.shape[1]
    clip = params[CLIP]
    for i in range(shocks.shape[0]):
        for j in range(n - 1, -1, -1):  # from the last on: the others still need the shocks before them
            shock = 0.0
            for k in range(j + 1):
                shock += assets[FACTOR + j, k] * shocks[i, k]
            shocks[i, j] = assets[DRIFT, j] + assets[VOLATILITY, j] * min(max(shock, -clip), clip)


@kernel
def simulate(lo: int, hi: int, shocks: Any, frozen: Any, clock: Any, params: Any, assets: Any) -> int:
    """Turn the shocks of a step `(N, n)` into log returns in the slots of `[lo, hi)`, in place.

    They become 0 where a slot does not move.

    Returns:
        -1, or the first slot with a log return beyond `STEEPEST`.
    """
    shocks, frozen, rows, last_rows = shocks[lo:hi], frozen[lo:hi], clock[ROW, lo:hi], clock[LAST_ROW, lo:hi]
    correlate(shocks, params, assets)
    for i in range(hi - lo):
        moves = not frozen[i] and rows[i] < last_rows[i]
        for j in range(shocks.shape[1]):
            if not moves:
                shocks[i, j] = 0.0
            elif abs(shocks[i, j]) > STEEPEST:
                return lo + i
    return -1


@kernel
def look_up(prices: Any, moves: Any, rows: Any, growth: Any) -> None:
    """Write the growth of the prices from each row to the next into `growth` `(n, N)`, 1 where a slot does not move."""
    n = growth.shape[0]
    for i in range(growth.shape[1]):
        for j in range(n):
            growth[j, i] = prices[(rows[i] + 1) * n + j] / prices[rows[i] * n + j] if moves[i] else 1.0


@kernel
def keep_returns(returns: Any, slot: int, head: int, lookback: int, log_returns: Any, row: int) -> None:
    """Write a row of simulated returns into the ring of a slot, twice."""
    n = log_returns.shape[1]
    first = (slot * 2 * lookback + head) * n
    second = first + (lookback if head < lookback else -lookback) * n
    for j in range(n):
        value = log_returns[row, j]
        returns[first + j] = value
        returns[second + j] = value


@kernel
def turn(lo: int, log_returns: Any, moves: Any, returns: Any, clock: Any, lookback: int) -> None:
    """Write the newest log returns `(N, n)` into the rings of the slots that move, of which `moves[0]` is `lo`."""
    for k in range(moves.shape[0]):
        if moves[k]:
            i = lo + k
            head = clock[HEAD, i] + 1
            if head == 2 * lookback:
                head = 0
            clock[HEAD, i] = head
            keep_returns(returns, i, head, lookback, log_returns, i)


@kernel
def observe(
    indices: Any, returns: Any, weights: Any, clock: Any, simulated: bool, seen_returns: Any, seen_weights: Any
) -> None:
    """Write the observations of the slots in `indices` into their rows."""
    lookback, n = seen_returns.shape[1:]
    flat = seen_returns.reshape(seen_returns.shape[0], lookback * n)
    for k in range(indices.shape[0]):
        i = indices[k]
        if simulated:
            head = clock[HEAD, i]
            end = i * 2 * lookback + (head if head >= lookback else head + lookback) + 1
        else:
            end = clock[ROW, i]
        row, window = flat[i], returns[(end - lookback) * n : end * n]
        for j in range(lookback * n):  # over slices: no check for negative places, and copied in wide words
            row[j] = window[j]
        for j in range(n + 1):
            seen_weights[i, j] = weights[j, i]


@kernel
def advance(
    lo: int,
    hi: int,
    every: Any,
    actions: Any,
    frozen: Any,
    params: Any,
    assets: Any,
    log_returns: Any,
    factors: Any,
    prices: Any,
    returns: Any,
    equities: Any,
    weights: Any,
    clock: Any,
    out: Any,
    out_weights: Any,
    asset_returns: Any,
    flags: Any,
    seen_returns: Any,
    seen_weights: Any,
) -> None:
    """Step the slots in `[lo, hi)` that are not frozen; write what they report and observe, of all in the range.

    A part of the slots is stepped in copies of their columns: only whole rows are contiguous.

    Args:
        lo, hi: the range, inside `[0, N]`; the arrays are those of all slots.
        every: int64 `(N,)`, 0 to `N - 1`.
        actions: float32 `(N, n + 1)`, or `(N, n)` with short sales, inside the action space.
        frozen: bool `(N,)`, slots to leave as they are.
        log_returns: float64 `(N, n)`, of this step, from `simulate`; no rows for a history.
        factors: their exponentials.
    """
    count, n = hi - lo, assets.shape[1]
    simulated = log_returns.shape[0] > 0
    whole = count == frozen.shape[0]
    held = weights if whole else weights[:, lo:hi].copy()
    targets = out_weights if whole else np.empty((n + 1, count))
    growth = asset_returns if whole else np.empty((n, count))
    equity, new_equity, rows, last_rows = (
        equities[lo:hi],
        out[OUT_EQUITY, lo:hi],
        clock[ROW, lo:hi],
        clock[LAST_ROW, lo:hi],
    )
    reward, turnover, cost = out[REWARD, lo:hi], out[TURNOVER, lo:hi], out[COST, lo:hi]
    # a slot whose end the caller never learned of, cut short in between, has no row or no equity to go on with
    moves = np.empty(count, np.bool_)
    for i in range(count):
        moves[i] = not frozen[lo + i] and rows[i] < last_rows[i] and equity[i] > params[RUIN]
    if simulated:
        factor = factors[lo:hi]
        for i in range(count):
            for j in range(n):
                growth[j, i] = factor[i, j] if moves[i] else 1.0
    else:
        look_up(prices, moves, rows, growth)

    aim(actions[lo:hi], params[SHORT] != 0.0, targets)
    if params[PROPORTIONAL] != 0.0:
        trade(held, targets, assets[RATE], turnover, cost)
    else:
        trade_all(equity, held, targets, assets, turnover, cost)
    hold(equity, cost, growth, targets, new_equity)
    take_over(moves, equity, held, targets, reward, new_equity, turnover, cost)
    if not whole:
        weights[:, lo:hi] = held
        out_weights[:, lo:hi] = targets
        asset_returns[:, lo:hi] = growth
    value, dts, terminated, truncated = out[VALUE, lo:hi], out[OUT_DT, lo:hi], flags[0, lo:hi], flags[1, lo:hi]
    for i in range(count):
        rows[i] += moves[i]
        terminated[i] = equity[i] <= params[RUIN]
        truncated[i] = rows[i] >= last_rows[i]
        value[i] = params[CAPITAL] * equity[i]
        dts[i] = params[DT]
    if simulated:
        turn(lo, log_returns, moves, returns, clock, seen_returns.shape[1])
    observe(every[lo:hi], returns, weights, clock, simulated, seen_returns, seen_weights)


@kernel
def place_in_cash(i: int, row: int, head: int, episode_length: int, equities: Any, weights: Any, clock: Any) -> None:
    """Put slot `i` at the start of an episode: all in cash, equity 1."""
    equities[i] = 1.0
    weights[:, i] = 0.0
    weights[-1, i] = 1.0
    clock[ROW, i] = row
    clock[LAST_ROW, i] = row + episode_length
    clock[HEAD, i] = head


@kernel
def begin(indices: Any, rows: Any, episode_length: int, equities: Any, weights: Any, clock: Any) -> None:
    """Start episodes on a history: slot `indices[k]` decides first at `rows[k]`; both int64 `(K,)`."""
    for k in range(indices.shape[0]):
        place_in_cash(indices[k], rows[k], 0, episode_length, equities, weights, clock)


@kernel
def begin_simulated(
    indices: Any,
    shocks: Any,
    head: int,
    episode_length: int,
    params: Any,
    assets: Any,
    returns: Any,
    equities: Any,
    weights: Any,
    clock: Any,
) -> None:
    """Start episodes on simulated histories: `L` rows of shocks per slot lead to row `L`.

    Args:
        indices: int64 `(K,)`, slots.
        shocks: float64 `(K, L, n)`, standard normal, becomes log returns.
        head: place in the rings for the returns into row `L`.
    """
    count, lookback, n = shocks.shape
    log_returns = shocks.reshape(count * lookback, n)
    correlate(log_returns, params, assets)
    for k in range(count):
        i = indices[k]
        place = head - lookback if head >= lookback else head + lookback
        for j in range(lookback):
            place = place + 1 if place + 1 < 2 * lookback else 0
            keep_returns(returns, i, place, lookback, log_returns, k * lookback + j)
        place_in_cash(i, lookback, head, episode_length, equities, weights, clock)
