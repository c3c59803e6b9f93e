"""What runs in a worker process: a `SyncVecEnv` over a share of the slots, answering numbered requests.

A request is `(number, command, payload)`, answered by a `Reply` that bears the number, so that the reply to a call
which was interrupted can be told from the one that is waited for. Every reply says in which phase and episode each
slot of the share is now. Failures travel as data, since an exception may not pickle.
"""

from __future__ import annotations

import pickle
import signal
import traceback
from collections.abc import Iterable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import Env, walk
from sekai.core.wrapper import Wrapper
from sekai.vector.blame import blamed_slot
from sekai.vector.building import EnvFactory
from sekai.vector.pickling import dumps, dumps_by_value
from sekai.vector.requests import Options, ResetRequest
from sekai.vector.sync import SyncVecEnv

#: observations, rewards, terminated, truncated, infos, kind, ended of a share
StepColumns = tuple[Any, Any, Any, Any, list[dict[str, Any]], Any, Any]
#: observations, infos, dones of a share
ResetColumns = tuple[Any, list[dict[str, Any]], Any]


class Reply(NamedTuple):
    """The answer to one request.

    Attributes:
        number: of the request.
        packed: pickle of what the command returned, or of a `Failure`; on its own, so that the rest can be read where
            this cannot.
        phase: phase of each slot of the share, int8.
        episode: episodes begun by each slot of the share since construction, less one.
    """

    number: int
    packed: bytes
    phase: NDArray[np.int8]
    episode: list[int]

    def open(self) -> Any:
        """What the command returned, or a `Failure`, also where it cannot be unpickled."""
        try:
            return pickle.loads(self.packed)
        except Exception as error:
            error.add_note("raised while unpickling what the sub-env returned")
            return Failure.of(error)


class Failure(NamedTuple):
    """An exception of a worker.

    Attributes:
        slot: index of the sub-environment that raised it, None when no single one is to blame.
        kind: class name of the exception.
        message: its text.
        trace: its formatted traceback.
    """

    slot: int | None
    kind: str
    message: str
    trace: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an exception, also one that cannot describe itself."""
        try:
            message, trace = str(error), "".join(traceback.format_exception(error))
        except Exception as second:
            message, trace = f"(its text raised {type(second).__name__})", ""
        return cls(blamed_slot(error), type(error).__name__, message, trace)


class StepRequest(NamedTuple):
    """Actions of the share, and options prepared for the next episodes of some of its slots."""

    actions: Any
    next_options: dict[int, Options]


class Share(SyncVecEnv):
    """The slots of one worker, commanded by name."""

    def __init__(self, env_fns: Iterable[EnvFactory], first_slot: int, autoreset: str) -> None:
        self.first_slot = first_slot
        super().__init__(env_fns, autoreset=autoreset)

    def run_facts(self, _: None) -> dict[str, Any]:
        """What the caller has to know of the share."""
        return {
            "spaces": [(env.observation_space, env.action_space) for env in self.envs],
            "metadata": self.envs[0].metadata,
            "render_mode": self.render_mode,
            "layers": self.layers()[1:],
            "checks_options": any(self._checks_options(env) for env in self.envs),
        }

    @staticmethod
    def _checks_options(env: Any) -> bool:
        """Whether some layer of an environment has a check of its own."""
        own = (type(layer).check_options for layer in walk(env) if isinstance(layer, Env))
        return any(check not in (Env.check_options, Wrapper.check_options) for check in own)

    def run_step(self, request: StepRequest) -> StepColumns:
        """Step every slot of the share."""
        for slot, options in request.next_options.items():
            self._next_options[slot] = options
        result = self.step(request.actions)
        return (*result[:4], list(result.infos), result.kind, result.ended)

    def run_check_options(self, request: ResetRequest) -> None:
        """Refuse options before anything moves, here or in another worker."""
        self._check_options(request)

    def run_reset(self, request: ResetRequest) -> ResetColumns:
        """Reset the masked slots of the share."""
        result = self.reset(seed=request.seeds, options=request.options, mask=request.mask)
        return result.observations, list(result.infos), result.dones

    def run_get_attr(self, name: str) -> list[Any]:
        """Read an attribute of every slot."""
        return self.get_attr(name)

    def run_find_attr(self, name: str) -> None:
        """Raise when the attribute does not exist, before it is set anywhere."""
        self.get_attr(name)

    def run_set_attr(self, request: tuple[str, list[Any]]) -> None:
        """Set an attribute of every slot."""
        self.set_attr(*request)

    def run_call(self, request: tuple[list[int], str, tuple[Any, ...], dict[str, Any]]) -> list[Any]:
        """Call a method of some slots, counted within the share."""
        slots, name, args, kwargs = request
        return self.call_slots(slots, name, *args, **kwargs)

    def run_close(self, _: None) -> None:
        """Close the share."""
        self.close()


def work(pipe: Connection, env_fns: bytes, first_slot: int, count: int, autoreset: str) -> None:
    """Build the share, then answer requests until told to close or until the caller is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to every process of the terminal; the caller decides
    share: Share | None = None
    value: Any
    try:
        share = Share(pickle.loads(env_fns), first_slot, autoreset)
        value = share.run_facts(None)
    except Exception as error:
        value = Failure.of(error)
    nothing = np.zeros(count, np.int8), [-1] * count
    pipe.send_bytes(pickle.dumps(Reply(0, _pack_value(value), *nothing)))
    while share is not None and not share.closed:
        try:
            request = pipe.recv_bytes()
        except (EOFError, OSError):  # the caller is gone
            share.close()
            return
        number, command, packed = pickle.loads(request)
        try:
            value = getattr(share, f"run_{command}")(pickle.loads(packed))
        except Exception as error:
            value = Failure.of(error)
        pipe.send_bytes(pickle.dumps(Reply(number, _pack_value(value), share.phase, share._episode)))


def pack_request(number: int, command: str, payload: Any) -> bytes:
    """A request as it is sent; the payload is pickled on its own, so that the rest can be read where it cannot.

    A step carries arrays. Everything else may carry objects of the caller's script, and travels by value.
    """
    return pickle.dumps((number, command, dumps(payload) if command == "step" else dumps_by_value(payload)))


def _pack_value(value: Any) -> bytes:
    try:
        return dumps(value)
    except Exception as error:
        error.add_note("what the sub-env returned cannot be sent to the calling process")
        return pickle.dumps(Failure.of(error))
