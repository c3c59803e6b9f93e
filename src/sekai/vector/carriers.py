"""How rows travel between the caller and its workers: pickled, or on the shared `Board`.

Both carriers turn a batch of actions into one payload per worker, and what the workers returned into the rows of all
slots. What a worker returned may also be `Begun`: a new worker stands in for one that was lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np

from sekai.core.slots import RowKind
from sekai.spaces import map_arrays
from sekai.vector.board import Board
from sekai.vector.info_columns import InfoNews, InfoReader
from sekai.vector.infos import Infos
from sekai.vector.requests import Options
from sekai.vector.share import ResetColumns, StepColumns, StepRequest
from sekai.vector.shares import cut, join

Bounds = Sequence[tuple[int, int]]
#: observations, rewards, terminated, truncated, infos, kind, ended of all slots
Rows = tuple[Any, Any, Any, Any, Infos, Any, Any]
#: observations, infos, dones of all slots
FirstRows = tuple[Any, Infos, Any]


class Begun(NamedTuple):
    """First rows of a share whose worker was lost in a step and stands anew."""

    first: ResetColumns


class Carrier(Protocol):
    """How rows travel."""

    def requests(self, actions: Any, options: Sequence[Options] | None) -> list[StepRequest | None]:
        """The payload of a step for each worker; None: the worker needs no message.

        Args:
            actions: batch of checked actions of all slots.
            options: of the next episodes of all slots; None: there are none.
        """
        ...

    def step(self, parts: Sequence[Any]) -> Rows:
        """The rows of a step, from what each worker returned."""
        ...

    def prepare_reset(self) -> None:
        """A reset is about to be asked for."""
        ...

    def reset(self, parts: Sequence[ResetColumns]) -> FirstRows:
        """The rows of a reset, from what each worker returned."""
        ...

    def first_observations(self, worker: int, first: ResetColumns) -> Any:
        """The observations of one share, from what its worker returned of a reset."""
        ...

    def learn(self, worker: int, news: InfoNews) -> None:
        """Keep what an answer to a step says of the infos of later ones."""
        ...

    def forget(self, worker: int) -> None:
        """A worker begins anew."""
        ...


class PickledRows:
    """Everything travels pickled.

    Args:
        observation_space, action_space: of one slot.
        bounds: `[lo, hi)` of each worker's slots.
    """

    def __init__(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], bounds: Bounds
    ) -> None:
        self._observation_space, self._action_space, self._bounds = observation_space, action_space, bounds

    def requests(self, actions: Any, options: Sequence[Options] | None) -> list[StepRequest | None]:
        """The payload of a step for each worker."""
        return [
            StepRequest(cut(self._action_space, actions, lo, hi), _of_share(options, lo, hi)) for lo, hi in self._bounds
        ]

    def step(self, parts: Sequence[Any]) -> Rows:
        """The rows of a step, from what each worker returned."""
        shares = [_as_step(part.first) if isinstance(part, Begun) else part for part in parts]
        observations, rewards, terminated, truncated, infos, kinds, ended = zip(*shares, strict=True)
        return (
            join(self._observation_space, observations),
            np.concatenate(rewards),
            np.concatenate(terminated),
            np.concatenate(truncated),
            Infos.of(info for share in infos for info in share),
            np.concatenate(kinds),
            np.concatenate(ended),
        )

    def prepare_reset(self) -> None:
        """Nothing to prepare."""

    def reset(self, parts: Sequence[ResetColumns]) -> FirstRows:
        """The rows of a reset, from what each worker returned."""
        observations, infos, dones = zip(*parts, strict=True)
        rows = Infos.of(info for share in infos for info in share)
        return join(self._observation_space, observations), rows, np.concatenate(dones)

    def first_observations(self, worker: int, first: ResetColumns) -> Any:
        """The observations of one share."""
        return first.observations

    def learn(self, worker: int, news: InfoNews) -> None:
        """Pickled infos come whole."""

    def forget(self, worker: int) -> None:
        """A worker begins anew: nothing is known of any."""


class SharedRows:
    """Rows stand on the board.

    Args:
        board: the board.
        bounds: `[lo, hi)` of each worker's slots.
    """

    def __init__(self, board: Board, bounds: Bounds) -> None:
        self._board, self._bounds = board, bounds
        self._infos = InfoReader(board.infos, bounds)
        self._action_space = board.action_space
        self._plain: list[StepRequest | None] = [None] * len(bounds)

    def requests(self, actions: Any, options: Sequence[Options] | None) -> list[StepRequest | None]:
        """The payload of a step for each worker; None: the worker needs no message."""
        self._board.next_place()
        if self._board.actions is None:
            shares: list[Any] = [cut(self._action_space, actions, lo, hi) for lo, hi in self._bounds]
        else:
            map_arrays(np.copyto, self._board.actions, actions)
            if options is None:
                return self._plain
            shares = [None] * len(self._bounds)
        return [
            StepRequest(share, _of_share(options, lo, hi)) for share, (lo, hi) in zip(shares, self._bounds, strict=True)
        ]

    def step(self, parts: Sequence[Any]) -> Rows:
        """The rows of a step, from what each worker returned."""
        board, news = self._board, list(parts)
        for worker, part in enumerate(parts):
            if isinstance(part, Begun):
                news[worker] = self._begin(worker, part.first)
        return (
            board.take_observations(),
            board.rewards.copy(),
            board.terminated.copy(),
            board.truncated.copy(),
            self._infos.read(news),
            board.kind.copy(),
            board.ended.copy(),
        )

    def _begin(self, worker: int, first: ResetColumns) -> InfoNews:
        lo, hi = self._bounds[worker]
        _, rewards, terminated, truncated, infos, kind, ended = _as_step(first)
        board = self._board
        board.rewards[lo:hi], board.kind[lo:hi] = rewards, kind
        board.terminated[lo:hi], board.truncated[lo:hi], board.ended[lo:hi] = terminated, truncated, ended
        return InfoNews(None, dict(enumerate(infos)))

    def prepare_reset(self) -> None:
        """First observations go to the next place."""
        self._board.next_place()

    def reset(self, parts: Sequence[ResetColumns]) -> FirstRows:
        """The rows of a reset, from what each worker returned."""
        rows = Infos.of(info for part in parts for info in part.infos)
        return self._board.take_observations(), rows, np.concatenate([part.dones for part in parts])

    def first_observations(self, worker: int, first: ResetColumns) -> Any:
        """The observations of one share."""
        board, (lo, hi) = self._board, self._bounds[worker]
        return map_arrays(lambda rows: rows[lo:hi], board.observations[board.place])

    def learn(self, worker: int, news: InfoNews) -> None:
        """Keep the form of the infos."""
        self._infos.learn(worker, news)

    def forget(self, worker: int) -> None:
        """A worker begins anew."""
        self._infos.forget(worker)


def _of_share(options: Sequence[Options] | None, lo: int, hi: int) -> dict[int, Options]:
    return {} if options is None else dict(enumerate(options[lo:hi]))


def _as_step(first: ResetColumns) -> StepColumns:
    """First rows of new episodes, as rows of a step in which the old ones were lost."""
    n = len(first.dones)
    nothing = np.zeros(n, bool)
    kind = np.full(n, RowKind.LOST, np.int8)
    return StepColumns(first.observations, np.zeros(n), nothing, nothing, first.infos, kind, nothing)
