"""Giving an existing gymnasium space one of our classes."""

from __future__ import annotations

from typing import Any, TypeVar

from gymnasium.spaces import Space

S = TypeVar("S", bound=Space[Any])


def share(cls: type[S], space: Space[Any]) -> S:
    """A `cls` that shares all attributes with `space`, now and later.

    The two objects have one attribute dictionary: `seed` on either replaces the generator of both, so they
    stay one random stream whichever is seeded. For leaf classes only, whose attributes mean the same in
    both classes.
    """
    shared = cls.__new__(cls)
    shared.__dict__ = space.__dict__
    return shared
