"""What a worker process does to itself before it builds anything."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from multiprocessing import parent_process
from multiprocessing.connection import wait

import numpy as np

#: set when the caller has died
caller_has_died = threading.Event()
GRACE = 5.0  # seconds that a worker whose caller has died has for ending by itself
#: workers share the cores; a library that starts one thread per core in each of them slows all of them down
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def prepare_process(entropy: Sequence[int]) -> None:
    """Leave Ctrl-C to the caller, end with the caller, seed the global generators, take one thread.

    Args:
        entropy: of the seeds; one sequence per worker.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it goes to every process of the terminal; the caller decides
    threading.Thread(target=_end_with_the_caller, name="sekai-watch", daemon=True).start()
    prepare_libraries(entropy)


def prepare_libraries(entropy: Sequence[int]) -> None:
    """Seed the global generators, take one thread.

    Args:
        entropy: of the seeds; one sequence per worker.
    """
    words = np.random.SeedSequence(entropy).generate_state(8)
    random.seed(words[:4].tobytes())
    np.random.seed(words[4:])
    _take_one_thread()


def _end_with_the_caller() -> None:
    """End this process when the caller has died, and the worker, hung in an environment, does not notice."""
    caller = parent_process()
    if caller is not None:
        wait([caller.sentinel])
        caller_has_died.set()
        time.sleep(GRACE)
        os._exit(1)


def _take_one_thread() -> None:
    """One thread for what is loaded already and what will be, unless the user has said how many."""
    if any(name in os.environ for name in _THREADS):
        return
    for name in _THREADS:
        os.environ[name] = "1"
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
