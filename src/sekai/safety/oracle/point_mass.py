"""What is exactly known of the boat between boxes; units of `PointMass`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sekai.safety.systems import PointMass


def contains(system: PointMass, state: Any) -> Any:
    """Whether positions `(..., 2)` are in the continuous-time reach-avoid set of the default arena.

    The boat rises at 2 m/s and moves sideways at up to 1 m/s, so nothing changes but along lines of slope 2:

        below the gap between the lower boxes   |x| <= .5 + (1.25 - y) / 2, and |x| <= .5 within it (1.25 < y < 2.75)
        below the middle box (y < 5.25)         |x| + (5.25 - y) / 2 >= .75; that is no limit below y = 3.75
        below the target                        |x| <= .75 + (10 - y) / 2

    Raises:
        ValueError: another arena, other boxes or other speeds.
    """
    if system != replace(PointMass(), dt=system.dt, time_limit=system.time_limit):
        raise ValueError(f"No closed form is known for {system}: only for the default arena, boxes and speeds.")
    x, y = abs(state[..., 0]), state[..., 1]
    free = system.g(state) >= 0
    gap = (y >= 2.75) | (x <= 0.5 + (1.25 - y).clip(0.0, None) / 2)
    shadow = (y > 5.25) | (y <= 2.75) | (x + (5.25 - y) / 2 >= 0.75)
    return free & gap & shadow & (x <= 0.75 + (10 - y) / 2)
