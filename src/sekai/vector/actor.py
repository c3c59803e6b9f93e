"""What runs in a Ray actor: a share of the slots, answering numbered requests.

An answer may be lost on its way, and then the caller does not know whether the request was executed. It asks again
under the same number, and a number that was answered before gets the same answer, without anything being executed.

Ray is not needed here: it makes an actor of the class, and turns what the caller put into its store into arrays.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.vector.child import prepare_libraries
from sekai.vector.maps import is_large
from sekai.vector.share import Share
from sekai.vector.worker import build_share, obeyed
from sekai.vector.worker_replies import Reply, pack_value

#: the arrays that belong to what is being unpickled
_arrays: tuple[NDArray[Any], ...] = ()


class ShareActor:
    """A share of the slots."""

    def __init__(self) -> None:
        self._share: Share | None = None
        self._last: Reply | None = None

    def begin(
        self, build: bytes, first_slot: int, count: int, entropy: tuple[int, ...], *arrays: NDArray[Any]
    ) -> tuple[int, Reply]:
        """Build the share, and say what it is; also the process id.

        Args:
            build: pickle of a function of the first slot that builds the `Share`.
            first_slot, count: the slots of the share.
            entropy: what the global random generators of this process are seeded with.
            arrays: the large ones that were left out of `build`.
        """
        if self._last is None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller decides
            prepare_libraries(entropy)
            global _arrays
            _arrays = arrays
            try:
                self._share, value = build_share(build, first_slot)
            finally:
                _arrays = ()
            self._last = Reply(0, pack_value(value), np.zeros(count, np.int8), [-1] * count)
        return os.getpid(), self._last

    def serve(self, request: bytes) -> Reply:
        """Execute a request, unless it was the last one already, and answer it."""
        number, command, packed = pickle.loads(request)
        share = self._share
        assert self._last is not None and share is not None, "begin() comes first"
        if number != self._last.number:
            try:
                value = obeyed(share, command, packed)
            except KeyboardInterrupt:  # Ray would take it for a call that was cancelled, and go on
                raise SystemExit(1) from None
            self._last = Reply(number, pack_value(value), share.phase.copy(), list(share.episode))
        return self._last


class StoredArrays:
    """Large arrays on their way to actors: stored once, and left out of what is pickled.

    The actors share one copy on each machine, which cannot be written to.

    Args:
        put: stores an array, and returns a reference to it.
    """

    def __init__(self, put: Callable[[NDArray[Any]], Any]) -> None:
        self._put = put
        self._known: dict[int, tuple[NDArray[Any], Any]] = {}  # the arrays are kept, so that no id comes twice
        self._used: list[Any] = []

    def reduce(self, value: Any) -> tuple[Any, ...] | None:
        """How to pickle `value`: as the place of its reference for a large array, None for everything else."""
        if not is_large(value):
            return None
        if id(value) not in self._known:
            self._known[id(value)] = value, self._put(value)
        self._used.append(self._known[id(value)][1])
        return stored_array, (len(self._used) - 1,)

    def taken(self) -> list[Any]:
        """References to the arrays left out since the last call, in the order of their places."""
        used, self._used = self._used, []
        return used


def stored_array(place: int) -> NDArray[Any]:
    """An array that was left out, where the actor is being built."""
    return _arrays[place]
