"""One call at a time: a second one, from another thread or task, is an error and not a torn batch."""

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
            return method(self, *args, **kwargs)
        finally:
            self._lock.release()

    return cast(Method, guarded)


def async_exclusive(method: Method) -> Method:
    """`exclusive` for a coroutine method."""

    @wraps(method)
    async def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._lock.acquire(blocking=False):
            raise _busy(self)
        try:
            return await method(self, *args, **kwargs)
        finally:
            self._lock.release()

    return cast(Method, guarded)


def _busy(vec: object) -> VecEnvBusy:
    return VecEnvBusy(f"Another call on {vec} is in progress; wait for it, or give each thread or task its own.")
