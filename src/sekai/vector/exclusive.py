"""One call at a time: a second one, from another thread or task, is an error and not a torn batch.

Threads are told apart by a re-entrant lock: should an interrupt come between taking it and the block that gives it
back, the thread that holds it can go on. Tasks of one thread are told apart by a flag.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from sekai.errors import VecEnvBusy

Method = TypeVar("Method", bound=Callable[..., Any])


def exclusive(method: Method) -> Method:
    """Let a method raise `VecEnvBusy` while another call on the same object is in progress."""

    @wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._lock.acquire(blocking=False):
            raise _busy(self)
        try:
            if self._awaited:
                raise _busy(self)
            return method(self, *args, **kwargs)
        finally:
            self._lock.release()

    return cast(Method, guarded)


def exclusive_step(method: Method) -> Method:
    """`exclusive` for `step`, which also says that the caller has the result.

    That is said by the last statement of the outermost frame, after which no interrupt can come before the caller has
    it; whatever cuts a step short before that leaves its rows lost.
    """

    @wraps(method)
    def guarded(self: Any, *args: Any) -> Any:
        if not self._lock.acquire(blocking=False):
            raise _busy(self)
        try:
            if self._awaited:
                raise _busy(self)
            result = method(self, *args)
        finally:
            self._lock.release()
        self._unfinished = None
        return result

    return cast(Method, guarded)


def exclusive_reset(method: Method) -> Method:
    """`exclusive` for `reset`, which says as `exclusive_step` does that the caller has the result."""
    inner = exclusive(method)

    @wraps(method)
    def guarded(self: Any, *, seed: Any = None, options: Any = None, mask: Any = None) -> Any:
        result = inner(self, seed=seed, options=options, mask=mask)
        self._unfinished = None
        return result

    return cast(Method, guarded)


def async_exclusive(method: Method) -> Method:
    """`exclusive` for a coroutine method."""

    @wraps(method)
    async def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._awaited or not self._lock.acquire(blocking=False):
            raise _busy(self)
        try:
            self._awaited = True
            return await method(self, *args, **kwargs)
        finally:
            self._awaited = False
            self._lock.release()

    return cast(Method, guarded)


def _busy(vec: object) -> VecEnvBusy:
    return VecEnvBusy(f"Another call on {vec} is in progress; wait for it, or give each thread or task its own.")
