"""Ctrl-C while a collector is at work, at whatever moment: rows may be lost, and none is wrong."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import sekai
from sekai.collect import Collector
from tests.collect.test_overlapped_faults import LOST, act, check_coded, check_counters
from tests.contract.envs import build
from tests.vector.test_overlapping_process import Interrupts

WAYS: dict[str, dict[str, Any]] = {
    "together": {},
    "shared": {"share_observations": True},
    "overlapped": {"min_slots": 1},
}


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one that comes in a finalizer
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["same_step", "next_step"])
@pytest.mark.parametrize("backend", ["sync", "async", "proc"])
def test_interrupts_at_any_moment_make_no_wrong_row(backend: str, mode: str, way: str) -> None:
    interrupts = Interrupts(5, mean=0.0005)
    with build(backend, mode, (5, 7, 10**6)) as vec, interrupts.running():
        collector = Collector(vec, act, fragment_length=8, **WAYS[way])
        collector.reset(seed=0)
        fragments: list[Any] = []
        undisturbed, begin_anew = 0, False
        while undisturbed < 2:  # fragments after the last interrupt
            last = interrupts.count >= 120
            try:
                if not last:
                    interrupts.arm()
                if begin_anew:
                    collector.reset()
                    begin_anew = False
                fragment = collector.collect()
                interrupts.armed = False
            except KeyboardInterrupt:
                continue
            except sekai.ResetRequired:  # the interrupt before this call came in the middle of a reset
                interrupts.armed = False
                begin_anew = True
                continue
            fragments.append(fragment)
            undisturbed += last
        assert check_coded(fragments) > 8 and fragments[-1].kind.max() < LOST
        check_counters(collector)
