"""Building the sub-environments of a vector environment, checking them, and closing them again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium

from sekai.errors import SpaceMismatch
from sekai.spaces import describe_mismatch
from sekai.vector.blame import blaming, raise_first

EnvFactory = Callable[[], gymnasium.Env[Any, Any]]
Spaces = tuple[gymnasium.Space[Any], gymnasium.Space[Any]]


@contextmanager
def building(env_fns: Iterable[EnvFactory], first_slot: int = 0) -> Iterator[list[Any]]:
    """Build the sub-environments; close those already built when anything fails before the end of the block."""
    envs: list[Any] = []
    built: dict[int, int] = {}
    try:
        for slot, env_fn in enumerate(check_factories(env_fns), first_slot):
            with blaming(slot):
                envs.append(check_new_env(env_fn(), built, slot))
        yield envs
    except BaseException as error:
        try:
            close_all(envs)
        except Exception as secondary:  # the first error is the one that matters
            error.add_note(f"Closing the sub-envs that had been built also failed: {secondary!r}")
        raise


def check_factories(env_fns: Iterable[EnvFactory]) -> list[EnvFactory]:
    """The factories as a list.

    Raises:
        TypeError: an entry that cannot be called.
        ValueError: no entry.
    """
    if not isinstance(env_fns, Iterable):
        raise TypeError(f"env_fns is {env_fns!r}; expected a list of callables, one per sub-env.")
    factories = list(env_fns)
    if not factories:
        raise ValueError("A vector environment needs at least one sub-env; given no factories.")
    for slot, factory in enumerate(factories):
        if isinstance(factory, gymnasium.Env) or not callable(factory):
            raise TypeError(
                f"env_fns[{slot}] is {factory!r}; expected a callable without arguments that builds an env."
            )
    return factories


def check_new_env(env: Any, built: dict[int, int], slot: int) -> Any:
    """What the factory of `slot` returned.

    Args:
        env: it.
        built: slots of the environments built before, by the `id` of their innermost one; `env` is added.
        slot: its index.

    Raises:
        TypeError: no single environment.
        ValueError: the same object as an earlier factory's.
    """
    if not isinstance(env, gymnasium.Env):
        raise TypeError(f"The factory returned {env!r} ({type(env).__name__}); expected a single environment.")
    other = built.setdefault(id(env.unwrapped), slot)
    if other != slot:
        raise ValueError(f"The factory returned the environment of sub-env {other} again; build a new one each time.")
    return env


def check_equal_spaces(spaces: Sequence[Spaces], first_slot: int = 0) -> None:
    """Raise `SpaceMismatch` when the (observation, action) spaces of a sub-environment differ from the first's."""
    for slot, pair in enumerate(spaces):
        for kind, expected, given in zip(("observation", "action"), spaces[0], pair, strict=True):
            problem = describe_mismatch(expected, given)
            if problem is not None:
                raise SpaceMismatch(
                    f"The {kind} space of sub-env {first_slot + slot} differs from that of sub-env {first_slot}: "
                    f"{problem}"
                )


def close_all(envs: Sequence[Any]) -> None:
    """Close all; raise the first error when all have been tried."""
    errors: dict[int, Exception] = {}
    for slot, env in enumerate(envs):
        try:
            env.close()
        except Exception as error:
            errors[slot] = error
    if errors:
        raise_first(errors)
