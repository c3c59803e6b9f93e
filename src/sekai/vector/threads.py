"""Blocking calls awaited: in a thread, while the event loop goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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
