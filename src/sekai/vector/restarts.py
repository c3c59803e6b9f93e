"""`Restarts`: what is kept of a vector environment so that a lost worker can be replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sekai.seeding import Seed

IN_A_ROW = 3  # replacements of one worker without a call that it answers in between
BACK_OFF = 0.1  # seconds before the second replacement in a row; doubled for the third


class Restarts:
    """Counts replacements, and knows with which seeds and attributes a replacement begins.

    Args:
        num_envs, num_workers: sizes.

    Attributes:
        total: replacements so far.
        attributes: values set through `set_attr`, one per slot, by name.
    """

    def __init__(self, num_envs: int, num_workers: int) -> None:
        self.total = 0
        self.attributes: dict[str, list[Any]] = {}
        self._in_a_row = [0] * num_workers
        self._seeds: list[Seed] = [None] * num_envs
        self._begun = [0] * num_envs  # replacements of each slot since it was seeded

    def seeded(self, slots: Sequence[int], seeds: Sequence[Seed]) -> None:
        """These slots were reset with these seeds, one for each slot of the vector environment."""
        for slot in slots:
            if seeds[slot] is not None:
                self._seeds[slot], self._begun[slot] = seeds[slot], 0

    def answered(self, worker: int) -> None:
        """The worker lives."""
        self._in_a_row[worker] = 0

    def delay(self, worker: int) -> float | None:
        """Seconds to wait before this worker is replaced; None: too often in a row already."""
        self._in_a_row[worker] += 1
        again = self._in_a_row[worker] - 1
        if again >= IN_A_ROW:
            return None
        self.total += 1
        return BACK_OFF * 2 ** (again - 1) if again else 0.0

    def fresh_seeds(self, lo: int, hi: int) -> list[Seed]:
        """Seeds of the slots `[lo, hi)` in a new worker: children of those they were reset with.

        A slot that was never given a seed of its own gets fresh entropy.
        """
        seeds: list[Seed] = []
        for slot in range(lo, hi):
            self._begun[slot] += 1
            given = self._seeds[slot]
            entropy = given if isinstance(given, int) else None
            child = np.random.SeedSequence(entropy, spawn_key=(self._begun[slot],))
            seeds.append(int(child.generate_state(1, np.uint64)[0] >> np.uint64(1)))
        return seeds
