"""Overlapped steps of slots in worker processes: the worker's end.

While a worker answers the request "slots", it steps single slots. What it is asked and what it answers goes through the
pipe, past its desk: messages `[(slot, pickle of action and options), ...]`, for each entry a `Reply` with the number
`~slot` as soon as the slot has been stepped, and `END`, after which it answers the request itself. So every other call
finds the workers as it knows them, once the caller has read the rows and sent `END`.
"""

from __future__ import annotations

import pickle
from multiprocessing.connection import Connection
from typing import Any

from sekai.vector.failure import Failure
from sekai.vector.share import Share
from sekai.vector.worker_replies import Reply, pack_value

END = pickle.dumps(None)


def serve_slots(share: Share, pipe: Connection) -> bool:
    """Step the slots that the caller asks for; False when it is gone."""
    while True:
        try:
            message = pickle.loads(pipe.recv_bytes())
            if message is None:
                return True
            for slot, packed in message:
                value: Any
                try:
                    value = share.step_slot(slot, *pickle.loads(packed))
                except Exception as error:
                    value = Failure.of(error)
                reply = Reply(~slot, pack_value(value), share.phase[slot], share.episode[slot])
                pipe.send_bytes(pickle.dumps(reply))
        except (EOFError, ConnectionError):
            return False
