"""Blocking calls awaited: in a thread, while the event loop goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Executor


async def in_thread(call: Callable[[], Any], unseen: Callable[[Any], None]) -> Any:
    """Await a blocking call. When this is cancelled, it waits for the call to end before it lets go.

    Args:
        call: without arguments.
        unseen: gets the result when nobody else does.
    """
    import asyncio

    work = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if not work.cancelled():
            await asyncio.wait([work])
            if work.exception() is None:
                unseen(work.result())
        raise


async def to_the_end(pool: Executor, call: Callable[[], None]) -> None:
    """Await a blocking call in a thread of `pool`. However often this is cancelled, it ends when the call has."""
    import asyncio

    work = asyncio.get_running_loop().run_in_executor(pool, _raised_by, call)
    stop: BaseException | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            stop = error
    error_of_call = work.result()
    if stop is not None:
        raise stop from error_of_call
    if error_of_call is not None:
        raise error_of_call


def _raised_by(call: Callable[[], None]) -> BaseException | None:
    """What a call raised; handed over, since a future cannot hold every exception."""
    try:
        call()
    except BaseException as error:
        return error
    return None
