"""Everything sekai raises on purpose.

    SekaiError
    ├── ResetRequired         (RuntimeError)  a step was asked of an episode that has not begun, or has ended
    ├── InvalidAction         (ValueError)    an action does not fit its space; names the sub-environment
    ├── InvalidObservation    (ValueError)    an environment returned something that does not fit its space
    ├── SpaceMismatch         (ValueError)    sub-environments, or a wrapper and its environment, disagree on spaces
    ├── EnvNotFound           (LookupError)   an id that no registry knows
    ├── EnvAlreadyRegistered  (ValueError)    an id that is taken
    ├── VecEnvClosed          (RuntimeError)  a call on a vector environment after close()
    ├── VecEnvBusy            (RuntimeError)  a call on a vector environment while another is in progress
    └── VecEnvWorkerError     (RuntimeError)  a sub-environment failed in another process

Each class is also the built-in that a caller would catch without knowing sekai.
"""

from __future__ import annotations


class SekaiError(Exception):
    """Base of every error that sekai raises on purpose."""


class ResetRequired(SekaiError, RuntimeError):
    """A step was asked for, but the episode has not begun or has ended: call `reset()` first."""


class InvalidAction(SekaiError, ValueError):
    """An action (or a batch of them) does not fit the action space."""


class InvalidObservation(SekaiError, ValueError):
    """An environment returned an observation or a reward that does not fit what it declares."""


class SpaceMismatch(SekaiError, ValueError):
    """Two spaces that must be equal are not."""


class EnvNotFound(SekaiError, LookupError):
    """No registry knows this id."""


class EnvAlreadyRegistered(SekaiError, ValueError):
    """The id is taken; `deregister` it first."""


class VecEnvClosed(SekaiError, RuntimeError):
    """The vector environment has been closed."""

    def __init__(self, message: str = "This VecEnv has been closed.") -> None:
        super().__init__(message)


class VecEnvBusy(SekaiError, RuntimeError):
    """Another call on the same vector environment, from another thread or task, is in progress."""


class VecEnvWorkerError(SekaiError, RuntimeError):
    """A sub-environment failed in a worker process.

    Attributes:
        rank: index of the failing sub-environment; the first of its worker's when only the worker is known.
        exc_type: name of the exception's class in the worker, e.g. `"ValueError"`.
        remote_traceback: the worker's formatted traceback, `""` when the worker died without one.
        pid: process id of the worker, None when it is not known.
        exitcode: exit code of a worker that died, minus the signal where one ended it; None while it lives.
    """

    def __init__(
        self,
        message: str,
        *,
        rank: int,
        exc_type: str,
        remote_traceback: str = "",
        pid: int | None = None,
        exitcode: int | None = None,
    ) -> None:
        super().__init__(message)
        self.rank = rank
        self.exc_type = exc_type
        self.remote_traceback = remote_traceback
        self.pid = pid
        self.exitcode = exitcode

    def __reduce__(self) -> tuple[object, ...]:
        # the third entry carries what was added to the error, its notes among it
        return _rebuild_worker_error, (str(self), self.rank, self.exc_type, self.remote_traceback), vars(self)


def _rebuild_worker_error(message: str, rank: int, exc_type: str, remote: str) -> VecEnvWorkerError:
    return VecEnvWorkerError(message, rank=rank, exc_type=exc_type, remote_traceback=remote)
