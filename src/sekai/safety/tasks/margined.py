"""`with_margins`: a system with other margins, and so other exact sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sekai.safety.systems.base import System
from sekai.safety.systems.sets import Bounded, BoxSet
from sekai.safety.tasks.algebra import Margin, name_of


def with_margins(system: System, *, g: Margin, l: Margin | None = None, g_max: float | None = None) -> System:  # noqa: E741
    """The same dynamics, controls and starts with margins of your own.

    Args:
        system: whose `g` and `l` are replaced; `system.g` and `system.l` may be parts of the new ones.
        g: safety margin `(...)` of states `(..., S)`, arrays and tensors alike.
        l: target margin; None for none, also where `system` has one.
        g_max: the largest g of any state; None where it is not known.

    Returns:
        A system whose exact sets are those of a grid, see `sekai.safety.truth.truth_of`. How long a doomed state can
        put its failure off is not known of it, so that learners estimate it.

    Example:
        >>> system = DoubleIntegrator()
        >>> slow = with_margins(system, g=all_of(system.g, lambda state: 0.5 - abs(state[..., 1])), g_max=0.5)
    """
    for name, margin in (("g", g), ("l", l)):
        if not callable(margin) and not (name == "l" and margin is None):
            raise TypeError(f"{name} is {margin!r}; expected a function of states (..., {system.state_size}).")
    if g_max is not None and not g_max > 0:
        raise ValueError(f"g_max is {g_max}; expected a number above 0, the largest g that any state has, or None.")
    return _Margined(dt=system.dt, time_limit=system.time_limit, of=system, own_g=g, own_l=l, largest_g=g_max)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Margined(System):
    """See `with_margins`."""

    of: System
    own_g: Margin
    own_l: Margin | None
    largest_g: float | None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("state_names", "angles", "whole", "observation_size"):
            object.__setattr__(self, name, getattr(self.of, name))  # of a class elsewhere, of the object here

    def __repr__(self) -> str:
        target = "" if self.own_l is None else f", l={name_of(self.own_l)}"
        return f"with_margins({self.of!r}, g={name_of(self.own_g)}{target})"

    @property
    def provides_l(self) -> bool:
        """Whether there is a target."""
        return self.own_l is not None

    @property
    def control(self) -> BoxSet:
        """As of the system inside."""
        return self.of.control

    @property
    def disturbance(self) -> Bounded | None:
        """As of the system inside."""
        return self.of.disturbance

    @property
    def reset_low(self) -> tuple[float, ...]:
        """As of the system inside."""
        return self.of.reset_low

    @property
    def reset_high(self) -> tuple[float, ...]:
        """As of the system inside."""
        return self.of.reset_high

    @property
    def g_max(self) -> float | None:
        """As given."""
        return self.largest_g

    def _advance(self, state: Any, control: Any, disturbance: Any) -> Any:
        return self.of._advance(state, control, disturbance)

    def g(self, state: Any) -> Any:
        """As given."""
        return self.own_g(state)

    def l(self, state: Any) -> Any:  # noqa: E743
        """As given."""
        return super().l(state) if self.own_l is None else self.own_l(state)

    def observe(self, state: Any) -> Any:
        """As of the system inside."""
        return self.of.observe(state)

    def start(self, uniform: Any) -> Any:
        """As of the system inside."""
        return self.of.start(uniform)
