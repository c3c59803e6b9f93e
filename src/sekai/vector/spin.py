"""A short look before going to sleep.

To wake a process that sleeps on a semaphore takes longer than a step of many an environment: tens of microseconds on
each side. So whoever waits looks at the board for a moment first, and leaves its core to others between two looks.
"""

from __future__ import annotations

import os
import time

SECONDS = 400e-6  # long enough for the steps that are so short that waking would cost more
_leave_core = getattr(os, "sched_yield", lambda: time.sleep(0))


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def changes(control: memoryview, at: int, old: int) -> bool:
    """Whether `control[at]` becomes something else than `old` in a moment."""
    stop = time.perf_counter() + SECONDS
    while control[at] == old:
        if time.perf_counter() > stop:
            return False
        _leave_core()
    return True
