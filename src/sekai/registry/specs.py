"""`EnvSpec`, the registry entry, and how the strings in it turn into objects."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.envs.registration import WrapperSpec

from sekai.core.env import Env


class EnvSpec(gymnasium.envs.registration.EnvSpec):
    """A registry entry; gymnasium's, with `make` building as sekai does.

    `additional_wrappers` may hold callables (`env -> env`) beside gymnasium's `WrapperSpec`. The entry that
    an environment carries as `env.spec` has the arguments and the time limit that it was made with, so
    `env.spec.make()` builds the same environment again.
    """

    def make(self, **kwargs: Any) -> Env[Any, Any]:
        """`sekai.make` of this entry, registered or not."""
        from sekai.registry.making import make

        return make(self, **kwargs)

    @property
    def is_native(self) -> bool:
        """Whether there is a native vector environment."""
        return self.vector_entry_point is not None

    @staticmethod
    def of(entry: gymnasium.envs.registration.EnvSpec) -> EnvSpec:
        """A gymnasium entry as sekai's. A `vector_entry_point` is left out: it names no `VecEnv`."""
        if isinstance(entry, EnvSpec):
            return entry
        fields = {field.name: getattr(entry, field.name) for field in dataclasses.fields(entry) if field.init}
        return EnvSpec(**fields | {"kwargs": copy_containers(entry.kwargs), "vector_entry_point": None})

    @staticmethod
    def from_json(json_env_spec: str) -> EnvSpec:
        """The entry that `to_json` wrote."""
        entry = gymnasium.envs.registration.EnvSpec.from_json(json_env_spec)
        return dataclasses.replace(EnvSpec.of(entry), vector_entry_point=entry.vector_entry_point)


def copy_containers(value: Any) -> Any:
    """Dicts, lists, sets and tuples copied all the way down; what they hold (arrays, say) stays itself."""
    if type(value) is dict:
        return {key: copy_containers(entry) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(copy_containers(entry) for entry in value)
    return set(value) if type(value) is set else value


def check_entry_point(entry_point: object, name: str, id: str) -> None:
    """Raise `TypeError` or `ValueError` unless it is a callable or a `"module:attribute"` string."""
    expected = "expected a callable or a string 'module:attribute'"
    if isinstance(entry_point, str):
        if not all(part and all(piece.isidentifier() for piece in part.split(".")) for part in _halves(entry_point)):
            raise ValueError(f"{name} of {id!r} is {entry_point!r}; {expected}.")
    elif not callable(entry_point):
        raise TypeError(f"{name} of {id!r} is {entry_point!r} ({type(entry_point).__name__}); {expected}.")


def load_entry_point(entry_point: Any, id: str) -> Callable[..., Any]:
    """The callable that an entry point is or names.

    Raises:
        ImportError: the module, or the attribute in it, is not there.
        TypeError: it cannot be called.
    """
    if not isinstance(entry_point, str):
        check_entry_point(entry_point, "entry_point", id)
        return entry_point  # type: ignore[no-any-return]  # checked to be callable
    module_name, path = _halves(entry_point)
    found: Any = import_module(module_name, f"entry point {entry_point!r} of {id!r}")
    for name in path.split("."):
        if not hasattr(found, name):
            close = difflib.get_close_matches(name, dir(found), n=3)
            hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
            raise ImportError(f"Entry point {entry_point!r} of {id!r}: {module_name} has no {name!r}.{hint}")
        found = getattr(found, name)
    if not callable(found):
        raise TypeError(f"Entry point {entry_point!r} of {id!r} is a {type(found).__name__}; expected a callable.")
    return found  # type: ignore[no-any-return]  # checked to be callable


def load_wrapper(wrapper: Any, id: str) -> Callable[[Any], Any]:
    """The function `env -> env` that an entry of `additional_wrappers` stands for.

    Raises:
        ValueError: a `WrapperSpec` that did not record its arguments.
    """
    if not isinstance(wrapper, WrapperSpec):
        return wrapper  # type: ignore[no-any-return]  # checked when it was registered
    if wrapper.kwargs is None:
        raise ValueError(
            f"{wrapper.name} in the additional_wrappers of {id!r} has no recorded kwargs; give a callable."
        )
    cls, kwargs = load_entry_point(wrapper.entry_point, id), copy_containers(wrapper.kwargs)
    return lambda env: cls(env, **kwargs)


def import_module(name: str, purpose: str) -> Any:
    """Import `name`.

    Raises:
        ModuleNotFoundError: there is no such module; the message says what it was needed for.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            error.add_note(f"while importing {name!r} ({purpose})")
            raise  # the module is there, something it imports is not
        raise ModuleNotFoundError(
            f"No module named {error.name!r}, needed for {purpose}: install it, or put it on the path.",
            name=error.name,
        ) from None


def _halves(entry_point: str) -> tuple[str, str]:
    module, _, path = entry_point.partition(":")
    return module, path
