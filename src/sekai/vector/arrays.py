"""`ArrayVecEnv`: attributes of a vector environment whose slots are rows of its own arrays."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from sekai.core.env import class_names, find_in
from sekai.vector.base import SlotVecEnv

F = TypeVar("F")

#: what the base classes decide; setting it would change nothing, or break the bookkeeping
_FIXED = frozenset(
    {
        "action_space",
        "autoreset",
        "batch_action_space",
        "batch_observation_space",
        "closed",
        "elapsed_steps",
        "frozen",
        "lost_rows",
        "metadata",
        "num_envs",
        "observation_space",
        "phase",
        "render_mode",
        "spec",
    }
)


def shared(member: F) -> F:
    """Mark a method or property of a native env whose value is the same for every sub-environment.

    `get_attr` and `call` then repeat the whole value, even an array whose length happens to be `num_envs`. Works
    above or below `@property`.
    """
    function = member.fget if isinstance(member, property) else member
    function.__sekai_shared__ = True  # type: ignore[union-attr]  # functions take attributes
    return member


class ArrayVecEnv(SlotVecEnv):
    """A vector environment without sub-environment objects: names are looked for on this object itself."""

    def get_attr(self, name: str) -> list[Any]:
        """`name` of this object: an array with a leading `num_envs` axis is split, anything else repeated.

        Arrays are copies.
        """
        self._require_open()
        owner, value = self._find(name)
        return self._split(value, self._is_shared(owner, name))

    def call(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call `name` of this object (or read it when it is not callable) and split the result like `get_attr`."""
        self._require_open()
        owner, value = self._find(name)
        return self._split(value(*args, **kwargs) if callable(value) else value, self._is_shared(owner, name))

    def set_attr(self, name: str, value: Any) -> None:
        """Set an existing attribute: a list of `num_envs` values is stored as one array, anything else as it is."""
        self._require_open()
        owner, _ = self._find(name)
        if name in _FIXED or name.startswith("_") or callable(getattr(type(owner), name, None)):
            raise AttributeError(f"{name!r} of {self} cannot be set.")
        setattr(owner, name, np.array(self._slot_values(value)) if isinstance(value, list) else value)

    def _find(self, name: str) -> tuple[Any, Any]:
        """The object that has `name`, and its value."""
        return find_in([self], name, self)

    @staticmethod
    def _is_shared(owner: Any, name: str) -> bool:
        member = getattr(type(owner), name, None)
        return hasattr(member.fget if isinstance(member, property) else member, "__sekai_shared__")

    def _split(self, value: Any, whole: bool) -> list[Any]:
        if isinstance(value, np.ndarray):
            if not whole and value.ndim and len(value) == self.num_envs:
                return value.tolist() if value.ndim == 1 and value.dtype.kind not in "mM" else list(value.copy())
            return [value.copy() for _ in range(self.num_envs)]
        return [value] * self.num_envs

    def layers(self) -> list[str]:
        """This class: a native env has no sub-environment objects."""
        return [type(self).__name__]

    def layer_bases(self) -> list[list[str]]:
        """Those of this class."""
        return [class_names(self)]

    def render(self) -> list[Any]:
        """A native env does not render."""
        raise NotImplementedError(f"{self} does not render; make it with vectorization_mode='sync'.")
