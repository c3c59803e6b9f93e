"""A worker is killed in the middle of a fragment: what is collected before, in and after the call that lost it.

Slots 0 and 1 live in the worker that dies, 2 and 3 in the other. Environments built anew count their episodes from
100 times the number of earlier ones, so that no row of theirs can be taken for one of before.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from sekai.collect import Collector, Decision, Fragment
from tests.collect.envs import MODES, CodedPolicy, Script, ScriptedEnv, by_hand
from tests.collect.test_truth import check_marks, check_memory, transitions
from tests.vector.test_process import gone

SCRIPTS: list[Script] = [
    [(5, "truncated"), (3, "terminated")],
    [(2, "terminated")],
    [(3, "both"), (1, "truncated")],
    [(4, "truncated"), (2, "terminated")],
]
LENGTH, KILL = 7, 10
LOST, STEP, TERM, TRUNC = (int(kind) for kind in (RowKind.LOST, RowKind.STEP, RowKind.TERMINATED, RowKind.TRUNCATED))

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")


class Mortal(ScriptedEnv):
    """Is killed by action 10; its episodes tell how many were built before it."""

    def __init__(self, slot: int, folder: Path) -> None:
        super().__init__(slot, SCRIPTS[slot])
        self.action_space = sekai.Discrete(KILL + 1)
        with open(folder / str(slot), "a", encoding="ascii") as file:
            self.episode = 100 * file.tell() - 1
            file.write(".")

    def step(self, action: Any) -> sekai.StepResult:
        if action == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)

    def where(self) -> int:
        """The process it lives in."""
        return os.getpid()


class Killing(CodedPolicy):
    """In its call number `at`, as it acts, something happens to the first worker."""

    def __init__(self, at: int, kill: Callable[[Any], None]) -> None:
        super().__init__()
        self.at, self.kill = at, kill

    def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
        decision = super().act(observations, state, episode_start)
        if len(self.starts) == self.at + 1:
            self.kill(decision.actions)
        return decision


def killing(vec: Any, how: str) -> Callable[[Any], None]:
    """Between two calls from outside, or by the environment within the call."""

    def from_outside(actions: Any) -> None:
        pid = vec.call("where")[0]
        os.kill(pid, signal.SIGKILL)
        assert gone(pid)

    def within(actions: Any) -> None:
        actions[0] = KILL

    return {"between calls": from_outside, "within a call": within}[how]


def mortals(folder: Path, mode: str) -> sekai.ProcVecEnv:
    return sekai.ProcVecEnv(
        [lambda slot=slot: Mortal(slot, folder) for slot in range(4)],  # type: ignore[misc]
        autoreset=mode,
        num_workers=2,
        on_worker_loss="restart",
    )


def test_a_loss_written_out(tmp_path: Path) -> None:
    with mortals(tmp_path, "same_step") as vec:
        collector = Collector(vec, Killing(3, killing(vec, "within a call")), fragment_length=LENGTH, values=True)
        fragment = collector.collect()
    assert fragment.kind.T.tolist() == [
        [STEP, STEP, STEP, LOST, STEP, STEP, STEP],
        [STEP, TERM, STEP, LOST, STEP, TERM, STEP],
        [STEP, STEP, TERM, TRUNC, STEP, STEP, TERM],
        [STEP, STEP, STEP, TRUNC, STEP, TERM, STEP],
    ]
    places = fragment.observations.astype(int)
    assert places[:, 0].tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 0, 3], [0, 100, 0], [0, 100, 1], [0, 100, 2]]
    assert places[:, 1].tolist() == [[1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1], [1, 100, 0], [1, 100, 1], [1, 101, 0]]
    after = fragment.next_observations().astype(int)
    assert after[[0, 1, 2, 4, 5, 6], 0].tolist() == [
        [0, 0, 1], [0, 0, 2], [0, 0, 3], [0, 100, 1], [0, 100, 2], [0, 100, 3],
    ]  # fmt: skip
    assert after[[1, 2, 5, 6], 1].tolist() == [[1, 0, 2], [1, 1, 1], [1, 100, 2], [1, 101, 1]]
    assert fragment.episode_id.T.tolist() == [  # slot + 4 * episodes of the slot before
        [0, 0, 0, -1, 4, 4, 4],
        [1, 1, 5, -1, 9, 9, 13],
        [2, 2, 2, 6, 10, 10, 10],
        [3, 3, 3, 3, 7, 7, 11],
    ]
    assert fragment.step_index[:, 0].tolist() == [0, 1, 2, -1, 0, 1, 2]
    assert fragment.episode_start[:, 0].tolist() == [True, False, False, False, True, False, False]
    assert fragment.cut[:, 0].tolist() == [False, False, True, False, False, False, True]
    assert fragment.bootstrap[:, 0].tolist() == [True, True, True, False, True, True, True]
    assert fragment.trace[:, 0].tolist() == [True, True, False, False, True, True, False]
    assert fragment.trace[:, 1].tolist() == [True, False, False, False, True, False, False]
    assert fragment.cut[:, 2:].sum() == 1, "of the survivors only slot 3, which is under way at the end"
    assert fragment.extras["before"][[0, 1, 2, 4, 5, 6], 0].tolist() == [0, 1, 3, 0, 1, 3]
    counters = collector.counters
    assert (counters.rows, counters.valid, counters.lost, counters.failed_calls) == (28, 26, 2, 0)
    assert (counters.terminated, counters.truncated) == (5, 2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("how", "calls"), [("between calls", (1, 5)), ("within a call", (0, 2, 6))])
def test_the_rows_of_the_other_worker_are_right_throughout_whenever_one_is_lost(
    how: str, calls: tuple[int, ...], mode: str, tmp_path: Path
) -> None:
    """In next_step mode slot 1 waits for its reset in call 2, slot 0 in call 5."""
    with mortals(tmp_path, mode) as vec:
        for restarts, at in enumerate(calls, 1):
            policy = Killing(at, killing(vec, how))
            collector = Collector(vec, policy, fragment_length=LENGTH, values=True, state_stride=2)
            collector.reset(options={"script": SCRIPTS})
            fragments = [collector.collect() for _ in range(2)]
            check_fragments(fragments, at, restarts)
            check_counters(collector, fragments)
            assert vec.worker_restarts == restarts


def check_fragments(fragments: list[Fragment], at: int, restarts: int) -> None:
    kind = np.concatenate([fragment.kind for fragment in fragments])
    assert np.argwhere(kind == LOST).tolist() == [[at, 0], [at, 1]]
    for fragment in fragments:
        check_marks(fragment)
        check_memory(fragment)
    ids: dict[int, tuple[float, float]] = {}
    for slot, script in enumerate(SCRIPTS):
        found = [row for fragment in fragments for row in transitions(fragment, slot)]
        lives = 0 if slot > 1 else 100 * restarts
        before = sum(row.observation[1] < max(lives, 100) for row in found)
        expected = list(islice(by_hand(slot, script), before))
        assert found == expected + list(islice(by_hand(slot, script, lives), len(found) - before))
        assert before == (kind[: at if slot < 2 else None, slot] <= TRUNC).sum()
        for fragment in fragments:
            for t in np.flatnonzero(fragment.valid[:, slot]):
                place = tuple(fragment.observations[t, slot, :2].tolist())
                assert ids.setdefault(int(fragment.episode_id[t, slot]), place) == place
    assert len(set(ids.values())) == len(ids), "two ids for one episode"


def check_counters(collector: Collector, fragments: list[Fragment]) -> None:
    counters = collector.counters
    kinds = np.concatenate([fragment.kind for fragment in fragments])
    counted = (counters.valid, counters.reset_only, counters.frozen, counters.lost)
    assert sum(counted) == counters.rows == kinds.size == 4 * 2 * LENGTH
    assert counted == ((kinds <= TRUNC).sum(), (kinds == RowKind.RESET).sum(), 0, 2)
    assert (counters.terminated, counters.truncated) == ((kinds == TERM).sum(), (kinds == TRUNC).sum())
    assert counters.failed_calls == counters.failed_rows == 0
