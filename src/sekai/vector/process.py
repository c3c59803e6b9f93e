"""`ProcVecEnv`: sub-environments in worker processes, each a vector environment over its share of the slots.

Requests are numbered and pickled whole before the first is sent. A call that is interrupted, or takes too long, leaves
answers unread; the next one reads and drops them, keeping only what they say of the slots, before it sends anything.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import AutoresetMode, Call, RowKind, calls_of
from sekai.errors import VecEnvClosed, VecEnvWorkerError
from sekai.seeding import VecSeed
from sekai.spaces import has_fixed_size, read_row
from sekai.spaces.checks import whole_number
from sekai.vector.actions import check_actions
from sekai.vector.base import AutoresetOptions, SlotVecEnv
from sekai.vector.block import AVAILABLE
from sekai.vector.board import Board
from sekai.vector.building import EnvFactory, check_equal_spaces, check_factories
from sekai.vector.carriers import Begun, Carrier, PickledRows, SharedRows
from sekai.vector.exclusive import exclusive, exclusive_step
from sekai.vector.failure import Failure
from sekai.vector.info_columns import InfoNews
from sekai.vector.launch import GUARD, UNGUARDED, Launcher
from sekai.vector.links import Link, Slow
from sekai.vector.maps import ArrayFiles
from sekai.vector.pickling import dumps_by_value
from sekai.vector.requests import ResetRequest, reset_request
from sekai.vector.restarts import Restarts
from sekai.vector.results import VecResetResult, VecStepResult
from sekai.vector.share import ResetColumns, build_slots
from sekai.vector.shares import share_bounds
from sekai.vector.threads import in_thread
from sekai.vector.worker import Attachment, Reply, pack_request

SLOW = "TimeoutError"


class ProcVecEnv(SlotVecEnv):
    """Sub-environments stepped in parallel, in worker processes.

    Args:
        env_fns: one zero-argument callable per sub-environment, sent to its worker with cloudpickle. Arrays of a
            megabyte or more go to temporary files, which the workers map into their memory and share.
        autoreset: as for `SyncVecEnv`.
        autoreset_options: as for `SyncVecEnv`; called in this process.
        context: start method of `multiprocessing`; by default `"forkserver"` (`"spawn"` on Windows).
        close_timeout: seconds `close` waits for the workers before it terminates them.
        num_workers: worker processes, by default one per sub-environment; the slots are split evenly.
        shared_memory: whether actions and rows stand in memory that all processes share. None: where the observation
            space has a fixed size. False: they travel pickled. Large observations are handed out as they stand there;
            what has been handed out is never written to again.
        step_timeout: seconds that a call may take; None: as long as it takes.
        start_timeout: seconds that building a sub-environment may take.
        on_worker_loss: `"raise"`, or `"restart"`: the slots of a worker that died come back in the same call, in a new
            process, with the first observation of a new episode; see `worker_restarts`.

    Attributes:
        num_workers: worker processes.
        shared_memory: whether rows are shared.

    Raises:
        SpaceMismatch: the sub-environments' spaces differ.
        TypeError: `shared_memory=True` with observations of no fixed size.
        VecEnvWorkerError: a factory raised or took too long, or a worker died.
        ValueError: no factory, or an argument out of range.
        OSError: no room for the shared memory.
    """

    def __init__(
        self,
        env_fns: Iterable[EnvFactory],
        *,
        autoreset: Any = True,
        autoreset_options: AutoresetOptions | None = None,
        context: str | None = None,
        close_timeout: float = 5.0,
        num_workers: int | None = None,
        shared_memory: bool | None = None,
        step_timeout: float | None = None,
        start_timeout: float | None = 120.0,
        on_worker_loss: str = "raise",
    ) -> None:
        factories = check_factories(env_fns)
        self.num_workers = _check_workers(num_workers, len(factories))
        self.close_timeout = _check_seconds("close_timeout", close_timeout)
        self.step_timeout = None if step_timeout is None else _check_seconds("step_timeout", step_timeout)
        self._start_timeout = None if start_timeout is None else _check_seconds("start_timeout", start_timeout)
        if shared_memory not in (None, True, False):
            raise TypeError(f"shared_memory is {shared_memory!r}; expected None, True or False.")
        if on_worker_loss not in ("raise", "restart"):
            raise ValueError(f"on_worker_loss is {on_worker_loss!r}; expected 'raise' or 'restart'.")
        mode = AutoresetMode.parse(autoreset).value
        self._bounds = share_bounds(len(factories), self.num_workers)
        self._files = ArrayFiles()
        builds = [dumps_by_value(partial(build_slots, factories[lo:hi], mode), self._files) for lo, hi in self._bounds]
        self._pid, self._number, self._ending = os.getpid(), 0, False
        self._closing = threading.RLock()
        self._links: list[Link] = []
        self._launcher = Launcher(
            context, self._bounds, builds, AVAILABLE and shared_memory is not False, self._go_on_waiting
        )
        self._restarts = Restarts(len(factories), self.num_workers) if on_worker_loss == "restart" else None
        self._board: Board | None = None
        weakref.finalize(self, _abandon, self._links, self._pid)
        try:
            for index in range(self.num_workers):
                self._links.append(self._launcher.start(index))
            facts = self._facts(self._links)
            self._pairs = [pair for fact in facts for pair in fact["spaces"]]
            check_equal_spaces(self._pairs)
            super().__init__(len(factories), *self._pairs[0], autoreset=autoreset, autoreset_options=autoreset_options)
            self._episodes_before = [0] * self.num_envs  # by workers that were replaced
            self._untold = np.zeros(self.num_envs, bool)  # slots of lost workers of which the caller does not know yet
            self.shared_memory = self._decide(shared_memory)
            self._carrier = self._attach_all()
        except BaseException as error:
            try:
                self._stop()
            except Exception as secondary:  # the first error is the one that matters
                error.add_note(f"Closing the sub-envs that had been built also failed: {secondary!r}")
            raise
        self.metadata = {**facts[0]["metadata"], "autoreset_mode": self.autoreset}
        self.render_mode = facts[0]["render_mode"]
        self._inner_layers: list[str] = facts[0]["layers"]
        self._checks_options = any(fact["checks_options"] for fact in facts)

    @property
    def worker_restarts(self) -> int:
        """Workers that were replaced so far; always 0 with `on_worker_loss="raise"`."""
        return 0 if self._restarts is None else self._restarts.total

    # ---- starting ------------------------------------------------------------------------------

    def _decide(self, shared_memory: bool | None) -> bool:
        possible = AVAILABLE and has_fixed_size(self.observation_space)
        if shared_memory and not possible:
            raise TypeError(
                f"shared_memory is True, and observations of {self.observation_space} have no fixed size: leave it out."
                if AVAILABLE
                else "shared_memory is True, which this system does not have: leave it out."
            )
        return possible if shared_memory is None else shared_memory

    def _facts(self, links: Iterable[Link]) -> list[dict[str, Any]]:
        """What new workers are, once they have built their sub-environments."""
        deadline = _deadline(self._start_timeout)
        outcomes = {link.index: self._fact(link, deadline) for link in links}
        self._raise_failures(outcomes)
        return list(outcomes.values())

    def _fact(self, link: Link, deadline: float | None) -> Any:
        """What a new worker is, or the `Failure` that kept it from being anything."""
        outcome = self._answer(link, deadline, keeps=False)
        return _at_start(link, outcome) if isinstance(outcome, Failure) else outcome

    def _attach_all(self) -> Carrier:
        if not self.shared_memory:
            return PickledRows(self.observation_space, self.action_space, self._bounds)
        self._board = Board(self.observation_space, self.action_space, self.num_envs, self.num_workers)
        for link in self._links:
            self._attach(link, self._board)
        return SharedRows(self._board, self._bounds)

    def _attach(self, link: Link, board: Board) -> None:
        self._number += 1
        link.attach(
            board, Attachment(board.sizes, link.index, link.lo, self._autoreset_options is not None), self._number
        )
        outcome = self._answer(link, _deadline(self._start_timeout))
        self._raise_failures({link.index: outcome})
        link.use(board)

    # ---- calls ---------------------------------------------------------------------------------

    @exclusive_step
    def step(self, actions: Any) -> VecStepResult:
        """Step all shares in parallel. An exception of one lets the others finish; the worker stays alive."""
        self._require_open()
        self._drop_stale_replies()  # they say in which phase and episode the slots are
        self._require_started()
        if self._unasked:
            self._ask_options()
        batch = check_actions(self.action_space, actions, self.num_envs)
        options = self._next_options if self._autoreset_options is not None else None
        requests = self._carrier.requests(batch, options)
        seen = self.lost_rows
        outcomes = self._exchange(
            {index: ("step", request) for index, request in enumerate(requests)},
            moving=calls_of(self.phase) != Call.HOLD,
            actions=batch,
        )
        self._stand_in(outcomes, self._first_reset)
        self._raise_failures(outcomes)
        if self._unasked:
            self._ask_options()
        *columns, kind, ended = self._carrier.step(
            [Begun(out) if isinstance(out, ResetColumns) else out for out in outcomes.values()]
        )
        kind[seen] = RowKind.LOST
        result = VecStepResult(*columns, kind=kind, ended=ended, space=self.observation_space)
        self._tell(result.infos)
        self._lost = self._none_lost
        return result

    @exclusive
    def reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Reset all shares in parallel. An exception of one lets the others finish and is raised at the end."""
        self._require_open()
        self._drop_stale_replies()  # they say in which phase the slots are
        request = reset_request(seed, options, mask, self.num_envs)
        self._require_rest_started(request.mask)
        shares = {index: _share_of(request, lo, hi) for index, (lo, hi) in enumerate(self._bounds)}
        if self._checks_options:
            outcomes = self._exchange({index: ("check_options", share) for index, share in shares.items()})
            self._raise_failures(outcomes, but_deaths=self._restarts is not None)
        if self._board is not None:
            self._board.next_place()
        outcomes = self._exchange({index: ("reset", share) for index, share in shares.items()}, moving=request.mask)
        if self._restarts is not None:
            self._restarts.seeded(request.slots, request.seeds)
        self._stand_in(outcomes, lambda link: self._first_reset(link, shares[link.index]))
        self._raise_failures(outcomes)
        if self._unasked:
            self._ask_options()
        result = VecResetResult(*self._carrier.reset(list(outcomes.values())))
        self._untold &= ~request.mask
        self._tell(result.infos)
        self._unfinished, self._lost = None, self._lost & ~request.mask
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
        with _as_attribute_error():
            return _joined(self._call_all("get_attr", name))

    @exclusive
    def set_attr(self, name: str, value: Any) -> None:
        """Set `name` in the workers, on the layer of each sub-environment that has it."""
        self._require_open()
        values = self._slot_values(value)
        messages = {index: ("set_attr", (name, values[lo:hi])) for index, (lo, hi) in enumerate(self._bounds)}
        with _as_attribute_error():
            self._call_all("find_attr", name)
            self._raise_failures(self._exchange(messages))
        if self._restarts is not None:
            self._restarts.attributes[name] = values

    @exclusive
    def call(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call `name` in the workers; arguments and results are pickled."""
        self._require_open()
        try:
            return _joined(self._call_all("call", (name, args, kwargs)))
        except VecEnvWorkerError as error:
            if error.exc_type == "AttributeError":  # of the method itself, unless there is no such name
                with _as_attribute_error():
                    self._call_all("find_attr", name)
            raise

    def layers(self) -> list[str]:
        """This class, then the layers of the first sub-environment."""
        return [type(self).__name__, *self._inner_layers]

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
            with self._lock:
                self._stop()

    # ---- talking to the workers ----------------------------------------------------------------

    def _require_open(self) -> None:
        super()._require_open()
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"{self} belongs to process {self._pid}, from which this one was forked: build one here."
            )

    def _go_on_waiting(self) -> None:
        """Raise when another thread has closed this object."""
        if self.closed and not self._ending:
            raise VecEnvClosed

    def _call_all(self, command: str, payload: Any) -> list[Any]:
        outcomes = self._exchange({link.index: (command, payload) for link in self._links})
        self._raise_failures(outcomes)
        return list(outcomes.values())

    def _exchange(
        self,
        messages: Mapping[int, tuple[str, Any]],
        moving: NDArray[np.bool_] | None = None,
        actions: Any = None,
    ) -> dict[int, Any]:
        """Send one request to each worker and collect every answer: what the command returned, or a `Failure`.

        Args:
            messages: command and payload by worker; nothing is sent unless all of them can be pickled.
            moving: slots that the requests move; their rows are lost until the caller clears `_unfinished`.
            actions: of a step, for what is said of a worker that died in it.
        """
        self._number += 1
        packed = {
            index: None if command == "step" and payload is None else pack_request(self._number, command, payload)
            for index, (command, payload) in messages.items()
        }
        self._drop_stale_replies()
        if moving is not None:
            self._note_unfinished()
            self._unfinished = moving
        for index, data in packed.items():
            self._links[index].send(self._number, messages[index][0], data)
        deadline = _deadline(self.step_timeout)
        return {index: self._answer(self._links[index], deadline, actions) for index in packed}

    def _answer(self, link: Link, deadline: float | None, actions: Any = None, keeps: bool = True) -> Any:
        """What a worker answered to the latest request: a value or a `Failure`.

        Args:
            link: the worker.
            deadline: when to stop waiting.
            actions: see `_exchange`.
            keeps: whether the answer speaks of slots that have begun.
        """
        value: Any = None
        try:
            while link.waiting_for is not None and not link.dead:  # past a stale answer, should there be one
                reply = link.receive(deadline)
                if reply is not None:
                    value = reply.open()
                    if keeps:
                        self._absorb(link, reply, value)
                    link.taken(reply)
        except Slow:
            return Failure(None, SLOW, "no answer in time", "")
        return self._obituary(link, actions) if link.dead else value

    def _drop_stale_replies(self) -> None:
        """Read the answers to calls that did not wait for them."""
        deadline = _deadline(self.step_timeout)
        outcomes = {}
        for link in self._links:
            link.drop_unasked()
            if link.waiting_for is not None and not link.dead:
                outcomes[link.index] = self._answer(link, deadline)
        slow = {i: out for i, out in outcomes.items() if isinstance(out, Failure) and out.kind == SLOW}
        self._raise_failures({i: out for i, out in slow.items() if self._links[i].waiting_for is not None})

    def _absorb(self, link: Link, reply: Reply, value: Any) -> None:
        """Keep what an answer says of the slots, also when its result will never be seen."""
        self.phase[link.lo : link.hi] = reply.phase
        if isinstance(value, InfoNews):
            self._carrier.learn(link.index, value)
        if self._autoreset_options is not None:
            for slot, begun in enumerate(reply.episode, link.lo):
                episode = int(begun) + self._episodes_before[slot]
                if episode != self._episode[slot]:
                    self._episode[slot] = episode - 1
                    self._episodes_began((slot,))

    # ---- failures ------------------------------------------------------------------------------

    def _obituary(self, link: Link, actions: Any) -> Failure:
        """What is known of a worker that died."""
        link.process.join(1.0)  # its exit code may be a moment late
        facts = [_exit_of(link.process), f"pid {link.process.pid}"]
        if actions is not None and link.hi - link.lo == 1:
            facts.append(f"action {read_row(self.action_space, actions, link.lo)}")
        return Failure(None, "EOFError", f"worker process exited unexpectedly ({', '.join(facts)})", "", death=True)

    def _raise_failures(self, outcomes: Mapping[int, Any], but_deaths: bool = False) -> None:
        """Raise the failure of the lowest slot."""
        failures = [
            (self._links[index], outcome)
            for index, outcome in outcomes.items()
            if isinstance(outcome, Failure) and not (but_deaths and outcome.death)
        ]
        if not failures:
            return
        link, failure = min(failures, key=lambda entry: entry[0].lo if entry[1].slot is None else entry[1].slot)
        rank = link.lo if failure.slot is None else failure.slot
        text = f"{_who(link, failure)} raised {failure.kind}: {failure.message}"
        slow = [_slots_of(other) for other, out in failures if out.kind == SLOW]
        if failure.kind == SLOW:
            text += f" (slow: {', '.join(slow)}). The next call waits for what is still under way."
        raise VecEnvWorkerError(
            f"{text}\n\n{failure.trace}" if failure.trace else text,
            rank=rank,
            exc_type=failure.kind,
            remote_traceback=failure.trace,
            pid=link.process.pid,
            exitcode=link.process.exitcode,
        )

    # ---- lost workers --------------------------------------------------------------------------

    def _stand_in(self, outcomes: dict[int, Any], request: Callable[[Link], ResetRequest]) -> None:
        """Replace workers that died, and their outcomes by the first rows of new episodes.

        Args:
            outcomes: of a step or a reset.
            request: the reset with which the slots of a new worker begin.
        """
        if self._restarts is None:
            return
        for index, outcome in outcomes.items():
            if isinstance(outcome, Failure) and outcome.death:
                outcomes[index] = self._replaced(index, outcome, self._restarts, request)
            else:
                self._restarts.answered(index)

    def _replaced(self, index: int, death: Failure, restarts: Restarts, request: Callable[[Link], ResetRequest]) -> Any:
        """The outcome of the first reset in a new worker; the death of the old one after too many in a row."""
        lo, hi = self._bounds[index]
        self._untold[lo:hi] = True
        self._lost = self._lost | self._untold
        while (delay := restarts.delay(index)) is not None:
            time.sleep(delay)
            _bury([self._links[index]], 0.0)
            self._links[index] = self._launcher.start(index)
            outcome = self._begin_again(self._links[index], restarts, request)
            if not (isinstance(outcome, Failure) and outcome.death):
                return outcome
        return death

    def _begin_again(self, link: Link, restarts: Restarts, request: Callable[[Link], ResetRequest]) -> Any:
        """Bring a new worker to where its predecessor was, but for the episodes; the outcome of their first reset."""
        facts = self._fact(link, _deadline(self._start_timeout))
        if isinstance(facts, Failure):
            return facts
        check_equal_spaces([self._pairs[0], *facts["spaces"]], link.lo)
        self._carrier.forget(link.index)
        self._episodes_before[link.lo : link.hi] = [count + 1 for count in self._episode[link.lo : link.hi]]
        if self._board is not None:
            self._attach(link, self._board)
        calls: list[tuple[str, Any]] = [
            ("set_attr", (name, values[link.lo : link.hi])) for name, values in restarts.attributes.items()
        ]
        outcome: Any = None
        for command, payload in [*calls, ("reset", request(link))]:
            self._number += 1
            link.send(self._number, command, pack_request(self._number, command, payload))
            outcome = self._answer(link, _deadline(self.step_timeout))
            if isinstance(outcome, Failure):
                break
        return outcome

    def _first_reset(self, link: Link, given: ResetRequest | None = None) -> ResetRequest:
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
        if self._untold.any():
            for slot in np.flatnonzero(self._untold).tolist():
                infos[slot]["worker_lost"] = True
            self._untold[:] = False

    # ---- closing -------------------------------------------------------------------------------

    def _stop(self) -> None:
        """Ask every worker to close, then end those that do not end in time."""
        self._ending = True
        deadline = time.monotonic() + self.close_timeout
        outcomes: dict[int, Any] = {}
        self._number += 1
        # those that owe an answer come last: others need not wait for them
        for link in sorted(self._links, key=lambda link: link.waiting_for is not None):
            with suppress(Slow):
                while link.waiting_for is not None and not link.dead:
                    reply = link.receive(deadline)
                    if reply is not None:
                        link.taken(reply)
                link.send(self._number, "close", pack_request(self._number, "close", None))
        for link in self._links:
            if link.waiting_for == self._number and not link.dead:
                with suppress(Slow):
                    reply = link.receive(deadline)
                    if reply is not None:
                        link.taken(reply)
                        outcomes[link.index] = reply.open()
        try:
            self._raise_failures(outcomes)
        finally:
            _bury(self._links, max(0.0, deadline - time.monotonic()))
            if self._board is not None:
                self._board.block.close()
            self._board = None
            vars(self).pop("_carrier", None)  # it holds on to the memory, too
            self._files.remove()


def _bury(links: Iterable[Link], seconds: float) -> None:
    """Wait for processes to end, make them, and release what they took."""
    deadline = time.monotonic() + seconds
    for link in links:
        link.process.join(max(0.0, deadline - time.monotonic()))
    for end, patience in (("terminate", 1.0), ("kill", None)):
        left = [link.process for link in links if link.process.is_alive()]
        for process in left:
            getattr(process, end)()
        for process in left:
            process.join(patience)
    for link in links:
        link.release()


def _abandon(links: list[Link], pid: int) -> None:
    """End the workers of an object that is collected, or left at exit, without having been closed."""
    if os.getpid() == pid:
        for link in links:
            with suppress(ValueError):  # closed
                link.process.kill()


def _at_start(link: Link, outcome: Failure) -> Failure:
    """A failure of a worker that has not been ready yet."""
    if outcome.kind == SLOW:
        return outcome._replace(message="not built within start_timeout")
    if outcome.death and link.process.exitcode == UNGUARDED:
        return outcome._replace(message=f"{outcome.message} while it was starting. {GUARD}")
    if outcome.death:
        return outcome._replace(message=f"{outcome.message} while it was starting")
    return outcome


def _who(link: Link, failure: Failure) -> str:
    return _slots_of(link) if failure.slot is None else f"Sub-env {failure.slot}"


def _slots_of(link: Link) -> str:
    alone = link.hi - link.lo == 1
    return f"Sub-env {link.lo}" if alone else f"Worker {link.index} (sub-envs {link.lo}-{link.hi - 1})"


def _exit_of(process: Any) -> str:
    """How a process ended."""
    code = process.exitcode
    if code is None:
        return "it does not answer"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _deadline(seconds: float | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds


def _check_workers(given: Any, num_envs: int) -> int:
    if given is None:
        return num_envs
    num_workers = whole_number("num_workers", given, minimum=1)
    if num_workers > num_envs:
        raise ValueError(f"num_workers is {num_workers}; expected 1 to {num_envs}, the number of sub-envs.")
    return num_workers


def _check_seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise ValueError(f"{name} is {value!r}; expected seconds, at least 0.")
    return float(value)


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
