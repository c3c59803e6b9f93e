"""What is exactly known of the car of constant speed: Hsu et al., RSS 2021, appendix; units of `DubinsRadial`."""

from __future__ import annotations

from typing import Any

from sekai.safety.arrays import namespace
from sekai.safety.systems import DubinsCar, DubinsRadial


def contains(system: DubinsCar | DubinsRadial, state: Any) -> Any:
    """Whether states are in the continuous-time reach-avoid set.

    In the frame of the heading the car stands at (x, y) relative to the middle, and the centres of its sharpest turns
    are c_R = (x, y - R_t) and c_L = (x, y + R_t). If r >= 2 R_t - R, the car can turn around within the disc:

        {rho <= R} and ({rho <= r} or {x <= 0} or {|c_R| <= R - R_t} or {|c_L| <= R - R_t})

    and otherwise it must come to the target without turning around:

        {rho <= r} or ({rho <= R} and {x <= 0} and {|c_R| >= R_t - r} and {|c_L| >= R_t - r})

    Args:
        system: either description of the car.
        state: `(..., 3)` of a `DubinsCar`, `(..., 2)` of a `DubinsRadial`.
    """
    radial = DubinsRadial.of(state) if isinstance(system, DubinsCar) else state
    xp = namespace(radial)
    rho, psi = radial[..., 0], radial[..., 1]
    x, y = rho * xp.cos(psi), -rho * xp.sin(psi)
    big, small, turn = system.radius, system.target_radius, system.turn_radius
    right, left = xp.hypot(x, y - turn), xp.hypot(x, y + turn)
    if small >= 2 * turn - big:
        turns = (right <= big - turn) | (left <= big - turn)
        return (rho <= big) & ((rho <= small) | (x <= 0) | turns)
    hits = (right >= turn - small) & (left >= turn - small)
    return (rho <= small) | ((rho <= big) & (x <= 0) & hits)
