"""Arguments of an environment that can be read by name, and some of them set later."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from sekai.core import Env


class Parameter:
    """An attribute that may be set at any time and acts from the next step on.

    A value is checked, and kept only if the environment as a whole accepts it.

    Args:
        check: function of (name, value) that returns the value to keep, or raises.
        doc: what the parameter means.
    """

    def __init__(self, check: Callable[[str, Any], Any], doc: str) -> None:
        self.check = check
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, env: Any, owner: type | None = None) -> Any:
        return self if env is None else env._parameters[self.name]

    def __set__(self, env: Any, value: Any) -> None:
        env._set_parameters(**{self.name: self.check(self.name, value)})


class Fixed(property):
    """A property whose value is settled when the environment is made."""

    def __set__(self, env: Any, value: Any) -> None:
        name = getattr(self.fget, "__name__", "this attribute")
        raise AttributeError(f"{name!r} of {type(env).__name__} is settled when it is made: make a new one.")


class ParameterEnv(Env[Any, Any]):
    """A single environment whose arguments are attributes: `Parameter`s can be set, the others only read."""

    _parameters: dict[str, Any]

    def __init__(self, **given: Any) -> None:
        self._parameters = {}
        cls = type(self)
        self._set_parameters(**{name: getattr(cls, name).check(name, value) for name, value in given.items()})

    def _set_parameters(self, **changes: Any) -> None:
        """Take over checked values, all of them or none."""
        together = {**self._parameters, **changes}
        self._apply_parameters(together)
        self._parameters = together

    def _apply_parameters(self, parameters: dict[str, Any]) -> None:
        """Prepare what the dynamics read; raise for values that do not go together, before anything changes."""
        raise NotImplementedError

    @classmethod
    def argument_names(cls) -> frozenset[str]:
        """Names of the constructor's arguments, every one an attribute as well."""
        return frozenset(inspect.signature(cls).parameters)
