"""The board: batches that were handed out stay as they are, and large ones are not copied while there is room."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sekai
from sekai.vector.board import LARGE, Board

BIG = sekai.Box(-np.inf, np.inf, (LARGE // 8,), np.float64)
SMALL = sekai.Box(-np.inf, np.inf, (2,), np.float64)
BOTH = sekai.Dict({"a": BIG, "b": sekai.Discrete(99)})


def call(board: Board, value: float) -> Any:
    """What a worker and the caller do in one call."""
    place = board.observations[board.next_place()]
    for rows in place.values() if isinstance(place, dict) else (place,):
        rows[...] = value
    return board.take_observations()


def values(batch: Any) -> list[float]:
    return [float(rows.flat[-1]) for rows in (batch.values() if isinstance(batch, dict) else (batch,))]


def shared(board: Board, batch: Any) -> bool:
    """Whether a batch stands in the memory of the board."""
    rows = batch["a"] if isinstance(batch, dict) else batch
    return any(np.shares_memory(rows, p["a"] if isinstance(p, dict) else p) for p in board.observations)


@pytest.mark.parametrize("space", [BIG, SMALL, BOTH])
@pytest.mark.parametrize("keep", [0, 1, 2, 3, 10])
def test_what_was_handed_out_is_never_written_to_again(space: Any, keep: int) -> None:
    board = Board(space, sekai.Discrete(2), 1, 1)
    held: list[tuple[int, Any]] = []
    for k in range(20):
        held.append((k, call(board, k)))
        for value, batch in held:
            assert set(values(batch)) == {float(value)}
        del held[: max(0, len(held) - keep)]


def test_large_batches_are_handed_out_as_they_stand_while_one_place_more_is_free() -> None:
    board = Board(BIG, sekai.Discrete(2), 1, 1)
    first, second = call(board, 1), call(board, 2)
    assert shared(board, first) and shared(board, second)
    third = call(board, 3)
    assert not shared(board, third) and values(third) == [3.0]
    del first
    assert shared(board, call(board, 4)) and values(second) == [2.0]


def test_a_view_of_a_view_holds_its_place() -> None:
    board = Board(BIG, sekai.Discrete(2), 1, 1)
    part = call(board, 1).reshape(-1)[10:12][::-1]
    for k in range(5):
        call(board, k)
    assert part.tolist() == [1.0, 1.0]


def test_one_part_of_a_dict_holds_the_place_of_all() -> None:
    board = Board(BOTH, sekai.Discrete(2), 1, 1)
    count = call(board, 1)["b"]
    for k in range(5):
        call(board, k + 2)
    assert count.tolist() == [1]


def test_small_batches_are_copied() -> None:
    board = Board(SMALL, sekai.Discrete(2), 3, 1)
    assert len(board.observations) == 1 and not shared(board, call(board, 1))


def test_control_lines_of_workers_do_not_touch() -> None:
    board = Board(SMALL, sekai.Discrete(2), 4, 2)
    assert board.at(1, 0) - board.at(0, 0) == 16  # int64: two lines of 64 bytes
    board.control[board.at(1, 0)] = 5
    assert board.control[board.at(0, 0)] == 0
