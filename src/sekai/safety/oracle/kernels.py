"""One pass of value iteration as machine code; `iteration` says what it computes.

Shape letters: `M` nodes, `U` controls, `D` disturbances, `S` axes.
"""

from __future__ import annotations

from typing import Any

from sekai.core.kernels import kernel


@kernel
def interpolate(values: Any, corner: Any, fractions: Any, strides: Any, node: Any, u: Any, d: Any) -> Any:
    """The value where control `u` and disturbance `d` lead from a node; see `Grid.interpolate`."""
    k = corner[node, u, d]
    if k < 0:  # the episode ends there
        return fractions[node, u, d, 0]
    x, y = fractions[node, u, d, 0], fractions[node, u, d, 1]
    right, up = strides[0], strides[1]
    low = (1 - y) * ((1 - x) * values[k] + x * values[k + right]) + y * (
        (1 - x) * values[k + up] + x * values[k + right + up]
    )
    if strides.shape[0] == 2:
        return low
    z = fractions[node, u, d, 2]
    k += strides[2]
    high = (1 - y) * ((1 - x) * values[k] + x * values[k + right]) + y * (
        (1 - x) * values[k + up] + x * values[k + right + up]
    )
    return (1 - z) * low + z * high


@kernel
def sweep(
    values: Any,
    anchor: Any,
    g: Any,
    l: Any,  # noqa: E741  # the name of the channel
    gamma: Any,
    ended: Any,
    corner: Any,
    fractions: Any,
    strides: Any,
    falling: Any,
    first: Any,
    nodes: Any,
    tolerance: Any,
    restless: Any,
    backwards: Any,
) -> Any:
    """Renew the values of some nodes in place, in order or backwards; the largest change.

    Args:
        values: `(M,)`, changed.
        anchor, g, l: `(M,)`; l is -inf for avoid.
        gamma: discount of a step.
        ended: bool `(M,)`, nodes whose value stays.
        corner: int `(M, U, D)`, see `Grid.locate`; -1 where the episode ends.
        fractions: `(M, U, D, S)`; where the episode ends the first is what the end is worth.
        strides: int `(S,)`.
        falling: whether no value can rise, so that one control which keeps the value will do.
        first: int `(M,)`, the control to try first at each node; changed to the one that was best.
        nodes: int, those to renew.
        tolerance: a larger change than this makes a node restless.
        restless: bool `(M,)`, changed.
        backwards: whether the last node comes first.
    """
    change = 0.0
    last, controls = nodes.shape[0] - 1, corner.shape[1]
    for place in range(last + 1):
        node = nodes[last - place] if backwards else nodes[place]
        if ended[node]:
            continue
        restless[node] = False
        enough = g[node]  # more than g the backup cannot be
        if falling:
            enough = min(enough, (values[node] - (1 - gamma) * anchor[node]) / gamma)
        start = first[node]
        best, chosen = -1e300, start
        for turn in range(controls):
            u = start + turn
            if u >= controls:
                u -= controls
            worst = 1e300
            for d in range(corner.shape[2]):
                reached = interpolate(values, corner, fractions, strides, node, u, d)
                if reached < worst:
                    worst = reached
                    if worst <= best:
                        break  # this control is no better than another
            if worst > best:
                best, chosen = worst, u
                if best >= enough:
                    break
        first[node] = chosen
        if falling and best >= enough:
            continue
        value = (1 - gamma) * anchor[node] + gamma * min(g[node], max(l[node], best))
        moved = abs(value - values[node])
        values[node] = value
        restless[node] = moved > tolerance
        change = max(change, moved)
    return change
