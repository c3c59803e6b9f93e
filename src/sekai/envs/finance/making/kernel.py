"""The dynamics of MarketMaking-v0, once: the single environment runs them with one slot, the native one with `N`.

A slot has cash `B`, inventory `q` (signed) and sees the mid price `S`: wealth `W = B + q S`. Distances are price
units, never negative: the bid stands at `S - d_bid`, the ask at `S + d_ask`. A step of length `dt`

1. fills quotes of one order of `Q` units each, both judged on the inventory before the step (`is_filled`): a filled
   bid adds `Q` to the inventory, a filled ask takes `Q` from it, and a side whose fill would carry the inventory
   beyond its bound is not filled,
2. moves the mid: `S' = S + sigma sqrt(dt) z`.

Ledger: `W' - W = Q (d_bid [bid filled] + d_ask [ask filled]) + q' (S' - S)`, the spread part and the inventory part.
Reward: their sum, less `0.5 risk_aversion sigma^2 dt q'^2` and, at the last step, `terminal_penalty q'^2`.

Arrays, all C-contiguous; the rows of the blocks are named by the constants below, and those of `state` and `out` may be
longer than `N` (see `blocks.row_length`):

    params        (PARAMS,) float64
    offsets       (N, 2) float32           distances of bid and ask from the mid
    shocks        (N,) float64             standard normal
    uniforms      (N, 2) float64           in [0, 1), for bid and ask
    state         (STATE_ROWS, N) float64
    clock         (N,) int64               steps taken in the episode
    out           (OUT_ROWS, N) float64    what a step reports
    flags         (FLAG_ROWS, N) bool
    observations  (N, 2) float32           inventory / bound, time left / total
"""

from __future__ import annotations

import math
from typing import Any

from sekai.core.kernels import kernel

# params
VOLATILITY, CLIP, ARRIVALS, DECAY, BERNOULLI, RISK, TERMINAL, ORDER, BOUND, STEPS, DT, START_PRICE, PARAMS = range(13)
# state
MID, CASH, INVENTORY, BID, ASK, STATE_ROWS = range(6)
# out
REWARD, OUT_MID, OUT_INVENTORY, OUT_CASH, WEALTH, OUT_BID, OUT_ASK, SPREAD, CARRIED, OUT_DT, OUT_ROWS = range(11)
# flags
TERMINATED, TRUNCATED, BID_FILLED, ASK_FILLED, FLAG_ROWS = range(5)


@kernel
def is_filled(uniform: float, distance: float, params: Any) -> bool:
    """Whether an order arrives that reaches a quote: with the probability `p` of its distance.

    Orders arrive at the rate `A exp(-k d)` (Avellaneda and Stoikov 2008, eq. 12), `x = A exp(-k d) dt` of them in a
    step. "poisson": `p = 1 - exp(-x)`, at least one arrives. "bernoulli": `p = min(1, x)`, as in their simulation.
    """
    decay = params[DECAY] * distance
    # exp(y) is at least its Taylor polynomial: most quotes are told from filled ones without the exponential
    if uniform * (1.0 + decay * (1.0 + decay * (0.5 + decay / 6.0))) >= params[ARRIVALS]:
        return False
    expected = params[ARRIVALS] * math.exp(-decay)
    if params[BERNOULLI] != 0.0:
        return uniform < expected  # type: ignore[no-any-return]  # of arrays
    return uniform < -math.expm1(-expected)


@kernel
def first_outside(offsets: Any, frozen: Any, highest: float) -> int:
    """The first slot, frozen ones apart, with a distance outside `[0, highest]`; -1 if there is none."""
    for i in range(offsets.shape[0]):
        inside = 0.0 <= offsets[i, 0] <= highest and 0.0 <= offsets[i, 1] <= highest  # NaN is not
        if not inside and not frozen[i]:
            return i
    return -1


@kernel
def observe_slot(i: int, params: Any, state: Any, clock: Any, observations: Any) -> None:
    """Write the observation of slot `i` into its row."""
    observations[i, 0] = state[INVENTORY, i] / params[BOUND]
    observations[i, 1] = (params[STEPS] - clock[i]) / params[STEPS]


@kernel
def observe(indices: Any, params: Any, state: Any, clock: Any, observations: Any) -> None:
    """Write the observations of the slots in `indices` into their rows."""
    for k in range(indices.shape[0]):
        observe_slot(indices[k], params, state, clock, observations)


@kernel
def hold(i: int, over: bool, params: Any, state: Any, out: Any, flags: Any) -> None:
    """Report slot `i` as it is: nothing filled, nothing moved."""
    mid, cash, inventory = state[MID, i], state[CASH, i], state[INVENTORY, i]
    out[REWARD, i] = 0.0
    out[OUT_MID, i] = mid
    out[OUT_INVENTORY, i] = inventory
    out[OUT_CASH, i] = cash
    out[WEALTH, i] = cash + inventory * mid
    out[OUT_BID, i] = state[BID, i]
    out[OUT_ASK, i] = state[ASK, i]
    out[SPREAD, i] = 0.0
    out[CARRIED, i] = 0.0
    out[OUT_DT, i] = params[DT]
    flags[TERMINATED, i] = over
    flags[TRUNCATED, i] = False
    flags[BID_FILLED, i] = False
    flags[ASK_FILLED, i] = False


@kernel
def advance(
    lo: int,
    hi: int,
    offsets: Any,
    frozen: Any,
    params: Any,
    shocks: Any,
    uniforms: Any,
    state: Any,
    clock: Any,
    out: Any,
    flags: Any,
    observations: Any,
) -> None:
    """Step the slots in `[lo, hi)` that are not frozen; write `out`, `flags` and `observations` of all in the range.

    Args:
        lo, hi: the range, inside `[0, N]`; the arrays are those of all slots.
        frozen: bool `(N,)`, slots to leave as they are.
    """
    order, bound = params[ORDER], params[BOUND]
    offsets, frozen, shocks, uniforms = offsets[lo:hi], frozen[lo:hi], shocks[lo:hi], uniforms[lo:hi]
    state, clock, out = state[:, lo:hi], clock[lo:hi], out[:, lo:hi]
    flags, observations = flags[:, lo:hi], observations[lo:hi]
    for i in range(hi - lo):
        # a slot whose end the caller never learned of, interrupted in between, has no step left
        over = clock[i] >= params[STEPS]
        if frozen[i] or over:
            hold(i, over, params, state, out, flags)
            observe_slot(i, params, state, clock, observations)
            continue

        mid, inventory = state[MID, i], state[INVENTORY, i]
        below, above = float(offsets[i, 0]), float(offsets[i, 1])
        bid, ask = mid - below, mid + above
        bought = inventory + order <= bound and is_filled(uniforms[i, 0], below, params)
        sold = inventory - order >= -bound and is_filled(uniforms[i, 1], above, params)
        bids, asks = order * bought, order * sold
        inventory += bids - asks
        cash = state[CASH, i] + (asks * ask - bids * bid)
        spread = bids * below + asks * above

        move = params[VOLATILITY] * min(max(shocks[i], -params[CLIP]), params[CLIP])
        mid += move
        carried = inventory * move + 0.0  # a price that stands still carries 0.0, not -0.0
        clock[i] += 1
        last = clock[i] >= params[STEPS]
        penalty = params[RISK] + params[TERMINAL] * last

        state[MID, i] = mid
        state[CASH, i] = cash
        state[INVENTORY, i] = inventory
        state[BID, i] = bid
        state[ASK, i] = ask
        out[REWARD, i] = spread + carried - penalty * inventory * inventory
        out[OUT_MID, i] = mid
        out[OUT_INVENTORY, i] = inventory
        out[OUT_CASH, i] = cash
        out[WEALTH, i] = cash + inventory * mid
        out[OUT_BID, i] = bid
        out[OUT_ASK, i] = ask
        out[SPREAD, i] = spread
        out[CARRIED, i] = carried
        out[OUT_DT, i] = params[DT]
        flags[TERMINATED, i] = last
        flags[TRUNCATED, i] = False
        flags[BID_FILLED, i] = bought
        flags[ASK_FILLED, i] = sold
        observe_slot(i, params, state, clock, observations)


@kernel
def begin(indices: Any, params: Any, state: Any, clock: Any) -> None:
    """Start episodes in the slots of `indices`, int64 `(K,)`: no cash, no inventory, the quotes still at the mid."""
    for k in range(indices.shape[0]):
        i = indices[k]
        state[MID, i] = params[START_PRICE]
        state[CASH, i] = 0.0
        state[INVENTORY, i] = 0.0
        state[BID, i] = params[START_PRICE]
        state[ASK, i] = params[START_PRICE]
        clock[i] = 0
