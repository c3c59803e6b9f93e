"""What runs in a worker process: a share of the slots, answering numbered requests.

A request is `(number, command, payload)`. The answer bears its number, so that the answer to a call which was
interrupted can be told from the one that is waited for, and says in which phase and episode each slot of the share is
now. Failures travel as data, since an exception may not pickle.

Requests and answers go through a `Desk`. At the `PipeDesk` all of it is pickled. At the `BoardDesk` rows stand on the
shared `Board`, two semaphores wake the two sides, and the pipe carries only what has no place on the board.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol

import numpy as np

from sekai.vector.block import receive_block
from sekai.vector.board import ANSWERED, ASKED, COMMAND, IN_PIPE, MESSAGE, NO_MESSAGE, STEP, TRAY_BYTES, Board
from sekai.vector.child import caller_has_died, prepare_process
from sekai.vector.failure import Failure
from sekai.vector.pickling import dumps, dumps_by_value
from sekai.vector.share import Share
from sekai.vector.slot_desk import serve_slots
from sekai.vector.spin import changes
from sekai.vector.worker_replies import Reply, pack_value

IDLE = 1.0  # seconds after which a worker at the board looks whether the caller is still there


class Desk(Protocol):
    """Where a worker takes requests and leaves answers."""

    def next(self) -> tuple[int, str, bytes | None] | None:
        """Number, command and pickled payload of the next request; None when the caller is gone."""
        ...

    def answer(self, number: int, value: Any, share: Share) -> None:
        """Answer a request."""
        ...


class PipeDesk:
    """Everything travels pickled."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def next(self) -> tuple[int, str, bytes | None] | None:
        """Number, command and pickled payload of the next request; None when the caller is gone."""
        return _read(self._pipe)

    def answer(self, number: int, value: Any, share: Share) -> None:
        """Answer a request."""
        self._pipe.send_bytes(pickle.dumps(Reply(number, pack_value(value), share.phase, share.episode)))


class BoardDesk:
    """Rows stand on the board, and what has no place there travels pickled.

    Args:
        pipe: for messages.
        semaphores: `go` and `done`; the caller releases the first when it has asked, the worker the second when it has
            answered. They only wake: what has been asked and answered stands on the board.
        board: the board.
        index: number of the worker.
        asked: number of the last request that came another way.
    """

    def __init__(self, pipe: Connection, semaphores: tuple[Any, Any], board: Board, index: int, asked: int) -> None:
        self._pipe, (self._go, self._done) = pipe, semaphores
        self._control = board.control
        self._asked, self._command, self._answered, self._message = (
            board.at(index, field) for field in (ASKED, COMMAND, ANSWERED, MESSAGE)
        )
        self._tray = board.trays[index]
        self._spins = board.spins
        self._last = asked

    def next(self) -> tuple[int, str, bytes | None] | None:
        """Number, command and pickled payload of the next request; None when the caller is gone."""
        control = self._control
        if self._spins and changes(control, self._asked, self._last):
            self._go.acquire(False)  # each request brings one, which would pile up
        while control[self._asked] == self._last:
            if not self._go.acquire(True, IDLE) and self._caller_is_gone():
                return None
        self._last = control[self._asked]
        if control[self._command] == STEP:
            return self._last, "step", None
        return _read(self._pipe)

    def answer(self, number: int, value: Any, share: Share) -> None:
        """Answer a request."""
        packed = None if value is None else pack_value(value)
        share.post_phases()
        in_pipe = packed is not None and len(packed) > TRAY_BYTES
        if packed is not None and not in_pipe:
            self._tray[: len(packed)] = packed
        self._control[self._message] = NO_MESSAGE if packed is None else IN_PIPE if in_pipe else len(packed)
        self._control[self._answered] = number
        self._done.release()
        if packed is not None and in_pipe:
            self._pipe.send_bytes(packed)

    def _caller_is_gone(self) -> bool:
        # something to read from the pipe, and no request that announced it: its end. A process that was forked later
        # than this one may keep the pipe open.
        return caller_has_died.is_set() or (self._pipe.poll(0) and self._control[self._asked] == self._last)


def _read(pipe: Connection) -> tuple[int, str, bytes | None] | None:
    """A request from the pipe; None when the caller is gone."""
    try:
        request: tuple[int, str, bytes | None] = pickle.loads(pipe.recv_bytes())
    except (EOFError, OSError):
        return None
    return request


def work(
    pipe: Connection,
    semaphores: tuple[Any, Any] | None,
    build: bytes,
    first_slot: int,
    count: int,
    entropy: tuple[int, ...],
) -> None:
    """Build the share, then answer requests until told to close or until the caller is gone.

    Args:
        pipe: to the caller.
        semaphores: `go` and `done` of this worker, see `BoardDesk`; None where there will be no board.
        build: pickle of a function of the first slot that builds the `Share`.
        first_slot, count: the slots of the share.
        entropy: what the global random generators of this process are seeded with.
    """
    prepare_process(entropy)
    share, value = build_share(build, first_slot)
    nothing = np.zeros(count, np.int8), [-1] * count
    try:
        pipe.send_bytes(pickle.dumps(Reply(0, pack_value(value), *nothing)))
        if share is not None:
            _serve(share, pipe, semaphores)
    except ConnectionError:  # the caller is gone
        if share is not None:
            share.vec.close()


def _serve(share: Share, pipe: Connection, semaphores: tuple[Any, Any] | None) -> None:
    desk: Desk = PipeDesk(pipe)
    while not share.vec.closed:
        request = desk.next()
        if request is None:  # the caller is gone
            share.vec.close()
            return
        number, command, packed = request
        if command == "attach":
            try:
                desk = _attached(share, desk, pipe, semaphores, (number, packed))
            except Exception as error:
                desk.answer(number, Failure.of(error), share)
        elif command == "slots":
            if not serve_slots(share, pipe):
                share.vec.close()
                return
            desk.answer(number, None, share)
        else:
            desk.answer(number, obeyed(share, command, packed), share)


def build_share(build: bytes, first_slot: int) -> tuple[Share | None, Any]:
    """A share, and what the caller has to know of it; None and a `Failure` where it cannot be built.

    Args:
        build: pickle of a function of the first slot that builds it.
        first_slot: index of the first of its slots.
    """
    try:
        builder: Callable[[int], Share] = pickle.loads(build)
        share = builder(first_slot)
        return share, share.run_facts(None)
    except Exception as error:
        return None, Failure.of(error)


def obeyed(share: Share, command: str, packed: bytes | None) -> Any:
    """What a command returned, or a `Failure`; `packed` is its pickled payload."""
    try:
        return getattr(share, f"run_{command}")(None if packed is None else pickle.loads(packed))
    except Exception as error:
        return Failure.of(error)


def _attached(share: Share, desk: Desk, pipe: Connection, semaphores: Any, request: tuple[int, Any]) -> BoardDesk:
    """The desk from the next request on, which is asked for with a pickled `Attachment`."""
    number, attachment = request[0], pickle.loads(request[1])
    observation_space, action_space, num_envs, num_workers = attachment.sizes
    block = receive_block(pipe)
    board = Board(observation_space, action_space, num_envs, num_workers, block)
    block.close()  # the arrays keep the memory
    share.attach(board, attachment.worker, attachment.lo, attachment.asks_episodes)
    desk.answer(number, None, share)
    return BoardDesk(pipe, semaphores, board, attachment.worker, number)


class Attachment(NamedTuple):
    """What a worker has to know to lay out the board.

    Attributes:
        sizes: arguments of `Board`.
        worker, lo: number of the worker, and its first slot.
        asks_episodes: whether the caller wants to know which episode each slot is in.
    """

    sizes: tuple[Any, Any, int, int]
    worker: int
    lo: int
    asks_episodes: bool


def pack_request(number: int, command: str, payload: Any) -> bytes:
    """A request as it is sent; the payload is pickled on its own, so that the rest can be read where it cannot.

    A step carries arrays. Everything else may carry objects of the caller's script, and travels by value.
    """
    return pickle.dumps((number, command, dumps(payload) if command == "step" else dumps_by_value(payload)))
