"""`League`: who plays whom in which slots, earlier selves of both players, and how their games end.

Slots are divided once, in blocks, so that nothing has to be drawn and each pair has games of its own all the time:

    earlier controllers x the disturbance that learns      the disturbance must not forget how to beat them
    the two that learn
    the controller that learns x earlier disturbances      nor the controller how to withstand those,
    the controller that learns x no disturbance            nor what it does when nobody pushes,
    the controller that learns x random disturbances       or someone does at random

So games with others than each other cost a fixed share of the steps. Earlier selves act without noise.
"""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import nn

from sekai.safety.arrays import Tensor

ZERO, RANDOM = "zero", "random"


class Match(NamedTuple):
    """Who plays whom.

    Attributes:
        name: for logs.
        controller: index of an earlier controller; None for the one that learns.
        disturbance: index of an earlier one, `"zero"` or `"random"`; None for the one that learns.
        slots: where.
    """

    name: str
    controller: int | None
    disturbance: int | str | None
    slots: slice


def matches(num_envs: int, size: int, share: float) -> list[Match]:
    """The blocks of `num_envs` slots.

    Args:
        num_envs: N.
        size: how many earlier selves of each player there are.
        share: of the slots that are for others than the two that learn, within [0, 1).

    Raises:
        ValueError: too few slots for one of each.
    """
    controllers: list[tuple[str, int | None, int | str | None]] = [
        (f"past_controller_{i}", i, None) for i in range(size)
    ]
    disturbances: list[tuple[str, int | None, int | str | None]] = [
        *((f"past_disturbance_{i}", None, i) for i in range(size)),
        (ZERO, None, ZERO),
        (RANDOM, None, RANDOM),
    ]
    others = len(controllers) + len(disturbances)
    if num_envs <= others:
        raise ValueError(
            f"There are {num_envs} slots, and a league of league_size={size} plays in {others + 1} blocks of slots: "
            f"use at least {others + 1} slots, or a smaller league."
        )
    each = max(1, int(num_envs * share / others))
    order = [*controllers, ("current", None, None), *disturbances]
    widths = [num_envs - each * others if name == "current" else each for name, _, _ in order]
    ends = torch.tensor(widths).cumsum(0).tolist()
    return [Match(*entry, slice(end - width, end)) for entry, end, width in zip(order, ends, widths, strict=True)]


class League(nn.Module):  # type: ignore[misc]  # torch is an extra, and read as Any
    """Earlier selves, and scores.

    Args:
        controller, disturbance: the two that learn; earlier selves begin as copies of them.
        size: how many earlier selves of each are kept.
        pairs: who plays whom.

    Attributes:
        controllers, disturbances: earlier selves.
        wins, games: of the controller of each match, `(M,)`; older ones count for half with every `take`.
        born: environment steps at which each earlier self was taken, `(2, size)`: controllers first; -1 where none was.
    """

    def __init__(self, controller: nn.Module, disturbance: nn.Module, size: int, pairs: list[Match]) -> None:
        super().__init__()
        self.controllers = nn.ModuleList(_frozen(controller) for _ in range(size))
        self.disturbances = nn.ModuleList(_frozen(disturbance) for _ in range(size))
        self._pairs, self._size = pairs, size
        of_slot = torch.cat([torch.full((pair.slots.stop - pair.slots.start,), m) for m, pair in enumerate(pairs)])
        self.register_buffer("match_of_slot", of_slot, persistent=False)  # a loaded league may have other slots
        self.register_buffer("wins", torch.zeros(len(pairs)))
        self.register_buffer("games", torch.zeros(len(pairs)))
        self.register_buffer("born", torch.full((2, size), -1))

    def begin(self, controller: nn.Module, disturbance: nn.Module) -> None:
        """Make all earlier selves copies of these two, as at first."""
        for kept, new in ((self.controllers, controller), (self.disturbances, disturbance)):
            for network in kept:
                network.load_state_dict(new.state_dict())

    def count(self, ended: Tensor, won: Tensor) -> None:
        """Count games: whether each slot's has ended, and whether its controller won, bool `(N,)`."""
        self.games.index_add_(0, self.match_of_slot, ended.float())
        self.wins.index_add_(0, self.match_of_slot, (ended & won).float())

    def win_rates(self) -> dict[str, float]:
        """Share of the games of each match that its controller won, read from the device; of those that had games."""
        numbers = zip(self._pairs, self.wins.tolist(), self.games.tolist(), strict=True)
        return {pair.name: wins / games for pair, wins, games in numbers if games > 0}

    def take(self, controller: nn.Module, disturbance: nn.Module, steps: int) -> None:
        """Keep the two as they are now, in the places of the earlier selves that have become the easiest to beat.

        One of which no game has ended counts as the hardest.

        Args:
            controller, disturbance: the two that learn.
            steps: environment steps so far.
        """
        if self._size == 0:
            return
        rates = self.win_rates()
        for row, (kind, kept, new) in enumerate(
            (("controller", self.controllers, controller), ("disturbance", self.disturbances, disturbance))
        ):
            names = [f"past_{kind}_{i}" for i in range(self._size)]
            sign = 1 if kind == "disturbance" else -1
            loses = [sign * rates[name] if name in rates else -math.inf for name in names]
            free = (self.born[row] < 0).tolist()
            place = free.index(True) if any(free) else loses.index(max(loses))
            kept[place].load_state_dict(new.state_dict())
            self.born[row, place] = steps
            self.games[self._index(names[place])] = 0.0
            self.wins[self._index(names[place])] = 0.0
        self.games *= 0.5
        self.wins *= 0.5

    def _index(self, name: str) -> int:
        return next(m for m, pair in enumerate(self._pairs) if pair.name == name)


def _frozen(network: nn.Module) -> Any:
    return deepcopy(network).requires_grad_(False)
