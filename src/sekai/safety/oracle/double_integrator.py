"""What is exactly known of the double integrator.

Values are max over u, min over d, of the smallest margin from now on, the current one included (avoid), or of the
reach-avoid outcome. With a force disturbance of up to D the control can always cancel it, and is left with a - D.
States are in the units of `DoubleIntegrator`.
"""

from __future__ import annotations

import math
from typing import Any

from sekai.safety.arrays import namespace
from sekai.safety.systems import DoubleIntegrator
from sekai.safety.systems.base import largest, smallest
from sekai.safety.systems.double_integrator import INTEGRATORS


def value(system: DoubleIntegrator, state: Any) -> Any:
    """The continuous-time value of states `(..., 2)`, in m.

    Avoid: moving at v, the best that can be done for the position is full braking, which stops at p = x + v|v|/(2a);
    the other wall is then no constraint, so V = X - max(|x|, |p|).

    Touch: with sigma the side of the target that x is on, a state that approaches hits it, and one that recedes must
    first turn, at p = x + sigma max(sigma v, 0)²/(2a):

        V = max(min(l, g), min(r, X - max(|p|, |x_t|)))

    Raises:
        ValueError: a drift, a target of rest, or a force of at least the acceleration.
    """
    a, half_width = _net(system), system.half_width
    if system.drift_bound > 0 or system.target == "rest":
        raise ValueError(f"Only the set of {system} has a closed form, not its value: use exact_set.")
    x, v = state[..., 0], state[..., 1]
    if system.target is None:
        return half_width - largest(abs(x), abs(x + v * abs(v) / (2 * a)))
    xp = namespace(state)
    centre, radius = system.target_position, system.target_radius
    side = xp.sign(x - centre)
    turn = x + side * xp.clip(side * v, 0.0, None) ** 2 / (2 * a)
    hit = xp.clip(half_width - xp.clip(abs(turn), abs(centre), None), None, radius)
    return largest(smallest(system.l(state), system.g(state)), hit)


def contains(system: DoubleIntegrator, state: Any) -> Any:
    """Whether states `(..., 2)` are in the continuous-time safe set, or reach-avoid set.

    Rest: the target is reached from every state of the safe set. Drift of up to D: the boundary is the full braking
    curve in the frame that drifts along, x + (v + D)²/(2a) = X for v >= -D and its mirror image; the set is empty for
    D² > a X, since the two curves then meet.

    Raises:
        ValueError: a drift together with a target, a force of at least the acceleration, or a target of rest beyond
            the walls.
    """
    if system.drift_bound > 0:
        return _drift_contains(system, state)
    if system.target == "rest":
        if not abs(system.target_position) < system.half_width:
            raise ValueError(f"target_position is {system.target_position}; expected one between the walls.")
        x, v = state[..., 0], state[..., 1]
        stop = x + v * abs(v) / (2 * _net(system))
        return largest(abs(x), abs(stop)) <= system.half_width
    return value(system, state) >= 0


def _drift_contains(system: DoubleIntegrator, state: Any) -> Any:
    if system.target is not None:
        raise ValueError(f"{system} has a drift and a target, for which no closed form is known.")
    a, half_width, bound = system.acceleration, system.half_width, system.drift_bound
    x, v = state[..., 0], state[..., 1]
    if bound**2 > a * half_width:
        return abs(x) < 0  # nowhere
    xp = namespace(state)
    right = x + xp.clip(v + bound, 0.0, None) ** 2 / (2 * a)
    left = x - xp.clip(bound - v, 0.0, None) ** 2 / (2 * a)
    return (right <= half_width) & (left >= -half_width) & (abs(x) <= half_width)


def area(system: DoubleIntegrator) -> float:
    """Area of `contains` in m²/s: 16/3 X sqrt(a X), less 4 X D with a drift of up to D (0 where that is no more).

    Raises:
        ValueError: a target to touch, whose set is another one.
    """
    if system.target == "touch":
        raise ValueError(f"No area is known for {system}: count the cells of exact_set.")
    a, half_width, bound = _net(system), system.half_width, system.drift_bound
    if bound**2 > a * half_width:
        return 0.0
    return 16 / 3 * half_width * math.sqrt(a * half_width) - 4 * half_width * bound


def sampled_value(system: DoubleIntegrator, state: Any) -> Any:
    """The exact avoid value of the sampled-time system, controls held for `dt`, margins seen at the samples only.

    Full braking moves every later sample the least, so V = X - max(|x|, |x_n|) with n the samples until the position
    turns. The k-th step (k = 0, 1, ...) adds dt (v - (k + c) a dt), with the integrator's c, which is positive for
    k < v / (a dt) - c, so

        n = max(ceil(|v| / (a dt) - c), 0),    x_n = x + sign(v) dt (n |v| - a dt (n (n - 1) / 2 + c n))

    It holds while a step is short against the way between the walls, a dt² << X. With a force disturbance its zero set
    is exact to O(dt), and its values inside, where the disturbance can shake the mass, are not.

    Args:
        system: without drift and target.
        state: `(..., 2)`.

    Raises:
        ValueError: a drift or a target.
    """
    if system.drift_bound > 0 or system.target is not None:
        raise ValueError(f"No sampled-time value is known for {system}: use solve.")
    xp = namespace(state)
    x, v = state[..., 0], state[..., 1]
    gain, c = _net(system) * system.dt, INTEGRATORS[system.integrator]
    n = xp.clip(xp.ceil(abs(v) / gain - c), 0.0, None)
    way = system.dt * (n * abs(v) - gain * (n * (n - 1) / 2 + c * n))
    return system.half_width - largest(abs(x), abs(x + xp.sign(v) * way))


def _net(system: DoubleIntegrator) -> float:
    """The acceleration that is left to the control, m/s²."""
    net = system.acceleration - system.force_bound
    if net <= 0:
        raise ValueError(
            f"force_bound is {system.force_bound}; expected less than the acceleration, {system.acceleration}: "
            "otherwise the safe set has no interior."
        )
    return net
