"""The truth that a learner's value is compared with: one step later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from sekai.safety.arrays import namespace
from sekai.safety.systems.base import System, largest, smallest

Value = Callable[[Any], Any]


def after_step(
    value: Value,
    system: System,
    *,
    controls: NDArray[Any] | None = None,
    disturbances: NDArray[Any] | None = None,
) -> Value:
    """max over u, min over d, of the value that a step leads to.

    The margins of a transition are those of the state after it, so Q(s, u) is the value of f(s, u) with its own
    margin, and a learner's V(s) = max Q(s, u) leaves the margin of s out.

    Args:
        value: a function of states `(..., S)`, such as a `GridValue` or `exact_value` of a system.
        system: the dynamics.
        controls: those to choose from, `(K, U)`; by default a grid over the system's set.
        disturbances: those that answer, `(K, D)`; by default a grid likewise, none for a system without.

    Returns:
        A function of states `(..., S)`, arrays or tensors, that gives `(...)`.
    """
    chosen, answers = players(system, controls, disturbances)

    def shifted(state: Any) -> Any:
        def worst(control: Any) -> Any:
            held = _like(control, state)
            if answers is None:
                return value(system.step(state, held))
            return smallest(*(value(system.step(state, held, _like(answer, state))) for answer in answers))

        return largest(*map(worst, chosen))

    return shifted


def players(
    system: System, controls: NDArray[Any] | None, disturbances: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The controls and disturbances that a search looks at: as given, or grids over the system's sets."""
    bounded = system.disturbance
    if controls is None:
        controls = system.control.points(3 if bounded is None else 5)  # against an opponent halves matter too
    if bounded is None:
        if disturbances is not None:
            raise ValueError(f"disturbances were given, and {system} has none: leave them out.")
        return controls, None
    return controls, bounded.points() if disturbances is None else disturbances


def _like(numbers: Any, state: Any) -> Any:
    xp = namespace(state)
    return numbers if xp.__name__ == "numpy" else xp.as_tensor(numbers, dtype=state.dtype, device=state.device)
