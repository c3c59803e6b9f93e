"""`make`: one environment from its registry entry."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium

from sekai.core.env import Env
from sekai.core.spawns import Spawns
from sekai.registry.arguments import check_env_arguments
from sekai.registry.specs import EnvSpec, copy_containers, load_entry_point, load_wrapper
from sekai.registry.store import DEFAULT
from sekai.spaces import readable
from sekai.wrappers import FromGymnasium, TimeLimit
from sekai.wrappers.time import check_max_episode_steps

EnvWrapper = Callable[[Any], Any]


def make(
    id: str | gymnasium.envs.registration.EnvSpec,
    *,
    max_episode_steps: int | None = None,
    wrappers: Iterable[EnvWrapper] = (),
    **kwargs: Any,
) -> Env[Any, Any]:
    """Build an environment.

    From the inside out: the base environment, the entry's `additional_wrappers`, `TimeLimit` when there is a
    limit, `wrappers`. An id that only gymnasium knows is built by its entry point, with sekai's `TimeLimit`
    and without gymnasium's checker and wrappers.

    Args:
        id: `[module:][namespace/]name[-vN]`, or an entry.
        max_episode_steps: time limit instead of the registered one.
        wrappers: functions `env -> env`, innermost first.
        kwargs: arguments of the constructor, over the registered ones.

    Raises:
        EnvNotFound: neither registry knows the id.
        TypeError: an argument that the constructor does not take, or of the wrong kind.
        ValueError: a value out of range.

        >>> env = sekai.make("CartPole-v1", max_episode_steps=200)
    """
    return recipe(resolve(id), max_episode_steps, check_wrappers(wrappers), kwargs)()


def resolve(id: str | gymnasium.envs.registration.EnvSpec) -> EnvSpec:
    """The entry that is meant by an id, or by an entry of sekai's or gymnasium's."""
    if isinstance(id, gymnasium.envs.registration.EnvSpec):
        return EnvSpec.of(id)
    return DEFAULT.spec(id)


def recipe(
    entry: EnvSpec, max_episode_steps: int | None, wrappers: tuple[EnvWrapper, ...], kwargs: dict[str, Any]
) -> Recipe:
    """Check everything that can be checked before building."""
    if entry.entry_point is None:
        raise ValueError(f"{entry.id} has no entry point for a single environment.")
    arguments = {**entry.kwargs, **kwargs}
    creator = load_entry_point(entry.entry_point, entry.id)
    native = partial(load_entry_point, entry.vector_entry_point, entry.id) if entry.is_native else None
    check_env_arguments(entry.id, creator, arguments, native)
    _check_render_mode(entry.id, creator, arguments.get("render_mode"))
    return Recipe(
        dataclasses.replace(
            entry, kwargs=copy_containers(arguments), max_episode_steps=time_limit(entry, max_episode_steps)
        ),
        wrappers,
    )


@dataclass(frozen=True)
class Recipe:
    """A function that builds an environment, and can be sent to another process.

    It carries the entry and not the id, so an id registered in the main script needs no registry in a worker.

    Attributes:
        spec: the entry, with the arguments and the limit to build with.
        wrappers: outer wrappers.
    """

    spec: EnvSpec
    wrappers: tuple[EnvWrapper, ...]

    def __call__(self) -> Env[Any, Any]:
        """Build one; what has been built is closed when a later layer fails."""
        spec = self.spec
        env = load_entry_point(spec.entry_point, spec.id)(**copy_containers(spec.kwargs))
        if not isinstance(env, gymnasium.Env):
            raise TypeError(f"The entry point of {spec.id} returned {env!r}; expected a single environment.")
        try:
            base = env.unwrapped
            base.spec = spec
            for name in ("observation_space", "action_space"):
                if name in vars(base):  # sekai's print readably, and `contains` is quick in an environment's own step
                    setattr(base, name, readable(getattr(base, name)))
            return self._wrap(env)
        except BaseException:
            env.close()
            raise

    def _wrap(self, env: Any) -> Env[Any, Any]:
        spec = self.spec
        for wrapper in spec.additional_wrappers:
            env = _apply(load_wrapper(wrapper, spec.id), env)
        if spec.max_episode_steps is not None:
            env = TimeLimit(env, spec.max_episode_steps)  # adapter and limit in one layer
        env = _as_sekai(env)
        for outer in self.wrappers:
            env = _apply(outer, env)
        return _as_sekai(env)

    def shared(self) -> Recipe:
        """The recipe of several environments: its arguments as the class shares them."""
        creator = load_entry_point(self.spec.entry_point, self.spec.id)
        if not isinstance(creator, type) or not issubclass(creator, Env):
            return self
        return Recipe(dataclasses.replace(self.spec, kwargs=creator.share_arguments(self.spec.kwargs)), self.wrappers)

    def spawned(self) -> Recipe:
        """The recipe of one sub-environment: every argument that is a `Spawns` replaced by its `spawn()`."""
        kwargs = {
            name: value.spawn() if isinstance(value, Spawns) else value for name, value in self.spec.kwargs.items()
        }
        return Recipe(dataclasses.replace(self.spec, kwargs=kwargs), self.wrappers)


def time_limit(entry: EnvSpec, given: int | None) -> int | None:
    """The limit given, else the registered one."""
    limit = entry.max_episode_steps if given is None else given
    return None if limit is None else check_max_episode_steps(limit)


def check_wrappers(wrappers: Iterable[EnvWrapper] | None) -> tuple[EnvWrapper, ...]:
    """The wrappers as a tuple, a generator run once.

    Raises:
        TypeError: no iterable, or something in it that cannot be called.
    """
    expected = "expected an iterable of functions env -> env, such as [lambda env: sekai.ClipReward(env, -1, 1)]"
    if wrappers is None:
        return ()
    if not isinstance(wrappers, Iterable) or isinstance(wrappers, str):
        raise TypeError(f"wrappers is {wrappers!r}; {expected}.")
    given = tuple(wrappers)
    for wrapper in given:
        if not callable(wrapper):
            raise TypeError(f"wrappers contains {wrapper!r} ({type(wrapper).__name__}); {expected}.")
    return given


def _check_render_mode(id: str, creator: Any, mode: Any) -> None:
    """Refuse a render mode that the class does not list; a class that lists none checks it itself."""
    metadata = getattr(creator, "metadata", None)
    modes = metadata.get("render_modes") if isinstance(metadata, dict) else None
    if mode is not None and modes and mode not in modes:
        raise ValueError(f"render_mode of {id} is {mode!r}; expected one of {', '.join(map(repr, modes))}, or None.")


def _as_sekai(env: Any) -> Env[Any, Any]:
    return env if isinstance(env, Env) else FromGymnasium(env)


def _apply(wrapper: EnvWrapper, env: Any) -> Any:
    wrapped = wrapper(env)
    if not isinstance(wrapped, gymnasium.Env):
        raise TypeError(f"The wrapper {wrapper!r} returned {wrapped!r}; expected an environment.")
    return wrapped
