"""`Counters`: what a collector has received, by what it was."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import RowKind

_TERMINATED, _TRUNCATED, _RESET, _FROZEN, _LOST = (
    int(kind) for kind in (RowKind.TERMINATED, RowKind.TRUNCATED, RowKind.RESET, RowKind.FROZEN, RowKind.LOST)
)


@dataclass
class Counters:
    """Counts since a collector was made. `valid + reset_only + frozen + lost == rows`, always.

    Attributes:
        calls: calls that returned rows: of `step`, and with `min_slots` of `recv`.
        rows: rows that they returned, one per slot, and with `min_slots` one per slot that had come back.
        valid: transitions among them: an action was executed, and its outcome is known.
        reset_only: rows in which a slot was reset and no action executed (next_step).
        frozen: rows of slots that waited for a reset (disabled).
        lost: rows after one that was never seen.
        terminated: episodes that ended by termination, those with both flags among them.
        truncated: episodes that ended by truncation alone.
        failed_calls: calls that raised, or whose rows were not kept.
        failed_rows: rows of those calls that nobody will see; they are in none of the counts above.
        fragments: fragments returned.
        environment_seconds: wall time inside calls of the environment, resets included, but for `waiting_seconds`.
        policy_seconds: wall time inside the policy.
        waiting_seconds: with `min_slots`, wall time inside calls of `recv` during which some slot stood idle, since it
            had all its rows of the fragment and others had not. Calls that move all slots together do not tell it
            apart: there it stands in `environment_seconds`.
    """

    calls: int = 0
    rows: int = 0
    valid: int = 0
    reset_only: int = 0
    frozen: int = 0
    lost: int = 0
    terminated: int = 0
    truncated: int = 0
    failed_calls: int = 0
    failed_rows: int = 0
    fragments: int = 0
    environment_seconds: float = 0.0
    policy_seconds: float = 0.0
    waiting_seconds: float = 0.0

    def count(self, kind: NDArray[np.int8], plain: bool) -> None:
        """Count the rows of one call; `plain` says that each is a `STEP`."""
        size = len(kind)
        if plain:
            self.calls += 1
            self.rows += size
            self.valid += size
            return
        by_kind = np.bincount(kind, minlength=len(RowKind)).tolist()
        valid = sum(by_kind[: RowKind.TRUNCATED + 1])
        # no call from here on: an interrupt comes in a call, and must not come between counts that belong together
        self.calls += 1
        self.rows += size
        self.valid += valid
        self.terminated += by_kind[_TERMINATED]
        self.truncated += by_kind[_TRUNCATED]
        self.reset_only += by_kind[_RESET]
        self.frozen += by_kind[_FROZEN]
        self.lost += by_kind[_LOST]

    def count_failed(self, num_slots: int) -> None:
        """Count a call whose rows were not kept."""
        self.failed_calls += 1
        self.failed_rows += num_slots
