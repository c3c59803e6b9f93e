"""What is exactly known of the linear inverted pendulum; units of `LinearPendulum`."""

from __future__ import annotations

import math
from typing import Any

from sekai.safety.arrays import namespace
from sekai.safety.systems import LinearPendulum
from sekai.safety.systems.base import largest


def value(system: LinearPendulum, state: Any) -> Any:
    """The continuous-time value of states `(..., 2)`, in rad; -inf where no control stops the fall.

    With full braking against thd >= 0 the energy of z = th - a / w² is kept, and the pendulum turns at

        p = (a - sqrt((a - w² th)² - w² thd²)) / w²

    as long as th + thd / w <= a / w², and never otherwise; thd < 0 is the mirror image. V = TH - max(|th|, |p|).
    """
    xp = namespace(state)
    a, square = system.acceleration, system.rate**2
    up = xp.where(state[..., 1] >= 0, 1.0, -1.0)
    th, speed = up * state[..., 0], abs(state[..., 1])
    balance = system.balance
    falls = abs(state[..., 0] + state[..., 1] / system.rate) > balance
    root = (a - square * th) ** 2 - square * speed**2
    turn = (a - xp.sqrt(xp.clip(root, 0.0, None))) / square
    turn = xp.where(falls, math.inf, turn)
    return system.half_angle - largest(abs(th), abs(turn))


def contains(system: LinearPendulum, state: Any) -> Any:
    """Whether states `(..., 2)` are in the continuous-time safe set."""
    return value(system, state) >= 0
