"""Pickling for other processes: pickle where it can, cloudpickle for functions and classes of the caller's script."""

from __future__ import annotations

import io
import pickle
from typing import Any

from sekai.vector.maps import Arrays


def dumps(message: Any) -> bytes:
    """Pickle `message`, by value what pickle cannot; `pickle.loads` reads it back.

    Raises:
        Exception: what cannot be pickled. An open file is refused as well: cloudpickle would send a copy of what it
            holds, which is hardly what was meant.
    """
    try:
        return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    except Exception:
        return dumps_by_value(message)


def dumps_by_value(message: Any, arrays: Arrays | None = None) -> bytes:
    """Pickle with cloudpickle: functions and classes of the main module travel whole.

    pickle would send their names, which another process knows only where a script is run as a file; not from a
    notebook, a prompt or `python -c`.

    Args:
        message: what to pickle.
        arrays: where large arrays go; None: they are pickled like all else.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, io.IOBase):
                raise pickle.PicklingError(f"{value!r} is open in this process only; send its path instead.")
            left_out = None if arrays is None else arrays.reduce(value)
            return super().reducer_override(value) if left_out is None else left_out

    buffer = io.BytesIO()
    Pickler(buffer).dump(message)
    return buffer.getvalue()
