"""What the workers of a vector environment are built from, and how a seed reaches them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

import numpy as np

from sekai.seeding import VecSeed, slot_seeds
from sekai.spaces.checks import whole_number
from sekai.vector.building import EnvFactory, check_factories
from sekai.vector.maps import Arrays
from sekai.vector.pickling import dumps_by_value
from sekai.vector.requests import ResetRequest, check_mask, reset_request
from sekai.vector.share import build_native, build_slots

Bounds = list[tuple[int, int]]


class Shards(Protocol):
    """What the workers of a vector environment are built from."""

    num_envs: int
    one_by_one: bool  # whether a slot can be stepped by itself

    def builds(self, bounds: Bounds, autoreset: str, arrays: Arrays) -> list[bytes]:
        """For each worker the pickle of a function of its first slot that builds its `Share`."""
        ...

    def request(self, seed: VecSeed, options: Any, mask: Any, bounds: Bounds) -> ResetRequest:
        """The arguments of a reset, checked and spread over the slots."""
        ...


class SyncShards:
    """Single environments: the same streams as in a `SyncVecEnv`.

    Args:
        env_fns: one factory per slot.
    """

    one_by_one = True

    def __init__(self, env_fns: Iterable[EnvFactory]) -> None:
        self._factories = check_factories(env_fns)
        self.num_envs = len(self._factories)

    def builds(self, bounds: Bounds, autoreset: str, arrays: Arrays) -> list[bytes]:
        """For each worker the pickle of a function of its first slot that builds its `Share`."""
        return [dumps_by_value(partial(build_slots, self._factories[lo:hi], autoreset), arrays) for lo, hi in bounds]

    def request(self, seed: VecSeed, options: Any, mask: Any, bounds: Bounds) -> ResetRequest:
        """The arguments of a reset: one seed per slot."""
        return reset_request(seed, options, mask, self.num_envs)


class NativeShards:
    """A native vector environment per worker, with one stream each.

    The episodes are those of one native environment in distribution, and the same again for an equal seed and number
    of workers.

    Args:
        make: called as `make(num_envs=..., autoreset=...)` in each worker; sent there with cloudpickle.
        num_envs: slots of all workers together.
    """

    one_by_one = False

    def __init__(self, make: Callable[..., Any], num_envs: int) -> None:
        if not callable(make):
            raise TypeError(f"make is {make!r}; expected a function of (num_envs, autoreset) that builds a VecEnv.")
        self._make = make
        self.num_envs = whole_number("num_envs", num_envs, minimum=1)

    def builds(self, bounds: Bounds, autoreset: str, arrays: Arrays) -> list[bytes]:
        """For each worker the pickle of a function of its first slot that builds its `Share`."""
        return [dumps_by_value(partial(build_native, self._make, hi - lo, autoreset), arrays) for lo, hi in bounds]

    def request(self, seed: VecSeed, options: Any, mask: Any, bounds: Bounds) -> ResetRequest:
        """The arguments of a reset: every slot of a worker with the seed of its worker."""
        if seed is not None:
            if not isinstance(seed, (int, np.integer)):
                raise TypeError(f"seed is {seed!r}; native shards have one stream each: give an int, or None.")
            if not check_mask(mask, self.num_envs).all():
                raise ValueError("Native shards have one stream each: a seed needs a reset of all sub-envs.")
        request = reset_request(None, options, mask, self.num_envs)
        if seed is None:
            return request
        seeds = [
            own for own, (lo, hi) in zip(slot_seeds(seed, len(bounds)), bounds, strict=True) for _ in range(lo, hi)
        ]
        return request._replace(seeds=seeds)


def shards_of(given: Iterable[EnvFactory] | Shards) -> Shards:
    """Shards as they were given, or of single environments."""
    return given if isinstance(given, NativeShards) else SyncShards(given)  # type: ignore[arg-type]  # factories
