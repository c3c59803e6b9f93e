"""Arguments of an environment that can be read by name, and some of them set later."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core import Env
from sekai.core.states import (
    Arrays,
    check_like,
    check_same,
    generator_arrays,
    generator_from,
    join,
    part_of,
    read_state,
)
from sekai.envs.finance.rendering import Picture, Recorder, check_render_mode
from sekai.envs.finance.states import Slots, get_arrays, set_arrays


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
    _slots: Slots
    _picture: Picture
    _recorder: Recorder | None = None
    _kept: tuple[str, ...] = ("_live",)  # attributes that belong to the state, beside the slots

    def __init__(self, **given: Any) -> None:
        self._parameters = {}
        cls = type(self)
        self._set_parameters(**{name: getattr(cls, name).check(name, value) for name, value in given.items()})

    def _set_parameters(self, **changes: Any) -> None:
        """Take over checked values, all of them or none."""
        together = {**self._parameters, **changes}
        self._apply_parameters(together)
        self._parameters = together

    def _record_for(self, render_mode: Any) -> None:
        """Settle how this environment renders, and record what that needs."""
        self.render_mode = check_render_mode(render_mode)
        self._recorder = None if self.render_mode is None else Recorder(self._picture, 1)

    def render(self) -> Any:
        """The episode so far as a picture, uint8 `(H, W, 3)`; after `set_state`, from the state on that it set.

        Raises:
            NotImplementedError: the environment was made without a `render_mode`.
            ResetRequired: before the first reset.
            ImportError: matplotlib is not installed (extra `viz`).
        """
        return super().render() if self._recorder is None else self._recorder.frame(0, self)

    def _past_returns(self, slots: Any, indices: NDArray[np.int64]) -> NDArray[np.float32] | None:
        """Log returns into the current row of some slots, `(K, lookback, ...)`; None in a market without a past."""
        return None

    def _apply_parameters(self, parameters: dict[str, Any]) -> None:
        """Prepare what the dynamics read; raise for values that do not go together, before anything changes."""
        raise NotImplementedError

    @classmethod
    def argument_names(cls) -> frozenset[str]:
        """Names of the constructor's arguments, every one an attribute as well."""
        return frozenset(inspect.signature(cls).parameters)

    @classmethod
    def fixed_arguments(cls) -> list[str]:
        """Names of the arguments that are settled when an environment is made, history and price model apart."""
        names = cls.argument_names() - {"prices", "data", "model"}
        return sorted(name for name in names if isinstance(getattr(cls, name, None), Fixed))

    def get_state(self) -> Arrays:
        """All that the next calls depend on, as a flat dict of plain arrays that share no memory with this object.

        `np.savez(path, **state)` writes it, and `np.load(path)` reads it without pickle. An environment made of the
        same arguments that is given it by `set_state` goes on as this one does, to the bit. The history is not part
        of it, only its fingerprint; neither are wrappers, which may keep a state of their own.

        Raises:
            TypeError: something that plain arrays cannot hold: a generator that is not NumPy's, or a sampler with a
                state of its own that does not implement `get_state` and `set_state`.
        """
        own = get_arrays(self, self._slots, [])
        return {
            "class": np.array(type(self).__qualname__),
            **join(rng=generator_arrays(self._np_random), env={**own, **self._kept_arrays()}),
        }

    def set_state(self, state: Any) -> None:
        """Take over what `get_state` of an environment of the same class and arguments returned.

        Args:
            state: that dict, or what `np.load` made of it. Nothing in it is kept, only copied.

        Raises:
            TypeError, ValueError: another environment or history, or arrays of other names, shapes or dtypes; nothing
                has changed.
        """
        given = read_state(state)
        identity = {"class": np.array(type(self).__qualname__)}
        check_same(given, identity, type(self).__name__)
        check_like({key: array for key, array in given.items() if not key.startswith(("rng.", "env."))}, identity)
        rng = generator_from(part_of(given, "rng"))
        own = part_of(given, "env")
        set_arrays(self, self._slots, own, self._kept_arrays())
        for name in self._kept:
            setattr(self, name, own[name[1:]].item())
        self._np_random = rng
        self._np_random_seed = None if rng is None else -1  # gymnasium's word for a seed that is not known
        if self._recorder is not None:
            started = np.array([own["live"].item() or self.get_attr("elapsed_steps") > 0])
            self._recorder.restore(self, started, self._past_returns(self._slots, np.flatnonzero(started)))

    def _kept_arrays(self) -> Arrays:
        return {name[1:]: np.array(getattr(self, name)) for name in self._kept}
