"""The two safety operators, elementwise, for NumPy arrays and torch tensors alike.

Signs and time, here and everywhere in `sekai.safety`:

    g_t       safety margin of the state AFTER step t, what the environment gives as reward; g >= 0 outside the failure
              set, and an episode ends by termination as soon as g < 0
    l_t       target margin of the same state, `info["l_x"]`; l >= 0 inside the target. Reach-avoid only: an avoid task
              has none, which is another thing than l = 0
    v_next    the learned value of that state. Q(s_t, a_t) is the value of s_{t+1} with its own margin, so V(s_t) leaves
              g(s_t) out, and what is compared with an exact value is compared one step later
    not_done  1 where the episode goes on after the step, 0 where the backup ends

With gamma the discount of a step:

    y = (1 - gamma) * anchor + gamma * backup       where not_done
    y = terminal                                    elsewhere

                 anchor       backup                   terminal
    avoid        g            min(g, v_next)           g
    reach-avoid  min(l, g)    min(g, max(l, v_next))   min(l, g) ("all"), g ("g")

A constant l does not make one out of the other: with l = -inf every value is -inf, with l >= 0 nobody looks ahead.

Sources: Fisac et al., "Bridging Hamilton-Jacobi Safety Analysis and Reinforcement Learning", ICRA 2019, equation 7
(avoid); Hsu et al., "Safety and Liveness Guarantees through Reach-Avoid Reinforcement Learning", RSS 2021, equation 15.
"""

from __future__ import annotations

from typing import Any, Final, Literal, cast

from sekai.safety.arrays import namespace

AVOID: Final = "avoid"
REACH_AVOID: Final = "reach-avoid"
MODES = (AVOID, REACH_AVOID)
TERMINAL_TYPES = ("all", "g")

Mode = Literal["avoid", "reach-avoid"]
TerminalType = Literal["all", "g"]


def check_mode(mode: str) -> Mode:
    """`mode`, or ValueError where it is none of `MODES`."""
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; expected one of {MODES}.")
    return cast(Mode, mode)


def check_terminal_type(terminal_type: str) -> TerminalType:
    """`terminal_type`, or ValueError where it is none of `TERMINAL_TYPES`."""
    if terminal_type not in TERMINAL_TYPES:
        raise ValueError(f"terminal_type is {terminal_type!r}; expected one of {TERMINAL_TYPES}.")
    return cast(TerminalType, terminal_type)


def avoid_target(g: Any, v_next: Any, not_done: Any, gamma: float, *, failure_value: float | None = None) -> Any:
    """The avoid operator, see the module.

    Args:
        g: safety margins, of any shape.
        v_next: values of the states that the margins are of.
        not_done: 1 where the episode goes on, 0 where the backup ends; bool or a number.
        gamma: discount of a step, in `[0, 1]`.
        failure_value: a failed step (`g < 0` where the backup ends) is worth at most this; None: its g.

    Returns:
        The targets of Q(s_t, a_t), in the shape of `g`.
    """
    return target(AVOID, g, v_next, not_done, gamma, failure_value=failure_value)


def reach_avoid_target(
    g: Any,
    l: Any,  # noqa: E741  # the name of the channel
    v_next: Any,
    not_done: Any,
    gamma: float,
    terminal_type: str = "all",
    *,
    failure_value: float | None = None,
) -> Any:
    """The reach-avoid operator, see the module.

    Args:
        g, v_next, not_done, gamma, failure_value: as for `avoid_target`.
        l: target margins, in the shape of `g`.
        terminal_type: what the last state of an episode is worth: `"all"` min(l, g), `"g"` its g.

    Returns:
        The targets of Q(s_t, a_t), in the shape of `g`.

    Raises:
        ValueError: another terminal type.
    """
    return target(REACH_AVOID, g, v_next, not_done, gamma, l, terminal_type, failure_value=failure_value)


def target(
    mode: str,
    g: Any,
    v_next: Any,
    not_done: Any,
    gamma: float,
    l: Any = None,  # noqa: E741
    terminal_type: str = "all",
    *,
    failure_value: float | None = None,
) -> Any:
    """The operator of a mode.

    Raises:
        ValueError: another mode or terminal type; reach-avoid without `l`, or avoid with one.
    """
    end = terminal(mode, g, l, terminal_type, failure_value=failure_value)
    return namespace(g).where(as_flags(not_done), continued(mode, g, v_next, gamma, l), end)


def continued(mode: str, g: Any, v_next: Any, gamma: float, l: Any = None) -> Any:  # noqa: E741
    """What a step is worth after which the episode goes on; arguments as for `target`, which refuses what is wrong."""
    xp = namespace(g)
    if mode == AVOID:
        return (1 - gamma) * g + gamma * xp.minimum(g, v_next)
    return (1 - gamma) * xp.minimum(l, g) + gamma * xp.minimum(g, xp.maximum(l, v_next))


def terminal(
    mode: str,
    g: Any,
    l: Any = None,  # noqa: E741
    terminal_type: str = "all",
    *,
    failure_value: float | None = None,
) -> Any:
    """What a step is worth at which the backup ends; arguments and errors as for `target`."""
    check_terminal_type(terminal_type)
    if check_mode(mode) == AVOID:
        if l is not None:
            raise ValueError("l was given to an avoid backup, which has no target: leave it out.")
        return _failed(g, g, failure_value)
    if l is None:
        raise ValueError("A reach-avoid backup needs the target margins l.")
    return _failed(g, namespace(g).minimum(l, g) if terminal_type == "all" else g, failure_value)


def backup_ends(terminated: Any, truncated: Any, *, bootstrap_on_timeout: bool = False) -> Any:
    """Where the backup ends: at a termination always, at a truncation unless it is bootstrapped.

        terminated  truncated   ends   ends, bootstrap_on_timeout
        no          no          no     no
        no          yes         yes    no: v_next is the value of the final observation
        yes         no          yes    yes
        yes         yes         yes    yes: termination wins

    Args:
        terminated, truncated: bool, of any shape.
        bootstrap_on_timeout: whether the value of the final observation is backed up at a truncation.
    """
    return terminated if bootstrap_on_timeout else terminated | truncated


def _failed(g: Any, terminal: Any, failure_value: float | None) -> Any:
    """What the end of an episode is worth, failures at most `failure_value`."""
    if failure_value is None:
        return terminal
    if not failure_value < 0:
        raise ValueError(f"failure_value is {failure_value}; expected a number below 0, or None for the margin itself.")
    xp = namespace(g)
    return xp.where(g < 0, xp.clip(terminal, None, failure_value), terminal)


def as_flags(flags: Any) -> Any:
    """Bools or numbers as bools."""
    return flags if flags.dtype == namespace(flags).bool else flags != 0
