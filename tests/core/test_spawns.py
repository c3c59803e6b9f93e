"""`Spawns` is an abstract class, so that NumPy's generators are not taken for one."""

from __future__ import annotations

from typing import Self

import numpy as np
import pytest

import sekai


def test_only_subclasses_spawn() -> None:
    class Shared(sekai.Spawns):
        def spawn(self) -> Self:
            return self

    shared = Shared()
    assert isinstance(shared, sekai.Spawns)
    assert shared.spawn() is shared
    generator = np.random.default_rng(0)
    assert hasattr(generator, "spawn")
    assert not isinstance(generator, sekai.Spawns)


def test_a_subclass_without_spawn_cannot_be_made() -> None:
    class Forgotten(sekai.Spawns):
        pass

    with pytest.raises(TypeError, match="spawn"):
        Forgotten()  # type: ignore[abstract]  # the mistake under test
