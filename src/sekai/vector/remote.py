"""`RemoteVecEnv`: what every vector environment with workers does, whatever its workers are and how they are reached.

Requests are numbered and pickled whole before the first is sent. A call that is interrupted, or takes too long, leaves
answers unread; the next one reads and drops them, keeping only what they say of the slots, before it sends anything.
"""

from __future__ import annotations

import os
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import class_names
from sekai.core.slots import Call, Phase, RowKind, calls_of
from sekai.errors import VecEnvWorkerError
from sekai.seeding import VecSeed
from sekai.spaces import read_row
from sekai.spaces.checks import whole_number
from sekai.vector.actions import check_actions
from sekai.vector.base import AutoresetOptions, SlotVecEnv
from sekai.vector.building import check_equal_spaces
from sekai.vector.carriers import Begun, Carrier, PickledRows
from sekai.vector.exclusive import exclusive, exclusive_reset, exclusive_step
from sekai.vector.failure import SLOW, Failure, Worker, raise_first_failure
from sekai.vector.info_columns import InfoNews
from sekai.vector.links import Gate, Slow
from sekai.vector.overlapping import check_seconds, deadline_of
from sekai.vector.requests import ResetRequest
from sekai.vector.restarts import Restarts
from sekai.vector.results import VecResetResult, VecStepResult
from sekai.vector.shards import Shards
from sekai.vector.share import ResetColumns
from sekai.vector.shares import share_bounds
from sekai.vector.threads import in_thread
from sekai.vector.worker import pack_request
from sekai.vector.worker_replies import Reply


class RemoteLink(Worker, Protocol):
    """The caller's end of one worker.

    Attributes:
        waiting_for: number of the request whose answer has not been read; 0 for what it says when it is ready.
        dead: it does not answer any more.
    """

    waiting_for: int | None
    dead: bool

    def send(self, number: int, request: bytes | None) -> None:
        """Send a request; a worker that has died is marked so.

        Args:
            number: of the request.
            request: as it is pickled; None for a step that needs no message.
        """
        ...

    def receive(self, deadline: float | None = None, looks: bool = False) -> Reply | None:
        """The next answer, None when the worker has died. It stays the next one until it is `taken`.

        Args:
            deadline: when to stop waiting, in seconds of `time.monotonic`.
            looks: whether the answer must be about to come.

        Raises:
            Slow: no answer by then.
        """
        ...

    def taken(self, reply: Reply) -> None:
        """What the answer says has been kept."""
        ...

    def drop_unasked(self) -> None:
        """Wait for no answer to a request that an interrupt kept from being asked."""
        ...


AnyLink = TypeVar("AnyLink", bound=RemoteLink)


class RemoteVecEnv(SlotVecEnv, Generic[AnyLink]):
    """Sub-environments stepped in parallel by workers, each a vector environment over its share of the slots.

    A subclass prepares what its workers are built from, calls `_start_all`, and says how a worker is started and ended.

    Args:
        shards: what the workers are built from.
        num_workers: how many there are; None: one per sub-environment.
        close_timeout, step_timeout, start_timeout: seconds, see `ProcVecEnv`.
        on_worker_loss: `"raise"` or `"restart"`.

    Attributes:
        num_workers: workers.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        shards: Shards,
        *,
        num_workers: int | None,
        close_timeout: float,
        step_timeout: float | None,
        start_timeout: float | None,
        on_worker_loss: str,
    ) -> None:
        self._shards = shards
        num_envs = shards.num_envs
        self.num_workers = _check_workers(num_workers, num_envs)
        self.close_timeout = check_seconds("close_timeout", close_timeout)
        self.step_timeout = None if step_timeout is None else check_seconds("step_timeout", step_timeout)
        self._start_timeout = None if start_timeout is None else check_seconds("start_timeout", start_timeout)
        if on_worker_loss not in ("raise", "restart"):
            raise ValueError(f"on_worker_loss is {on_worker_loss!r}; expected 'raise' or 'restart'.")
        self._bounds = share_bounds(num_envs, self.num_workers)
        self._pid, self._number = os.getpid(), 0
        self._nothing_owed = [None] * self.num_workers
        self._owing = False  # some worker owes an answer
        self._gate = Gate()
        self._closing = threading.RLock()
        self._links: list[AnyLink] = []
        self._restarts = Restarts(num_envs, self.num_workers) if on_worker_loss == "restart" else None

    # ---- what a subclass says ------------------------------------------------------------------

    @abstractmethod
    def _start(self, index: int) -> AnyLink:
        """Start the worker of that number."""

    @abstractmethod
    def _end(self, links: Sequence[AnyLink], seconds: float) -> None:
        """Wait up to `seconds` for workers to end, and end those that have not."""

    @abstractmethod
    def _at_start(self, link: AnyLink, failure: Failure) -> Failure:
        """A failure, told as one of a worker that had not been ready yet."""

    @abstractmethod
    def _obituary(self, link: AnyLink, action: str) -> Failure:
        """What is known of a worker that died; `action` is the last one of its only slot, or empty."""

    def _carry(self) -> Carrier:
        """How rows travel; called once, when all workers are ready."""
        return PickledRows(self.observation_space, self.action_space, self._bounds)

    def _join(self, link: AnyLink) -> None:
        """Give a new worker the place of the one that was lost."""

    def _before_requests(self) -> None:
        """Bring workers that answer overlapped steps to where they take requests."""

    def _before_closing(self, deadline: float) -> None:
        """Wait for overlapped steps that are under way, up to the deadline."""

    def _release(self) -> None:
        """Give back what is left when the workers have ended."""

    # ---- starting ------------------------------------------------------------------------------

    def _start_all(self, autoreset: Any, autoreset_options: AutoresetOptions | None) -> None:
        """Start the workers and learn what they are; where that fails, end those that have been started."""
        num_envs = self._shards.num_envs
        try:
            for index in range(self.num_workers):
                self._links.append(self._start(index))
            facts = self._facts()
            self._pairs = [pair for fact in facts for pair in fact["spaces"]]
            check_equal_spaces(self._pairs)
            super().__init__(num_envs, *self._pairs[0], autoreset=autoreset, autoreset_options=autoreset_options)
            self._all_live = np.full(num_envs, Phase.LIVE, np.int8).tobytes()
            self._every_slot = np.ones(num_envs, bool)
            self._episodes_before = [0] * num_envs  # by workers that were replaced
            self._untold = self._none_lost  # slots of lost workers of which the caller does not know yet
            self._carrier = self._carry()
        except BaseException as error:
            try:
                self._stop()
            except Exception as secondary:  # the first error is the one that matters
                error.add_note(f"Closing the sub-envs that had been built also failed: {secondary!r}")
            raise
        self.metadata = {**facts[0]["metadata"], "autoreset_mode": self.autoreset}
        self.render_mode = facts[0]["render_mode"]
        self._inner_layers: list[str] = facts[0]["layers"]
        self._inner_bases: list[list[str]] = facts[0]["layer_bases"]
        self._checks_options = any(fact["checks_options"] for fact in facts)

    def _facts(self) -> list[dict[str, Any]]:
        """What the workers are, once they have built their sub-environments."""
        deadline = deadline_of(self._start_timeout)
        outcomes = [self._fact(link, deadline) for link in self._links]
        raise_first_failure(self._links, outcomes)
        return outcomes

    def _fact(self, link: AnyLink, deadline: float | None) -> Any:
        """What a new worker is, or the `Failure` that kept it from being anything."""
        outcome = self._answer(link, deadline, keeps=False)
        return self._at_start(link, outcome) if isinstance(outcome, Failure) else outcome

    @property
    def worker_restarts(self) -> int:
        """Workers that were replaced so far; always 0 with `on_worker_loss="raise"`."""
        return 0 if self._restarts is None else self._restarts.total

    # ---- calls ---------------------------------------------------------------------------------

    @exclusive_step
    def step(self, actions: Any) -> VecStepResult:
        """Step all shares in parallel. An exception of one lets the others finish; the worker stays alive."""
        self._require_open()
        self._require_received()
        self._drop_stale_replies()  # they say in which phase and episode the slots are
        steady = self.phase.tobytes() == self._all_live
        if not steady:
            self._require_started()
        if self._unasked:
            self._ask_options()
        batch = check_actions(self.action_space, actions, self.num_envs)
        options = self._next_options if self._autoreset_options is not None else None
        requests = self._carrier.requests(batch, options)
        outcomes = self._exchange(
            "step", requests, moving=self._every_slot if steady else calls_of(self.phase) != Call.HOLD, actions=batch
        )
        raise_first_failure(self._links, self._stood_in(outcomes, self._first_reset))
        if self._unasked:
            self._ask_options()
        parts = [Begun(outcome) if type(outcome) is ResetColumns else outcome for outcome in outcomes]
        observations, rewards, terminated, truncated, infos, kind, ended = self._carrier.step(parts)
        if self._lost is not self._none_lost:
            kind[self._lost] = RowKind.LOST
        result = VecStepResult(
            observations,
            rewards,
            terminated,
            truncated,
            infos,
            kind=kind,
            ended=ended,
            space=self.observation_space,
        )
        self._tell(infos)
        self._lost = self._none_lost
        return result

    @exclusive_reset
    def reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Reset all shares in parallel. An exception of one lets the others finish and is raised at the end."""
        self._require_open()
        request = self._shards.request(seed, options, mask, self._bounds)
        self._require_received(request.slots)
        self._finish_all()
        self._drop_stale_replies()  # they say in which phase the slots are
        self._require_rest_started(request.mask)
        shares = [_share_of(request, lo, hi) for lo, hi in self._bounds]
        if self._checks_options:
            outcomes = self._exchange("check_options", shares)
            raise_first_failure(self._links, outcomes, but_deaths=self._restarts is not None)
        self._carrier.prepare_reset()
        outcomes = self._exchange("reset", shares, moving=request.mask)
        if self._restarts is not None:
            self._restarts.seeded(request.slots, request.seeds)
        self._stood_in(outcomes, lambda link: self._first_reset(link, shares[link.index]))
        raise_first_failure(self._links, outcomes)
        if self._unasked:
            self._ask_options()
        observations, infos, dones = self._carrier.reset(outcomes)
        self._untold = self._untold & ~request.mask
        self._tell(infos)
        result = VecResetResult(observations, infos, dones)
        left = self._lost & ~request.mask
        self._lost = left if left.any() else self._none_lost
        return result

    async def async_step(self, actions: Any) -> VecStepResult:
        """Awaitable `step`, which does not block the event loop."""
        result: VecStepResult = await in_thread(
            partial(self.step, actions), lambda result: self.lose_rows(result.kind != RowKind.FROZEN)
        )
        return result

    async def async_reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Awaitable `reset`, which does not block the event loop."""
        reset = np.ones(self.num_envs, bool) if mask is None else mask
        result: VecResetResult = await in_thread(
            partial(self.reset, seed=seed, options=options, mask=mask), lambda _: self.lose_rows(np.asarray(reset))
        )
        return result

    @exclusive
    def get_attr(self, name: str) -> list[Any]:
        """`name` of every sub-environment, pickled back."""
        self._require_open()
        self._require_received()
        with _as_attribute_error():
            return _joined(self._call_all("get_attr", name))

    @exclusive
    def set_attr(self, name: str, value: Any) -> None:
        """Set `name` in the workers, on the layer of each sub-environment that has it."""
        self._require_open()
        self._require_received()
        values = self._slot_values(value)
        with _as_attribute_error():
            self._call_all("find_attr", name)
            raise_first_failure(
                self._links, self._exchange("set_attr", [(name, values[lo:hi]) for lo, hi in self._bounds])
            )
        if self._restarts is not None:
            self._restarts.attributes[name] = values

    @exclusive
    def call(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call `name` in the workers; arguments and results are pickled."""
        return self.call_slots(range(self.num_envs), name, *args, **kwargs)

    @exclusive
    def call_slots(self, slots: Iterable[int], name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """`call`, of some sub-environments only; one result for each, in the order of `slots`."""
        self._require_open()
        self._require_received()
        wanted = list(slots)
        shares = [sorted({slot - lo for slot in wanted if lo <= slot < hi}) for lo, hi in self._bounds]
        try:
            outcomes = self._exchange("call", [(share, name, args, kwargs) for share in shares])
            raise_first_failure(self._links, outcomes)
        except VecEnvWorkerError as error:
            if error.exc_type == "AttributeError":  # of the method itself, unless there is no such name
                with _as_attribute_error():
                    self._call_all("find_attr", name)
            raise
        results = dict(zip(sorted(set(wanted)), _joined(outcomes), strict=True))
        return [results[slot] for slot in wanted]

    def layers(self) -> list[str]:
        """This class, then the layers of the first sub-environment."""
        return [type(self).__name__, *self._inner_layers]

    def layer_bases(self) -> list[list[str]]:
        """Those of this class, then of the layers of the first sub-environment."""
        return [class_names(self), *self._inner_bases]

    def close(self) -> None:
        """Close the sub-environments and end the workers; the first error of a sub-environment is raised at the end.

        A call in another thread that waits for the workers raises `VecEnvClosed`.
        """
        with self._closing:
            if self.closed:
                return
            self.closed = True
            if os.getpid() != self._pid:
                return  # the workers belong to the process that this one was forked from
            self._gate.shut = True
            with self._lock:  # a call that waits for the workers has let go
                self._gate.shut = False
                self._stop()

    # ---- talking to the workers ----------------------------------------------------------------

    def _require_open(self) -> None:
        super()._require_open()
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"{self} belongs to process {self._pid}, from which this one was forked: build one here."
            )

    def _call_all(self, command: str, payload: Any) -> list[Any]:
        outcomes = self._exchange(command, [payload] * self.num_workers)
        raise_first_failure(self._links, outcomes)
        return outcomes

    def _exchange(
        self,
        command: str,
        payloads: Sequence[Any],
        moving: NDArray[np.bool_] | None = None,
        actions: Any = None,
    ) -> list[Any]:
        """Send one request to each worker and collect every answer: what the command returned, or a `Failure`.

        Args:
            command: what is asked.
            payloads: one per worker; nothing is sent unless all of them can be pickled. None in a step: all of it
                stands on the board.
            moving: slots that the requests move; their rows are lost until the caller clears `_unfinished`.
            actions: of a step, for what is said of a worker that died in it.
        """
        self._number += 1
        number = self._number
        packed = [
            None if command == "step" and payload is None else pack_request(number, command, payload)
            for payload in payloads
        ]
        self._drop_stale_replies()
        if moving is not None:
            self._note_unfinished()
            self._unfinished = moving
        self._owing = True
        for link, data in zip(self._links, packed, strict=True):
            link.send(number, data)
        deadline = deadline_of(self.step_timeout)
        # while the first answer is on its way, this process would only be in the way of the workers
        outcomes = [self._answer(link, deadline, actions, looks=link.index > 0) for link in self._links]
        self._owing = [link.waiting_for for link in self._links] != self._nothing_owed
        return outcomes

    def _answer(
        self, link: AnyLink, deadline: float | None, actions: Any = None, *, looks: bool = False, keeps: bool = True
    ) -> Any:
        """What a worker answered to the latest request: a value or a `Failure`.

        Args:
            link: the worker.
            deadline: when to stop waiting.
            actions: see `_exchange`.
            looks: see `Link.receive`.
            keeps: whether the answer speaks of slots that have begun.
        """
        value: Any = None
        try:
            while link.waiting_for is not None and not link.dead:  # past a stale answer, should there be one
                reply = link.receive(deadline, looks)
                if reply is not None:
                    value = reply.open()
                    if keeps:
                        self._absorb(link, reply, value)
                    link.taken(reply)
        except Slow:
            return Failure(None, SLOW, "no answer in time")
        if link.dead:
            alone = actions is not None and link.hi - link.lo == 1
            return self._obituary(link, str(read_row(self.action_space, actions, link.lo)) if alone else "")
        return value

    def _drop_stale_replies(self) -> None:
        """Read the answers to calls that did not wait for them."""
        if not self._owing:
            return
        self._before_requests()
        deadline = deadline_of(self.step_timeout)
        slow = []
        for link in self._links:
            link.drop_unasked()
            owes = link.waiting_for is not None and not link.dead
            outcome = self._answer(link, deadline) if owes else None
            slow.append(outcome if link.waiting_for is not None and not link.dead else None)
        raise_first_failure(self._links, slow)
        self._owing = False

    def _absorb(self, link: AnyLink, reply: Reply, value: Any) -> None:
        """Keep what an answer says of the slots, also when its result will never be seen."""
        self.phase[link.lo : link.hi] = reply.phase
        if isinstance(value, InfoNews):
            self._carrier.learn(link.index, value)
        if self._autoreset_options is not None:
            for slot, begun in enumerate(reply.episode, link.lo):
                self._note_episode(slot, int(begun))

    def _note_episode(self, slot: int, begun: int) -> None:
        """A worker says how many episodes a slot has begun there, less one."""
        episode = begun + self._episodes_before[slot]
        if self._autoreset_options is not None and episode != self._episode[slot]:
            self._episode[slot] = episode - 1
            self._episodes_began((slot,))

    # ---- lost workers --------------------------------------------------------------------------

    def _stood_in(self, outcomes: list[Any], request: Callable[[AnyLink], ResetRequest]) -> list[Any]:
        """Replace workers that died, and their outcomes, in place, by the first rows of new episodes.

        Args:
            outcomes: of a step or a reset.
            request: the reset with which the slots of a new worker begin.
        """
        if self._restarts is not None:
            for index, outcome in enumerate(outcomes):
                if type(outcome) is Failure and outcome.death:
                    outcomes[index] = self._replaced(index, outcome, self._restarts, request)
                else:
                    self._restarts.answered(index)
        return outcomes

    def _replaced(
        self, index: int, death: Failure, restarts: Restarts, request: Callable[[AnyLink], ResetRequest]
    ) -> Any:
        """The outcome of the first reset in a new worker; the death of the old one after too many in a row."""
        lo, hi = self._bounds[index]
        gone = np.zeros(self.num_envs, bool)
        gone[lo:hi] = True
        self._untold, self._lost = self._untold | gone, self._lost | gone
        while (delay := restarts.delay(index)) is not None:
            time.sleep(delay)
            link = self._start(index)
            try:
                outcome = self._brought_up(link, restarts)
                ready = outcome is None
                if ready:
                    outcome = self._told(link, "reset", request(link))
            except BaseException:  # it is not known how far it came: the next call finds the dead one, and begins anew
                self._end([link], 0.0)
                raise
            restarts.tried(index)
            dead = type(outcome) is Failure and outcome.death
            if ready and not dead:
                self._take_over(link, restarts)
                return outcome
            self._end([link], 0.0)
            if not dead:
                return outcome
        return death

    def _take_over(self, link: AnyLink, restarts: Restarts) -> None:
        """Let a new worker have the place of the one that was lost."""
        old, self._links[link.index] = self._links[link.index], link
        restarts.total += 1
        self._end([old], 0.0)

    def _brought_up(self, link: AnyLink, restarts: Restarts) -> Failure | None:
        """Bring a new worker to where its predecessor was, but for the episodes; what it failed of."""
        facts = self._fact(link, deadline_of(self._start_timeout))
        if isinstance(facts, Failure):
            return facts
        check_equal_spaces([self._pairs[0], *facts["spaces"]], link.lo)
        self._carrier.forget(link.index)
        self._episodes_before[link.lo : link.hi] = [count + 1 for count in self._episode[link.lo : link.hi]]
        self._join(link)
        for name, values in restarts.attributes.items():
            outcome = self._told(link, "set_attr", (name, values[link.lo : link.hi]))
            if isinstance(outcome, Failure):
                return outcome
        return None

    def _told(self, link: AnyLink, command: str, payload: Any) -> Any:
        """The answer of a single worker to one request."""
        self._number += 1
        link.send(self._number, pack_request(self._number, command, payload))
        return self._answer(link, deadline_of(self.step_timeout), keeps=command == "reset")

    def _first_reset(self, link: AnyLink, given: ResetRequest | None = None) -> ResetRequest:
        """The reset of all slots of a new worker: as was asked for, on a stream of their own where nothing was."""
        assert self._restarts is not None
        seeds = self._restarts.fresh_seeds(link.lo, link.hi)
        options = list(self._next_options[link.lo : link.hi])
        if given is not None:
            for slot in given.slots:
                options[slot] = given.options[slot]
                seeds[slot] = seeds[slot] if given.seeds[slot] is None else given.seeds[slot]
        every = link.hi - link.lo
        return ResetRequest(np.ones(every, bool), list(range(every)), seeds, options)

    def _tell(self, infos: Any) -> None:
        """Say in the infos which slots were in lost workers."""
        if self._untold is not self._none_lost:
            for slot in np.flatnonzero(self._untold).tolist():
                infos[slot]["worker_lost"] = True
            self._untold = self._none_lost

    # ---- closing -------------------------------------------------------------------------------

    def _stop(self) -> None:
        """Ask every worker to close, then end those that do not end in time."""
        deadline = time.monotonic() + self.close_timeout
        self._before_closing(deadline)
        self._number += 1
        # those that owe an answer come last: others need not wait for them
        for link in sorted(self._links, key=lambda link: link.waiting_for is not None):
            with suppress(Slow):
                while link.waiting_for is not None and not link.dead:
                    reply = link.receive(deadline)
                    if reply is not None:
                        link.taken(reply)
                link.send(self._number, pack_request(self._number, "close", None))
        outcomes = []
        for link in self._links:
            reply = None
            if link.waiting_for == self._number and not link.dead:
                with suppress(Slow):
                    reply = link.receive(deadline)
            outcomes.append(None if reply is None else reply.open())
        try:
            raise_first_failure(self._links, outcomes)
        finally:
            self._end(self._links, max(0.0, deadline - time.monotonic()))
            vars(self).pop("_carrier", None)  # it may hold on to memory
            self._release()


def _check_workers(given: Any, num_envs: int) -> int:
    if given is None:
        return num_envs
    num_workers = whole_number("num_workers", given, minimum=1)
    if num_workers > num_envs:
        raise ValueError(f"num_workers is {num_workers}; expected 1 to {num_envs}, the number of sub-envs.")
    return num_workers


def _joined(parts: Iterable[list[Any]]) -> list[Any]:
    return [entry for part in parts for entry in part]


@contextmanager
def _as_attribute_error() -> Iterator[None]:
    """Raise a missing name as every backend does."""
    try:
        yield
    except VecEnvWorkerError as error:
        if error.exc_type == "AttributeError":
            raise AttributeError(str(error).partition("\n")[0]) from error
        raise


def _share_of(request: ResetRequest, lo: int, hi: int) -> ResetRequest:
    mask = request.mask[lo:hi]
    return ResetRequest(mask, np.flatnonzero(mask).tolist(), request.seeds[lo:hi], request.options[lo:hi])
