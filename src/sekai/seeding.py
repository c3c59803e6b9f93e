"""Seeds: what may be given, and the tree that turns one seed into many.

Only the vector level has a tree: `spawn_seeds(seed, n)` makes the `n` children of `SeedSequence(seed)`, each
a Python int below 2**63, which is what torch and most libraries take. A single environment seeded with an
int uses `numpy.random.default_rng(int)` itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import TypeAlias

import numpy as np

Seed: TypeAlias = int | np.random.Generator | None
VecSeed: TypeAlias = int | Sequence[Seed] | None

EXPECTED = "an int >= 0, None or a numpy.random.Generator"


def check_seed(seed: object, where: str = "seed") -> Seed:
    """Return `seed` with NumPy integers made Python ints; refuse what is no seed.

    Raises:
        TypeError: not an int (`True` is none), `None` or a `Generator`.
        ValueError: a negative int.
    """
    if seed is None or isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        if seed < 0:
            raise ValueError(f"{where} is {int(seed)}; expected {EXPECTED}.")
        return int(seed)
    raise TypeError(f"{where} is {seed!r} ({type(seed).__name__}); expected {EXPECTED}.")


def derived_generator(source: np.random.Generator, key: Sequence[int]) -> np.random.Generator:
    """A generator determined by the state of another and by a key.

    The other is neither advanced nor asked to spawn, so whoever uses it notices nothing.
    """
    words = deepcopy(source).integers(2**32, size=4, dtype=np.uint32)
    seed = np.random.SeedSequence([int(word) for word in words], spawn_key=tuple(key))
    return np.random.Generator(np.random.PCG64(seed))


def spawn_seeds(seed: int, n: int) -> list[int]:
    """`n` statistically independent seeds from one, each in `[0, 2**63)`.

    Source: NumPy's `SeedSequence.spawn`; the first 64-bit word of each child's state, halved.
    """
    children = np.random.SeedSequence(seed).spawn(n)
    return [int(child.generate_state(1, np.uint64)[0] >> np.uint64(1)) for child in children]


def slot_seeds(seed: VecSeed, n: int) -> list[Seed]:
    """One seed per sub-environment from what `VecEnv.reset(seed=...)` was given.

    Args:
        seed: an int (children are spawned), a list of `n` seeds, or None (every slot continues its stream).

    Raises:
        TypeError: a single `Generator`, or an entry that is no seed (the message names its index).
        ValueError: a list of the wrong length, or a negative seed.
    """
    if seed is None:
        return [None] * n
    if isinstance(seed, np.random.Generator):
        raise TypeError(f"One generator cannot seed {n} sub-envs independently; give an int, or a list of {n} seeds.")
    if isinstance(seed, (list, tuple)) or (isinstance(seed, np.ndarray) and seed.ndim):
        if len(seed) != n:
            raise ValueError(f"seed has {len(seed)} entries; expected {n}, one per sub-env.")
        entries = [check_seed(entry, f"seed[{i}]") for i, entry in enumerate(seed)]
        generators = [id(entry) for entry in entries if isinstance(entry, np.random.Generator)]
        if len(set(generators)) < len(generators):
            raise ValueError("seed has the same generator twice; sub-envs would share a stream: give each its own.")
        return entries
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(
            f"seed is {seed!r} ({type(seed).__name__}); expected an int >= 0, a list of {n} seeds, or None."
        )
    if seed < 0:
        raise ValueError(f"seed is {int(seed)}; expected an int >= 0, a list of {n} seeds, or None.")
    return list(spawn_seeds(int(seed), n))
