"""What shows early that a certificate is going wrong; numbers of one rollout or one batch, for the log."""

from __future__ import annotations

import torch

from sekai.safety.arrays import Tensor


def value_shares(g: Tensor, values: Tensor) -> dict[str, float]:
    """Of values of states and the margins met among them.

    Args:
        g: margins, of any shape.
        values: values of the same rows, in the shape of `g`.

    Returns:
        `share_certified`, values of at least 0; `share_outside_g`, values outside the range of the margins, which no
        value of the exact problem leaves, but for failure values.
    """
    outside = (values < g.min()) | (values > g.max())
    return {"share_certified": _mean(values >= 0), "share_outside_g": _mean(outside)}


def active_branches(g: Tensor, v_next: Tensor, not_done: Tensor, l: Tensor | None) -> dict[str, float]:  # noqa: E741
    """Which part of the operator decides, as shares of the rows in which the backup goes on; all of one shape.

    Returns:
        `branch_g` where g is least, `branch_l` (reach-avoid) where the target decides, `branch_next` where what comes
        later does. Values that only repeat g, `branch_g` near 1, look ahead at nothing.
    """
    later = v_next if l is None else torch.maximum(l, v_next)
    least = g <= later
    found = {"branch_g": _share(least, not_done), "branch_next": _share(~least, not_done)}
    if l is not None:
        target = ~least & (l >= v_next)
        found["branch_l"] = _share(target, not_done)
        found["branch_next"] -= found["branch_l"]
    return found


def _mean(flags: Tensor) -> float:
    return float(flags.float().mean())


def _share(flags: Tensor, among: Tensor) -> float:
    return float((flags & among).float().sum() / among.float().sum().clamp(min=1.0))
