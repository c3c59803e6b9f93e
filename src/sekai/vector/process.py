"""`ProcVecEnv`: sub-environments in worker processes."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from sekai.core.slots import AutoresetMode
from sekai.spaces import has_fixed_size
from sekai.vector.base import AutoresetOptions
from sekai.vector.block import AVAILABLE
from sekai.vector.board import Board
from sekai.vector.building import EnvFactory
from sekai.vector.carriers import Carrier, PickledRows, SharedRows
from sekai.vector.failure import Failure, obituary, raise_first_failure
from sekai.vector.launch import Launcher, abandon, at_start, end_processes
from sekai.vector.links import Link
from sekai.vector.maps import ArrayFiles
from sekai.vector.overlapping import deadline_of
from sekai.vector.remote import RemoteVecEnv
from sekai.vector.shards import NativeShards, shards_of
from sekai.vector.slot_requests import WorkerSlots
from sekai.vector.worker import Attachment, pack_request


class ProcVecEnv(RemoteVecEnv[Link], WorkerSlots):
    """Sub-environments stepped in parallel, in worker processes.

    Args:
        env_fns: one zero-argument callable per sub-environment, sent to its worker with cloudpickle. Arrays of a
            megabyte or more go to temporary files, which the workers map into their memory and share. Or
            `NativeShards`: each worker steps its slots with array operations.
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
        env_fns: Iterable[EnvFactory] | NativeShards,
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
        super().__init__(
            shards_of(env_fns),
            num_workers=num_workers,
            close_timeout=close_timeout,
            step_timeout=step_timeout,
            start_timeout=start_timeout,
            on_worker_loss=on_worker_loss,
        )
        if shared_memory not in (None, True, False):
            raise TypeError(f"shared_memory is {shared_memory!r}; expected None, True or False.")
        self._asked_to_share = shared_memory
        self._worker_of = [worker for worker, (lo, hi) in enumerate(self._bounds) for _ in range(lo, hi)]
        self._serving: dict[Link, int] = {}
        self._files = ArrayFiles()
        self._board: Board | None = None
        builds = self._shards.builds(self._bounds, AutoresetMode.parse(autoreset).value, self._files)
        shares_memory = AVAILABLE and shared_memory is not False
        self._launcher = Launcher(context, self._bounds, builds, shares_memory, self._gate)
        weakref.finalize(self, abandon, self._links, self._pid)
        self._start_all(autoreset, autoreset_options)

    def _start(self, index: int) -> Link:
        return self._launcher.start(index)

    def _end(self, links: Sequence[Link], seconds: float) -> None:
        end_processes(links, seconds)

    def _at_start(self, link: Link, failure: Failure) -> Failure:
        return at_start(link, failure)

    def _obituary(self, link: Link, action: str) -> Failure:
        return obituary(link, action)

    def _decide(self, shared_memory: bool | None) -> bool:
        possible = AVAILABLE and has_fixed_size(self.observation_space)
        if shared_memory and not possible:
            raise TypeError(
                f"shared_memory is True, and observations of {self.observation_space} have no fixed size: leave it out."
                if AVAILABLE
                else "shared_memory is True, which this system does not have: leave it out."
            )
        return possible if shared_memory is None else shared_memory

    def _carry(self) -> Carrier:
        self.shared_memory = self._decide(self._asked_to_share)
        if not self.shared_memory:
            return PickledRows(self.observation_space, self.action_space, self._bounds)
        self._board = Board(self.observation_space, self.action_space, self.num_envs, self.num_workers)
        for link in self._links:
            self._join(link)
        return SharedRows(self._board, self._bounds)

    def _join(self, link: Link) -> None:
        if self._board is None:
            return
        self._number += 1
        wanted = Attachment(self._board.sizes, link.index, link.lo, self._autoreset_options is not None)
        link.attach(self._board, wanted, self._number)
        raise_first_failure([link], [self._answer(link, deadline_of(self._start_timeout), keeps=False)])
        link.use(self._board)

    def _release(self) -> None:
        if self._board is not None:
            self._board.block.close()
        self._board = None
        self._files.remove()

    # ---- overlapped steps ----------------------------------------------------------------------

    def _begin_serving(self, link: Link) -> None:
        self._number += 1
        self._owing, self._serving[link] = True, self._number
        link.send(self._number, pack_request(self._number, "slots", None))

    def _catch_up(self) -> None:
        if not self._shards.one_by_one:
            raise NotImplementedError(f"{self} has native shards, which step all their sub-envs together: call step().")
        super()._catch_up()

    def _before_requests(self) -> None:
        self._leave()

    def _before_closing(self, deadline: float) -> None:
        self._drain(deadline)
        self._leave()
