"""What a collector asks of a policy.

Shapes: `N` slots; a batch is an array `(N, *shape)`, or a dict or tuple of such arrays. A *state* is any nesting of
dicts, lists and tuples of arrays (NumPy or torch) whose first axis is the slot, or None for a policy without memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

State: TypeAlias = Any
Function: TypeAlias = Callable[[Any], Any]


@dataclass(slots=True)  # not frozen: that would make it four times as dear, and one is made in every call
class Decision:
    """What a policy decides for every slot.

    Attributes:
        actions: the batch of actions, as the policy drew them; this is what a log probability belongs to.
        state: the state after these observations, in new arrays; None for a policy without memory.
        extras: further columns to be kept with the rows, arrays `(N, ...)`: log probabilities, values.
        env_actions: what the environment is to execute where that is not `actions` itself (clipped, squashed).
    """

    actions: Any
    state: State = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    env_actions: Any = None


@runtime_checkable
class Policy(Protocol):
    """A policy that may have a memory. Where values are wanted it also has `value`, see `ValuedPolicy`."""

    def initial_state(self, num_slots: int) -> State:
        """The state in which `num_slots` slots begin an episode; None for a policy without memory."""

    def act(self, observations: Any, state: State, episode_start: NDArray[np.bool_]) -> Decision:
        """Decide for all slots.

        Args:
            observations: the batch.
            state: the state before these observations; slots that begin an episode have `initial_state` in it.
            episode_start: bool `(N,)`, slots whose observation is the first of an episode.
        """


@runtime_checkable
class ValuedPolicy(Policy, Protocol):
    """A policy that knows what observations are worth."""

    def value(self, observations: Any, state: State) -> Any:
        """Values `(k, ...)` of `k` slots, from the state before these observations; it changes no state.

        `k` is not always the number of slots: final observations are valued for the slots that have one.
        """


class FunctionPolicy:
    """A plain function of the observations as a policy without memory.

    Args:
        function: returns a batch of actions, or a `Decision`.
    """

    def __init__(self, function: Function) -> None:
        self._function = function

    def initial_state(self, num_slots: int) -> None:
        """None: a function has no memory."""

    def act(self, observations: Any, state: State, episode_start: NDArray[np.bool_]) -> Decision:
        """Call the function.

        Raises:
            TypeError: it returned a state, which it would never be given back.
        """
        given = self._function(observations)
        if not isinstance(given, Decision):
            return Decision(given)
        if given.state is not None:
            raise TypeError(
                f"{self._function!r} returned a state, and a plain function is never given one; "
                "a policy with memory is an object with initial_state(num_slots) and act(observations, state, "
                "episode_start)."
            )
        return given


def as_policy(given: Any) -> Policy:
    """`given` as a policy.

    Raises:
        TypeError: it is neither a policy nor a plain function, or it has half of what a policy needs: a memory that
            nobody resets would otherwise go unnoticed.
    """
    has = [name for name in ("initial_state", "act") if callable(getattr(given, name, None))]
    if len(has) == 2:
        policy: Policy = given
        return policy
    if has:
        missing = "act" if has == ["initial_state"] else "initial_state"
        raise TypeError(
            f"The policy {given!r} has {has[0]} and no {missing}; a policy with memory needs "
            "initial_state(num_slots) and act(observations, state, episode_start), one without returns None from "
            "initial_state or is a plain function."
        )
    if callable(given):
        return FunctionPolicy(given)
    raise TypeError(
        f"The policy is {given!r}; expected a function of observations, or an object with initial_state(num_slots) and "
        "act(observations, state, episode_start)."
    )
