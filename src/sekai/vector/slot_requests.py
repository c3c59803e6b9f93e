"""Overlapped steps of slots in worker processes: the caller's end. What is said is written down in `slot_desk`.

A caller that writes to a worker which writes to it must not wait for it: requests that may not fit into the pipe while
the worker has others stay with the caller until rows have come back.
"""

from __future__ import annotations

import pickle
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import RowKind
from sekai.spaces import read_row
from sekai.vector.board import Board
from sekai.vector.carriers import Carrier
from sekai.vector.failure import SLOW, Failure, first_failure, obituary
from sekai.vector.links import WATCH, Gate, Link
from sekai.vector.outstanding import Request, Row, first_row
from sekai.vector.overlapping import OverlappingVecEnv, deadline_of
from sekai.vector.pickling import dumps
from sekai.vector.requests import ResetRequest
from sekai.vector.restarts import Restarts
from sekai.vector.slot_desk import END

ROOM, MOST = 8192, 64  # bytes and requests that fit into any pipe


class WorkerSlots(OverlappingVecEnv):
    """A vector environment whose slots live in workers."""

    _links: list[Link]
    _worker_of: list[int]  # of each slot
    _gate: Gate
    _board: Board | None
    _carrier: Carrier
    _restarts: Restarts | None
    _untold: NDArray[np.bool_]
    step_timeout: float | None
    _serving: dict[Link, int]  # number of the request "slots" that a worker answers
    _backlog = False  # some requests have not been posted

    @abstractmethod
    def _drop_stale_replies(self) -> None: ...

    @abstractmethod
    def _begin_serving(self, link: Link) -> None:
        """Send the request "slots"; `_serving` has its number before."""

    @abstractmethod
    def _note_episode(self, slot: int, begun: int) -> None: ...

    @abstractmethod
    def _replaced(
        self, index: int, death: Failure, restarts: Restarts, request: Callable[[Link], ResetRequest]
    ) -> Any: ...

    @abstractmethod
    def _first_reset(self, link: Link) -> ResetRequest: ...

    def _catch_up(self) -> None:
        if not any(map(self._serves, self._links)):
            self._drop_stale_replies()

    def _serves(self, link: Link) -> bool:
        return link.waiting_for is not None and self._serving.get(link) == link.waiting_for

    def _launch(self, requests: dict[int, Request]) -> None:
        asks = self._autoreset_options is not None
        for slot, request in requests.items():
            request.packed = dumps((request.action, self._next_options[slot] if asks else None))
        links = {self._links[self._worker_of[slot]] for slot in requests}
        dead = [link for link in links if link.dead]
        if dead and self._restarts is None:
            raise _error_of(dead, list(map(obituary, dead)))
        self._backlog = True
        self._outstanding.ask(requests)
        self._post()

    def _by_link(self) -> dict[Link, dict[int, Request]]:
        """What is under way, or should be, with each worker."""
        by_link: dict[Link, dict[int, Request]] = {}
        for slot, request in self._outstanding.under_way().items():
            by_link.setdefault(self._links[self._worker_of[slot]], {})[slot] = request
        return by_link

    def _post(self) -> None:
        """Send the requests that have not been sent and fit into the pipe."""
        if self._backlog:
            self._backlog = not all([self._posted(link, requests) for link, requests in self._by_link().items()])

    def _posted(self, link: Link, requests: dict[int, Request]) -> bool:
        """Send a worker what it has not been sent of this; False where that has to wait."""
        new = {slot: request for slot, request in requests.items() if request.taken_by is not link}
        if not new or link.dead:
            return True
        if len(new) < len(requests):  # it may be writing
            size = sum(len(request.packed or b"") for request in requests.values())
            if size > ROOM or len(requests) > MOST:
                return False
        if not self._serves(link):
            self._begin_serving(link)

        def posted() -> None:
            for request in new.values():
                request.taken_by = link

        link.post(pickle.dumps([(slot - link.lo, request.packed) for slot, request in new.items()]), posted)
        return True

    def _progress(self, deadline: float | None) -> bool:
        self._post()
        by_link = self._by_link()
        if not by_link:
            return False
        heard = [link for link in by_link if link.dead or link.inbox] or self._heard(list(by_link), deadline)
        for link in heard:
            if self._serves(link) and link.read():  # a worker that does not serve has died, or is given up
                self._take_row(link)
            else:
                self._lose_worker(link, by_link[link])
        self._post()  # there may be room now
        return bool(heard)

    def _heard(self, links: Sequence[Link], deadline: float | None) -> list[Link]:
        """The workers that have said something, or died; none by the deadline."""
        ends = {end: link for link in links for end in (link.pipe, link.process.sentinel)}
        until = deadline_of(self.step_timeout) if deadline is None else deadline
        while True:
            seconds = WATCH if until is None else min(WATCH, max(0.0, until - time.monotonic()))
            heard = dict.fromkeys(ends[end] for end in wait(list(ends), seconds))
            if heard:
                return list(heard)
            self._gate.check()
            if until is not None and time.monotonic() >= until:
                if deadline is None:
                    raise _error_of(links, [Failure(None, SLOW, "no answer in time")] * len(links))
                return []

    def _take_row(self, link: Link) -> None:
        """Keep the row that stands in the inbox. An interrupt before it has left that finds it there again."""
        reply = link.inbox[0]
        slot, value = link.lo + ~reply.number, reply.open()
        self.phase[slot] = reply.phase
        self._note_episode(slot, int(reply.episode))
        outcome: Row | BaseException
        if isinstance(value, Row):
            if self._untold[slot]:
                value.info["worker_lost"] = True
            outcome = value._replace(kind=int(RowKind.LOST)) if self._lost[slot] else value
        else:
            outcome = _error_of([link], [value])
        self._outstanding.finished[slot] = outcome
        link.inbox.clear()
        self._forget_losses([slot])
        if self._restarts is not None:
            self._restarts.answered(link.index)

    def _lose_worker(self, link: Link, requests: dict[int, Request]) -> None:
        """The worker has died: its slots have come to that, or to first rows of new episodes in a new worker."""
        alone = link.hi - link.lo == 1
        outcome: Any = obituary(link, str(requests[link.lo].action) if alone else "")
        if self._restarts is not None and not self.closed:
            if self._board is not None:
                self._board.next_place()
            outcome = self._replaced(link.index, outcome, self._restarts, self._first_reset)
        if isinstance(outcome, Failure):
            error = _error_of([self._links[link.index]], [outcome])
            self._outstanding.finished.update(dict.fromkeys(requests, error))
            return
        observations = self._carrier.first_observations(link.index, outcome)
        for slot in requests:
            place = slot - link.lo
            info = {**outcome.infos[place], "worker_lost": True}
            self._outstanding.finished[slot] = first_row(read_row(self.observation_space, observations, place), info)
        self._forget_losses(list(requests))

    def _forget_losses(self, slots: list[int]) -> None:
        """The rows of these slots say what was lost."""
        if self._lost is not self._none_lost:
            self._lost = self._lost & ~self._marked(slots)
        if self._untold is not self._none_lost:
            self._untold = self._untold & ~self._marked(slots)

    def _losses(self, slots: list[int]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        return self._none_lost[slots], self._lost  # rows are marked when they come

    def _leave(self) -> None:
        """Have the workers go on to other requests, once nothing is under way."""
        for link in self._links:
            if self._serves(link) and not link.dead:
                link.post(END, partial(self._serving.pop, link))
        self._serving.clear()

    def _drain(self, deadline: float) -> None:
        """Before closing: wait for what is under way, as long as there is time."""
        while self._serving and self._outstanding.under_way() and self._progress(deadline):
            pass


def _error_of(links: Sequence[Link], failures: Sequence[Failure]) -> Exception:
    error = first_failure(links, failures)
    assert error is not None
    return error
