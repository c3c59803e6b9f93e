"""`StatsTree`: running statistics of the parts of a nested space."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.stats.running import RunningStats
from sekai.stats.state import check_state


class StatsTree:
    """The statistics of the parts of a nested space: `tree["camera"]`, `tree["joints"][0]`.

    Args:
        leaves: statistics by the place of their part, e.g. `{"['joints'][0]": RunningStats((3,))}`.
    """

    def __init__(self, leaves: Mapping[str, RunningStats]) -> None:
        self._leaves = dict(leaves)

    def __getitem__(self, key: str | int) -> RunningStats | StatsTree:
        step = f"[{key!r}]"
        below = {place.removeprefix(step): leaf for place, leaf in self._leaves.items() if place.startswith(step)}
        if not below:
            raise KeyError(f"{key!r}: there are statistics of {list(self._leaves)}.")
        return below[""] if "" in below else StatsTree(below)

    def __iter__(self) -> Iterator[RunningStats]:
        return iter(self._leaves.values())

    def state_dict(self) -> dict[str, NDArray[np.float64]]:
        """The state of every part, `"['joints'][0].mean"` and so on."""
        return {
            f"{place}.{name}": value
            for place, leaf in self._leaves.items()
            for name, value in leaf.state_dict().items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Raises:
            ValueError: as `RunningStats.load_state_dict`; nothing is taken over.
        """
        loaded = check_state(state, self.state_dict())
        if any((value < 0).any() for name, value in loaded.items() if not name.endswith(".mean")):
            raise ValueError("The state holds a variance or a count below zero.")
        for place, leaf in self._leaves.items():
            leaf.load_state_dict({name: loaded[f"{place}.{name}"] for name in leaf.state_dict()})

    def __repr__(self) -> str:
        return f"StatsTree({self._leaves})"
