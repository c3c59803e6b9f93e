"""`Spawns`: things that every sub-environment gets a copy of its own of, or shares, as they choose."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Spawns(ABC):
    """Something `make_vec` hands to every sub-environment through `spawn()`.

    An abstract class and not a protocol: NumPy's generators have a `spawn` too, and mean something else.
    """

    @abstractmethod
    def spawn(self) -> Self:
        """The object for one sub-environment: `self` when it is shared, a fresh copy when it has state."""
