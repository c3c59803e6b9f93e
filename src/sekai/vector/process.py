"""`ProcVecEnv`: sub-environments in worker processes, each a `SyncVecEnv` over its share of the slots.

Requests are numbered and pickled whole before the first is sent. A call that is interrupted leaves replies unread;
the next one reads and drops them, keeping only what they say of the slots' phases, before it sends anything.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import AutoresetMode, Call, RowKind, calls_of
from sekai.errors import VecEnvWorkerError
from sekai.seeding import VecSeed
from sekai.spaces.checks import whole_number
from sekai.vector.actions import check_actions
from sekai.vector.base import AutoresetOptions, SlotVecEnv
from sekai.vector.building import EnvFactory, check_equal_spaces, check_factories
from sekai.vector.exclusive import exclusive, exclusive_step
from sekai.vector.infos import Infos
from sekai.vector.maps import ArrayFiles
from sekai.vector.pickling import dumps_by_value
from sekai.vector.requests import ResetRequest, reset_request
from sekai.vector.results import VecResetResult, VecStepResult
from sekai.vector.shares import cut, join, share_bounds
from sekai.vector.signals import Deferred
from sekai.vector.worker import Failure, Reply, ResetColumns, StepColumns, StepRequest, pack_request, work

# where there is no SIGALRM, SIGINT stands for it: it is then deferred twice, which changes nothing
_ALARM = getattr(signal, "SIGALRM", signal.SIGINT)
_DEAD_AT_START = Failure(
    None,
    "EOFError",
    "worker process exited unexpectedly while it was starting. Workers import the main script again, so a script "
    "that builds a ProcVecEnv must do that under `if __name__ == '__main__':`",
    "",
)
_DEAD = Failure(None, "EOFError", "worker process exited unexpectedly", "")


class _Worker:
    """The caller's end of one worker.

    Attributes:
        index, lo, hi: number of the worker, and the bounds `[lo, hi)` of its slots.
        process, pipe: what it runs in, and how to reach it.
        waiting_for: number of the request whose reply has not been read.
        inbox: a reply that has been read and not yet taken, where an interrupt came between the two.
        dead: it does not answer any more.
    """

    def __init__(self, index: int, lo: int, hi: int, process: Any, pipe: Connection) -> None:
        self.index, self.lo, self.hi = index, lo, hi
        self.process, self.pipe = process, pipe
        self.waiting_for: int | None = 0  # what it is, and its spaces
        self.inbox: list[bytes] = []
        self.dead = False
        self._interrupt, self._alarm = Deferred(signal.SIGINT), Deferred(_ALARM)

    def receive(self) -> Reply | None:
        """The next reply, None when the worker has died. It stays the next one until it is `taken`."""
        if not self.inbox and not self._read():
            self.dead = True
            return None
        reply: Reply = pickle.loads(self.inbox[0])
        return reply

    def taken(self, reply: Reply) -> None:
        """What the reply says has been kept."""
        if reply.number == self.waiting_for:
            self.waiting_for = None
        self.inbox.clear()

    def _read(self) -> bool:
        """Wait for a reply and put it into the inbox; False when the worker has died."""
        wait([self.pipe, self.process.sentinel])
        try:
            if self.pipe.poll():
                with self._alarm, self._interrupt:
                    self.inbox.append(self.pipe.recv_bytes())
                return True
        except (EOFError, ConnectionError):
            pass  # it has died
        except OSError:  # the pipe's own, when it ended within a reply; any other is the caller's, of a signal handler
            if self.process.is_alive():
                raise
        return False

    def send(self, request: bytes, number: int) -> None:
        """Send a request; a worker that has died is marked so."""
        try:
            if not self.dead:
                with self._alarm, self._interrupt:
                    self.pipe.send_bytes(request)
                    self.waiting_for = number
        except ConnectionError:
            self.dead = True


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
        shared_memory: None or False; results travel pickled.

    Raises:
        SpaceMismatch: the sub-environments' spaces differ.
        VecEnvWorkerError: a factory raised, or a worker died.
        ValueError: no factory, or a bad `num_workers`.
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
    ) -> None:
        factories = check_factories(env_fns)
        if shared_memory:
            raise ValueError("shared_memory=True is not available yet; leave it out, results then travel pickled.")
        if num_workers is None:
            num_workers = len(factories)
        self.num_workers = whole_number("num_workers", num_workers, minimum=1)
        if num_workers > len(factories):
            raise ValueError(f"num_workers is {num_workers}; expected 1 to {len(factories)}, the number of sub-envs.")
        if isinstance(close_timeout, bool) or not isinstance(close_timeout, (int, float)) or not close_timeout >= 0:
            raise ValueError(f"close_timeout is {close_timeout!r}; expected seconds, at least 0.")
        self.shared_memory = False
        self.close_timeout = close_timeout
        self._number = 0
        self._workers: list[_Worker] = []
        self._files = ArrayFiles()
        try:
            self._start(factories, context, autoreset)
            facts = self._first_replies()
            pairs = [pair for fact in facts for pair in fact["spaces"]]
            check_equal_spaces(pairs)
            super().__init__(len(pairs), *pairs[0], autoreset=autoreset, autoreset_options=autoreset_options)
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

    def _start(self, factories: list[EnvFactory], context: str | None, autoreset: Any) -> None:
        mode = AutoresetMode.parse(autoreset).value
        start = multiprocessing.get_context(context or ("spawn" if sys.platform == "win32" else "forkserver"))
        bounds = share_bounds(len(factories), self.num_workers)
        shares = [dumps_by_value(factories[lo:hi], self._files) for lo, hi in bounds]
        for index, ((lo, hi), share) in enumerate(zip(bounds, shares, strict=True)):
            ours, theirs = start.Pipe()
            process = start.Process(  # type: ignore[attr-defined]  # every context has it
                target=work,
                args=(theirs, share, lo, hi - lo, mode),
                name=f"sekai-worker-{index}",
                daemon=True,
            )
            process.start()
            theirs.close()
            self._workers.append(_Worker(index, lo, hi, process, ours))

    def _first_replies(self) -> list[dict[str, Any]]:
        outcomes: dict[int, Any] = {}
        for worker in self._workers:
            reply = worker.receive()
            if reply is not None:
                worker.taken(reply)
            outcomes[worker.index] = _DEAD_AT_START if reply is None else reply.open()
        self._raise_failures(outcomes)
        return list(outcomes.values())

    @exclusive_step
    def step(self, actions: Any) -> VecStepResult:
        """Step all shares in parallel. An exception of one lets the others finish; the worker stays alive."""
        self._require_open()
        self._drop_stale_replies()  # they say in which phase and episode the slots are
        self._require_started()
        if self._unasked:
            self._ask_options()
        batch = check_actions(self.action_space, actions, self.num_envs)
        messages = {
            worker.index: (
                "step",
                StepRequest(
                    cut(self.action_space, batch, worker.lo, worker.hi),
                    {slot - worker.lo: self._next_options[slot] for slot in range(worker.lo, worker.hi)}
                    if self._autoreset_options is not None
                    else {},
                ),
            )
            for worker in self._workers
        }
        seen = self.lost_rows
        parts: list[StepColumns] = self._exchange(messages, moving=calls_of(self.phase) != Call.HOLD)
        if self._unasked:
            self._ask_options()
        observations, rewards, terminated, truncated, infos, kinds, ended = zip(*parts, strict=True)
        kind = np.concatenate(kinds)
        kind[seen] = RowKind.LOST
        result = VecStepResult(
            join(self.observation_space, observations),
            np.concatenate(rewards),
            np.concatenate(terminated),
            np.concatenate(truncated),
            Infos.of(self._join_lists(infos)),
            kind=kind,
            ended=np.concatenate(ended),
            space=self.observation_space,
        )
        self._lost = np.zeros(self.num_envs, bool)
        return result

    @exclusive
    def reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Reset all shares in parallel. An exception of one lets the others finish and is raised at the end."""
        self._require_open()
        self._drop_stale_replies()  # they say in which phase the slots are
        request = reset_request(seed, options, mask, self.num_envs)
        self._require_rest_started(request.mask)
        shares = {worker.index: _share_of(request, worker.lo, worker.hi) for worker in self._workers}
        if self._checks_options:
            self._exchange({index: ("check_options", share) for index, share in shares.items()})
        parts: list[ResetColumns] = self._exchange(
            {index: ("reset", share) for index, share in shares.items()}, moving=request.mask
        )
        if self._unasked:
            self._ask_options()
        observations, infos, dones = zip(*parts, strict=True)
        result = VecResetResult(
            join(self.observation_space, observations), Infos.of(self._join_lists(infos)), np.concatenate(dones)
        )
        self._unfinished, self._lost = None, self._lost & ~request.mask
        return result

    @exclusive
    def get_attr(self, name: str) -> list[Any]:
        """`name` of every sub-environment, pickled back."""
        self._require_open()
        with _as_attribute_error():
            return self._join_lists(self._exchange(self._to_all("get_attr", name)))

    @exclusive
    def set_attr(self, name: str, value: Any) -> None:
        """Set `name` in the workers, on the layer of each sub-environment that has it."""
        self._require_open()
        values = self._slot_values(value)
        messages = {w.index: ("set_attr", (name, values[w.lo : w.hi])) for w in self._workers}
        with _as_attribute_error():
            self._exchange(self._to_all("find_attr", name))
            self._exchange(messages)

    @exclusive
    def call(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call `name` in the workers; arguments and results are pickled."""
        return self.call_slots(range(self.num_envs), name, *args, **kwargs)

    @exclusive
    def call_slots(self, slots: Iterable[int], name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """`call`, of some sub-environments only; one result for each, in the order of `slots`."""
        self._require_open()
        wanted = list(slots)
        shares = {w.index: [slot - w.lo for slot in sorted(set(wanted)) if w.lo <= slot < w.hi] for w in self._workers}
        messages = {index: ("call", (share, name, args, kwargs)) for index, share in shares.items() if share}
        try:
            results = dict(zip(sorted(set(wanted)), self._join_lists(self._exchange(messages)), strict=True))
        except VecEnvWorkerError as error:
            if error.exc_type == "AttributeError":  # of the method itself, unless there is no such name
                with _as_attribute_error():
                    self._exchange(self._to_all("find_attr", name))
            raise
        return [results[slot] for slot in wanted]

    def layers(self) -> list[str]:
        """This class, then the layers of the first sub-environment."""
        return [type(self).__name__, *self._inner_layers]

    def close(self) -> None:
        """Close the sub-environments and end the workers; the first error of a sub-environment is raised at the end."""
        if self.closed:
            return
        self.closed = True
        self._stop()

    def _to_all(self, command: str, payload: Any) -> dict[int, tuple[str, Any]]:
        return {worker.index: (command, payload) for worker in self._workers}

    @staticmethod
    def _join_lists(parts: Iterable[list[Any]]) -> list[Any]:
        return [entry for part in parts for entry in part]

    def _exchange(self, messages: Mapping[int, tuple[str, Any]], moving: NDArray[np.bool_] | None = None) -> list[Any]:
        """Send one request to each worker and collect every reply; then raise the first failure.

        Args:
            messages: command and payload by worker; nothing is sent unless all of them can be pickled.
            moving: slots that the requests move; their rows are lost until the caller clears `_unfinished`.
        """
        self._number += 1
        packed = {index: pack_request(self._number, *message) for index, message in messages.items()}
        self._drop_stale_replies()
        outcomes: dict[int, Any] = {}
        if moving is not None:
            self._note_unfinished()
            self._unfinished = moving
        for index, data in packed.items():
            self._workers[index].send(data, self._number)
        for index in packed:
            worker, reply = self._workers[index], None
            while worker.waiting_for is not None and not worker.dead:  # past a stale reply, should there be one
                reply = worker.receive()
                if reply is not None:
                    self._absorb(worker, reply)
                    worker.taken(reply)
            outcomes[index] = _DEAD if reply is None else reply.open()
        self._raise_failures(outcomes)
        return list(outcomes.values())

    def _drop_stale_replies(self) -> None:
        for worker in self._workers:
            while worker.waiting_for is not None and not worker.dead:
                reply = worker.receive()
                if reply is not None:
                    self._absorb(worker, reply)
                    worker.taken(reply)

    def _absorb(self, worker: _Worker, reply: Reply) -> None:
        """Keep what a reply says of the slots, also when its result will never be seen."""
        self.phase[worker.lo : worker.hi] = reply.phase
        for slot, episode in enumerate(reply.episode, worker.lo):
            if episode != self._episode[slot]:
                self._episode[slot] = episode - 1
                self._episodes_began((slot,))

    def _raise_failures(self, outcomes: Mapping[int, Any]) -> None:
        failures = [(self._workers[i], outcome) for i, outcome in outcomes.items() if isinstance(outcome, Failure)]
        if not failures:
            return
        worker, failure = min(failures, key=lambda entry: entry[0].lo if entry[1].slot is None else entry[1].slot)
        rank = worker.lo if failure.slot is None else failure.slot
        alone = worker.hi - worker.lo == 1 or failure.slot is not None
        who = f"Sub-env {rank}" if alone else f"Worker {worker.index} (sub-envs {worker.lo}-{worker.hi - 1})"
        trace = f"\n\n{failure.trace}" if failure.trace else ""
        raise VecEnvWorkerError(
            f"{who} raised {failure.kind}: {failure.message}{trace}",
            rank=rank,
            exc_type=failure.kind,
            remote_traceback=failure.trace,
        )

    def _stop(self) -> None:
        """Ask every worker to close, then terminate, at last kill, those that do not end in time."""
        deadline = time.monotonic() + self.close_timeout
        outcomes: dict[int, Any] = {}
        self._number += 1
        for worker in self._workers:
            worker.send(pack_request(self._number, "close", None), self._number)
        for worker in self._workers:
            while not worker.dead and worker.pipe.poll(max(0.0, deadline - time.monotonic())):
                reply = worker.receive()
                if reply is not None:
                    worker.taken(reply)
                    if reply.number == self._number:
                        outcomes[worker.index] = reply.open()
                        break
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join(1.0)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()
            worker.process.close()
        self._files.remove()
        self._raise_failures(outcomes)


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
