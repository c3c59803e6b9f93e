"""`make_vec`: a vector environment from a registry entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import gymnasium
from gymnasium.envs.registration import VectorizeMode

from sekai.registry.arguments import BACKENDS, check_backend_arguments, check_native_arguments
from sekai.registry.making import EnvWrapper, check_wrappers, recipe, resolve, time_limit
from sekai.registry.specs import EnvSpec, copy_containers, load_entry_point
from sekai.spaces.checks import whole_number
from sekai.vector import NativeShards, VecEnv

NATIVE = ("native", "vector_entry_point")
MODES = (*NATIVE, *BACKENDS)
#: backends whose workers may be native vector environments
ACROSS_PROCESSES = ("proc",)


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
        vectorization_mode: `"native"` (alias `"vector_entry_point"`), `"sync"`, `"async"`, `"proc"` or `"ray"`.
            None takes the native environment where there is one and no wrapper applies to single environments,
            else sync.
        wrappers: functions `env -> env`, applied to each sub-environment, innermost first.
        vector_kwargs: arguments of the vector environment, such as `{"autoreset": False}`. With `"proc"` also
            `{"shard": "native"}`: each worker steps its slots with array operations, and has one stream.
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
    arguments = _native_arguments(entry, max_episode_steps, kwargs, for_vector)
    return _build_native(entry, arguments, num_envs, **for_vector)


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
    if _takes_native_shards(for_vector, mode):
        shards = _native_shards(entry, num_envs, max_episode_steps, kwargs, wrappers)
        return backend(shards, **for_vector)  # type: ignore[arg-type]  # the backends of other processes take shards
    each = recipe(entry, max_episode_steps, wrappers, kwargs)
    check_backend_arguments(entry.id, load_entry_point(entry.entry_point, entry.id), backend, for_vector)
    each = each.shared()
    return backend([each.spawned() for _ in range(num_envs)], **for_vector)


def _takes_native_shards(for_vector: dict[str, Any], mode: str) -> bool:
    """Take `shard` out of the arguments of a backend of other processes; whether it says "native"."""
    if mode not in ACROSS_PROCESSES or "shard" not in for_vector:
        return False
    shard = for_vector.pop("shard")
    if shard not in ("sync", "native"):
        raise ValueError(f"shard is {shard!r}; expected 'sync' (the streams of a SyncVecEnv) or 'native'.")
    return bool(shard == "native")


def _native_shards(
    entry: EnvSpec,
    num_envs: int,
    max_episode_steps: int | None,
    kwargs: dict[str, Any],
    wrappers: tuple[EnvWrapper, ...],
) -> NativeShards:
    _require_native(entry, wrappers, "shard='sync'")
    arguments = _native_arguments(entry, max_episode_steps, kwargs, {})
    return NativeShards(partial(_build_native, entry, arguments), num_envs)


def _build_native(entry: EnvSpec, arguments: dict[str, Any], num_envs: int, **for_vector: Any) -> VecEnv:
    native = load_entry_point(entry.vector_entry_point, entry.id)
    vec = native(num_envs=num_envs, **copy_containers(arguments), **for_vector)
    if not isinstance(vec, VecEnv):
        raise TypeError(f"The vector entry point of {entry.id} returned {vec!r}; expected a sekai.VecEnv.")
    return vec


def _native_arguments(
    entry: EnvSpec, max_episode_steps: int | None, kwargs: dict[str, Any], for_vector: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of the native environment, checked."""
    native = load_entry_point(entry.vector_entry_point, entry.id)
    limit = time_limit(entry, max_episode_steps)
    arguments = {**entry.kwargs, **kwargs}
    single = load_entry_point(entry.entry_point, entry.id)
    check_native_arguments(entry.id, single, native, arguments, limit, for_vector)
    return arguments if limit is None else {**arguments, "max_episode_steps": limit}


def _mode(entry: EnvSpec, given: Any, wrappers: tuple[EnvWrapper, ...]) -> str:
    if isinstance(given, VectorizeMode):
        given = given.value
    if given is None:
        return "native" if entry.is_native and not entry.additional_wrappers and not wrappers else "sync"
    if given not in MODES:
        raise ValueError(f"vectorization_mode is {given!r}; expected None, {', '.join(map(repr, MODES))}.")
    if given not in NATIVE:
        return str(given)
    _require_native(entry, wrappers, "vectorization_mode='sync'")
    return "native"


def _require_native(entry: EnvSpec, wrappers: tuple[EnvWrapper, ...], instead: str) -> None:
    """Refuse what no native environment can do."""
    if not entry.is_native:
        raise ValueError(f"{entry.id} has no native vector environment: use {instead}, or leave it out.")
    if wrappers or entry.additional_wrappers:
        which = "wrappers=" if wrappers else "additional_wrappers in its registry entry"
        raise ValueError(
            f"{entry.id} has {which}, and a native vector environment has no single environments to "
            f"wrap: use a vector wrapper around it, or {instead}."
        )


def _check_vector_kwargs(given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"vector_kwargs is {given!r}; expected a dict with the names of arguments as keys.")
    copied: dict[str, Any] = copy_containers(dict(given))
    return copied
