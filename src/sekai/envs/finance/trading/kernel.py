"""The dynamics of Trading-v0, once: the single environment runs them with one slot, the native one with `N`.

Letters: `N` slots, `L` lookback, `A` target exposures, `T` rows of a history. All money is in units of the equity at
the start of the episode, so that equity begins at 1. Exposure is the value held over equity: 1 is all of it, -1 is
short by as much. A slot is at row `t` with price `p`, cash `B` and `h` shares (signed): equity `E = B + h p`. A step

1. trades at `p`, so that the exposure *after the cost* is the target (`trade_to`),
2. accrues interest over the bar (`accrue`),
3. moves to row `t + 1` with price `p'`: `E' = B' + h' p'`.

Where trades fill later, at a price `f` of the bar to come, the old holding earns the way from `p` to `f`. At the next
open: moves to `f`, 1 at `f`, 2, 3 from `f`. At the next close: 2, moves to `f = p'`, 1 at `f`. Equity at or below ruin
at the next open is the end: what is held is closed there, and there is no trade.

Ledger: `E' - E = h (f - p) + h' (p' - f) - cost + carry`, with `f = p` at the close. Reward: `ln(E' / E)`.

Arrays, all C-contiguous; the rows of the blocks are named by the constants below, and may be longer than `N` (see
`blocks.row_length`):

    params        (LEVELS + A,) float64    parameters, then the target exposures
    prices        (T,) float64             the history; or (2L N,), rings of simulated prices, `[place, slot]`
    opens         (T,) float64             the opens of the history; none unless trades fill there
    returns       (T - 1,) float32         its log returns; or (N 2L,), rings of simulated ones, `[slot, place]`
    state         (STATE_ROWS, N) float64
    clock         (CLOCK_ROWS, N) int64
    out           (OUT_ROWS, N) float64    what a step reports
    flags         (2, N) bool              terminated, truncated
    observations  (N, L + 1) float32       log returns oldest first, then the exposure

A simulated return stands twice in its ring, `L` places apart, so that the last `L` are always contiguous. The newest
price stands at place `clock[HEAD]`. Slots that step together write next to each other.
"""

from __future__ import annotations

import math
from typing import Any

from sekai.core.kernels import kernel

# params
RATE, CASH_YIELD, MARGIN_YIELD, BORROW_YIELD, RUIN, DRIFT, VOLATILITY, CLIP, ON_CHANGE = range(9)
DT, START_PRICE, GIVEN, FILL, FEE, IMPACT, LEVELS = range(9, 16)
# values of params[FILL]
CLOSE, NEXT_OPEN, NEXT_CLOSE = range(3)
# state
PRICE, CASH, SHARES, EQUITY, EXPOSURE, TARGET, STATE_ROWS = range(7)
# clock
ROW, LAST_ROW, HEAD, CLOCK_ROWS = range(4)
# out
REWARD, OUT_EQUITY, OUT_EXPOSURE, OUT_PRICE, ASSET_RETURN, COST, TURNOVER, CARRY, OUT_DT, OUT_ROWS = range(10)

NO_TRADE = 1e-10  # of the equity: what rounding leaves of a holding that is on target is no trade, and pays no fee
FLOOR = 1e-8  # of the equity at the start: what is left counts as nothing, and the log reward stops here


@kernel
def retarget(equity: float, value: float, target: float, rate: float) -> Any:
    """The trade after which the exposure, cost paid, is `target`.

    `D = (a E - v) / (1 + c a sgn(a E - v))`, cost `c |D|`, equity afterwards `E - c |D|`, for `c |a| < 1`. A holding
    so large that the cost of leaving it takes all equity is closed instead, whatever the target.

    Args:
        equity: `E`, above 0.
        value: `v = h p`, of what is held.
        target: exposure `a`.
        rate: `c`.

    Returns:
        trade `D`, cost, equity afterwards, exposure afterwards.
    """
    gap = target * equity - value
    signed_rate = rate if gap > 0.0 else -rate
    trade = gap / (1.0 + signed_rate * target)
    cost = rate * abs(trade)
    if equity - cost <= 0.0:
        trade = -value
        cost = rate * abs(trade)
        target = 0.0
    return trade, cost, equity - cost, target


@kernel
def trade_to(equity: float, value: float, target: float, rate: float, fee: float, impact: float) -> Any:
    """`retarget` for a cost of `fee [D != 0] + c |D| + impact |D|^(3/2)`.

    With the fee paid, `g = a (E - fee) - v` has the sign of the trade, and its size solves
    `x + s (c x + impact x^(3/2)) = |g|`, where `s = a sgn(g)`. For `s >= 0` the left side is convex, and Newton's
    method comes down from its root without impact; for `s < 0` it is concave, and comes up. Where it has no root, the
    cost takes more than the trade brings, and what is held, if anything, is closed as where the cost takes all equity.
    A holding within `NO_TRADE` of its target is left alone. The fee is paid also where paying it alone brings the
    exposure to the target, which nothing else could have done.

    Args:
        equity, value, target, rate: as for `retarget`.
        fee, impact: of any trade, and of one of size 1, in the unit of the equity.

    Returns:
        as `retarget`; the trade is 0 where none is needed.
    """
    if fee == 0.0 and impact == 0.0:
        return retarget(equity, value, target, rate)
    if abs(target * equity - value) <= NO_TRADE * equity:
        return 0.0, 0.0, equity, value / equity
    gap = target * (equity - fee) - value
    sign = 1.0 if gap > 0.0 else -1.0
    pull = target * sign
    size = abs(gap) / (1.0 + pull * rate)
    while True:  # about six turns, each nearer to the root than the one before, until rounding hides the way
        root = math.sqrt(size)
        slope = 1.0 + pull * (rate + 1.5 * impact * root)
        solved = slope > 0.0
        if not solved:
            break
        nearer = size - (size + pull * (rate + impact * root) * size - abs(gap)) / slope
        if not (nearer < size if pull > 0.0 else nearer > size):
            break
        size = nearer
    cost = fee + (rate + impact * math.sqrt(size)) * size
    if not solved or equity - cost <= 0.0:
        size = abs(value)
        sign = -1.0 if value > 0.0 else 1.0
        cost = (fee if size > 0.0 else 0.0) + (rate + impact * math.sqrt(size)) * size
        target = 0.0
    return sign * size, cost, equity - cost, target


@kernel
def accrue(
    cash: float, value: float, equity: float, cash_yield: float, margin_yield: float, borrow_yield: float
) -> float:
    """Interest over one bar: earned on own cash, paid on borrowed cash and on the value of borrowed shares.

    Proceeds of a short sale earn nothing: own cash is at most the equity. Yields are rate times bar length.
    """
    earned = cash_yield * max(min(cash, equity), 0.0)
    return earned - margin_yield * max(-cash, 0.0) - borrow_yield * max(-value, 0.0)


@kernel
def log_return(shock: float, params: Any) -> float:
    """Log return of a geometric Brownian motion over one bar: `(mu - sigma^2 / 2) dt + sigma sqrt(dt) z`.

    The shock `z` is clipped to `[-CLIP, CLIP]`. Where a price model draws, it is the log return itself.
    """
    if params[GIVEN] != 0.0:
        return shock
    clipped = min(max(shock, -params[CLIP]), params[CLIP])
    return params[DRIFT] + params[VOLATILITY] * clipped  # type: ignore[no-any-return]  # an entry of an array


@kernel
def first_outside(actions: Any, frozen: Any, choices: int) -> int:
    """The first slot, frozen ones apart, whose action is not in `[0, choices)`; -1 if there is none."""
    for i in range(actions.shape[0]):
        if (actions[i] < 0 or actions[i] >= choices) and not frozen[i]:
            return i
    return -1


@kernel
def keep_return(returns: Any, slot: int, head: int, lookback: int, value: float) -> None:
    """Write a simulated return into its ring, twice."""
    place = slot * 2 * lookback + head
    returns[place] = value
    returns[place + (lookback if head < lookback else -lookback)] = value


@kernel
def observe(indices: Any, returns: Any, state: Any, clock: Any, simulated: bool, observations: Any) -> None:
    """Write the observations of the slots in `indices` into their rows: the last `L` returns, then the exposure."""
    lookback = observations.shape[1] - 1
    for k in range(indices.shape[0]):
        i = indices[k]
        if simulated:
            head = clock[HEAD, i]
            end = i * 2 * lookback + (head if head >= lookback else head + lookback) + 1
        else:
            end = clock[ROW, i]
        row, window = observations[i], returns[end - lookback : end]
        for j in range(lookback):  # over slices: no check for negative places, and copied in wide words
            row[j] = window[j]
        row[lookback] = state[EXPOSURE, i]


@kernel
def next_prices(
    lo: int, hi: int, frozen: Any, params: Any, shocks: Any, prices: Any, state: Any, clock: Any, out: Any
) -> int:
    """Write the prices after the step of the slots in `[lo, hi)` into `out`, and simulated log returns.

    Returns:
        -1, or the first slot whose simulated price leaves the range of floats.
    """
    simulated = shocks.shape[0] > 0
    frozen, shocks = frozen[lo:hi], shocks[lo:hi]
    state, clock, out = state[:, lo:hi], clock[:, lo:hi], out[:, lo:hi]
    for i in range(hi - lo):
        price = state[PRICE, i]
        if not frozen[i] and clock[ROW, i] < clock[LAST_ROW, i] and state[EQUITY, i] > params[RUIN]:
            if simulated:
                growth = log_return(shocks[i], params)
                price *= math.exp(growth)
                if not (price > 0.0 and price < math.inf):
                    return lo + i
                out[ASSET_RETURN, i] = growth  # kept here for `move`
            else:
                price = prices[clock[ROW, i] + 1]
        out[OUT_PRICE, i] = price
    return -1


@kernel
def move(
    lo: int,
    hi: int,
    every: Any,
    actions: Any,
    frozen: Any,
    params: Any,
    shocks: Any,
    prices: Any,
    opens: Any,
    returns: Any,
    state: Any,
    clock: Any,
    out: Any,
    flags: Any,
    observations: Any,
) -> None:
    """Step the slots in `[lo, hi)`, to the prices that `next_prices` wrote; see `advance`.

    Args:
        lo, hi: the range, inside `[0, N]`; the arrays are those of all slots.
    """
    slots = actions.shape[0]
    lookback = observations.shape[1] - 1
    simulated = shocks.shape[0] > 0
    proportional = params[FEE] == 0.0 and params[IMPACT] == 0.0
    if simulated:
        prices, returns = prices[lo:], returns[lo * 2 * lookback : hi * 2 * lookback]
    every, actions, frozen = every[: hi - lo], actions[lo:hi], frozen[lo:hi]
    state, clock, out = state[:, lo:hi], clock[:, lo:hi], out[:, lo:hi]
    flags, observations = flags[:, lo:hi], observations[lo:hi]

    for i in range(hi - lo):
        row = clock[ROW, i]
        head = clock[HEAD, i]
        out[OUT_DT, i] = params[DT]
        # a slot whose end the caller never learned of, cut short in between, has no row or no equity to go on with
        over = row >= clock[LAST_ROW, i]
        ruined = state[EQUITY, i] <= params[RUIN]
        if frozen[i] or over or ruined:
            out[REWARD, i] = 0.0
            out[OUT_EQUITY, i] = state[EQUITY, i]
            out[OUT_EXPOSURE, i] = state[EXPOSURE, i]
            out[ASSET_RETURN, i] = 0.0
            out[COST, i] = 0.0
            out[TURNOVER, i] = 0.0
            out[CARRY, i] = 0.0
            flags[0, i] = ruined
            flags[1, i] = over
            continue

        price = state[PRICE, i]
        equity = state[EQUITY, i]
        cash = state[CASH, i]
        shares = state[SHARES, i]
        target = params[LEVELS + actions[i]]
        new_price = out[OUT_PRICE, i]
        trade = 0.0
        cost = 0.0
        carry = 0.0
        fill = price
        invested = equity
        ruined = False
        if params[FILL] == NEXT_OPEN:
            fill = opens[row + 1]
            invested = cash + shares * fill
            if invested <= params[RUIN]:
                ruined = True
                cash = invested
                shares = 0.0
        elif params[FILL] == NEXT_CLOSE:
            carry = accrue(cash, shares * price, equity, params[CASH_YIELD], params[MARGIN_YIELD], params[BORROW_YIELD])
            fill = new_price
            cash += carry
            invested = cash + shares * fill
            ruined = invested <= params[RUIN]
        if not ruined and (params[ON_CHANGE] == 0.0 or target != state[TARGET, i]):
            if proportional:
                trade, cost, invested, exposure = retarget(invested, shares * fill, target, params[RATE])
                held = exposure * invested
            else:
                trade, cost, invested, exposure = trade_to(
                    invested, shares * fill, target, params[RATE], params[FEE], params[IMPACT]
                )
                held = exposure * invested
            shares = held / fill
            cash = invested - held
        if params[FILL] != NEXT_CLOSE and not ruined:
            carry = accrue(
                cash, shares * fill, invested, params[CASH_YIELD], params[MARGIN_YIELD], params[BORROW_YIELD]
            )
            cash += carry

        row += 1
        value = shares * new_price
        new_equity = cash + value
        floored = max(new_equity, FLOOR)
        exposure = value / floored

        if simulated:
            head = head + 1 if head + 1 < 2 * lookback else 0
            prices[head * slots + i] = new_price
            keep_return(returns, i, head, lookback, out[ASSET_RETURN, i])
        state[PRICE, i] = new_price
        state[CASH, i] = cash
        state[SHARES, i] = shares
        state[EQUITY, i] = new_equity
        state[EXPOSURE, i] = exposure
        state[TARGET, i] = target
        clock[ROW, i] = row
        clock[HEAD, i] = head

        out[REWARD, i] = floored / equity  # its log below
        out[OUT_EQUITY, i] = new_equity
        out[OUT_EXPOSURE, i] = exposure
        out[ASSET_RETURN, i] = new_price / price - 1.0
        out[COST, i] = cost / equity
        out[TURNOVER, i] = abs(trade) / equity
        out[CARRY, i] = carry / equity
        flags[0, i] = new_equity <= params[RUIN]
        flags[1, i] = row >= clock[LAST_ROW, i]

    # in a loop of its own: between the other lines the call costs three times as much
    for i in range(hi - lo):
        if out[REWARD, i] != 0.0:
            out[REWARD, i] = math.log(out[REWARD, i])
    observe(every, returns, state, clock, simulated, observations)


@kernel
def advance(
    every: Any,
    actions: Any,
    frozen: Any,
    params: Any,
    shocks: Any,
    prices: Any,
    opens: Any,
    returns: Any,
    state: Any,
    clock: Any,
    out: Any,
    flags: Any,
    observations: Any,
) -> int:
    """Step every slot that is not frozen; write `out`, `flags` and `observations` of all of them.

    Args:
        every: int64 `(N,)`, 0 to `N - 1`.
        actions: int64 `(N,)`, places in the target exposures, inside their range.
        frozen: bool `(N,)`, slots to leave as they are.
        shocks: float64 `(N,)`, see `log_return`; empty for a history.

    Returns:
        -1, or the first slot whose simulated price left the range of floats; then nothing has moved.
    """
    slots = actions.shape[0]
    bad = next_prices(0, slots, frozen, params, shocks, prices, state, clock, out)
    if bad >= 0:
        return bad  # type: ignore[no-any-return]  # a kernel returns Any
    move(
        0, slots, every, actions, frozen, params, shocks, prices, opens, returns, state, clock, out, flags, observations
    )
    return -1


@kernel
def place_flat(i: int, price: float, row: int, head: int, episode_length: int, state: Any, clock: Any) -> None:
    """Put slot `i` at the start of an episode: no position, equity 1."""
    state[PRICE, i] = price
    state[CASH, i] = 1.0
    state[SHARES, i] = 0.0
    state[EQUITY, i] = 1.0
    state[EXPOSURE, i] = 0.0
    state[TARGET, i] = 0.0
    clock[ROW, i] = row
    clock[LAST_ROW, i] = row + episode_length
    clock[HEAD, i] = head


@kernel
def begin(indices: Any, rows: Any, episode_length: int, prices: Any, state: Any, clock: Any) -> None:
    """Start episodes on a history: slot `indices[k]` decides first at `rows[k]`; both int64 `(K,)`."""
    for k in range(indices.shape[0]):
        place_flat(indices[k], prices[rows[k]], rows[k], 0, episode_length, state, clock)


@kernel
def begin_simulated(
    indices: Any,
    shocks: Any,
    head: int,
    episode_length: int,
    params: Any,
    prices: Any,
    returns: Any,
    state: Any,
    clock: Any,
) -> int:
    """Start episodes on simulated histories: row 0 has the start price, `L` shocks per slot lead to row `L`.

    Args:
        indices: int64 `(K,)`, slots.
        shocks: float64 `(K, L)`, see `log_return`.
        head: place in the rings for the price at row `L`.

    Returns:
        -1, or the first slot whose price left the range of floats; then nothing has moved.
    """
    lookback = shocks.shape[1]
    slots = prices.shape[0] // (2 * lookback)
    for k in range(indices.shape[0]):
        price = params[START_PRICE]
        for j in range(lookback):
            price *= math.exp(log_return(shocks[k, j], params))
        if not (price > 0.0 and price < math.inf):  # a price that was 0 or infinite once never recovers
            return indices[k]  # type: ignore[no-any-return]  # an entry of an array
    for k in range(indices.shape[0]):
        i = indices[k]
        price = params[START_PRICE]
        place = head - lookback if head >= lookback else head + lookback
        prices[place * slots + i] = price
        for j in range(lookback):
            growth = log_return(shocks[k, j], params)
            price *= math.exp(growth)
            place = place + 1 if place + 1 < 2 * lookback else 0
            prices[place * slots + i] = price
            keep_return(returns, i, place, lookback, growth)
        place_flat(i, price, lookback, head, episode_length, state, clock)
    return -1
