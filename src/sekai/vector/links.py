"""`Link`: the caller's end of one worker."""

from __future__ import annotations

import pickle
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from sekai.errors import VecEnvClosed
from sekai.vector.block import send_block
from sekai.vector.board import (
    ANSWERED,
    ASKED,
    COMMAND,
    IN_MESSAGE,
    IN_PIPE,
    MESSAGE,
    NO_MESSAGE,
    PLACE,
    STEP,
    Board,
)
from sekai.vector.signals import ALARM, Deferred
from sekai.vector.spin import changes
from sekai.vector.worker import Attachment, pack_request
from sekai.vector.worker_replies import Reply

#: seconds between two looks at whether the worker lives, while its answer is waited for
WATCH = 0.05
#: seconds within which a process ends whose end of the pipe is gone
ENDING = 5.0


class Gate:
    """Tells calls that wait for workers that another thread has closed what they wait for.

    Attributes:
        shut: whether it has.
    """

    shut = False

    def check(self) -> None:
        """Raise `VecEnvClosed` while the gate is shut."""
        if self.shut:
            raise VecEnvClosed


class Slow(Exception):
    """No answer came in time."""


class Link:
    """The caller's end of one worker.

    Args:
        index, lo, hi: number of the worker, and the bounds `[lo, hi)` of its slots.
        process, pipe: what it runs in, and how to reach it.
        semaphores: `go` and `done`, see `BoardDesk`; None where there will be no board.
        gate: looked at while an answer is waited for.

    Attributes:
        waiting_for: number of the request whose answer has not been read.
        inbox: an answer that has been read and not yet taken, where an interrupt came between the two.
        dead: it does not answer any more.
        released: its process has ended, and nothing of it is held any more.
        pid: process id.
    """

    def __init__(
        self,
        index: int,
        bounds: tuple[int, int],
        process: Any,
        pipe: Connection,
        semaphores: tuple[Any, Any] | None,
        gate: Gate,
    ) -> None:
        self.index, (self.lo, self.hi) = index, bounds
        self.process, self.pipe, self.pid = process, pipe, process.pid
        self.released = False
        self._exit_code: int | None = None
        self.waiting_for: int | None = 0  # what it is, and its spaces
        self.inbox: list[Reply] = []
        self.dead = False
        self._semaphores = semaphores
        self._gate = gate
        self._board: Board | None = None
        self._rows: Any = None
        self._interrupt, self._alarm = Deferred(signal.SIGINT), Deferred(ALARM)

    def attach(self, board: Board, attachment: Attachment, number: int) -> None:
        """Ask the worker to use the board from the next request on."""
        self._asked, self._command, self._place, self._answered, self._message = (
            board.at(self.index, field) for field in (ASKED, COMMAND, PLACE, ANSWERED, MESSAGE)
        )
        board.control[self._asked] = board.control[self._answered] = number  # the worker looks for the next one
        self.send(number, pack_request(number, "attach", attachment))
        if not self.dead:
            try:
                send_block(board.block, self.pipe, self.pid)
            except OSError:
                self.dead = True

    def use(self, board: Board) -> None:
        """The worker has attached itself."""
        self._board = board
        self._rows = board.phase[self.lo : self.hi], board.episode[self.lo : self.hi]

    def send(self, number: int, request: bytes | None) -> None:
        """Send a request; a worker that has died is marked so.

        Args:
            number: of the request.
            request: as it is pickled; None for a step whose actions stand on the board.
        """
        if self.dead:
            return
        try:
            if request is None:
                self._ask(number, STEP)
                return
            with self._alarm, self._interrupt:
                if self._board is not None:
                    self._ask(number, IN_MESSAGE)
                self.pipe.send_bytes(request)
                self.waiting_for = number
        except ConnectionError:
            self.dead = True

    def post(self, message: bytes, posted: Callable[[], object]) -> None:
        """Send what is no request of its own; `posted` is called before an interrupt can come."""
        try:
            with self._alarm, self._interrupt:
                self.pipe.send_bytes(message)
                posted()
        except ConnectionError:
            self.dead = True

    def read(self) -> bool:
        """Read into the inbox what is no answer to a request of its own; False when the worker has died."""
        if self.released or not (self.inbox or self._read_message(pickle.loads)):
            self.dead = True
            return False
        return True

    def _ask(self, number: int, command: int) -> None:
        # an interrupt may come between any two of these lines: see `_never_asked`, and a worker looks by itself as well
        assert self._board is not None and self._semaphores is not None
        control = self._board.control
        control[self._command], control[self._place] = command, self._board.place
        self.waiting_for = number
        control[self._asked] = number
        self._semaphores[0].release()

    def exit_code(self, seconds: float = 0.0) -> int | None:
        """Exit code, minus the signal where one ended it; None while it lives, also after so many seconds."""
        if not self.released:
            self.process.join(seconds)
            self._exit_code = self.process.exitcode
        return self._exit_code

    def release(self) -> None:
        """Give back what it holds, once the process has ended."""
        with self._alarm, self._interrupt:  # or the rest of it would never be
            self.exit_code()
            self.released = True
            self.pipe.close()
            self.process.close()
            self.inbox.clear()
            self._board = self._semaphores = self._rows = None

    def receive(self, deadline: float | None = None, looks: bool = False) -> Reply | None:
        """The next answer, None when the worker has died. It stays the next one until it is `taken`.

        Args:
            looks: whether to look for a moment before going to sleep, since it must be about to come.
            deadline: when to stop waiting, in seconds of `time.monotonic`.

        Raises:
            Slow: no answer by then.
        """
        if not self.inbox:
            alive = self._read_pipe(deadline) if self._board is None else self._read_board(self._board, deadline, looks)
            if not alive:
                self.dead = True
                return None
        return self.inbox[0]

    def taken(self, reply: Reply) -> None:
        """What the answer says has been kept."""
        if reply.number == self.waiting_for:
            self.waiting_for = None
        self.inbox.clear()

    def drop_unasked(self) -> None:
        """Wait for no answer to a request that an interrupt kept from being asked."""
        if self._board is not None and self._board.control[self._asked] != self.waiting_for:
            self.waiting_for = None

    def _read_pipe(self, deadline: float | None) -> bool:
        """Wait for an answer and put it into the inbox; False when the worker has died."""
        while not wait([self.pipe, self.process.sentinel], WATCH):
            self._go_on(deadline)
        return self._read_message(pickle.loads)

    def _read_board(self, board: Board, deadline: float | None, looks: bool) -> bool:
        """`_read_pipe`, for an answer that is announced on the board."""
        assert self._semaphores is not None
        control, done, number = board.control, self._semaphores[1], self.waiting_for
        assert number is not None
        seen = control[self._answered]
        if seen == number or (looks and board.spins and changes(control, self._answered, seen)):
            done.acquire(False)  # each answer brings one, which would pile up
        while control[self._answered] != number:
            if not done.acquire(True, WATCH):
                self._go_on(deadline)
                if not self.process.is_alive() and control[self._answered] != number:
                    return False
        length = control[self._message]
        if length == IN_PIPE:
            return self._read_message(lambda packed: Reply(number, packed, *self._rows))
        packed = None if length == NO_MESSAGE else bytes(board.trays[self.index][:length])
        self.inbox.append(Reply(number, packed, *self._rows))
        return True

    def _read_message(self, opened: Callable[[bytes], Reply]) -> bool:
        """Read one message into the inbox; False when the worker has died."""
        try:
            while not self.pipe.poll(WATCH):
                self._gate.check()
                if not self.process.is_alive() and not self.pipe.poll(0):
                    return False
            with self._alarm, self._interrupt:
                self.inbox.append(opened(self.pipe.recv_bytes()))
        except (EOFError, ConnectionError):
            return False  # it has died
        except OSError:
            # the pipe's own, when it ended within a reply; any other is the caller's, of a signal handler. The pipe of
            # a process that is killed ends a moment before the process does
            if self.exit_code(ENDING) is None:
                raise
            return False
        return True

    def _go_on(self, deadline: float | None) -> None:
        """Called now and then while an answer is waited for."""
        self._gate.check()
        if deadline is not None and time.monotonic() >= deadline:
            raise Slow
