"""The dynamics of OptimalExecution-v0, once: the single environment runs them with one slot, the native one with `N`.

Source: Almgren and Chriss, "Optimal execution of portfolio transactions", Journal of Risk 3(2), 2000, sections 1-2.

Letters: `X` shares to trade in `n` slices of length `tau`, from the arrival price `S_0`; `x` shares left, `S` the mid
price, `s` the side: 1 sells, -1 buys. A slice of `v >= 0` shares

1. trades at `P = S - s (eps [v > 0] + eta v / tau)`: spread (`fixed_cost`) and temporary impact,
2. leaves `x' = x - v` shares, and the mid moves to `S' = S + sigma sqrt(tau) z - s gamma v`: noise, permanent impact.

Implementation shortfall (Perold 1988) of the shares traded so far, what is left valued at the mid:

    IS = s (X S_0 - sum v P - x S) = sum of eps v + (eta / tau) v^2 + gamma x' v - s x' sigma sqrt(tau) z

which are its spread, temporary, permanent and timing parts; costs are positive. Reward of a slice: minus what it adds
to the shortfall, less `lambda sigma^2 tau x'^2`, in basis points of `X S_0`. So rewards plus risk terms add up to
minus the shortfall.

The last slice trades the rest, and no slice more than its cap. What a cap leaves over at the end is charged as one
more slice without a cap, at the last mid price: `eps x + (eta / tau) x^2`. It stays reported as inventory.

Arrays, all C-contiguous; the rows of the blocks are named by the constants below, and may be longer than `N` (see
`blocks.row_length`):

    params        (PARAMS,) float64
    caps          (n,) float64             most shares a slice may trade; infinite: no cap
    state         (STATE_ROWS, N) float64
    clock         (CLOCK_ROWS, N) int64
    out           (OUT_ROWS, N) float64    what a step reports
    terminated    (N,) bool
    observations  (N, 3) float32           x / X, time left / total, S / S_0 - 1
"""

from __future__ import annotations

from typing import Any

from sekai.core.kernels import kernel

# params
DT, VOLATILITY, PERMANENT, TEMPORARY, FIXED, RISK, CLIP, PARAMS = range(8)
# state; the parts of the shortfall are those of the episode so far, in money
MID, INVENTORY, INITIAL, ARRIVAL, SIDE, SPREAD_PART, TEMPORARY_PART, PERMANENT_PART, TIMING_PART, STATE_ROWS = range(10)
# clock; ENDED is 1 after the last slice
STEP, ENDED, CLOCK_ROWS = range(3)
# out
REWARD, TIMESTAMP, OUT_DT, SHARES, EXECUTION_PRICE, OUT_MID, OUT_INVENTORY, SHORTFALL, SHORTFALL_BPS = range(9)
SPREAD_BPS, TEMPORARY_BPS, PERMANENT_BPS, TIMING_BPS, OUT_ROWS = range(9, 14)


@kernel
def first_outside(actions: Any, frozen: Any) -> int:
    """The first slot, frozen ones apart, whose fraction is not in `[0, 1]`; -1 if there is none."""
    for i in range(actions.shape[0]):
        if not (actions[i, 0] >= 0.0 and actions[i, 0] <= 1.0) and not frozen[i]:
            return i
    return -1


@kernel
def observe_slot(i: int, steps: int, state: Any, clock: Any, observations: Any) -> None:
    """Write the observation of slot `i`, in a schedule of so many steps."""
    observations[i, 0] = state[INVENTORY, i] / state[INITIAL, i]
    observations[i, 1] = max(steps - clock[STEP, i], 0) / steps
    observations[i, 2] = state[MID, i] / state[ARRIVAL, i] - 1.0


@kernel
def observe(indices: Any, caps: Any, state: Any, clock: Any, observations: Any) -> None:
    """Write the observations of the slots in `indices`, int64 `(K,)`, into their rows."""
    for k in range(indices.shape[0]):
        observe_slot(indices[k], caps.shape[0], state, clock, observations)


@kernel
def report(i: int, shares: float, price: float, params: Any, state: Any, clock: Any, out: Any) -> None:
    """Write what a step reports of slot `i`, the reward apart."""
    bps = 1e4 / (state[INITIAL, i] * state[ARRIVAL, i])
    spread = state[SPREAD_PART, i]
    temporary = state[TEMPORARY_PART, i]
    permanent = state[PERMANENT_PART, i]
    timing = state[TIMING_PART, i]
    shortfall = spread + temporary + permanent + timing
    out[TIMESTAMP, i] = clock[STEP, i] * params[DT]
    out[OUT_DT, i] = params[DT]
    out[SHARES, i] = shares
    out[EXECUTION_PRICE, i] = price
    out[OUT_MID, i] = state[MID, i]
    out[OUT_INVENTORY, i] = state[INVENTORY, i]
    out[SHORTFALL, i] = shortfall
    out[SHORTFALL_BPS, i] = shortfall * bps
    out[SPREAD_BPS, i] = spread * bps
    out[TEMPORARY_BPS, i] = temporary * bps
    out[PERMANENT_BPS, i] = permanent * bps
    out[TIMING_BPS, i] = timing * bps


@kernel
def advance(
    lo: int,
    hi: int,
    actions: Any,
    frozen: Any,
    params: Any,
    caps: Any,
    shocks: Any,
    state: Any,
    clock: Any,
    out: Any,
    terminated: Any,
    observations: Any,
) -> None:
    """Trade one slice in the slots in `[lo, hi)` that are not frozen.

    Writes `out`, `terminated` and `observations` of all in the range.

    Args:
        lo, hi: the range, inside `[0, N]`; the arrays are those of all slots.
        actions: `(N, 1)`, fractions of what is left, in `[0, 1]`.
        frozen: bool `(N,)`, slots to leave as they are.
        shocks: float64 `(N,)`, standard normal.
    """
    steps = caps.shape[0]
    actions, frozen, shocks = actions[lo:hi], frozen[lo:hi], shocks[lo:hi]
    state, clock, out = state[:, lo:hi], clock[:, lo:hi], out[:, lo:hi]
    terminated, observations = terminated[lo:hi], observations[lo:hi]
    for i in range(hi - lo):
        mid = state[MID, i]
        # a slot whose end the caller never learned of, interrupted in between, has nothing more to trade
        if frozen[i] or clock[ENDED, i] == 1:
            out[REWARD, i] = 0.0
            terminated[i] = clock[ENDED, i] == 1
            report(i, 0.0, mid, params, state, clock, out)
            observe_slot(i, steps, state, clock, observations)
            continue

        step = clock[STEP, i]
        side = state[SIDE, i]
        inventory = state[INVENTORY, i]
        last = step + 1 >= steps
        wanted = inventory if last else actions[i, 0] * inventory
        shares = min(wanted, caps[min(step, steps - 1)])
        left = inventory - shares
        fixed = params[FIXED] if shares > 0.0 else 0.0
        noise = params[VOLATILITY] * min(max(shocks[i], -params[CLIP]), params[CLIP])

        spread = params[FIXED] * shares
        temporary = params[TEMPORARY] * shares * shares
        permanent = params[PERMANENT] * left * shares
        timing = -side * left * noise
        if last:  # of what is left over
            spread += params[FIXED] * left
            temporary += params[TEMPORARY] * left * left

        state[MID, i] = mid + noise - side * params[PERMANENT] * shares
        state[INVENTORY, i] = left
        state[SPREAD_PART, i] += spread
        state[TEMPORARY_PART, i] += temporary
        state[PERMANENT_PART, i] += permanent
        state[TIMING_PART, i] += timing
        clock[STEP, i] = step + 1
        clock[ENDED, i] = 1 if last or left == 0.0 else 0

        cost = spread + temporary + permanent + timing + params[RISK] * left * left
        out[REWARD, i] = -cost * 1e4 / (state[INITIAL, i] * state[ARRIVAL, i])
        terminated[i] = clock[ENDED, i] == 1
        report(i, shares, mid - side * (fixed + params[TEMPORARY] * shares), params, state, clock, out)
        observe_slot(i, steps, state, clock, observations)
