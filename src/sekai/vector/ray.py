"""`RayVecEnv`: sub-environments in the actors of a Ray cluster, each a vector environment over its share of the slots.

The only module that knows Ray. Requests and answers are method calls of actors, large arrays stand in Ray's object
store, and Ray notices what has died. What it cannot know is whether a call was executed whose answer never came
(`ActorUnavailableError`): then the request is repeated under its number, see `ShareActor`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from sekai.core.slots import AutoresetMode
from sekai.vector.actor import ShareActor, StoredArrays
from sekai.vector.base import AutoresetOptions
from sekai.vector.building import EnvFactory
from sekai.vector.failure import SLOW, Failure
from sekai.vector.links import WATCH, Gate, Slow
from sekai.vector.remote import RemoteVecEnv
from sekai.vector.shards import NativeShards, shards_of
from sekai.vector.signals import undisturbed
from sekai.vector.worker_replies import Reply

#: options of an actor that may be given; the others would change how many there are, or who answers
ACTOR_OPTIONS = frozenset(
    {
        "accelerator_type",
        "label_selector",
        "memory",
        "num_cpus",
        "num_gpus",
        "resources",
        "runtime_env",
        "scheduling_strategy",
    }
)
PATIENCE = 2.0  # seconds, at least, for Ray to say that the actors it was told to kill are dead


class RayVecEnv(RemoteVecEnv["RayLink"]):
    """Sub-environments stepped in parallel, in the actors of a Ray cluster.

    A call costs about a millisecond, and all of it travels: worth it where a step costs more, or where one machine is
    too small. Needs the extra `ray`, and sekai on every machine of the cluster.

    Args:
        env_fns: one zero-argument callable per sub-environment, sent to its actor with cloudpickle. Arrays of a
            megabyte or more go to Ray's object store once, where the actors read them and cannot write to them. Or
            `NativeShards`: each actor steps its slots with array operations.
        autoreset: as for `SyncVecEnv`.
        autoreset_options: as for `SyncVecEnv`; called in this process.
        num_workers: actors, by default one per sub-environment; the slots are split evenly.
        resources: options of each actor, such as `{"num_cpus": 1}`; by default Ray places as many on a machine as are
            asked for. They are spread over the machines unless `scheduling_strategy` is among the options.
        address: of a cluster; `"auto"`: of one that is running. None: of one that is running (`RAY_ADDRESS`, or the
            latest on this machine), or a new one on this machine. A connection that this process has is used.
        close_timeout: seconds `close` waits for the actors before it kills them.
        step_timeout: seconds that a call may take; None: as long as it takes.
        start_timeout: seconds that placing the actors and building their sub-environments may take.
        on_worker_loss: as for `ProcVecEnv`; where a machine was lost, its actors come back on others.

    Attributes:
        num_workers: actors.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        ConnectionError: there is no cluster at the address.
        SpaceMismatch: the sub-environments' spaces differ.
        VecEnvWorkerError: a factory raised or took too long, an actor died or found no place.
        ValueError: no factory, or an argument out of range.
    """

    def __init__(
        self,
        env_fns: Iterable[EnvFactory] | NativeShards,
        *,
        autoreset: Any = True,
        autoreset_options: AutoresetOptions | None = None,
        num_workers: int | None = None,
        resources: Mapping[str, Any] | None = None,
        address: str | None = None,
        close_timeout: float = 5.0,
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
        self._resources = _check_resources(resources)
        mode = AutoresetMode.parse(autoreset).value
        self._entropy: Any = np.random.SeedSequence().entropy
        self._started = 0
        self._cluster = Cluster(address)
        weakref.finalize(self, self._cluster.leave, False)
        try:
            arrays = StoredArrays(self._cluster.ray.put)
            self._builds = [(self._shards.builds([bounds], mode, arrays)[0], arrays.taken()) for bounds in self._bounds]
            options = {"scheduling_strategy": "SPREAD", **self._resources}
            self._actor = self._cluster.ray.remote(ShareActor).options(**options)
        except BaseException:
            self._cluster.leave()
            raise
        self._start_all(autoreset, autoreset_options)

    def _start(self, index: int) -> RayLink:
        if not self._cluster.connected:
            raise RuntimeError(f"Ray was shut down while {type(self).__name__} was in use: build another one.")
        (lo, hi), (build, references) = self._bounds[index], self._builds[index]
        self._started += 1
        actor = self._actor.remote()
        begin = partial(actor.begin.remote, build, lo, hi - lo, (self._entropy, self._started), *references)
        return RayLink(index, (lo, hi), actor, begin, self._cluster, self._gate)

    def _end(self, links: Sequence[RayLink], seconds: float) -> None:
        if not self._cluster.connected:
            return
        deadline = time.monotonic() + max(seconds, PATIENCE)
        for link in links:
            link.kill()
        for link in links:
            link.join(max(0.0, deadline - time.monotonic()))

    def _at_start(self, link: RayLink, failure: Failure) -> Failure:
        if failure.death:
            return failure._replace(message=f"{failure.message} while it was starting")
        if failure.kind != SLOW:
            return failure
        needs = f"no machine has room for {self._resources}; free: {self._cluster.free()}"
        return failure._replace(message=f"not built within start_timeout, or {needs}")

    def _obituary(self, link: RayLink, action: str) -> Failure:
        facts = [link.cause, *([f"pid {link.pid}"] if link.pid else []), *([f"action {action}"] if action else [])]
        return Failure(None, "EOFError", f"worker process exited unexpectedly ({', '.join(facts)})", death=True)

    def _release(self) -> None:
        self._builds.clear()
        self._cluster.leave()


class RayLink:
    """The caller's end of one actor; see `RemoteLink`.

    Args:
        index, bounds: number of the worker, and `[lo, hi)` of its slots.
        actor: its handle.
        begin: the call that builds its share.
        cluster: where it is.
        gate: looked at while an answer is waited for.

    Attributes:
        pid: process id on its machine; None before its first answer.
        cause: why it died.
    """

    def __init__(
        self,
        index: int,
        bounds: tuple[int, int],
        actor: Any,
        begin: Callable[[], Any],
        cluster: Cluster,
        gate: Gate,
    ) -> None:
        self.index, (self.lo, self.hi) = index, bounds
        self.pid: int | None = None
        self.cause = "it does not answer"
        self.dead = False
        self._actor, self._cluster, self._gate = actor, cluster, gate
        self._call(0, begin)

    def _call(self, number: int, call: Callable[[], Any]) -> None:
        with undisturbed():
            self.waiting_for: int | None = number
            self._repeat, self._reference = call, call()

    def send(self, number: int, request: bytes | None) -> None:
        """Send a request, which is never None: there is no other way to ask."""
        if not self.dead and not self._lost_cluster():
            self._call(number, partial(self._actor.serve.remote, request))

    def receive(self, deadline: float | None = None, looks: bool = False) -> Reply | None:
        """The next answer, None when the actor has died. It stays the next one until it is `taken`."""
        ray = self._cluster.ray
        while not self._lost_cluster():
            seconds = WATCH if deadline is None else min(WATCH, max(0.0, deadline - time.monotonic()))
            try:
                return self._opened(ray.get(self._reference, timeout=seconds))
            except ray.exceptions.GetTimeoutError:
                self._gate.check()
                if deadline is not None and time.monotonic() >= deadline:
                    raise Slow from None
            except (ray.exceptions.ActorUnavailableError, ray.exceptions.ObjectLostError):
                self._gate.check()
                if deadline is not None and time.monotonic() >= deadline:
                    raise Slow from None
                time.sleep(WATCH)
                self._call(self._number(), self._repeat)  # whether it was executed, the actor knows
            except ray.exceptions.RayError as error:
                self.dead, self.cause = True, _cause(error)
        return None

    def _number(self) -> int:
        assert self.waiting_for is not None
        return self.waiting_for

    def _opened(self, answer: Any) -> Reply:
        if type(answer) is tuple:  # of `ShareActor.begin`
            self.pid, reply = answer
        else:
            reply = answer
        result: Reply = reply
        return result

    def _lost_cluster(self) -> bool:
        """Whether it is dead, or as good as that, since there is no connection to Ray any more."""
        if not self.dead and not self._cluster.connected:
            self.dead, self.cause = True, "Ray was shut down"
        return self.dead

    def taken(self, reply: Reply) -> None:
        """What the answer says has been kept."""
        if reply.number == self.waiting_for:
            self.waiting_for = None

    def drop_unasked(self) -> None:
        """Every request is asked whole or not at all."""

    def exit_code(self, seconds: float = 0.0) -> int | None:
        """Ray does not tell."""
        return None

    def kill(self) -> None:
        """End the actor at once; Ray forgets it."""
        self.dead = True
        self._cluster.ray.kill(self._actor)

    def join(self, seconds: float) -> None:
        """Wait until Ray says that the actor is dead."""
        self._cluster.ray.wait([self._actor.serve.remote(b"")], timeout=seconds, fetch_local=False)


class Cluster:
    """This process's connection to Ray, which the vector environments in it share.

    The last of them ends the connection, unless somebody else had made it; a Ray that was started with it ends, too.

    Args:
        address: see `RayVecEnv`.

    Attributes:
        ray: the module.
    """

    _lock = threading.RLock()
    _users: ClassVar[Counter[str]] = Counter()  # of each connection
    _ours: ClassVar[str | None] = None  # the connection, if it was made here
    _address: ClassVar[str | None] = None  # with which it was made

    def __init__(self, address: str | None) -> None:
        self.ray = _import_ray()
        with Cluster._lock:
            if self.ray.is_initialized():
                self._check_same(address)
            else:
                self.ray.init(address=address, include_dashboard=False, logging_level=logging.WARNING)
                Cluster._ours, Cluster._address = self._connection, address
            self._used, self._left = self._connection, False
            Cluster._users[self._used] += 1

    def _check_same(self, address: str | None) -> None:
        here = self.ray.get_runtime_context().gcs_address
        as_before = Cluster._ours == self._connection and address == Cluster._address
        if not as_before and address not in (None, "auto", here):
            raise ValueError(
                f"address is {address!r}, and this process is connected to Ray at {here}: leave it out, or call "
                "ray.shutdown() first."
            )

    @property
    def _connection(self) -> str:
        own: str = self.ray.get_runtime_context().get_worker_id()
        return own

    @property
    def connected(self) -> bool:
        """Whether the connection is still the one that was found or made."""
        return bool(self.ray.is_initialized() and self._connection == self._used)

    def free(self) -> dict[str, float]:
        """Resources that nobody has taken."""
        return {name: left for name, left in self.ray.available_resources().items() if ":" not in name}

    def leave(self, ends: bool = True) -> None:
        """Use it no longer; a second call does nothing.

        Args:
            ends: whether the last one ends the connection; not while objects are being collected.
        """
        with Cluster._lock:
            if self._left:
                return
            self._left = True
            Cluster._users[self._used] -= 1
            if ends and not Cluster._users[self._used] and Cluster._ours == self._used and self.connected:
                self.ray.shutdown()


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it is read when Ray is imported, and when it starts
    try:
        import ray
        import ray.exceptions
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "ray":
            raise
        raise ModuleNotFoundError(
            "RayVecEnv (vectorization_mode='ray') needs Ray: pip install 'sekai-rl[ray]'.", name=error.name
        ) from error
    return ray


def _check_resources(given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"resources is {given!r}; expected a dict of actor options, such as {{'num_cpus': 1}}.")
    unknown = [name for name in given if name not in ACTOR_OPTIONS]
    if unknown:
        raise ValueError(f"resources has {unknown[0]!r}; expected some of {', '.join(sorted(ACTOR_OPTIONS))}.")
    return dict(given)


def _cause(error: Exception) -> str:
    """What Ray says of a death, in one line: the last paragraph about the actor, or the last line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    start = max((at for at, line in enumerate(lines) if line.startswith("The actor ")), default=len(lines) - 1)
    told = " ".join(line.strip() for line in lines[start:])
    return told.partition(" Some common causes")[0].rstrip(".")
