"""`Env`: a gymnasium environment with an awaitable twin for each call, a named generator and layers.

Anything that accepts a `gymnasium.Env` accepts a `sekai.Env`. The functions at the end are the one place where
sekai calls an environment that may be gymnasium's own: they hand it Python ints as seeds and turn the plain
tuples it returns into `StepResult` and `ResetResult`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import gymnasium
import numpy as np

from sekai.core.results import ResetResult, StepResult, step_result
from sekai.seeding import Seed, check_seed

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")

# gymnasium's wrappers hand these on from layer to layer: the base environment owns them
BASE_NAMES = frozenset({"metadata", "np_random", "np_random_seed", "render_mode", "spec", "unwrapped"})


class Env(gymnasium.Env[ObsType, ActType]):
    """Base class of single environments.

    A subclass sets `observation_space` and `action_space`, and implements `reset` and `step`. An environment
    that waits for something (a feed, a simulator behind a socket) implements `async_step` and `async_reset`
    too; by default they call the ordinary ones.

        class Walk(sekai.Env):
            def reset(self, *, seed=None, options=None):
                self._set_rng(seed)
                ...
                return sekai.ResetResult(observation, {})
    """

    #: True for an environment that starts its next episode by itself, inside `step` (see `AutoReset`).
    resets_itself: bool = False

    #: True for a class whose every info is a dict of its own in which nothing changes later, so that nobody need copy
    #: it. It speaks for the very class that sets it, and not for subclasses.
    fresh_infos: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        drop_stale_twins(cls, Env)

    def reset(self, *, seed: Seed = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode.

        The base method only sets the generator; a subclass calls it, or `_set_rng`, first.

        Args:
            seed: None continues the stream of `rng`, an int restarts it, a `Generator` is adopted.
            options: what the environment lets a caller choose about the episode.

        Returns:
            In a subclass: `ResetResult(observation, info)`.
        """
        self._set_rng(seed)

    async def async_reset(self, *, seed: Seed = None, options: dict[str, Any] | None = None) -> Any:
        """Awaitable `reset`; by default it calls `reset`."""
        return self.reset(seed=seed, options=options)

    async def async_step(self, action: ActType) -> Any:
        """Awaitable `step`; by default it calls `step`."""
        return self.step(action)

    @classmethod
    def share_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments of the constructor, as several environments take them; `make_vec` calls it once, for all.

        An environment overrides it where it makes something large of an argument that all of them can share.
        """
        return arguments

    def check_options(self, options: dict[str, Any] | None) -> None:
        """Raise for options that `reset` would refuse, before anything moves. By default all are accepted."""

    @property
    def rng(self) -> np.random.Generator:
        """The environment's generator, made from entropy when it is first used without a seed."""
        return self.np_random

    def _set_rng(self, seed: Seed) -> None:
        """Set the generator as `reset(seed=...)` promises.

        Args:
            seed: None continues the stream, an int makes `numpy.random.default_rng(seed)`, a `Generator` is
                adopted as it is.

        Raises:
            TypeError: anything else, such as `True`, `"7"` or `1.5`.
        """
        set_generator(self, check_seed(seed))

    def render(self) -> Any:
        """A frame, as `render_mode` has it; a subclass that renders overrides this."""
        raise NotImplementedError(f"{self} does not render (render_mode is {self.render_mode!r}).")

    def __repr__(self) -> str:
        return str(self)

    def layers(self) -> list[str]:
        """Names of the classes this environment is made of, outermost first."""
        return [type(layer).__name__ for layer in walk(self)]

    def get_attr(self, name: str) -> Any:
        """Read `name` from the outermost layer that has it.

        Raises:
            AttributeError: no layer has it; the message lists close matches.
        """
        return find_attr(self, name)[1]

    def set_attr(self, name: str, value: Any) -> None:
        """Set `name` on the outermost layer that has it.

        Raises:
            AttributeError: no layer has it (a new attribute would change nothing), or it cannot be set.
        """
        layer, _ = find_attr(self, name)
        setattr(layer, name, value)


def drop_stale_twins(cls: type, base: type) -> None:
    """Let a class that overrides only `step` or `reset` not keep an async twin written for the old one.

    Args:
        cls: a class that has just been made.
        base: whose `async_step` and `async_reset` call `step` and `reset`.
    """
    for name in ("step", "reset"):
        if _definer(cls, name) < _definer(cls, f"async_{name}"):
            setattr(cls, f"async_{name}", getattr(base, f"async_{name}"))


def _definer(cls: type, name: str) -> int:
    """Position in the method resolution order of the class that defines `name`."""
    return next(i for i, base in enumerate(cls.__mro__) if name in vars(base))


def walk(env: Any) -> Iterable[Any]:
    """The layers of an environment, outermost first, through sekai's and gymnasium's wrappers."""
    yield env
    while isinstance(env, gymnasium.Wrapper):
        env = env.env
        yield env


def class_names(layer: object) -> list[str]:
    """The name of an object's class, then those of the classes it derives from."""
    return [base.__name__ for base in type(layer).__mro__[:-1]]


def find_attr(env: Any, name: str) -> tuple[Any, Any]:
    """The outermost layer that has `name`, and its value there.

    Names that gymnasium hands on from layer to layer are read from the base environment.

    Raises:
        AttributeError: no layer has it; the message lists close matches.
    """
    layers = list(walk(env))
    return find_in(layers[-1:] if name in BASE_NAMES else layers, name, env, known=layers)


def find_in(layers: Sequence[Any], name: str, owner: object, *, known: Sequence[Any] = ()) -> tuple[Any, Any]:
    """The first of some objects that has `name`, and its value there.

    Args:
        layers: where to look, in order.
        name: the attribute.
        owner: whom the error speaks of.
        known: objects whose names the error may suggest; by default the layers.

    Raises:
        AttributeError: none has it; the message lists close matches.
    """
    for layer in layers:
        try:
            return layer, getattr(layer, name)
        except AttributeError as error:
            # a property that fails inside is that property's error, not a missing name
            about_another = error.obj is not None and (error.obj is not layer or error.name != name)
            if about_another or any(name in vars(base) for base in type(layer).__mro__):
                raise
    raise missing_attribute(name, (entry for layer in known or layers for entry in dir(layer)), owner)


def missing_attribute(name: str, known: Iterable[str], owner: object) -> AttributeError:
    """The error for a name that `owner` lacks, with up to three close matches from `known`."""
    close = difflib.get_close_matches(name, sorted(set(known)), n=3)
    hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
    return AttributeError(f"{owner} has no attribute {name!r}.{hint}")


def set_generator(env: Any, seed: Seed) -> None:
    """Give the base environment of `env` the generator that `seed` stands for."""
    base = env.unwrapped
    if isinstance(seed, np.random.Generator):
        base.np_random = seed
    elif seed is not None:
        base._np_random = np.random.default_rng(seed)
        base._np_random_seed = seed


def call_reset(env: Any, seed: Seed, options: dict[str, Any] | None) -> ResetResult:
    """Reset any environment, sekai's or gymnasium's."""
    if seed is not None and isinstance(seed, np.random.Generator) and not isinstance(env, Env):
        set_generator(env, seed)  # gymnasium takes ints only
        seed = None
    result = env.reset(seed=seed, options=options)
    return result if type(result) is ResetResult else as_reset_result(result, env)


async def await_reset(env: Any, seed: Seed, options: dict[str, Any] | None) -> ResetResult:
    """Awaitable `call_reset`."""
    if not isinstance(env, Env):
        return call_reset(env, seed, options)
    result = await env.async_reset(seed=seed, options=options)
    return result if type(result) is ResetResult else as_reset_result(result, env)


def call_step(env: Any, action: Any) -> StepResult:
    """Step any environment, sekai's or gymnasium's."""
    result = env.step(action)
    return result if type(result) is StepResult else as_step_result(result, env)


async def await_step(env: Any, action: Any) -> StepResult:
    """Awaitable `call_step`."""
    result = await env.async_step(action) if isinstance(env, Env) else env.step(action)
    return result if type(result) is StepResult else as_step_result(result, env)


def as_step_result(result: Any, env: object) -> StepResult:
    """A plain tuple of five as a `StepResult`, its flags as Python bools.

    Raises:
        TypeError: `step` returned something else.
    """
    if isinstance(result, tuple) and len(result) == 5 and isinstance(result[4], dict):
        observation, reward, terminated, truncated, info = result
        return step_result((observation, reward, bool(terminated), bool(truncated), info))
    raise TypeError(
        f"{env}.step() returned {_shape(result)}; expected StepResult(observation, reward, terminated, "
        "truncated, info)."
    )


def as_reset_result(result: Any, env: object) -> ResetResult:
    """A plain tuple of two as a `ResetResult`.

    Raises:
        TypeError: `reset` returned something else.
    """
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
        raise TypeError(f"{env}.reset() returned {_shape(result)}; expected ResetResult(observation, info).")
    return ResetResult(*result)


def _shape(result: object) -> str:
    if not isinstance(result, tuple):
        return f"a {type(result).__name__}"
    if len(result) in (2, 5):
        return f"the info {result[-1]!r} ({type(result[-1]).__name__}), which is no dict"
    return f"a tuple of {len(result)}"
