"""`Failure`: an exception of another process, described as data."""

from __future__ import annotations

import traceback
from typing import NamedTuple

from sekai.vector.blame import blamed_slot


class Failure(NamedTuple):
    """An exception of a worker, or its end.

    Attributes:
        slot: index of the sub-environment that raised it, None when no single one is to blame.
        kind: class name of the exception.
        message: its text.
        trace: its formatted traceback.
        death: the worker has ended, or cannot be reached.
    """

    slot: int | None
    kind: str
    message: str
    trace: str
    death: bool = False

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an exception, also one that cannot describe itself."""
        try:
            message, trace = str(error), "".join(traceback.format_exception(error))
        except Exception as second:
            message, trace = f"(its text raised {type(second).__name__})", ""
        return cls(blamed_slot(error), type(error).__name__, message, trace)
