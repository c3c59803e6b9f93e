"""What a worker answers, whichever way the answer travels."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.vector.failure import Failure
from sekai.vector.pickling import dumps


class Reply(NamedTuple):
    """The answer to one request.

    Attributes:
        number: of the request.
        packed: pickle of what the command returned, or of a `Failure`; on its own, so that the rest can be read where
            this cannot. None: it returned None.
        phase: phase of each slot of the share, int8.
        episode: episodes begun by each slot of the share since construction, less one.
    """

    number: int
    packed: bytes | None
    phase: NDArray[np.int8]
    episode: Any

    def open(self) -> Any:
        """What the command returned, or a `Failure`, also where it cannot be unpickled."""
        if self.packed is None:
            return None
        try:
            return pickle.loads(self.packed)
        except Exception as error:
            error.add_note("raised while unpickling what the sub-env returned")
            return Failure.of(error)


def pack_value(value: Any) -> bytes | None:
    """What a command returned, pickled; a `Failure` where it cannot be."""
    if value is None:
        return None
    try:
        return dumps(value)
    except Exception as error:
        error.add_note("what the sub-env returned cannot be sent to the calling process")
        return pickle.dumps(Failure.of(error))
