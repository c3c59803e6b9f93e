"""`make_vec`: a vector environment from a registry entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium
from gymnasium.envs.registration import VectorizeMode

from sekai.registry.arguments import BACKENDS, check_backend_arguments, check_native_arguments
from sekai.registry.making import EnvWrapper, check_wrappers, recipe, resolve, time_limit
from sekai.registry.specs import EnvSpec, copy_containers, load_entry_point
from sekai.spaces.checks import whole_number
from sekai.vector import VecEnv

NATIVE = ("native", "vector_entry_point")
MODES = (*NATIVE, *BACKENDS)


def make_vec(
    id: str | gymnasium.envs.registration.EnvSpec,
    num_envs: int = 1,
    *,
    vectorization_mode: str | None = None,
    wrappers: Iterable[EnvWrapper] | None = None,
    vector_kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    **kwargs: Any,
) -> VecEnv:
    """Build `num_envs` copies of an environment, stepped together.

    Args:
        id: as for `make`.
        num_envs: at least 1.
        vectorization_mode: `"native"` (alias `"vector_entry_point"`), `"sync"`, `"async"` or `"proc"`. None
            takes the native environment where there is one and no wrapper applies to single environments,
            else sync.
        wrappers: functions `env -> env`, applied to each sub-environment, innermost first.
        vector_kwargs: arguments of the vector environment, such as `{"autoreset": False}`.
        max_episode_steps: time limit instead of the registered one, on every backend.
        kwargs: arguments of the environment, over the registered ones. One that is a `Spawns` (an episode
            sampler) reaches each sub-environment as its `spawn()`.

    Returns:
        The vector environment, with the registry entry as its `spec`.

    Raises:
        EnvNotFound: neither registry knows the id.
        ValueError: an unknown mode; `"native"` where there is none, or with wrappers; a value out of range.
        TypeError: an argument that nothing takes, or that stands in the wrong place.

        >>> vec = sekai.make_vec("CartPole-v1", num_envs=4)
    """
    entry = resolve(id)
    num_envs = whole_number("num_envs", num_envs, minimum=1)
    outer = check_wrappers(wrappers)
    for_vector = _check_vector_kwargs(vector_kwargs)
    mode = _mode(entry, vectorization_mode, outer)
    vec = (
        _make_native(entry, num_envs, max_episode_steps, kwargs, for_vector)
        if mode == "native"
        else _make_slots(entry, num_envs, mode, outer, max_episode_steps, kwargs, for_vector)
    )
    vec.unwrapped.spec = entry
    return vec


def _make_native(
    entry: EnvSpec,
    num_envs: int,
    max_episode_steps: int | None,
    kwargs: dict[str, Any],
    for_vector: dict[str, Any],
) -> VecEnv:
    native = load_entry_point(entry.vector_entry_point, entry.id)
    limit = time_limit(entry, max_episode_steps)
    arguments = {**entry.kwargs, **kwargs}
    single = load_entry_point(entry.entry_point, entry.id)
    check_native_arguments(entry.id, single, native, arguments, limit, for_vector)
    if limit is not None:
        arguments["max_episode_steps"] = limit
    vec = native(num_envs=num_envs, **copy_containers(arguments), **for_vector)
    if not isinstance(vec, VecEnv):
        raise TypeError(f"The vector entry point of {entry.id} returned {vec!r}; expected a sekai.VecEnv.")
    return vec


def _make_slots(
    entry: EnvSpec,
    num_envs: int,
    mode: str,
    wrappers: tuple[EnvWrapper, ...],
    max_episode_steps: int | None,
    kwargs: dict[str, Any],
    for_vector: dict[str, Any],
) -> VecEnv:
    backend = BACKENDS[mode]
    each = recipe(entry, max_episode_steps, wrappers, kwargs)
    check_backend_arguments(entry.id, load_entry_point(entry.entry_point, entry.id), backend, for_vector)
    each = each.shared()
    return backend([each.spawned() for _ in range(num_envs)], **for_vector)


def _mode(entry: EnvSpec, given: Any, wrappers: tuple[EnvWrapper, ...]) -> str:
    if isinstance(given, VectorizeMode):
        given = given.value
    if given is None:
        return "native" if entry.is_native and not entry.additional_wrappers and not wrappers else "sync"
    if given not in MODES:
        raise ValueError(f"vectorization_mode is {given!r}; expected None, {', '.join(map(repr, MODES))}.")
    if given not in NATIVE:
        return str(given)
    if not entry.is_native:
        raise ValueError(
            f"{entry.id} has no native vector environment: use vectorization_mode='sync', or leave it out."
        )
    if wrappers or entry.additional_wrappers:
        which = "wrappers=" if wrappers else "additional_wrappers in its registry entry"
        raise ValueError(
            f"{entry.id} has {which}, and a native vector environment has no single environments to "
            "wrap: use a vector wrapper around it, or vectorization_mode='sync'."
        )
    return "native"


def _check_vector_kwargs(given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"vector_kwargs is {given!r}; expected a dict with the names of arguments as keys.")
    copied: dict[str, Any] = copy_containers(dict(given))
    return copied
